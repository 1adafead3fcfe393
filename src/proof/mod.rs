//! Proof that a set took effect: values in, verdicts out. Nothing here starts, opens or measures anything.
//!
//! [`Evidence`] holds what one visit showed on four levels: *asked* (the arm's variables), *seen* (the worker's own
//! environment), *read* (NCCL's log, digested into [`Read`]) and [`Used`] (the profiler plugin, else the log). [`judge`]
//! turns it into a [`VariableProof`] for each variable and case, [`combine`] lays the visits of an arm together,
//! [`cell_state`] sums a cell up, [`likeness`] says whether an arm did just what the baseline did, and [`why`] tells what
//! was chosen. Rules and their reasons: `docs/proof.md`.

mod cell;
mod evidence;
mod likeness;
mod ranks;
mod read;
mod rules;
mod sentences;
#[cfg(test)]
mod tests;
mod used;
mod variable;
pub mod why;

pub use cell::{Applied, cell_state, combine, notes};
pub use evidence::{Asked, Evidence, FileLine, Observation, Paths, Seen, Uses, asked, device, mark_common, paths};
pub use likeness::{ArmProof, Likeness, likeness};
pub use read::{BufferRead, CommunicatorRead, EnvRead, GraphRead, Hop, RankRead, Read};
pub use used::{Channels, Source, Used};
pub use variable::{State, VariableProof, judge};

/// What NCCL is to log (`NCCL_DEBUG_SUBSYS`) in a visit that is timed: variables, transports, channels, the graph search and
/// buffers in host memory, all told at initialisation and connection. Connections are logged under INIT as well as under P2P,
/// SHM and NET.
pub const TIMED_SUBSYSTEMS: &str = "INIT,ENV,GRAPH,SHM";

/// What NCCL is to log in a process that is not timed and whose library does not tell a profiler of all calls: TUNING writes
/// a line per call, and the table of threads.
pub const UNTIMED_SUBSYSTEMS: &str = "INIT,ENV,GRAPH,SHM,TUNING";
