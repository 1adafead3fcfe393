//! `ncclsweep report RUN…`: shows runs again, from their files alone.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::answer::{answer, unwritten};
use super::exit::Exit;
use super::terminal;
use crate::error::Result;
use crate::record::file;
use crate::record::journal::Journal;
use crate::record::observed::Observed;
use crate::record::run::Run;
use crate::record::stored::Stored;
use crate::report::{self, Format};

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Runs: their folders, or their run.json
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// What to print: table, html, markdown, json, csv (each observation), csv-cells, nccl-tests, nccl-tests-json
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = super::args::read::<Format>)]
    format: Format,
    /// Tell for each size what NCCL chose, and what is known of each variable
    #[arg(long)]
    why: bool,
    /// Tell where the time of the visits went, phase by phase
    #[arg(long)]
    timings: bool,
    /// Replace host name, UUIDs and paths in what is printed
    #[arg(long)]
    redact: bool,
}

/// Runs the command.
pub fn run(args: &Report) -> Result<Exit> {
    let mut runs = args.runs.iter().map(|path| Stored::load(path)).collect::<Result<Vec<_>>>()?;
    if args.format == Format::Json {
        runs.iter_mut().try_for_each(Stored::complete_visits)?;
    }
    if args.redact {
        for (at, stored) in runs.iter_mut().enumerate() {
            stored.redact(format!("run-{}", at + 1))?;
        }
    }
    answer(Exit::Held, |out| {
        let more = args.why || args.timings || runs.iter().any(|stored| stored.run.floor.is_some());
        if !more || args.format != Format::Table {
            return report::write(&runs, args.format, terminal::style(), out);
        }
        runs.chunks(1).try_for_each(|of| {
            report::write(of, args.format, terminal::style(), out)?;
            let run = &of[0].run;
            if args.why {
                write!(out, "\n{}", report::why::render(run, terminal::style())).map_err(unwritten)?;
            }
            super::cost::write(run, args.timings, out).map_err(unwritten)
        })
    })
}

/// Writes the page of a run into its folder.
pub fn page(folder: &Path, run: &Run, journal: &Journal) -> Result<()> {
    let observed = Observed::of_journal(journal, &report::html::wanted(run))?;
    let page = report::html::run(report::html::Source { run, observed: &observed });
    file::replace(&folder.join(report::html::FILE), |out| out.write_all(page.as_bytes()))
}
