//! Runs the fuzz targets one after the other and keeps what came of it: `cargo xtask fuzz`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ncclsweep::error::{Error, Kind, Result};

use crate::table::Table;

#[derive(clap::Args)]
pub struct Args {
    /// Targets; all when none is named
    targets: Vec<String>,
    /// Seconds for each
    #[arg(long, default_value_t = 600)]
    seconds: u32,
}

/// Fuzzes; an error when something was found.
pub fn run(args: &Args) -> Result<()> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    let mut table = Table::new(&["target", "seconds", "executions", "edges", "features", "inputs", "findings"]);
    let targets = if args.targets.is_empty() { names(&fuzz.join("seeds"))? } else { args.targets.clone() };
    let mut found = 0;
    for target in &targets {
        let said = fuzz_one(&fuzz, target, args.seconds)?;
        let findings = names(&fuzz.join("artifacts").join(target)).map_or(0, |names| names.len());
        found += findings;
        let row = [target.clone()].into_iter().chain(figures(&said)).chain([findings.to_string()]);
        table.push(row.collect());
    }
    table.print();
    let csv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/faults/fuzz.csv");
    table.save(&csv, &format!("cargo xtask fuzz --seconds {}", args.seconds))?;
    match found {
        0 => Ok(()),
        found => Err(Error::new(Kind::Incomplete, format!("{found} inputs in fuzz/artifacts break a target"))),
    }
}

/// Seconds, executions, covered edges, features and inputs kept, as the fuzzer says at its end.
fn figures(said: &str) -> [String; 5] {
    let after = |mark: &str| {
        let rest = said.rsplit_once(mark).map(|(_, rest)| rest.trim_start());
        let end = |rest: &str| rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.map_or_else(|| "-".to_owned(), |rest| rest[..end(rest)].to_owned())
    };
    [after(" runs in "), after("stat::number_of_executed_units:"), after(" cov:"), after(" ft:"), after(" corp:")]
}

fn fuzz_one(fuzz: &Path, target: &str, seconds: u32) -> Result<String> {
    let failed = |error| Error::new(Kind::Incomplete, format!("cannot fuzz {target}")).because(error);
    let corpus = fuzz.join("corpus").join(target);
    std::fs::create_dir_all(&corpus).map_err(failed)?;
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", "run", "--sanitizer", "none", target]);
    command.args([corpus, fuzz.join("seeds").join(target)]).current_dir(fuzz).stdin(Stdio::null());
    // A busy machine can stop the fuzzer for long: targets measure the time of the processor themselves.
    command.args(["--", "-timeout=300", "-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={seconds}"));
    let words: PathBuf = fuzz.join("dicts").join(target).with_extension("dict");
    if words.is_file() {
        command.arg(format!("-dict={}", words.display()));
    }
    // The toolchain of this program must not be that of the fuzzer.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    let output = command.output().map_err(failed)?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Names in a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::new(Kind::Incomplete, format!("cannot list {}", folder.display())).because(error);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}
