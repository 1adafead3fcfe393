//! An audit for a terminal and for programs: who used NCCL, with which settings, and what for.

mod settings;
mod tree;

use std::fmt;
use std::io::Write;
use std::str::FromStr;

use serde::Serialize;

use super::Style;
use super::head::Line;
use super::ink::{Tone, paragraph, plain};
use super::sheet::{Align, Column, Sheet};
use super::table::{LEAST, WIDEST, labelled};
use crate::audit::{self, Audit, Broken, Expectation, Life, Usage, Worker};
use crate::error::{Error, Kind, Result};
use crate::proof::Channels;
use crate::units::{Bytes, count, plural};

/// Rows of the table of sizes; the rest is in the document.
const SIZES: usize = 24;
/// Processes that are named one by one.
const NAMED: usize = 4;

/// A form of an audit, as `--format` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people at a terminal.
    #[default]
    Table,
    /// The whole document.
    Json,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Table => "table",
            Self::Json => "json",
        })
    }
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = |form: &Self| form.to_string().eq_ignore_ascii_case(text);
        [Self::Table, Self::Json]
            .into_iter()
            .find(known)
            .ok_or_else(|| Error::usage(format!("unknown format `{text}`")).help("one of: table, json"))
    }
}

/// The document for programs.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    audit: &'a Audit,
    tree: std::collections::BTreeMap<String, Vec<audit::Node>>,
    differences: Vec<audit::Spread>,
    usage: Vec<Usage>,
    mix: Option<audit::Mix>,
    expectation: Option<&'a Expectation>,
}

/// Writes an audit as `form`; `style` shapes [`Form::Table`] only.
pub fn write(
    audit: &Audit,
    expectation: Option<&Expectation>,
    form: Form,
    style: Style,
    out: &mut impl Write,
) -> Result<()> {
    let failed = || Error::new(Kind::Incomplete, "cannot write the audit to stdout");
    let text = match form {
        Form::Table => render(audit, expectation, style),
        Form::Json => {
            let differences = audit::spreads(audit).into_iter().filter(|spread| !spread.is_common()).collect();
            let (tree, usage, mix) = (audit::forest(audit), audit::usage(audit), audit::mix(audit));
            let document = Document { audit, tree, differences, usage, mix, expectation };
            serde_json::to_string_pretty(&document).map_err(|error| failed().because(error))? + "\n"
        }
    };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| failed().because(error))
}

/// The report for a terminal.
#[must_use]
pub fn render(audit: &Audit, expectation: Option<&Expectation>, style: Style) -> String {
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    paragraph(&mut out, "", &Tone::Strong.ink(&format!("audit {}", plain(&audit.folder))), columns);
    out.push('\n');
    labelled(&mut out, head(audit), columns);
    if !audit.workers.is_empty() {
        out.push('\n');
        tree::write(&mut out, audit, columns);
        out.push('\n');
        labelled(&mut out, settings::lines(audit), columns);
        out.push('\n');
        sizes(&mut out, audit, style.width);
    }
    if let Some(expectation) = expectation {
        out.push('\n');
        labelled(&mut out, expected(audit, expectation), columns);
        out.push('\n');
        paragraph(&mut out, "", &conclusion(audit, expectation), columns);
    }
    style.finish(&out)
}

fn head(audit: &Audit) -> Vec<Line> {
    let of = |life: Life| audit.workers.iter().filter(move |worker| worker.life == life);
    let said = [
        (Life::Running, "running"),
        (Life::Exited, "exited"),
        (Life::Finalized, "ended after their communicators"),
        (Life::Lost, "lost"),
    ];
    let said: Vec<String> = said
        .into_iter()
        .map(|(life, word)| (of(life).count(), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let workers = match audit.workers.len() {
        0 => "none made a communicator with the plugin".to_owned(),
        1 => format!("1 with NCCL: {}", said.join(", ")),
        all => format!("{all} with NCCL: {}", said.join(", ")),
    };
    let mut lines = vec![Line::new("processes", workers)];
    if let Some(lost) = of(Life::Lost).next() {
        let which = pids(audit, &of_life(audit, Life::Lost));
        let text = "killed, or left without a word: counts are as of at most a second before";
        lines.push(Line::new("lost", Tone::Doubt.ink(&format!("{which}: {text}"))));
        debug_assert_eq!(lost.life, Life::Lost);
    }
    lines.extend(libraries(audit).into_iter().map(|text| Line::new("NCCL", text)));
    let unread = |file: &audit::Unread| {
        Line::new("unread", Tone::Bad.ink(&format!("{}: {}", plain(&file.path), plain(&file.why))))
    };
    lines.extend(audit.unread.iter().map(unread));
    lines.extend(unlisted(audit).map(|text| Line::new("unlisted", Tone::Doubt.ink(&text))));
    lines
}

fn of_life(audit: &Audit, life: Life) -> Vec<usize> {
    (0..audit.workers.len()).filter(|at| audit.workers[*at].life == life).collect()
}

/// Each library once, with who loaded it.
fn libraries(audit: &Audit) -> Vec<String> {
    let mut libraries: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, worker) in audit.workers.iter().enumerate() {
        let version = worker.version.map_or_else(|| "of unknown version".to_owned(), |version| version.to_string());
        let path = worker.process.nccl.as_ref().map_or("unknown file", |nccl| nccl.path.as_str());
        let text = format!("{version} · {}", plain(path));
        match libraries.iter_mut().find(|(known, _)| *known == text) {
            Some((_, workers)) => workers.push(at),
            None => libraries.push((text, vec![at])),
        }
    }
    let several = libraries.len() > 1;
    let shown = |(text, workers): (String, Vec<usize>)| match several {
        true => Tone::Bad.ink(&format!("{text} · in {}", pids(audit, &workers))),
        false => text,
    };
    libraries.into_iter().map(shown).collect()
}

/// What the plugin did not list, to stay small.
fn unlisted(audit: &Audit) -> Option<String> {
    let calls: u64 = audit
        .workers
        .iter()
        .flat_map(|worker| &worker.communicators)
        .map(|communicator| communicator.told.unlisted)
        .sum();
    let communicators: u64 = audit.workers.iter().map(|worker| worker.end.unlisted_communicators).sum();
    (calls + communicators > 0).then(|| {
        format!(
            "{} of more kinds than a process lists, and all of {}",
            plural(calls as usize, "call"),
            plural(communicators as usize, "communicator")
        )
    })
}

/// `pid 4123 (rank 1 of 2), parent 4100`, or several of them.
fn pids(audit: &Audit, workers: &[usize]) -> String {
    let named: Vec<String> = workers.iter().take(NAMED).map(|at| pid(&audit.workers[*at])).collect();
    let rest = workers.len().saturating_sub(NAMED);
    let others = if rest > 0 { format!(" and {}", plural(rest, "other")) } else { String::new() };
    format!("{}{others}", named.join("; "))
}

fn pid(worker: &Worker) -> String {
    let ranks = worker.ranks();
    let ranks = match ranks.first() {
        Some(first) => format!(" ({})", rank(*first)),
        None => String::new(),
    };
    let parent = worker.process.ancestors.first().map_or_else(String::new, |parent| format!(", parent {}", parent.pid));
    format!("pid {}{ranks}{parent}", worker.process.pid)
}

/// `rank 1 of 2`.
fn rank((rank, ranks): (i32, Option<u32>)) -> String {
    ranks.map_or_else(|| format!("rank {rank}"), |ranks| format!("rank {rank} of {ranks}"))
}

/// The table of sizes.
fn sizes(out: &mut String, audit: &Audit, columns: usize) {
    let usage = audit::usage(audit);
    if usage.is_empty() {
        paragraph(out, "", "no collective was announced: a communicator of one rank announces none", columns);
        return;
    }
    let mut sheet = Sheet::new(vec![
        Column::new("collective", "", Align::Left),
        Column::new("bytes", "", Align::Right),
        Column::new("calls", "of a rank", Align::Right),
        Column::new("captured", "", Align::Right),
        Column::new("algorithm", "", Align::Left),
        Column::new("channels", "", Align::Right).spare(1),
        Column::new("threads", "", Align::Right).spare(2),
        Column::new("workers", "", Align::Right),
    ]);
    for of in usage.iter().take(SIZES) {
        sheet.row(row(audit, of));
    }
    paragraph(out, "", &Tone::Strong.ink("what was used, by number of calls"), columns);
    out.push_str(&sheet.fit(columns, "collective").render());
    if usage.len() > SIZES {
        paragraph(out, "", &format!("and {} more kinds: --format json lists all", usage.len() - SIZES), columns);
    }
    if usage.iter().any(|of| of.calls.captured > 0) {
        let text = "A captured call is counted once, however often its graph is replayed.";
        paragraph(out, "", &Tone::Quiet.ink(text), columns);
    }
    if usage.iter().any(|of| of.calls.untold > of.workers.len() as u64) {
        let text = "Up to NCCL 2.25 nothing tells which calls were captured (?).";
        paragraph(out, "", &Tone::Quiet.ink(text), columns);
    }
}

fn row(audit: &Audit, of: &Usage) -> Vec<String> {
    let channels = match of.used.channels {
        Some(Channels::Exactly(channels)) => channels.to_string(),
        Some(Channels::AtMost(channels)) => format!("≤{channels}"),
        None => "-".to_owned(),
    };
    // The last call of each function is not settled yet where only the next one tells.
    let captured = match of.calls.untold > 1 && of.calls.captured == 0 {
        true => "?".to_owned(),
        false if of.calls.captured == 0 => "-".to_owned(),
        false => count(of.calls.captured),
    };
    vec![
        format!("{} {}", plain(&of.function), plain(&of.datatype)),
        of.bytes.map_or_else(|| format!("{} elements", of.count), |bytes| Bytes(bytes).to_string()),
        count(of.calls.all()),
        captured,
        format!("{} {}", of.used.algorithm, of.used.protocol),
        channels,
        of.used.threads().map_or_else(String::new, |threads| threads.to_string()),
        format!("{} of {}", of.workers.len(), audit.workers.len()),
    ]
}

/// Where an expectation is broken, and what cannot be seen.
fn expected(audit: &Audit, expectation: &Expectation) -> Vec<Line> {
    let broken = |broken: &Broken| {
        let Broken { name, value, why, all_reduces, .. } = broken;
        let who = pid(&audit.workers[broken.worker]);
        let calls = plural(*all_reduces as usize, "all-reduce");
        Line::new("broken", format!("{} · {who}: {} · {calls}", Tone::Bad.ink(&format!("{name}={value}")), plain(why)))
    };
    let unseen = |unseen: &audit::Unseen| {
        Line::new("unseen", format!("{}: it reached them; {}", Tone::Doubt.ink(&unseen.name), plain(&unseen.why)))
    };
    expectation.broken.iter().map(broken).chain(expectation.unseen.iter().map(unseen)).collect()
}

fn conclusion(audit: &Audit, expectation: &Expectation) -> String {
    let name = &expectation.set.name;
    if expectation.all_reduces == 0 {
        return Tone::Bad
            .ink(&format!("No all-reduce among several ranks was seen, so {name} is neither held nor broken."));
    }
    let mut workers: Vec<usize> = expectation.broken.iter().map(|broken| broken.worker).collect();
    workers.dedup();
    let all = plural(expectation.all_reduces as usize, "all-reduce");
    match workers.len() {
        0 => Tone::Good.ink(&format!("{name} holds: all {all} ran as it says, in every worker.")),
        broken => {
            Tone::Bad.ink(&format!("{name} does not hold in {broken} of {}.", plural(audit.workers.len(), "worker")))
        }
    }
}
