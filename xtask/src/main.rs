//! Chores of the repository: `cargo xtask simulate` shows what the statistics of `ncclsweep` are worth, `cargo xtask soak`
//! what it survives.

use clap::{Parser, Subcommand};

mod calibrate;
mod cost;
mod fuzz;
mod replay;
mod simulate;
mod soak;
mod table;
mod versus;

#[derive(Parser)]
#[command(about)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Spread, correlation and first-communicator effect of the recorded runs under results/statistics/data
    Calibrate,
    /// Simulate runs with a known truth and count what the statistics say of them
    Simulate(simulate::Args),
    /// Cut recorded rounds into disjoint runs and judge each as if it had been measured alone
    Replay(replay::Args),
    /// What an answer costs: processes and seconds until default against another set is decided, by three ways
    Cost(cost::Args),
    /// Run the fuzz targets of fuzz/
    Fuzz(fuzz::Args),
    /// Try to lose results: every fault in every phase, kills at random moments
    Soak(soak::Args),
    /// This program and nccl-tests' all_reduce_perf by turns on the same GPUs
    Versus(versus::Args),
}

fn main() -> miette::Result<()> {
    soak::server::serve_if_asked();
    match Args::parse().chore {
        Chore::Calibrate => calibrate::print()?,
        Chore::Simulate(args) => simulate::run(&args)?,
        Chore::Cost(args) => cost::run(&args)?,
        Chore::Replay(args) => replay::run(&args)?,
        Chore::Fuzz(args) => fuzz::run(&args)?,
        Chore::Soak(args) => soak::run(&args)?,
        Chore::Versus(args) => versus::run(&args)?,
    }
    Ok(())
}
