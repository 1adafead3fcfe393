//! [`Fact`]: what one message of NCCL says, in whatever form its version writes it.
//!
//! Forms were read from NCCL's source, tags 2.8 to 2.30, and from logs of 2.21, 2.28 and 2.32.

use super::scan::Scan;
use super::{Graph, HostBuffer, Link, Side};
use crate::nccl::version::NcclVersion;
use crate::nccl::words::{Algorithm, Function, Protocol, Transport};
use crate::units::{Bytes, GBps, Micros};

/// What a message says.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<'a> {
    /// The library's version.
    Version(NcclVersion),
    /// NCCL read a variable.
    Env { name: &'a str, value: String },
    /// NCCL could not use a variable's value.
    Refused { name: &'a str, value: &'a str },
    /// A communicator's rank begins, is ready, or is gone.
    Rank(RankLine<'a>),
    /// One result of the graph search.
    Graph(Graph),
    /// A connection.
    Link(Link),
    /// This rank's neighbours on a ring.
    Ring { channel: u32, previous: u32, rank: u32, next: u32 },
    /// This rank's place in all trees.
    Trees { count: u32, rank: u32 },
    /// A channel's order of ranks, told by rank 0.
    Order { channel: u32, ranks: Vec<u32> },
    /// How many channels there are.
    Channels { collective: u32, p2p: u32, p2p_per_peer: u32 },
    /// What NCCL chose for one call.
    Choice(ChoiceLine),
    /// Columns of the tuning table that follow.
    TuningColumns(Vec<(Algorithm, Protocol)>),
    /// A row of the tuning table.
    TuningRow { function: Function, cells: Vec<(Micros, GBps)> },
    /// The row of threads per block.
    Threads(Vec<u32>),
    /// The network in use.
    Network(&'a str),
    /// A table of allowed algorithms and protocols follows, without heads.
    Matrix,
    /// The topology of a communicator is being printed: its initialisation has begun.
    System,
    /// A plugin's line, kept as it is.
    Plugin(&'a str),
    /// A buffer in host memory was made.
    Buffer(HostBuffer),
}

/// A line that names a communicator's rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankLine<'a> {
    /// What happened.
    pub phase: Phase,
    /// The communicator's address in its process.
    pub pointer: &'a str,
    /// The rank.
    pub rank: u32,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// CUDA device.
    pub device: Option<u32>,
    /// PCI address as NCCL writes it.
    pub bus: Option<&'a str>,
    /// What all ranks of the communicator share.
    pub id: Option<&'a str>,
    /// The communicator it was split from.
    pub parent: Option<&'a str>,
}

/// Life of a communicator's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `Init START` (since 2.18).
    Start,
    /// The line with nodes and local ranks, amid the initialisation.
    Layout,
    /// `Init COMPLETE`.
    Complete,
    /// `Destroy COMPLETE` or `Abort COMPLETE`.
    Gone,
}

/// A choice as one line tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceLine {
    /// The collective; not told up to 2.22.
    pub function: Option<Function>,
    /// Bytes of the call.
    pub bytes: Bytes,
    /// The algorithm; of a symmetric kernel its name.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// First and last channel; told since 2.24.
    pub channels: Option<(u32, u32)>,
    /// The time NCCL's model expects; told up to 2.23.
    pub time: Option<Micros>,
}

impl<'a> Fact<'a> {
    /// What `message` says; `None` when it is nothing of the above.
    #[must_use]
    pub fn parse(message: &'a str) -> Option<Self> {
        let text = message.trim_start();
        let by_start = match text.split([' ', ':']).next()? {
            "NCCL" => text.strip_prefix("NCCL version ").and_then(NcclVersion::find).map(Self::Version),
            "Invalid" => refused(text),
            "Pattern" => graph(text).map(Self::Graph),
            "Channel" => link(text).map(Self::Link).or_else(|| order(text)),
            "Coll" | "CollNet" => link(text).map(Self::Link),
            "Ring" => ring(text),
            "Trees" => trees(text),
            "MMAP" | "CUMEM" => buffer(text).map(Self::Buffer),
            "Using" => text.strip_prefix("Using network ").map(|name| Self::Network(name.trim())),
            "Enabled" => text.starts_with("Enabled NCCL Func/Proto/Algo Matrix").then_some(Self::Matrix),
            "===" => text.starts_with("=== System").then_some(Self::System),
            "ENV/Plugin" | "PROFILER/Plugin" | "TUNER/Plugin" => env(text).or(Some(Self::Plugin(text.trim_end()))),
            "Algorithm" | "Protocol" | "Latency/AlgBw" | "Max" => tuning_head(text),
            _ => None,
        };
        by_start
            .or_else(|| env(text))
            .or_else(|| rank_line(text))
            .or_else(|| choice(text))
            .or_else(|| channels(text))
            .or_else(|| tuning_row(text))
    }
}

/// `MMAP allocated shareable host buffer FILE size N ptr P`, `CUMEM allocated shareable buffer P size N` (`shmutils.cc`).
fn buffer(text: &str) -> Option<HostBuffer> {
    let (what, size) = text.trim_end().split_once(" size ")?;
    let (cumem, bytes) = match what.split_once(" allocated shareable ")? {
        ("CUMEM", rest) if rest.starts_with("buffer 0x") => (true, size),
        // What follows the size tells that no digit of it is lost.
        ("MMAP", rest) if rest.starts_with("host buffer ") => (false, size.split_once(" ptr 0x")?.0),
        _ => return None,
    };
    Some(HostBuffer { bytes: Bytes(bytes.parse().ok()?), cumem })
}

/// `NCCL_X set by environment to V`, `NCCL_X set to V`; numbers are written with a full stop after them.
fn env(text: &str) -> Option<Fact<'_>> {
    let at = text.find("NCCL_")?;
    let (name, value) =
        [" set by environment to ", " set to "].iter().find_map(|words| text[at..].split_once(words))?;
    if !name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
        return None;
    }
    let number = value.strip_suffix('.').filter(|number| number.parse::<i128>().is_ok());
    // 2.8 to 2.11 wrote signed numbers as unsigned.
    let value = match number.map(|number| (number, number.parse::<u64>())) {
        Some((_, Ok(wrapped))) if wrapped > i64::MAX as u64 => (wrapped.cast_signed()).to_string(),
        Some((number, _)) => number.to_owned(),
        None => value.to_owned(),
    };
    Some(Fact::Env { name, value })
}

/// `Invalid value V for NCCL_X, using default D.` and `Invalid NCCL_X V (must be …)`.
fn refused(text: &str) -> Option<Fact<'_>> {
    let rest = text.strip_prefix("Invalid ")?;
    if let Some((value, rest)) = rest.strip_prefix("value ").and_then(|rest| rest.split_once(" for NCCL_")) {
        let at = text.len() - rest.len() - "NCCL_".len();
        return Some(Fact::Refused { name: text[at..].split(',').next()?, value });
    }
    let mut words = rest.split(' ');
    let name = words.next().filter(|name| name.starts_with("NCCL_"))?;
    Some(Fact::Refused { name, value: words.next()? })
}

fn rank_line(text: &str) -> Option<Fact<'_>> {
    let (before, rest) = text.split_once("comm 0x")?;
    // Nothing, a function's name, `[Rank 0] ncclCommInitRank`.
    if before.len() > 60 {
        return None;
    }
    let at = text.len() - rest.len() - 2;
    let mut scan = Scan(&text[at..]);
    let pointer = scan.word()?;
    let rank = scan.named("rank")?;
    let ranks = scan.named("nranks").or_else(|| scan.named("nRanks"))?;
    let phase = match text {
        _ if text.ends_with("Init START") => Phase::Start,
        _ if text.ends_with("Init COMPLETE") => Phase::Complete,
        _ if text.ends_with("Destroy COMPLETE") || text.ends_with("Abort COMPLETE") => Phase::Gone,
        _ if text.contains(" nNodes ") => Phase::Layout,
        _ => return None,
    };
    let after = |name: &str| text.split_once(name).and_then(|(_, rest)| rest.split([' ', '-']).next());
    let (bus, id, parent) = (after(" busId "), after(" commId "), after(" parent "));
    let device = after(" cudaDev ").and_then(|device| device.parse().ok());
    Some(Fact::Rank(RankLine { phase, pointer, rank, ranks, device, bus, id, parent }))
}

fn graph(text: &str) -> Option<Graph> {
    let mut scan = Scan(text);
    let pattern = scan.named("Pattern")?;
    let cross_nic = scan.literal(",").and_then(|()| scan.named("crossNic"))?;
    let channels = scan.literal(",").and_then(|()| scan.named("nChannels"))?;
    scan.literal(",")?;
    // `speed` up to 2.13.
    let intra = scan.named("bw").or_else(|| scan.named("speed"))?;
    let inter = scan.literal("/").and_then(|()| scan.number())?;
    scan.literal(", type ")?;
    let (type_intra, type_inter) = (scan.until("/")?.to_owned(), scan.until(",")?.to_owned());
    let same_channels = scan.named::<u32>("sameChannels")? != 0;
    Some(Graph {
        pattern,
        cross_nic,
        channels,
        bandwidth_intra: GBps(intra),
        bandwidth_inter: GBps(inter),
        type_intra,
        type_inter,
        same_channels,
    })
}

/// `Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0`, `CollNet 00/0 : 3 [send] via COLLNET/SHARP/0`; up to 2.11 without
/// connection number, tags of GPUs are hexadecimal PCI addresses up to 2.18.
fn link(text: &str) -> Option<Link> {
    let (head, transport) = text.split_once(" via ")?;
    let (channel, ends) = head.split_once(" : ")?;
    let mut scan = Scan(channel.split_once(' ')?.1);
    let channel = scan.number()?;
    let connection = scan.literal("/").and_then(|()| scan.number());
    let side = match () {
        () if ends.contains("[receive]") => Side::Receive,
        () => Side::Send,
    };
    let rank = |end: &str| end.trim().split(['[', ' ']).next()?.parse().ok();
    let (from, to) = match ends.split_once(" -> ") {
        Some((from, to)) => (rank(from)?, Some(rank(to)?)),
        None => (rank(ends)?, None),
    };
    let transport = Transport::from(transport.trim_end().to_owned());
    Some(Link { channel, connection, from, to, side, transport })
}

/// `Channel 00/24 :    0   1`: the ring of a channel.
fn order(text: &str) -> Option<Fact<'_>> {
    let mut scan = Scan(text.strip_prefix("Channel")?);
    let channel = scan.number()?;
    scan.literal("/")?;
    scan.number::<u32>()?;
    scan.literal(":")?;
    let ranks = scan.0.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(Fact::Order { channel, ranks })
}

fn ring(text: &str) -> Option<Fact<'_>> {
    let mut scan = Scan(text);
    let channel = scan.named("Ring")?;
    let previous = scan.named(":")?;
    let rank = scan.named("->")?;
    let next = scan.named("->")?;
    Some(Fact::Ring { channel, previous, rank, next })
}

/// `Trees [0] -1/-1/-1->1->0 [1] …`: children, this rank, parent of every tree.
fn trees(text: &str) -> Option<Fact<'_>> {
    let rank = text.split_once("->")?.1.split_once("->")?.0.parse().ok()?;
    Some(Fact::Trees { count: u32::try_from(text.matches('[').count()).ok()?, rank })
}

fn channels(text: &str) -> Option<Fact<'_>> {
    let mut scan = Scan(text);
    let collective = scan.number()?;
    scan.literal("coll channels,")?;
    let count = |name| text.split(", ").find_map(|part| part.trim_end().strip_suffix(name)?.parse().ok());
    Some(Fact::Channels { collective, p2p: count(" p2p channels")?, p2p_per_peer: count(" p2p channels per peer")? })
}

/// All forms of `BYTES Bytes -> …`.
fn choice(text: &str) -> Option<Fact<'_>> {
    let (head, chosen) = text.split_once(" Bytes -> ")?;
    let (function, bytes) = match head.split_once(": ") {
        Some((function, bytes)) => (function.split_once(" [").map_or(function, |(name, _)| name).parse().ok(), bytes),
        None => (None, head),
    };
    let bytes = Bytes(bytes.parse().ok()?);
    let mut scan = Scan(chosen);
    if scan.literal("Kernel").is_some() {
        let (kernel, channels) = (scan.word()?, scan.named::<u32>("nchannels"));
        let channels = channels.and_then(|count| Some((0, count.checked_sub(1)?)));
        let protocol = Protocol::Unknown("symmetric".to_owned());
        let algorithm = Algorithm::Unknown(kernel.to_owned());
        return Some(Fact::Choice(ChoiceLine { function, bytes, algorithm, protocol, channels, time: None }));
    }
    scan.literal("Algo")?;
    let (algorithm, protocol) = (scan.word()?, scan.literal("proto").and_then(|()| scan.word())?);
    let algorithm = algorithm.parse().map_or_else(|_| Algorithm::from(algorithm.to_owned()), Algorithm::from_id);
    let protocol = protocol.parse().map_or_else(|_| Protocol::from(protocol.to_owned()), Protocol::from_id);
    let time = scan.named("time").map(Micros);
    let channels = scan.literal("channel{Lo..Hi}={").and_then(|()| {
        let first = scan.number()?;
        scan.literal("..")?;
        Some((first, scan.number()?))
    });
    Some(Fact::Choice(ChoiceLine { function, bytes, algorithm, protocol, channels, time }))
}

/// Heads of the tuning table: since 2.18 a row of algorithms over three columns each, before `Tree/LL` in one.
fn tuning_head(text: &str) -> Option<Fact<'_>> {
    let (name, cells) = text.split_once('|')?;
    let cells = cells.split('|').map(str::trim).filter(|cell| !cell.is_empty());
    match name.trim() {
        "Algorithm" => {
            let columns = cells.flat_map(|name| {
                Protocol::ALL.iter().map(move |protocol| (Algorithm::from(name.to_owned()), protocol.clone()))
            });
            Some(Fact::TuningColumns(columns.collect()))
        }
        "Latency/AlgBw" => {
            let column = |cell: &str| cell.split_once('/').map(|(a, p)| (a.trim().to_owned(), p.trim().to_owned()));
            Some(Fact::TuningColumns(cells.filter_map(column).map(|(a, p)| (a.into(), p.into())).collect()))
        }
        "Max NThreads" => Some(Fact::Threads(cells.map_while(|cell| cell.parse().ok()).collect())),
        _ => None,
    }
}

fn tuning_row(text: &str) -> Option<Fact<'_>> {
    let (name, cells) = text.split_once('|')?;
    let function = Function::known(name.trim())?;
    let cell = |cell: &str| {
        let (latency, bandwidth) = cell.split_once('/')?;
        Some((Micros(latency.trim().parse().ok()?), GBps(bandwidth.trim().parse().ok()?)))
    };
    let cells: Vec<_> = cells.split('|').map_while(cell).collect();
    (!cells.is_empty()).then_some(Fact::TuningRow { function, cells })
}
