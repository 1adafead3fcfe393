//! What stands under the tables: whether settings took effect, whether the data was right, how visits ended, warnings.

use indexmap::IndexMap;

use crate::nccl::register::Registration;
use crate::plan::environment::Origin;
use crate::plan::schedule::Arm;
use crate::proof::{State, VariableProof, why};
use crate::record::proofs::OfCases;
use crate::record::registration;
use crate::record::run::{Applied, Cell, Run};
use crate::record::visit::{Diagnosis, Outcome, Visit, WrongElement};
use crate::units::{count, plural, sets};

use super::cells::{applied, arms, at, in_mode, label, name, verdict};
use super::conclusion::of;
use super::head::Line;
use super::ink::{Tone, cut, plain};
use super::suspects;

/// Lines of evidence shown of one kind of failure.
const EVIDENCE: usize = 3;
/// Columns of such a line, over all the lines of the terminal it takes.
const EVIDENCE_WIDTH: usize = 240;

/// The labelled lines, in their order. Evidence stands in lines of its own without a label.
pub(super) fn lines(run: &Run) -> Vec<Line> {
    let mut lines = reasons(run);
    lines.extend(settings(run));
    lines.extend(proofs(run));
    lines.extend(buffers(run));
    lines.extend(data(run).map(|text| Line::new("data", text)));
    lines.extend(visits(run));
    lines.extend(diagnoses(run));
    lines.extend(suspects::lines(run));
    lines.extend(run.warnings.iter().map(|text| Line::new("warning", Tone::Doubt.ink(&plain(text)))));
    lines
}

/// What is to be said of a set: the text goes on behind its name.
struct Said {
    label: &'static str,
    arm: Arm,
    text: String,
}

/// What is the same of several sets is said once, of all of them.
fn at_once(run: &Run, said: impl IntoIterator<Item = Said>) -> Vec<Line> {
    let mut told: IndexMap<(&'static str, String), Vec<Arm>> = IndexMap::new();
    for Said { label, arm, text } in said {
        let arms = told.entry((label, text)).or_default();
        if !arms.contains(&arm) {
            arms.push(arm);
        }
    }
    let line = |((label, text), arms): ((&'static str, String), Vec<Arm>)| {
        let names: Vec<String> = arms.iter().map(|arm| name(run, *arm)).collect();
        Line::new(label, sets(&names) + &text)
    };
    told.into_iter().map(line).collect()
}

/// Why a verdict is what it is, sizes of one set, mode and reason together.
fn reasons(run: &Run) -> Vec<Line> {
    let mut told: Vec<(&Cell, Vec<usize>)> = Vec::new();
    for cell in run.cells.iter().filter(|cell| cell.verdict_reason.is_some()) {
        // From the last on, for cells of one set follow each other.
        match told.iter_mut().rev().find(|(first, _)| have_one_reason(first, cell)) {
            Some((_, cases)) => cases.push(cell.case),
            None => told.push((cell, vec![cell.case])),
        }
    }
    let said = |(cell, cases): (&Cell, Vec<usize>)| {
        let place = at(run, &cases, of(run, cell.arm, cell.mode).len()) + &in_mode(run, cell.mode);
        let reason = plain(cell.verdict_reason.as_deref().unwrap_or_default());
        Said { label: "why", arm: cell.arm, text: format!(" {place}: {}, {reason}", verdict(cell.verdict)) }
    };
    at_once(run, told.into_iter().map(said))
}

fn have_one_reason(one: &Cell, other: &Cell) -> bool {
    let key = |of: &Cell| (of.arm, of.mode, of.verdict);
    key(one) == key(other) && one.verdict_reason == other.verdict_reason
}

/// Whether the settings took effect: one line when they did everywhere, else a line for each state of sets.
fn settings(run: &Run) -> Vec<Line> {
    let all = run.cells.len();
    let Some(first) = run.cells.first() else { return Vec::new() };
    if run.cells.iter().all(|cell| cell.applied == first.applied) {
        return vec![Line::new("settings", in_words(first.applied, &whole(all)))];
    }
    let mut said = Vec::new();
    for (arm, mode) in arms(run).into_iter().flat_map(|arm| run.header.plan.modes().into_iter().map(move |m| (arm, m)))
    {
        let cells = of(run, arm, mode);
        let states =
            [Applied::NotApplied, Applied::Overridden, Applied::DiffersByRank, Applied::Partly, Applied::Unverified];
        for state in states {
            let cases: Vec<_> = cells.iter().filter(|cell| cell.applied == state).map(|cell| cell.case).collect();
            if !cases.is_empty() {
                let place = at(run, &cases, cells.len()) + &in_mode(run, mode);
                said.push(Said { label: "settings", arm, text: format!(": {}", in_words(state, &place)) });
            }
        }
    }
    at_once(run, said)
}

/// Every cell there is.
fn whole(number: usize) -> String {
    match number {
        1 => "in the one cell".to_owned(),
        number => format!("in all {}", plural(number, "cell")),
    }
}

/// What the proof says beyond the state of a cell: variables that block it, sets that change nothing, known faults.
fn proofs(run: &Run) -> Vec<Line> {
    let mut said = Vec::new();
    for arm in &run.proofs {
        let mut say = |label, text: &str| said.push(Said { label, arm: arm.arm, text: format!(": {text}") });
        if arm.identical_to_baseline {
            say("settings", "NCCL does exactly what it does by default, on all ranks and sizes");
        }
        // A warning given before the start says the same of some.
        let warned = |name: &str| run.warnings.iter().any(|warning| warning.contains(&format!(": {name} ")));
        let idle = |proof: &VariableProof| {
            proof.state == State::NoEffectHere && proof.origin == Origin::Set && !warned(&proof.name)
        };
        let told = |of: &&OfCases<VariableProof>| {
            idle(&of.what) || of.what.is_note() || of.cases.iter().any(|case| arm.blocks(*case, &of.what))
        };
        for of in arm.variables.iter().filter(told) {
            let why = of.what.why.as_deref().map(|why| format!(", {}", plain(why))).unwrap_or_default();
            let all = if of.what.is_note() { "; all sets have it alike" } else { "" };
            say("settings", &format!("{} {}{why}{all}", of.what.name, of.what.state));
        }
        for of in &arm.chosen {
            why::faults(&of.what).iter().for_each(|fault| say("fault", &Tone::Doubt.ink(&plain(fault))));
        }
    }
    at_once(run, said)
}

fn in_words(state: Applied, place: &str) -> String {
    let meaning = match state {
        Applied::Applied => "in effect on every rank",
        Applied::Partly => "not in effect on every rank",
        Applied::DiffersByRank => "ranks have different values",
        Applied::Overridden => "something else decided",
        Applied::NotApplied => "they did not reach NCCL",
        Applied::Unverified => "nothing shows whether they took effect",
    };
    format!("{} {place}: {meaning}", applied(state))
}

/// What became of buffers that were to be registered.
fn buffers(run: &Run) -> Vec<Line> {
    let said = |(arm, of): (Arm, Registration)| {
        let all = count(of.taken + of.left);
        let text = match (of.taken, of.left) {
            (_, 0) => format!("NCCL registered all {all} buffers; whether it uses that shows in the times alone"),
            (0, _) => Tone::Bad.ink(&format!("NCCL registered none of {all} buffers: not supported here")),
            (taken, _) => Tone::Bad.ink(&format!("NCCL registered {} of {all} buffers", count(taken))),
        };
        Said { label: "buffers", arm, text: format!(": {text}") }
    };
    at_once(run, registration::of_run(run).map(said))
}

/// `28 800 outputs checked, none wrong`, or how many were and, where visits tell it, which element was the first.
fn data(run: &Run) -> Option<String> {
    let outputs: u64 = run.cells.iter().map(|cell| cell.checked_outputs).sum();
    let wrong: u64 = run.cells.iter().map(|cell| cell.wrong_outputs).sum();
    match (outputs, wrong) {
        (0, _) if run.cells.is_empty() => None,
        (0, _) => Some(Tone::Doubt.ink("not checked")),
        (outputs, 0) => Some(format!("{} outputs checked, none wrong", count(outputs))),
        (outputs, wrong) => {
            let first = run.cells.iter().find_map(|cell| Some(first_wrong(run, cell, cell.first_wrong.as_ref()?)));
            let first = first.map(|first| format!("; {first}"));
            let wrong = Tone::Bad.ink(&format!("{} of {} outputs wrong", count(wrong), count(outputs)));
            Some(format!("{wrong}{}", first.unwrap_or_default()))
        }
    }
}

fn first_wrong(run: &Run, cell: &Cell, element: &WrongElement) -> String {
    let WrongElement { rank, among, call, element, found, expected } = element;
    let set = name(run, cell.arm);
    let size = label(run, cell.case) + &in_mode(run, cell.mode);
    let (found, expected) = (plain(found), plain(expected));
    format!(
        "first: {set} at {size}, rank {rank}, call {call} of the {among}, element {element} is {found}, not {expected}"
    )
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

/// What failures mean and what helps, each once however many sets failed so.
fn diagnoses(run: &Run) -> Vec<Line> {
    let mut told: Vec<(&Diagnosis, Vec<Arm>)> = Vec::new();
    for visit in &run.visits {
        let Some(diagnosis) = &visit.diagnosis else { continue };
        match told.iter_mut().find(|(known, _)| *known == diagnosis) {
            Some((_, arms)) if arms.contains(&visit.arm) => {}
            Some((_, arms)) => arms.push(visit.arm),
            None => told.push((diagnosis, vec![visit.arm])),
        }
    }
    told.iter_mut().for_each(|(_, arms)| arms.sort_unstable());
    let every = arms(run).len();
    let lines = |(diagnosis, arms): &(&Diagnosis, Vec<Arm>)| {
        let whose = match arms.len() {
            number if number == every && every > 1 => "all sets".to_owned(),
            _ => sets(&arms.iter().map(|arm| name(run, *arm)).collect::<Vec<_>>()),
        };
        let next = Line { label: "", lead: ">".into(), text: plain(&diagnosis.next) };
        [Line::new("meaning", format!("{whose}: {}", Tone::Doubt.ink(&plain(&diagnosis.meaning)))), next]
    };
    told.iter().flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Mode;
    use crate::record::fixture;
    use crate::record::run::Verdict;

    #[test]
    fn what_is_the_same_of_several_sets_is_said_once() {
        let names = ["default", "ll", "simple", "tree", "ring", "nvls"];
        let mut run = fixture::run(&names, &[fixture::case(1, Mode::Graph), fixture::case(2, Mode::Graph)]);
        for cell in run.cells.iter_mut().filter(|cell| cell.set != "default") {
            cell.verdict = Verdict::Undecided;
            cell.verdict_reason = Some(if cell.set == "tree" { "links repeated packets" } else { "2 rounds" }.into());
        }
        let said: Vec<String> = reasons(&run).into_iter().map(|line| line.text).collect();
        let mut of_one = run.clone();
        of_one.cells.retain(|cell| ["default", "ll"].contains(&cell.set.as_str()));
        let of_one: Vec<String> = reasons(&of_one).into_iter().map(|line| line.text).collect();

        let undecided = verdict(Verdict::Undecided);
        let all = format!("ll and 3 other sets at all 2 sizes: {undecided}, 2 rounds");
        assert_eq!(said, [all, format!("tree at all 2 sizes: {undecided}, links repeated packets")]);
        assert_eq!(of_one, [format!("ll at all 2 sizes: {undecided}, 2 rounds")]);
    }
}
