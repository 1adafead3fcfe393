//! The variables of every env set, checked against what the library would make of them before anything is started.

use std::fmt;

use super::environment::{Environment, Origin};
use crate::error::{Error, Result};
use crate::nccl::catalogue;
use crate::nccl::check::{BoxFacts, Context, Finding, Setting, Severity, check};
use crate::nccl::is_variable;
use crate::nccl::version::NcclVersion;
use crate::units;

/// What is wrong or doubtful about a variable, and in which sets.
#[derive(Clone, Debug, PartialEq)]
pub struct SetFinding {
    /// Names of the sets, in their order.
    pub sets: Vec<String>,
    /// What was found.
    pub finding: Finding,
}

/// How strict to be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leniency {
    /// Variables that the catalogue does not know are only warned of.
    pub allow_unknown: bool,
    /// Errors are only warned of.
    pub force: bool,
}

/// Checks the environments of the sets for one library. Findings that sets share stand once. What is inherited was not
/// asked for here, so it is never an error.
pub fn findings<'a>(
    sets: impl IntoIterator<Item = (&'a str, Environment)>,
    version: Option<NcclVersion>,
    facts: &dyn BoxFacts,
    leniency: Leniency,
) -> Vec<SetFinding> {
    let context = Context { version, allow_unknown: leniency.allow_unknown, facts };
    let mut all: Vec<SetFinding> = Vec::new();
    for (name, environment) in sets {
        // What is inherited without being NCCL's is everybody's.
        let counts = |(name, _, origin): &(&str, &str, Origin)| match origin {
            Origin::Tool => false,
            Origin::Inherited => is_variable(name),
            Origin::Base | Origin::Set | Origin::Rank => true,
        };
        let asked = environment.iter().filter(counts);
        let settings: Vec<Setting> = asked
            .map(|(name, value, origin)| Setting {
                name: name.to_owned(),
                value: value.to_owned(),
                origin: origin.to_string(),
            })
            .collect();
        for mut finding in check(&settings, &context) {
            let inherited = finding.origin == Origin::Inherited.to_string();
            if inherited && catalogue::foreign(&finding.variable).is_some() {
                // Container images bring such names along; nobody set them to change NCCL.
                continue;
            }
            if leniency.force || inherited {
                finding.severity = Severity::Warning;
            }
            match all.iter_mut().find(|known| known.finding == finding) {
                Some(known) => known.sets.push(name.to_owned()),
                None => all.push(SetFinding { sets: vec![name.to_owned()], finding }),
            }
        }
    }
    all
}

/// Fails with everything that is an error; gives the warnings otherwise.
pub fn refuse_errors(findings: Vec<SetFinding>) -> Result<Vec<SetFinding>> {
    let (errors, warnings): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|found| found.finding.severity == Severity::Error);
    if errors.is_empty() {
        return Ok(warnings);
    }
    let lines: Vec<String> = errors.iter().map(SetFinding::to_string).collect();
    let message = match errors.len() {
        1 => "a setting would not do what it says".to_owned(),
        n => format!("{n} settings would not do what they say"),
    };
    Err(Error::usage(message).because(lines.join("\n")).help(
        "correct them; `ncclsweep explain NAME` tells what a variable takes; --force runs them as they are, \
         --allow-unknown those that are not known",
    ))
}

impl fmt::Display for SetFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sets = units::sets(&self.sets);
        write!(f, "{sets}: {}", self.finding)?;
        self.finding.help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::check::UnknownBox;
    use crate::plan::env_set::Vars;

    fn environment(inherited: &[(&str, &str)], set: &[(&str, &str)]) -> Environment {
        let inherited = inherited.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::inherit(inherited, false).layer(&Vars::from_iter(set.iter().copied()), Origin::Set)
    }

    fn found(sets: &[(&'static str, Environment)], leniency: Leniency) -> Vec<SetFinding> {
        findings(sets.iter().cloned(), Some(NcclVersion::new(2, 28, 3)), &UnknownBox, leniency)
    }

    #[test]
    fn a_value_nccl_would_spoil_is_refused_with_its_set_and_the_correction() {
        let sets = [("big", environment(&[], &[("NCCL_BUFFSIZE", "4M")]))];
        let error = refuse_errors(found(&sets, Leniency::default())).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.starts_with("big: ") && cause.contains("4194304"), "{cause}");
        assert!(refuse_errors(found(&sets, Leniency { force: true, ..Leniency::default() })).is_ok());
    }

    #[test]
    fn a_name_that_container_images_bring_along_is_no_finding_unless_asked_for() {
        let inherited = [("a", environment(&[("NCCL_VERSION", "2.28.3-1")], &[]))];
        assert_eq!(found(&inherited, Leniency::default()), []);
        let asked = [("a", environment(&[], &[("NCCL_VERSION", "2.28.3-1")]))];
        assert_eq!(found(&asked, Leniency::default()).len(), 1);
    }

    #[test]
    fn what_is_inherited_is_warned_of_once_for_all_sets() {
        let sets = ["a", "b"].map(|name| (name, environment(&[("NCCL_BUFFSIZE", "4M")], &[])));
        let warnings = refuse_errors(found(&sets, Leniency::default())).unwrap();
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].sets, ["a", "b"]);
    }
}
