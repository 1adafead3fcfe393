//! NCCL's log, read in every form from 2.8 to 2.32: [`read`] gives a [`Log`].
//!
//! Lines of all ranks stand mixed in one log, with the prefixes of launchers. A line is the rank's whose thread wrote it, as
//! the thread's `Init START` or `Init COMPLETE` tells; a thread without one (a proxy, a job of a group call) is placed by
//! the rank that its line names, else by its device where one rank only has it. Of a thread that serves several
//! communicators in turn, lines go to the one initialised last; a connection that is told again is one of those before it.
//!
//! Reading never fails: what could not be read is in [`Log::problems`]. Memory is bounded: a line is cut at 1 MiB, like
//! choices are counted, like links kept once, and each kind of record has a cap (`limits`), named as a problem when reached.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::error::{Error, Kind, Result};
use crate::nccl::version::NcclVersion;
use crate::nccl::words::{Algorithm, Function, Protocol, Transport};
use crate::units::{Bytes, GBps, Micros};

mod assemble;
mod fact;
mod gather;
mod line;
mod scan;
mod slot;
#[cfg(test)]
mod tests;

pub use line::{Level, Line, Writer, without_colours};

/// How much is kept at most.
pub mod limits {
    /// Bytes of a line; the rest is skipped.
    pub const LINE: usize = 1 << 20;
    /// Ranks over all communicators.
    pub const RANKS: usize = 1 << 14;
    /// Different links, choices and cells of tables over all ranks; also threads.
    pub const RECORDS: usize = 1 << 18;
    /// Lines about variables, and about plugins.
    pub const ENV: usize = 1 << 14;
    /// Warnings; later ones are counted.
    pub const WARNINGS: usize = 1 << 10;
    /// Problems; later ones are counted.
    pub const PROBLEMS: usize = 100;
}

/// What a log says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Processes, in the order of their first line.
    pub processes: Vec<Process>,
    /// Communicators, in the order of their first line.
    pub communicators: Vec<Communicator>,
    /// Warnings (`NCCL WARN`) and, since 2.32, remarks (`NCCL ATTN`).
    pub warnings: Vec<Warning>,
    /// Every version named, also in lines without a head.
    pub versions: BTreeSet<NcclVersion>,
    /// Lines read.
    pub lines: u64,
    /// Lines of NCCL among them.
    pub nccl_lines: u64,
    /// Lines that the launcher left out (`[repeated 15x across cluster]`): what they said of which rank is not known.
    pub left_out: u64,
    /// What could not be read or kept.
    pub problems: Vec<Problem>,
    /// Problems beyond those kept.
    pub more_problems: u64,
}

/// A process that wrote to the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Its host.
    pub host: String,
    /// Its id there.
    pub pid: u32,
    /// The library it loaded.
    pub version: Option<NcclVersion>,
    /// Variables its NCCL said it read, in order.
    pub env: Vec<EnvSeen>,
    /// What it said about environment, profiler and tuner plugins: an environment plugin can set any variable.
    pub plugins: Vec<String>,
    /// Buffers in host memory, each kind and size once. Threads of the proxy tell of them, so only the process is known.
    pub buffers: BTreeSet<HostBuffer>,
}

/// A buffer in host memory that NCCL made for the ranks at both ends of a connection (`NCCL_DEBUG_SUBSYS=SHM`, since 2.24).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostBuffer {
    /// Its size.
    pub bytes: Bytes,
    /// Made by `cuMemCreate` (`NCCL_CUMEM_HOST_ENABLE`), else a mapped file of `/dev/shm`.
    pub cumem: bool,
}

/// A variable in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvSeen {
    /// Its name.
    pub name: String,
    /// The value as NCCL understood it: `4` for `4M`. Of a refused one, the value given.
    pub value: String,
    /// NCCL said that it cannot use the value.
    pub refused: bool,
    /// Where the rank that said so is in [`Log::communicators`]: communicator and place among its ranks. Variables that
    /// are read once per process are said by one rank only.
    pub rank: Option<(usize, usize)>,
    /// CUDA device of the thread that said so.
    pub device: Option<u32>,
    /// Line number, from 1.
    pub line: u64,
}

/// Ranks that reduce together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Communicator {
    /// The id all its ranks share, since 2.16; splits have none from 2.23 to 2.31.
    pub id: Option<String>,
    /// How many ranks it has, when a line says so.
    pub size: Option<u32>,
    /// The ranks seen, by number.
    pub ranks: Vec<Rank>,
}

/// One rank of a communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rank {
    /// Its number, when a line says so.
    pub rank: Option<u32>,
    /// Its process, in [`Log::processes`].
    pub process: usize,
    /// CUDA device.
    pub device: Option<u32>,
    /// PCI address of the device as NCCL writes it.
    pub bus: Option<String>,
    /// The communicator's address in its process.
    pub pointer: Option<String>,
    /// `Init COMPLETE` was seen.
    pub complete: bool,
    /// `Destroy COMPLETE` or `Abort COMPLETE` was seen.
    pub gone: bool,
    /// The network in use between nodes.
    pub network: Option<String>,
    /// Results of the graph search, in order.
    pub graphs: Vec<Graph>,
    /// Channels that have a ring.
    pub rings: u32,
    /// Channels that have a tree.
    pub trees: u32,
    /// Order of ranks per channel; told by rank 0.
    pub orders: Vec<Vec<u32>>,
    /// How many channels there are.
    pub channels: Option<Channels>,
    /// Connections, each once.
    pub links: BTreeSet<Link>,
    /// What NCCL chose, each once; told by rank 0.
    pub choices: Vec<Choice>,
    /// NCCL's model, where printed; told by rank 0.
    pub tuning: Vec<TuningCell>,
    /// Threads per block and column of the tuning table; not printed since 2.30.
    pub threads: Vec<(Algorithm, Protocol, u32)>,
    /// What `NCCL_ALGO` and `NCCL_PROTO` leave allowed, where printed (2.24 and later, rank 0).
    pub allowed: Vec<Allowed>,
}

/// One result of the graph search.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNet direct.
    pub pattern: u32,
    /// Whether rings may use another network card per node.
    pub cross_nic: u32,
    /// Channels found.
    pub channels: u32,
    /// Bandwidth of a channel within the node.
    pub bandwidth_intra: GBps,
    /// Bandwidth of a channel between nodes.
    pub bandwidth_inter: GBps,
    /// Worst path within the node: `NVL`, `PIX`, `PHB`, `SYS`.
    pub type_intra: String,
    /// Worst path between nodes.
    pub type_inter: String,
    /// Whether all channels have the same order.
    pub same_channels: bool,
}

/// Which side of a connection wrote its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The sender.
    Send,
    /// The receiver.
    Receive,
}

/// A connection of a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// The channel.
    pub channel: u32,
    /// 0 rings and trees, 1 point to point; not told by all.
    pub connection: Option<u32>,
    /// Sending rank.
    pub from: u32,
    /// Receiving rank; none where the network reduces.
    pub to: Option<u32>,
    /// Who wrote the line.
    pub side: Side,
    /// How.
    pub transport: Transport,
}

/// How many channels a rank has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// For collectives.
    pub collective: u32,
    /// For point to point.
    pub p2p: u32,
    /// For point to point with one peer.
    pub p2p_per_peer: u32,
}

/// What NCCL chose for calls of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The collective; not told up to 2.22.
    pub function: Option<Function>,
    /// Bytes of the call.
    pub bytes: Bytes,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// First and last channel; told since 2.24.
    pub channels: Option<(u32, u32)>,
    /// The time NCCL's model expects; told up to 2.23.
    pub time: Option<Micros>,
    /// How often it was chosen.
    pub times: u64,
}

/// A cell of NCCL's model.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningCell {
    /// The collective.
    pub function: Function,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Modelled latency.
    pub latency: Micros,
    /// Modelled bandwidth; 0 (−1 for the latency in later versions) where it is off.
    pub bandwidth: GBps,
}

/// What is allowed for a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The collective.
    pub function: Function,
    /// Algorithms that are on.
    pub algorithms: Vec<Algorithm>,
    /// Protocols that are on; LL128 only where NCCL holds it safe when it was not named (2 in NCCL's table).
    pub protocols: Vec<Protocol>,
    /// LL128 was named, so that NCCL uses it even where it does not hold it safe.
    pub ll128_forced: bool,
}

/// A warning of NCCL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// `NCCL WARN` or `NCCL ATTN`.
    pub level: Level,
    /// What it says.
    pub message: String,
    /// Place in NCCL's source.
    pub place: Option<String>,
    /// Communicator and place among its ranks, in [`Log::communicators`].
    pub rank: Option<(usize, usize)>,
    /// CUDA device of the thread.
    pub device: Option<u32>,
    /// Line number of its first occurrence, from 1.
    pub line: u64,
    /// How often it occurs.
    pub times: u64,
}

/// Something of the log that could not be read or kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line number, from 1.
    pub line: u64,
    /// What.
    pub what: String,
}

/// Reads a log to its end.
pub fn read(input: impl BufRead) -> Log {
    assemble::Reader::default().read(input)
}

/// Reads the log in a file.
///
/// # Errors
/// When the file cannot be opened. One that breaks off gives what could be read.
pub fn read_file(path: &Path) -> Result<Log> {
    let file = File::open(path).map_err(|source| {
        Error::new(Kind::Usage, format!("cannot open NCCL's log {}", path.display())).because(source)
    })?;
    Ok(read(BufReader::new(file)))
}

/// Reads the logs of several processes as one, in this order; those that are not there are left out.
///
/// # Errors
/// When none of them can be opened.
pub fn read_files(paths: &[&Path]) -> Result<Log> {
    if let [one] = paths {
        return read_file(one);
    }
    let mut reader = assemble::Reader::default();
    let mut read = 0;
    for file in paths.iter().filter_map(|path| File::open(path).ok()) {
        reader.lines(BufReader::new(file));
        read += 1;
    }
    if read == 0 {
        return Err(Error::new(Kind::Usage, "cannot open any of NCCL's logs"));
    }
    Ok(reader.finish())
}

impl Log {
    /// The version, when all processes that told theirs have the same.
    #[must_use]
    pub fn version(&self) -> Option<NcclVersion> {
        let mut versions = self.versions.iter();
        versions.next().filter(|_| versions.next().is_none()).copied()
    }

    /// Every line about the variable `name`.
    pub fn env<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Process, &'a EnvSeen)> {
        let seen = |process: &'a Process| process.env.iter().map(move |seen| (process, seen));
        self.processes.iter().flat_map(seen).filter(move |(_, seen)| seen.name == name)
    }

    /// All ranks of all communicators.
    pub fn ranks(&self) -> impl Iterator<Item = &Rank> {
        self.communicators.iter().flat_map(|communicator| &communicator.ranks)
    }
}

impl Communicator {
    /// The numbers of ranks that the log has no line of, when its size is known.
    #[must_use]
    pub fn missing(&self) -> Vec<u32> {
        let seen: BTreeSet<_> = self.ranks.iter().filter_map(|rank| rank.rank).collect();
        // A size in a garbled log can be anything; a list of the missing is of use for real ones only.
        let size = self.size.unwrap_or(0).min(u32::try_from(limits::RANKS).unwrap_or(u32::MAX));
        (0..size).filter(|rank| !seen.contains(rank)).collect()
    }

    /// How rank `from` reaches rank `to`, over all channels: as `from` says it, else as `to` does.
    #[must_use]
    pub fn transports(&self, from: u32, to: u32) -> BTreeSet<&Transport> {
        let said_by = |side: Side| {
            let links = self.ranks.iter().flat_map(|rank| &rank.links);
            links.filter(move |link| link.side == side && link.from == from && link.to == Some(to))
        };
        let sent: BTreeSet<_> = said_by(Side::Send).map(|link| &link.transport).collect();
        if sent.is_empty() { said_by(Side::Receive).map(|link| &link.transport).collect() } else { sent }
    }

    /// Every pair of ranks that the log names a connection of.
    #[must_use]
    pub fn pairs(&self) -> BTreeSet<(u32, u32)> {
        let links = self.ranks.iter().flat_map(|rank| &rank.links);
        links.filter_map(|link| Some((link.from, link.to?))).collect()
    }

    /// What was chosen, by whichever rank told it.
    pub fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.ranks.iter().flat_map(|rank| &rank.choices)
    }
}
