//! What agents tell each other, as lines of JSON.

use serde::{Deserialize, Serialize};

use crate::plan::schedule::Plan;
use crate::record::run::Provenance;
use crate::supervisor::visit::Planned;
use crate::wire::{Event, Question};

/// What the first agent says to another.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Start the workers of your ranks.
    Visit {
        /// Number of the visit: every one has its own.
        number: u64,
        /// The plan.
        plan: Box<Plan>,
        /// The visit.
        planned: Planned,
    },
    /// Ask your workers.
    Ask(Question),
    /// End your workers.
    End,
    /// The run is over.
    Quit,
    /// You take no part in this run.
    Refused {
        /// Why.
        why: String,
    },
}

/// What another agent says to the first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The visit it belongs to; 0 before the first.
    pub visit: u64,
    /// What.
    pub what: What,
}

/// What there is to report.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The agent is there, with what it has.
    Hello(Box<Facts>),
    /// A worker said something.
    Heard {
        /// Which, in the order of the ranks.
        worker: usize,
        /// What.
        event: Box<Event>,
    },
    /// A worker broke the protocol.
    Garbage {
        /// Which.
        worker: usize,
        /// What it said.
        said: String,
    },
    /// A worker has said its last word.
    Silent {
        /// Which.
        worker: usize,
        /// How its process ended, as the system tells it; none when it is still there.
        status: Option<i32>,
    },
    /// The workers could not be started.
    NotStarted {
        /// Why.
        message: String,
    },
    /// The workers wrote more than a disk should have to hold.
    Flooded {
        /// MiB they had written.
        mib: u64,
    },
    /// The agent has heard a question and handed it on.
    Asked,
    /// All workers are gone.
    Ended {
        /// What is left of each.
        workers: Vec<Left>,
        /// The last lines they wrote to stdout and stderr.
        output: Vec<String>,
    },
    /// The agent was asked to end by its user or launcher.
    Interrupted,
}

/// What an agent has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Its host, software and GPUs: those of its ranks, in rank order.
    pub provenance: Provenance,
    /// CUDA's numbers of these GPUs.
    pub devices: Vec<u32>,
    /// What tells machines apart, whatever they are called: the id of the running kernel.
    pub machine: String,
}

/// What a worker leaves.
#[derive(Debug, Serialize, Deserialize)]
pub struct Left {
    /// Its first rank.
    pub rank: u32,
    /// How its process ended, as the system tells it.
    pub status: Option<i32>,
    /// NCCL's log; its end alone where it is too long to be sent.
    pub log: String,
}
