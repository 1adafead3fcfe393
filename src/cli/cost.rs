//! `--timings` and `--floor`: what the measuring costs, and what an all-reduce costs at least.

use clap::Args;

/// What else to tell of a run.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Cost {
    /// Tell where the time of the visits went, phase by phase
    #[arg(long, help_heading = "Results")]
    pub timings: bool,
    /// Measure what an all-reduce costs at least here: a flag's hop between every two GPUs, and an empty kernel
    #[arg(long, help_heading = "Effort")]
    pub floor: bool,
}
