//! What processes that are not ours used: a file of JSON lines for each process that loads the plugin.
//!
//! Servers start their workers themselves, so the environment is the way in: with
//! `NCCL_PROFILER_PLUGIN=/path/to/libnccl_profiler_ncclsweep.so` and [`FOLDER`] naming a folder, each process keeps
//! `<folder>/<host>-<pid>-<start>.jsonl`: itself and what it could read of its settings, its communicators, and how often it
//! used what. The file is replaced as a whole at every communicator's begin and end, every second in which something came, and
//! at the process's exit. So it can always be read, and of a process that was killed at most the last second is missing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::recorder::{Api, Channels};

/// Environment variable that names the folder for the files.
pub const FOLDER: &str = "NCCLSWEEP_PROFILER_FOLDER";

/// Environment variable that names the process whose descendants are of interest: ancestors are told up to it.
pub const ROOT: &str = "NCCLSWEEP_PROFILER_ROOT";

/// Version of the format; a reader refuses one it does not know.
pub const SCHEMA: u32 = 1;

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry {
    /// The first line: the process.
    Process(Box<Process>),
    /// A rank's end of a communicator that loaded the plugin.
    Communicator(Communicator),
    /// Collectives of one kind on one communicator.
    Collective(Tallied),
    /// The last line: until when, and why then.
    End(End),
}

/// A process and what NCCL could read in it when its first communicator began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Its number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot: tells two processes of one number apart.
    pub start_ticks: Option<u64>,
    /// The host's name.
    pub host: String,
    /// Its executable, where the system tells it.
    pub executable: Option<PathBuf>,
    /// Its command line.
    pub command: Vec<String>,
    /// Who started it, the nearest first, up to the process that [`ROOT`] names.
    pub ancestors: Vec<Ancestor>,
    /// When its first communicator began, µs since 1970.
    pub opened_us: u64,
    /// Variables whose names begin with `NCCL_`, as they stood then. What NCCL took from its files stands here too, up to 2.28.
    pub environment: Variables,
    /// The same as the process was given them at its start; nothing when it has overwritten them (`setproctitle`).
    pub at_start: Option<Variables>,
    /// NCCL's configuration files at that moment, the one that wins first.
    pub files: Vec<ConfFile>,
    /// `HOME`, where NCCL looks for the user's file since 2.30.
    pub home: Option<String>,
    /// The user's folder in the password database, where it looks up to 2.29.
    pub passwd_home: Option<String>,
    /// The library that loaded the plugin.
    pub nccl: Option<Library>,
}

/// A process above.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// Its number.
    pub pid: u32,
    /// Its command line.
    pub command: Vec<String>,
}

/// A configuration file of NCCL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfFile {
    /// Where it lies.
    pub path: String,
    /// What stands in it, the first 64 KiB.
    pub text: String,
}

/// An NCCL library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// The file it was loaded from: NCCL's own, or a library that NCCL is linked into.
    pub path: String,
    /// As `ncclGetVersion` tells it: 22809 is 2.28.9.
    pub version: Option<i32>,
}

/// One rank's end of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Communicator {
    /// Its number in this process, from 0.
    pub id: u32,
    /// The interface NCCL chose.
    pub api: Api,
    /// NCCL's hash, the same on all ranks; 0 until the first collective where it is not told at init (versions 1 to 3).
    pub hash: u64,
    /// The name the user gave it, mostly empty.
    pub name: Name,
    /// Our rank; versions 1 to 3 tell it with the first collective.
    pub rank: Option<i32>,
    /// The number of ranks; versions 1 to 3 never tell it.
    pub ranks: Option<u32>,
    /// When it began, µs since 1970.
    pub opened_us: u64,
    /// When it ended, if it has.
    pub closed_us: Option<u64>,
    /// Variables of NCCL as they stood then, where they differ from those of the process's first communicator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Variables>,
    /// Collectives that are in no line, since the process had too many kinds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted: u64,
}

/// Collectives of one kind on one communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tallied {
    /// [`Communicator::id`].
    pub communicator: u32,
    /// `AllReduce`, …
    pub function: Name,
    /// `ncclBfloat16`, …
    pub datatype: Name,
    /// Elements of a call.
    pub count: u64,
    /// Bytes of a call, where the element's size is known.
    pub bytes: Option<u64>,
    /// `RING`, `TREE`, …
    pub algorithm: Name,
    /// `LL`, `LL128`, `SIMPLE`.
    pub protocol: Name,
    /// Channels; nothing where NCCL does not count them (CollNet).
    pub channels: Option<Channels>,
    /// Warps of each block of the kernel.
    pub warps: u8,
    /// Calls that ran.
    pub eager: u64,
    /// Calls that were captured into a graph, once each however often it is replayed; once for each replay where a proxy
    /// works for them.
    pub captured: u64,
    /// Calls of which NCCL does not tell which they were: all up to 2.25, the last of each function in 2.26 and 2.27.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untold: u64,
    /// When the first came, µs since 1970.
    pub first_us: u64,
    /// When the last came.
    pub last_us: u64,
}

/// Until when a journal tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// When it was written, µs since 1970.
    pub at_us: u64,
    /// Why it was.
    pub why: Why,
    /// Communicators that have no line, since the process had too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unlisted_communicators: u64,
}

/// Why a journal was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The process was running. When it is gone, it was killed, or left by `_exit`.
    Running,
    /// A communicator ended: all counts are exact for what had ended then.
    Finalize,
    /// The process exited: all counts are exact.
    Exit,
}

impl Tallied {
    /// All calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.eager.saturating_add(self.captured).saturating_add(self.untold)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The entries of a journal.
///
/// # Errors
///
/// The line that is no entry, by its number from 1, and why.
pub fn read(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let entry = |(at, line)| serde_json::from_str(line).map_err(|error| (at + 1, error.to_string()));
    text.lines().enumerate().map(entry).collect()
}
