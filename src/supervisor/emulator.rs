//! The emulator's shared object: where it lies beside the executable.

use std::path::{Path, PathBuf};

use super::beside;
use crate::error::{Error, Kind, Result};
use crate::nccl::version::NcclVersion;

/// What `--emulate` alone means: eight GPUs on four PCIe switches under two sockets.
pub const STANDARD: &str = "8xrtxpro6000-switch";

/// The emulated boxes there are.
pub const BOXES: [&str; 4] = [STANDARD, "8xpcie-flat", "4x4090-phb", "2xh200-nvlink"];

/// The version that is emulated when none is asked for.
const NCCL: NcclVersion = NcclVersion::new(2, 28, 3);

/// How the names of its variables begin.
const PREFIX: &str = "NCCLSWEEP_EMULATE_";

/// How the line begins in which it says what variable it cannot read.
const COMPLAINS: &str = "ncclsweep emulator: NCCLSWEEP_EMULATE_";

const FILE: &str = "libncclsweep_emulator.so";

/// The emulator beside the running executable.
pub fn find() -> Result<PathBuf> {
    beside::find(FILE).map_err(|looked| {
        Error::new(Kind::Environment, format!("cannot emulate: {FILE} is not beside the executable")).help(format!(
            "looked for {looked}; `cargo build --release` in a clone leaves it in target/release/deps, copy it beside the executable"
        ))
    })
}

/// The version of NCCL that the emulator will report; none when what is asked for is not one.
#[must_use]
pub fn version() -> Option<NcclVersion> {
    match std::env::var("NCCLSWEEP_EMULATE_NCCL") {
        Ok(asked) => asked.parse().ok(),
        Err(_) => Some(NCCL),
    }
}

/// What the emulator has against its variables, in what a process wrote to this file.
pub(super) fn complaint(output: &Path) -> Option<String> {
    let said = std::fs::read_to_string(output).ok()?;
    said.lines().find_map(|line| line.strip_prefix(COMPLAINS)).map(|why| format!("{PREFIX}{why}"))
}

/// Refuses a box that is not emulated.
pub fn known_box(name: &str) -> Result<()> {
    if BOXES.contains(&name) {
        return Ok(());
    }
    let guess = crate::nearest::nearest(name, BOXES).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    Err(Error::usage(format!("no emulated box is called `{name}`"))
        .help(format!("{guess}there are {}", BOXES.join(", "))))
}
