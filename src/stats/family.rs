//! The verdicts of a whole table: one error rate over all its cells and all looks.

use super::cell::Cell;
use super::comparison::Comparison;
use super::paired::Difference;
use super::sequential::Looks;
use super::spread::Pool;
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
    /// The verdict of the latest look that reached one.
    pub verdict: Verdict,
    /// The rounds after which that look was.
    pub decided_after: Option<u32>,
}

impl Plan {
    /// The usual error rate of a table.
    pub const ERROR: f64 = 0.05;
    /// How far ahead a forecast looks in a run of fixed length.
    const HORIZON: u32 = 200;

    /// The tail of one cell's interval at one look when `cells` share the error.
    fn tail(&self, cells: usize) -> f64 {
        self.looks.tail(self.error / 2.0 / cells.max(1) as f64)
    }

    fn undecided(&self, comparison: Option<&Comparison>, have: usize, rounds: u32, tail: f64) -> Undecided {
        let Some(comparison) = comparison else { return Undecided::TooFewRounds { have } };
        let ahead = match self.looks {
            Looks::Once => Some(rounds + 1),
            Looks::Auto => self.looks.next(rounds),
        };
        let next = |look: u32| match self.looks {
            Looks::Once => (look < rounds + Self::HORIZON).then_some(look + 1),
            Looks::Auto => self.looks.next(look),
        };
        std::iter::successors(ahead, |look| next(*look))
            .map(|look| look - rounds)
            .find(|more| would_decide(comparison, self.tolerance, tail, *more))
            .map_or(Undecided::TooClose, Undecided::More)
    }
}

/// Judges the cells of a run after `rounds` rounds, each against the baseline's cell of its case.
///
/// `pairs` are the whole family: all cells that the run compares, whether or not they were measured. The answer has their
/// order and depends on nothing but the data and the plan, so a stored run is judged again with the same result.
#[must_use]
pub fn judge(plan: &Plan, pairs: &[Pair], rounds: u32) -> Vec<Judgement> {
    let mut decided: Vec<Option<(u32, Verdict)>> = vec![None; pairs.len()];
    for look in plan.looks.taken(rounds) {
        let tail = plan.tail(pairs.len());
        for (decided, comparison) in decided.iter_mut().zip(compare(pairs, look)) {
            if let Some(verdict) = comparison.and_then(|c| decide(&c, plan.tolerance, tail)) {
                *decided = Some((look, verdict));
            }
        }
    }
    let conclude = |(pair, (decided, comparison)): (&Pair, (Option<(u32, Verdict)>, Option<Comparison>))| {
        let undecided = || {
            let have = pair.baseline.visits().min(pair.candidate.visits());
            Verdict::Undecided(plan.undecided(comparison.as_ref(), have, rounds, plan.tail(pairs.len())))
        };
        let verdict = decided.map_or_else(undecided, |(_, verdict)| verdict);
        Judgement { comparison, verdict, decided_after: decided.map(|(look, _)| look) }
    };
    pairs.iter().zip(decided.into_iter().zip(compare(pairs, rounds))).map(conclude).collect()
}

/// Judges two runs that share no rounds: the candidate of each pair is the cell of the later one.
#[must_use]
pub fn judge_runs(tolerance: Tolerance, error: f64, pairs: &[Pair]) -> Vec<Judgement> {
    let plan = Plan { tolerance, looks: Looks::Once, error };
    let runs: Vec<Option<Runs>> = pairs.iter().map(|pair| Runs::of(pair.baseline, pair.candidate)).collect();
    let judged = |(pair, run): (&Pair, &Option<Runs>)| {
        let kin = pairs.iter().zip(&runs).filter(|(other, _)| other.kin == pair.kin);
        let pool = Pool::of(kin.filter_map(|(_, run)| run.as_ref()).flat_map(Runs::spreads));
        let comparison = run.as_ref().map(|run| run.moderated(&pool));
        let have = pair.baseline.visits().min(pair.candidate.visits());
        let tail = plan.tail(pairs.len());
        let decided = comparison.and_then(|c| decide(&c, tolerance, tail));
        let undecided = || Verdict::Undecided(plan.undecided(comparison.as_ref(), have, have as u32, tail));
        Judgement { comparison, verdict: decided.unwrap_or_else(undecided), decided_after: None }
    };
    pairs.iter().zip(&runs).map(judged).collect()
}

/// Every pair's comparison from the first `rounds` rounds, moderated by its kin.
fn compare(pairs: &[Pair], rounds: u32) -> Vec<Option<Comparison>> {
    let differences: Vec<Option<Difference>> =
        pairs.iter().map(|pair| Difference::of(pair.baseline, pair.candidate, rounds)).collect();
    let pool = |kin: u32| {
        let of_kin = pairs.iter().zip(&differences).filter(|(pair, _)| pair.kin == kin);
        Pool::of(of_kin.filter_map(|(_, difference)| difference.as_ref()).map(|difference| &difference.spread))
    };
    let moderated = |(pair, difference): (&Pair, &Option<Difference>)| {
        difference.as_ref().map(|difference| difference.moderated(&pool(pair.kin)))
    };
    pairs.iter().zip(&differences).map(moderated).collect()
}
