//! [`Read`]: what NCCL's log of one visit tells, cut down to what proof needs and small enough to be stored.
//!
//! A log that lost lines must never make anything look applied: each part says itself whether it is whole. Connections of a
//! rank are whole when every channel the rank was set up with has one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::used::Used;
use crate::nccl::log::{Communicator, HostBuffer, Log, Rank, Side};
use crate::nccl::version::NcclVersion;
use crate::nccl::words::{Algorithm, Function, Protocol, Transport};
use crate::units::{Bytes, GBps};

/// What the log of one visit tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Read {
    /// Version of the library, when one only is named.
    pub version: Option<NcclVersion>,
    /// Variables NCCL said it read.
    pub env: Vec<EnvRead>,
    /// Communicators, in the order they were made.
    pub communicators: Vec<CommunicatorRead>,
    /// What NCCL said of environment, profiler and tuner plugins, each line once.
    pub plugins: Vec<String>,
    /// Buffers in host memory that processes made for connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<BufferRead>,
    /// Why the log cannot be taken for whole; nothing when it can.
    pub gaps: Vec<String>,
}

/// A variable NCCL said it read, with one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EnvRead {
    /// Its name.
    pub name: String,
    /// The value as NCCL understood it.
    pub value: String,
    /// NCCL said that it cannot use the value.
    pub refused: bool,
    /// Ranks that said so themselves.
    pub said_by: BTreeSet<u32>,
    /// Somebody said so of whom the log does not tell which rank it is.
    pub unplaced: bool,
    /// Ranks of the processes that said so: what is read once per process holds for all of them.
    pub ranks: BTreeSet<u32>,
}

/// A buffer in host memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BufferRead {
    /// Its size.
    pub bytes: Bytes,
    /// Made by `cuMemCreate`, else a mapped file.
    pub cumem: bool,
    /// Ranks of the process that made it.
    pub ranks: BTreeSet<u32>,
}

/// A communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CommunicatorRead {
    /// Its ranks, by number.
    pub ranks: Vec<RankRead>,
}

/// A rank of a communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RankRead {
    /// Its number.
    pub rank: u32,
    /// Its initialisation was logged to the end.
    pub complete: bool,
    /// Channels set up for collectives.
    pub channels: Option<u32>,
    /// Results of the graph search, each once.
    pub graphs: Vec<GraphRead>,
    /// How it sends to others.
    pub sends: Vec<Hop>,
    /// Every channel has a connection in `sends`, or in those that its peers told.
    pub connected: bool,
    /// What was chosen, by bytes; told by rank 0 under TUNING.
    pub choices: Vec<(Bytes, Used)>,
    /// Most threads of a block per algorithm and protocol; told by rank 0 under TUNING.
    pub threads: Vec<(Algorithm, Protocol, u32)>,
}

/// How a rank sends to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Hop {
    /// The other.
    pub to: u32,
    /// Over all channels.
    pub via: BTreeSet<Transport>,
}

/// A result of NCCL's graph search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct GraphRead {
    /// 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNet direct.
    pub pattern: u32,
    /// Channels found.
    pub channels: u32,
    /// Bandwidth of a channel within the node.
    pub bandwidth: GBps,
    /// Worst path within the node.
    pub intra: String,
    /// Worst path between nodes.
    pub inter: String,
}

impl Read {
    /// What `log` tells.
    #[must_use]
    pub fn of(log: &Log) -> Self {
        let communicators = log.communicators.iter().filter(|of| of.ranks.iter().any(|rank| rank.rank.is_some()));
        let plugins: BTreeSet<_> = log.processes.iter().flat_map(|process| process.plugins.iter().cloned()).collect();
        Self {
            version: log.version(),
            env: env(log),
            communicators: communicators.map(CommunicatorRead::of).collect(),
            plugins: plugins.into_iter().collect(),
            buffers: buffers(log),
            gaps: gaps(log),
        }
    }

    /// What NCCL said of the variable `name`.
    pub fn env<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a EnvRead> {
        self.env.iter().filter(move |read| read.name == name)
    }

    /// How every pair is connected, over all communicators; nothing when that is not known of all `ranks` ranks in each of
    /// `communicators` communicators.
    #[must_use]
    pub fn transports(&self, ranks: u32, communicators: u32) -> Option<BTreeMap<(u32, u32), BTreeSet<&Transport>>> {
        let whole = self.gaps.is_empty() && self.communicators.len() == communicators as usize;
        if !whole || !self.communicators.iter().all(|of| of.is_whole(ranks) && of.ranks.iter().all(|r| r.connected)) {
            return None;
        }
        let mut pairs: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for rank in self.communicators.iter().flat_map(|of| &of.ranks) {
            for hop in &rank.sends {
                pairs.entry((rank.rank, hop.to)).or_default().extend(&hop.via);
            }
        }
        Some(pairs)
    }

    /// The line of a loaded tuner plugin, which may overrule any choice.
    #[must_use]
    pub fn tuner(&self) -> Option<&str> {
        let loaded = |line: &&String| line.starts_with("TUNER/Plugin: Using ") && !line.contains("internal");
        self.plugins.iter().find(loaded).map(String::as_str)
    }

    /// The line of a loaded environment plugin, which may set any variable.
    #[must_use]
    pub fn env_plugin(&self) -> Option<&str> {
        let loaded = |line: &&String| line.starts_with("ENV/Plugin") && !line.contains("Could not find");
        self.plugins.iter().find(loaded).map(String::as_str)
    }
}

impl CommunicatorRead {
    fn of(communicator: &Communicator) -> Self {
        let ranks = communicator.ranks.iter().filter_map(|rank| Some((rank.rank?, rank)));
        Self { ranks: ranks.map(|(number, rank)| RankRead::of(communicator, number, rank)).collect() }
    }

    /// Whether each of `ranks` ranks was logged to the end of its initialisation, once.
    #[must_use]
    pub fn is_whole(&self, ranks: u32) -> bool {
        self.ranks.iter().map(|rank| rank.rank).eq(0..ranks) && self.ranks.iter().all(|rank| rank.complete)
    }
}

impl RankRead {
    fn of(communicator: &Communicator, number: u32, rank: &Rank) -> Self {
        let mut graphs: Vec<GraphRead> = Vec::new();
        for graph in &rank.graphs {
            let graph = GraphRead {
                pattern: graph.pattern,
                channels: graph.channels,
                bandwidth: graph.bandwidth_intra,
                intra: graph.type_intra.clone(),
                inter: graph.type_inter.clone(),
            };
            if !graphs.contains(&graph) {
                graphs.push(graph);
            }
        }
        let peers: BTreeSet<u32> =
            communicator.pairs().into_iter().filter(|(from, _)| *from == number).map(|p| p.1).collect();
        let via = |to| communicator.transports(number, to).into_iter().cloned().collect();
        let channels = rank.channels.map(|channels| channels.collective);
        let for_all = |choice: &&crate::nccl::log::Choice| {
            choice.function.as_ref().is_none_or(|function| *function == Function::AllReduce)
        };
        Self {
            rank: number,
            complete: rank.complete,
            channels,
            graphs,
            sends: peers.into_iter().map(|to| Hop { to, via: via(to) }).collect(),
            connected: connected(communicator, number, channels),
            choices: rank.choices.iter().filter(for_all).map(|choice| (choice.bytes, Used::logged(choice))).collect(),
            threads: rank.threads.clone(),
        }
    }
}

/// Whether the log has a connection from `rank` on every one of its channels, told by the rank or by its peers. No channels
/// are not all channels.
fn connected(communicator: &Communicator, rank: u32, channels: Option<u32>) -> bool {
    let links = || communicator.ranks.iter().flat_map(|rank| &rank.links);
    let on = |side: Side| -> BTreeSet<u32> {
        links().filter(|link| link.from == rank && link.side == side).map(|link| link.channel).collect()
    };
    let all = |on: BTreeSet<u32>| channels.is_some_and(|count| count > 0 && (0..count).all(|at| on.contains(&at)));
    all(on(Side::Send)) || all(on(Side::Receive))
}

/// The ranks of each process, over all communicators.
fn ranks_of(log: &Log) -> BTreeMap<usize, BTreeSet<u32>> {
    let mut ranks_of: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for rank in log.ranks() {
        ranks_of.entry(rank.process).or_default().extend(rank.rank);
    }
    ranks_of
}

fn buffers(log: &Log) -> Vec<BufferRead> {
    let ranks_of = ranks_of(log);
    let of_process = |(at, process): (usize, &crate::nccl::log::Process)| {
        let ranks = ranks_of.get(&at).cloned().unwrap_or_default();
        let read =
            move |buffer: &HostBuffer| BufferRead { bytes: buffer.bytes, cumem: buffer.cumem, ranks: ranks.clone() };
        process.buffers.iter().map(read).collect::<Vec<_>>()
    };
    log.processes.iter().enumerate().flat_map(of_process).collect()
}

/// Lines about variables, those of one name and value together.
fn env(log: &Log) -> Vec<EnvRead> {
    let ranks_of = ranks_of(log);
    let rank_at = |(communicator, place): (usize, usize)| log.communicators.get(communicator)?.ranks.get(place)?.rank;
    let mut reads: Vec<EnvRead> = Vec::new();
    for (at, process) in log.processes.iter().enumerate() {
        for seen in &process.env {
            let same = |read: &&mut EnvRead| {
                (&read.name, &read.value, read.refused) == (&seen.name, &seen.value, seen.refused)
            };
            let read = match reads.iter_mut().find(same) {
                Some(read) => read,
                None => {
                    let (name, value) = (seen.name.clone(), seen.value.clone());
                    let (said_by, ranks) = (BTreeSet::new(), BTreeSet::new());
                    let refused = seen.refused;
                    reads.push(EnvRead { name, value, refused, said_by, unplaced: false, ranks });
                    reads.last_mut().expect("one was added")
                }
            };
            let rank = seen.rank.and_then(rank_at);
            read.unplaced |= rank.is_none();
            read.said_by.extend(rank);
            read.ranks.extend(ranks_of.get(&at).into_iter().flatten());
        }
    }
    reads
}

fn gaps(log: &Log) -> Vec<String> {
    let mut gaps: Vec<_> =
        log.problems.iter().take(3).map(|problem| format!("line {}: {}", problem.line, problem.what)).collect();
    let more = log.problems.len().saturating_sub(3) as u64 + log.more_problems;
    if more > 0 {
        gaps.push(format!("{more} more such lines"));
    }
    if log.left_out > 0 {
        gaps.push(format!("the launcher left out {} lines", log.left_out));
    }
    if log.nccl_lines == 0 {
        gaps.push("it holds no line of NCCL".to_owned());
    }
    gaps
}

impl GraphRead {
    /// Whether it is one of rings.
    #[must_use]
    pub fn is_ring(&self) -> bool {
        self.pattern == 4
    }

    /// Whether it is one of trees, in any of their shapes.
    #[must_use]
    pub fn is_tree(&self) -> bool {
        (1..=3).contains(&self.pattern)
    }
}

impl std::fmt::Display for GraphRead {
    /// `2 channels at 20.0 GB/s, PHB/PIX`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} channels at {}, {}/{}", self.channels, self.bandwidth, self.intra, self.inter)
    }
}
