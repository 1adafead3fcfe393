//! `ncclsweep report RUN`: shows a run again, from its files alone.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::exit::Exit;
use super::terminal;
use crate::error::{Error, Kind, Result};
use crate::record::journal::Journal;
use crate::record::run::Run;
use crate::record::summary::Tally;
use crate::record::{document, redact};
use crate::report::{self, Format};

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Folders of runs
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// What to print: table, json, csv, markdown, nccl-tests
    #[arg(long, value_name = "FORMAT", default_value = "table", conflicts_with = "samples")]
    format: Format,
    /// Tell for each size what NCCL chose, and what is known of each variable
    #[arg(long)]
    why: bool,
    /// Print every sample as CSV, a row each with all that it depends on
    #[arg(long)]
    samples: bool,
    /// Replace host name, UUIDs and paths in what is printed
    #[arg(long)]
    redact: bool,
}

/// Runs the command.
pub fn run(args: &Report) -> Result<Exit> {
    let mut out = std::io::stdout().lock();
    for folder in &args.runs {
        let (journal, header) = Journal::open(folder)?;
        if args.samples {
            samples(args, &journal, &header, &mut out)?;
            continue;
        }
        let tally = Tally::of(&journal)?;
        let mut run = document::make(&header, &journal, &tally, true)?;
        if args.format == Format::Json {
            // The document has what the visits measured, as `run.json` has.
            run.visits = journal.entries().iter().map(|entry| journal.read(entry)).collect::<Result<_>>()?;
            let replicates = run.visits.iter_mut().flat_map(|visit| &mut visit.replicates);
            replicates.for_each(|replicate| replicate.samples_us.clear());
        }
        if args.redact {
            redact::redact(&mut run)?;
        }
        print(args, &run, &mut out)?;
    }
    Ok(Exit::Held)
}

fn print(args: &Report, run: &Run, out: &mut impl Write) -> Result<()> {
    report::write(run, args.format, terminal::style(), out)?;
    if args.why && args.format == Format::Table {
        write!(out, "\n{}", report::why::render(run, terminal::style())).map_err(unwritten)?;
    }
    Ok(())
}

fn samples(args: &Report, journal: &Journal, header: &crate::record::run::Header, out: &mut impl Write) -> Result<()> {
    let mut visits = journal.entries().iter().map(|entry| journal.read(entry)).collect::<Result<Vec<_>>>()?;
    let mut redactor = redact::Redactor::new(header);
    let mut header = header.clone();
    if args.redact {
        visits.iter().for_each(|visit| redactor.learn(visit));
        redactor.header(&mut header)?;
        visits.iter_mut().try_for_each(|visit| redactor.visit(visit))?;
    }
    report::machine::observations(&header, &visits, out).map_err(unwritten)
}

fn unwritten(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Kind::Incomplete, "cannot write to stdout").because(error)
}
