//! What was measured, where and how: the lines over the tables.

use crate::collective::Mode;
use crate::plan::env_set::Vars;
use crate::plan::schedule::{Launch, Plan, Rounds};
use crate::record::run::{Backend, Provenance, Run};
use crate::units::{duration, plural};

use super::cells::{groups, modes};
use super::ink::{Tone, plain};

/// Sets whose variables are shown; the rest is in the run's document.
const SHOWN_SETS: usize = 4;

/// A labelled line.
pub(super) type Line = (&'static str, String);

/// First line: which program, which box, when.
pub(super) fn title(run: &Run) -> String {
    let header = &run.header;
    let time = header.created.strftime("%Y-%m-%d %H:%M UTC");
    format!("ncclsweep {} · {} · {time}", header.version, plain(&header.provenance.host))
}

/// What must be read before any figure: that none of them is real.
pub(super) fn alarm(run: &Run) -> Option<String> {
    match run.header.backend {
        Backend::Cuda => None,
        Backend::Emulated => {
            let box_name = run.header.provenance.emulated.as_deref().map(|name| format!(" of {}", plain(name)));
            let what = box_name.unwrap_or_default();
            Some(format!("EMULATED: virtual time{what}. These figures say nothing about a real box."))
        }
    }
}

/// The labelled lines, in their order.
pub(super) fn lines(run: &Run) -> Vec<Line> {
    let (plan, provenance) = (&run.header.plan, &run.header.provenance);
    let mut lines = vec![("GPUs", gpus(provenance)), ("ranks", ranks(plan))];
    lines.extend(libraries(plan).into_iter().map(|library| ("NCCL", library)));
    lines.push(("measured", measured(run)));
    lines.push(("rounds", rounds(run)));
    lines.extend(base(plan, provenance));
    lines.extend(sets(plan));
    lines
}

fn gpus(provenance: &Provenance) -> String {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for gpu in &provenance.gpus {
        match kinds.iter_mut().find(|(name, _)| *name == gpu.name) {
            Some((_, number)) => *number += 1,
            None => kinds.push((gpu.name.clone(), 1)),
        }
    }
    let kinds: Vec<_> = kinds.iter().map(|(name, number)| format!("{number} × {}", plain(name))).collect();
    let driver = provenance.driver.as_deref().map_or("driver unknown".into(), |v| format!("driver {}", plain(v)));
    format!("{} · {driver} · CUDA {}", kinds.join(", "), plain(&provenance.cuda))
}

fn ranks(plan: &Plan) -> String {
    let launch = match plan.launch {
        Launch::Threads => "threads of one process",
    };
    let (ranks, gpus) = (plan.ranks as usize, plan.devices.len());
    if plan.oversubscribed() {
        let shared = Tone::Bad.ink("oversubscribed");
        format!("{launch} · {} on {}: {shared}", plural(ranks, "rank"), plural(gpus, "GPU"))
    } else {
        format!("{launch} · one on each of {}", plural(gpus, "GPU"))
    }
}

fn libraries(plan: &Plan) -> Vec<String> {
    let several = plan.libraries.len() > 1;
    let line = |(at, library): (usize, &crate::plan::schedule::Library)| {
        let baseline = if several && at == 0 { " · baseline" } else { "" };
        format!("{} · {}{baseline}", library.version, plain(file_name(&library.path)))
    };
    plan.libraries.iter().enumerate().map(line).collect()
}

/// The last part of a path.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn measured(run: &Run) -> String {
    let plan = &run.header.plan;
    let groups = groups(&plan.cases);
    let mut kinds: Vec<String> = Vec::new();
    for group in &groups {
        let kind = format!("{} {} {}", group.dtype, group.op, group.placement);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let modes: Vec<_> = modes(run).into_iter().map(|mode| how(plan, mode)).collect();
    format!("all-reduce {} · {}", kinds.join(", "), modes.join(", "))
}

/// A mode with what one sample of it is.
pub(super) fn how(plan: &Plan, mode: Mode) -> String {
    let calls = plan.measure.calls_per_sample(mode);
    match mode {
        Mode::Graph => format!("{mode} of {calls} calls"),
        Mode::Stream => format!("{mode}, {calls} calls back to back"),
        Mode::Sync => format!("{mode}, lone calls"),
    }
}

fn rounds(run: &Run) -> String {
    let plan = &run.header.plan;
    let made = run.visits.iter().map(|visit| visit.round as usize + 1).max().unwrap_or(0);
    let seconds = (run.finished.as_second() - run.header.created.as_second()) as f64;
    let planned = match plan.rounds {
        Rounds::Fixed(planned) if made != planned as usize => format!(" of {planned}"),
        Rounds::Fixed(_) | Rounds::Auto => String::new(),
    };
    let communicators = plural(plan.communicators as usize, "communicator");
    format!("{made}{planned} × {communicators} per set · {} · seed {}", duration(seconds), plan.seed)
}

/// Variables under every set, from wherever they come.
fn base(plan: &Plan, provenance: &Provenance) -> Vec<Line> {
    let mut lines = Vec::new();
    if !plan.base.is_empty() {
        lines.push(("base", format!("{} under every set", assignments(&plan.base))));
    }
    if !provenance.inherited.is_empty() {
        let variables = assignments(&provenance.inherited);
        lines.push(if plan.clean_env {
            ("dropped", format!("{variables} of the environment (--clean-env)"))
        } else {
            let warning = Tone::Doubt.ink("under every set;");
            ("inherited", format!("{variables} {warning} --clean-env drops what the environment brings"))
        });
    }
    let settings = |file: &crate::record::run::ConfFile| {
        format!("{} with {}, read by NCCL under every set", plain(&file.path), plural(file.lines.len(), "line"))
    };
    lines.extend(provenance.conf_files.iter().map(|file| ("file", settings(file))));
    let user = |process: &crate::gpu::nvml::Process| {
        let name = process.name.as_deref().map_or_else(|| "a process".into(), plain);
        format!("{name} (pid {}) had a GPU open: {}", process.pid, Tone::Doubt.ink("the GPUs were not idle"))
    };
    lines.extend(provenance.busy.iter().map(|process| ("busy", user(process))));
    lines
}

fn sets(plan: &Plan) -> Vec<Line> {
    if plan.sets.len() > SHOWN_SETS {
        return vec![("sets", plan.sets.len().to_string())];
    }
    let line = |set: &crate::plan::env_set::EnvSet| {
        let variables = if set.vars.is_empty() { "sets nothing".into() } else { assignments(&set.vars) };
        ("set", format!("{}: {variables}", plain(&set.name)))
    };
    plan.sets.iter().map(line).collect()
}

fn assignments(vars: &Vars) -> String {
    let assigned: Vec<_> = vars.iter().map(|(name, value)| format!("{}={}", plain(name), plain(value))).collect();
    assigned.join(" ")
}
