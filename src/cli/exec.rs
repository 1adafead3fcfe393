//! `ncclsweep exec`: a command with the settings of an env set.

use std::path::Path;

use super::args::Exec as Args;
use super::audit::{named_set, under_audit};
use super::exit::Exit;
use super::terminal;
use crate::error::{Error, Result};
use crate::nccl::check::ThisBox;
use crate::plan::checked::{self, Leniency};
use crate::plan::env_set::EnvSet;
use crate::plan::environment::{Environment, Origin};
use crate::record::run::{Applied, Backend, Run, Verdict};
use crate::record::stored::Stored;
use crate::supervisor::audited::{Started, become_command};

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let set = match (&args.from, &args.set) {
        (Some(run), _) => fastest(run)?,
        (None, Some(text)) => named_set(text, args.config.as_deref())?,
        (None, None) => return Err(Error::usage("no settings to start the command with").help("--set pcie-ll")),
    };
    check(&set, args.force)?;
    let started = Started { command: &args.command, variables: &set.vars };
    if args.audit {
        return under_audit(&started, Some(&set), args.out.as_deref(), args.format);
    }
    Err(become_command(&started))
}

/// Refuses what NCCL would spoil, and says what of the inherited environment gives way.
fn check(set: &EnvSet, force: bool) -> Result<()> {
    let environment = Environment::default().layer(&set.vars, Origin::Set);
    let leniency = Leniency { force, ..Leniency::default() };
    let found = checked::findings([(set.name.as_str(), environment)], None, &ThisBox { nvlink: None }, leniency);
    for warning in checked::refuse_errors(found)? {
        terminal::note(format!("warning: {warning}"));
    }
    for (name, value) in set.vars.iter() {
        if let Ok(inherited) = std::env::var(name)
            && inherited != value
        {
            terminal::note(format!("{name}={value} of {} instead of the inherited {inherited}", set.name));
        }
    }
    Ok(())
}

/// The set of a run that is faster than the baseline by most, over all its sizes, and took effect; with the variables that lie
/// under every set of that run.
fn fastest(path: &Path) -> Result<EnvSet> {
    let run = Stored::load(path)?.run;
    if run.header.backend == Backend::Emulated {
        terminal::note("warning: this run was emulated: its figures say nothing about a real box");
    }
    let plan = &run.header.plan;
    let best = run
        .joint
        .iter()
        .filter(|joint| joint.verdict == Verdict::Faster && joint.arm.library == 0 && is_in_effect(&run, joint.arm.set))
        .filter_map(|joint| Some((joint.arm.set, joint.ratio?)))
        .min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((set, ratio)) = best else {
        let base = plan.sets.first().map_or("the baseline", |set| set.name.as_str());
        return Err(Error::usage(format!("no set of {} is faster than {base} at all sizes together", path.display()))
            .help("`ncclsweep report` shows the run; --set NAME takes a set by its name"));
    };
    let set = &plan.sets[set];
    terminal::note(format!("{}: {ratio:.2} of the baseline's time, all sizes together", set.name));
    Ok(EnvSet { vars: set.vars.over(&plan.base), ..set.clone() })
}

/// Whether every cell of the set has right data and settings that took effect.
fn is_in_effect(run: &Run, set: usize) -> bool {
    let mut cells = run.cells.iter().filter(|cell| cell.arm.set == set && cell.arm.library == 0);
    cells.all(|cell| cell.verdict != Verdict::Invalid && cell.applied == Applied::Applied)
}
