//! Writes `src/abi/bindings.rs` from `include/*.h`; with `--check` it only tells whether the committed file is stale.
//!
//! ```text
//! cargo run -p nccl-profiler-ncclsweep --features bindgen --bin regenerate-bindings [-- --check]
//! ```

use std::path::Path;
use std::process::ExitCode;

use bindgen::{Builder, EnumVariation, Formatter};

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let check = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => {
            eprintln!("usage: regenerate-bindings [--check]");
            return ExitCode::from(2);
        }
    };
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("regenerate-bindings: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(check: bool) -> Result<(), String> {
    let path = Path::new(CRATE).join("src/abi/bindings.rs");
    let bindings = generate()?;
    if !check {
        return std::fs::write(&path, bindings).map_err(|error| format!("cannot write {}: {error}", path.display()));
    }
    let committed =
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if committed == bindings {
        return Ok(());
    }
    let line = committed.lines().zip(bindings.lines()).take_while(|(old, new)| old == new).count() + 1;
    Err(format!("src/abi/bindings.rs is stale from line {line} on; run without --check and commit what it writes"))
}

fn generate() -> Result<String, String> {
    let header = |name: &str| Path::new(CRATE).join("include").join(name).to_string_lossy().into_owned();
    Builder::default()
        .header(header("profiler.h"))
        .header(header("tuner.h"))
        .allowlist_file(format!("{}/include/.*", regex_escape(CRATE)))
        .default_enum_style(EnumVariation::Consts)
        .prepend_enum_name(false)
        .use_core()
        .merge_extern_blocks(true)
        // The layout is asserted by hand in src/abi/mod.rs, against NCCL's numbers rather than against this header.
        .layout_tests(false)
        .disable_header_comment()
        .raw_line("// Made by regenerate-bindings from include/profiler.h and include/tuner.h; do not edit.")
        .formatter(Formatter::Rustfmt)
        .rustfmt_configuration_file(Some(Path::new(CRATE).join("../rustfmt.toml")))
        .generate()
        .map(|bindings| bindings.to_string())
        .map_err(|error| format!("bindgen failed: {error}"))
}

/// The path as a regular expression that matches itself.
fn regex_escape(path: &str) -> String {
    path.chars()
        .flat_map(|c| (!c.is_alphanumeric() && c != '/').then_some('\\').into_iter().chain(std::iter::once(c)))
        .collect()
}
