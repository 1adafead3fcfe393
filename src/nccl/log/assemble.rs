//! [`Reader`]: from lines to a [`Log`], each line to the rank whose it is.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, Read};

use super::fact::{ChoiceLine, Fact, Phase, RankLine};
use super::gather::gather;
use super::line::{Level, Line, Writer, without_colours, without_repeat};
use super::slot::{Slot, allowed};
use super::{Channels, EnvSeen, Link, Log, Problem, Process, Rank, TuningCell, Warning, limits};
use crate::nccl::version::NcclVersion;
use crate::nccl::words::Function;

/// Reads a log line by line.
#[derive(Debug, Default)]
pub struct Reader {
    log: Log,
    processes: HashMap<(String, u32), usize>,
    threads: HashMap<Writer, usize>,
    slots: Vec<Slot>,
    /// Algorithm names of the matrix whose rows are expected, and whose they are.
    matrix: Option<(usize, Vec<String>)>,
    records: usize,
    full: BTreeSet<&'static str>,
}

impl Reader {
    /// Reads to the end.
    pub fn read(mut self, input: impl BufRead) -> Log {
        self.lines(input);
        self.finish()
    }

    /// Reads the lines of one file.
    pub fn lines(&mut self, mut input: impl BufRead) {
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let cap = limits::LINE as u64;
            let read = input.by_ref().take(cap).read_until(b'\n', &mut buffer);
            match read {
                Ok(0) => break,
                Ok(_) => self.log.lines += 1,
                Err(error) => {
                    self.problem(format!("reading stopped: {error}"));
                    break;
                }
            }
            let ended = buffer.last() == Some(&b'\n');
            if !ended && buffer.len() == limits::LINE {
                self.problem("the line is longer than 1 MiB and was cut".to_owned());
                if input.skip_until(b'\n').is_err() {
                    break;
                }
            }
            let text = String::from_utf8_lossy(&buffer);
            if matches!(text, Cow::Owned(_)) {
                self.problem("the line is not UTF-8".to_owned());
            }
            if !ended && buffer.len() < limits::LINE {
                // NCCL ends every line: what the last one says may be half of it.
                self.problem("the log ends within a line, which was not used".to_owned());
                break;
            }
            let plain = if text.contains('\x1b') { Cow::Owned(without_colours(&text)) } else { text };
            self.line(plain.trim_end_matches(['\n', '\r', '\0']));
        }
    }

    fn line(&mut self, text: &str) {
        let (text, left_out) = without_repeat(text);
        self.log.left_out += left_out;
        let Some(line) = Line::parse(text) else {
            return self.headless(text);
        };
        self.log.nccl_lines += 1;
        self.matrix = None;
        if [" NCCL INFO ", " NCCL WARN ", " NCCL ATTN "].iter().any(|mark| line.message.contains(mark)) {
            return self.problem("two lines run into each other and were not used".to_owned());
        }
        let process = self.process(&line.writer);
        if matches!(line.level, Level::Warning | Level::Attention) {
            self.warning(&line, process);
        }
        match Fact::parse(line.message) {
            Some(fact) => self.fact(&line, process, fact),
            None if promising(line.message) && line.level != Level::Trace => {
                let shown: String = line.message.chars().take(80).collect();
                self.problem(format!("not understood: {shown}"));
            }
            None => {}
        }
    }

    /// A line without NCCL's head: its version, a row of the matrix, or someone else's.
    fn headless(&mut self, text: &str) {
        if let Some((_, version)) = text.split_once("NCCL version ") {
            self.log.versions.extend(NcclVersion::find(version));
            return;
        }
        let Some((slot, mut names)) = self.matrix.take() else { return };
        let mut parts = text.split('|').map(str::split_whitespace);
        let Some(mut name) = parts.next() else { return };
        let (name, protocols, algorithms) = (name.next_back(), parts.next(), parts.flatten());
        if let (Some(name), Some(protocols)) = (name, protocols) {
            if name == "Function" {
                names = algorithms.map(str::to_owned).collect();
            } else if let (Some(function), Some(slot)) = (Function::known(name), self.slots.get_mut(slot)) {
                if slot.rank.allowed.len() < 64 {
                    slot.rank.allowed.push(allowed(function, protocols.collect(), &names, algorithms.collect()));
                }
            } else {
                return;
            }
        }
        self.matrix = Some((slot, names));
    }

    fn fact(&mut self, line: &Line, process: usize, fact: Fact) {
        match fact {
            Fact::Version(version) => {
                self.log.versions.insert(version);
                self.log.processes[process].version.get_or_insert(version);
            }
            Fact::Env { name, value } => self.env(line, process, name, value, false),
            Fact::Refused { name, value } => self.env(line, process, name, value.to_owned(), true),
            Fact::Plugin(text) if self.room("plugin lines", self.log.processes[process].plugins.len(), limits::ENV) => {
                self.log.processes[process].plugins.push(text.to_owned());
            }
            Fact::Plugin(_) => {}
            Fact::Buffer(buffer) if self.records < limits::RECORDS => {
                self.records += usize::from(self.log.processes[process].buffers.insert(buffer));
            }
            Fact::Buffer(_) => self.full("links, choices and tables"),
            Fact::Rank(rank) => self.rank(line, process, &rank),
            Fact::System => {
                // Before 2.18 nothing announces the next communicator of a thread.
                if self.threads.get(&line.writer).is_some_and(|slot| self.slots[*slot].rank.complete) {
                    self.threads.remove(&line.writer);
                }
            }
            of_rank => {
                if let Some(slot) = self.slot(line, process, &of_rank) {
                    self.of_rank(slot, of_rank);
                }
            }
        }
    }

    fn of_rank(&mut self, at: usize, fact: Fact) {
        let room = self.records < limits::RECORDS;
        let slot = &mut self.slots[at];
        match fact {
            Fact::Network(name) => slot.rank.network = Some(name.to_owned()),
            Fact::Graph(graph) if slot.rank.graphs.len() < 64 => slot.rank.graphs.push(graph),
            Fact::Ring { channel, .. } if slot.rings.len() < 1024 => _ = slot.rings.insert(channel),
            Fact::Trees { count, .. } => slot.rank.trees = count,
            Fact::Order { channel, ranks } if channel < 1024 && room => {
                self.records += ranks.len();
                let orders = &mut slot.rank.orders;
                orders.resize_with(orders.len().max(channel as usize + 1), Vec::new);
                orders[channel as usize] = ranks;
            }
            Fact::Channels { collective, p2p, p2p_per_peer } => {
                slot.rank.channels = Some(Channels { collective, p2p, p2p_per_peer });
            }
            Fact::Link(link) if room => self.link(at, link),
            Fact::Choice(choice) => self.choice(at, choice, room),
            Fact::TuningColumns(columns) => slot.columns = columns,
            Fact::TuningRow { function, cells } if room => {
                self.records += cells.len();
                let cells = slot.columns.iter().zip(cells).map(|((algorithm, protocol), (latency, bandwidth))| {
                    let (algorithm, protocol) = (algorithm.clone(), protocol.clone());
                    TuningCell { function: function.clone(), algorithm, protocol, latency, bandwidth }
                });
                slot.rank.tuning.extend(cells);
            }
            Fact::Threads(threads) if slot.rank.threads.len() < 64 => {
                let cells = slot.columns.iter().cloned().zip(threads);
                slot.rank.threads.extend(cells.map(|((algorithm, protocol), threads)| (algorithm, protocol, threads)));
            }
            Fact::Matrix => self.matrix = Some((at, Vec::new())),
            _ if !room => self.full("links, choices and tables"),
            _ => {}
        }
    }

    /// NCCL tells each connection of a communicator once, when the first collective needs it (2.22 and later): one that is told
    /// again is that of a communicator of this rank which was made before, and is used in turn with this one.
    fn link(&mut self, at: usize, link: Link) {
        let Rank { process, rank, .. } = self.slots[at].rank;
        let lacks = |slot: &&mut Slot| {
            let of = &slot.rank;
            (of.process, of.rank) == (process, rank) && !of.gone && !of.links.contains(&link)
        };
        let whose = match self.slots[at].rank.links.contains(&link) {
            true => self.slots[..at].iter_mut().find(lacks),
            false => self.slots.get_mut(at),
        };
        if let Some(slot) = whose {
            slot.rank.links.insert(link);
            self.records += 1;
        }
    }

    fn choice(&mut self, at: usize, choice: ChoiceLine, room: bool) {
        let ChoiceLine { function, bytes, algorithm, protocol, channels, time } = choice;
        let key = (function, bytes, algorithm, protocol, channels);
        let choices = &mut self.slots[at].choices;
        if let Some((_, times)) = choices.get_mut(&key) {
            *times += 1;
        } else if room {
            choices.insert(key, (time, 1));
            self.records += 1;
        } else {
            self.full("links, choices and tables");
        }
    }

    fn env(&mut self, line: &Line, process: usize, name: &str, value: String, refused: bool) {
        if !self.room("lines about variables", self.log.processes[process].env.len(), limits::ENV) {
            return;
        }
        // Until `finish` the pair is slot and nothing: where the slot ends up is known then.
        let rank = self.known_slot(line, process, None).map(|slot| (slot, 0));
        let (name, number) = (name.to_owned(), self.log.lines);
        let seen = EnvSeen { name, value, refused, rank, device: line.device, line: number };
        self.log.processes[process].env.push(seen);
    }

    fn warning(&mut self, line: &Line, process: usize) {
        let rank = self.known_slot(line, process, None).map(|slot| (slot, 0));
        let known = self
            .log
            .warnings
            .iter_mut()
            .find(|known| known.message == line.message && known.rank == rank && known.device == line.device);
        if let Some(known) = known {
            known.times += 1;
        } else if self.room("warnings", self.log.warnings.len(), limits::WARNINGS) {
            let (message, place) = (line.message.to_owned(), line.place.map(str::to_owned));
            let (level, device, number) = (line.level, line.device, self.log.lines);
            self.log.warnings.push(Warning { level, message, place, rank, device, line: number, times: 1 });
        }
    }

    fn process(&mut self, writer: &Writer) -> usize {
        let next = self.log.processes.len();
        if let Some(known) = self.processes.get(&(writer.host.clone(), writer.pid)) {
            return *known;
        }
        if next > 0 && !self.room("processes", next, limits::RANKS) {
            return next - 1;
        }
        let (host, pid) = (writer.host.clone(), writer.pid);
        self.processes.insert((host.clone(), pid), next);
        self.log.processes.push(Process {
            host,
            pid,
            version: None,
            env: Vec::new(),
            plugins: Vec::new(),
            buffers: BTreeSet::new(),
        });
        next
    }

    fn rank(&mut self, line: &Line, process: usize, told: &RankLine) {
        let same = |slot: &Slot| {
            let rank = &slot.rank;
            rank.process == process && !rank.gone && rank.pointer.as_deref() == Some(told.pointer)
        };
        let open = self.threads.get(&line.writer).copied().filter(|slot| {
            let rank = &self.slots[*slot].rank;
            rank.pointer.is_none() && !rank.complete && rank.rank.is_none_or(|rank| rank == told.rank)
        });
        let known = match told.phase {
            // An address can be used again once its communicator is gone without a word.
            Phase::Start => None,
            _ => self.slots.iter().rposition(same),
        };
        let slot = match known.or(open) {
            Some(slot) => slot,
            None if told.phase == Phase::Gone => return,
            None => match self.open(process) {
                Some(slot) => slot,
                None => return,
            },
        };
        let entry = &mut self.slots[slot];
        entry.size = Some(told.ranks);
        entry.id = told.id.map(str::to_owned).or(entry.id.take());
        let rank = &mut entry.rank;
        (rank.rank, rank.pointer) = (Some(told.rank), Some(told.pointer.to_owned()));
        rank.device = told.device.or(rank.device).or(line.device);
        rank.bus = told.bus.map(str::to_owned).or(rank.bus.take());
        rank.complete |= told.phase == Phase::Complete;
        rank.gone |= told.phase == Phase::Gone;
        let known = self.threads.contains_key(&line.writer);
        if told.phase != Phase::Gone && (known || self.room("threads", self.threads.len(), limits::RECORDS)) {
            self.threads.insert(line.writer.clone(), slot);
        }
    }

    fn open(&mut self, process: usize) -> Option<usize> {
        self.room("ranks", self.slots.len(), limits::RANKS).then(|| {
            self.slots.push(Slot { rank: Rank { process, ..Rank::default() }, ..Slot::default() });
            self.slots.len() - 1
        })
    }

    /// The rank that `line` belongs to, if it can be told: by thread, by the rank it names, by its device.
    fn known_slot(&self, line: &Line, process: usize, named: Option<u32>) -> Option<usize> {
        let fits = |slot: usize| {
            let rank = self.slots[slot].rank.rank;
            named.is_none() || rank.is_none() || rank == named
        };
        if let Some(slot) = self.threads.get(&line.writer).copied().filter(|slot| fits(*slot)) {
            return Some(slot);
        }
        let of_process = || (0..self.slots.len()).rev().filter(|slot| self.slots[*slot].rank.process == process);
        if named.is_some() {
            return of_process().find(|slot| self.slots[*slot].rank.rank == named);
        }
        let on_device = |slot: &usize| line.device.is_some() && self.slots[*slot].rank.device == line.device;
        let last = of_process().find(on_device)?;
        let (id, size) = (&self.slots[last].id, self.slots[last].size);
        let mates = of_process().filter(on_device).filter(|slot| {
            let mate = &self.slots[*slot];
            &mate.id == id && mate.size == size && mate.rank.rank != self.slots[last].rank.rank
        });
        (mates.count() == 0).then_some(last)
    }

    /// The rank that `line` with `fact` belongs to; one yet without number when nothing tells.
    fn slot(&mut self, line: &Line, process: usize, fact: &Fact) -> Option<usize> {
        let named = named_rank(fact);
        let by_custom = || rank_zero_tells(fact).then(|| self.known_slot(line, process, Some(0))).flatten();
        let slot = match self.known_slot(line, process, named).or_else(by_custom) {
            Some(slot) => slot,
            None => {
                let slot = self.open(process)?;
                self.slots[slot].rank.device = line.device;
                self.threads.entry(line.writer.clone()).or_insert(slot);
                slot
            }
        };
        let rank = &mut self.slots[slot].rank;
        rank.rank = rank.rank.or(named);
        Some(slot)
    }

    fn room(&mut self, what: &'static str, used: usize, limit: usize) -> bool {
        if used >= limit {
            self.full(what);
        }
        used < limit
    }

    fn full(&mut self, what: &'static str) {
        if self.full.insert(what) {
            self.problem(format!("more {what} than are kept; the rest is left out"));
        }
    }

    fn problem(&mut self, what: String) {
        if self.log.problems.len() < limits::PROBLEMS {
            self.log.problems.push(Problem { line: self.log.lines, what });
        } else {
            self.log.more_problems += 1;
        }
    }

    /// What all lines said.
    pub fn finish(mut self) -> Log {
        let slots = std::mem::take(&mut self.slots);
        let (communicators, places) = gather(slots.into_iter().map(Slot::finish));
        let settle = |rank: &mut Option<(usize, usize)>| *rank = rank.and_then(|(slot, _)| places.get(slot).copied());
        self.log.processes.iter_mut().flat_map(|process| &mut process.env).for_each(|seen| settle(&mut seen.rank));
        self.log.warnings.iter_mut().for_each(|warning| settle(&mut warning.rank));
        self.log.communicators = communicators;
        self.log
    }
}

/// The rank that a fact names as its own.
fn named_rank(fact: &Fact) -> Option<u32> {
    match fact {
        Fact::Link(Link { from, side: super::Side::Send, .. }) => Some(*from),
        Fact::Link(Link { from, to, .. }) => Some(to.unwrap_or(*from)),
        Fact::Ring { rank, .. } | Fact::Trees { rank, .. } => Some(*rank),
        _ => None,
    }
}

/// Whether rank 0 writes such a line for all: where it came from another thread than that of the initialisation, it is
/// still rank 0's.
fn rank_zero_tells(fact: &Fact) -> bool {
    let tables = matches!(fact, Fact::Matrix | Fact::TuningColumns(_) | Fact::TuningRow { .. } | Fact::Threads(_));
    tables || matches!(fact, Fact::Order { .. } | Fact::Choice(_))
}

/// Whether a message looks like one that matters.
fn promising(message: &str) -> bool {
    let marks = [
        " set by environment to ",
        " Bytes -> Algo",
        " via P2P/",
        " via SHM/",
        " via NET/",
        ", nChannels ",
        "Init COMPLETE",
    ];
    marks.iter().any(|mark| message.contains(mark))
}
