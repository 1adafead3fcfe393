//! The plan: which arms are visited, with which cases, in which order.
//!
//! A [`Plan`] is complete and valid before the first process starts, and is stored whole in the journal, so that a resumed
//! run continues the identical plan.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::env_set::{EnvSet, Vars};
use crate::collective::{Case, Mode};
use crate::nccl::version::NcclVersion;

/// How many rounds are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rounds {
    /// Until every cell is decided, looked at after the planned rounds.
    Auto,
    /// Exactly this many, with one look at the end.
    Fixed(u32),
}

/// How the ranks of a visit are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Launch {
    /// Threads of one process.
    Threads,
    /// A process for each.
    Processes,
}

/// How much of each case one replicate measures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Measure {
    /// `graph`: all-reduces chained in one CUDA graph.
    pub graph_length: u32,
    /// `graph`: timed replays, each one sample.
    pub replays: u32,
    /// `stream`: launches back to back between two events.
    pub launches: u32,
    /// `stream`: such batches, each one sample.
    pub batches: u32,
    /// `sync`: lone calls, each one sample.
    pub calls: u32,
    /// How often the data is checked: chains of calls of its own, and [`LOOKS`](Self::LOOKS) times as many looks at the output
    /// between the timed calls.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub checks: u32,
    /// How often each communicator measures all cases, from the second time on in other orders.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub passes: u32,
}

fn once() -> u32 {
    1
}

fn is_once(times: &u32) -> bool {
    *times == once()
}

impl Default for Measure {
    fn default() -> Self {
        Self { graph_length: 50, replays: 20, launches: 50, batches: 10, calls: 200, checks: once(), passes: once() }
    }
}

impl Measure {
    /// Looks at the output between the timed calls, for each check.
    pub const LOOKS: u32 = 3;

    /// Samples of one replicate in `mode`.
    #[must_use]
    pub fn samples(&self, mode: Mode) -> usize {
        let samples = match mode {
            Mode::Graph => self.replays,
            Mode::Stream => self.batches,
            Mode::Sync => self.calls,
        };
        samples as usize
    }

    /// All-reduces behind one sample in `mode`.
    #[must_use]
    pub fn calls_per_sample(&self, mode: Mode) -> usize {
        let calls = match mode {
            Mode::Graph => self.graph_length,
            Mode::Stream => self.launches,
            Mode::Sync => 1,
        };
        calls as usize
    }
}

/// An NCCL library that takes part in the sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Library {
    /// File of the library.
    pub path: String,
    /// Version it reports.
    pub version: NcclVersion,
}

/// One way of running: an env set with a library. Arm 0 is the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Arm {
    /// Index into [`Plan::sets`].
    pub set: usize,
    /// Index into [`Plan::libraries`].
    pub library: usize,
}

/// All that decides what is measured and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    /// Env sets; the first is the baseline.
    pub sets: Vec<EnvSet>,
    /// Names of sets whose being slower or not applied fails the run.
    pub expect: Vec<String>,
    /// Variables under every env set: those of the configuration's `[base]`, then of `--base`.
    pub base: Vars,
    /// Whether inherited `NCCL_*` variables are dropped.
    pub clean_env: bool,
    /// Libraries; the first is the baseline's.
    pub libraries: Vec<Library>,
    /// Cases, each measured on every communicator.
    pub cases: Vec<Case>,
    /// CUDA ordinals; rank `r` runs on `devices[r % devices.len()]`.
    pub devices: Vec<u32>,
    /// Number of ranks.
    pub ranks: u32,
    /// How the ranks are started.
    pub launch: Launch,
    /// Command, with its arguments, that starts the workers; empty for none.
    pub wrap: Vec<String>,
    /// Rounds.
    pub rounds: Rounds,
    /// Communicators of one visit.
    pub communicators: u32,
    /// Iterations.
    pub measure: Measure,
    /// Relative difference that matters: 0.05 is 5%.
    pub tolerance: f64,
    /// Seconds after which no further round begins.
    pub time_limit_s: Option<f64>,
    /// Seconds of visits that a soak makes, round after round; none where speed is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak_s: Option<f64>,
    /// Seed of everything random.
    pub seed: u64,
}

impl Plan {
    /// All arms, baseline first.
    pub fn arms(&self) -> impl Iterator<Item = Arm> + '_ {
        let libraries = 0..self.libraries.len();
        libraries.flat_map(|library| (0..self.sets.len()).map(move |set| Arm { set, library }))
    }

    /// The arms of one round in their random order, which depends on the seed and the round only.
    #[must_use]
    pub fn round(&self, round: u32) -> Vec<Arm> {
        let mut order: Vec<Arm> = self.arms().collect();
        let mut generator = ChaCha8Rng::seed_from_u64(self.seed);
        generator.set_stream(u64::from(round) + 1);
        order.shuffle(&mut generator);
        order
    }

    /// The name of an arm as tables show it; names the library when there are several.
    #[must_use]
    pub fn arm_name(&self, arm: Arm) -> String {
        let set = &self.sets[arm.set].name;
        if self.libraries.len() == 1 { set.clone() } else { format!("{set} @ {}", self.libraries[arm.library].version) }
    }

    /// The modes of the cases, each once, in the order of the cases.
    #[must_use]
    pub fn modes(&self) -> Vec<Mode> {
        let mut modes: Vec<Mode> = Vec::new();
        for case in &self.cases {
            if !modes.contains(&case.mode) {
                modes.push(case.mode);
            }
        }
        modes
    }

    /// Whether several ranks share a GPU.
    #[must_use]
    pub fn oversubscribed(&self) -> bool {
        self.ranks as usize > self.devices.len()
    }
}
