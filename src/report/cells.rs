//! The cells of a run as the formatters show them: grouped into tables, each figure as text.

use crate::collective::{Case, Dtype, Mode, Op, Placement};
use crate::plan::schedule::Arm;
use crate::record::run::{Applied, Cell, Run, Verdict};
use crate::units;

use super::ink::{Tone, plain};

/// Shown where there is no figure.
pub(super) const NONE: &str = "-";

/// Cases that differ in size only: one table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) mode: Mode,
    pub(super) dtype: Dtype,
    pub(super) op: Op,
    pub(super) placement: Placement,
    /// Indices into the plan's cases.
    pub(super) cases: Vec<usize>,
}

impl Group {
    fn of(case: &Case) -> Self {
        Self { mode: case.mode, dtype: case.dtype, op: case.op, placement: case.placement, cases: Vec::new() }
    }

    fn takes(&self, case: &Case) -> bool {
        (self.mode, self.dtype, self.op, self.placement) == (case.mode, case.dtype, case.op, case.placement)
    }

    /// `graph, bf16 sum out-of-place`
    pub(super) fn title(&self) -> String {
        format!("{}, {} {} {}", self.mode, self.dtype, self.op, self.placement)
    }
}

/// The tables of a run in the order of its plan.
pub(super) fn groups(cases: &[Case]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        match groups.iter_mut().find(|group| group.takes(case)) {
            Some(group) => group.cases.push(at),
            None => groups.push(Group { cases: vec![at], ..Group::of(case) }),
        }
    }
    groups
}

/// The cell of an arm and case, when the run has it.
pub(super) fn find(run: &Run, arm: Arm, case: usize) -> Option<&Cell> {
    run.cells.iter().find(|cell| cell.arm == arm && cell.case == case)
}

/// All arms of a run, the baseline first.
pub(super) fn arms(run: &Run) -> Vec<Arm> {
    run.header.plan.arms().collect()
}

/// The name of an arm, safe to print.
pub(super) fn name(run: &Run, arm: Arm) -> String {
    plain(&run.header.plan.arm_name(arm))
}

/// `value` with three significant digits, or [`NONE`].
pub(super) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.into(), units::significant)
}

/// `46.9–49.6`, or nothing where no interval could be drawn.
pub(super) fn interval(ends: Option<[f64; 2]>) -> String {
    ends.map_or_else(String::new, |[low, high]| units::range(low, high))
}

/// The verdict in its colour.
pub(super) fn verdict(verdict: Verdict) -> String {
    let text = verdict.to_string();
    match verdict {
        Verdict::Faster => Tone::Good.ink(&text),
        Verdict::Slower | Verdict::Invalid => Tone::Bad.ink(&text),
        Verdict::Undecided => Tone::Doubt.ink(&text),
        Verdict::Baseline => Tone::Quiet.ink(&text),
        Verdict::Same => text,
    }
}

/// Whether the settings took effect, in its colour.
pub(super) fn applied(applied: Applied) -> String {
    let text = applied.to_string();
    match applied {
        Applied::Applied => text,
        Applied::Unverified => Tone::Doubt.ink(&text),
        Applied::Partly | Applied::DiffersByRank | Applied::Overridden | Applied::NotApplied => Tone::Bad.ink(&text),
    }
}

/// Cases named one by one where something holds at some of them.
const NAMED: usize = 2;

/// `at all 4 sizes`, `at 3 of 4 sizes`, `at 7168x1 and 7168x2`: where something holds, of `all` cases of one mode.
pub(super) fn at(run: &Run, cases: &[usize], all: usize) -> String {
    let things = units::plural(all, thing(run));
    match cases.len() {
        some if some == all && all > 1 => format!("at all {things}"),
        some if some <= NAMED => {
            let labels: Vec<_> = cases.iter().map(|&case| label(run, case)).collect();
            format!("at {}", labels.join(" and "))
        }
        some => format!("at {some} of {things}"),
    }
}

/// How texts name a case: by its size, and by all else but the mode when cases of one mode differ in more.
pub(super) fn label(run: &Run, case: usize) -> String {
    let case = run.header.plan.cases[case];
    if one_kind(run) { case.label() } else { format!("{} {} {} {}", case.label(), case.dtype, case.op, case.placement) }
}

/// ` in graph mode`, when there is more than one mode.
pub(super) fn in_mode(run: &Run, mode: Mode) -> String {
    if run.header.plan.modes().len() > 1 { format!(" in {mode} mode") } else { String::new() }
}

/// What the cases of a mode are called: sizes where they differ in nothing else.
pub(super) fn thing(run: &Run) -> &'static str {
    if one_kind(run) { "size" } else { "case" }
}

/// Whether the cases of each mode differ in size only.
fn one_kind(run: &Run) -> bool {
    groups(&run.header.plan.cases).len() == run.header.plan.modes().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn cases_that_differ_in_more_than_size_stand_in_tables_of_their_own() {
        let mut in_place = fixture::case(1, Mode::Graph);
        in_place.placement = Placement::InPlace;
        let cases =
            [fixture::case(1, Mode::Graph), in_place, fixture::case(1, Mode::Sync), fixture::case(2, Mode::Graph)];
        let found: Vec<_> = groups(&cases).into_iter().map(|group| (group.title(), group.cases)).collect();
        let expected = [
            ("graph, bf16 sum out-of-place".to_owned(), vec![0, 3]),
            ("graph, bf16 sum in-place".to_owned(), vec![1]),
            ("sync, bf16 sum out-of-place".to_owned(), vec![2]),
        ];
        assert_eq!(found, expected);
    }
}
