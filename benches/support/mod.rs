//! Runs of the program for the benches to look at.

use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The emulator reads the time of the machine nowhere, so a seed is all that decides a run.
pub const MAIN_JOB: &str = "--emulate --gpus 8 --sizes 7168x1..4 --seed 1 --quiet --out run";

/// The program in a folder of its own and an environment of nothing but the search path.
pub fn program(home: &TempDir, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclsweep"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home.path());
    command.current_dir(home.path()).args(arguments.split_whitespace()).stdout(Stdio::null());
    command
}
