//! Variables as text: [`explain`] for one, [`table`] for all.

use std::fmt::Write;

use super::{Kind, Variable, Word, all};

/// What is known of a variable, as lines for a terminal.
#[must_use]
pub fn explain(variable: &Variable) -> String {
    let mut text = format!("{}\n  {}\n\n", variable.name, variable.meaning);
    let mut line = |name: &str, value: &str| _ = writeln!(text, "  {name:<9} {value}");
    line("value", &values(&variable.kind));
    if let Some(default) = &variable.default {
        line("default", default);
    }
    line("read", &variable.read.to_string());
    if !variable.acts_on.is_empty() {
        line("acts on", &variable.acts_on.join(", "));
    }
    line("seen in", &seen_in(variable));
    line("versions", &versions(variable));
    if let Some(replaced) = &variable.replaced {
        line("instead", &format!("{} (since {})", replaced.by, replaced.since));
    }
    line("source", &variable.link());
    text
}

/// All variables as a Markdown document, which `docs/nccl-variables.md` holds.
#[must_use]
pub fn table() -> String {
    let mut text = String::from(
        "# NCCL's variables\n\n\
         What `ncclsweep` knows of them; made from `src/nccl/catalogue/*.toml`, do not edit.\n\
         *Seen in* says where a setting leaves a trace in what NCCL used; without one only NCCL's log tells that it was read.\n\n\
         | variable | value | default | read | seen in | versions | meaning |\n|---|---|---|---|---|---|---|\n",
    );
    for variable in all() {
        let cells = [
            format!("[`{}`]({})", variable.name, variable.link()),
            values(&variable.kind),
            variable.default.clone().unwrap_or_default(),
            variable.read.to_string(),
            seen_in(variable),
            versions(variable),
            variable.meaning.clone(),
        ];
        _ = writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text
}

/// What a value can be, in a few words.
pub(crate) fn values(kind: &Kind) -> String {
    let joined = |words: &[Word], separator: &str| {
        let shown = words.iter().map(|word| match word.since {
            Some(since) => format!("{} (since {since})", word.text),
            None => word.text.clone(),
        });
        shown.collect::<Vec<_>>().join(separator)
    };
    match kind {
        Kind::Algorithms => "list of algorithms: Ring,Tree or ^Tree; since 2.24 also AllReduce:Ring;…".to_owned(),
        Kind::Protocols => "list of protocols: LL,Simple or ^LL128; since 2.24 also AllReduce:LL;…".to_owned(),
        Kind::Level => "LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS, in capitals".to_owned(),
        Kind::Integer { unit, min, max, step } => {
            let bounds = match (min, max) {
                (Some(min), Some(max)) => format!(", {min} to {max}"),
                (Some(min), None) => format!(", {min} or more"),
                (None, Some(max)) => format!(", up to {max}"),
                (None, None) => String::new(),
            };
            let step = step.map(|step| format!(", a multiple of {step}")).unwrap_or_default();
            format!("integer ({unit}{bounds}{step})")
        }
        Kind::Switch(values) => values.iter().map(i64::to_string).collect::<Vec<_>>().join(" or "),
        Kind::Exact1 => "1; anything else counts as not set".to_owned(),
        Kind::Boolean => "0 or 1".to_owned(),
        Kind::Words { of, separator: Some(separator), .. } => format!("{}, joined by {separator}", joined(of, " ")),
        Kind::Words { of, .. } => joined(of, " or "),
        Kind::Flags(of) => format!("{}, joined by commas; with ^ first all others", joined(of, " ")),
        Kind::Interfaces => "interfaces: prefixes, =names, ^excluded".to_owned(),
        Kind::Adapters => "adapters: prefixes, =names, ^excluded, name:port".to_owned(),
        Kind::Read => "a file that exists".to_owned(),
        Kind::Write => "a file to write".to_owned(),
        Kind::Plugin => "a library, a suffix, or none".to_owned(),
        Kind::Text => "text".to_owned(),
    }
}

fn seen_in(variable: &Variable) -> String {
    if variable.trace.is_empty() {
        return "no trace".to_owned();
    }
    variable.trace.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn versions(variable: &Variable) -> String {
    match (variable.since, variable.until) {
        (None, None) => "all".to_owned(),
        (Some(since), None) => format!("since {since}"),
        (None, Some(until)) => format!("up to {until}"),
        (Some(since), Some(until)) => format!("{since} to {until}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::catalogue::get;

    #[test]
    fn an_explanation_names_all_that_is_known() {
        insta::assert_snapshot!(explain(get("NCCL_MAX_NCHANNELS").unwrap()), @r"
        NCCL_MAX_NCHANNELS
          Most channels to set up.

          value     integer (channels, 1 or more)
          read      once per process
          seen in   channels
          versions  all
          instead   NCCL_MAX_CTAS (since 2.17.0)
          source    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-max-nchannels
        ");
    }

    #[test]
    fn the_documentation_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/nccl-variables.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, table()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == table(), "docs/nccl-variables.md is stale: run the tests with UPDATE_DOCS=1");
    }
}
