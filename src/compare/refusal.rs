//! Which runs must not be compared: their figures mean different things.

use std::fmt::Display;

use super::matching::Matching;
use crate::error::{Error, Result};
use crate::plan::env_set::RankEnv;
use crate::plan::schedule::Plan;
use crate::record::run::{Backend, Header};

/// What makes a cell, and its values in a plan.
type Factor = (&'static str, fn(&Plan) -> Vec<String>);

/// Where a run lies, and its head.
pub(super) type Named<'a> = (&'a str, &'a Header);

/// Refuses runs that were not measured the same way, and says all in which they differ.
pub(super) fn refuse((old, before): Named, (new, after): Named) -> Result<()> {
    // Nobody starts two runs at one nanosecond; a redacted copy of a run keeps its time.
    if (before.created, before.plan.seed) == (after.created, after.plan.seed) {
        let message = format!("{new} and {old} are one and the same run");
        return Err(Error::usage(message).help("name an earlier run, then a later one"));
    }
    let mut differences = Vec::new();
    let mut differ = |old: String, new: String| {
        if old != new {
            differences.push(format!("{old} against {new}"));
        }
    };
    differ(backend(before), backend(after));
    differ(ranks(&before.plan), ranks(&after.plan));
    differ(rank_env(&before.plan), rank_env(&after.plan));
    // Another program takes other samples; with one replicate each, its figures carry no verdict that this could spoil.
    let imported = [before, after].iter().any(|header| header.provenance.imported.is_some());
    if !imported {
        differ(buffers(&before.plan), buffers(&after.plan));
    }
    let modes = after.plan.modes().into_iter().filter(|mode| before.plan.modes().contains(mode));
    for mode in modes.filter(|_| !imported) {
        let how = |plan: &Plan| {
            let (samples, calls) = (plan.measure.samples(mode), plan.measure.calls_per_sample(mode));
            format!("{mode} mode with {samples} samples of {}", crate::units::plural(calls, "call"))
        };
        differ(how(&before.plan), how(&after.plan));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let message = format!("cannot compare {new} with {old}: {}", differences.join("; "));
    let help = match (before.backend, after.backend) {
        _ if backend(before) == backend(after) => again(before),
        _ => "figures of the emulator are virtual: they compare with those of the same emulated box only".to_owned(),
    };
    Err(Error::usage(message).help(help))
}

/// Refuses runs that have no cell in common, and says what each has.
pub(super) fn refuse_strangers((old, before): Named, (new, after): Named) -> Result<()> {
    if !Matching::of(&before.plan, &after.plan).both.is_empty() {
        return Ok(());
    }
    let factors: [Factor; 9] = [
        ("sets", |plan| each(plan.sets.iter().map(|set| &set.name))),
        ("ranks as", |plan| each(plan.launches.iter())),
        ("communicators in turn", |plan| each(plan.alive.iter().map(|alive| alive + 1))),
        ("buffers registered", |plan| each(plan.registers.iter())),
        ("modes", |plan| each(plan.cases.iter().map(|case| case.mode))),
        ("data types", |plan| each(plan.cases.iter().map(|case| case.dtype))),
        ("operations", |plan| each(plan.cases.iter().map(|case| case.op))),
        ("placements", |plan| each(plan.cases.iter().map(|case| case.placement))),
        ("sizes", |plan| each(plan.cases.iter().map(|case| case.label()))),
    ];
    let strange = factors.iter().filter_map(|(name, of)| {
        let (old, new) = (of(&before.plan), of(&after.plan));
        let common = old.iter().any(|one| new.contains(one));
        (!common).then(|| format!("{name} {} against {}", list(&old), list(&new)))
    });
    let strange: Vec<String> = strange.collect();
    let why = if strange.is_empty() { "no case and set together".to_owned() } else { strange.join("; ") };
    let message = format!("cannot compare {new} with {old}: they have no cell in common: {why}");
    Err(Error::usage(message).help(again(before)))
}

fn backend(header: &Header) -> String {
    match (header.backend, &header.provenance.emulated) {
        (Backend::Cuda, _) => "real GPUs".to_owned(),
        (Backend::Emulated, Some(name)) => format!("the emulated box {name}"),
        (Backend::Emulated, None) => "an emulated box".to_owned(),
    }
}

fn ranks(plan: &Plan) -> String {
    let gpus = crate::units::plural(plan.devices.len(), "GPU");
    let hosts = match plan.agents.as_slice() {
        [] => String::new(),
        agents => format!(" of {}", crate::units::plural(agents.len(), "agent")),
    };
    format!("{} on {gpus}{hosts}", crate::units::plural(plan.ranks as usize, "rank"))
}

/// Which buffers the calls of a chain use: large ones come out of a cache, or do not.
fn buffers(plan: &Plan) -> String {
    let of_each =
        if plan.measure.rotate { "buffers of its own for each call" } else { "the same buffers for all calls" };
    of_each.to_owned()
}

/// What single ranks have of their own.
fn rank_env(plan: &Plan) -> String {
    let of = |of: &RankEnv| format!("rank {} with {}", of.rank, of.vars);
    match plan.rank_env.as_slice() {
        [] => "all ranks alike".to_owned(),
        some => each(some.iter().map(of)).join(", "),
    }
}

fn again(old: &Header) -> String {
    if let Some(imported) = &old.provenance.imported {
        return format!("measure anew as {} was, with {}", list(&imported.files), imported.program);
    }
    let mut arguments = old.provenance.arguments.iter().skip(1);
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Its folder already holds that run.
            "--out" => drop(arguments.next()),
            named if named.starts_with("--out=") => {}
            _ => kept.push(argument),
        }
    }
    format!("measure anew as the old run was: ncclsweep {}", shell_words::join(kept))
}

fn each(values: impl Iterator<Item = impl Display>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for value in values.map(|value| value.to_string()) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// The first of a list that may be long.
fn list(values: &[String]) -> String {
    const SHOWN: usize = 4;
    match values.get(..SHOWN) {
        Some(first) if values.len() > SHOWN => format!("{}, … ({} in all)", first.join(", "), values.len()),
        _ => values.join(", "),
    }
}
