//! Several hosts: a launcher (`mpirun`, `srun`) starts this program on each, and every one is the agent of its host's ranks.
//!
//! The [`first`] plans, records and reports; the [`others`](other) start the workers of their ranks when it says so, and relay
//! what these say. They find each other by the launcher's variables ([`launcher`]) at one address ([`rendezvous`]), where only
//! those that hold the run's [`token`] are heard.
//!
//! To the first agent a worker elsewhere is a member of its crew whose wire leads over TCP.

use std::sync::Arc;

mod agent;
pub mod alike;
pub mod first;
pub mod launcher;
pub mod message;
pub mod other;
pub mod rendezvous;
pub mod token;

/// What an agent knows of its place among others.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// Which agent this is; the first where it is alone.
    pub agent: usize,
    /// What tells the host of its workers apart for NCCL (`NCCL_HOSTID`), where that is not left to NCCL.
    pub id: Option<String>,
    /// The other agents, as the first has them.
    pub others: Option<Arc<first::Others>>,
    /// Inherited variables that the hosts have differently, so that their ranks may disagree.
    pub apart: Vec<String>,
}
