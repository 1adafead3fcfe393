//! Verdicts of the cells that two runs have in common: unpaired, one error rate for all of them.

use std::collections::HashMap;

use super::matching::{Key, Matching};
use super::{Compared, Figures, Together};
use crate::collective::Mode;
use crate::plan::schedule::Arm;
use crate::record::run::{Applied, Cell, Verdict};
use crate::record::stored::Tallied;
use crate::stats::{self, Judgement, Pair, Tolerance, Undecided};

/// One run's side of a matched cell.
struct Measured<'a> {
    of: &'a Tallied<'a>,
    key: Key,
    levels: &'a stats::Cell,
    /// The summary of its document.
    cell: Option<&'a Cell>,
}

/// The cells, in the order of the new run, and their joint verdicts.
pub(super) fn judge(
    old: &Tallied,
    new: &Tallied,
    matching: &Matching,
    tolerance: Tolerance,
) -> (Vec<Compared>, Vec<Together>) {
    let (before, after): (Vec<Key>, Vec<Key>) = matching.both.iter().copied().unzip();
    let (before, after) = (measured(old, &before), measured(new, &after));
    let modes = new.run.header.plan.modes();
    let kin = |of: &Measured| modes.iter().position(|known| *known == mode(of)).unwrap_or(0) as u32;
    let both = before.iter().zip(&after);
    let pairs: Vec<Pair> =
        both.map(|(old, new)| Pair { baseline: old.levels, candidate: new.levels, kin: kin(new) }).collect();
    let judged = stats::judge_runs(tolerance, stats::Plan::ERROR, &pairs);
    let cells = before.iter().zip(&after).zip(&judged);
    let cells = cells.map(|((old, new), judgement)| compared(old, new, judgement)).collect();
    (cells, together(&before, &after, tolerance))
}

fn measured<'a>(of: &'a Tallied<'a>, keys: &[Key]) -> Vec<Measured<'a>> {
    let cells: HashMap<Key, &Cell> = of.run.cells.iter().map(|cell| ((cell.arm, cell.case), cell)).collect();
    let at = |key: &Key| {
        let levels = of.tally.cell(key.0, key.1);
        Measured { of, key: *key, levels, cell: cells.get(key).copied() }
    };
    keys.iter().map(at).collect()
}

fn mode(of: &Measured) -> Mode {
    of.of.run.header.plan.cases[of.key.1].mode
}

fn compared(old: &Measured, new: &Measured, judgement: &Judgement) -> Compared {
    let plan = &new.of.run.header.plan;
    let case = plan.cases[new.key.1];
    let comparison = judgement.comparison;
    let (verdict, verdict_reason) = verdict(old, new, judgement);
    Compared {
        set: plan.arm_name(new.key.0),
        case,
        size_bytes: case.bytes().0,
        old: figures(old),
        new: figures(new),
        ratio: comparison.map(|comparison| comparison.ratio()),
        ratio_interval: comparison.map(|comparison| comparison.interval(0.95).into()),
        verdict,
        verdict_reason,
    }
}

fn figures(of: &Measured) -> Figures {
    let plan = &of.of.run.header.plan;
    Figures {
        nccl: plan.libraries[of.key.0.library].version,
        visits: of.levels.visits() as u32,
        median_us: of.cell.and_then(|cell| cell.median_us),
        interval_us: of.cell.and_then(|cell| cell.interval_us),
        applied: of.cell.map_or(Applied::Unverified, |cell| cell.applied),
    }
}

fn verdict(old: &Measured, new: &Measured, judgement: &Judgement) -> (Verdict, Option<String>) {
    let invalid = [(old, "old"), (new, "new")].into_iter().find_map(|(of, name)| Some((name, failure(of)?)));
    if let Some((name, why)) = invalid {
        return (Verdict::Invalid, Some(format!("{name} run: {why}")));
    }
    if let stats::Verdict::Undecided(why) = judgement.verdict {
        return (Verdict::Undecided, Some(undecided(why)));
    }
    let verdict = Verdict::from(judgement.verdict);
    match drift(old, new) {
        Some(reason) => (Verdict::Undecided, Some(format!("measured {verdict}, but {reason}"))),
        None => (verdict, None),
    }
}

/// Why a cell has no figures to compare.
fn failure(of: &Measured) -> Option<String> {
    let (arm, case) = of.key;
    let checks = of.of.tally.checks(arm, case);
    match () {
        () if checks.wrong > 0 => Some(format!("{} of {} outputs are wrong", checks.wrong, checks.outputs)),
        () if of.of.tally.failures(arm).is_some() => of.of.tally.failures(arm),
        () if of.levels.visits() == 0 => Some("nothing was measured".to_owned()),
        () => None,
    }
}

/// Two runs have visits where one run has rounds.
fn undecided(why: Undecided) -> String {
    match why {
        Undecided::TooFewRounds { have: 1 } => "one visit cannot tell how far visits differ".to_owned(),
        Undecided::TooFewRounds { have } => format!("{have} of at least {} visits in each run", stats::MIN_ROUNDS),
        Undecided::More(1) => "about 1 more visit in each run would decide".to_owned(),
        Undecided::More(visits) => format!("about {visits} more visits in each run would decide"),
        Undecided::OutOfReach(visits) => format!("at this estimate not even {visits} more visits would decide"),
    }
}

/// What would explain a difference without the box having become faster or slower. Clocks are no such thing: a driver that
/// lets them run lower makes the box slower, so they stand among the changes.
fn drift(old: &Measured, new: &Measured) -> Option<String> {
    let (before, after) = (old.of.tally.conditions(old.key.0)?, new.of.tally.conditions(new.key.0)?);
    after.throttled_alone(("the new run", "the old run"), before)
}

/// Cells of one mode of an arm, of both runs.
struct Group<'a> {
    arms: (Arm, Arm),
    mode: Mode,
    old: Vec<&'a stats::Cell>,
    new: Vec<&'a stats::Cell>,
    /// Whether all of them may be compared.
    sound: bool,
}

/// All sizes of one mode of an arm together.
fn together(before: &[Measured], after: &[Measured], tolerance: Tolerance) -> Vec<Together> {
    let Some(first) = after.first() else { return Vec::new() };
    let plan = &first.of.run.header.plan;
    let groups = groups(before, after);
    let joint: Vec<_> =
        groups.iter().map(|group| (stats::Cell::joint(&group.old), stats::Cell::joint(&group.new))).collect();
    // As in a run, a family of its own.
    let pairs: Vec<Pair> = joint.iter().map(|(baseline, candidate)| Pair { baseline, candidate, kin: 0 }).collect();
    let judged = stats::judge_runs(tolerance, stats::Plan::ERROR, &pairs);
    let of = |(group, judgement): (&Group, &Judgement)| Together {
        set: plan.arm_name(group.arms.1),
        mode: group.mode,
        ratio: judgement.comparison.map(|comparison| comparison.ratio()),
        ratio_interval: judgement.comparison.map(|comparison| comparison.interval(0.95).into()),
        verdict: if group.sound { judgement.verdict.into() } else { Verdict::Undecided },
    };
    groups.iter().zip(&judged).map(of).collect()
}

fn groups<'a>(before: &'a [Measured], after: &'a [Measured]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group> = Vec::new();
    for (old, new) in before.iter().zip(after) {
        let (arms, mode) = ((old.key.0, new.key.0), mode(new));
        let at = groups.iter().position(|group| (group.arms, group.mode) == (arms, mode)).unwrap_or_else(|| {
            groups.push(Group { arms, mode, old: Vec::new(), new: Vec::new(), sound: true });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.old.push(old.levels);
        group.new.push(new.levels);
        group.sound &= failure(old).is_none() && failure(new).is_none() && drift(old, new).is_none();
    }
    groups
}
