//! [`Evidence`]: everything one visit showed, on the levels *asked*, *seen*, *read* and *used*.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::read::{CommunicatorRead, Read};
use super::used::Used;
use crate::collective::{Case, Mode};
use crate::nccl::is_variable;
use crate::nccl::register::Register;
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::Vars;
use crate::plan::environment::Origin;
use crate::topology::{Path, Topology};

/// What one visit of an arm showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The library the worker loaded.
    pub version: Option<NcclVersion>,
    /// CUDA device of each rank that is looked at.
    pub devices: Vec<u32>,
    /// The communicators have one rank, so that NCCL only copies.
    pub alone: bool,
    /// Communicators the figures come from.
    pub communicators: u32,
    /// Asked: the arm's variables.
    pub asked: Vec<Asked>,
    /// Seen: the `NCCL_*` variables in each process's own environment, before it loaded NCCL.
    pub seen: Vec<Seen>,
    /// What NCCL's configuration files set, in the order NCCL reads them.
    pub files: Vec<FileLine>,
    /// Read: NCCL's log; nothing when there is none.
    pub read: Option<Read>,
    /// Used: what the profiler plugin recorded.
    pub used: Uses,
    /// Where the library does not tell a profiler of all calls: the log under [`UNTIMED_SUBSYSTEMS`](super::UNTIMED_SUBSYSTEMS)
    /// of another process of the arm, which was not timed. Without one, `read` serves.
    pub tuning: Option<Read>,
    /// How the buffers are registered, where known: of another program they are not.
    pub register: Option<Register>,
    /// What lies between the GPUs of two ranks, where known.
    pub paths: Arc<Paths>,
}

/// Paths by pairs of ranks.
pub type Paths = BTreeMap<(u32, u32), Path>;

/// A variable that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The layer that asks for this value.
    pub origin: Origin,
    /// Every arm asks for the same, see [`mark_common`].
    #[serde(default)]
    pub common: bool,
    /// What ncclsweep sets instead, since it cannot do without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

/// A process's own environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Ranks of the process.
    pub ranks: Vec<u32>,
    /// Its `NCCL_*` variables.
    pub variables: Vars,
}

/// A line of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLine {
    /// Where it stands: `/etc/nccl.conf:3`.
    pub place: String,
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// What was used in one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Communicator of the visit, counted from 0.
    pub communicator: u32,
    /// Index into the plan's cases.
    pub case: usize,
    /// The rank.
    pub rank: u32,
    /// What was used.
    pub used: Used,
}

/// All that was recorded in one visit, by case, rank and communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses(BTreeMap<(usize, u32, u32), Vec<Used>>);

impl FromIterator<Observation> for Uses {
    fn from_iter<I: IntoIterator<Item = Observation>>(observations: I) -> Self {
        let mut uses = Self::default();
        for Observation { communicator, case, rank, used } in observations {
            uses.0.entry((case, rank, communicator)).or_default().push(used);
        }
        uses
    }
}

/// The variables an arm asks for: later layers win, and `tool` holds what ncclsweep itself must set. Of what is inherited only
/// those count that NCCL may read.
#[must_use]
pub fn asked(layers: &[(Origin, &Vars)], tool: &Vars) -> Vec<Asked> {
    let mut all: IndexMap<&str, (&str, Origin)> = IndexMap::new();
    for (origin, vars) in layers {
        let counts = |name: &str| *origin != Origin::Inherited || is_variable(name);
        all.extend(vars.iter().filter(|(name, _)| counts(name)).map(|(name, value)| (name, (value, *origin))));
    }
    let asked = |(name, (value, origin)): (&str, (&str, Origin))| Asked {
        name: name.to_owned(),
        value: value.to_owned(),
        origin,
        common: false,
        instead: tool.get(name).filter(|instead| *instead != value).map(str::to_owned),
    };
    all.into_iter().map(asked).collect()
}

/// Marks in every arm the variables that all arms ask for with the same value: they make no difference between arms.
pub fn mark_common(arms: &mut [Vec<Asked>]) {
    let Some((first, others)) = arms.split_first() else { return };
    let in_all = |asked: &&Asked| {
        others.iter().all(|arm| arm.iter().any(|other| other.name == asked.name && other.value == asked.value))
    };
    let common: Vec<String> = first.iter().filter(in_all).map(|asked| asked.name.clone()).collect();
    for asked in arms.iter_mut().flatten() {
        asked.common = common.contains(&asked.name);
    }
}

/// What lies between the GPUs of every two ranks; `gpu` is a rank's position in [`Topology::gpus`].
#[must_use]
pub fn paths(topology: &Topology, ranks: u32, gpu: impl Fn(u32) -> Option<usize>) -> Paths {
    let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))).filter(|(from, to)| from != to);
    pairs.filter_map(|(from, to)| Some(((from, to), topology.path(gpu(from)?, gpu(to)?)))).collect()
}

/// Where the number of the host begins in that of a GPU.
const HOST: u32 = 16;

/// The number of a GPU among those of all hosts.
#[must_use]
pub fn device(host: usize, ordinal: u32) -> u32 {
    (u32::try_from(host).unwrap_or(u32::MAX) << HOST) | ordinal
}

impl Evidence {
    /// Whether the GPUs of two ranks are in one host, as far as they are known.
    #[must_use]
    pub fn on_one_host(&self, one: u32, other: u32) -> bool {
        let host = |rank: u32| self.devices.get(rank as usize).map(|device| device >> HOST);
        host(one) == host(other)
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        u32::try_from(self.devices.len()).unwrap_or(u32::MAX)
    }

    /// The value of `name` that NCCL finds: what was asked for, or what ncclsweep sets instead; else what the processes have all
    /// alike, or the first line of a file.
    #[must_use]
    pub fn effective(&self, name: &str) -> Option<&str> {
        if let Some(asked) = self.asked.iter().find(|asked| asked.name == name) {
            return Some(asked.instead.as_deref().unwrap_or(&asked.value));
        }
        let mut seen = self.seen.iter().map(|seen| seen.variables.get(name));
        let first = seen.next().flatten().filter(|first| seen.all(|value| value == Some(*first)));
        first.or_else(|| self.files.iter().find(|line| line.name == name).map(|line| line.value.as_str()))
    }

    /// The environment of a rank's process.
    #[must_use]
    pub fn seen(&self, rank: u32) -> Option<&Vars> {
        self.seen.iter().find(|seen| seen.ranks.contains(&rank)).map(|seen| &seen.variables)
    }

    /// What `rank` used for the case on one communicator, in the way the case is timed: captured calls for graphs, eager
    /// ones otherwise. From the plugin; where that told nothing of the whole visit, from the log, and from that of another
    /// process where it told nothing of the case.
    #[must_use]
    pub fn used_on(&self, communicator: u32, index: usize, case: &Case, rank: u32) -> Vec<&Used> {
        let timed = |used: &&Used| used.captured.is_none_or(|captured| captured == (case.mode == Mode::Graph));
        let of_case = self.used.0.range((index, 0, 0)..(index + 1, 0, 0)).flat_map(|(_, used)| used);
        // A rank that alone is not told of lacks something: what others chose says nothing of it.
        let told = of_case.into_iter().any(|used| timed(&used)) || (self.tuning.is_none() && !self.used.0.is_empty());
        if told {
            let recorded = self.used.0.get(&(index, rank, communicator));
            return recorded.into_iter().flatten().filter(timed).collect();
        }
        // Rank 0 tells for all: the choice must be the same on all ranks, or the collective would not end.
        let choices = match &self.tuning {
            // Another process chose the same if it chose the same on all of its own communicators.
            Some(tuning) => tuning.communicators.iter().collect(),
            None => self.read.iter().flat_map(|read| self.communicator_of(read, communicator)).collect::<Vec<_>>(),
        };
        let choices = choices.into_iter().flat_map(|of| &of.ranks).flat_map(|rank| &rank.choices);
        choices.filter(|(bytes, _)| *bytes == case.bytes()).map(|(_, used)| used).collect()
    }

    /// A communicator in a log that has all of them.
    fn communicator_of<'a>(&self, read: &'a Read, at: u32) -> Option<&'a CommunicatorRead> {
        read.communicators.get(at as usize).filter(|_| read.communicators.len() == self.communicators as usize)
    }

    /// What `rank` used for the case on every communicator; nothing when one of them tells nothing.
    #[must_use]
    pub fn used(&self, index: usize, case: &Case, rank: u32) -> Option<Vec<&Used>> {
        let each = (0..self.communicators).map(|communicator| self.used_on(communicator, index, case, rank));
        let all: Option<Vec<_>> = each.map(|used| (!used.is_empty()).then_some(used)).collect();
        all.map(|all| all.concat()).filter(|all| !all.is_empty())
    }
}
