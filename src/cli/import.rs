//! `ncclsweep import FILE…`: what nccl-tests measured, as a run.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;

use super::answer::answer;
use super::exit::Exit;
use super::{folder, terminal};
use crate::error::{Error, Kind, Result};
use crate::import::{self, Given, Table};
use crate::plan::env_set::{DEFAULT, base_from_flags};
use crate::record::document;
use crate::record::journal::Journal;
use crate::record::stored::Stored;
use crate::record::summary::Tally;
use crate::report::{self, Format};

/// A longer text is no output of nccl-tests.
const MOST_BYTES: u64 = 64 << 20;

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct Import {
    /// What all_reduce_perf printed, or the JSON it wrote (-J); - is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Name of the env set; several tables are otherwise named after their files
    #[arg(long, value_name = "NAME", default_value = DEFAULT)]
    set: String,
    /// NCCL variables under which it was measured, where the file does not tell (the JSON does)
    #[arg(long, value_name = "K=V,…")]
    base: Vec<String>,
    /// The tables are repetitions of one command: each is a replicate of the same set
    #[arg(long)]
    repeats: bool,
    /// Folder of the run [default: results/TIME-HOST-GPUS]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What to print: table, html, markdown, json, csv, csv-cells, nccl-tests, nccl-tests-json
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = super::args::read::<Format>)]
    format: Format,
    /// No notes on stderr
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command.
pub fn run(args: &Import) -> Result<Exit> {
    let mut tables: Vec<(String, Table)> = Vec::new();
    let mut created = None;
    for path in &args.files {
        let (name, text, modified) = read(path)?;
        created = created.or(modified);
        tables.extend(import::parse(&name, &text)?.into_iter().map(|table| (name.clone(), table)));
    }
    let given = Given {
        set: args.set.clone(),
        base: base_from_flags(&args.base)?,
        repeats: args.repeats,
        created: created.unwrap_or_else(Timestamp::now),
    };
    let (header, visits) = import::run(&tables, &given)?;
    let folder = folder::of_run(args.out.as_deref(), &header, false)?;
    let mut journal = Journal::create(&folder, &header)?;
    visits.iter().try_for_each(|visit| journal.append(visit))?;
    let tally = Tally::of(&journal)?;
    let run = document::make(&header, &journal, &tally, true)?;
    document::write(&folder, &run, &journal)?;
    super::report::page(&folder, &run, &journal)?;
    let place = folder.display().to_string();
    let mut stored = Stored { place: place.clone(), folder: Some(folder), run };
    if args.format == Format::Json {
        stored.complete_visits()?;
    }
    let exit = answer(Exit::Held, |out| report::write(&[stored], args.format, terminal::style(), out))?;
    if !args.quiet {
        terminal::note(format!("results in {place}"));
    }
    Ok(exit)
}

/// The name of a file without its folder, its text, and when it was last written.
fn read(path: &Path) -> Result<(String, String, Option<Timestamp>)> {
    let fault = |error: std::io::Error| {
        Error::usage(format!("cannot read {}", path.display()))
            .because(error)
            .help("name what all_reduce_perf printed, or the JSON that it wrote")
    };
    let mut bytes = Vec::new();
    let (name, modified) = if path == Path::new("-") {
        std::io::stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(fault)?;
        ("stdin".to_owned(), None)
    } else {
        let file = std::fs::File::open(path).map_err(fault)?;
        let modified = file.metadata().and_then(|facts| facts.modified()).ok();
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(fault)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        (name, modified.and_then(|time| Timestamp::try_from(time).ok()))
    };
    if bytes.len() as u64 > MOST_BYTES {
        return Err(
            Error::new(Kind::Usage, format!("{} is larger than 64 MiB", path.display())).help("is it the right file?")
        );
    }
    // A torn character is in no figure; a row that has one is refused.
    Ok((name, String::from_utf8_lossy(&bytes).into_owned(), modified))
}
