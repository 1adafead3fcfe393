//! The emulator's shared object: where it lies beside the executable.

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};

/// What `--emulate` alone means: eight GPUs on four PCIe switches under two sockets.
pub const STANDARD: &str = "8xrtxpro6000-switch";

/// The emulated boxes there are.
pub const BOXES: [&str; 4] = [STANDARD, "8xpcie-flat", "4x4090-phb", "2xh200-nvlink"];

const FILE: &str = "libncclsweep_emulator.so";

/// The emulator beside the running executable: in `deps` of a build, or in `lib/ncclsweep` of an installation. `cargo install`
/// copies the executable alone, so it is looked for where it was built as well.
pub fn find() -> Result<PathBuf> {
    let executable = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok()).unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new("."));
    let built = Path::new(env!("NCCLSWEEP_BUILT_IN"));
    let installed = folder.join("../lib/ncclsweep");
    let places = [folder.join("deps").join(FILE), folder.join(FILE), installed.join(FILE), built.join(FILE)];
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        Error::new(Kind::Environment, format!("cannot emulate: {FILE} is not beside the executable")).help(format!(
            "looked for {}; `cargo build --release` in a clone leaves it in target/release/deps, copy it to {}",
            looked.join(", "),
            installed.display()
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
