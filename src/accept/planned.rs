//! Whether a run measured what the plan says: of anything else its figures answer another question, however good they are.

use super::{Judged, Outcome};
use crate::error::{Error, Result};
use crate::plan::env_set::{RankEnv, Vars};
use crate::plan::environment::{Environment, Origin};
use crate::plan::inherited::{acting, releases};
use crate::plan::schedule::Plan;
use crate::record::run::Header;
use crate::units::plural;

/// Differences told one by one.
const TOLD: usize = 3;

/// The run measured all that `planned` says, as it says: required of every run. What it measured beside that is no harm.
pub(super) fn measured(run: &Header, planned: &Plan) -> Judged {
    line("what was measured", run, planned)
}

/// The same of the golden run: else a cell would pass by one of other settings, or by none.
pub(super) fn golden(golden: &Header, planned: &Plan) -> Judged {
    line("the golden run measured", golden, planned)
}

/// Refuses to make a run with this header, of which nothing could be accepted: variables that nobody wrote into the plan would
/// be part of every figure.
pub(super) fn check(header: &Header, planned: &Plan) -> Result<()> {
    let brought = brought(header, planned);
    if brought.is_empty() {
        return Ok(());
    }
    let message = format!("cannot measure what the plan says: the environment brings {}", brought.join(", "));
    Err(Error::usage(message).help(
        "unset that, or write it under `[base]` in the plan; `clean-env = true` at the top of the plan drops all that is \
         inherited",
    ))
}

fn line(what: &str, run: &Header, planned: &Plan) -> Judged {
    let mut differences = differences(run, planned);
    let brought = brought(run, planned);
    if !brought.is_empty() {
        differences.insert(0, format!("inherited and not in the plan: {}", brought.join(", ")));
    }
    let judged = |outcome| Judged::new("plan", what, "as planned", outcome);
    if differences.is_empty() {
        return judged(Outcome::Pass).found("as planned");
    }
    let more = differences.len().saturating_sub(TOLD);
    let mut told: Vec<String> = differences.into_iter().take(TOLD).collect();
    told.extend((more > 0).then(|| plural(more, "more difference")));
    judged(Outcome::NotMeasured).found("otherwise").because(told.join("; "))
}

fn differences(header: &Header, planned: &Plan) -> Vec<String> {
    let run = &header.plan;
    let mut all = variables("under every set", &base(header, planned), &planned.base);
    for set in &planned.sets {
        match run.sets.iter().find(|of_run| of_run.name == set.name) {
            Some(of_run) => all.extend(variables(&set.name, &of_run.vars, &set.vars)),
            None => all.push(format!("no set {}", set.name)),
        }
    }
    all.extend(ranks(run, planned));
    all.extend(start(run, planned));
    all.extend(missing("ranks as ", &run.launches, &planned.launches));
    all.extend(missing("number of further communicators ", &run.alive, &planned.alive));
    all.extend(missing("buffers registered: ", &run.registers, &planned.registers));
    let cases = planned.cases.iter().filter(|case| !run.cases.contains(case));
    all.extend(cases.map(|case| format!("no {case}")));
    for mode in planned.modes().into_iter().filter(|mode| run.modes().contains(mode)) {
        let (calls, wanted) = (run.measure.calls_per_sample(mode), planned.measure.calls_per_sample(mode));
        if calls != wanted {
            all.push(format!("{mode} mode with {} in a sample, not {wanted}", plural(calls, "call")));
        }
    }
    if run.measure.rotate != planned.measure.rotate {
        all.push("other buffers in turn".to_owned());
    }
    all
}

/// The base of a run, and what it inherited just as the plan's base has it: to NCCL that is the same.
fn base(run: &Header, planned: &Plan) -> Vars {
    let mut base = run.plan.base.clone();
    if run.plan.clean_env {
        return base;
    }
    let (inherited, _) = run.provenance.inherited_alike();
    for (name, value) in inherited.iter().filter(|(name, value)| planned.base.get(name) == Some(value)) {
        if base.get(name).is_none() {
            base.set(name, value);
        }
    }
    base
}

/// Inherited variables that acted under a set of the plan: what its base and its sets give lies over what is inherited.
fn brought(run: &Header, planned: &Plan) -> Vec<String> {
    let (plan, base, releases) = (&run.plan, base(run, planned), releases(&run.plan));
    let asked = plan.sets.iter().filter(|set| planned.sets.iter().any(|of_plan| of_plan.name == set.name));
    let mut all = Vec::new();
    for set in asked {
        for host in run.provenance.hosts() {
            let inherited = host.inherited.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
            let environment = Environment::inherit(inherited, plan.clean_env)
                .layer(&base, Origin::Base)
                .layer(&set.vars, Origin::Set);
            all.extend(acting(&environment, &releases).map(|(name, value)| format!("{name}={value}")));
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// `pcie-ll: NCCL_ALGO is not set, in the plan Ring`.
fn variables(whose: &str, run: &Vars, planned: &Vars) -> Vec<String> {
    let value = |vars: &Vars, name: &str| vars.get(name).map_or_else(|| "not set".to_owned(), str::to_owned);
    let mut names: Vec<&str> = planned.iter().chain(run.iter()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let differing = names.into_iter().filter(|name| run.get(name) != planned.get(name));
    differing
        .map(|name| format!("{whose}: {name} is {}, in the plan {}", value(run, name), value(planned, name)))
        .collect()
}

/// A plan that names no GPUs wants all of one host, with a rank on each.
fn ranks(run: &Plan, planned: &Plan) -> Option<String> {
    let devices = if planned.devices.is_empty() { run.devices.len() } else { planned.devices.len() };
    let ranks = if planned.ranks == 0 { devices as u32 } else { planned.ranks };
    let of = |ranks: u32, devices: usize, agents: usize| {
        let hosts = if agents > 1 { format!(" of {agents} hosts") } else { String::new() };
        format!("{} on {}{hosts}", plural(ranks as usize, "rank"), plural(devices, "GPU"))
    };
    let (found, wanted) = (of(run.ranks, run.devices.len(), run.agents.len()), of(ranks, devices, 1));
    (found != wanted).then(|| format!("{found}, in the plan {wanted}"))
}

/// How the ranks were started, and on which CPUs. A plan has no words for some of it: then nothing of the kind was asked for.
fn start(run: &Plan, planned: &Plan) -> Vec<String> {
    let wrap = |plan: &Plan| match plan.wrap.as_slice() {
        [] => "nothing".to_owned(),
        words => shell_words::join(words),
    };
    let own = |of: &RankEnv| format!("rank {} with {}", of.rank, of.vars);
    let own = |plan: &Plan| match plan.rank_env.as_slice() {
        [] => "no rank".to_owned(),
        some => some.iter().map(own).collect::<Vec<_>>().join(", "),
    };
    let pairs = [
        ("workers started through", wrap(run), wrap(planned)),
        ("variables of its own:", own(run), own(planned)),
        ("threads bound to CPUs:", run.cpu_affinity.to_string(), planned.cpu_affinity.to_string()),
    ];
    let differing = pairs.into_iter().filter(|(_, found, wanted)| found != wanted);
    differing.map(|(what, found, wanted)| format!("{what} {found}, in the plan {wanted}")).collect()
}

/// Values of a factor that the plan has and the run has not.
fn missing<T: PartialEq + std::fmt::Display>(what: &str, run: &[T], planned: &[T]) -> Vec<String> {
    planned.iter().filter(|value| !run.contains(value)).map(|value| format!("no {what}{value}")).collect()
}

#[cfg(test)]
mod tests;
