//! The checks of a log.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Check, Status};
use super::{CommunicatorFacts, Facts, WarningFacts};
use crate::nccl::check::{self, Context, Severity, UnknownBox};
use crate::nccl::log::{Graph, Log};
use crate::nccl::words::Protocol;
use crate::units::{Bytes, count, plural};

/// Numbers of a ring in NCCL's list of patterns.
const RING: u32 = 4;
/// The bandwidth that the graph search settles for when nothing else is found.
const LAST_RESORT: f64 = 0.1;
/// Sizes up to this are those where Simple costs most.
const SMALL: u64 = 64 << 10;
/// Sizes that are shown of a communicator.
const SIZES: usize = 24;
/// Communicators that are shown one by one.
const COMMUNICATORS: usize = 16;
/// Warnings of unknown meaning that are shown one by one.
const WARNINGS: usize = 12;

pub fn checks(log: &Log, facts: &Facts) -> Vec<Check> {
    let mut checks = vec![overview(facts)];
    checks.extend(gaps(log));
    if facts.nccl_lines > 0 {
        checks.push(versions(facts));
        checks.push(communicators(&facts.communicators));
        checks.extend(variables(facts));
        checks.push(transports(&facts.communicators));
        checks.push(choices(&facts.communicators));
    }
    checks.extend(graph(log));
    checks.extend(ll128(log));
    checks.extend(warnings(facts));
    checks
}

fn overview(facts: &Facts) -> Check {
    let name = "log";
    let lines = format!("{} lines, {} of NCCL", count(facts.lines), count(facts.nccl_lines));
    if facts.nccl_lines == 0 {
        return Check::unknown(name, lines).next(
            "start the server with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,TUNING,P2P,SHM,NET; Ray needs RAY_DEDUP_LOGS=0",
        );
    }
    let hosts: BTreeSet<&str> = facts.processes.iter().map(|process| process.host.as_str()).collect();
    let processes = facts.processes.len();
    let processes = if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
    Check::ok(name, format!("{lines}; {processes} on {}", plural(hosts.len(), "host")))
}

fn gaps(log: &Log) -> Option<Check> {
    let name = "gaps";
    if log.left_out > 0 {
        return Some(
            Check::warning(name, format!("the launcher left {} out", plural(log.left_out as usize, "line")))
                .next("RAY_DEDUP_LOGS=0 in the environment of Ray's driver keeps every rank's lines"),
        );
    }
    let first = log.problems.first()?;
    let all = log.problems.len() as u64 + log.more_problems;
    Some(Check::unknown(
        name,
        format!("{} could not be read; the first: line {}: {}", plural(all as usize, "thing"), first.line, first.what),
    ))
}

fn versions(facts: &Facts) -> Check {
    let name = "version";
    let shown: Vec<_> = facts.versions.iter().map(|version| format!("NCCL {version}")).collect();
    match shown.as_slice() {
        [] => Check::unknown(name, "no line names it"),
        [one] => Check::ok(name, one.clone()),
        many => Check::fault(name, many.join(", "))
            .also(
                facts.processes.iter().filter_map(|of| Some(format!("pid {} on {}: {}", of.pid, of.host, of.version?))),
            )
            .next("ranks of one communicator need one library: `doctor --pid` shows which file each has mapped"),
    }
}

fn communicators(all: &[CommunicatorFacts]) -> Check {
    let found = |of: &CommunicatorFacts| {
        let id = of.id.as_deref().unwrap_or("without id");
        let size = of.size.map_or_else(|| "size not told".to_owned(), |size| plural(size as usize, "rank"));
        let seen = plural(of.ranks.len(), "rank");
        let missing: BTreeSet<u32> =
            (0..of.size.unwrap_or(0).min(1 << 14)).filter(|rank| !of.ranks.contains(rank)).collect();
        match () {
            () if !of.incomplete.is_empty() => {
                (Status::Fault, format!("{id}: {size}; {} began to initialise and did not end", ranks(&of.incomplete)))
            }
            () if !missing.is_empty() => {
                (Status::Unknown, format!("{id}: {size}, {seen} seen; no line of {}", ranks(&missing)))
            }
            () if of.size.is_none() => (Status::Unknown, format!("{id}: {seen} seen, its size is not told")),
            () => (Status::Ok, format!("{id}: {size}, all initialised")),
        }
    };
    let mut found: Vec<_> = all.iter().map(found).collect();
    let more = found.len().saturating_sub(COMMUNICATORS);
    // The worst are shown.
    found.sort_by_key(|(status, _)| std::cmp::Reverse(*status));
    found.truncate(COMMUNICATORS);
    let mut check = Check::worst("communicators", found, "no line of an initialisation");
    check.evidence.extend((more > 0).then(|| format!("and {more} more")));
    match check.status {
        Status::Fault => check.next(
            "a hang or a failure while NCCL sets up, or a log that ends there: look at the last lines of these ranks",
        ),
        Status::Unknown => check.next("the log holds not every rank: collect the lines of all processes"),
        _ => check,
    }
}

/// `rank 3`, `ranks 0–7, 9`.
pub fn ranks(numbers: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let shown: Vec<_> = runs
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}–{last}") })
        .collect();
    format!("{} {}", if numbers.len() == 1 { "rank" } else { "ranks" }, shown.join(", "))
}

/// A check of all variables, and one for each that differs or cannot be used.
fn variables(facts: &Facts) -> Vec<Check> {
    let name = "variables";
    let telling: Vec<_> = facts.processes.iter().filter(|process| !process.variables.is_empty()).collect();
    if telling.is_empty() {
        return vec![Check::unknown(
            name,
            "no line says that a variable was read: none is set, or the log lacks ENV at level INFO",
        )];
    }
    // Values by name, with the processes that said so.
    let mut by_name: BTreeMap<&str, BTreeMap<&str, Vec<usize>>> = BTreeMap::new();
    for (at, process) in facts.processes.iter().enumerate() {
        for variable in process.variables.iter().filter(|variable| !variable.refused) {
            by_name.entry(&variable.name).or_default().entry(&variable.value).or_default().push(at);
        }
    }
    let all = facts.processes.len();
    let who = |of: &[usize]| {
        let numbers: BTreeSet<u32> = of.iter().flat_map(|at| facts.processes[*at].ranks.iter().copied()).collect();
        match (numbers.is_empty(), all) {
            (true, _) => format!("{} of {all} processes", of.len()),
            (false, 1) => ranks(&numbers),
            (false, _) => format!("{}, in {} of {all} processes", ranks(&numbers), of.len()),
        }
    };
    let line = |name: &str, value: &str, of: &[usize]| format!("{name}={value} read by {}", who(of));
    let mut seen = Check { name: name.to_owned(), status: Status::Ok, evidence: Vec::new(), next: Vec::new() };
    let (mut checks, mut partly) = (Vec::new(), Vec::new());
    for (name, values) in &by_name {
        let evidence: Vec<_> = values.iter().map(|(value, of)| line(name, value, of)).collect();
        seen.evidence.extend(evidence.iter().cloned());
        let readers: BTreeSet<usize> = values.values().flatten().copied().collect();
        if values.len() > 1 && !name.starts_with("NCCL_DEBUG") {
            let check = Check { name: (*name).to_owned(), status: Status::Fault, evidence, next: Vec::new() };
            checks.push(check.next("ranks that differ are slow, fail or hang: set it for all alike"));
        } else if readers.len() < telling.len() {
            partly.extend(evidence);
        }
    }
    if let Some((first, others)) = partly.split_first() {
        checks.push(Check::warning("not everywhere", first.clone()).also(others.iter().cloned()).next(
            "the other processes did not say so: it did not reach them, or they had no need of it; `doctor --pid` shows what they have",
        ));
    }
    checks.insert(0, seen);
    values(facts, &by_name).into_iter().for_each(|check| check.join(&mut checks));
    checks
}

/// Values that NCCL misread or refused.
fn values(facts: &Facts, by_name: &BTreeMap<&str, BTreeMap<&str, Vec<usize>>>) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    let refused = facts.processes.iter().flat_map(|process| &process.variables).filter(|variable| variable.refused);
    for variable in refused {
        if !checks.iter().any(|check| check.name == variable.name) {
            checks.push(
                Check::fault(variable.name.clone(), format!("NCCL cannot use {:?}", variable.value))
                    .next(format!("`ncclsweep explain {}` tells what it takes", variable.name)),
            );
        }
    }
    let setting = |(name, values): (&&str, &BTreeMap<&str, Vec<usize>>)| check::Setting {
        name: (*name).to_owned(),
        value: values.keys().next().map(|value| (*value).to_owned()).unwrap_or_default(),
        origin: "log".to_owned(),
    };
    let settings: Vec<_> = by_name.iter().map(setting).collect();
    let version = facts.versions.first().copied().filter(|_| facts.versions.len() == 1);
    let context = Context { version, allow_unknown: true, facts: &UnknownBox };
    for finding in check::check(&settings, &context) {
        let status = if finding.severity == Severity::Error { Status::Fault } else { Status::Warning };
        let mut check = Check::new(finding.variable, status, finding.message);
        check.next.extend(finding.help);
        checks.push(check);
    }
    checks
}

fn transports(all: &[CommunicatorFacts]) -> Check {
    let name = "transports";
    let mut total: BTreeMap<&str, usize> = BTreeMap::new();
    let mut mixed = false;
    for of in all {
        let families: BTreeSet<&str> =
            of.transports.keys().filter_map(|transport| transport.split('/').next()).collect();
        mixed |= families.contains("P2P") && families.contains("SHM");
        for (transport, pairs) in &of.transports {
            *total.entry(transport).or_default() += pairs;
        }
    }
    let shown: Vec<_> =
        total.iter().map(|(transport, pairs)| format!("{transport}: {}", plural(*pairs, "ordered pair"))).collect();
    let Some((first, others)) = shown.split_first() else {
        return Check::unknown(
            name,
            "no line of a connection: NCCL connects at the first collective, and logs it with P2P, SHM or INIT",
        );
    };
    let host = total.keys().all(|transport| transport.starts_with("SHM"));
    match () {
        () if mixed => Check::warning(name, first.clone()).also(others.iter().cloned()).next(
            "some pairs reach into each other's memory and others go through host memory: NCCL_P2P_LEVEL=SYS, a GPU that is placed apart, or ranks that share a GPU",
        ),
        () if host => Check::ok(name, first.clone())
            .also(others.iter().cloned())
            .next("all through host memory: `ncclsweep --config p2p-vs-host-memory` measures whether P2P is faster here, and right"),
        () => Check::ok(name, first.clone()).also(others.iter().cloned()),
    }
}

fn choices(all: &[CommunicatorFacts]) -> Check {
    let name = "choices";
    let mut told: BTreeMap<(String, u64), Vec<(String, u64)>> = BTreeMap::new();
    for choice in all.iter().flat_map(|of| &of.choices) {
        let channels = choice.channels.map_or_else(String::new, |(first, last)| {
            format!(", {}", plural((last.saturating_sub(first) + 1) as usize, "channel"))
        });
        let what = format!("{} {}{channels}", choice.algorithm, choice.protocol);
        let of_size = told.entry((choice.function.clone().unwrap_or_default(), choice.bytes)).or_default();
        match of_size.iter_mut().find(|(known, _)| *known == what) {
            Some((_, times)) => *times += choice.times,
            None => of_size.push((what, choice.times)),
        }
    }
    let line = |((function, bytes), of_size): (&(String, u64), &Vec<(String, u64)>)| {
        let what: Vec<_> = of_size.iter().map(|(what, times)| format!("{what} ({times}×)")).collect();
        let function = if function.is_empty() { "call" } else { function };
        format!("{function} of {} ({bytes} bytes): {}", Bytes(*bytes), what.join(" or "))
    };
    let mut lines: Vec<_> = told.iter().map(line).collect();
    let more = lines.len().saturating_sub(SIZES);
    lines.truncate(SIZES);
    lines.extend((more > 0).then(|| format!("and {} more", plural(more, "size"))));
    match lines.split_first() {
        None => Check::unknown(name, "no line of what NCCL chose: rank 0 tells it with the subsystem TUNING"),
        Some((first, others)) => Check::ok(name, first.clone()).also(others.iter().cloned()),
    }
}

/// The graph search that found nothing, after which the model takes every path for slow.
fn graph(log: &Log) -> Option<Check> {
    let lost = |graph: &&Graph| {
        let nothing = graph.channels <= 2 && graph.bandwidth_intra.0 <= LAST_RESORT;
        graph.pattern == RING && nothing && graph.type_intra == "SYS" && graph.type_inter == "SYS"
    };
    let graph = log.ranks().flat_map(|rank| &rank.graphs).find(lost)?;
    let choices = log.communicators.iter().flat_map(|of| of.choices());
    let simple = choices.filter(|choice| choice.protocol == Protocol::Simple && choice.bytes.0 <= SMALL).count();
    let evidence = format!(
        "found a ring of {} at {} GB/s, {}/{}: NCCL's model then takes every path for slow",
        plural(graph.channels as usize, "channel"),
        graph.bandwidth_intra.0,
        graph.type_intra,
        graph.type_inter
    );
    let status = if simple > 0 { Status::Fault } else { Status::Warning };
    let check = Check::new("graph search", status, evidence)
        .also((simple > 0).then(|| format!("Simple was chosen for {} of at most 64 KiB", plural(simple, "size"))));
    Some(check.next("NCCL_PROTO=LL avoids it for small sizes, a graph of the real box by NCCL_GRAPH_FILE for all; `ncclsweep` measures what it gains"))
}

/// LL128 forced where NCCL does not hold it safe.
fn ll128(log: &Log) -> Option<Check> {
    let forced = log.ranks().any(|rank| rank.allowed.iter().any(|allowed| allowed.ll128_forced));
    let pcie =
        log.ranks().flat_map(|rank| &rank.graphs).any(|graph| graph.pattern == RING && graph.type_intra != "NVL");
    (forced && pcie).then(|| {
        Check::warning("LL128", "named in NCCL_PROTO, so that NCCL uses it over PCIe too, where it is off by itself")
            .next("it can corrupt data: name LL,Simple, or check the data (`ncclsweep` does)")
    })
}

/// Signs that are known first, then warnings that are not.
fn warnings(facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    let same = |text: &str, message: &str| !text.is_empty() && (message.starts_with(text) || text.starts_with(message));
    for sign in &facts.signs {
        let warned = facts.warnings.iter().any(|warning| !warning.remark && same(&sign.text, &warning.message));
        let status = if warned && !sign.mild { Status::Fault } else { Status::Warning };
        let check = Check::new(format!("line {}", sign.line), status, sign.text.clone());
        checks.push(check.also([sign.meaning.clone()]).next(sign.next.clone()));
    }
    let known = |warning: &&WarningFacts| !facts.signs.iter().any(|sign| same(&sign.text, &warning.message));
    let unknown: Vec<_> = facts.warnings.iter().filter(known).collect();
    for warning in unknown.iter().take(WARNINGS) {
        let times = if warning.times > 1 { format!(" ({} times)", count(warning.times)) } else { String::new() };
        let status = if warning.remark { Status::Ok } else { Status::Warning };
        checks.push(Check::new(format!("line {}", warning.line), status, format!("{}{times}", warning.message)));
    }
    let more = unknown.len().saturating_sub(WARNINGS);
    checks.extend(
        (more > 0).then(|| Check::warning("more warnings", format!("{more} others: `grep 'NCCL WARN'` shows them"))),
    );
    if facts.warnings.is_empty() && facts.nccl_lines > 0 {
        checks.push(Check::ok("warnings", "NCCL gave none"));
    }
    checks
}
