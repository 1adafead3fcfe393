//! NCCL's published tuning model (`graph/tuning.cc`): what it believes each algorithm and protocol costs on this box.
//!
//! Without CollNet and NVLS, which no emulated box has.

use super::lists::{ALL_REDUCE, Complaint};
use super::{env, lists, log};
use crate::settings::Version;
use crate::topology::{Graph, Path};

pub(crate) const TREE: usize = 0;
pub(crate) const RING: usize = 1;
/// Named only: no emulated box has it.
const NVLS: usize = 4;
pub(crate) const LL: usize = 0;
pub(crate) const LL128: usize = 1;
pub(crate) const SIMPLE: usize = 2;

/// Latency in µs and bandwidth in GB/s per function, algorithm and protocol; bandwidth 0 means not available.
pub(crate) struct Tuning {
    /// Bytes from which on a ring of Simple takes `PLATEAU` of its latency.
    plateau_from: usize,
    pub latency: [[[f64; 3]; 7]; 5],
    pub bandwidth: [[[f64; 3]; 7]; 5],
    pub max_threads: [[i64; 3]; 7],
    pub protocols: [[u8; 3]; 5],
    pub algorithms: [[u8; 7]; 5],
}

const BASE: [[f64; 3]; 2] = [[6.8, 14.0, 8.4], [6.6, 14.0, 8.4]];
const NVLINK: [[f64; 3]; 2] = [[0.6, 1.25, 4.0], [0.6, 1.9, 3.4]];
const PCI: [[f64; 3]; 2] = [[1.0, 1.9, 4.0], [1.0, 2.5, 5.7]];
const NETWORK: [[f64; 3]; 2] = [[5.0, 8.5, 14.0], [2.7, 4.0, 14.0]];
/// Between nodes an all-reduce of Simple by a ring takes so much longer than its steps, from some bytes for each rank and channel on.
const PLATEAU: f64 = 1.4;
const PLATEAU_FROM: usize = 64;

/// What a GPU generation can do: LL bandwidth, LL128 per ring channel, LL128 and Simple per tree channel.
struct Limits {
    ll: f64,
    ring_ll128: f64,
    tree_ll128: f64,
    tree: f64,
}

fn limits(capability: u32) -> Limits {
    match capability {
        100.. => Limits { ll: 282.0, ring_ll128: 40.0, tree_ll128: 55.6, tree: 70.0 },
        90.. => Limits { ll: 141.0, ring_ll128: 36.7, tree_ll128: 36.7, tree: 38.7 },
        80.. => Limits { ll: 87.7, ring_ll128: 20.0, tree_ll128: 20.0, tree: 24.0 },
        _ => Limits { ll: 39.0, ring_ll128: 20.0, tree_ll128: 20.0, tree: 26.5 },
    }
}

/// Trees do not stick to the model for medium sizes; powers of two from 64 B on.
const TREE_CORRECTION: [[f64; 24]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0,
        1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0,
        1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9,
        0.9, 0.9,
    ],
];

/// What the model is computed from.
pub(crate) struct Inputs {
    pub ranks: usize,
    pub nodes: usize,
    /// All channels, as doubled and limited.
    pub channels: usize,
    pub amd: bool,
    pub capability: u32,
    pub ring: Graph,
    pub tree: Graph,
}

impl Tuning {
    /// The tables for a communicator; reads NCCL_NTHREADS, NCCL_PROTO and NCCL_ALGO.
    pub(crate) fn new(inputs: &Inputs, version: Version) -> Result<Tuning, Complaint> {
        let plateau_from = if inputs.nodes > 1 { PLATEAU_FROM * inputs.channels * inputs.ranks } else { usize::MAX };
        let mut tuning = Tuning {
            plateau_from,
            latency: [[[0.0; 3]; 7]; 5],
            bandwidth: [[[0.0; 3]; 7]; 5],
            max_threads: max_threads(&inputs.ring),
            protocols: [[1, 2, 1]; 5],
            algorithms: [[1; 7]; 5],
        };
        tuning.read_lists(version)?;
        for function in 0..5 {
            for algorithm in [TREE, RING] {
                if algorithm == TREE && function != ALL_REDUCE {
                    continue;
                }
                for protocol in [LL, LL128, SIMPLE] {
                    let latency = latency(inputs, function, algorithm, protocol);
                    tuning.latency[function][algorithm][protocol] = latency;
                    if tuning.enabled(inputs, function, algorithm, protocol) {
                        let bandwidth = bandwidth(inputs, function, algorithm, protocol);
                        tuning.bandwidth[function][algorithm][protocol] = bandwidth;
                    }
                }
            }
            if !version.since(24) {
                tuning.fall_back(inputs, function, version);
            }
        }
        Ok(tuning)
    }

    /// When the lists leave nothing, NCCL takes ring: up to 2.21 with every protocol, then with those that are on.
    fn fall_back(&mut self, inputs: &Inputs, function: usize, version: Version) {
        if self.bandwidth[function].iter().flatten().any(|bandwidth| *bandwidth != 0.0) {
            return;
        }
        for protocol in [LL, LL128, SIMPLE] {
            if !version.since(22) || self.protocol_on(inputs, function, RING, protocol) {
                self.bandwidth[function][RING][protocol] = bandwidth(inputs, function, RING, protocol);
            }
        }
    }

    fn read_lists(&mut self, version: Version) -> Result<(), Complaint> {
        if let Some(text) = env::get("NCCL_PROTO") {
            lists::apply(&text, &lists::PROTOCOLS, version, &mut self.protocols)?;
        }
        if let Some(text) = env::get("NCCL_ALGO") {
            lists::apply(&text, &lists::ALGORITHMS, version, &mut self.algorithms)?;
        }
        if !version.since(24) && [TREE, RING, NVLS].iter().all(|named| self.algorithms[ALL_REDUCE][*named] == 0) {
            // Up to 2.23 who names none of these (or CollNet, which no emulated box has) gets the first two.
            for function in &mut self.algorithms {
                (function[TREE], function[RING]) = (1, 1);
            }
        }
        Ok(())
    }

    fn enabled(&self, inputs: &Inputs, function: usize, algorithm: usize, protocol: usize) -> bool {
        self.protocol_on(inputs, function, algorithm, protocol) && self.algorithms[function][algorithm] != 0
    }

    fn protocol_on(&self, inputs: &Inputs, function: usize, algorithm: usize, protocol: usize) -> bool {
        let graph = if algorithm == TREE { &inputs.tree } else { &inputs.ring };
        match self.protocols[function][protocol] {
            // LL128 by default only where all of the path is NVLink.
            2 => graph.intra <= Path::Nvb && graph.inter <= Path::Pxb,
            on => on == 1,
        }
    }

    /// What NCCL believes an all-reduce takes, µs.
    pub(crate) fn time(&self, algorithm: usize, protocol: usize, bytes: usize) -> Option<f64> {
        let mut bandwidth = self.bandwidth[ALL_REDUCE][algorithm][protocol];
        if bandwidth == 0.0 {
            return None;
        }
        let power = (bytes >> 6).checked_ilog2().map_or(usize::MAX, |log| log as usize);
        if algorithm == TREE && power < 23 {
            bandwidth *= TREE_CORRECTION[protocol][power];
        }
        let plateau = if (algorithm, protocol) == (RING, SIMPLE) && bytes >= self.plateau_from { PLATEAU } else { 1.0 };
        Some(plateau * self.latency[ALL_REDUCE][algorithm][protocol] + bytes as f64 / (1000.0 * bandwidth))
    }

    /// The algorithm and protocol NCCL takes for an all-reduce, with its estimate.
    pub(crate) fn choose(&self, bytes: usize) -> Option<(usize, usize, f64)> {
        let mut best: Option<(usize, usize, f64)> = None;
        for algorithm in [TREE, RING] {
            for protocol in [LL, LL128, SIMPLE] {
                let time = self.time(algorithm, protocol, bytes);
                if let Some(time) = time.filter(|time| best.is_none_or(|(_, _, least)| *time < least)) {
                    best = Some((algorithm, protocol, time));
                }
            }
        }
        best
    }
}

/// Steps of a ring for the five functions among so many: ranks, or nodes.
fn steps(function: usize, among: usize) -> f64 {
    match function {
        ALL_REDUCE => 2.0 * (among - 1) as f64,
        2 | 3 => (among - 1) as f64,
        _ => among as f64,
    }
}

fn latency(inputs: &Inputs, function: usize, algorithm: usize, protocol: usize) -> f64 {
    let graph = if algorithm == TREE { &inputs.tree } else { &inputs.ring };
    let hardware = if graph.intra == Path::Nvl { &NVLINK } else { &PCI };
    let base = BASE[algorithm][protocol];
    let (within, between) = (hardware[algorithm][protocol], NETWORK[algorithm][protocol]);
    if algorithm == TREE {
        let local = inputs.ranks / inputs.nodes - 1;
        return base + 2.0 * (local as f64 * within + f64::from(inputs.nodes.ilog2()) * between);
    }
    if function < 2 {
        // Reduce and Broadcast: one step where all channels are alike, which they are of one ring order.
        return base + if inputs.nodes > 1 { between } else { within };
    }
    if inputs.nodes == 1 {
        return base + steps(function, inputs.ranks) * within;
    }
    // A node's only GPU has nothing to hide the network behind.
    let between = if inputs.ranks == inputs.nodes { NETWORK[TREE][protocol] } else { between };
    let overhead = if inputs.amd { 2.0 } else { 1.0 } * if protocol == SIMPLE { 3.0 } else { 1.0 };
    let network = steps(function, inputs.nodes);
    base + (steps(function, inputs.ranks) - network) * within.max(overhead) + network * between
}

fn bandwidth(inputs: &Inputs, function: usize, algorithm: usize, protocol: usize) -> f64 {
    let limits = limits(inputs.capability);
    let graph = if algorithm == TREE { &inputs.tree } else { &inputs.ring };
    let channels = f64::from(graph.channels);
    let mut bus = channels * graph.bandwidth;
    if algorithm == RING {
        bus = match protocol {
            LL => limits.ll.min(bus * 0.5),
            LL128 => (bus * 0.92).min(channels * limits.ring_ll128),
            _ => bus,
        };
        return bus * inputs.ranks as f64 / steps(function, inputs.ranks);
    }
    bus = (bus * 0.92).min(channels * limits.tree);
    bus = match protocol {
        LL => (bus / 3.8).min(limits.ll),
        LL128 => (bus * if inputs.nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 }).min(channels * limits.tree_ll128),
        _ => bus,
    };
    // With one GPU in each node the tree is a plain one.
    let plain = if inputs.nodes > 1 && inputs.ranks == inputs.nodes { 0.85 } else { 1.0 };
    bus * plain * 0.5
}

const WARP: i64 = 32;
const MAX_THREADS: i64 = 512;
const LL128_MAX_THREADS: i64 = 640;
const PCI_BANDWIDTH: f64 = 12.0;

/// Threads per block without NCCL_NTHREADS or NCCL_LL128_NTHREADS.
pub(crate) fn default_threads(ring: &Graph, algorithm: usize, protocol: usize) -> i64 {
    match (algorithm, protocol) {
        (_, LL128) => LL128_MAX_THREADS,
        (RING, SIMPLE) if ring.bandwidth * f64::from(ring.channels) <= PCI_BANDWIDTH => 256,
        _ => MAX_THREADS,
    }
}

fn max_threads(ring: &Graph) -> [[i64; 3]; 7] {
    let of = |algorithm, protocol| {
        let default = default_threads(ring, algorithm, protocol);
        if protocol == LL128 {
            let asked = env::parameter("NCCL_LL128_NTHREADS").unwrap_or(-2);
            return clamp_threads("NCCL_LL128_NTHREADS", asked, LL128_MAX_THREADS / 4, LL128_MAX_THREADS, default);
        }
        let asked = env::parameter("NCCL_NTHREADS").unwrap_or(-2);
        clamp_threads("NCCL_NTHREADS", asked, 2 * WARP, MAX_THREADS, default)
    };
    let both = |algorithm| [LL, LL128, SIMPLE].map(|protocol| of(algorithm, protocol));
    let none = [0, 0, LL128_MAX_THREADS];
    [both(TREE), both(RING), none, none, none, none, [0, 0, 0]]
}

fn clamp_threads(name: &str, asked: i64, least: i64, most: i64, default: i64) -> i64 {
    let complain = |why: String| log::info(log::GRAPH | log::ENV, &format!("Invalid {name} {asked} ({why}"));
    match asked {
        ..=0 => default,
        _ if asked % WARP != 0 => {
            complain(format!("must be a multiple of {WARP})"));
            most
        }
        _ if asked > most => {
            complain(format!("maximum {most})."));
            most
        }
        _ if asked < least => {
            complain(format!("minimum {least})."));
            least
        }
        _ => asked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuning(ranks: usize, capability: u32, graphs: (Graph, Graph)) -> Tuning {
        between(1, ranks, capability, graphs)
    }

    fn between(nodes: usize, ranks: usize, capability: u32, graphs: (Graph, Graph)) -> Tuning {
        let channels = 2 * graphs.0.channels as usize;
        let inputs = Inputs { ranks, nodes, channels, amd: false, capability, ring: graphs.0, tree: graphs.1 };
        Tuning::new(&inputs, Version::new(2, 28, 3)).unwrap()
    }

    fn graph(channels: u32, bandwidth: f64, intra: Path) -> Graph {
        Graph { channels, bandwidth, intra, inter: Path::Pix }
    }

    fn row(tuning: &Tuning, algorithm: usize) -> Vec<String> {
        (0..3)
            .map(|p| {
                let (l, b) = (tuning.latency[4][algorithm][p], tuning.bandwidth[4][algorithm][p]);
                format!("{l:.1}/{b:.1}")
            })
            .collect()
    }

    #[test]
    fn the_tables_are_those_of_recorded_logs() {
        let host = tuning(2, 90, (graph(2, 20.0, Path::Phb), graph(2, 40.0, Path::Phb)));
        assert_eq!(row(&host, TREE), ["8.8/9.7", "17.8/0.0", "16.4/36.8"]);
        assert_eq!(row(&host, RING), ["8.6/20.0", "19.0/0.0", "19.8/40.0"]);
        let nvlink = tuning(2, 90, (graph(12, 30.0, Path::Nvl), graph(12, 60.0, Path::Nvl)));
        assert_eq!(row(&nvlink, TREE), ["8.0/61.1", "16.5/180.6", "16.4/232.2"]);
        assert_eq!(row(&nvlink, RING), ["7.8/141.0", "17.8/331.2", "15.2/360.0"]);
        let eight = tuning(8, 90, (graph(2, 20.0, Path::Phb), graph(2, 40.0, Path::Phb)));
        assert_eq!(row(&eight, RING), ["20.6/11.4", "49.0/0.0", "88.2/22.9"]);
    }

    #[test]
    fn a_failed_search_makes_nccl_prefer_simple_from_8_kib_on() {
        let failed = Graph { channels: 2, bandwidth: 0.1, intra: Path::Sys, inter: Path::Sys };
        let tuning = tuning(8, 120, (failed, failed));
        assert_eq!(tuning.choose(4096).map(|c| (c.0, c.1)), Some((RING, LL)));
        for bytes in [14336, 28672, 32768, 57344] {
            assert_eq!(tuning.choose(bytes).map(|c| (c.0, c.1)), Some((RING, SIMPLE)), "{bytes}");
        }
    }

    #[test]
    fn a_working_search_makes_nccl_take_ll() {
        let tuning = tuning(8, 120, (graph(2, 20.0, Path::Phb), graph(2, 40.0, Path::Phb)));
        assert_eq!(tuning.choose(57344).map(|c| (c.0, c.1)), Some((RING, LL)));
    }

    #[test]
    fn between_two_hosts_of_one_gpu_simple_is_taken_from_three_rows_on() {
        let graph = |bandwidth| Graph { channels: 1, bandwidth, intra: Path::Loc, inter: Path::Phb };
        let tuning = between(2, 2, 90, (graph(1.2), graph(2.4)));
        let chosen = [14336, 28672, 43008, 57344].map(|bytes| tuning.choose(bytes).map(|c| (c.0, c.1)));
        assert_eq!(chosen, [Some((RING, LL)), Some((RING, LL)), Some((RING, SIMPLE)), Some((RING, SIMPLE))]);
    }

    #[test]
    fn the_estimate_is_that_of_a_recorded_log() {
        let host = tuning(2, 90, (graph(2, 20.0, Path::Phb), graph(2, 40.0, Path::Phb)));
        assert!((host.choose(14336).unwrap().2 - 9.3168).abs() < 1e-4);
    }
}
