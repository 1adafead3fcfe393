//! `ncclsweep accept`: a hardware acceptance test.

use std::path::Path;

use super::answer::{answer, answer_text};
use super::args::{Accept as Args, Sweep};
use super::draft::Draft;
use super::exit::Exit;
use super::hosts::Hosts;
use super::{end, sweep, terminal};
use crate::accept::{self, AcceptPlan, Acceptance, Outcome};
use crate::compare;
use crate::error::{Error, Kind, Result};
use crate::plan::schedule::Plan;
use crate::record::run::Header;
use crate::record::stored::Stored;
use crate::report;
use crate::supervisor::sweep::Ended;

/// A plan to begin with.
const EXAMPLE: &str = include_str!("../../bench-configs/accept/pcie-8gpu.toml");

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let Some(path) = &args.plan else {
        return if args.example { answer_text(EXAMPLE) } else { Err(no_plan()) };
    };
    let plan = AcceptPlan::load(path)?;
    let planned = Draft::of(&Sweep::default(), &plan.config)?.unseen_plan(Vec::new())?;
    let golden = plan.golden().map(Stored::load).transpose()?;
    let run = match &args.run {
        Some(run) => Stored::load(run)?,
        None => match measured(args, path, (&plan, &planned), golden.as_ref())? {
            Some(run) => run,
            None => return Ok(Exit::Interrupted),
        },
    };
    let acceptance = accept::judge(&plan, &planned, &run, golden.as_ref())?;
    if let Some(path) = &args.junit {
        let text = report::accept::junit(&acceptance)?;
        std::fs::write(path, text).map_err(|error| unwritten(args, path, &run).because(error))?;
    }
    answer(exit(&acceptance), |out| report::accept::write(&acceptance, args.format, terminal::style(), out))
}

fn no_plan() -> Error {
    Error::usage("accept needs a plan: what is measured, and what is required of it").help(AcceptPlan::BEGIN)
}

/// A run of the plan's configuration; none when the user interrupted.
fn measured(
    args: &Args,
    path: &Path,
    (plan, planned): (&AcceptPlan, &Plan),
    golden: Option<&Stored>,
) -> Result<Option<Stored>> {
    let flags = Sweep {
        emulation: args.emulation.clone(),
        hosts: Hosts::alone(),
        nccl: args.nccl.clone(),
        allow_busy: args.allow_busy,
        out: args.out.clone(),
        redact: args.redact,
        quiet: args.quiet,
        verbose: args.verbose,
        ..Sweep::default()
    };
    let fit = |header: &Header| {
        accept::check(header, planned)?;
        golden.map_or(Ok(()), |golden| compare::check(golden, header))
    };
    let measured = sweep::measure(&flags, Some(Draft::of(&flags, &plan.config)?), &fit)?;
    if !args.quiet {
        terminal::note(format!("results in {}", measured.folder.display()));
        if let Some(last) = end::note(&measured, args.redact) {
            let (plan, run) = (path.display().to_string(), measured.folder.display().to_string());
            let judge = shell_words::join(["ncclsweep", "accept", &plan, "--run", &run]);
            terminal::note(if end::goes_on(&measured, args.redact) {
                format!("{last}, and `{judge}` then judges it")
            } else {
                last
            });
        }
    }
    Ok((measured.ended != Ended::Interrupted).then(|| measured.stored()))
}

/// JUnit XML that cannot be written is no reason to measure again.
fn unwritten(args: &Args, path: &Path, run: &Stored) -> Error {
    let plan = args.plan.as_deref().unwrap_or(Path::new("PLAN")).display().to_string();
    let again = shell_words::join(["ncclsweep", "accept", &plan, "--run", &run.place, "--junit"]);
    Error::new(Kind::Incomplete, format!("cannot write {}", path.display()))
        .help(format!("the run is kept: {again} FILE"))
}

/// The exit code: the first that holds, from the top.
fn exit(acceptance: &Acceptance) -> Exit {
    match () {
        () if acceptance.count(Outcome::NotMeasured) > 0 => Exit::Incomplete,
        () if acceptance.count(Outcome::Fail) > 0 => Exit::Failed,
        () if acceptance.count(Outcome::Undecided) > 0 => Exit::Undecided,
        () => Exit::Held,
    }
}
