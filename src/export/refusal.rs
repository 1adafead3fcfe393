//! What speaks against taking a set over from a run.

use crate::nccl::is_variable;
use crate::plan::schedule::Arm;
use crate::record::run::{Applied, Backend, Cell, Run, Verdict};
use crate::units::plural;

/// Variables of the set of `arm`, and of what lies under it, that are none of NCCL's: a document that somebody altered, or a
/// measurement of something else.
#[must_use]
pub fn foreign(run: &Run, arm: Arm) -> Vec<String> {
    let plan = &run.header.plan;
    let vars = plan.sets[arm.set].vars.over(&plan.base);
    vars.iter().map(|(name, _)| name).filter(|name| !is_variable(name)).map(str::to_owned).collect()
}

/// Everything that speaks against exporting the set of `arm`; nothing when the run carries it.
#[must_use]
pub fn objections(run: &Run, arm: Arm) -> Vec<String> {
    let cells: Vec<&Cell> = run.cells.iter().filter(|cell| cell.arm == arm).collect();
    let mut objections = of_run(run);
    objections.extend(foreign(run, arm).iter().map(|name| format!("it sets {name}, which is no variable of NCCL's")));
    if run.header.plan.arms().next() == Some(arm) {
        objections.push("it is the baseline, so nothing says that it is faster than anything".to_owned());
        return objections;
    }
    if cells.is_empty() {
        objections.push("nothing was measured of it".to_owned());
    }
    let wrong: u64 = cells.iter().map(|cell| cell.wrong_outputs).sum();
    if wrong > 0 {
        objections.push(format!("its data was wrong: {wrong} outputs"));
    }
    let verdicts = [
        (Verdict::Invalid, "invalid"),
        (Verdict::Slower, "slower"),
        (Verdict::Undecided, "undecided"),
        (Verdict::Same, "the same as the baseline, no faster,"),
    ];
    let states = [
        (Applied::NotApplied, "not in effect"),
        (Applied::Partly, "in effect on some ranks only"),
        (Applied::DiffersByRank, "of another value on other ranks"),
        (Applied::Overridden, "overridden"),
    ];
    let some_faster = cells.iter().any(|cell| cell.verdict == Verdict::Faster);
    // Where it helps at some sizes and is as good at the others, it is worth having.
    let counts = |verdict: &Verdict| !(*verdict == Verdict::Same && some_faster);
    for (verdict, words) in verdicts.iter().filter(|(verdict, _)| counts(verdict)) {
        objections.extend(at(run, &cells, words, |cell| cell.verdict == *verdict));
    }
    for (state, words) in states {
        objections.extend(at(run, &cells, &format!("{words} (its settings)"), |cell| cell.applied == state));
    }
    objections
}

/// What speaks against taking anything over from this run.
#[must_use]
pub fn of_run(run: &Run) -> Vec<String> {
    let mut objections = Vec::new();
    if run.header.backend == Backend::Emulated {
        objections.push("the run is emulated: its figures say nothing about a real box".to_owned());
    }
    if run.header.provenance.imported.is_some() {
        objections.push("the run is imported: nothing shows which settings were in effect".to_owned());
    }
    objections
}

/// `slower at 7168x1, 7168x2`, when it is so anywhere.
fn at(run: &Run, cells: &[&Cell], words: &str, holds: impl Fn(&Cell) -> bool) -> Option<String> {
    const NAMED: usize = 4;
    let which: Vec<&&Cell> = cells.iter().filter(|cell| holds(cell)).collect();
    match which.len() {
        0 => None,
        some if some == cells.len() && some > 1 => Some(format!("{words} at all {}", plural(some, "case"))),
        some if some > NAMED => Some(format!("{words} at {some} of {}", plural(cells.len(), "case"))),
        _ => {
            let several = run.header.plan.modes().len() > 1;
            let mode = |cell: &Cell| if several { format!(" ({})", cell.mode) } else { String::new() };
            let label = |cell: &&&Cell| format!("{}{}", run.header.plan.cases[cell.case].label(), mode(cell));
            Some(format!("{words} at {}", which.iter().map(label).collect::<Vec<_>>().join(", ")))
        }
    }
}
