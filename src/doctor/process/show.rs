//! The checks of processes: like ones together.

use super::super::{Check, Status};
use super::compare::{self, pids};
use super::{Facts, Library};
use crate::nccl::check::{self, Context, Severity, UnknownBox};
use crate::nccl::is_variable;

pub fn checks(all: &[Facts]) -> Vec<Check> {
    let workers = compare::workers(all);
    let mut checks = vec![overview(all, &workers)];
    for like in groups(all) {
        checks.push(group(&like));
    }
    if workers.len() > 1 {
        checks.push(compare::libraries(&workers));
        checks.extend(compare::variables(&workers));
    }
    checks.extend(compare::inheritance(all, &workers));
    checks
}

fn overview(all: &[Facts], workers: &[&Facts]) -> Check {
    let name = "processes";
    let with: Vec<u32> = all.iter().filter(|facts| !facts.nccl.is_empty()).map(|facts| facts.pid).collect();
    let unseen = all.iter().filter(|facts| facts.unmapped.is_some()).count();
    let shown = format!("{} looked at, {} with NCCL", all.len(), with.len());
    match () {
        () if !with.is_empty() && workers.len() < with.len() => {
            let workers: Vec<u32> = workers.iter().map(|facts| facts.pid).collect();
            Check::ok(name, shown).also([format!("workers, with none below them that has NCCL: {}", pids(&workers))])
        }
        () if !with.is_empty() => Check::ok(name, shown),
        () if unseen == all.len() => {
            Check::unknown(name, format!("{} looked at; none lets its mapped files be read", all.len()))
                .next("run it as the user of the server, or as root")
        }
        () => Check::unknown(name, shown).next(
            "NCCL is loaded with the first collective or import, or is linked in: ask again when the server is up",
        ),
    }
}

/// Processes of which the same is known, in the order of the first of each.
fn groups(all: &[Facts]) -> Vec<Vec<&Facts>> {
    type Key<'a> = (&'a [Library], Vec<&'a (String, String)>, &'a [String], [Option<&'a String>; 2], bool);
    fn key(facts: &Facts) -> Key<'_> {
        let nccl = facts.variables.iter().filter(|(name, _)| is_variable(name) || name == "LD_PRELOAD");
        let files = facts.files.as_slice();
        (&facts.nccl, nccl.collect(), files, [facts.hidden.as_ref(), facts.unmapped.as_ref()], facts.forked)
    }
    let mut groups: Vec<Vec<&Facts>> = Vec::new();
    for facts in all {
        match groups.iter_mut().find(|group| key(group[0]) == key(facts)) {
            Some(group) => group.push(facts),
            None => groups.push(vec![facts]),
        }
    }
    groups
}

fn group(like: &[&Facts]) -> Check {
    let facts = like[0];
    let ids: Vec<u32> = like.iter().map(|facts| facts.pid).collect();
    let mut check = Check::ok(pids(&ids), format!("{} (parent {})", facts.command, facts.parent));
    check.evidence.extend(facts.nccl.iter().map(library));
    let worse = |check: &mut Check, status: Status| check.status = check.status.max(status);
    match (&facts.unmapped, facts.nccl.len()) {
        (Some(why), _) => {
            check.evidence.push(why.clone());
            worse(&mut check, Status::Unknown);
        }
        (None, 0) => check.evidence.push("no libnccl mapped".to_owned()),
        (None, 1) => {}
        (None, _) => {
            worse(&mut check, Status::Warning);
            check.next.push(
                "two libraries in one process: find out who brings the second (LD_PRELOAD, a wheel, LD_LIBRARY_PATH)"
                    .to_owned(),
            );
        }
    }
    if facts.nccl.iter().any(|library| library.deleted) {
        worse(&mut check, Status::Warning);
        check
            .next
            .push("the library was replaced since it was loaded: restart the server to get the new one".to_owned());
    }
    check.evidence.extend((!facts.plugins.is_empty()).then(|| format!("plugins: {}", facts.plugins.join(", "))));
    environment(&mut check, facts);
    check
}

fn library(library: &Library) -> String {
    let version = library.version.map_or_else(|| "of a version not told".to_owned(), |version| version.to_string());
    format!("NCCL {version} {}{}", library.path, if library.deleted { ", since removed or replaced" } else { "" })
}

/// What the process was started with and what files add.
fn environment(check: &mut Check, facts: &Facts) {
    if let Some(why) = &facts.hidden {
        check.status = check.status.max(Status::Unknown);
        check.evidence.push(format!("variables not known: {why}"));
        check
            .next
            .push("`ncclsweep audit -- COMMAND` starts a server and tells what each of its processes has".to_owned());
        return;
    }
    let shown = |wanted: fn(&str) -> bool| {
        let of = facts.variables.iter().filter(|(name, _)| wanted(name));
        of.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    let nccl = shown(|name| is_variable(name) || name == "LD_PRELOAD");
    let at = if facts.forked { "forked, so of its ancestor at exec" } else { "at exec" };
    check.evidence.push(if nccl.is_empty() { format!("{at}: no NCCL_ variable") } else { format!("{at}: {nccl}") });
    let from_files: Vec<_> = facts
        .effective
        .iter()
        .filter(|setting| setting.origin != "environment")
        .map(|setting| format!("{}={} by {}", setting.name, setting.value, setting.origin))
        .collect();
    check.evidence.extend((!from_files.is_empty()).then(|| format!("from files: {}", from_files.join(", "))));
    if !facts.unreadable.is_empty() {
        check.status = check.status.max(Status::Unknown);
        check.evidence.extend(facts.unreadable.iter().cloned());
    }
    values(check, facts);
}

/// What NCCL would make of the values.
fn values(check: &mut Check, facts: &Facts) {
    let setting = |setting: &super::conf::Setting| check::Setting {
        name: setting.name.clone(),
        value: setting.value.clone(),
        origin: setting.origin.clone(),
    };
    let settings: Vec<_> = facts.effective.iter().map(setting).collect();
    let context = Context { version: facts.version(), allow_unknown: true, facts: &UnknownBox };
    for finding in check::check(&settings, &context) {
        let status = if finding.severity == Severity::Error { Status::Fault } else { Status::Warning };
        check.status = check.status.max(status);
        check.evidence.push(finding.to_string());
        check.next.extend(finding.help.map(|help| format!("{}: {help}", finding.variable)));
    }
}
