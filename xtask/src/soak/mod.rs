//! `cargo xtask soak`: long runs that try to lose results: every fault in every phase, and kills at random moments; and whole runs
//! under a known truth, that try to get a false verdict.

mod agents;
mod audit;
mod faults;
mod kills;
#[path = "../../../tests/agents/launched.rs"]
mod launched;
#[path = "../../../tests/faults/left_over.rs"]
mod left_over;
#[path = "../../../tests/faults/matrix.rs"]
mod matrix;
#[path = "../../../tests/audit/server.rs"]
pub mod server;
mod verdicts;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Subcommand;
use ncclsweep::error::{Error, Kind, Result};

#[derive(clap::Args)]
pub struct Args {
    /// The program; built for release when none is named
    #[arg(long, global = true)]
    program: Option<PathBuf>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The whole fault matrix on the emulator
    Faults {
        /// Times that each field is made
        #[arg(long, default_value_t = 1)]
        times: u32,
        /// Runs at a time
        #[arg(long, default_value_t = 4)]
        at_once: usize,
    },
    /// SIGKILL of the supervisor at random moments of a run
    Kills {
        /// How many
        number: u32,
        /// Seed of the moments
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// SIGKILL of one of several agents at random moments of a run
    Agents {
        /// How many
        number: u32,
        /// Seed of the moments
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Servers under audit, half of them killed at random moments
    Audit {
        /// Processes, all at once
        #[arg(long, default_value_t = 64)]
        processes: usize,
        /// Collectives of each rank on each of three communicators
        #[arg(long, default_value_t = 10_000)]
        collectives: usize,
        /// Seed of the moments
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Whole runs under a known truth: their verdicts, intervals and rounds beside those of simulated runs
    Verdicts {
        /// Runs for each truth
        number: u64,
        /// Seed of the first
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Runs at a time
        #[arg(long, default_value_t = 2)]
        at_once: usize,
        /// Count the kept runs again instead of making new ones
        #[arg(long)]
        kept: bool,
    },
}

/// Soaks; an error when something was not as it must be.
pub fn run(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.canonicalize().map_err(|error| failed(program, error))?,
        None => build()?,
    };
    let own = tempfile::tempdir().map_err(|error| failed(&program, error))?;
    let copied = || own_copy(&program, own.path()).map_err(|error| failed(&program, error));
    match args.what {
        What::Faults { times, at_once } => faults::run(&copied()?, times, at_once),
        What::Kills { number, seed } => kills::run(&copied()?, number, seed),
        What::Agents { number, seed } => agents::run(&copied()?, number, seed),
        What::Audit { processes, collectives, seed } => {
            audit::run(&program, &audit::Load { processes, collectives, seed })
        }
        What::Verdicts { number, seed, at_once, kept } => verdicts::run(&program, number, seed, at_once, kept),
    }
}

fn build() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root");
    let built = Command::new(env!("CARGO")).args(["build", "--release"]).current_dir(root).status();
    match built {
        Ok(status) if status.success() => Ok(root.join("target/release/ncclsweep")),
        Ok(status) => Err(Error::new(Kind::Incomplete, format!("cannot build the program: {status}"))),
        Err(error) => Err(failed(Path::new(env!("CARGO")), error)),
    }
}

/// The program, and the emulator beside it, in a folder of the soak's own: a build beside it replaces the program, and with it
/// what is put to the test.
fn own_copy(program: &Path, folder: &Path) -> std::io::Result<PathBuf> {
    const EMULATOR: &str = "libncclsweep_emulator.so";
    let beside = program.parent().unwrap_or(Path::new("."));
    let emulator = [beside.join("deps"), beside.to_owned()].map(|place| place.join(EMULATOR));
    if let Some(emulator) = emulator.iter().find(|file| file.is_file()) {
        std::fs::copy(emulator, folder.join(EMULATOR))?;
    }
    let copied = folder.join("ncclsweep");
    std::fs::copy(program, &copied)?;
    Ok(copied)
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::new(Kind::Incomplete, format!("cannot use {}", path.display())).because(error)
}

/// Where figures are kept.
fn results(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/faults").join(file)
}
