//! Requirements on figures that have an interval: the whole of it must lie on one side of the bound.

use std::collections::HashMap;

use super::own::{self, Own};
use super::plan::{AcceptPlan, Cells, Golden, Latency, Quantile, Requirement, Speedup};
use super::{Judged, Outcome};
use crate::collective::Case;
use crate::compare;
use crate::error::Result;
use crate::plan::schedule::{Arm, Plan};
use crate::record::run::{Cell, Verdict};
use crate::record::stored::Stored;
use crate::stats::{self, Looks, Pair, Tolerance};
use crate::units::{beside, exact};

const NO_INTERVAL: &str = "fewer than three visits have no interval";

/// Quantiles of the tails with their intervals, by arm and case: each visit has one, over all its samples.
pub(super) struct Tails(HashMap<(Arm, usize, u32), stats::Cell>);

impl Tails {
    /// Those that `plan` asks for. Samples are in the journal only: without it there is none.
    pub(super) fn of(plan: &AcceptPlan, run: &Stored) -> Result<Self> {
        let bounds = plan.requirements.iter().flat_map(|requirement| match requirement {
            Requirement::Latency(latency) => latency.bounds.as_slice(),
            _ => &[],
        });
        let mut wanted: Vec<f64> = bounds.map(|(quantile, _)| quantile.share()).filter(|share| *share != 0.5).collect();
        wanted.sort_by(f64::total_cmp);
        wanted.dedup();
        let found = run.quantiles(&wanted)?;
        Ok(Self(found.into_iter().map(|((arm, case, at), cell)| ((arm, case, percent(wanted[at])), cell)).collect()))
    }
}

fn percent(share: f64) -> u32 {
    (share * 100.0).round() as u32
}

/// What an interval says of a bound that must not be passed upwards.
fn at_most(bound: f64, interval: Option<[f64; 2]>) -> Outcome {
    match interval {
        Some([_, high]) if high <= bound => Outcome::Pass,
        Some([low, _]) if low > bound => Outcome::Fail,
        Some(_) | None => Outcome::Undecided,
    }
}

/// The cells that a requirement is about, with the index of the case; and its name as a line of the report.
fn chosen<'a>(run: &Own<'a>, cells: &Cells) -> Vec<&'a Cell> {
    let plan = run.plan();
    let holds = |case: &Case| {
        let sizes = cells.sizes.as_ref().and_then(|sizes| sizes.sizes(case.dtype).ok());
        cells.mode.is_none_or(|mode| mode == case.mode) && sizes.is_none_or(|sizes| sizes.contains(&case.size))
    };
    let of_set = |cell: &&Cell| cell.set == cells.set && holds(&plan.cases[cell.case]);
    run.cells().filter(of_set).collect()
}

fn label(plan: &Plan, arm: Arm, case: usize) -> String {
    named(plan, &plan.arm_name(arm), &plan.cases[case])
}

/// A case of a plan under this name of an arm, as short as tells it from the other cases.
fn named(plan: &Plan, arm: &str, case: &Case) -> String {
    let kinds = |of: &Case| (of.dtype, of.op, of.placement);
    let plain = plan.cases.iter().all(|other| kinds(other) == kinds(case));
    let case = if plain { format!("{} {}", case.label(), case.mode) } else { case.to_string() };
    format!("{arm} {case}")
}

/// `≤ 30.0 µs`.
fn within(bound: f64) -> String {
    format!("≤ {} µs", exact(bound))
}

/// `≥ 1.30× default`.
fn worth(wanted: &Speedup) -> String {
    format!("≥ {}× {}", exact(wanted.at_least), wanted.over)
}

/// Nothing that the plan asks for is in the run.
fn absent(kind: &'static str, cells: &Cells, bound: String) -> Judged {
    let sizes = cells.sizes.as_ref().map_or_else(String::new, |sizes| {
        let items: Vec<String> = sizes.items().map(ToString::to_string).collect();
        format!(" {}", items.join(","))
    });
    let mode = cells.mode.map_or_else(String::new, |mode| format!(" {mode}"));
    Judged::new(kind, format!("{}{sizes}{mode}", cells.set), bound, Outcome::NotMeasured)
        .because("the run has no such cell")
}

/// Why a cell's figures are not those of its set.
fn unusable(run: &Own, cell: &Cell) -> Option<String> {
    match () {
        () if cell.wrong_outputs > 0 => {
            Some(format!("{} of {} outputs are wrong", cell.wrong_outputs, cell.checked_outputs))
        }
        () if run.tally.failures(cell.arm).is_some() => run.tally.failures(cell.arm),
        () if cell.median_us.is_none() => Some("nothing was measured".to_owned()),
        () if cell.applied.is_lost() => Some(format!("the settings are not in effect: {}", cell.applied)),
        () => None,
    }
}

/// A line for each cell and quantile.
pub(super) fn latency(run: &Own, latency: &Latency, tails: &Tails) -> Vec<Judged> {
    let cells = chosen(run, &latency.cells);
    if cells.is_empty() {
        let bound = |(quantile, bound): &(Quantile, f64)| format!("{quantile} {}", within(*bound));
        return latency.bounds.iter().map(|one| absent("latency", &latency.cells, bound(one))).collect();
    }
    let of_cell = |cell| latency.bounds.iter().map(move |(quantile, bound)| time(run, cell, *quantile, *bound, tails));
    cells.into_iter().flat_map(of_cell).collect()
}

fn time(run: &Own, cell: &Cell, quantile: Quantile, bound: f64, tails: &Tails) -> Judged {
    let name = format!("{} {quantile}", label(run.plan(), cell.arm, cell.case));
    let judged = |outcome| Judged::new("latency", name.clone(), within(bound), outcome);
    if let Some(why) = unusable(run, cell) {
        return judged(Outcome::NotMeasured).because(why);
    }
    let tail = tails.0.get(&(cell.arm, cell.case, percent(quantile.share())));
    let typical = tail.and_then(stats::Cell::typical);
    let (value, interval) = match quantile {
        Quantile::P50 => (cell.median_us, cell.interval_us),
        Quantile::P95 => (typical.map(|t| t.point).or(cell.p95_us), typical.map(|t| t.interval.into())),
        Quantile::P99 => (typical.map(|t| t.point).or(cell.p99_us), typical.map(|t| t.interval.into())),
    };
    let Some(value) = value else { return judged(Outcome::NotMeasured).because("the run has no samples of it") };
    let mut judged = judged(at_most(bound, interval)).found(format!("{} µs", beside(bound, value)));
    (judged.value, judged.interval, judged.limit) = (Some(value), interval, Some(bound));
    match (interval, quantile, tail) {
        (Some(_), ..) => judged,
        (None, Quantile::P95 | Quantile::P99, None) => {
            judged.because("its interval needs the samples in journal.jsonl")
        }
        (None, ..) => judged.because(NO_INTERVAL),
    }
}

/// A line for each cell.
pub(super) fn speedup(run: &Own, speedup: &Speedup) -> Result<Vec<Judged>> {
    let plan = run.plan();
    let cells = chosen(run, &speedup.cells);
    if cells.is_empty() {
        return Ok(vec![absent("speedup", &speedup.cells, worth(speedup))]);
    }
    let slower = |cell: &Cell| {
        let same = |other: &&Cell| {
            let but_for_its_set = Arm { set: cell.arm.set, ..other.arm };
            other.set == speedup.over && other.case == cell.case && but_for_its_set == cell.arm
        };
        run.cells().find(same)
    };
    let levels = |cell: &Cell| run.tally.cell(cell.arm, cell.case);
    let none = stats::Cell::none();
    let modes = plan.modes();
    let kin = |cell: &Cell| modes.iter().position(|mode| *mode == cell.mode).unwrap_or(0) as u32;
    let pair =
        |cell: &&Cell| Pair { baseline: slower(cell).map_or(&none, levels), candidate: levels(cell), kin: kin(cell) };
    let pairs: Vec<Pair> = cells.iter().map(pair).collect();
    // Only ratios and intervals are taken from it; its verdicts answer another question.
    let how = stats::Plan { tolerance: Tolerance::new(plan.tolerance)?, looks: Looks::Once, error: stats::Plan::ERROR };
    let rounds = run.tally.complete_rounds(plan);
    let judged = stats::judge(&how, &pairs, rounds);
    Ok(cells
        .iter()
        .zip(judged)
        .map(|(cell, judgement)| faster(run, speedup, cell, slower(cell), judgement.comparison))
        .collect())
}

fn faster(run: &Own, wanted: &Speedup, cell: &Cell, over: Option<&Cell>, found: Option<stats::Comparison>) -> Judged {
    let name = label(run.plan(), cell.arm, cell.case);
    let judged = |outcome| Judged::new("speedup", name.clone(), worth(wanted), outcome);
    let Some(over) = over else { return judged(Outcome::NotMeasured).because(format!("{} did not run", wanted.over)) };
    for (of, which) in [(cell, ""), (over, wanted.over.as_str())] {
        if let Some(why) = unusable(run, of) {
            return judged(Outcome::NotMeasured)
                .because(format!("{which}{}{why}", if which.is_empty() { "" } else { ": " }));
        }
    }
    let Some(found) = found else { return judged(Outcome::Undecided).because(NO_INTERVAL) };
    let (low, high) = found.interval(0.95);
    // Time over time of the other way round: the interval's ends change places.
    let (speedup, interval) = (1.0 / found.ratio(), [1.0 / high, 1.0 / low]);
    let both = run.tally.conditions(cell.arm).zip(run.tally.conditions(over.arm));
    let unlike = both.and_then(|(own, other)| own.unlike((&cell.set, &over.set), other));
    let outcome = match unlike {
        Some(_) => Outcome::Undecided,
        None => at_most(-wanted.at_least, Some([-interval[1], -interval[0]])),
    };
    let mut judged = judged(outcome).found(format!("{}×", beside(wanted.at_least, speedup)));
    (judged.value, judged.interval, judged.reason) = (Some(speedup), Some(interval), unlike);
    judged.limit = Some(wanted.at_least);
    judged
}

/// A line for each cell of the golden run.
pub(super) fn golden(run: &Stored, planned: &Plan, wanted: &Golden, golden: Option<&Stored>) -> Result<Vec<Judged>> {
    let Some(golden) = golden else {
        let judged = Judged::new("golden", "the golden run", "not slower", Outcome::NotMeasured);
        return Ok(vec![judged.because(format!("{} was not read", wanted.run.display()))]);
    };
    let tolerance = wanted.tolerance.map(|tolerance| tolerance.fraction());
    let asked = |made: &Plan, arm: Arm, case: usize| own::asks(planned, made, arm, case);
    let comparison = compare::compare_those(golden, run, tolerance, &asked)?;
    let limit = 1.0 + comparison.tolerance;
    let bound = format!("≤ {}× golden", exact(limit));
    let name = |arm: &str, case: &Case| named(planned, arm, case);
    let mut lines: Vec<Judged> = comparison
        .cells
        .iter()
        .map(|cell| {
            let outcome = match cell.verdict {
                Verdict::Faster | Verdict::Same | Verdict::Baseline => Outcome::Pass,
                Verdict::Slower => Outcome::Fail,
                Verdict::Undecided => Outcome::Undecided,
                Verdict::Invalid => Outcome::NotMeasured,
            };
            let mut judged = Judged::new("golden", name(&cell.set, &cell.case), bound.clone(), outcome);
            judged.measured = cell.ratio.map(|ratio| format!("{}×", beside(limit, ratio)));
            (judged.value, judged.interval, judged.limit) = (cell.ratio, cell.ratio_interval, Some(limit));
            judged.reason.clone_from(&cell.verdict_reason);
            judged
        })
        .collect();
    let missing = comparison.only_old.iter().map(|cell| {
        let judged = Judged::new("golden", name(&cell.set, &cell.case), bound.clone(), Outcome::NotMeasured);
        judged.because("only the golden run has this cell")
    });
    lines.extend(missing);
    Ok(lines)
}
