//! `--timings` and `--floor`: what the measuring costs, and what an all-reduce costs at least.

use std::io::Write;

use clap::Args;

use super::terminal;
use crate::record::run::Run;
use crate::report;

/// What else to tell of a run.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Cost {
    /// Tell where the time of the visits went, phase by phase
    #[arg(long, help_heading = "Results")]
    pub timings: bool,
    /// Destroy the communicators of a visit all at once at its end: shorter visits, in which up to K of them hold memory
    #[arg(long, help_heading = "Effort")]
    pub keep_communicators: bool,
    /// Measure what an all-reduce costs at least here: a flag's hop between every two GPUs, and an empty kernel
    #[arg(long, help_heading = "Effort")]
    pub floor: bool,
}

/// Writes what is known of it under a report: the floor where it was measured, the phases of the visits when asked for.
pub fn write(run: &Run, timings: bool, out: &mut impl Write) -> std::io::Result<()> {
    if let Some(floor) = report::floor::render(run, terminal::style()) {
        write!(out, "\n{floor}")?;
    }
    if timings {
        write!(out, "\n{}", report::timings::render(run, terminal::style()))?;
    }
    Ok(())
}
