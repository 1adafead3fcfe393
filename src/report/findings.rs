//! What stands under the tables: whether settings took effect, whether the data was right, how visits ended, warnings.

use crate::plan::schedule::Arm;
use crate::record::run::{Applied, Run, Verdict};
use crate::record::visit::{Outcome, Visit, WrongElement};
use crate::units::{count, plural};

use super::cells::{applied, arms, at, label, name};
use super::conclusion::of;
use super::head::Line;
use super::ink::{Tone, cut, plain};

/// Lines of evidence shown of one kind of failure.
const EVIDENCE: usize = 3;
/// Columns of such a line, over all the lines of the terminal it takes.
const EVIDENCE_WIDTH: usize = 240;

/// The labelled lines, in their order. Evidence stands in lines of its own without a label.
pub(super) fn lines(run: &Run) -> Vec<Line> {
    let mut lines = reasons(run);
    lines.extend(settings(run));
    lines.extend(data(run).map(|text| Line::new("data", text)));
    lines.extend(visits(run));
    lines.extend(run.warnings.iter().map(|text| Line::new("warning", Tone::Doubt.ink(&plain(text)))));
    lines
}

/// Why a verdict is what it is, sets and sizes of one reason together.
fn reasons(run: &Run) -> Vec<Line> {
    let mut told: Vec<(Arm, Verdict, &str, Vec<usize>)> = Vec::new();
    for cell in &run.cells {
        let Some(reason) = cell.verdict_reason.as_deref() else { continue };
        match told
            .iter_mut()
            .find(|(arm, verdict, text, _)| (*arm, *verdict, *text) == (cell.arm, cell.verdict, reason))
        {
            Some((.., cases)) => cases.push(cell.case),
            None => told.push((cell.arm, cell.verdict, reason, vec![cell.case])),
        }
    }
    let line = |(arm, verdict, reason, cases): (Arm, Verdict, &str, Vec<usize>)| {
        let (all, verdict) = (of(run, arm, run.header.plan.cases[cases[0]].mode).len(), super::cells::verdict(verdict));
        Line::new("why", format!("{} {}: {verdict}, {}", name(run, arm), at(run, &cases, all), plain(reason)))
    };
    told.into_iter().map(line).collect()
}

/// Whether the settings took effect: one line when they did everywhere, else a line for each state of each set.
fn settings(run: &Run) -> Vec<Line> {
    let all = run.cells.len();
    let Some(first) = run.cells.first() else { return Vec::new() };
    if run.cells.iter().all(|cell| cell.applied == first.applied) {
        return vec![Line::new("settings", in_words(first.applied, &format!("in all {}", plural(all, "cell"))))];
    }
    let mut lines = Vec::new();
    for arm in arms(run) {
        let cells: Vec<_> = run.cells.iter().filter(|cell| cell.arm == arm).collect();
        for state in [Applied::NotApplied, Applied::Overridden, Applied::Partly, Applied::Unverified] {
            let cases: Vec<_> = cells.iter().filter(|cell| cell.applied == state).map(|cell| cell.case).collect();
            if !cases.is_empty() {
                let place = at(run, &cases, cells.len());
                lines.push(Line::new("settings", format!("{}: {}", name(run, arm), in_words(state, &place))));
            }
        }
    }
    lines
}

fn in_words(state: Applied, place: &str) -> String {
    let meaning = match state {
        Applied::Applied => "in effect on every rank",
        Applied::Partly => "not in effect on every rank",
        Applied::Overridden => "something else decided",
        Applied::NotApplied => "they did not reach NCCL",
        Applied::Unverified => "nothing shows whether they took effect",
    };
    format!("{} {place}: {meaning}", applied(state))
}

/// `28 800 outputs checked, none wrong`, or how many were and which element was the first.
fn data(run: &Run) -> Option<String> {
    let checks = || run.visits.iter().flat_map(|visit| visit.replicates.iter().map(move |found| (visit, found)));
    let outputs: u64 = checks().map(|(_, found)| found.checks.outputs).sum();
    let wrong: u64 = checks().map(|(_, found)| found.checks.wrong).sum();
    match (outputs, wrong) {
        (0, 0) if run.visits.is_empty() => None,
        (0, 0) => Some(Tone::Doubt.ink("not checked")),
        (outputs, 0) => Some(format!("{} outputs checked, none wrong", count(outputs))),
        (outputs, wrong) => {
            let first =
                checks().find_map(|(visit, found)| Some((visit, found.case, found.checks.first_wrong.as_ref()?)));
            let first = first.map(|(visit, case, element)| format!("; {}", first_wrong(run, visit, case, element)));
            let wrong = Tone::Bad.ink(&format!("{} of {} outputs wrong", count(wrong), count(outputs)));
            Some(format!("{wrong}{}", first.unwrap_or_default()))
        }
    }
}

fn first_wrong(run: &Run, visit: &Visit, case: usize, element: &WrongElement) -> String {
    let WrongElement { rank, call, element, found, expected } = element;
    let (set, size) = (name(run, visit.arm), label(run, case));
    let (found, expected) = (plain(found), plain(expected));
    format!("first: {set} at {size}, rank {rank}, call {call}, element {element} is {found}, not {expected}")
}

/// What the worker or NCCL wrote, deeper than what it is evidence of.
fn evidence_line(text: &str) -> Line {
    Line { label: "", lead: "|".into(), text: Tone::Quiet.ink(&cut(&plain(text), EVIDENCE_WIDTH)) }
}

/// How many visits completed, then those that did not, those of one set that ended alike together.
fn visits(run: &Run) -> Vec<Line> {
    let completed = run.visits.iter().filter(|visit| visit.outcome.is_completed()).count();
    let all = format!("{completed} of {} completed", run.visits.len());
    let early = Tone::Doubt.ink("stopped early, not every planned visit was made");
    let mut lines = vec![Line::new("visits", if run.complete { all } else { format!("{all}; {early}") })];
    let mut alike: Vec<(Arm, String, Vec<&Visit>)> = Vec::new();
    for visit in run.visits.iter().filter(|visit| !visit.outcome.is_completed()) {
        let outcome = plain(&visit.outcome.to_string());
        match alike.iter_mut().find(|(arm, text, _)| (*arm, text) == (visit.arm, &outcome)) {
            Some((.., visits)) => visits.push(visit),
            None => alike.push((visit.arm, outcome, vec![visit])),
        }
    }
    for (arm, outcome, visits) in alike {
        let tone = if visits[0].outcome == Outcome::Interrupted { Tone::Doubt } else { Tone::Bad };
        let number = plural(visits.len(), "visit");
        lines.push(Line::new("failed", format!("{}, {number}: {}", name(run, arm), tone.ink(&outcome))));
        let evidence = visits.iter().find(|visit| !visit.evidence.is_empty()).map(|visit| visit.evidence.as_slice());
        let last = evidence.unwrap_or_default().iter().rev().take(EVIDENCE).rev();
        lines.extend(last.map(|line| evidence_line(line)));
    }
    lines
}
