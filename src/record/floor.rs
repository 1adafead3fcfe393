//! What an all-reduce costs at least on this box (`--floor`): a flag's hop between two GPUs, a kernel that does nothing, and
//! the floors of a ring and of a one-shot all-reduce that follow from them.
//!
//! A floor is the latency of the steps alone: no byte of the message is in it. At small sizes NCCL can come near to it, at
//! large ones the bytes stand in between.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::visit::Visit;
use crate::collective::Mode;
use crate::nccl::words::Transport;
use crate::plan::schedule::Plan;
use crate::stats::median_of;

/// The memory over which a flag hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// The memory of the GPU that waits for it: over NVLink or PCIe, within the GPU for two ranks on one.
    PeerMemory,
    /// Pinned host memory.
    HostMemory,
}

impl Over {
    /// Both.
    pub const ALL: [Self; 2] = [Self::PeerMemory, Self::HostMemory];

    /// The memory that a transport of NCCL uses; none for the network.
    #[must_use]
    pub fn of(transport: &Transport) -> Option<Self> {
        match transport {
            Transport::P2p(_) => Some(Self::PeerMemory),
            Transport::Shm(_) => Some(Self::HostMemory),
            Transport::Net(_) | Transport::CollNet(_) | Transport::Unknown(_) => None,
        }
    }
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::PeerMemory => "peer memory",
            Self::HostMemory => "host memory",
        })
    }
}

/// A flag between two GPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FlagHop {
    /// CUDA ordinals; the same twice for two ranks on one GPU.
    pub gpus: [u32; 2],
    /// By which way.
    pub over: Over,
    /// One way, the mean of both directions, µs: of each run. Empty when it could not be measured.
    pub runs_us: Vec<f64>,
    /// Why it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl FlagHop {
    /// One way, µs: the median of the runs.
    #[must_use]
    pub fn micros(&self) -> Option<f64> {
        (!self.runs_us.is_empty()).then(|| median_of(self.runs_us.iter().copied()))
    }
}

/// What a kernel costs that does nothing, µs, in each of the ways calls are timed in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EmptyKernel {
    /// CUDA ordinal of the GPU.
    pub gpu: u32,
    /// As one of a graph's chain.
    pub graph_us: f64,
    /// As one of a batch of launches.
    pub stream_us: f64,
    /// As a lone launch that the host waits for.
    pub sync_us: f64,
}

impl EmptyKernel {
    /// In one way of timing.
    #[must_use]
    pub fn micros(&self, mode: Mode) -> f64 {
        match mode {
            Mode::Graph => self.graph_us,
            Mode::Stream => self.stream_us,
            Mode::Sync => self.sync_us,
        }
    }
}

/// What was measured, by a process of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Floor {
    /// UTC time of the start.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started: jiff::Timestamp,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Kernels that do nothing, a GPU each.
    pub kernels: Vec<EmptyKernel>,
    /// Flags between every two GPUs.
    pub hops: Vec<FlagHop>,
    /// Why it is not whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What an all-reduce of one cell costs at least, µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CellFloor {
    /// A ring in the order of the ranks: 2(n−1) hops one after the other, and the launch.
    pub ring_us: f64,
    /// Every rank writes to every other at once: one hop, and the launch.
    pub one_shot_us: f64,
}

/// By which memory each rank of an arm sends to each other, as its visits' logs tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways(BTreeMap<(u32, u32), Over>);

impl Ways {
    /// As these visits tell, the slower way where they differ.
    #[must_use]
    pub fn of<'a>(visits: impl IntoIterator<Item = &'a Visit>) -> Self {
        let mut ways = Self::default();
        let reads = visits.into_iter().filter_map(|visit| visit.read.as_ref());
        for rank in reads.flat_map(|read| &read.communicators).flat_map(|of| &of.ranks) {
            let hops = rank.sends.iter().flat_map(|hop| hop.via.iter().map(move |via| (hop.to, via)));
            for (to, over) in hops.filter_map(|(to, via)| Some((to, Over::of(via)?))) {
                let known = ways.0.entry((rank.rank, to)).or_insert(over);
                *known = over.max(*known);
            }
        }
        ways
    }

    /// All that are in use.
    #[must_use]
    pub fn in_use(&self) -> Vec<Over> {
        Over::ALL.into_iter().filter(|over| self.0.values().any(|used| used == over)).collect()
    }

    /// Between two ranks: what is told of them, else what holds for most.
    fn between(&self, from: u32, to: u32) -> Option<Over> {
        let count = |over: &Over| self.0.values().filter(|used| *used == over).count();
        self.0.get(&(from, to)).copied().or_else(|| self.in_use().into_iter().max_by_key(count))
    }
}

impl Floor {
    /// A flag's hop between two GPUs, µs.
    #[must_use]
    pub fn hop(&self, a: u32, b: u32, over: Over) -> Option<f64> {
        let of_pair = |hop: &&FlagHop| hop.over == over && (hop.gpus == [a, b] || hop.gpus == [b, a]);
        self.hops.iter().find(of_pair)?.micros()
    }

    /// The floors of an arm's cells of one mode; none where a hop that they need was not measured.
    #[must_use]
    pub fn of_cell(&self, plan: &Plan, ways: &Ways, mode: Mode) -> Option<CellFloor> {
        let (ranks, gpus) = (plan.ranks, plan.devices.len());
        let gpu = |rank: u32| plan.devices[rank as usize % gpus];
        let hop = |from: u32, to: u32| self.hop(gpu(from), gpu(to), ways.between(from, to)?);
        let launch = self.kernels.iter().map(|kernel| kernel.micros(mode)).reduce(f64::max)?;
        let edges: Vec<f64> = (0..ranks).map(|rank| hop(rank, (rank + 1) % ranks)).collect::<Option<_>>()?;
        let others = (0..ranks).flat_map(|from| (0..ranks).filter(move |to| *to != from).map(move |to| (from, to)));
        let farthest =
            others.map(|(from, to)| hop(from, to)).collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::max)?;
        Some(CellFloor { ring_us: around(&edges) + launch, one_shot_us: farthest + launch })
    }
}

/// The longest way that a part of the data goes in a ring: 2(n−1) edges in a row, which leaves out two that follow each other.
fn around(edges: &[f64]) -> f64 {
    let next = edges.iter().cycle().skip(1);
    let left_out = edges.iter().zip(next).map(|(edge, next)| edge + next).fold(f64::INFINITY, f64::min);
    2.0 * edges.iter().sum::<f64>() - left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::{CommunicatorRead, Hop, RankRead, Read};
    use crate::record::fixture;

    fn hop(gpus: [u32; 2], over: Over, micros: f64) -> FlagHop {
        FlagHop { gpus, over, runs_us: vec![micros; 3], why: None }
    }

    fn floor(hops: Vec<FlagHop>) -> Floor {
        let kernel = |gpu: u32| EmptyKernel { gpu, graph_us: 0.5, stream_us: 2.0, sync_us: 9.0 };
        let started = "2026-03-14T09:26:26Z".parse().expect("a time");
        Floor { started, seconds: 1.0, kernels: vec![kernel(0), kernel(1)], hops, failed: None }
    }

    fn plan(devices: &[u32], ranks: u32) -> Plan {
        Plan { devices: devices.to_vec(), ranks, ..fixture::two_sets().header.plan }
    }

    /// What the log tells of rank 0, which sends to rank 1.
    fn sends_via(transports: &[&str]) -> Option<Read> {
        let communicator = |via: &&str| {
            let hop = Hop { to: 1, via: [Transport::from((*via).to_owned())].into() };
            CommunicatorRead { ranks: vec![RankRead { sends: vec![hop], ..RankRead::default() }] }
        };
        Some(Read { communicators: transports.iter().map(communicator).collect(), ..Read::default() })
    }

    fn ways(of: &[(u32, u32, Over)]) -> Ways {
        Ways(of.iter().map(|(from, to, over)| ((*from, *to), *over)).collect())
    }

    #[test]
    fn two_ranks_in_a_ring_make_two_hops_and_one_shot_makes_one() {
        let floor = floor(vec![hop([0, 1], Over::HostMemory, 1.76)]);
        let ways = ways(&[(0, 1, Over::HostMemory), (1, 0, Over::HostMemory)]);
        let of = floor.of_cell(&plan(&[0, 1], 2), &ways, Mode::Graph).expect("all is measured");
        assert!((of.ring_us - 4.02).abs() < 1e-9 && (of.one_shot_us - 2.26).abs() < 1e-9, "{of:?}");
        let lone = floor.of_cell(&plan(&[0, 1], 2), &ways, Mode::Sync).expect("all is measured");
        assert!((lone.ring_us - 12.52).abs() < 1e-9, "a lone call pays for its launch: {lone:?}");
    }

    #[test]
    fn a_ring_of_equal_hops_makes_twice_all_but_one() {
        for ranks in 2..9 {
            assert!((around(&vec![1.5; ranks]) - 3.0 * (ranks - 1) as f64).abs() < 1e-9);
        }
    }

    #[test]
    fn the_longest_way_round_leaves_out_the_shortest_two_in_a_row() {
        assert!((around(&[1.0, 2.0, 4.0, 8.0]) - (30.0 - 3.0)).abs() < 1e-9);
    }

    #[test]
    fn ranks_that_share_a_gpu_hop_within_it() {
        let hops = vec![hop([0, 0], Over::PeerMemory, 0.5), hop([1, 0], Over::HostMemory, 2.0)];
        let told =
            [(0, 1, Over::HostMemory), (1, 2, Over::HostMemory), (2, 3, Over::HostMemory), (3, 0, Over::HostMemory)];
        let mut told = Vec::from(told);
        told.extend([(0, 2, Over::PeerMemory), (2, 0, Over::PeerMemory)]);
        let floor = floor(hops);
        assert_eq!(
            floor.of_cell(&plan(&[0, 1], 4), &ways(&told), Mode::Graph),
            None,
            "no hop within GPU 1 was measured"
        );
        let mut whole = floor.clone();
        whole.hops.push(hop([1, 1], Over::PeerMemory, 0.5));
        told.extend([(1, 3, Over::PeerMemory), (3, 1, Over::PeerMemory)]);
        let of = whole.of_cell(&plan(&[0, 1], 4), &ways(&told), Mode::Graph).expect("all is measured");
        assert!((of.ring_us - 12.5).abs() < 1e-9 && (of.one_shot_us - 2.5).abs() < 1e-9, "{of:?}");
    }

    #[test]
    fn a_hop_that_was_not_measured_leaves_a_cell_without_a_floor() {
        let mut stuck = hop([0, 1], Over::PeerMemory, 0.6);
        (stuck.runs_us, stuck.why) = (Vec::new(), Some("no flag arrived".into()));
        let floor = floor(vec![stuck, hop([0, 1], Over::HostMemory, 1.8)]);
        let peer = ways(&[(0, 1, Over::PeerMemory), (1, 0, Over::PeerMemory)]);
        assert_eq!(floor.of_cell(&plan(&[0, 1], 2), &peer, Mode::Graph), None);
        assert_eq!(floor.of_cell(&plan(&[0, 1], 2), &Ways::default(), Mode::Graph), None, "no way is known");
    }

    #[test]
    fn the_log_tells_the_way_between_two_ranks_and_the_slower_one_counts() {
        let mut visit = fixture::two_sets().visits[0].clone();
        visit.read = sends_via(&["P2P/CUMEM", "SHM/direct/direct"]);
        let ways = Ways::of([&visit]);
        assert_eq!(ways, self::ways(&[(0, 1, Over::HostMemory)]));
        assert_eq!(ways.in_use(), [Over::HostMemory]);
        visit.read = sends_via(&["NET/Socket/0"]);
        assert_eq!(Ways::of([&visit]).in_use(), []);
    }
}
