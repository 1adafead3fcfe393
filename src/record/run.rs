//! The document of a whole run, `run.json`: provenance, plan, visits without samples, cells.

use serde::{Deserialize, Serialize};

use super::floor::{CellFloor, Floor};
use super::pairs::PairTried;
use super::proofs::ArmProofs;
use super::visit::{Visit, WrongElement};
use crate::collective::{Dtype, Mode, Op};
use crate::gpu::cuda::Device;
use crate::gpu::nvml::Process;
use crate::nccl::conf;
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::Vars;
use crate::plan::schedule::{Arm, Launch, Plan};
pub use crate::proof::Applied;
use crate::topology::Topology;

/// Version of the document and of the journal. Grows with every change that an older reader would misread.
pub const SCHEMA: u32 = 1;

/// Stands where an imported run does not tell.
pub const UNKNOWN: &str = "unknown";

/// Where the figures come from. Figures of different backends are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Real GPUs.
    Cuda,
    /// The emulator's virtual time.
    Emulated,
}

/// What is known before the first visit, stored first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Header {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of ncclsweep.
    pub version: String,
    /// Where the figures come from.
    pub backend: Backend,
    /// UTC time at which the run was started.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub created: jiff::Timestamp,
    /// The box.
    pub provenance: Provenance,
    /// What is measured.
    pub plan: Plan,
}

/// The box and its software, as far as they could be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Provenance {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs this process may use.
    pub cpus: usize,
    /// Version of the GPU driver.
    pub driver: Option<String>,
    /// CUDA version that the driver supports.
    pub cuda: String,
    /// GPUs in rank order, each once.
    pub gpus: Vec<Device>,
    /// Processes that had these GPUs open when the run was started (`--allow-busy`).
    pub busy: Vec<Process>,
    /// Libraries that take part.
    pub libraries: Vec<LibraryFacts>,
    /// Libraries that were seen and not taken.
    pub other_libraries: Vec<LibraryFacts>,
    /// Inherited `NCCL_*` variables: the base of every env set.
    pub inherited: Vars,
    /// NCCL's configuration files that exist.
    pub conf_files: Vec<ConfFile>,
    /// The command line.
    pub arguments: Vec<String>,
    /// Name of the emulated box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<String>,
    /// Where the figures come from, when another program measured them: one replicate a case, and nothing proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// `CUDA_VISIBLE_DEVICES` as it was inherited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_devices: Option<String>,
    /// How the box is wired, and which rank runs where; none in runs of versions that did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// The hosts of further agents, in rank order, where a launcher started several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Provenance>,
}

impl Provenance {
    /// This host and the others.
    pub fn hosts(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// Inherited variables that have one value on all hosts, and the names of the others.
    #[must_use]
    pub fn inherited_alike(&self) -> (Vars, Vec<&str>) {
        let mut names: Vec<&str> = self.hosts().flat_map(|host| host.inherited.iter()).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        let is_one = |name: &&str| self.others.iter().all(|host| host.inherited.get(name) == self.inherited.get(name));
        let (alike, apart): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_one);
        let of_all = self.inherited.iter().filter(|(name, _)| alike.contains(name));
        (Vars::from_iter(of_all), apart)
    }

    /// What each host has of an inherited variable: `not set on a, LL on b (agent 1)`.
    #[must_use]
    pub fn inherited_by_host(&self, name: &str) -> String {
        /// Hosts that are named.
        const NAMED: usize = 4;
        let each = self.hosts().enumerate().map(|(agent, host)| {
            format!("{} on {} (agent {agent})", host.inherited.get(name).unwrap_or("not set"), host.host)
        });
        let more = (self.others.len() + 1).saturating_sub(NAMED);
        let more = (more > 0).then(|| format!("{more} hosts more"));
        each.take(NAMED).chain(more).collect::<Vec<_>>().join(", ")
    }
}

/// What another program measured and `ncclsweep import` read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Imported {
    /// Names of the files.
    pub files: Vec<String>,
    /// The program, with its version where it tells.
    pub program: String,
    /// What a reader must know before trusting the figures.
    pub notes: Vec<String>,
}

/// One NCCL library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LibraryFacts {
    /// Its file, links resolved.
    pub path: String,
    /// How it was found.
    pub found_by: String,
    /// Version it reports; `None` when it could not be loaded.
    pub version: Option<NcclVersion>,
    /// GNU build id, in hexadecimal.
    pub build_id: Option<String>,
}

/// A configuration file of NCCL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ConfFile {
    /// Its path.
    pub path: String,
    /// Its lines as they stand there.
    pub lines: Vec<String>,
    /// Arms whose NCCL reads it; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<Arm>,
}

impl ConfFile {
    /// Whether the NCCL of this arm reads it.
    #[must_use]
    pub fn is_read_by(&self, arm: Arm) -> bool {
        self.arms.is_empty() || self.arms.contains(&arm)
    }

    /// What it sets in an NCCL of this version (the latest, when it is not known).
    #[must_use]
    pub fn settings(&self, version: Option<NcclVersion>) -> Vec<conf::Entry> {
        conf::parse(self.lines.join("\n").as_bytes(), version).entries
    }
}

/// What a cell's comparison with the baseline came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The cell is the baseline's.
    Baseline,
    /// Below the baseline by more than the tolerance.
    Faster,
    /// Above the baseline by more than the tolerance.
    Slower,
    /// Within the tolerance.
    Same,
    /// The interval reaches over a border of the tolerance, or the run ended before anything was measured.
    Undecided,
    /// Wrong data, or nothing was measured since it crashed, hung or failed.
    Invalid,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Baseline => "baseline",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Undecided => "undecided",
            Self::Invalid => "invalid",
        })
    }
}

/// Env set × case: the summary of all its visits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Cell {
    /// Which arm of the plan.
    pub arm: Arm,
    /// Name of the env set.
    pub set: String,
    /// Version of NCCL.
    pub nccl: NcclVersion,
    /// How ranks were started.
    pub launch: Launch,
    /// Further communicators that were used in turn with the first.
    #[serde(default, skip_serializing_if = "crate::plan::schedule::is_none_alive")]
    pub alive: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Index into the plan's cases.
    pub case: usize,
    /// Data type.
    pub dtype: Dtype,
    /// Operation.
    pub op: Op,
    /// Whether the result replaces the input.
    pub in_place: bool,
    /// Size of the message in bytes.
    pub size_bytes: u64,
    /// Mode.
    pub mode: Mode,
    /// Visits behind the figures.
    pub visits: u32,
    /// Communicators behind the figures.
    pub replicates: u32,
    /// Typical time, µs: the geometric mean over visits, and within each over its communicators, of their medians. Below three
    /// visits the median over all samples; `None` when nothing was measured.
    pub median_us: Option<f64>,
    /// 95% interval of the typical time, µs; `None` below three visits.
    pub interval_us: Option<[f64; 2]>,
    /// Mean over all samples, µs.
    pub mean_us: Option<f64>,
    /// 95th percentile of the samples, µs.
    pub p95_us: Option<f64>,
    /// 99th percentile of the samples, µs.
    pub p99_us: Option<f64>,
    /// Smallest sample, µs.
    pub min_us: Option<f64>,
    /// Algorithm bandwidth of the median, GB/s.
    pub algbw_gbps: Option<f64>,
    /// Bus bandwidth of the median, GB/s.
    pub busbw_gbps: Option<f64>,
    /// Time relative to the baseline; below 1 is faster.
    pub ratio: Option<f64>,
    /// 95% interval of the ratio.
    pub ratio_interval: Option<[f64; 2]>,
    /// What the comparison came to.
    pub verdict: Verdict,
    /// Why, in a sentence, where the figures alone do not say.
    pub verdict_reason: Option<String>,
    /// Whether the settings took effect.
    pub applied: Applied,
    /// The first wrong element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_wrong: Option<Box<WrongElement>>,
    /// Outputs compared element by element.
    pub checked_outputs: u64,
    /// Of these, outputs with a wrong element.
    pub wrong_outputs: u64,
    /// What an all-reduce costs at least (`--floor`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<CellFloor>,
}

/// All sizes of one mode of an arm together: the mean log ratio to the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Joint {
    /// Which arm of the plan.
    pub arm: Arm,
    /// Name of the env set.
    pub set: String,
    /// Mode.
    pub mode: Mode,
    /// Geometric mean of the sizes' ratios.
    pub ratio: Option<f64>,
    /// Its 95% interval.
    pub ratio_interval: Option<[f64; 2]>,
    /// What the comparison came to.
    pub verdict: Verdict,
}

/// A whole run, as `run.json` holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Run {
    /// What was known before the first visit.
    #[serde(flatten)]
    pub header: Header,
    /// UTC time at which the last visit ended.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub finished: jiff::Timestamp,
    /// Whether every planned visit was made.
    pub complete: bool,
    /// Visits in the order they were made, without samples.
    pub visits: Vec<Visit>,
    /// Pairs of GPUs that were tried alone after a set failed (`--isolate`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairTried>,
    /// What an all-reduce costs at least on this box (`--floor`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// Cells, by arm, then case.
    pub cells: Vec<Cell>,
    /// Joint verdicts, by arm, then mode.
    pub joint: Vec<Joint>,
    /// What is known of every arm's settings, and how.
    pub proofs: Vec<ArmProofs>,
    /// What a reader must know before trusting the figures.
    pub warnings: Vec<String>,
}
