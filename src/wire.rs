//! Messages between supervisor and workers: a [`Job`], then [`Question`]s to the worker's stdin, [`Event`]s as JSON lines back
//! over a pipe of its own (NCCL writes to stdout).

use std::io::{BufRead, Write};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::collective::Case;
use crate::gpu::GpuError;
use crate::gpu::cuda::Device;
use crate::gpu::nvml::{GpuState, Process};
use crate::nccl::register::{Register, Registration};
use crate::nccl::version::NcclVersion;
use crate::plan::schedule::Measure;
use crate::record::floor::{EmptyKernel, FlagHop, Over};
use crate::record::visit::{At, Loading, RanksDoing, Replicate, UsedBy, WorkerFacts};
use crate::topology::{CpuList, Driver};

/// Version of the protocol; both ends are the same executable, so a mismatch means the file was replaced during a run.
pub const VERSION: u32 = 3;

/// Longest line the supervisor accepts: a replicate of 10⁵ samples is 2 MB.
pub const MAX_LINE: usize = 16 << 20;

/// What a worker is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// Cases, measured in this order on every communicator.
    pub cases: Vec<Case>,
    /// CUDA ordinal of each rank.
    pub devices: Vec<u32>,
    /// Ranks that are threads of this worker.
    pub ranks: Range<u32>,
    /// Ranks of this host; the others are reached over `links`.
    pub host: Range<u32>,
    /// Descriptors of connections to the other hosts' first workers: the first worker of the first host has one to each, in
    /// rank order, that of every other host has one to it.
    pub links: Vec<i32>,
    /// CPUs for the thread of each rank; empty when none is bound.
    #[serde(default)]
    pub cpus: Vec<Option<CpuList>>,
    /// Descriptor of the memory that this worker shares with those of the other ranks; none when it has all ranks.
    pub memory: Option<i32>,
    /// Replicates to make, one after the other, each of communicators of its own.
    pub communicators: u32,
    /// Communicators of a replicate; calls go round them.
    pub in_turn: u32,
    /// How buffers are registered with each of them.
    #[serde(default)]
    pub register: Register,
    /// Iterations.
    pub measure: Measure,
    /// Salt of the input data, so that stale results of another communicator are never right by accident.
    pub salt: u64,
}

/// What a supervisor asks a worker that is at work. The end of its stdin tells the worker that the supervisor is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// What are the ranks doing? Asked when a deadline has passed.
    Doing,
}

/// What a worker reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The worker runs, has its job and has loaded the libraries.
    Hello {
        /// [`VERSION`] of the worker.
        version: u32,
        /// What it is and has.
        facts: WorkerFacts,
        /// What it has spent until here.
        loading: Loading,
    },
    /// A phase begins.
    Phase {
        /// Which, and for which communicator and case.
        at: At,
    },
    /// What NCCL used for an untimed call of a case, told by the profiler plugin.
    Used {
        /// On which ranks of which communicator.
        used: UsedBy,
    },
    /// What became of the buffers that a rank registered with one communicator.
    Registered {
        /// How many NCCL took.
        of: Registration,
    },
    /// A case was measured on a communicator.
    Replicate {
        /// The measurement.
        replicate: Replicate,
    },
    /// State of the GPUs in rank order, before the first communicator and after the last.
    Gpus {
        /// States.
        states: Vec<GpuState>,
    },
    /// The answer to [`Question::Doing`].
    Stuck {
        /// Ranks by what they do; none before they were started.
        ranks: Vec<RanksDoing>,
    },
    /// A GPU library reported an error; the worker ends at once.
    Failed {
        /// Where.
        at: At,
        /// What.
        error: GpuError,
    },
    /// The worker cannot go on for a reason of its own; it ends at once.
    WorkerError {
        /// What happened.
        message: String,
    },
    /// Everything asked for was measured and torn down.
    Done,
}

/// What a probe process found out, so that the supervisor never loads a GPU library itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// CUDA version of the driver, and its GPUs; or why not.
    pub cuda: Result<(String, Vec<Device>), GpuError>,
    /// Version of the kernel driver and other processes on the GPUs; or why not.
    pub management: Result<(String, Vec<Process>), GpuError>,
    /// Load of each GPU of `cuda` in percent, where the driver tells.
    #[serde(default)]
    pub loads: Vec<Option<u32>>,
    /// How the GPUs are wired, as far as the driver tells.
    #[serde(default)]
    pub wiring: Driver,
    /// Version and file of the NCCL library that the loader's path gives; or why not.
    pub nccl: Result<(NcclVersion, Option<String>), GpuError>,
}

/// What a process is to measure that looks for the floor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorJob {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// CUDA ordinals of the GPUs.
    pub devices: Vec<u32>,
    /// Between which GPUs a flag hops, and by which ways; the same GPU twice for two ranks on one.
    pub hops: Vec<([u32; 2], Over)>,
    /// Kernels in one graph, launches in one batch.
    pub chain: u32,
}

/// What it reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum FloorEvent {
    /// What a kernel costs that does nothing.
    Kernel {
        /// On one GPU.
        kernel: EmptyKernel,
    },
    /// A flag between two GPUs.
    Hop {
        /// How long it takes, or why that is not known.
        hop: FlagHop,
    },
    /// A GPU library reported an error; the process ends.
    Failed {
        /// What.
        error: GpuError,
    },
    /// Everything asked for was measured or tried.
    Done,
}

/// Writes one message as a line, in a single write.
pub fn send<T: Serialize>(to: &mut impl Write, message: &T) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// What came over the wire.
#[derive(Debug, PartialEq)]
pub enum Received<T> {
    /// A message.
    Message(T),
    /// The end of the stream; of a line that its writer was writing when it ended, nothing is told.
    End,
    /// A line that is no message: too long, or not the protocol.
    Garbage(String),
}

/// Reads the next message; never holds more than [`MAX_LINE`] bytes.
pub fn receive<T: serde::de::DeserializeOwned>(from: &mut impl BufRead) -> std::io::Result<Received<T>> {
    let mut line = Vec::new();
    let read = std::io::Read::take(&mut *from, MAX_LINE as u64).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Ok(match read {
            MAX_LINE => Received::Garbage(format!("a line longer than {MAX_LINE} bytes: {}", excerpt(&line))),
            _ => Received::End,
        });
    }
    Ok(match serde_json::from_slice(&line) {
        Ok(message) => Received::Message(message),
        Err(error) => {
            // The error repeats words of the line, of whatever length.
            let error: String = error.to_string().chars().take(160).flat_map(char::escape_debug).collect();
            Received::Garbage(format!("{error}: {}", excerpt(&line)))
        }
    })
}

fn excerpt(line: &[u8]) -> String {
    let shown: String = String::from_utf8_lossy(&line[..line.len().min(120)]).trim_end().escape_debug().collect();
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::visit::Phase;

    fn phase() -> Event {
        Event::Phase { at: At { phase: Phase::Check, communicator: 2, case: Some(1), rank: None } }
    }

    #[test]
    fn a_message_is_one_line_and_comes_back_the_same() {
        let mut line = Vec::new();
        send(&mut line, &phase()).unwrap();
        assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
        let mut from = line.as_slice();
        assert_eq!(receive(&mut from).unwrap(), Received::Message(phase()));
        assert_eq!(receive::<Event>(&mut from).unwrap(), Received::End);
    }

    #[test]
    fn a_line_torn_by_a_crash_is_the_end_wherever_it_was_torn() {
        let mut line = Vec::new();
        send(&mut line, &phase()).unwrap();
        for length in 0..line.len() {
            assert_eq!(receive::<Event>(&mut &line[..length]).unwrap(), Received::End, "after {length} bytes");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_at_the_limit() {
        let endless = std::io::repeat(b'x').take(3 * MAX_LINE as u64);
        let mut from = std::io::BufReader::new(endless);
        let Received::Garbage(why) = receive::<Event>(&mut from).unwrap() else { panic!("not garbage") };
        assert!(why.starts_with("a line longer than"), "{why}");
        assert!(why.len() < 300);
    }

    #[test]
    fn what_is_said_of_garbage_is_short_however_long_a_word_of_it_is() {
        let line = format!("{{\"event\":\"{}\\u001b[31m\"}}\n", "x".repeat(100_000));
        let Received::Garbage(why) = receive::<Event>(&mut line.as_bytes()).unwrap() else { panic!("not garbage") };
        assert!(why.starts_with("unknown variant `xxx") && why.len() < 1000, "{} bytes", why.len());
    }

    #[test]
    fn words_that_are_no_message_are_named() {
        let Received::Garbage(why) = receive::<Event>(&mut &b"NCCL WARN oh\n"[..]).unwrap() else {
            panic!("not garbage")
        };
        assert!(why.contains("NCCL WARN oh"), "{why}");
    }

    use std::io::Read;
}
