//! NCCL libraries, configuration files, and the environment that every process started from here gets.

use super::super::conf;
use super::super::files::Root;
use super::{Check, Facts, Library};
use crate::nccl::check::{self, Context, Severity, ThisBox};

pub(super) fn checks(root: Root, facts: &Facts) -> Vec<Check> {
    vec![libraries(facts), conf::files_here(root, facts), environment(facts)]
}

fn libraries(facts: &Facts) -> Check {
    let name = "NCCL libraries";
    let shown = |library: &Library| {
        let version = library.version.map_or_else(|| "version not told".to_owned(), |version| version.to_string());
        format!("{version} {} (by {})", library.path, library.by)
    };
    let all: Vec<_> = facts.libraries.iter().map(shown).collect();
    let Some((first, others)) = all.split_first() else {
        return Check::unknown(name, format!("none found in {}", facts.places))
            .next("--nccl PATH names one; `pip install nvidia-nccl-cu13` brings one");
    };
    let differ = facts.libraries.iter().any(|library| library.version != facts.libraries[0].version);
    let check =
        Check::ok(name, format!("taken: {first}")).also(others.iter().map(|other| format!("also there: {other}")));
    match differ {
        true => Check { status: super::super::Status::Warning, ..check }
            .next("`doctor --python PATH` tells which one a server's environment loads, `doctor --pid N` which one a server has loaded"),
        false => check,
    }
}

/// Variables that lie under every env set, and under every server started from here.
fn environment(facts: &Facts) -> Check {
    let name = "base environment";
    let ours = |(name, _): &&(String, String)| name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("NCCL_"));
    let loader = |(name, _): &&(String, String)| name == "LD_PRELOAD";
    let settings: Vec<check::Setting> = facts
        .environment
        .iter()
        .filter(ours)
        .map(|(name, value)| check::Setting {
            name: name.clone(),
            value: value.clone(),
            origin: "environment".to_owned(),
        })
        .collect();
    let mut evidence: Vec<String> =
        settings.iter().map(|setting| format!("{}={}", setting.name, setting.value)).collect();
    evidence.extend(facts.environment.iter().filter(loader).map(|(name, value)| format!("{name}={value}")));
    let context = Context { version: facts.version(), allow_unknown: false, facts: &ThisBox::default() };
    let findings = check::check(&settings, &context);
    let mut check = match () {
        () if findings.iter().any(|finding| finding.severity == Severity::Error) => {
            Check::fault(name, evidence.join(" "))
        }
        () if !settings.is_empty() => Check::warning(name, evidence.join(" "))
            .next("they lie under every env set and every server started from here; `--clean-env` drops them"),
        () if !evidence.is_empty() => Check::ok(name, evidence.join(" ")),
        () => Check::ok(name, "no NCCL_ variable is set"),
    };
    for finding in findings {
        check.evidence.push(finding.to_string());
        check.next.extend(finding.help.map(|help| format!("{}: {help}", finding.variable)));
    }
    check
}
