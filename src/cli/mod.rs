//! The command line: arguments, one file per command, exit codes.

mod accept;
mod answer;
mod args;
mod audit;
mod buffers;
mod compare;
mod cost;
mod devices;
mod doctor;
mod documents;
mod draft;
mod dry_run;
mod end;
mod examples;
mod exec;
mod exit;
mod explain;
mod export;
mod folder;
mod hosts;
mod impact;
mod import;
mod interrupt;
mod pairs;
mod progress;
mod ranks;
mod report;
mod settings;
mod sizes_from;
mod slips;
mod sweep;
mod terminal;
mod topo;

use std::os::fd::FromRawFd;

use clap::FromArgMatches;
use nix::sys::resource::{Resource, getrlimit};

use crate::error::{Error, Kind, Result};
use crate::supervisor::dispositions;
use crate::wire;
use crate::worker;

use answer::{answer, unwritten};
pub use exit::Exit;

/// Stack of the program, as most systems give it to the first thread.
const STACK: u64 = 8 << 20;

/// Parses the arguments, runs the command they name, and shows what failed.
#[must_use]
pub fn main() -> Exit {
    if getrlimit(Resource::RLIMIT_STACK).is_ok_and(|(soft, _)| soft >= STACK) {
        return command();
    }
    // The shell leaves the first thread less (`ulimit -s`) than a parser of so many arguments takes.
    let roomy = std::thread::Builder::new().stack_size(STACK as usize).spawn(command);
    match roomy.map_err(|error| Error::new(Kind::Environment, "cannot start a thread").because(error)) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(error) => failed(&error),
    }
}

fn command() -> Exit {
    if let Err(error) = dispositions::notice_children() {
        return failed(&Error::new(Kind::Environment, "cannot be told of children that end").because(error));
    }
    // Workers, probes and what looks for the floor are this executable too; their arguments are ours alone, so they need no parser.
    let first = std::env::args_os().skip(1).take(3);
    let hidden: Vec<String> = first.map(|argument| argument.to_string_lossy().into_owned()).collect();
    if hidden.first().is_some_and(|word| word.starts_with("__")) {
        // It was started by a path that ends in "exe"; whoever lists processes shall know it. Without the name all works too.
        let _ = std::fs::write("/proc/self/comm", env!("CARGO_PKG_NAME"));
    }
    match hidden.first().map(String::as_str) {
        Some(crate::supervisor::visit::WORKER) => worker::run(descriptor(&hidden)),
        Some(crate::supervisor::prepare::PROBE) => return probe(&hidden),
        Some(crate::supervisor::floor::FLOOR) => return floor(&hidden),
        _ => {}
    }
    let arguments =
        match examples::command().try_get_matches().and_then(|found| args::Arguments::from_arg_matches(&found)) {
            Ok(arguments) => arguments,
            Err(error) => {
                // Help and version are answers, not errors: clap prints them to stdout.
                if !error.use_stderr() {
                    return answer(Exit::Held, |_| error.print().map_err(unwritten))
                        .unwrap_or_else(|error| failed(&error));
                }
                let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
                match slips::of(&error, &words) {
                    Some(error) => exit::show(&error),
                    None => exit::show_usage(&slips::plainly(error)),
                }
                return Exit::Usage;
            }
        };
    run(arguments).unwrap_or_else(|error| failed(&error))
}

fn failed(error: &Error) -> Exit {
    exit::show(error);
    error.kind().into()
}

fn run(arguments: args::Arguments) -> Result<Exit> {
    match arguments.command {
        Some(args::Command::Sweep(sweep)) => sweep::run(&sweep),
        Some(args::Command::Report(args)) => report::run(&args),
        Some(args::Command::Accept(accept)) => accept::run(&accept),
        Some(args::Command::Compare(compare)) => compare::run(&compare),
        Some(args::Command::Export(args)) => export::run(&args),
        Some(args::Command::Doctor(doctor)) => doctor::run(&doctor),
        Some(args::Command::Import(args)) => import::run(&args),
        Some(args::Command::Topo(topo)) => topo::run(&topo),
        Some(args::Command::Pairs(pairs)) => pairs::run(&pairs),
        Some(args::Command::Audit(audit)) => audit::run(&audit),
        Some(args::Command::Exec(exec)) => exec::run(&exec),
        Some(args::Command::Explain { name }) => explain::run(name.as_deref()),
        Some(args::Command::Completions { shell }) => documents::completions(shell),
        Some(args::Command::Man { of, out }) => documents::man(of.as_deref(), out.as_deref()),
        Some(args::Command::Schema) => documents::schema(),
        None => sweep::run(&arguments.sweep),
    }
}

fn descriptor(hidden: &[String]) -> i32 {
    hidden.get(1).and_then(|fd| fd.parse().ok()).unwrap_or(crate::supervisor::child::WIRE_FD)
}

fn floor(hidden: &[String]) -> Exit {
    if worker::floor::run(descriptor(hidden)) { Exit::Held } else { Kind::Environment.into() }
}

fn probe(hidden: &[String]) -> Exit {
    let load = hidden.get(2).is_some_and(|word| word == crate::supervisor::prepare::UNDER_LOAD);
    let descriptor = descriptor(hidden);
    // SAFETY: the supervisor opened this descriptor for this process alone; nothing else in it knows the number.
    let mut pipe = unsafe { std::fs::File::from_raw_fd(descriptor) };
    match wire::send(&mut pipe, &worker::probe::probe(load)) {
        Ok(()) => Exit::Held,
        Err(_) => Kind::Environment.into(),
    }
}
