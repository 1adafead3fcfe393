//! One visit: how it ended and what its communicators measured.

use serde::{Deserialize, Serialize};

use crate::gpu::cuda::Device;
use crate::gpu::nvml::GpuState;
use crate::nccl::register::Registration;
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::Vars;
use crate::plan::schedule::Arm;
use crate::proof::{Read, Used};
use crate::topology::CpuList;

pub use super::outcome::{Diagnosis, Doing, Outcome, RanksDoing};
pub use super::timings::{Loading, Timings};

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Process start, driver, contexts, buffers.
    Start,
    /// `ncclCommInitRank` of every rank.
    Init,
    /// The first collective of a communicator, in which NCCL connects.
    First,
    /// Eager calls until the times settle.
    WarmUp,
    /// Capture and instantiation of graphs.
    Capture,
    /// The timed region.
    Timing,
    /// The data check.
    Check,
    /// Destruction of graphs and communicators.
    Teardown,
}

impl Phase {
    /// All of them, each at the place of its number.
    pub const ALL: [Self; 8] =
        [Self::Start, Self::Init, Self::First, Self::WarmUp, Self::Capture, Self::Timing, Self::Check, Self::Teardown];
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Start => "start",
            Self::Init => "communicator init",
            Self::First => "first collective",
            Self::WarmUp => "warm-up",
            Self::Capture => "graph capture",
            Self::Timing => "timing",
            Self::Check => "data check",
            Self::Teardown => "teardown",
        })
    }
}

/// Where in a visit something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct At {
    /// Phase.
    pub phase: Phase,
    /// Communicator, counted from 0.
    pub communicator: u32,
    /// Index into the plan's cases, when one was under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<usize>,
    /// The rank concerned, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// What the data checks of one replicate found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Checks {
    /// Outputs compared, element by element: all-reduces × ranks.
    pub outputs: u64,
    /// Outputs with at least one wrong element.
    pub wrong: u64,
    /// The first wrong element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_wrong: Option<Box<WrongElement>>,
}

impl Checks {
    /// Adds what another check found.
    pub fn add(&mut self, other: Checks) {
        self.outputs += other.outputs;
        self.wrong += other.wrong;
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
    }
}

/// Calls whose outputs are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Among {
    /// The first call of a communicator and case.
    First,
    /// The timed calls.
    Timed,
    /// The calls of an untimed chain, each with an output of its own.
    #[default]
    Chain,
}

impl Among {
    fn is_chain(&self) -> bool {
        *self == Self::Chain
    }
}

impl std::fmt::Display for Among {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::First => "first calls",
            Self::Timed => "timed calls",
            Self::Chain => "checked chain",
        })
    }
}

/// An element that is not what the reduction of the inputs gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WrongElement {
    /// Rank that holds it.
    pub rank: u32,
    /// Among which calls it was found.
    #[serde(default, skip_serializing_if = "Among::is_chain")]
    pub among: Among,
    /// Which of them, counted from 0.
    pub call: u32,
    /// Element index.
    pub element: u64,
    /// Value found, as text (`NaN` is possible).
    pub found: String,
    /// Value expected.
    pub expected: String,
}

/// One communicator's measurement of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Replicate {
    /// Communicator of the visit, counted from 0.
    pub communicator: u32,
    /// Index into the plan's cases.
    pub case: usize,
    /// Mean of the samples, µs.
    pub mean_us: f64,
    /// Median of the samples, µs.
    pub median_us: f64,
    /// Eager calls until the times had settled.
    pub warm_up_calls: u32,
    /// Data checks.
    pub checks: Checks,
    /// Samples in order, µs, each the maximum over ranks. Only in the journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_us: Vec<f64>,
}

/// What NCCL used for a case, and on which ranks and communicators of the visit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UsedBy {
    /// Index into the plan's cases.
    pub case: usize,
    /// Communicators of the visit, counted from 0.
    pub communicators: Vec<u32>,
    /// Ranks.
    pub ranks: Vec<u32>,
    /// What they used.
    pub used: Used,
}

/// What a worker said of itself before it measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WorkerFacts {
    /// Process id.
    pub pid: u32,
    /// Version the loaded NCCL reports.
    pub nccl: NcclVersion,
    /// File it was loaded from.
    pub nccl_path: Option<String>,
    /// `NCCL_*` variables in the worker's own environment.
    pub variables: Vars,
    /// GPUs in rank order.
    pub devices: Vec<Device>,
    /// CPUs to which the thread of each rank is bound; none where it is not. Empty when no rank was to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<Option<CpuList>>,
    /// The processes of the other ranks, where each has its own; the facts above are then those of rank 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<RankFacts>,
}

impl WorkerFacts {
    /// Process id of the worker that had `rank`.
    #[must_use]
    pub fn pid_of(&self, rank: u32) -> Option<u32> {
        match self.others.iter().find(|other| other.rank == rank) {
            Some(other) => Some(other.pid),
            None => (rank == 0 || self.others.is_empty()).then_some(self.pid),
        }
    }
}

/// What the process of one rank said of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RankFacts {
    /// The rank.
    pub rank: u32,
    /// Process id.
    pub pid: u32,
    /// `NCCL_*` variables in its environment.
    pub variables: Vars,
}

/// One worker process measuring one arm once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Visit {
    /// Position in the run, counted from 0.
    pub index: u32,
    /// Round, counted from 0.
    pub round: u32,
    /// What was measured.
    pub arm: Arm,
    /// Made for the proof only: its figures count for nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// UTC time of the start.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started: jiff::Timestamp,
    /// Wall time, seconds.
    pub seconds: f64,
    /// How it ended.
    pub outcome: Outcome,
    /// What the worker said of itself.
    pub worker: Option<WorkerFacts>,
    /// State of the GPUs in rank order, before and after.
    pub gpus: Vec<(GpuState, GpuState)>,
    /// Where the time went.
    pub timings: Timings,
    /// What became of the buffers that were to be registered, where any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// What a failure means and what helps, where its signs are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// Last lines the worker wrote to stderr or NCCL's log as warnings, when it did not complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// What NCCL used, as the profiler plugin told.
    pub used: Vec<UsedBy>,
    /// What NCCL's log told.
    pub read: Option<Read>,
    /// Measurements, also those of a visit that ended early.
    pub replicates: Vec<Replicate>,
}

impl Visit {
    /// A visit that has begun, of which nothing more is known.
    #[must_use]
    pub fn begun(index: u32, round: u32, arm: Arm, started: jiff::Timestamp) -> Self {
        Self {
            index,
            round,
            arm,
            untimed: false,
            started,
            seconds: 0.0,
            outcome: Outcome::Interrupted,
            worker: None,
            gpus: Vec::new(),
            timings: Timings::default(),
            registration: None,
            diagnosis: None,
            evidence: Vec::new(),
            used: Vec::new(),
            read: None,
            replicates: Vec::new(),
        }
    }

    /// Whether its figures count: timed, and completed with right data.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        !self.untimed && self.outcome.is_completed()
    }
}
