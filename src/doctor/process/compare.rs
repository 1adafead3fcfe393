//! How processes differ: among the workers, and between a process and what it starts.

use crate::nccl::is_variable;
use std::collections::{BTreeMap, BTreeSet};

use super::super::{Check, Status};
use super::Facts;
/// Pids that are named of one kind.
const NAMED: usize = 8;

/// `pid 43`, `pids 43, 44, 45`; many are cut.
pub fn pids(pids: &[u32]) -> String {
    let shown: Vec<_> = pids.iter().take(NAMED).map(u32::to_string).collect();
    let more = if pids.len() > NAMED { format!(" and {} more", pids.len() - NAMED) } else { String::new() };
    format!("{} {}{more}", if pids.len() == 1 { "pid" } else { "pids" }, shown.join(", "))
}

/// The processes that do the collectives, as far as it can be seen: with NCCL mapped, and nothing below them that has.
pub fn workers(all: &[Facts]) -> Vec<&Facts> {
    let with_nccl: Vec<&Facts> = all.iter().filter(|facts| !facts.nccl.is_empty()).collect();
    let parents: BTreeSet<u32> = with_nccl.iter().flat_map(|facts| above(all, facts)).collect();
    with_nccl.into_iter().filter(|facts| !parents.contains(&facts.pid)).collect()
}

fn above(all: &[Facts], facts: &Facts) -> Vec<u32> {
    let parent = |pid: &u32| all.iter().find(|of| of.pid == *pid).map(|of| of.parent);
    std::iter::successors(Some(facts.parent), parent).take(all.len() + 1).collect()
}

/// Variables that may well differ from process to process.
fn may_differ(name: &str) -> bool {
    const NAMES: [&str; 5] =
        ["NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_HOSTID", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"];
    name.starts_with("NCCL_DEBUG") || NAMES.contains(&name)
}

/// A check for each variable that is not the same in all workers; one when all are.
pub fn variables(workers: &[&Facts]) -> Vec<Check> {
    let name = "same settings";
    let known: Vec<&&Facts> = workers.iter().filter(|facts| facts.known()).collect();
    let unknown: Vec<u32> = workers.iter().filter(|facts| !facts.known()).map(|facts| facts.pid).collect();
    let unknown = (!unknown.is_empty()).then(|| format!("not known of {}", pids(&unknown)));
    if known.len() < 2 {
        let what = format!("{} of the workers have variables that are known: nothing to compare", known.len());
        return vec![Check::unknown(name, what).also(unknown)];
    }
    let mut by_name: BTreeMap<&str, BTreeMap<Option<&str>, Vec<u32>>> = BTreeMap::new();
    let names: BTreeSet<&str> = known
        .iter()
        .flat_map(|facts| &facts.effective)
        .map(|setting| setting.name.as_str())
        .filter(|name| is_variable(name))
        .collect();
    for name in names {
        for facts in &known {
            let value =
                facts.effective.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str());
            by_name.entry(name).or_default().entry(value).or_default().push(facts.pid);
        }
    }
    let checks: Vec<_> = by_name
        .iter()
        .filter(|(_, values)| values.len() > 1)
        .map(|(name, values)| difference(name, values, known.len()))
        .collect();
    if checks.is_empty() {
        return vec![
            Check::ok(name, format!("all {} workers have the same NCCL_ variables", known.len())).also(unknown),
        ];
    }
    checks
}

/// One variable: the value most have first.
fn difference(name: &str, values: &BTreeMap<Option<&str>, Vec<u32>>, all: usize) -> Check {
    let mut values: Vec<_> = values.iter().collect();
    values.sort_by_key(|(value, pids)| (std::cmp::Reverse(pids.len()), value.is_none()));
    let evidence = values.iter().map(|(value, of)| {
        let what = value.map_or_else(|| format!("{name} not set"), |value| format!("{name}={value}"));
        format!("{what} in {} of {all}: {}", of.len(), pids(of))
    });
    let status = if may_differ(name) { Status::Warning } else { Status::Fault };
    let check = Check { name: name.to_owned(), status, evidence: evidence.collect(), next: Vec::new() };
    match status {
        Status::Fault => check.next("ranks that differ are slow, fail or hang: set it before the server starts, or in NCCL's configuration file"),
        _ => check.next("it may differ by intent: look whether it does"),
    }
}

/// Whether all workers have the same library.
pub fn libraries(workers: &[&Facts]) -> Check {
    let name = "same library";
    let mut kinds: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for facts in workers {
        for library in &facts.nccl {
            let version = library.version.map_or_else(|| "version not told".to_owned(), |version| version.to_string());
            kinds.entry(format!("{version} {}", library.path)).or_default().push(facts.pid);
        }
    }
    let versions: BTreeSet<_> = workers.iter().flat_map(|facts| &facts.nccl).map(|library| library.version).collect();
    let shown: Vec<_> = kinds.iter().map(|(kind, of)| format!("{kind}: {}", pids(of))).collect();
    let evidence = |check: Check| check.also(shown.iter().skip(1).cloned());
    let Some(first) = shown.first() else { return Check::unknown(name, "no process has libnccl mapped") };
    match () {
        () if kinds.len() == 1 => Check::ok(name, first.clone()),
        () if versions.len() == 1 && !versions.contains(&None) => evidence(Check::warning(name, first.clone()))
            .next("several files of one version: make sure that they are the same build"),
        () => evidence(Check::fault(name, first.clone()))
            .next("ranks of different libraries cannot form a communicator, and one process must not load two"),
    }
}

/// Variables that a process had and what it started has not, on the way to a worker.
pub fn inheritance(all: &[Facts], workers: &[&Facts]) -> Option<Check> {
    let name = "inheritance";
    let on_the_way: BTreeSet<u32> =
        workers.iter().flat_map(|facts| above(all, facts).into_iter().chain([facts.pid])).collect();
    let (mut lost, mut pairs) = (Vec::new(), 0);
    for child in all.iter().filter(|facts| on_the_way.contains(&facts.pid) && facts.known()) {
        let Some(parent) = all.iter().find(|facts| facts.pid == child.parent && facts.known()) else { continue };
        pairs += 1;
        let of = |facts: &'_ Facts, name: &str| {
            facts.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        for (name, value) in parent.variables.iter().filter(|(name, _)| is_variable(name)) {
            match of(child, name) {
                None => lost.push(format!("{name}={value} of pid {} is lost in its child {}", parent.pid, child.pid)),
                Some(other) if other != *value => {
                    lost.push(format!("{name}={value} of pid {} is {other} in its child {}", parent.pid, child.pid));
                }
                Some(_) => {}
            }
        }
    }
    match lost.split_first() {
        _ if pairs == 0 => None,
        None => Some(Check::ok(name, "what a process was started with, the workers below it were started with too")),
        Some((first, others)) => Some(
            Check::fault(name, first.clone())
                .also(others.iter().cloned())
                .next("what starts the workers replaces their environment: set it there (`env=`, a service file, a runtime environment), or in /etc/nccl.conf"),
        ),
    }
}
