//! What was measured, where and how: the lines over the tables.

use crate::collective::Mode;
use crate::gpu::nvml::Process;
use crate::nccl::register::Register;
use crate::nccl::version::NcclVersion;
use crate::plan::affinity::CpuAffinity;
use crate::plan::env_set::{EnvSet, RankEnv, Vars};
use crate::plan::schedule::{Launch, Library, Plan, Rounds};
use crate::record::run::{Backend, ConfFile, Provenance, Run, UNKNOWN};
use crate::units::{duration, plural};

use super::cells::groups;
use super::ink::{Tone, cut_names, plain, width};

/// Sets whose variables are shown; the rest is in the run's document.
const SHOWN_SETS: usize = 4;
/// Columns of a set's name before its variables.
const LEAD: usize = 24;

/// A labelled line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) label: &'static str,
    /// What the rest is about, when lines of one label differ in it: a name.
    pub(super) lead: String,
    pub(super) text: String,
}

impl Line {
    pub(super) fn new(label: &'static str, text: impl Into<String>) -> Self {
        Self { label, lead: String::new(), text: text.into() }
    }
}

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
    let mut lines = vec![
        Line::new("GPUs", gpus(provenance)),
        Line::new("driver", driver(provenance)),
        Line::new("ranks", ranks(plan)),
    ];
    lines.extend(hosts(plan, provenance).map(|text| Line::new("hosts", text)));
    lines.extend(in_turn(plan).into_iter().map(|text| Line::new("in turn", text)));
    lines.extend(buffers(plan).into_iter().map(|text| Line::new("buffers", text)));
    lines.extend(boxes(provenance));
    lines.extend(libraries(plan).into_iter().map(|library| Line::new("NCCL", library)));
    lines.push(Line::new("measured", measured(run)));
    lines.push(Line::new("sampled", sampled(run)));
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
    if kinds.is_empty() { "unknown".into() } else { kinds.join(", ") }
}

fn driver(provenance: &Provenance) -> String {
    let driver = provenance.driver.as_deref().map_or_else(|| "unknown".into(), plain);
    format!("{driver} · CUDA {}", plain(&provenance.cuda))
}

fn ranks(plan: &Plan) -> String {
    let launch = |launch: &Launch| match launch {
        Launch::Threads if plan.agents.len() > 1 => "threads of one process on each host",
        Launch::Threads => "threads of one process",
        Launch::Processes => "a process each",
    };
    let launches: Vec<&str> = plan.launches.iter().map(launch).collect();
    let launch = launches.join(", and ");
    let (ranks, gpus) = (plan.ranks as usize, plan.devices.len());
    let placed = if plan.oversubscribed() {
        let shared = Tone::Bad.ink("oversubscribed");
        format!("{launch} · {} on {}: {shared}", plural(ranks, "rank"), plural(gpus, "GPU"))
    } else {
        format!("{launch} · one on each of {}", plural(gpus, "GPU"))
    };
    match &plan.cpu_affinity {
        CpuAffinity::None => placed,
        CpuAffinity::Near => format!("{placed} · bound to the CPUs near them"),
        lists => format!("{placed} · bound to CPUs {lists}"),
    }
}

/// What lies between the GPUs of one host; of several hosts those that are alike are told once, else the first is told by name.
fn boxes(provenance: &Provenance) -> Vec<Line> {
    let of = |host: &Provenance| host.topology.iter().flat_map(super::topology::brief).collect::<Vec<_>>();
    let mut lines = of(provenance);
    if !provenance.others.is_empty() {
        let alike = provenance.others.iter().all(|other| of(other) == lines);
        let whose = if alike { "each host".to_owned() } else { plain(&provenance.host) };
        lines.iter_mut().for_each(|line| line.text.insert_str(0, &format!("on {whose}: ")));
    }
    lines
}

/// Where the ranks are, when that is on several hosts, each with an agent.
fn hosts(plan: &Plan, provenance: &Provenance) -> Option<String> {
    let names = provenance.hosts().map(|host| plain(&host.host));
    let each = names.enumerate().map(|(agent, host)| format!("{} on {host}", ranks_of(plan, agent)));
    let each: Vec<String> = each.take(plan.agents.len()).collect();
    (plan.agents.len() > 1).then(|| format!("{}: ranks {}", plural(plan.agents.len(), "agent"), each.join(", ")))
}

/// `0-3`: the ranks of an agent.
pub(super) fn ranks_of(plan: &Plan, agent: usize) -> String {
    let ranks = plan.ranks_of(agent);
    if ranks.len() == 1 { ranks.start.to_string() } else { format!("{}-{}", ranks.start, ranks.end.saturating_sub(1)) }
}

/// Communicators that take turns, where there are several.
fn in_turn(plan: &Plan) -> Option<String> {
    let numbers: Vec<String> = plan.alive.iter().map(|alive| (alive + 1).to_string()).collect();
    (plan.alive != [0]).then(|| format!("calls go round {} communicators over the same ranks", numbers.join(" or ")))
}

/// How buffers are registered and whether they rotate, where that is not as usual.
fn buffers(plan: &Plan) -> Option<String> {
    let ways: Vec<&str> = plan
        .registers
        .iter()
        .map(|register| match register {
            Register::None => "not registered",
            Register::Capture => "NCCL's memory, registered when captured",
            Register::Local => "registered by each rank",
            Register::Symmetric => "registered as symmetric windows",
        })
        .collect();
    let registered = (plan.registers != [Register::None]).then(|| ways.join(", or "));
    let rotated = plan.measure.rotate.then(|| "each call of a chain has buffers of its own".to_owned());
    let both: Vec<String> = registered.into_iter().chain(rotated).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

fn libraries(plan: &Plan) -> Vec<String> {
    let several = plan.libraries.len() > 1;
    let line = |(at, library): (usize, &Library)| {
        let baseline = if several && at == 0 { " · baseline" } else { "" };
        match (library.version, library.path.as_str()) {
            (NcclVersion::UNKNOWN, UNKNOWN) => "unknown".to_owned(),
            (version, UNKNOWN) => version.to_string(),
            (version, path) => format!("{version} · {}{baseline}", plain(file_name(path))),
        }
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
    let modes: Vec<_> = run.header.plan.modes().into_iter().map(|mode| how(plan, mode)).collect();
    format!("all-reduce {} · {}", kinds.join(", "), modes.join(", "))
}

/// A mode with what one sample of it is.
pub(super) fn how(plan: &Plan, mode: Mode) -> String {
    let calls = plan.measure.calls_per_sample(mode);
    match mode {
        Mode::Graph => format!("{mode} ({calls} calls chained)"),
        Mode::Stream => format!("{mode} ({calls} calls back to back)"),
        Mode::Sync => format!("{mode} (lone calls)"),
    }
}

fn sampled(run: &Run) -> String {
    let plan = &run.header.plan;
    if let Some(imported) = &run.header.provenance.imported {
        let replicates = match run.visits.len() / plan.sets.len() {
            0 | 1 => Tone::Doubt.ink("one replicate: no interval, no verdict"),
            several => format!("{} of one replicate each", plural(several, "run")),
        };
        return format!(
            "{replicates} · by {}, imported from {}",
            plain(&imported.program),
            plain(&imported.files.join(", "))
        );
    }
    let made = run.visits.iter().map(|visit| visit.round as usize + 1).max().unwrap_or(0);
    let rounds = match plan.rounds {
        Rounds::Fixed(planned) if made != planned as usize => {
            format!("{made} of {}", plural(planned as usize, "round"))
        }
        Rounds::Fixed(_) | Rounds::Auto => plural(made, "round"),
    };
    let communicators = plural(plan.communicators as usize, "communicator");
    let seconds = run.finished.duration_since(run.header.created).as_secs_f64();
    if let Some(asked) = plan.soak_s {
        return format!("soak of {} · {rounds} × {communicators} per set · seed {}", duration(asked), plan.seed);
    }
    format!("{rounds} × {communicators} per set · {} · seed {}", duration(seconds), plan.seed)
}

/// Variables under every set, from wherever they come.
fn base(plan: &Plan, provenance: &Provenance) -> Vec<Line> {
    let mut lines = Vec::new();
    if !plan.base.is_empty() {
        lines.push(Line::new("base", format!("{} under every set", assignments(&plan.base))));
    }
    let (inherited, apart) = provenance.inherited_alike();
    if !inherited.is_empty() {
        let variables = assignments(&inherited);
        lines.push(if plan.clean_env {
            Line::new("dropped", format!("{variables} of the environment (--clean-env)"))
        } else {
            let warning = Tone::Doubt.ink("under every set;");
            Line::new("inherited", format!("{variables} {warning} --clean-env drops what the environment brings"))
        });
    }
    let by_host = |name: &&str| format!("{}: {}", plain(name), plain(&provenance.inherited_by_host(name)));
    lines.extend(apart.iter().map(|name| Line::new("inherited", by_host(name))));
    let own = |of: &RankEnv| Line::new("one rank", format!("rank {} {}", of.rank, own(&of.vars)));
    lines.extend(plan.rank_env.iter().map(own));
    let settings = |file: &ConfFile| {
        let readers: Vec<String> = file.arms.iter().map(|arm| plan.arm_name(*arm)).collect();
        let under = if readers.is_empty() { "every set".to_owned() } else { readers.join(", ") };
        let settings = plural(file.settings(None).len(), "setting");
        format!("{} with {settings}, read by NCCL under {}", plain(&file.path), plain(&under))
    };
    lines.extend(provenance.conf_files.iter().map(|file| Line::new("file", settings(file))));
    let user = |process: &Process| {
        let name = process.name.as_deref().map_or_else(|| "a process".into(), plain);
        format!("{name} (pid {}) had a GPU open: {}", process.pid, Tone::Doubt.ink("the GPUs were not idle"))
    };
    lines.extend(provenance.busy.iter().map(|process| Line::new("busy", user(process))));
    lines
}

fn sets(plan: &Plan) -> Vec<Line> {
    if plan.sets.len() > SHOWN_SETS {
        return vec![Line::new("sets", plan.sets.len().to_string())];
    }
    let whole: Vec<String> = plan.sets.iter().map(|set| plain(&set.name)).collect();
    let names: Vec<_> = cut_names(whole.iter().map(String::as_str), LEAD).collect();
    let longest = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let line = |(set, name): (&EnvSet, &String)| {
        let text = if set.vars.is_empty() { "sets nothing".into() } else { assignments(&set.vars) };
        Line { label: "sets", lead: format!("{name}{}", " ".repeat(longest - width(name))), text }
    };
    plan.sets.iter().zip(&names).map(line).collect()
}

/// What one rank has of its own: `with NCCL_ALGO=Tree`, `without NCCL_PROTO`.
fn own(vars: &Vars) -> String {
    let one = |(name, value): (&str, &str)| match value {
        "" => format!("without {}", plain(name)),
        value => format!("with {}={}", plain(name), plain(value)),
    };
    vars.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn assignments(vars: &Vars) -> String {
    let assigned: Vec<_> = vars.iter().map(|(name, value)| format!("{}={}", plain(name), plain(value))).collect();
    assigned.join(" ")
}
