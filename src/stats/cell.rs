//! [`Cell`]: the visits of one env set × case, and what one visit says of it.

use crate::error::{Error, Kind, Result};

use super::special::t_quantile;
use super::spread::{Pool, Spread};

/// One process: the value of each of its communicators, on the log scale, in the order they were made.
///
/// The order matters: the first communicator of a process is up to 9% slower than the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    round: u32,
    logs: Box<[f64]>,
}

/// The visits of one env set × case, at most one in a round, by round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell(Vec<Visit>);

/// The typical time of a cell: the geometric mean of its visits, in µs, with its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Typical {
    /// The geometric mean over visits; within a visit over its communicators.
    pub point: f64,
    /// Where the typical time of all visits lies with 95% confidence.
    pub interval: (f64, f64),
    /// How many visits it rests on.
    pub visits: usize,
}

/// What each visit says, all read at the same positions.
pub(super) struct Levels {
    /// Round and log level of each visit.
    pub by_round: Vec<(u32, f64)>,
    /// What the spread of communicators within a visit adds to the variance of one level; `None` with one position or
    /// fewer than two visits.
    pub within: Option<f64>,
}

impl Visit {
    /// The values (µs) of a process's communicators in the order they were made, measured in `round` (counted from 0).
    pub fn new(round: u32, values: impl IntoIterator<Item = f64>) -> Result<Self> {
        let logs: Box<[f64]> = values.into_iter().map(f64::ln).collect();
        if logs.is_empty() || logs.iter().any(|log| !log.is_finite()) {
            let what = if logs.is_empty() { "no communicator's time" } else { "a time that is no positive number" };
            return Err(Error::new(Kind::Incomplete, format!("a visit of round {round} has {what}")));
        }
        Ok(Self { round, logs })
    }
}

impl Cell {
    /// A cell without visits.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// A cell of these visits, in any order; it may have none. An error when two are of one round.
    pub fn new(visits: Vec<Visit>) -> Result<Self> {
        let mut cell = Self(Vec::with_capacity(visits.len()));
        visits.into_iter().try_for_each(|visit| cell.add(visit))?;
        Ok(cell)
    }

    /// Takes one more visit into account. An error when there is one of its round.
    pub fn add(&mut self, visit: Visit) -> Result<()> {
        match self.0.binary_search_by_key(&visit.round, |known| known.round) {
            Ok(_) => Err(Error::new(Kind::Incomplete, format!("round {} visits one cell twice", visit.round))),
            Err(at) => {
                // Not room for four: a run of very many cells has few visits of each.
                self.0.reserve_exact(usize::from(self.0.is_empty()));
                self.0.insert(at, visit);
                Ok(())
            }
        }
    }

    /// What several cells of one env set say together: per communicator the geometric mean over the cells, for the
    /// rounds and positions that all of them have.
    #[must_use]
    pub fn joint(cells: &[&Self]) -> Self {
        let Some((first, others)) = cells.split_first() else { return Self(Vec::new()) };
        let of_round = |visit: &Visit| {
            let mut all = vec![visit];
            for cell in others {
                all.push(&cell.0[cell.0.binary_search_by_key(&visit.round, |v| v.round).ok()?]);
            }
            let positions = all.iter().map(|v| v.logs.len()).min()?;
            let mean = |k: usize| all.iter().map(|v| v.logs[k]).sum::<f64>() / all.len() as f64;
            Some(Visit { round: visit.round, logs: (0..positions).map(mean).collect() })
        };
        Self(first.0.iter().filter_map(of_round).collect())
    }

    /// How many visits it has.
    #[must_use]
    pub fn visits(&self) -> usize {
        self.0.len()
    }

    /// How many of the first `rounds` rounds visit both cells.
    pub(super) fn common_rounds(&self, other: &Self, rounds: u32) -> usize {
        let of_other = |visit: &&Visit| other.0.binary_search_by_key(&visit.round, |v| v.round).is_ok();
        self.until(rounds).iter().filter(of_other).count()
    }

    /// The typical time with its interval, whose variance is moderated by this cell's own communicators only.
    #[must_use]
    pub fn typical(&self) -> Option<Typical> {
        let levels = self.levels(self.positions(u32::MAX), u32::MAX);
        let values: Vec<f64> = levels.by_round.iter().map(|(_, level)| *level).collect();
        let (mean, spread) = Spread::of(&values, levels.within)?;
        let (variance, df) = Pool::of([&spread]).moderate(&spread);
        let half = t_quantile(0.025, df) * (variance / values.len() as f64).sqrt();
        Some(Typical { point: mean.exp(), interval: ((mean - half).exp(), (mean + half).exp()), visits: values.len() })
    }

    /// The most communicators a visit of the first `rounds` rounds has.
    pub(super) fn positions(&self, rounds: u32) -> usize {
        self.until(rounds).iter().map(|visit| visit.logs.len()).max().unwrap_or(0)
    }

    fn until(&self, rounds: u32) -> &[Visit] {
        &self.0[..self.0.partition_point(|visit| visit.round < rounds)]
    }

    /// The level of each visit of the first `rounds` rounds over the first `positions` communicators.
    ///
    /// A visit that ended early is read as if it had gone on: its communicators' values are taken relative to what the
    /// complete visits have at the same positions.
    pub(super) fn levels(&self, positions: usize, rounds: u32) -> Levels {
        let visits = self.until(rounds);
        let complete: Vec<&[f64]> = visits.iter().filter_map(|v| v.logs.get(..positions)).collect();
        let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len() as f64;
        let mut effects = vec![0.0; positions];
        for logs in &complete {
            let level = mean(logs);
            for (effect, log) in effects.iter_mut().zip(*logs) {
                *effect += (log - level) / complete.len() as f64;
            }
        }
        let level = |logs: &[f64]| {
            let seen = logs.len().min(positions);
            mean(&logs[..seen]) - mean(&effects[..seen])
        };
        let freedom = complete.len().saturating_sub(1) * positions.saturating_sub(1);
        let within = (freedom > 0).then(|| {
            let residual = |logs: &&[f64]| {
                let level = level(logs);
                logs.iter().zip(&effects).map(|(log, effect)| (log - level - effect).powi(2)).sum::<f64>()
            };
            complete.iter().map(residual).sum::<f64>() / freedom as f64 / positions as f64
        });
        Levels { by_round: visits.iter().map(|visit| (visit.round, level(&visit.logs))).collect(), within }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(visits: &[(u32, &[f64])]) -> Cell {
        Cell::new(visits.iter().map(|(round, values)| Visit::new(*round, values.iter().copied()).unwrap()).collect())
            .unwrap()
    }

    #[test]
    fn a_visit_without_a_time_or_with_a_wrong_one_is_an_error() {
        for bad in [vec![], vec![50.0, f64::NAN], vec![0.0], vec![-3.0], vec![f64::INFINITY]] {
            assert!(Visit::new(0, bad.clone()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_round_visits_a_cell_once() {
        let visit = Visit::new(4, [50.0]).unwrap();
        assert!(Cell::new(vec![visit.clone(), visit]).is_err());
    }

    #[test]
    fn below_three_visits_there_is_no_interval() {
        let two: [(u32, &[f64]); 2] = [(0, &[50.0, 51.0]), (1, &[50.5, 50.0])];
        assert_eq!(cell(&two).typical(), None);
        assert_eq!(cell(&[]).typical(), None);
    }

    #[test]
    fn the_typical_time_is_the_geometric_mean_of_visits() {
        let typical = cell(&[(0, &[40.0]), (1, &[50.0]), (2, &[62.5])]).typical().unwrap();
        assert!((typical.point - 50.0).abs() < 1e-9);
        // One communicator a visit: the plain t with two degrees of freedom.
        let half = 4.302_653 * (1.25_f64.ln().powi(2) / 3.0).sqrt();
        assert!(((typical.interval.1 / 50.0).ln() - half).abs() < 1e-6, "{typical:?}");
    }

    #[test]
    fn the_order_of_visits_does_not_matter() {
        let visits: [(u32, &[f64]); 3] = [(0, &[40.0, 41.0]), (1, &[50.0, 49.0]), (2, &[62.5, 60.0])];
        let backwards: Vec<_> = visits.iter().rev().copied().collect();
        assert_eq!(cell(&visits), cell(&backwards));
    }

    #[test]
    fn a_visit_cut_short_is_read_as_if_it_had_gone_on() {
        // The first communicator is 10% slower in every visit; the last visit has but that one.
        let full: [(u32, &[f64]); 3] = [(0, &[55.0, 50.0]), (1, &[66.0, 60.0]), (2, &[55.0, 50.0])];
        let short: [(u32, &[f64]); 3] = [(0, &[55.0, 50.0]), (1, &[66.0, 60.0]), (2, &[55.0])];
        let levels = |visits| cell(visits).levels(2, u32::MAX).by_round;
        for ((_, full), (_, short)) in levels(&full).iter().zip(levels(&short)) {
            assert!((full - short).abs() < 1e-12, "{full} {short}");
        }
    }

    #[test]
    fn what_communicators_add_leaves_out_levels_and_positions() {
        let exact: [(u32, &[f64]); 3] = [(0, &[55.0, 50.0]), (1, &[66.0, 60.0]), (2, &[44.0, 40.0])];
        assert!(cell(&exact).levels(2, u32::MAX).within.unwrap() < 1e-24);
        assert_eq!(cell(&exact).levels(1, u32::MAX).within, None);
    }

    #[test]
    fn a_joint_cell_has_the_rounds_and_positions_of_all() {
        let small = cell(&[(0, &[10.0, 10.0]), (1, &[10.0, 20.0]), (3, &[10.0, 10.0])]);
        let large = cell(&[(0, &[40.0, 90.0]), (3, &[40.0])]);
        let joint = Cell::joint(&[&small, &large]);
        let expected = cell(&[(0, &[20.0, 30.0]), (3, &[20.0])]);
        for (got, expected) in joint.0.iter().zip(&expected.0) {
            assert_eq!((got.round, got.logs.len()), (expected.round, expected.logs.len()));
            assert!(got.logs.iter().zip(&expected.logs).all(|(a, b)| (a - b).abs() < 1e-12));
        }
        assert_eq!(joint.visits(), 2);
        assert_eq!(Cell::joint(&[]).visits(), 0);
    }
}
