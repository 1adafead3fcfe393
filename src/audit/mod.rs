//! What NCCL did inside of processes that are not ours: the journals that the profiler plugin left in a folder, read.
//!
//! [`Audit`] holds each process ([`Worker`]) with its settings, where they came from ([`Setting`]), its communicators and what
//! they used. [`spreads`] says in which workers a setting differs, [`forest`] who started whom, [`usage`] what was used for
//! which size, [`hold`] whether all of it is as an env set says.

mod expect;
mod load;
mod settings;
mod tree;
mod usage;

use nccl_profiler_ncclsweep::journal;
use serde::Serialize;

use crate::nccl::version::NcclVersion;

pub use expect::{Absent, Broken, Expectation, Unseen, hold};
pub use settings::{Setting, Source, Spread, spreads};
pub use tree::{Node, forest};
pub use usage::{Calls, Mix, Share, Usage, mix, usage};

/// Version of the document that `--format json` prints.
pub const SCHEMA: u32 = 1;

/// All journals of a folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The folder.
    pub folder: String,
    /// Processes that made communicators, in the order in which they did.
    pub workers: Vec<Worker>,
    /// Files that could not be read, and why.
    pub unread: Vec<Unread>,
}

/// A process that made communicators.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worker {
    /// What it told of itself.
    pub process: journal::Process,
    /// The version of its NCCL.
    pub version: Option<NcclVersion>,
    /// Its `NCCL_*` variables when its first communicator began, and where they came from.
    pub settings: Vec<Setting>,
    /// Its communicators, in order.
    pub communicators: Vec<Communicator>,
    /// Until when it told.
    pub end: journal::End,
    /// What became of it.
    pub life: Life,
}

/// One rank's end of a communicator, and what it used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Communicator {
    /// What NCCL told of it.
    #[serde(flatten)]
    pub told: journal::Communicator,
    /// Variables that stood otherwise than at the process's first communicator: value, or nothing where it was gone.
    pub changes: Vec<(String, Option<String>)>,
    /// What it used.
    pub collectives: Vec<journal::Tallied>,
}

/// What became of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// It runs.
    Running,
    /// It exited; its counts are exact.
    Exited,
    /// It ended all of its communicators and is gone; its counts are exact.
    Finalized,
    /// It was killed, or left without a word: what it did last is missing.
    Lost,
}

/// A file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    /// The file.
    pub path: String,
    /// Why.
    pub why: String,
}

impl Worker {
    /// Ranks it has, of how many: of each communicator with more than one rank, without repeating.
    #[must_use]
    pub fn ranks(&self) -> Vec<(i32, Option<u32>)> {
        let mut ranks = Vec::new();
        for told in self.communicators.iter().map(|communicator| &communicator.told) {
            if let Some(rank) = told.rank
                && !ranks.contains(&(rank, told.ranks))
            {
                ranks.push((rank, told.ranks));
            }
        }
        ranks
    }

    /// All-reduces, on all of its communicators.
    #[must_use]
    pub fn all_reduces(&self) -> u64 {
        let all = self.communicators.iter().flat_map(|communicator| &communicator.collectives);
        all.filter(|of| is_all_reduce(of)).map(journal::Tallied::calls).sum()
    }
}

/// Whether a line is of all-reduces.
fn is_all_reduce(tallied: &journal::Tallied) -> bool {
    tallied.function == "AllReduce"
}

#[cfg(test)]
mod tests;
