//! The plan: which arms are visited, with which cases, in which order.
//!
//! A [`Plan`] is complete and valid before the first process starts, and is stored whole in the journal, so that a resumed
//! run continues the identical plan.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::affinity::CpuAffinity;
use super::env_set::{EnvSet, RankEnv, Vars};
use crate::collective::{Case, Mode};
use crate::nccl::register::Register;
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
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Launch {
    /// Threads of one process.
    #[default]
    Threads,
    /// A process for each.
    Processes,
}

impl Launch {
    /// Whether ranks are threads; what is left out of a journal.
    fn is_threads(&self) -> bool {
        *self == Self::Threads
    }
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
    /// Whether each call of a chain has buffers of its own, so that large messages do not come out of a cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rotate: bool,
    /// Whether the communicators of a visit live to its end, to be destroyed all at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

fn once() -> u32 {
    1
}

fn is_once(times: &u32) -> bool {
    *times == once()
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            graph_length: 50,
            replays: 20,
            launches: 50,
            batches: 10,
            calls: 200,
            checks: once(),
            passes: once(),
            rotate: false,
            keep: false,
        }
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

/// One way of running: an env set with a library, a launch, further communicators and registered buffers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Arm {
    /// Index into [`Plan::sets`].
    pub set: usize,
    /// Index into [`Plan::libraries`].
    pub library: usize,
    /// How its ranks are started, one of [`Plan::launches`].
    #[serde(default, skip_serializing_if = "Launch::is_threads")]
    pub launch: Launch,
    /// Further communicators over the same ranks that are used in turn with the first, one of [`Plan::alive`].
    #[serde(default, skip_serializing_if = "is_none_alive")]
    pub alive: u32,
    /// How its buffers are registered, one of [`Plan::registers`].
    #[serde(default, skip_serializing_if = "Register::is_none")]
    pub register: Register,
}

pub(crate) fn is_none_alive(alive: &u32) -> bool {
    *alive == 0
}

impl Arm {
    /// Whether its ranks are processes of their own.
    #[must_use]
    pub fn is_processes(self) -> bool {
        self.launch == Launch::Processes
    }

    /// Communicators that are used in turn.
    #[must_use]
    pub fn in_turn(self) -> u32 {
        self.alive.saturating_add(1)
    }
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
    /// Ranks of each agent, in rank order, where a launcher started several: each has those of its host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<u32>,
    /// How the ranks are started; the first is the baseline's.
    #[serde(default = "threads", skip_serializing_if = "are_threads")]
    pub launches: Vec<Launch>,
    /// Numbers of further communicators that are used in turn with the first; the first number is the baseline's.
    #[serde(default = "none_alive", skip_serializing_if = "are_none_alive")]
    pub alive: Vec<u32>,
    /// How buffers are registered; the first is the baseline's.
    #[serde(default = "none_registered", skip_serializing_if = "are_none_registered")]
    pub registers: Vec<Register>,
    /// Variables of single ranks, over those of every set. Only where ranks are processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_env: Vec<RankEnv>,
    /// On which CPUs the threads of ranks run.
    #[serde(default, skip_serializing_if = "CpuAffinity::is_none")]
    pub cpu_affinity: CpuAffinity,
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

fn threads() -> Vec<Launch> {
    vec![Launch::Threads]
}

fn are_threads(launches: &Vec<Launch>) -> bool {
    *launches == threads()
}

fn none_alive() -> Vec<u32> {
    vec![0]
}

fn none_registered() -> Vec<Register> {
    vec![Register::None]
}

fn are_none_registered(registers: &Vec<Register>) -> bool {
    *registers == none_registered()
}

fn are_none_alive(alive: &Vec<u32>) -> bool {
    *alive == none_alive()
}

impl Plan {
    /// All arms, baseline first.
    pub fn arms(&self) -> impl Iterator<Item = Arm> + '_ {
        let ways = self.launches.iter().flat_map(|launch| self.alive.iter().map(|alive| (*launch, *alive)));
        let ways = ways.flat_map(|(launch, alive)| {
            self.registers.iter().map(move |register| Arm { launch, alive, register: *register, ..Arm::default() })
        });
        let ways: Vec<Arm> = ways.collect();
        let with_libraries = (0..self.libraries.len())
            .flat_map(move |library| ways.clone().into_iter().map(move |arm| Arm { library, ..arm }));
        with_libraries.flat_map(|arm| (0..self.sets.len()).map(move |set| Arm { set, ..arm }))
    }

    /// The arm all others are compared with.
    #[must_use]
    pub fn baseline(&self) -> Arm {
        self.arms().next().unwrap_or_default()
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

    /// The name of an arm as tables show it: its set, and of library, launch and communicators what the plan varies. Where
    /// nothing but the launch varies, that alone.
    #[must_use]
    pub fn arm_name(&self, arm: Arm) -> String {
        let set = &self.sets[arm.set].name;
        let several = |number: usize| number > 1;
        if self.varies_launch_alone() {
            return arm.launch.to_string();
        }
        let mut name = set.clone();
        if several(self.libraries.len()) {
            name = format!("{name} @ {}", self.libraries[arm.library].version);
        }
        let launch = several(self.launches.len()).then(|| arm.launch.to_string());
        let alive = several(self.alive.len()).then(|| match arm.in_turn() {
            1 => "alone".to_owned(),
            several => format!("{several} in turn"),
        });
        let register = several(self.registers.len()).then(|| match arm.register {
            Register::None => "not registered".to_owned(),
            register => register.to_string(),
        });
        let ways: Vec<String> = launch.into_iter().chain(alive).chain(register).collect();
        if ways.is_empty() { name } else { format!("{name} ({})", ways.join(", ")) }
    }

    /// Whether arms differ in nothing but how their ranks are started.
    #[must_use]
    pub fn varies_launch_alone(&self) -> bool {
        self.launches.len() > 1
            && self.sets.len() == 1
            && self.libraries.len() == 1
            && self.alive.len() == 1
            && self.registers.len() == 1
    }

    /// The variables of a rank's own.
    #[must_use]
    pub fn env_of(&self, rank: u32) -> Option<&Vars> {
        self.rank_env.iter().find(|of| of.rank == rank).map(|of| &of.vars)
    }

    /// The ranks of an agent; all of them where there is one alone.
    #[must_use]
    pub fn ranks_of(&self, agent: usize) -> Range<u32> {
        match self.agents.get(agent) {
            None => 0..self.ranks,
            Some(own) => {
                let before: u32 = self.agents[..agent].iter().sum();
                before..before + own
            }
        }
    }

    /// The ranks of each worker of an arm: one with all of an agent, or one for each.
    #[must_use]
    pub fn workers(&self, arm: Arm) -> Vec<Range<u32>> {
        if arm.is_processes() {
            return (0..self.ranks).map(|rank| rank..rank + 1).collect();
        }
        (0..self.agents.len().max(1)).map(|agent| self.ranks_of(agent)).collect()
    }

    /// The agent that has a rank.
    #[must_use]
    pub fn agent_of(&self, rank: u32) -> usize {
        (0..self.agents.len()).find(|agent| self.ranks_of(*agent).contains(&rank)).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let ll = EnvSet { name: "pcie-ll".into(), ..EnvSet::baseline() };
        Plan {
            sets: vec![EnvSet::baseline(), ll],
            expect: Vec::new(),
            base: Vars::default(),
            clean_env: false,
            libraries: vec![Library { path: "/opt/libnccl.so.2".into(), version: NcclVersion::new(2, 28, 3) }],
            cases: Vec::new(),
            devices: vec![0, 1],
            ranks: 2,
            agents: Vec::new(),
            launches: threads(),
            alive: none_alive(),
            registers: none_registered(),
            rank_env: Vec::new(),
            cpu_affinity: CpuAffinity::default(),
            wrap: Vec::new(),
            rounds: Rounds::Auto,
            communicators: 6,
            measure: Measure::default(),
            tolerance: 0.05,
            soak_s: None,
            time_limit_s: None,
            seed: 1,
        }
    }

    #[test]
    fn every_set_is_measured_under_every_launch_and_number_of_communicators() {
        let mut plan = plan();
        plan.launches = vec![Launch::Processes, Launch::Threads];
        plan.alive = vec![0, 2];
        let arms: Vec<Arm> = plan.arms().collect();
        assert_eq!(arms.len(), 8);
        assert_eq!(plan.baseline(), Arm { launch: Launch::Processes, ..Arm::default() });
        let names: Vec<String> = arms.iter().map(|arm| plan.arm_name(*arm)).collect();
        assert_eq!(names[0], "default (processes, alone)");
        assert_eq!(names[7], "pcie-ll (threads, 3 in turn)");
    }

    #[test]
    fn arms_are_named_by_what_the_plan_varies() {
        let mut plan = plan();
        assert_eq!(plan.arm_name(plan.baseline()), "default");
        plan.launches.push(Launch::Processes);
        assert_eq!(plan.arm_name(plan.baseline()), "default (threads)");
        plan.sets.truncate(1);
        assert_eq!(plan.arm_name(plan.baseline()), "threads");
    }

    #[test]
    fn plans_and_arms_from_before_there_were_processes_are_of_threads() {
        let mut old = serde_json::to_value(plan()).unwrap();
        assert!(["launches", "alive", "rank_env"].iter().all(|key| old.get(key).is_none()), "{old}");
        old["launch"] = "threads".into();
        assert_eq!(serde_json::from_value::<Plan>(old).unwrap(), plan());
        let arm: Arm = serde_json::from_str(r#"{"set": 1, "library": 0}"#).unwrap();
        assert_eq!(arm, Arm { set: 1, ..Arm::default() });
        assert_eq!(serde_json::to_string(&arm).unwrap(), r#"{"set":1,"library":0}"#);
    }
}
