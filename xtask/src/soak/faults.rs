//! The whole fault matrix.

use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use ncclsweep::error::{Error, Kind, Result};

use super::matrix::{self, Fault, KINDS, PHASES};
use super::results;
use crate::table::Table;

/// Makes every field `times` times and prints how many were as they must be, one rank and all ranks together.
pub fn run(program: &Path, times: u32, at_once: usize) -> Result<()> {
    let begun = Instant::now();
    let fields = matrix::all();
    let left: Vec<Fault> = (0..times).flat_map(|_| fields.iter().rev().copied()).collect();
    let made = left.len();
    let (left, wrong) = (Mutex::new(left), Mutex::new(Vec::new()));
    let next = || left.lock().expect("no thread panics").pop();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(fault) = next() {
                    let found = match tempfile::tempdir() {
                        Ok(folder) => matrix::strike(program, fault, folder.path()),
                        Err(error) => vec![error.to_string()],
                    };
                    if !found.is_empty() {
                        let ranks = if fault.one { "rank 3" } else { "all ranks" };
                        let ranks = format!("{ranks} as {}", if fault.processes { "processes" } else { "threads" });
                        eprintln!("{}@{}, {ranks}: {}", fault.kind, fault.phase, found.join("; "));
                        wrong.lock().expect("no thread panics").push(fault);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no thread panics");
    let table = counts(&fields, &wrong, times);
    table.print();
    table.save(&results("matrix.csv"), &format!("cargo xtask soak faults --times {times}"))?;
    println!("{} of {made} runs as they must be, {:.0} s", made - wrong.len(), begun.elapsed().as_secs_f64());
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::new(Kind::Incomplete, format!("{} runs were not as they must be", wrong.len())))
}

/// A row per kind, a column per phase: runs as they must be of runs made.
fn counts(fields: &[Fault], wrong: &[Fault], times: u32) -> Table {
    let mut table = Table::new(&[&["fault"], PHASES.as_slice()].concat());
    for kind in KINDS {
        let field = |phase: &str| {
            let is = |fault: &&Fault| fault.kind == kind && fault.phase == phase;
            let made = fields.iter().filter(is).count() * times as usize;
            let good = made - wrong.iter().filter(is).count();
            if made == 0 { "-".to_owned() } else { format!("{good}/{made}") }
        };
        table.push([kind.to_owned()].into_iter().chain(PHASES.map(field)).collect());
    }
    table
}
