//! Hardware acceptance: requirements of a plan, each held against a run.
//!
//! An [`AcceptPlan`] is a configuration of a sweep with requirements beside it. [`judge`] gives each requirement its
//! [`Outcome`]: what was not measured never passes, and a bound passes or fails only with the whole interval.

mod bounds;
mod facts;
mod own;
mod plan;
mod planned;
mod read;

use std::fmt;

use serde::Serialize;

use crate::compare;
use crate::error::Result;
use crate::plan::schedule::Plan;
use crate::record::run::{Backend, Header};
use crate::record::stored::Stored;
use crate::units::count;

pub use plan::{AcceptPlan, Golden, Latency, Quantile, Requirement, Speedup};

/// Version of the document that `--format json` prints.
pub const SCHEMA: u32 = 1;

/// What a requirement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// The interval reaches over the bound, or there is none.
    Undecided,
    /// The run does not tell.
    NotMeasured,
}

/// One requirement, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The kind of requirement: the class of its test case.
    pub kind: &'static str,
    /// What is required of what: `pcie-ll 7168x1 graph p99`.
    pub requirement: String,
    /// The bound: `≤ 60.0 µs`.
    pub bound: String,
    /// What it came to.
    pub outcome: Outcome,
    /// What was found; nothing when nothing was.
    pub measured: Option<String>,
    /// The measured number, in the unit of the bound.
    pub value: Option<f64>,
    /// Its 95% interval, where it has one.
    pub interval: Option<[f64; 2]>,
    /// The number of the bound, where what is measured has a spread: what is printed lies on the same side of it as what was found.
    #[serde(skip)]
    pub limit: Option<f64>,
    /// Why, where the figures alone do not say.
    pub reason: Option<String>,
}

/// All requirements of a plan, judged by one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Acceptance {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// The plan: its path.
    pub plan: String,
    /// What it is for, in its own words.
    pub note: Option<String>,
    /// Where the figures come from.
    pub backend: Backend,
    /// The run.
    pub run: compare::Side,
    /// Every requirement, in the order of the plan.
    pub requirements: Vec<Judged>,
}

impl Outcome {
    /// All of them, the gravest last.
    pub const ALL: [Self; 4] = [Self::Pass, Self::Undecided, Self::NotMeasured, Self::Fail];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Undecided => "undecided",
            Self::NotMeasured => "not measured",
        })
    }
}

impl Judged {
    fn new(kind: &'static str, requirement: impl Into<String>, bound: impl Into<String>, outcome: Outcome) -> Self {
        let (requirement, bound) = (requirement.into(), bound.into());
        Self {
            kind,
            requirement,
            bound,
            outcome,
            measured: None,
            value: None,
            interval: None,
            limit: None,
            reason: None,
        }
    }

    fn found(mut self, measured: impl Into<String>) -> Self {
        self.measured = Some(measured.into());
        self
    }

    /// The same of a number of things, which a bound of whole numbers is about.
    fn counted(mut self, number: u64) -> Self {
        self.value = Some(number as f64);
        let found = count(number);
        self.found(found)
    }

    fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

impl Acceptance {
    /// How many requirements ended so.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.requirements.iter().filter(|judged| judged.outcome == outcome).count()
    }
}

/// Refuses to make a run with this header for a plan that measures what `planned` says: nothing of it could be accepted.
pub fn check(header: &Header, planned: &Plan) -> Result<()> {
    planned::check(header, planned)
}

/// Holds `run` against every requirement of `plan`. `planned` is what a run of the plan measures; `golden` is the run that the
/// plan names, when it names one.
///
/// An error when the golden run must not be compared with this one.
pub fn judge(plan: &AcceptPlan, planned: &Plan, run: &Stored, golden: Option<&Stored>) -> Result<Acceptance> {
    let of = &own::Own::of(run, planned)?;
    let mut requirements = vec![facts::visits(of), planned::measured(&run.run.header, planned)];
    let tails = bounds::Tails::of(plan, run)?;
    for requirement in &plan.requirements {
        match requirement {
            Requirement::Gpus(count) => requirements.push(facts::gpus(of, *count)),
            Requirement::GpuName(name) => requirements.push(facts::gpu_name(of, name)),
            Requirement::LinkGeneration(least) => requirements.push(facts::link_generation(of, *least)),
            Requirement::LinkWidth(least) => requirements.push(facts::link_width(of, *least)),
            Requirement::CheckedOutputs(least) => requirements.push(facts::checked_outputs(of, *least)),
            Requirement::Applied(set) => requirements.push(facts::applied(of, set)),
            Requirement::NoThrottling => requirements.push(facts::no_throttling(of)),
            Requirement::NoReplays => requirements.push(facts::no_replays(of)),
            Requirement::Latency(latency) => requirements.extend(bounds::latency(of, latency, &tails)),
            Requirement::Speedup(speedup) => requirements.extend(bounds::speedup(of, speedup)?),
            Requirement::Golden(wanted) => {
                requirements.extend(golden.map(|golden| planned::golden(&golden.run.header, planned)));
                requirements.extend(bounds::golden(run, planned, wanted, golden)?);
            }
        }
    }
    Ok(Acceptance {
        schema: SCHEMA,
        plan: plan.config.name.clone(),
        note: plan.config.note.clone(),
        backend: run.run.header.backend,
        run: compare::Side::of(run),
        requirements,
    })
}

#[cfg(test)]
mod tests;
