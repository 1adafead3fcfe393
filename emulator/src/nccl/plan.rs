//! What a communicator decides once: ring order, transports, channels; and for each size the algorithm, protocol, channels
//! and threads, with the true time that follows from them.

use std::collections::BTreeMap;

use super::lists::Complaint;
use super::tuning::{Inputs, LL, RING, SIMPLE, TREE, Tuning, default_threads};
use super::{env, log, trees};
use crate::remote::Home;
use crate::settings::{Settings, Version};
use crate::topology::{Graph, Hop, Machine, Path, Transfer, Transport, transfer_time};

/// The decisions of a communicator.
pub(crate) struct Plan {
    pub machine: &'static Machine,
    pub version: Version,
    /// The GPU of each rank, and where the rank is.
    pub gpus: Vec<usize>,
    pub homes: Vec<Home>,
    /// The ranks in ring order, from rank 0 on.
    pub ring: Vec<usize>,
    pub ring_graph: Graph,
    pub tree_graph: Graph,
    /// NVLink counts as a path: P2P over it is allowed.
    pub direct: bool,
    level: Path,
    pub channels: usize,
    pub tuning: Tuning,
    buffer: i64,
    scale: f64,
}

/// What NCCL does for one all-reduce.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Choice {
    pub algorithm: usize,
    pub protocol: usize,
    /// Upper bound of the channels, as tuning sets it.
    pub max_channels: usize,
    /// Channels the data is then spread over.
    pub channels: usize,
    pub warps: usize,
    /// NCCL's own estimate, µs.
    pub estimate: f64,
    /// The emulated truth, µs.
    pub micros: f64,
    /// What is added to it where a graph replays it, µs.
    pub replayed: f64,
}

/// How ranks were started, for factors on the true time: no variable of NCCL has this name.
const LAUNCH: &str = "LAUNCH";

fn launch(homes: &[Home]) -> String {
    let several = homes.iter().any(|home| home.process != homes[0].process);
    if several { "processes" } else { "threads" }.to_owned()
}

/// The GPUs of each host.
fn by_host(gpus: &[usize], homes: &[Home]) -> Vec<Vec<usize>> {
    let mut hosts: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    homes.iter().zip(gpus).for_each(|(home, &gpu)| hosts.entry(home.host).or_default().push(gpu));
    hosts.into_values().collect()
}

const DEFAULT_BUFFER: i64 = 4 << 20;

impl Plan {
    /// Decides for these GPUs (one per rank), reading the environment as NCCL does.
    pub(crate) fn new(settings: &Settings, gpus: Vec<usize>, homes: Vec<Home>) -> Result<Plan, Complaint> {
        let machine = settings.machine;
        let level = user_level(settings.nccl).unwrap_or(default_level(machine, &gpus));
        let direct = level >= Path::Nvl;
        let hosts = by_host(&gpus, &homes);
        let (ring_graph, tree_graph) = match hosts.len() {
            1 => machine.graphs(&gpus, direct),
            _ => machine.graphs_between(&hosts, direct),
        };
        let channels = channels(ring_graph.channels as usize, settings.nccl);
        let buffer = env::parameter("NCCL_BUFFSIZE").unwrap_or(DEFAULT_BUFFER);
        let inputs = Inputs {
            ranks: gpus.len(),
            nodes: hosts.len(),
            channels,
            amd: machine.amd,
            capability: machine.gpu.capability,
            ring: ring_graph,
            tree: tree_graph,
        };
        let tuning = Tuning::new(&inputs, settings.nccl)?;
        let mut ring: Vec<usize> = (0..gpus.len()).collect();
        let first_of_host = |rank: usize| homes.iter().position(|home| home.host == homes[rank].host);
        ring.sort_by_key(|&rank| (first_of_host(rank), gpus[rank], rank));
        let start = ring.iter().position(|&rank| rank == 0).unwrap_or(0);
        ring.rotate_left(start);
        Ok(Plan {
            machine,
            version: settings.nccl,
            scale: settings.scale(|name| if name == LAUNCH { Some(launch(&homes)) } else { env::get(name) }),
            gpus,
            homes,
            ring,
            ring_graph,
            tree_graph,
            direct,
            level,
            channels,
            tuning,
            buffer,
        })
    }

    pub(crate) fn ranks(&self) -> usize {
        self.gpus.len()
    }

    /// The rank after this one in the ring, and the one before.
    pub(crate) fn neighbours(&self, rank: usize) -> (usize, usize) {
        let n = self.ring.len();
        let at = self.ring.iter().position(|&other| other == rank).unwrap_or(0);
        (self.ring[(at + 1) % n], self.ring[(at + n - 1) % n])
    }

    /// The ranks above and below in the tree of a channel: within a host a chain along the ring, between hosts a binary tree of
    /// the chains' heads, mirrored for the second half of the channels.
    pub(crate) fn tree(&self, rank: usize, channel: usize) -> (Option<usize>, Vec<usize>) {
        let chains = self.chains();
        let host = chains.iter().position(|chain| chain.contains(&rank)).unwrap_or(0);
        let at = chains[host].iter().position(|&other| other == rank).unwrap_or(0);
        let mut below: Vec<usize> = chains[host].get(at + 1).copied().into_iter().collect();
        if let Some(above) = at.checked_sub(1) {
            return (Some(chains[host][above]), below);
        }
        let (above, hosts) = trees::of(chains.len(), host, 2 * channel >= self.channels.max(2));
        below.extend(hosts.into_iter().map(|host| chains[host][0]));
        (above.map(|host| chains[host][0]), below)
    }

    /// The ranks of each host in ring order.
    fn chains(&self) -> Vec<Vec<usize>> {
        let mut chains: Vec<Vec<usize>> = Vec::new();
        for &rank in &self.ring {
            match chains.iter_mut().find(|chain| self.homes[chain[0]].host == self.homes[rank].host) {
                Some(chain) => chain.push(rank),
                None => chains.push(vec![rank]),
            }
        }
        chains
    }

    /// The edges along which an all-reduce goes, and how many of its steps follow on one another.
    fn way(&self, algorithm: usize) -> (Vec<&Hop>, usize) {
        let hop = |from, to| self.machine.hop(self.transport(from, to));
        let chains = self.chains();
        if algorithm == TREE && chains.len() > 1 {
            let within = chains[0].windows(2).map(|pair| hop(pair[0], pair[1]));
            let levels = chains.len().next_power_of_two().ilog2() as usize;
            let edges: Vec<&Hop> = within.chain((0..levels).map(|_| hop(chains[0][0], chains[1][0]))).collect();
            let steps = 2 * edges.len();
            return (edges, steps);
        }
        ((0..self.ranks()).map(|rank| hop(rank, self.neighbours(rank).0)).collect(), 2 * (self.ranks() - 1))
    }

    /// The distance NCCL sees between two ranks.
    pub(crate) fn path(&self, a: usize, b: usize) -> Path {
        let (a, b) = (self.gpus[a], self.gpus[b]);
        if self.direct { self.machine.path(a, b) } else { self.machine.pci_path(a, b) }
    }

    /// Whether two ranks are in one process.
    pub(crate) fn together(&self, a: usize, b: usize) -> bool {
        self.homes[a].process == self.homes[b].process
    }

    /// Hosts, and the ranks of a rank's host.
    pub(crate) fn hosts(&self, rank: usize) -> (usize, Vec<usize>) {
        let mut hosts: Vec<u64> = self.homes.iter().map(|home| home.host).collect();
        let of = |host: u64| (0..self.ranks()).filter(|&other| self.homes[other].host == host).collect();
        let own = of(hosts[rank]);
        hosts.sort_unstable();
        hosts.dedup();
        (hosts.len(), own)
    }

    /// Whether every two ranks reach into each other's memory.
    pub(crate) fn is_direct(&self) -> bool {
        let direct = |way| matches!(way, Transport::SameGpu | Transport::Nvlink | Transport::Pcie);
        (0..self.ranks()).all(|a| (0..self.ranks()).all(|b| a == b || direct(self.transport(a, b))))
    }

    /// How two ranks talk.
    pub(crate) fn transport(&self, a: usize, b: usize) -> Transport {
        if self.homes[a].host != self.homes[b].host {
            return Transport::Socket;
        }
        if self.gpus[a] == self.gpus[b] {
            return Transport::SameGpu;
        }
        let path = self.path(a, b);
        if path <= self.level && self.machine.peer_access(self.gpus[a], self.gpus[b]) {
            return if path <= Path::Nvb { Transport::Nvlink } else { Transport::Pcie };
        }
        if env::parameter("NCCL_SHM_DISABLE") == Some(1) { Transport::Socket } else { Transport::HostMemory }
    }

    /// Whether a rank has work for its proxy: it is the one that sends and receives over a network.
    pub(crate) fn has_proxy(&self, rank: usize, algorithm: usize) -> bool {
        let (before, after) = self.neighbours(rank);
        let mut peers = vec![before, after];
        if algorithm == TREE {
            peers = (0..self.channels)
                .map(|channel| self.tree(rank, channel))
                .flat_map(|(above, below)| above.into_iter().chain(below))
                .collect();
        }
        peers.into_iter().any(|peer| peer != rank && matches!(self.transport(rank, peer), Transport::Socket))
    }

    /// What NCCL does for an all-reduce of `bytes`, or None when no algorithm is left.
    pub(crate) fn choose(&self, bytes: usize) -> Option<Choice> {
        if self.ranks() == 1 {
            let micros = 2.0 + bytes as f64 / 1e6;
            return Some(Choice {
                algorithm: RING,
                protocol: SIMPLE,
                max_channels: 1,
                channels: 1,
                warps: 16,
                estimate: 0.0,
                micros,
                replayed: 0.0,
            });
        }
        let (algorithm, protocol, estimate) = self.tuning.choose(bytes)?;
        let (max_channels, threads) = self.reduce_to(algorithm, protocol, bytes);
        let channels = spread(bytes, max_channels, self.channels, protocol);
        let most = self.tuning.max_threads[algorithm][protocol];
        let default = default_threads(&self.ring_graph, algorithm, protocol);
        let (edges, steps) = self.way(algorithm);
        let transfer = Transfer {
            ranks: self.ranks(),
            steps,
            bytes,
            tree: algorithm == TREE,
            protocol,
            channels,
            threads: most as f64 / default as f64,
            buffer: self.buffer,
        };
        let micros = transfer_time(&self.machine.base, &edges, &transfer) * self.scale;
        let over_network =
            (0..self.ranks()).any(|rank| self.transport(rank, self.neighbours(rank).0) == Transport::Socket);
        let replayed = if over_network { self.machine.host.callback } else { 0.0 };
        let warps = warps(algorithm, protocol, threads);
        Some(Choice { algorithm, protocol, max_channels, channels, warps, estimate, micros, replayed })
    }

    /// Fewer channels, then fewer threads, until each has enough to do.
    fn reduce_to(&self, algorithm: usize, protocol: usize, bytes: usize) -> (usize, i64) {
        let mut threshold: i64 = if protocol == SIMPLE { 64 } else { 8 };
        if algorithm == RING && protocol == LL {
            threshold *= self.ranks() as i64;
        }
        let mut threads = self.tuning.max_threads[algorithm][protocol];
        let mut channels = self.channels;
        let bytes = bytes as i64;
        while channels >= 2 && bytes < channels as i64 * threads * threshold {
            channels -= 1;
        }
        while threads % 128 == 0 && bytes < channels as i64 * threads * threshold {
            threads /= 2;
        }
        (channels, threads)
    }

    /// The lowest thread threshold lines of the log need it.
    pub(crate) fn ring_ll_threshold(&self) -> usize {
        8 * self.ranks()
    }
}

fn warps(algorithm: usize, protocol: usize, threads: i64) -> usize {
    let threads = match (algorithm, protocol) {
        (TREE, _) => 640,
        (_, SIMPLE) => threads + 32,
        _ => threads,
    };
    threads.max(96) as usize / 32
}

/// How many channels `scheduleCollTasksToPlan` spreads the data over: cells of at least 16 KiB of traffic each.
fn spread(bytes: usize, max_channels: usize, all_channels: usize, protocol: usize) -> usize {
    const MIN_TRAFFIC: usize = 16 << 10;
    let per_byte = if protocol == LL { 8 } else { 2 };
    let cell = MIN_TRAFFIC.div_ceil(per_byte).next_multiple_of(16);
    let cells = bytes.div_ceil(cell);
    let traffic = (bytes * per_byte).max(MIN_TRAFFIC);
    let per_channel = MIN_TRAFFIC.max(traffic / max_channels.max(1));
    let cells_per_channel = cells.min(per_channel.div_ceil(cell * per_byte)).max(1);
    cells.div_ceil(cells_per_channel).clamp(1, all_channels)
}

/// Channels after doubling, the caps and the minima.
fn channels(found: usize, version: Version) -> usize {
    let cap = if version.since(25) { 64 } else { 32 };
    let limit = |value: Option<i64>, otherwise: i64| value.unwrap_or(otherwise).clamp(0, cap);
    // NCCL takes -2 as not set.
    let set = |name| env::parameter(name).filter(|&value| value != -2);
    let most = limit(set("NCCL_MAX_NCHANNELS"), cap).max(1);
    let least = limit(set("NCCL_MIN_NCHANNELS"), 0);
    let positive = |name| env::parameter(name).filter(|&value| value > 0);
    let most_ctas = limit(positive("NCCL_MAX_CTAS"), cap);
    let least_ctas = limit(positive("NCCL_MIN_CTAS"), 1).min(most_ctas);
    let channels = (2 * found as i64).min(cap).min(most).min(most_ctas);
    channels.max(least.max(least_ctas)) as usize
}

fn default_level(machine: &Machine, gpus: &[usize]) -> Path {
    let mut distinct = gpus.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    if machine.amd && distinct.len() <= 2 { Path::Sys } else { Path::Pxb }
}

/// What NCCL_P2P_DISABLE or NCCL_P2P_LEVEL asks for; read once per process.
fn user_level(version: Version) -> Option<Path> {
    static LEVEL: std::sync::OnceLock<Option<Path>> = std::sync::OnceLock::new();
    *LEVEL.get_or_init(|| {
        let disable = env::get("NCCL_P2P_DISABLE").and_then(|text| env::strtoll(&text)) == Some(1);
        if disable {
            let line = if version.since(23) {
                "NCCL_P2P_DISABLE set by environment to 1"
            } else {
                "NCCL_P2P_LEVEL set by environment to LOC"
            };
            log::info(log::ALL, line);
            return Some(Path::Loc);
        }
        let level = parse_level(&env::get("NCCL_P2P_LEVEL")?, version)?;
        log::info(log::ALL, &format!("NCCL_P2P_LEVEL set by environment to {}", level.name()));
        Some(level)
    })
}

/// A level by name (case counts) or by its old number; anything else is ignored in silence.
fn parse_level(text: &str, version: Version) -> Option<Path> {
    let known = |path: &Path| match path {
        Path::C2c => version.since(26),
        Path::P2c => version.since(27),
        _ => true,
    };
    if let Some(path) = Path::ALL.into_iter().filter(known).find(|path| path.name() == text) {
        return Some(path);
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some(match env::strtoll(text)? {
        ..=0 => Path::Loc,
        1 => Path::Pix,
        2 => Path::Pxb,
        3 => Path::Phb,
        _ => Path::Sys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(gpus: Vec<usize>) -> Plan {
        let homes = Home::one(gpus.len());
        Plan::new(crate::settings::get(), gpus, homes).unwrap()
    }

    #[test]
    fn channels_follow_the_recorded_logs() {
        for (bytes, max, all, protocol, channels) in [
            (14336, 1, 4, LL, 1),
            (28672, 3, 4, LL, 3),
            (43008, 4, 4, LL, 4),
            (57344, 4, 4, LL, 4),
            (229_376, 4, 4, LL, 4),
            (28672, 3, 24, LL, 3),
            (43008, 5, 24, LL, 5),
            (57344, 7, 24, LL, 7),
            (229_376, 24, 24, LL, 23),
        ] {
            assert_eq!(spread(bytes, max, all, protocol), channels, "{bytes} B on {max}");
        }
    }

    #[test]
    fn the_box_of_the_story_takes_simple_on_two_channels_by_default() {
        let choice = plan((0..8).collect()).choose(32768).unwrap();
        assert_eq!((choice.algorithm, choice.protocol, choice.channels), (RING, SIMPLE, 2));
        assert!((choice.micros / 48.0 - 1.0).abs() < 0.03, "{} µs", choice.micros);
    }

    #[test]
    fn by_default_only_pairs_below_a_switch_use_p2p() {
        let plan = plan((0..8).collect());
        assert_eq!(plan.transport(0, 1), Transport::Pcie);
        assert_eq!(plan.transport(1, 2), Transport::HostMemory);
        assert_eq!(plan.transport(3, 4), Transport::HostMemory);
    }

    #[test]
    fn two_gpus_of_an_amd_host_use_p2p_at_any_distance() {
        assert_eq!(plan(vec![0, 7]).transport(0, 1), Transport::Pcie);
    }

    #[test]
    fn ranks_of_one_gpu_stand_together_in_the_ring() {
        assert_eq!(plan(vec![0, 1, 0, 1, 0, 1, 0, 1]).ring, [0, 2, 4, 6, 1, 3, 5, 7]);
        assert_eq!(plan(vec![1, 0]).ring, [0, 1]);
    }

    #[test]
    fn levels_are_case_sensitive_names_or_numbers() {
        let new = Version::new(2, 28, 3);
        for (text, level) in [
            ("SYS", Some(Path::Sys)),
            ("sys", None),
            ("NODE", None),
            ("0", Some(Path::Loc)),
            ("3", Some(Path::Phb)),
            ("9", Some(Path::Sys)),
            ("P2C", Some(Path::P2c)),
        ] {
            assert_eq!(parse_level(text, new), level, "{text}");
        }
        assert_eq!(parse_level("P2C", Version::new(2, 21, 5)), None);
    }
}
