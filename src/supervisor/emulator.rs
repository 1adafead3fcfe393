//! The emulator's shared object: where it lies beside the executable.

use std::path::PathBuf;

use super::beside;
use crate::error::{Error, Kind, Result};

/// What `--emulate` alone means: eight GPUs on four PCIe switches under two sockets.
pub const STANDARD: &str = "8xrtxpro6000-switch";

/// The emulated boxes there are.
pub const BOXES: [&str; 4] = [STANDARD, "8xpcie-flat", "4x4090-phb", "2xh200-nvlink"];

const FILE: &str = "libncclsweep_emulator.so";

/// The emulator beside the running executable.
pub fn find() -> Result<PathBuf> {
    beside::find(FILE).map_err(|looked| {
        Error::new(Kind::Environment, format!("cannot emulate: {FILE} is not beside the executable")).help(format!(
            "looked for {looked}; `cargo build --release` in a clone leaves it in target/release/deps, copy it beside the executable"
        ))
    })
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
