//! Who started whom: the processes that use NCCL, and those between them.

use std::collections::BTreeMap;

use nccl_profiler_ncclsweep::journal::Process;
use serde::Serialize;

use super::Audit;

/// A process in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Its number.
    pub pid: u32,
    /// Its command line.
    pub command: Vec<String>,
    /// Those of [`Audit::workers`] that it was: more than one where a number came again.
    pub workers: Vec<usize>,
    /// The processes that it started.
    pub children: Vec<Node>,
}

/// The trees of every host, by its name: each from the nearest process that started all of it.
#[must_use]
pub fn forest(audit: &Audit) -> BTreeMap<String, Vec<Node>> {
    let mut hosts: BTreeMap<String, Vec<Node>> = BTreeMap::new();
    for (at, worker) in audit.workers.iter().enumerate() {
        grow(hosts.entry(worker.process.host.clone()).or_default(), &worker.process, at);
    }
    for roots in hosts.values_mut() {
        // What stands above the nearest common process (a shell, the init of a container) explains nothing.
        while let [root] = &mut roots[..]
            && root.workers.is_empty()
            && root.children.len() == 1
        {
            *roots = std::mem::take(&mut root.children);
        }
    }
    hosts
}

/// Adds a worker below its ancestors.
fn grow(mut level: &mut Vec<Node>, process: &Process, worker: usize) {
    let above = process.ancestors.iter().rev().map(|ancestor| (ancestor.pid, &ancestor.command));
    for (pid, command) in above {
        level = &mut node(level, pid, command).children;
    }
    let own = node(level, process.pid, &process.command);
    own.workers.push(worker);
    // What a process calls itself once it uses NCCL says more than what others saw before.
    own.command.clone_from(&process.command);
}

fn node<'a>(level: &'a mut Vec<Node>, pid: u32, command: &[String]) -> &'a mut Node {
    let at = level.iter().position(|node| node.pid == pid).unwrap_or_else(|| {
        level.push(Node { pid, command: command.to_owned(), workers: Vec::new(), children: Vec::new() });
        level.len() - 1
    });
    &mut level[at]
}
