//! The verdicts of a whole table: one error rate over all its cells and all looks.
//!
//! The cells share the error by Holm's rule: as long as m cells are open each may spend 1/m of it, and what is decided
//! leaves its share to the others. A decided cell stays as it was decided.

use std::collections::BTreeMap;

use super::cell::Cell;
use super::comparison::Comparison;
use super::paired::Difference;
use super::sequential::Looks;
use super::spread::{Pool, Spread};
use super::unpaired::Runs;
use super::verdict::{Tolerance, Undecided, Verdict, decide, would_decide};

/// How verdicts are drawn, fixed before the first round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// What counts as the same.
    pub tolerance: Tolerance,
    /// When verdicts are drawn.
    pub looks: Looks,
    /// The probability that any cell of the table gets a verdict that is wrong.
    pub error: f64,
}

/// A cell and the baseline's cell of the same case; for two runs: after and before.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The baseline's cell.
    pub baseline: &'a Cell,
    /// The cell to judge.
    pub candidate: &'a Cell,
    /// Cells of one kin (those of one mode) are taken to have the same kind of noise and steady each other's intervals.
    pub kin: u32,
}

/// The verdict of one pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// Ratio and interval from all rounds; `None` below three rounds that both cells have.
    pub comparison: Option<Comparison>,
    /// The verdict of the first look that reached one.
    pub verdict: Verdict,
    /// The rounds after which that look was.
    pub decided_after: Option<u32>,
}

/// The look (rounds) that decided a cell, and its verdict.
type Decision = Option<(u32, Verdict)>;

impl Plan {
    /// The usual error rate of a table.
    pub const ERROR: f64 = 0.05;
    /// How many more rounds the forecast of a run of fixed length considers.
    const HORIZON: u32 = 200;

    /// The tail of one cell's interval at one look while `open` cells share the error.
    ///
    /// At every true ratio a single claim is false for all practical purposes, so each side may leave the whole error;
    /// never more than the 2.5% of the interval that a report shows, so that a verdict never contradicts it.
    fn tail(&self, open: usize) -> f64 {
        self.looks.tail(self.error / open.max(2) as f64)
    }

    /// Draws the verdicts of one look.
    fn look(&self, rounds: u32, comparisons: &[Option<Comparison>], decisions: &mut [Decision]) {
        loop {
            let open = open(decisions);
            let tail = self.tail(open);
            for (decision, comparison) in decisions.iter_mut().zip(comparisons).filter(|(d, _)| d.is_none()) {
                let verdict = comparison.and_then(|comparison| decide(&comparison, self.tolerance, tail));
                *decision = verdict.map(|verdict| (rounds, verdict));
            }
            if self::open(decisions) == open {
                return;
            }
        }
    }

    /// Why a cell is open after `rounds` rounds, of which `have` could be compared, and what it takes to decide it.
    fn undecided(&self, have: usize, comparison: Option<&Comparison>, rounds: u32, open: usize) -> Undecided {
        let Some(comparison) = comparison else { return Undecided::TooFewRounds { have } };
        let tail = self.tail(open);
        let ahead: Vec<u32> = match self.looks {
            Looks::Once => (1..=Self::HORIZON).collect(),
            Looks::Auto => self.looks.after(rounds).map(|look| look - rounds).collect(),
        };
        let more = ahead.partition_point(|more| !would_decide(comparison, self.tolerance, tail, *more));
        let out_of_reach = || Undecided::OutOfReach(ahead.last().copied().unwrap_or(0));
        ahead.get(more).map_or_else(out_of_reach, |more| Undecided::More(*more))
    }

    /// What all looks and all data say of one pair.
    fn conclude(
        &self,
        have: usize,
        comparison: Option<Comparison>,
        decision: Decision,
        rounds: u32,
        open: usize,
    ) -> Judgement {
        match decision {
            Some((look, verdict)) => Judgement { comparison, verdict, decided_after: Some(look) },
            None => {
                let why = self.undecided(have, comparison.as_ref(), rounds, open);
                Judgement { comparison, verdict: Verdict::Undecided(why), decided_after: None }
            }
        }
    }
}

/// Judges the cells of a run after `rounds` rounds, each against the baseline's cell of its case.
///
/// `pairs` are the whole family: all cells that the run compares, whether or not they could be measured. The answer has
/// their order and depends on nothing but the data and the plan, so a stored run is judged again with the same result.
#[must_use]
pub fn judge(plan: &Plan, pairs: &[Pair], rounds: u32) -> Vec<Judgement> {
    let mut decisions: Vec<Decision> = vec![None; pairs.len()];
    for look in plan.looks.taken(rounds) {
        plan.look(look, &compare(pairs, look), &mut decisions);
    }
    let open = open(&decisions);
    let conclude = |((pair, comparison), decision): ((&Pair, _), _)| {
        let have = pair.baseline.common_rounds(pair.candidate, rounds);
        plan.conclude(have, comparison, decision, rounds, open)
    };
    pairs.iter().zip(compare(pairs, rounds)).zip(decisions).map(conclude).collect()
}

/// Judges two runs that share no rounds: the candidate of each pair is the cell of the later one.
///
/// The forecast of an undecided pair counts visits that both runs would need more.
#[must_use]
pub fn judge_runs(tolerance: Tolerance, error: f64, pairs: &[Pair]) -> Vec<Judgement> {
    let plan = Plan { tolerance, looks: Looks::Once, error };
    let runs: Vec<Option<Runs>> = pairs.iter().map(|pair| Runs::of(pair.baseline, pair.candidate)).collect();
    let pools = pools(pairs, &runs, Runs::spreads);
    let moderated = |(pair, runs): (&Pair, &Option<Runs>)| runs.as_ref().map(|runs| runs.moderated(&pools[&pair.kin]));
    let comparisons: Vec<Option<Comparison>> = pairs.iter().zip(&runs).map(moderated).collect();
    let mut decisions: Vec<Decision> = vec![None; pairs.len()];
    plan.look(0, &comparisons, &mut decisions);
    let open = open(&decisions);
    let conclude = |((pair, comparison), decision): ((&Pair, _), _)| {
        let have = pair.baseline.visits().min(pair.candidate.visits());
        Judgement { decided_after: None, ..plan.conclude(have, comparison, decision, 0, open) }
    };
    pairs.iter().zip(comparisons).zip(decisions).map(conclude).collect()
}

fn open(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|decision| decision.is_none()).count()
}

/// Every pair's comparison from the first `rounds` rounds, moderated by its kin.
fn compare(pairs: &[Pair], rounds: u32) -> Vec<Option<Comparison>> {
    let differences: Vec<Option<Difference>> =
        pairs.iter().map(|pair| Difference::of(pair.baseline, pair.candidate, rounds)).collect();
    let pools = pools(pairs, &differences, |difference| std::iter::once(&difference.spread));
    let moderated = |(pair, difference): (&Pair, &Option<Difference>)| {
        difference.as_ref().map(|difference| difference.moderated(&pools[&pair.kin]))
    };
    pairs.iter().zip(&differences).map(moderated).collect()
}

/// The pool of every kin, from what could be measured of its pairs.
fn pools<'a, T, I: Iterator<Item = &'a Spread>>(
    pairs: &[Pair],
    measured: &'a [Option<T>],
    spreads: impl Fn(&'a T) -> I,
) -> BTreeMap<u32, Pool> {
    let mut of_kin: BTreeMap<u32, Vec<&Spread>> = BTreeMap::new();
    for (pair, measured) in pairs.iter().zip(measured) {
        of_kin.entry(pair.kin).or_default().extend(measured.iter().flat_map(&spreads));
    }
    of_kin.into_iter().map(|(kin, spreads)| (kin, Pool::of(spreads))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Visit;

    /// A cell whose visits have these levels (µs), each with three communicators around it.
    fn cell(levels: &[f64]) -> Cell {
        let visits = levels.iter().zip(0..).map(|(level, round)| {
            Visit::new(round, [1.03, 0.99, 1.0].map(|position| position * level * (1.0 + 0.001 * f64::from(round % 2))))
        });
        Cell::new(visits.collect::<Result<_, _>>().unwrap()).unwrap()
    }

    fn plan(looks: Looks) -> Plan {
        Plan { tolerance: Tolerance::new(0.05).unwrap(), looks, error: Plan::ERROR }
    }

    fn verdict_of(candidate: &Cell, looks: Looks) -> Judgement {
        let baseline = cell(&[50.0, 50.4, 49.8, 50.1, 50.2, 49.9]);
        judge(&plan(looks), &[Pair { baseline: &baseline, candidate, kin: 0 }], 6)[0]
    }

    #[test]
    fn a_clear_difference_gets_the_verdict_of_its_direction() {
        let at = |factor: f64| cell(&[50.1, 50.2, 50.0, 49.9, 50.3, 50.0].map(|level| level * factor));
        for (factor, verdict) in [(0.8, Verdict::Faster), (1.0, Verdict::Same), (1.3, Verdict::Slower)] {
            for looks in [Looks::Once, Looks::Auto] {
                let judged = verdict_of(&at(factor), looks);
                assert_eq!(judged.verdict, verdict, "factor {factor}, {looks:?}");
                let ratio = judged.comparison.unwrap().ratio();
                assert!((ratio / factor - 1.0).abs() < 0.01, "factor {factor}: {ratio}");
            }
        }
    }

    #[test]
    fn below_three_rounds_nothing_is_said() {
        let baseline = cell(&[50.0, 50.4]);
        let candidate = cell(&[30.0, 30.1]);
        for rounds in [0, 2] {
            let pair = Pair { baseline: &baseline, candidate: &candidate, kin: 0 };
            let judged = judge(&plan(Looks::Once), &[pair], rounds);
            assert_eq!(judged[0].comparison, None);
            let have = rounds as usize;
            assert_eq!(judged[0].verdict, Verdict::Undecided(Undecided::TooFewRounds { have }));
        }
    }

    #[test]
    fn rounds_that_a_verdict_lacks_are_those_that_both_cells_have() {
        let at = |rounds: &[u32]| {
            Cell::new(rounds.iter().map(|round| Visit::new(*round, [50.0, 50.1]).unwrap()).collect()).unwrap()
        };
        let have = |baseline: &[u32], candidate: &[u32], rounds| {
            let (baseline, candidate) = (at(baseline), at(candidate));
            let pair = Pair { baseline: &baseline, candidate: &candidate, kin: 0 };
            judge(&plan(Looks::Auto), &[pair], rounds)[0].verdict
        };
        let lacks = |have| Verdict::Undecided(Undecided::TooFewRounds { have });
        assert_eq!(have(&[0, 1, 2], &[2, 3, 4], 5), lacks(1));
        // Interrupted in the third round, when a third set had not been visited yet.
        assert_eq!(have(&[0, 1, 2], &[0, 1, 2], 2), lacks(2));
    }

    #[test]
    fn a_cell_without_visits_leaves_the_others_their_verdicts() {
        let (baseline, fast, none) =
            (cell(&[50.0, 50.3, 49.8]), cell(&[30.0, 30.1, 30.0]), Cell::new(Vec::new()).unwrap());
        let pairs = [&none, &fast].map(|candidate| Pair { baseline: &baseline, candidate, kin: 0 });
        let judged = judge(&plan(Looks::Auto), &pairs, 3);
        assert_eq!(judged[0].verdict, Verdict::Undecided(Undecided::TooFewRounds { have: 0 }));
        assert_eq!(judged[1].verdict, Verdict::Faster);
    }

    #[test]
    fn rounds_that_one_cell_lacks_do_not_count() {
        let baseline = cell(&[50.0, 50.4, 49.8, 50.1, 50.2, 49.9]);
        let visits = [0, 2, 5].map(|round| Visit::new(round, [46.0, 44.1, 44.6]).unwrap());
        let candidate = Cell::new(visits.to_vec()).unwrap();
        let pair = Pair { baseline: &baseline, candidate: &candidate, kin: 0 };
        assert_eq!(judge(&plan(Looks::Once), &[pair], 6)[0].comparison.unwrap().rounds, 3);
        assert_eq!(judge(&plan(Looks::Once), &[pair], 5)[0].comparison, None);
    }

    #[test]
    fn a_verdict_stands_while_the_run_goes_on() {
        let baseline = cell(&[50.0, 50.4, 49.8, 50.1, 70.0, 30.0]);
        let candidate = cell(&[40.0, 40.2, 40.1, 39.9, 41.0, 40.0]);
        let pair = Pair { baseline: &baseline, candidate: &candidate, kin: 0 };
        let early = judge(&plan(Looks::Auto), &[pair], 4)[0];
        let late = judge(&plan(Looks::Auto), &[pair], 6)[0];
        assert_eq!((early.verdict, late.verdict), (Verdict::Faster, Verdict::Faster));
        assert_eq!(early.decided_after, late.decided_after);
        assert_ne!(early.comparison, late.comparison);
    }

    #[test]
    fn a_larger_family_asks_for_more() {
        let baseline = cell(&[50.0, 52.0, 48.5, 51.0, 49.0, 50.5]);
        let candidate = cell(&[43.0, 46.5, 44.0, 43.5, 45.5, 43.9]);
        let pair = Pair { baseline: &baseline, candidate: &candidate, kin: 0 };
        let undecidable = Pair { candidate: &baseline, baseline: &cell(&[52.4, 54.8, 50.9, 53.5, 51.5, 53.0]), kin: 1 };
        let judged = |others: usize| {
            let pairs: Vec<Pair> = [pair].into_iter().chain(vec![undecidable; others]).collect();
            judge(&plan(Looks::Once), &pairs, 6)[0].verdict
        };
        assert_eq!(judged(0), Verdict::Faster);
        assert!(matches!(judged(2000), Verdict::Undecided(Undecided::More(_))), "{:?}", judged(2000));
    }

    #[test]
    fn an_estimate_at_the_tolerance_is_out_of_reach() {
        let baseline = cell(&[50.0, 50.4, 49.8, 50.1, 50.2, 49.9]);
        let candidate = cell(&[50.0, 50.4, 49.8, 50.1, 50.2, 49.9].map(|level| level * 1.05));
        let pair = Pair { baseline: &baseline, candidate: &candidate, kin: 0 };
        let judged = judge(&plan(Looks::Auto), &[pair], 6);
        assert_eq!(judged[0].verdict, Verdict::Undecided(Undecided::OutOfReach(34)));
    }

    #[test]
    fn the_forecast_is_the_first_planned_look_that_would_decide() {
        let baseline = cell(&[50.0, 52.0, 48.5]);
        let candidate = cell(&[47.5, 50.0, 48.0]);
        let pair = Pair { baseline: &baseline, candidate: &candidate, kin: 0 };
        let Verdict::Undecided(Undecided::More(more)) = judge(&plan(Looks::Auto), &[pair], 3)[0].verdict else {
            panic!("three rounds of this spread decide nothing");
        };
        assert!(Looks::Auto.after(3).any(|look| look == 3 + more), "{more}");
    }

    #[test]
    fn two_runs_are_compared_without_pairing() {
        let before = cell(&[50.0, 50.4, 49.8, 50.1]);
        let after = cell(&[40.0, 40.4, 39.8, 40.1, 40.2]);
        let tolerance = Tolerance::new(0.05).unwrap();
        let judged = judge_runs(tolerance, Plan::ERROR, &[Pair { baseline: &before, candidate: &after, kin: 0 }]);
        assert_eq!(judged[0].verdict, Verdict::Faster);
        let (low, high) = judged[0].comparison.unwrap().interval(0.95);
        assert!(low < 0.8 && 0.8 < high, "{low} to {high}");
    }

    #[test]
    fn what_never_varies_is_known_exactly() {
        let constant = |value: f64| {
            Cell::new((0..3).map(|round| Visit::new(round, [value; 2])).collect::<Result<_, _>>().unwrap()).unwrap()
        };
        let (baseline, candidate) = (constant(64.0), constant(32.0));
        let judged = judge(&plan(Looks::Auto), &[Pair { baseline: &baseline, candidate: &candidate, kin: 0 }], 3);
        assert_eq!(judged[0].verdict, Verdict::Faster);
        let (low, high) = judged[0].comparison.unwrap().interval(0.95);
        assert!(high - low < 1e-9 && (low - 0.5).abs() < 1e-9, "{low} to {high}");
    }
}
