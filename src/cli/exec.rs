//! `ncclsweep exec`: a command with the settings of an env set.

use std::path::Path;

use super::args::Exec as Args;
use super::audit::{named_set, under_audit};
use super::exit::Exit;
use super::terminal;
use crate::error::{Error, Result};
use crate::export;
use crate::nccl::check::ThisBox;
use crate::plan::checked::{self, Leniency};
use crate::plan::env_set::EnvSet;
use crate::plan::environment::{Environment, Origin};
use crate::plan::schedule::Arm;
use crate::record::run::{Run, Verdict};
use crate::record::stored::Stored;
use crate::supervisor::audited::{Started, become_command};

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let set = match (&args.from, &args.set) {
        (Some(run), name) => of_run(run, name.as_deref(), args.force)?,
        (None, Some(text)) => named_set("--set", text, args.config.as_deref())?,
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
    let help = "correct them; `ncclsweep explain NAME` tells what a variable takes; --force takes them as they are";
    for warning in checked::refuse_errors(found).map_err(|error| error.help(help))? {
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

/// A set of a run, with the variables that lie under every set there: the one that is named, else the fastest.
fn of_run(path: &Path, name: Option<&str>, force: bool) -> Result<EnvSet> {
    let stored = Stored::load(path)?;
    let run = &stored.run;
    let arm = match name {
        Some(name) => export::select(run, Some(name), None)?,
        None => fastest(run, &stored.place)?,
    };
    let set = &run.header.plan.sets[arm.set];
    // Also not by force: a file that came from elsewhere decides about NCCL alone, not about what a process loads.
    if let [first, ..] = &export::foreign(run, arm)[..] {
        let message = format!("{} of {} sets {first}, which is no variable of NCCL's", set.name, stored.place);
        return Err(Error::usage(message).help(format!("if you want it: {first}=… ncclsweep exec --set … -- COMMAND")));
    }
    let mut objections = export::objections(run, arm);
    let vars = set.vars.over(&run.header.plan.base);
    let reaching = vars.iter().filter(|(name, value)| reaches_beyond(name, value));
    objections.extend(
        reaching.map(|(name, value)| format!("{name}={value} makes processes load or write a file of its choice")),
    );
    if !objections.is_empty() && !force {
        let message = format!("{} is not to be taken over from {}", set.name, stored.place);
        return Err(Error::usage(message)
            .because(objections.join("\n"))
            .help("measure it anew, take a set by --set NAME alone, or insist with --force"));
    }
    objections.iter().for_each(|objection| terminal::note(format!("warning: {objection}")));
    terminal::note(format!("{} of {}: {vars}", set.name, stored.place));
    Ok(EnvSet { vars, ..set.clone() })
}

/// Whether a variable does more than tune: a document that came from elsewhere is looked at before it decides that.
fn reaches_beyond(name: &str, value: &str) -> bool {
    const BEYOND: [&str; 4] = ["NCCL_CONF_FILE", "NCCL_DEBUG_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE"];
    BEYOND.contains(&name) || (name.ends_with("_PLUGIN") && value != "none")
}

/// The set that is faster than the baseline by most, over all its sizes.
fn fastest(run: &Run, place: &str) -> Result<Arm> {
    let faster = run.joint.iter().filter(|joint| joint.verdict == Verdict::Faster);
    let best = faster.filter_map(|joint| Some((joint, joint.ratio?))).min_by(|one, other| one.1.total_cmp(&other.1));
    let Some((joint, ratio)) = best else {
        let base = &run.header.plan.sets[0].name;
        return Err(Error::usage(format!("no set of {place} is faster than {base} in all cases together"))
            .help("`ncclsweep report` shows the run; --set NAME takes a set by its name"));
    };
    terminal::note(format!("{}: {ratio:.2} of the baseline's time, all cases together", joint.set));
    Ok(joint.arm)
}
