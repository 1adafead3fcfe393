//! [`Shown`]: which cells of a run a page shows, so that its size stays bounded whatever the size of the run.

use std::collections::HashMap;

use crate::plan::schedule::Arm;
use crate::record::run::{Cell, Run, Verdict};
use crate::report::cells::{Group, arms, groups};
use crate::report::conclusion::ranking;
use crate::units::{count, plural};

/// Rows of all tables of results together.
const ROWS: usize = 600;
/// Env sets in tables.
const SETS: usize = 24;
/// Env sets in one plot: as many as there are colours that can be told apart.
pub(super) const CURVES: usize = 8;
/// Cases that get plots of their samples and communicators.
const PANELS: usize = 12;

/// What is shown, and what is left out.
pub(super) struct Shown<'a> {
    pub(super) run: &'a Run,
    /// Env sets in the tables, in the order of the plan.
    pub(super) arms: Vec<Arm>,
    /// Env sets in the plots, in the order of the plan, the baseline first.
    pub(super) plotted: Vec<Arm>,
    /// Tables, each with the cases that it shows.
    pub(super) groups: Vec<Group>,
    /// Cases with plots of their own.
    pub(super) panels: Vec<usize>,
    /// What is left out, in sentences.
    pub(super) left_out: Vec<String>,
    cells: HashMap<(Arm, usize), &'a Cell>,
}

impl<'a> Shown<'a> {
    /// Of a large run the baseline, what was expected, and what is fastest; sizes spread evenly, those with trouble first.
    pub(super) fn of(run: &'a Run) -> Self {
        let all = arms(run);
        let order = by_interest(run, &all);
        let first = |most: usize| {
            let mut some: Vec<Arm> = order.iter().take(most).copied().collect();
            some.sort_by_key(|arm| all.iter().position(|of| of == arm));
            some
        };
        let (arms, plotted) = (first(SETS), first(CURVES));
        let cells: HashMap<_, _> = run.cells.iter().map(|cell| ((cell.arm, cell.case), cell)).collect();
        let trouble = |case: usize| {
            let of = |arm: &Arm| cells.get(&(*arm, case)).is_some_and(|cell| is_trouble(cell.verdict));
            arms.iter().any(of)
        };
        let mut groups = groups(&run.header.plan.cases);
        let each = (ROWS / arms.len().max(1) / groups.len().max(1)).max(1);
        let of_all = run.header.plan.cases.len();
        groups.truncate((ROWS / arms.len().max(1)).max(1));
        for group in &mut groups {
            group.cases = pick(&group.cases, each, &trouble);
        }
        let cases: Vec<usize> = groups.iter().flat_map(|group| group.cases.iter().copied()).collect();
        let panels = pick(&cases, PANELS, &|_| false);
        let left_out = left_out(&[
            (arms.len(), all.len(), "set", "in tables"),
            (cases.len(), of_all, "case", "in tables"),
            (plotted.len(), all.len(), "set", "in plots"),
            (panels.len(), of_all, "case", "with plots of samples and communicators"),
        ]);
        Self { run, arms, plotted, groups, panels, left_out, cells }
    }

    /// A cell, when the run has it.
    pub(super) fn cell(&self, arm: Arm, case: usize) -> Option<&'a Cell> {
        self.cells.get(&(arm, case)).copied()
    }

    /// Whether plots of samples and communicators show this cell.
    pub(super) fn has_panel(&self, arm: Arm, case: usize) -> bool {
        self.panels.contains(&case) && self.plotted.contains(&arm)
    }
}

fn is_trouble(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Slower | Verdict::Invalid | Verdict::Undecided)
}

/// The baseline, expected sets, then the fastest over all sizes of a mode; sets without a ratio last.
fn by_interest(run: &Run, all: &[Arm]) -> Vec<Arm> {
    let plan = &run.header.plan;
    let mut order: Vec<Arm> = all.first().copied().into_iter().collect();
    order.extend(all.iter().skip(1).filter(|arm| plan.expect.contains(&plan.sets[arm.set].name)));
    let mut ratios: HashMap<Arm, f64> = HashMap::new();
    for joint in plan.modes().into_iter().flat_map(|mode| ranking(run, mode)) {
        let best = ratios.entry(joint.arm).or_insert(f64::INFINITY);
        *best = best.min(joint.ratio.unwrap_or(f64::INFINITY));
    }
    let ratio = |arm: &Arm| ratios.get(arm).copied().unwrap_or(f64::INFINITY);
    let mut others: Vec<Arm> = all.iter().filter(|arm| !order.contains(arm)).copied().collect();
    others.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    order.extend(others);
    order
}

/// `most` of these: up to half of it what is `urgent`, the rest spread evenly from the first to the last.
pub(super) fn pick(all: &[usize], most: usize, urgent: &dyn Fn(usize) -> bool) -> Vec<usize> {
    if all.len() <= most {
        return all.to_vec();
    }
    let mut picked: Vec<usize> = (0..all.len()).filter(|at| urgent(all[*at])).take(most / 2).collect();
    let left = most - picked.len();
    picked.extend((0..left).map(|of| if left > 1 { of * (all.len() - 1) / (left - 1) } else { 0 }));
    picked.sort_unstable();
    picked.dedup();
    picked.into_iter().map(|at| all[at]).collect()
}

/// `24 of 200 sets in tables`, for what is not whole.
pub(super) fn left_out(parts: &[(usize, usize, &str, &str)]) -> Vec<String> {
    let cut = parts.iter().filter(|(shown, all, ..)| shown < all);
    cut.map(|(shown, all, thing, place)| format!("{} of {} {place}", count(*shown as u64), plural(*all, thing)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Mode;
    use crate::record::fixture;

    #[test]
    fn an_ordinary_run_is_shown_whole() {
        let run = fixture::two_sets();
        let shown = Shown::of(&run);
        assert_eq!((shown.arms.len(), shown.plotted.len(), shown.panels.len()), (2, 2, 4));
        assert!(shown.left_out.is_empty() && shown.has_panel(shown.arms[1], 3));
    }

    #[test]
    fn of_many_sets_the_baseline_what_was_expected_and_the_fastest_are_shown() {
        let names: Vec<String> = (0..200).map(|at| format!("set-{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut run = fixture::run(&names, &[1, 2].map(|tokens| fixture::case(tokens, Mode::Graph)));
        run.header.plan.expect = vec!["set-77".into()];
        let shown = Shown::of(&run);
        let has = |set: usize| shown.plotted.iter().any(|arm| arm.set == set);
        assert!(has(0) && has(77));
        let ratio = |set: usize| run.joint.iter().find(|joint| joint.arm.set == set).unwrap().ratio;
        let fastest = (1..200).min_by(|a, b| ratio(*a).partial_cmp(&ratio(*b)).unwrap()).unwrap();
        assert!(has(fastest));
        assert_eq!((shown.arms.len(), shown.plotted.len()), (SETS, CURVES));
        assert_eq!(shown.left_out, ["24 of 200 sets in tables", "8 of 200 sets in plots"]);
    }

    #[test]
    fn of_many_sizes_those_with_trouble_and_both_ends_are_shown() {
        let all: Vec<usize> = (0..10_000).collect();
        let picked = pick(&all, 100, &|case| case == 1234);
        assert!(picked.len() <= 100 && picked.is_sorted());
        for case in [0, 1234, 9999] {
            assert!(picked.contains(&case), "{case}");
        }
        assert_eq!(pick(&all, 1, &|_| true), [0]);
    }
}
