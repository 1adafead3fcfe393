//! An audit for a terminal and for programs: who used NCCL, with which settings, and what for.

mod settings;
mod tree;

use std::collections::BTreeSet;
use std::io::Write;

use serde::Serialize;

use super::Style;
use super::form::Form;
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
        let lines = expected(audit, expectation);
        if !lines.is_empty() {
            labelled(&mut out, lines, columns);
            out.push('\n');
        }
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
    let lost: Vec<usize> = (0..audit.workers.len()).filter(|at| audit.workers[*at].life == Life::Lost).collect();
    if !lost.is_empty() {
        let text = "killed, or left without a word: their last second may be missing";
        lines.push(Line::new("lost", Tone::Doubt.ink(&format!("{}: {text}", pids(audit, &lost)))));
    }
    lines.extend(libraries(audit).into_iter().map(|text| Line::new("NCCL", text)));
    let unread = |file: &audit::Unread| {
        Line::new("unread", Tone::Bad.ink(&format!("{}: {}", plain(&file.path), plain(&file.why))))
    };
    lines.extend(audit.unread.iter().map(unread));
    lines.extend(unlisted(audit).map(|text| Line::new("unlisted", Tone::Doubt.ink(&text))));
    lines
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
    let ranks = ranks(worker);
    let ranks = if ranks.is_empty() { ranks } else { format!(" ({ranks})") };
    let parent = worker.process.ancestors.first().map_or_else(String::new, |parent| format!(", parent {}", parent.pid));
    format!("pid {}{ranks}{parent}", worker.process.pid)
}

/// `rank 1 of 8`, `ranks 0, 1 of 2`; of several sizes of communicators those of the largest, which tell processes apart.
fn ranks(worker: &Worker) -> String {
    let all = worker.ranks();
    let most = all.iter().map(|(_, ranks)| *ranks).max().flatten();
    let mut of_most: Vec<i32> = all.iter().filter(|(_, ranks)| *ranks == most).map(|(rank, _)| *rank).collect();
    of_most.sort_unstable();
    let numbers: Vec<String> = of_most.iter().map(ToString::to_string).collect();
    let of = most.map_or_else(String::new, |most| format!(" of {most}"));
    match numbers.len() {
        0 => String::new(),
        1 => format!("rank {}{of}", numbers[0]),
        _ => format!("ranks {}{of}", numbers.join(", ")),
    }
}

/// The table of sizes.
fn sizes(out: &mut String, audit: &Audit, columns: usize) {
    let usage = audit::usage(audit);
    if usage.is_empty() {
        let alone = |worker: &Worker| worker.ranks().iter().all(|(_, ranks)| *ranks == Some(1));
        let why = if audit.workers.iter().all(alone) {
            "no collective was announced: a communicator of one rank announces none"
        } else {
            "no collective was told: none was called, or what was told last is lost"
        };
        paragraph(out, "", why, columns);
        return;
    }
    let mut sheet = Sheet::new(vec![
        Column::new("collective", "", Align::Left),
        Column::new("bytes", "", Align::Right),
        Column::new("calls", "all ranks: 1", Align::Right),
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
        let text = "A captured call counts once, however often its graph is replayed; at each replay where a proxy works for it, as \
                    over a network.";
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
        of.used.choice(),
        channels,
        of.used.threads().map_or_else(String::new, |threads| threads.to_string()),
        format!("{} of {}", of.workers.len(), audit.workers.len()),
    ]
}

/// Where an expectation is broken, variables that lack alike in one line, and what cannot be seen.
fn expected(audit: &Audit, expectation: &Expectation) -> Vec<Line> {
    let mut broken: Vec<(&str, Vec<usize>, Vec<String>)> = Vec::new();
    for of in by_variable(&expectation.broken) {
        let (first, workers) = (of[0], of.iter().map(|broken| broken.worker).collect::<Vec<_>>());
        let setting = format!("{}={}", first.name, plain(&first.value));
        match broken.iter_mut().find(|(why, known, _)| *why == first.why && *known == workers) {
            Some((_, _, settings)) => settings.push(setting),
            None => broken.push((&first.why, workers, vec![setting])),
        }
    }
    let broken = broken.into_iter().map(|(why, workers, settings)| {
        let settings = Tone::Bad.ink(&settings.join(" "));
        let some = format!("{} of {}", workers.len(), plural(audit.workers.len(), "worker"));
        Line::new("broken", format!("{settings} in {some}: {} · {}", plain(why), pids(audit, &workers)))
    });
    let unseen = |unseen: &audit::Unseen| {
        Line::new("unseen", format!("{}: it reached them; {}", Tone::Doubt.ink(&unseen.name), plain(&unseen.why)))
    };
    broken.chain(expectation.unseen.iter().map(unseen)).collect()
}

/// Those of one variable that are broken for one reason, for each.
fn by_variable(broken: &[Broken]) -> Vec<Vec<&Broken>> {
    let mut groups: Vec<Vec<&Broken>> = Vec::new();
    for of in broken {
        match groups.iter_mut().find(|group| (&group[0].name, &group[0].why) == (&of.name, &of.why)) {
            Some(group) => group.push(of),
            None => groups.push(vec![of]),
        }
    }
    groups
}

/// Why what was seen is not all.
fn unknown(expectation: &Expectation) -> Option<String> {
    if expectation.unread > 0 {
        return Some(format!("{} cannot be read", plural(expectation.unread, "journal")));
    }
    if let Some(audit::Absent { ranks, of, .. }) = expectation.absent {
        return Some(format!(
            "{ranks} of {of} ranks told nothing: they do not get this environment, or are on other hosts, whose journals belong into this folder too"
        ));
    }
    let unlisted = expectation.unlisted;
    (unlisted > 0).then(|| format!("of {} only the number is known", plural(unlisted as usize, "collective")))
}

fn conclusion(audit: &Audit, expectation: &Expectation) -> String {
    let name = &expectation.set.name;
    if expectation.all_reduces == 0 {
        return Tone::Bad
            .ink(&format!("No all-reduce among several ranks was seen, so {name} is neither held nor broken."));
    }
    if let Some(unknown) = unknown(expectation).filter(|_| expectation.broken.is_empty()) {
        return Tone::Bad.ink(&format!("{unknown}, so {name} is neither held nor broken."));
    }
    let workers: BTreeSet<usize> = expectation.broken.iter().map(|broken| broken.worker).collect();
    let all = plural(expectation.all_reduces as usize, "all-reduce");
    match workers.len() {
        0 => {
            let lost = audit.workers.iter().filter(|worker| worker.life == Life::Lost).count();
            let told = if lost > 0 { format!(", as far as {lost} lost of them told") } else { String::new() };
            Tone::Good.ink(&format!("{name} holds: all {all} ran as it says, in every worker{told}."))
        }
        broken => {
            Tone::Bad.ink(&format!("{name} does not hold in {broken} of {}.", plural(audit.workers.len(), "worker")))
        }
    }
}
