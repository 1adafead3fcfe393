//! Two runs: what changed between them, and which cells are faster, slower or the same since.
//!
//! [`compare`] takes two [`Stored`] runs and gives a [`Comparison`], or refuses where figures mean different things. Rounds of
//! two runs are no pairs, so cells are judged by their visits' levels (Welch); the error rate holds for all cells together.

mod changes;
mod matching;
mod refusal;
mod verdicts;

use serde::Serialize;

use crate::collective::{Case, Mode};
use crate::error::Result;
use crate::nccl::version::NcclVersion;
use crate::plan::schedule::{Arm, Plan};
use crate::record::run::{Applied, Backend, Header, Verdict};
use crate::record::stored::Stored;
use crate::stats::Tolerance;

/// Version of the document that `--format json` prints.
pub const SCHEMA: u32 = 1;

/// What comparing two runs came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Where the figures come from.
    pub backend: Backend,
    /// The earlier run.
    pub old: Side,
    /// The later run.
    pub new: Side,
    /// Relative difference that matters.
    pub tolerance: f64,
    /// What else is not as it was, the box first.
    pub changes: Vec<Change>,
    /// Cells that both runs have, in the order of the new one.
    pub cells: Vec<Compared>,
    /// All sizes of one mode of a set together.
    pub joint: Vec<Together>,
    /// Cells of the old run that the new one has not.
    pub only_old: Vec<Alone>,
    /// Cells of the new run that the old one has not.
    pub only_new: Vec<Alone>,
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Where it was read from.
    pub place: String,
    /// Its host.
    pub host: String,
    /// UTC time at which it was started.
    pub created: jiff::Timestamp,
    /// Name of the emulated box.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulated: Option<String>,
    /// Timed visits.
    pub visits: usize,
    /// Whether every planned visit is among them, or was made.
    pub complete: bool,
}

/// Something that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What kind of thing.
    pub topic: Topic,
    /// What it is, with the set and the cases where it concerns some only.
    pub what: String,
    /// As it was.
    pub old: String,
    /// As it is.
    pub new: String,
}

/// What kind of thing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// The machine: host, CPU, kernel.
    Host,
    /// The GPU driver and the CUDA version it supports.
    Driver,
    /// The NCCL library.
    Nccl,
    /// GPUs and their order.
    Gpus,
    /// PCIe links and clocks.
    Link,
    /// Variables and configuration files.
    Settings,
    /// What NCCL chose: algorithm, protocol, channels, transports.
    Chosen,
    /// How was measured.
    Method,
}

/// A cell of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Name of the env set.
    pub set: String,
    /// The case, with the label of the new run.
    #[serde(flatten)]
    pub case: Case,
    /// Size of the message in bytes.
    pub size_bytes: u64,
    /// What the old run measured.
    pub old: Figures,
    /// What the new run measured.
    pub new: Figures,
    /// New time over old; below 1 is faster.
    pub ratio: Option<f64>,
    /// 95% interval of the ratio.
    pub ratio_interval: Option<[f64; 2]>,
    /// What it came to.
    pub verdict: Verdict,
    /// Why, where the figures alone do not say.
    pub verdict_reason: Option<String>,
}

/// One run's figures of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Version of NCCL.
    pub nccl: NcclVersion,
    /// Visits behind the figures.
    pub visits: u32,
    /// Typical time, µs.
    pub median_us: Option<f64>,
    /// Its 95% interval, µs.
    pub interval_us: Option<[f64; 2]>,
    /// Whether the settings took effect.
    pub applied: Applied,
}

/// All sizes of one mode of a set together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Together {
    /// Name of the env set.
    pub set: String,
    /// Mode.
    pub mode: Mode,
    /// Geometric mean of the sizes' ratios.
    pub ratio: Option<f64>,
    /// Its 95% interval.
    pub ratio_interval: Option<[f64; 2]>,
    /// What it came to.
    pub verdict: Verdict,
}

/// A cell of one run only.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// Name of the env set.
    pub set: String,
    /// The case.
    #[serde(flatten)]
    pub case: Case,
}

/// Whether a cell of a run with this plan is to be compared: an arm, and the index of a case.
pub type Wanted<'a> = &'a dyn Fn(&Plan, Arm, usize) -> bool;

/// Compares two runs. Without a `tolerance` the new run's holds. An error when their figures mean different things.
pub fn compare(old: &Stored, new: &Stored, tolerance: Option<f64>) -> Result<Comparison> {
    compare_those(old, new, tolerance, &|_, _, _| true)
}

/// The same of the `wanted` cells, as if the runs had no others: the error rate holds for these together.
pub fn compare_those(old: &Stored, new: &Stored, tolerance: Option<f64>, wanted: Wanted) -> Result<Comparison> {
    let tolerance = Tolerance::new(tolerance.unwrap_or(new.run.header.plan.tolerance))?;
    let named = (new.place.as_str(), &new.run.header);
    refuse((&old.place, &old.run.header), named)?;
    let matching = matching::Matching::of(&old.run.header.plan, &new.run.header.plan);
    let matching = matching.only(wanted, &old.run.header.plan, &new.run.header.plan);
    let (before, after) = (old.tallied()?, new.tallied()?);
    let (cells, joint) = verdicts::judge(&before, &after, &matching, tolerance);
    Ok(Comparison {
        schema: SCHEMA,
        backend: new.run.header.backend,
        old: Side::of(old),
        new: Side::of(new),
        tolerance: tolerance.fraction(),
        changes: changes::changes(&before, &after, &matching),
        cells,
        joint,
        only_old: matching.only_old.iter().map(|key| Alone::of(old, key)).collect(),
        only_new: matching.only_new.iter().map(|key| Alone::of(new, key)).collect(),
    })
}

/// Whether a run with this header, which is yet to be made, will be comparable with `old`: an error when not.
pub fn check(old: &Stored, header: &Header) -> Result<()> {
    refuse((&old.place, &old.run.header), ("this run", header))
}

fn refuse(old: refusal::Named, new: refusal::Named) -> Result<()> {
    refusal::refuse(old, new)?;
    refusal::refuse_strangers(old, new)
}

impl Side {
    pub(crate) fn of(stored: &Stored) -> Self {
        let header = &stored.run.header;
        Self {
            place: stored.place.clone(),
            host: header.provenance.host.clone(),
            created: header.created,
            emulated: header.provenance.emulated.clone(),
            visits: stored.run.visits.iter().filter(|visit| !visit.untimed).count(),
            complete: stored.run.complete,
        }
    }
}

impl Alone {
    fn of(stored: &Stored, (arm, case): &matching::Key) -> Self {
        let plan = &stored.run.header.plan;
        Self { set: plan.arm_name(*arm), case: plan.cases[*case] }
    }
}

#[cfg(test)]
mod tests;
