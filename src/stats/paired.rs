//! Two cells of one run: differences within rounds, so that what drifts over rounds cancels.

use super::cell::Cell;
use super::comparison::Comparison;
use super::spread::{Pool, Spread};

/// The mean difference of log levels (candidate − baseline) over the rounds that both cells have, and its spread.
pub(super) struct Difference {
    mean: f64,
    rounds: usize,
    /// The spread of a single round's difference.
    pub spread: Spread,
}

impl Difference {
    /// From the first `rounds` rounds; `None` when fewer than three have both cells.
    pub fn of(baseline: &Cell, candidate: &Cell, rounds: u32) -> Option<Self> {
        // Read both at the same positions: the first communicator of a process differs from the others.
        let positions = baseline.positions(rounds).min(candidate.positions(rounds));
        let (baseline, candidate) = (baseline.levels(positions, rounds), candidate.levels(positions, rounds));
        let difference = |(round, level): &(u32, f64)| {
            let at = baseline.by_round.binary_search_by_key(round, |(round, _)| *round).ok()?;
            Some(level - baseline.by_round[at].1)
        };
        let differences: Vec<f64> = candidate.by_round.iter().filter_map(difference).collect();
        let within = baseline.within.zip(candidate.within).map(|(one, other)| one + other);
        let (mean, spread) = Spread::of(&differences, within)?;
        Some(Self { mean, rounds: differences.len(), spread })
    }

    /// The comparison, its variance moderated by the family's.
    pub fn moderated(&self, pool: &Pool) -> Comparison {
        let (variance, freedom) = pool.moderate(&self.spread);
        let error = (variance / self.rounds as f64).sqrt();
        Comparison { log_ratio: self.mean, error, freedom, rounds: self.rounds }
    }
}
