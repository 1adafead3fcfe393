//! The tree of processes.

use std::collections::BTreeSet;

use super::ranks;
use crate::audit::{self, Audit, Life, Node, Worker};
use crate::report::ink::{Tone, cut, plain, width};
use crate::units::{count, plural};

/// Columns that a command keeps beside what is told of its process.
const COMMAND: usize = 24;

/// Writes the trees of all hosts.
pub(super) fn write(out: &mut String, audit: &Audit, columns: usize) {
    let forest = audit::forest(audit);
    let several = forest.len() > 1;
    for (host, roots) in forest {
        if several {
            out.push_str(&Tone::Strong.ink(&plain(&host)));
            out.push('\n');
        }
        for root in roots {
            node(out, audit, &root, ("  ", "  "), columns);
        }
    }
}

/// A process and those below it; `leads` stand before its line and before those of its children.
fn node(out: &mut String, audit: &Audit, of: &Node, (lead, below): (&str, &str), columns: usize) {
    let told: Vec<String> = of.workers.iter().map(|at| told(&audit.workers[*at])).collect();
    let told = told.join("; ");
    let pid = of.pid.to_string();
    let command = plain(&of.command.join(" "));
    let room = columns.saturating_sub(width(lead) + width(&pid) + width(&told) + 4).max(COMMAND);
    let quiet = if of.workers.is_empty() { Tone::Quiet.ink(&cut(&command, room)) } else { cut(&command, room) };
    let line = format!("{lead}{pid}  {quiet}  {told}");
    out.push_str(line.trim_end());
    out.push('\n');
    for (at, child) in of.children.iter().enumerate() {
        let (own, further) = if at + 1 < of.children.len() { ("├─ ", "│  ") } else { ("└─ ", "   ") };
        node(out, audit, child, (&format!("{below}{own}"), &format!("{below}{further}")), columns);
    }
}

/// `rank 1 of 2 · 3 communicators · 10 000 all-reduces · lost`.
fn told(worker: &Worker) -> String {
    let mut parts = vec![ranks(worker)];
    // The ends of one communicator that several threads of the process hold are one communicator.
    let communicators: BTreeSet<_> = worker.communicators.iter().map(|communicator| communicator.told.hash).collect();
    if communicators.len() > 1 {
        parts.push(plural(communicators.len(), "communicator"));
    }
    parts.push(match worker.all_reduces() {
        1 => "1 all-reduce".to_owned(),
        calls => format!("{} all-reduces", count(calls)),
    });
    match worker.life {
        Life::Running => parts.push(Tone::Good.ink("running")),
        Life::Lost => parts.push(Tone::Doubt.ink("lost")),
        Life::Exited | Life::Finalized => {}
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}
