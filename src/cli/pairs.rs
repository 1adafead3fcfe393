//! `ncclsweep pairs`: every two GPUs together.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::answer::{answer, unwritten};
use super::args::Pairs as Args;
use super::devices::Devices;
use super::draft::{positive, seed_from_clock};
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::terminal;
use crate::collective::{Dtype, SizeList};
use crate::error::{Error, Kind, Result};
use crate::pairs::{Pair, Pairs, Trouble, Way, worst};
use crate::record::visit::Outcome;
use crate::report;
use crate::supervisor::bench::{self, Bench};
use crate::supervisor::deadlines::Deadlines;
use crate::supervisor::pairs::{self, Observer, Wanted};
use crate::supervisor::private::Private;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let devices = Devices::of(&args.devices, positive("--gpus", args.gpus)?)?;
    let bytes = sizes(&args.sizes)?;
    let interrupt = Interrupt::install()?;
    let asked = || interrupt.asked();
    let private = Private::create()?;
    let wanted = bench::Wanted {
        emulate: args.emulation.emulate.clone(),
        nccl: args.nccl.iter().cloned().collect(),
        // A driver that has not been used since boot takes longer for its first answer than a pair for its phases.
        deadlines: Deadlines::default(),
        load: false,
    };
    let bench = Bench::find(&wanted, &private, &asked)?;
    let devices = devices.on(&bench.gpus)?;
    if !args.allow_busy {
        bench.check_idle(&devices)?;
    }
    let wanted = Wanted {
        devices,
        ways: match args.p2p.as_str() {
            "on" => vec![Way::P2p],
            "off" => vec![Way::HostMemory],
            _ => Way::ALL.to_vec(),
        },
        bytes,
        communicators: args.communicators,
        clean_env: args.clean_env,
        deadlines: Deadlines::all(args.deadline),
        seed: args.seed.unwrap_or_else(seed_from_clock),
    };
    // Minutes of measuring are not to be lost to a place that cannot be written to.
    let kept = args.out.as_deref().map(keep).transpose()?;
    let mut live = Live::new(args.quiet);
    let measured = pairs::run(&wanted, &bench, &private, &asked, &mut live);
    live.0.finish_and_clear();
    let measured = measured?;
    let exit = exit(&measured, asked());
    let measured = if args.redact { measured.redacted() } else { measured };
    let document = serde_json::to_string_pretty(&measured).map_err(|error| unkept("JSON").because(error))? + "\n";
    let written = match (kept, &args.out) {
        (Some(mut file), Some(path)) => file
            .metadata()
            .and_then(|facts| if facts.is_file() { file.set_len(0) } else { Ok(()) })
            .and_then(|()| file.write_all(document.as_bytes()))
            .map_err(|error| unkept(&path.display().to_string()).because(error).help("the figures stand on stdout")),
        _ => Ok(()),
    };
    let json = args.format == "json";
    let text = if json { document } else { report::pairs::render(&measured, terminal::style()) };
    let answered = answer(exit, |out| out.write_all(text.as_bytes()).map_err(unwritten))?;
    written.map(|()| answered)
}

/// Opens a file for what will be measured, and leaves what is in it until then.
fn keep(path: &Path) -> Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    file.map_err(|error| {
        unkept(&path.display().to_string()).because(error).help("--out takes a file in a folder that can be written to")
    })
}

fn unkept(place: &str) -> Error {
    Error::new(Kind::Incomplete, format!("cannot write the pairs to {place}"))
}

/// Bytes of the small message and of the large one.
fn sizes(text: &str) -> Result<[u64; 2]> {
    let wrong =
        || Error::usage(format!("--sizes {text} is not a small size and a large one")).help("e.g. --sizes 1K,16M");
    let sizes = SizeList::parse("--sizes", text)?.sizes(Dtype::Bfloat16)?;
    match sizes.as_slice() {
        [small, large] if small < large => Ok([small, large].map(|size| size.bytes(Dtype::Bfloat16).0)),
        _ => Err(wrong()),
    }
}

/// The exit code: the first that holds, from the top.
fn exit(measured: &Pairs, interrupted: bool) -> Exit {
    let failed = |pair: &Pair| !matches!(pair.outcome, Outcome::Completed | Outcome::NotRun { .. });
    match () {
        () if interrupted => Exit::Interrupted,
        () if measured.stopped.is_some() || measured.pairs.iter().any(failed) => Exit::Incomplete,
        () if worst(&measured.findings) == Some(Trouble::Slow) => Exit::Failed,
        () => Exit::Held,
    }
}

/// A line on stderr that tells which pair is tried; failures stay.
struct Live(ProgressBar);

impl Live {
    fn new(quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}").expect("a valid template"));
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }
}

impl Observer for Live {
    fn begins(&mut self, of: &Pairs, (a, b): (usize, usize), way: Way, place: usize, all: usize) {
        self.0.set_message(format!("{}/{all} {} – {} over {way}", place + 1, of.name(a), of.name(b)));
    }

    fn ended(&mut self, of: &Pairs, pair: &Pair) {
        if !matches!(pair.outcome, Outcome::Completed | Outcome::NotRun { .. }) {
            let line = format!("{} – {} over {}: {}", of.name(pair.a), of.name(pair.b), pair.way, pair.outcome);
            self.0.suspend(|| terminal::note(line));
        }
    }
}
