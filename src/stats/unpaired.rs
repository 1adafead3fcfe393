//! Two runs: their visits share no round, so each run brings its own variance (Welch).

use super::cell::Cell;
use super::comparison::Comparison;
use super::spread::{Pool, Spread};

/// The levels of both runs: mean, visits, and spread of a single visit.
pub(super) struct Runs {
    arms: [(f64, usize, Spread); 2],
}

impl Runs {
    /// `None` when a run has fewer than three visits.
    pub fn of(before: &Cell, after: &Cell) -> Option<Self> {
        let positions = before.positions(u32::MAX).min(after.positions(u32::MAX));
        let arm = |cell: &Cell| {
            let levels = cell.levels(positions, u32::MAX);
            let values: Vec<f64> = levels.by_round.iter().map(|(_, level)| *level).collect();
            Spread::of(&values, levels.within).map(|(mean, spread)| (mean, values.len(), spread))
        };
        Some(Self { arms: [arm(before)?, arm(after)?] })
    }

    /// The spreads of both runs, for pooling over a family.
    pub fn spreads(&self) -> impl Iterator<Item = &Spread> {
        self.arms.iter().map(|(_, _, spread)| spread)
    }

    /// The comparison (after / before), with the degrees of freedom of Welch and Satterthwaite.
    pub fn moderated(&self, pool: &Pool) -> Comparison {
        let [(before, few, a), (after, more, b)] = &self.arms;
        let part = |spread: &Spread, visits: usize| {
            let (variance, freedom) = pool.moderate(spread);
            (variance / visits as f64, freedom)
        };
        let ((a, of_a), (b, of_b)) = (part(a, *few), part(b, *more));
        let variance = a + b;
        let freedom = if variance > 0.0 { variance.powi(2) / (a * a / of_a + b * b / of_b) } else { of_a.min(of_b) };
        Comparison { log_ratio: after - before, error: variance.sqrt(), freedom, rounds: *few.min(more) }
    }
}
