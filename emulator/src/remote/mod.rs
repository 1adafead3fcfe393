//! Communicators whose ranks are in several processes of this machine.
//!
//! The process that made the unique id is the [`hub`]: it listens on a socket that the id names, as NCCL's bootstrap root
//! does. Every process with ranks, the hub's own too, has a [`Link`] to it. A collective is told to the hub once it is at the
//! head of the streams of all ranks of a process; the hub reduces, decides when it ended, and answers all. Inputs and results
//! are sent once and named by their slot afterwards: a benchmark sends the same input thousands of times.
//!
//! A process that dies is not told to the others, who wait for it for ever: so do kernels that poll a peer's memory.

mod frame;
pub(crate) mod hub;
mod link;

pub(crate) use link::{Link, Outcome};

use crate::engine::{Dtype, Operation};
use crate::noise::Mode;

/// Slots of inputs of one process, and of results: a benchmark has few at a time.
const SLOTS: usize = 8;

/// Where a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// The process, counted from 0 within the communicator: the hub's own is the first.
    pub process: usize,
    /// Tells hosts apart: NCCL_HOSTID, else that there is only one.
    pub host: u64,
}

impl Home {
    /// Of ranks in one process.
    #[cfg(test)]
    pub(crate) fn one(ranks: usize) -> Vec<Home> {
        vec![Home { process: 0, host: 0 }; ranks]
    }
}

/// What must be the same on all ranks, or they wait for each other for ever.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Kind {
    pub count: usize,
    pub dtype: Dtype,
    pub operation: Operation,
    /// Algorithm, protocol and channels.
    pub choice: u64,
}

/// The ranks of one process have come to a collective.
pub(crate) struct Arrival {
    pub kind: Kind,
    /// How often it is done in a row, and how it was started.
    pub times: u32,
    pub mode: Mode,
    /// Virtual time of the last rank, and of the process.
    pub at: u64,
    pub box_time: u64,
    /// What it truly takes, µs, and by how much a fault of this process slows it.
    pub micros: f64,
    pub slow: f64,
}
