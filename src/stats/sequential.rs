//! [`Looks`]: when verdicts are drawn, and the share of the error that each look may spend.

/// The rounds after which `--rounds auto` looks.
const AUTO: [u32; 12] = [3, 4, 5, 6, 8, 10, 12, 15, 19, 24, 31, 40];

/// The tail at each look of [`AUTO`], the same at all of them (Pocock 1977), and the error that all looks together leave on one
/// side. Information grows with the rounds; the tests compute the second number from the first.
const AUTO_TAILS: [(f64, f64); 10] = [
    (3e-2, 1.294_695e-1),
    (1e-2, 5.143_663e-2),
    (3e-3, 1.779_829e-2),
    (1e-3, 6.558_060e-3),
    (3e-4, 2.146_334e-3),
    (1e-4, 7.629_436e-4),
    (3e-5, 2.425_700e-4),
    (1e-5, 8.451_865e-5),
    (1e-6, 9.093_028e-6),
    (1e-7, 9.599_997e-7),
];

/// When verdicts are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// Once, at the end of a number of rounds fixed beforehand.
    Once,
    /// After rounds 3, 4, 5, 6, 8, 10, 12, 15, 19, 24, 31 and 40, until all is decided.
    Auto,
}

impl Looks {
    /// The next planned look after `rounds` rounds; none after the last, nor for a run of fixed length.
    #[must_use]
    pub fn next(self, rounds: u32) -> Option<u32> {
        self.after(rounds).next()
    }

    /// All looks of an open run that are planned after `rounds` rounds.
    pub(super) fn after(self, rounds: u32) -> impl Iterator<Item = u32> {
        AUTO.into_iter().filter(move |look| self == Self::Auto && *look > rounds)
    }

    /// The looks that a run of `rounds` rounds has had.
    pub fn taken(self, rounds: u32) -> Vec<u32> {
        match self {
            Self::Once => vec![rounds],
            Self::Auto => AUTO.into_iter().filter(|look| *look <= rounds).collect(),
        }
    }

    /// The tail that the interval of one look leaves on each side, so that all looks together leave `error` on that side.
    pub(super) fn tail(self, error: f64) -> f64 {
        match self {
            Self::Once => error,
            Self::Auto => auto_tail(error),
        }
    }
}

/// Interpolates [`AUTO_TAILS`] on the log scale; outside it the ratio of its end holds (a family of
/// 26 000 cells lies within).
fn auto_tail(error: f64) -> f64 {
    let above = AUTO_TAILS.partition_point(|(_, total)| *total > error);
    if above == 0 || above == AUTO_TAILS.len() {
        let (tail, total) = AUTO_TAILS[above.min(AUTO_TAILS.len() - 1)];
        return error * tail / total;
    }
    let [(high, from), (low, to)] = [AUTO_TAILS[above - 1], AUTO_TAILS[above]];
    let share = (error / from).ln() / (to / from).ln();
    high * (low / high).powf(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Continuous, ContinuousCDF, Normal};

    /// P(a driftless normal walk, observed at the looks, ever exceeds the level that leaves `tail` at each), by the
    /// recursion of Armitage, McPherson and Rowe (1969) on a grid.
    fn crossing(looks: &[u32], tail: f64) -> f64 {
        const POINTS: usize = 401;
        let normal = Normal::standard();
        let limit = -normal.inverse_cdf(tail);
        let grid = |look: u32| {
            let scale = f64::from(look).sqrt();
            let step = (limit + 8.0) * scale / (POINTS - 1) as f64;
            ((0..POINTS).map(|i| -8.0 * scale + step * i as f64).collect::<Vec<_>>(), step)
        };
        let simpson = |i: usize| {
            if i == 0 || i == POINTS - 1 {
                1.0 / 3.0
            } else if i % 2 == 1 {
                4.0 / 3.0
            } else {
                2.0 / 3.0
            }
        };
        let (mut at, mut step) = grid(looks[0]);
        let scale = f64::from(looks[0]).sqrt();
        let mut density: Vec<f64> = at.iter().map(|x| normal.pdf(x / scale) / scale).collect();
        let mut total = tail;
        for pair in looks.windows(2) {
            let added = f64::from(pair[1] - pair[0]).sqrt();
            let mass: Vec<f64> = density.iter().enumerate().map(|(i, f)| f * step * simpson(i)).collect();
            let end = limit * f64::from(pair[1]).sqrt();
            total += at.iter().zip(&mass).map(|(x, m)| m * normal.sf((end - x) / added)).sum::<f64>();
            let (next, next_step) = grid(pair[1]);
            let reach = |y: &f64| at.iter().zip(&mass).map(|(x, m)| m * normal.pdf((y - x) / added) / added).sum();
            density = next.iter().map(reach).collect();
            (at, step) = (next, next_step);
        }
        total
    }

    #[test]
    fn the_tails_of_all_looks_add_up_to_the_error_of_the_table() {
        for (tail, total) in AUTO_TAILS.into_iter().step_by(4) {
            let got = crossing(&AUTO, tail);
            assert!(
                (got / total - 1.0).abs() < 1e-4,
                "tail {tail:e}: all looks leave {got:e}, the table says {total:e}"
            );
        }
    }

    #[test]
    fn the_tail_between_entries_keeps_the_error() {
        for error in [0.0125, 0.00125] {
            let got = crossing(&AUTO, Looks::Auto.tail(error));
            assert!((got / error - 1.0).abs() < 0.01, "asked {error}, got {got}");
        }
    }

    #[test]
    fn a_tail_grows_with_the_error_and_stays_below_it() {
        let errors: Vec<f64> = (0..80).map(|i| 10_f64.powf(-9.0 + f64::from(i) / 10.0)).collect();
        for pair in errors.windows(2) {
            assert!(Looks::Auto.tail(pair[0]) < Looks::Auto.tail(pair[1]), "{pair:?}");
            assert!(Looks::Auto.tail(pair[1]) < pair[1]);
        }
    }

    #[test]
    fn a_fixed_run_looks_once_at_its_end() {
        assert_eq!(Looks::Once.taken(7), [7]);
        assert_eq!(Looks::Once.next(7), None);
        assert_eq!(Looks::Once.tail(0.01), 0.01);
    }

    #[test]
    fn an_open_run_looks_at_the_planned_rounds_only() {
        assert_eq!(Looks::Auto.taken(7), [3, 4, 5, 6]);
        assert_eq!((Looks::Auto.next(2), Looks::Auto.next(6), Looks::Auto.next(40)), (Some(3), Some(8), None));
    }
}
