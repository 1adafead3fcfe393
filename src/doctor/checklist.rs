//! [`Checkup`]: a list of [`Check`]s and the facts behind them.

use serde::Serialize;

use super::{conf, log, machine, process, python};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// It could not be looked at, or there is nothing to look at.
    Unknown,
    /// It may cost speed, or mislead.
    Warning,
    /// It is wrong.
    Fault,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Fault => "fault",
        })
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What.
    pub name: String,
    /// How it is.
    pub status: Status,
    /// What was seen, a sentence or a fact each.
    pub evidence: Vec<String>,
    /// What to do; nothing where all is well.
    pub next: Vec<String>,
}

impl Check {
    /// A check that ended in `status`.
    pub(super) fn new(name: impl Into<String>, status: Status, evidence: impl Into<String>) -> Self {
        Self { name: name.into(), status, evidence: vec![evidence.into()], next: Vec::new() }
    }

    pub(super) fn ok(name: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, evidence)
    }

    pub(super) fn unknown(name: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(name, Status::Unknown, evidence)
    }

    pub(super) fn warning(name: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(name, Status::Warning, evidence)
    }

    pub(super) fn fault(name: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self::new(name, Status::Fault, evidence)
    }

    /// A check of many things: as bad as the worst of them. Without any it is unknown, as `empty` says.
    pub(super) fn worst(name: &str, found: Vec<(Status, String)>, empty: &str) -> Self {
        let Some(status) = found.iter().map(|(status, _)| *status).max() else { return Self::unknown(name, empty) };
        let evidence = found.into_iter().map(|(_, evidence)| evidence).collect();
        Self { name: name.to_owned(), status, evidence, next: Vec::new() }
    }

    /// Adds this check to `checks`: what is said of one name stands together, as bad as the worst of it.
    pub(super) fn join(self, checks: &mut Vec<Self>) {
        match checks.iter_mut().find(|check| check.name == self.name) {
            Some(check) => {
                check.status = check.status.max(self.status);
                let new: Vec<_> = self.evidence.into_iter().filter(|line| !check.evidence.contains(line)).collect();
                check.evidence.extend(new);
                check.next.extend(self.next);
            }
            None => checks.push(self),
        }
    }

    /// With more of what was seen.
    pub(super) fn also(mut self, evidence: impl IntoIterator<Item = String>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// With a next step.
    pub(super) fn next(mut self, step: impl Into<String>) -> Self {
        self.next.push(step.into());
        self
    }
}

/// The facts behind the checks, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Details {
    /// Of this machine.
    Machine(Box<machine::Facts>),
    /// Of a configuration file.
    Conf(conf::Facts),
    /// Of running processes.
    Processes(Vec<process::Facts>),
    /// Of a log.
    Log(log::Facts),
    /// Of a Python environment.
    Python(Box<python::Facts>),
}

/// Version of the document that a [`Checkup`] is.
pub(super) const SCHEMA: u32 = 1;

/// What one look gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checkup {
    /// Version of this document's form.
    pub schema: u32,
    /// What was looked at.
    pub subject: String,
    /// The checks, in an order that makes sense to read.
    pub checks: Vec<Check>,
    /// What such a look can and cannot show.
    pub limits: Vec<String>,
    /// The facts.
    pub details: Details,
}

impl Checkup {
    /// How many checks ended in `status`.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }

    /// Whether this is a look at a machine that showed no GPU: what matters of it was not seen, so it is not sound.
    #[must_use]
    pub fn saw_no_gpu(&self) -> bool {
        let Details::Machine(facts) = &self.details else { return false };
        let told = matches!(&facts.cuda, machine::Answer::Told(cuda) if !cuda.gpus.is_empty());
        !told && facts.topology.as_ref().is_none_or(|topology| topology.gpus.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_one_name_stands_together() {
        let mut checks = vec![Check::ok("line 1", "A=1")];
        Check::fault("line 1", "A=1").also(["is lost".to_owned()]).next("write B=1").join(&mut checks);
        Check::warning("line 2", "C=1").join(&mut checks);
        let shown: Vec<_> = checks.iter().map(|check| (check.status, check.evidence.join("; "))).collect();
        assert_eq!(shown, [(Status::Fault, "A=1; is lost".to_owned()), (Status::Warning, "C=1".to_owned())]);
    }

    #[test]
    fn many_things_are_as_bad_as_the_worst_of_them() {
        let found = |statuses: &[Status]| statuses.iter().map(|status| (*status, status.to_string())).collect();
        let worst = |statuses| Check::worst("links", found(statuses), "none").status;
        assert_eq!(worst(&[Status::Ok, Status::Fault, Status::Unknown]), Status::Fault);
        assert_eq!(worst(&[Status::Ok, Status::Unknown]), Status::Unknown);
        assert_eq!(worst(&[Status::Unknown, Status::Warning]), Status::Warning);
        assert_eq!(Check::worst("links", Vec::new(), "no GPU"), Check::unknown("links", "no GPU"));
    }
}
