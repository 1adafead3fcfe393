//! `ncclsweep export RUN`: an env set as what a server reads.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use clap::Args;

use super::answer::answer_text;
use super::exit::Exit;
use super::terminal;
use crate::error::{Error, Kind, Result};
use crate::export::{self, Form, Source};
use crate::nccl::version::NcclVersion;
use crate::record::stored::Stored;

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The run that carries the set: its folder, or its run.json
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The env set [default: the one beside the baseline]
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// What to write: nccl.conf, env, systemd, docker, compose, kubernetes, slurm, etc-environment, wrapper, sitecustomize,
    /// json, tuner-csv
    #[arg(long, value_name = "FORM", value_parser = super::args::read::<Form>)]
    to: Form,
    /// Version of the library whose figures carry the set, when the run has several
    #[arg(long, value_name = "VERSION")]
    nccl: Option<NcclVersion>,
    /// Write a set that was wrong, partly or not in effect, undecided, slower, emulated or imported; the text says so
    #[arg(long)]
    force: bool,
    /// Write to this file, which must not exist [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Export) -> Result<Exit> {
    let stored = Stored::load(&args.run)?;
    let run = &stored.run;
    // The table of winners is of all sets.
    let set = args.set.as_deref().or((args.to == Form::TunerCsv).then(|| run.header.plan.sets[0].name.as_str()));
    let arm = export::select(run, set, args.nccl)?;
    let objections = match args.to {
        Form::TunerCsv => export::objections_to_run(run),
        _ => export::objections(run, arm),
    };
    if !objections.is_empty() && !args.force {
        let message = format!("{} is not to be taken over from {}", run.header.plan.sets[arm.set].name, stored.place);
        let because = objections.join("\n");
        return Err(Error::usage(message).because(because).help("measure it anew, or insist with --force"));
    }
    let text = export::export(Source { place: &stored.place, run }, arm, args.to, &objections)?;
    match &args.output {
        Some(path) => {
            let mut options = std::fs::OpenOptions::new();
            // A wrapper is started by its name.
            options.write(true).create_new(true).mode(if args.to == Form::Wrapper { 0o777 } else { 0o666 });
            let mut file = options.open(path).map_err(|error| {
                let help = match error.kind() {
                    std::io::ErrorKind::AlreadyExists => "it stays as it is: remove it, or name another with --output",
                    _ => "--output takes a file in a folder that can be written to",
                };
                Error::usage(format!("cannot make {}", path.display())).because(error).help(help)
            })?;
            file.write_all(text.as_bytes()).map_err(|error| {
                // Half of the settings would be taken for all of them.
                let _ = std::fs::remove_file(path);
                Error::new(Kind::Incomplete, format!("cannot write {}", path.display())).because(error)
            })?;
            terminal::note(format!("written to {}", path.display()));
            Ok(Exit::Held)
        }
        None => answer_text(text),
    }
}
