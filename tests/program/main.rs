//! The whole program on the emulated boxes: what it says, where, and with which exit status.
//!
//! Every run starts in a cleared environment, in a folder of its own, with a fixed seed. Several `--nccl` in one run are not
//! tested here: the emulator is one library; see `results/` for runs of real ones.

mod affinity;
mod bad_values;
mod cases;
mod doctor;
mod environment;
mod executable;
mod failures;
mod floor;
mod interrupt;
mod output;
mod pairs;
mod processes;
mod settings;
mod stdout;
mod support;
mod takeaway;
mod topo;
mod usage;
mod verdicts;
