//! Figures of nccl-tests: [`parse`] reads what `all_reduce_perf` prints or writes (`-J`) into [`Table`]s, [`run`](fn@run)
//! makes of them a run that `report` and `compare` take.
//!
//! A table is one process run once, so a run made of it has one replicate a size and never a verdict. What is cut off,
//! mixed with other output or at odds with itself is an error with its line, never a value. Forms of the output were read
//! from nccl-tests' source, 2017 to 2.19.6.

mod columns;
mod json;
mod prefix;
mod run;
#[cfg(test)]
mod tests;
mod text;

use std::ops::Range;

pub use self::run::{Given, run};
use crate::collective::{Dtype, Op};
use crate::error::{Error, Result};
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::Vars;

/// One table of `all_reduce_perf`, with what its head tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Line of the column names, from 1.
    pub line: usize,
    /// What stood around it.
    pub head: Head,
    /// Its rows, none at odds with itself.
    pub rows: Vec<Row>,
    /// Checks that found wrong data, as the line under the table counts them; `None` when there is no such line.
    pub out_of_bounds: Option<u64>,
    /// What a reader must know before trusting the figures.
    pub notes: Vec<String>,
}

/// How was measured, and on what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Version of nccl-tests.
    pub version: Option<String>,
    /// Version of the NCCL library.
    pub nccl: Option<NcclVersion>,
    /// Name of the program; old ones do not tell.
    pub program: Option<String>,
    /// `-t`, `-g`, `-n` and their like; `None` when no line tells.
    pub options: Option<Options>,
    /// The ranks in order; old JSON files name one of each process.
    pub ranks: Vec<Rank>,
    /// The command line.
    pub arguments: Vec<String>,
    /// `NCCL_*` variables of its environment.
    pub variables: Vars,
    /// When it was started: local time of that box, read as UTC since no zone is told.
    pub started: Option<jiff::Timestamp>,
    /// How long it took, seconds.
    pub seconds: Option<f64>,
    /// Whether times are those of the CPU (`-C`) and the figures stand in the bandwidths alone.
    pub cpu_time: bool,
}

/// Options that decide what a time means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads of a process (`-t`).
    pub threads: u32,
    /// GPUs of a thread (`-g`).
    pub gpus: u32,
    /// Timed calls (`-n`).
    pub iterations: u32,
    /// Operations of one call (`-m`).
    pub aggregated: u32,
    /// Checks of the data (`-c`).
    pub validation: u32,
    /// Launches of a CUDA graph of the timed calls (`-G`); 0 is none.
    pub graph: u32,
    /// How calls wait for each other (`-z`); 0 is not at all.
    pub blocking: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: 1, gpus: 1, iterations: 20, aggregated: 1, validation: 1, graph: 0, blocking: 0 }
    }
}

/// A rank as the head names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// Its process; old ones do not tell.
    pub pid: Option<u32>,
    /// Host name.
    pub host: String,
    /// CUDA ordinal.
    pub device: u32,
    /// Place on the PCI bus, as it is printed.
    pub bus: String,
    /// Marketing name.
    pub name: String,
}

/// One size, data type and operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Line, from 1; in JSON the number of the result.
    pub line: usize,
    /// Elements of a rank.
    pub count: u64,
    /// Data type.
    pub dtype: Dtype,
    /// Operation.
    pub op: Op,
    /// Out of place, then in place.
    pub halves: [Option<Half>; 2],
}

/// What one placement measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Half {
    /// Mean time of a call, µs.
    pub time_us: f64,
    /// What its check of the data found.
    pub check: Check,
    /// Times of the calls one by one, µs, where they were kept (`-I 1 -J`).
    pub calls_us: Vec<f64>,
}

/// What a check of the data found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// Not checked (`-c 0`).
    None,
    /// Elements that are wrong.
    Wrong(u64),
    /// The largest deviation, by programs before 2022; the line under the table tells whether it is too large.
    Deviation(f64),
}

/// Reads what `all_reduce_perf` printed, or the JSON that it wrote. `name` is what errors call the text.
pub fn parse(name: &str, text: &str) -> Result<Vec<Table>> {
    let source = Source { name, text };
    let tables = match text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        true => vec![json::parse(&source)?],
        false => text::parse(&source)?,
    };
    tables.iter().try_for_each(|table| all_reduce(&source, table))?;
    Ok(tables)
}

/// Refuses tables of other collectives, whose bandwidths mean something else.
fn all_reduce(source: &Source, table: &Table) -> Result<()> {
    match &table.head.program {
        Some(program) if !program.contains("all_reduce") => {
            let message = format!("{} holds figures of {program}", source.name);
            Err(Error::usage(message).help("only those of all_reduce_perf are imported"))
        }
        _ if table.rows.is_empty() => Err(source
            .fault(table.line, "a table without rows")
            .help("the program ended before it had measured a size")),
        _ => Ok(()),
    }
}

/// A text with its name.
#[derive(Clone, Copy)]
struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl Source<'_> {
    /// An error that points at line `number`.
    fn fault(&self, number: usize, label: impl Into<String>) -> Error {
        let message = format!("cannot import {}, line {number}", self.name);
        Error::usage(message).at(self.name, self.text, self.span(number), label)
    }

    /// Where line `number` stands, its ending left out.
    fn span(&self, number: usize) -> Range<usize> {
        let mut start = 0;
        for (at, line) in (1..).zip(self.text.split('\n')) {
            if at == number {
                return start..start + line.trim_end().len();
            }
            start += line.len() + 1;
        }
        self.text.len()..self.text.len()
    }
}
