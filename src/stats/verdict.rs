//! [`Verdict`]: what may be said of a cell, by its interval against the tolerance.

use std::fmt;

use crate::error::{Error, Result};

use super::comparison::Comparison;

/// Ratios from 1 / (1 + t) to 1 + t count as the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance(f64);

/// What may be said of a candidate against the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Faster by more than the tolerance.
    Faster,
    /// Slower by more than the tolerance.
    Slower,
    /// Within the tolerance: shown to be, not merely not shown to differ.
    Same,
    /// Nothing may be said yet, and why.
    Undecided(Undecided),
}

/// Why a cell is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Fewer rounds than any interval needs have both cells.
    TooFewRounds {
        /// How many there are.
        have: usize,
    },
    /// Were estimate and spread to stay as they are, this many more rounds would decide.
    More(u32),
    /// At the present estimate not even this many more rounds, the most that are planned, would decide. While rounds are
    /// few that says little: the estimate still moves.
    OutOfReach(u32),
}

impl Tolerance {
    /// A tolerance as a fraction: 0.05 is 5%. An error unless between 0 and 1.
    pub fn new(fraction: f64) -> Result<Self> {
        if fraction > 0.0 && fraction < 1.0 {
            return Ok(Self(fraction));
        }
        Err(Error::usage(format!("a tolerance of {fraction} is not between 0 and 1")).help("5% is 0.05"))
    }

    /// The fraction.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.0
    }

    /// Half the width of "the same" on the log scale.
    pub(super) fn log(self) -> f64 {
        self.0.ln_1p()
    }
}

impl Verdict {
    /// Whether something may be said.
    #[must_use]
    pub fn is_decided(self) -> bool {
        !matches!(self, Self::Undecided(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "same",
            Self::Undecided(_) => "undecided",
        })
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewRounds { have } => write!(f, "{have} of at least {} rounds measured", super::MIN_ROUNDS),
            Self::More(1) => f.write_str("about 1 more round would decide"),
            Self::More(rounds) => write!(f, "about {rounds} more rounds would decide"),
            Self::OutOfReach(0) => f.write_str("no further look is planned"),
            Self::OutOfReach(rounds) => write!(f, "at this estimate not even {rounds} more rounds would decide"),
        }
    }
}

/// The verdict when the interval that leaves `tail` on each side lies wholly within, below or above the tolerance: when the
/// claim that the estimate supports has a p-value below `tail`.
pub(super) fn decide(comparison: &Comparison, tolerance: Tolerance, tail: f64) -> Option<Verdict> {
    let limit = tolerance.log();
    let (verdict, p) = match comparison.log_ratio {
        log if log < -limit => (Verdict::Faster, comparison.p_faster(tolerance)),
        log if log > limit => (Verdict::Slower, comparison.p_slower(tolerance)),
        _ => (Verdict::Same, comparison.p_same(tolerance)),
    };
    (p < tail).then_some(verdict)
}

/// Whether `more` rounds would decide, were estimate and spread of a single round to stay as they are. Then more still would.
pub(super) fn would_decide(comparison: &Comparison, tolerance: Tolerance, tail: f64, more: u32) -> bool {
    let rounds = comparison.rounds as f64;
    let then = rounds + f64::from(more);
    let future = Comparison {
        error: comparison.error * (rounds / then).sqrt(),
        freedom: comparison.freedom + f64::from(more),
        ..*comparison
    };
    decide(&future, tolerance, tail).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(log_ratio: f64) -> Comparison {
        Comparison { log_ratio, error: 0.01, freedom: 5.0, rounds: 6 }
    }

    #[test]
    fn a_verdict_needs_the_whole_interval_on_one_side() {
        let tolerance = Tolerance::new(0.05).unwrap();
        for at in (-120..=120).map(|step| f64::from(step) / 1000.0) {
            let (low, high) = comparison(at).reach(0.01);
            let limit = tolerance.log();
            let expected = match () {
                () if high < -limit => Some(Verdict::Faster),
                () if low > limit => Some(Verdict::Slower),
                () if low > -limit && high < limit => Some(Verdict::Same),
                () => None,
            };
            assert_eq!(decide(&comparison(at), tolerance, 0.01), expected, "log ratio {at}");
        }
    }

    #[test]
    fn a_tolerance_is_a_fraction_between_none_and_all() {
        for bad in [0.0, 1.0, -0.05, 5.0, f64::NAN] {
            assert!(Tolerance::new(bad).is_err(), "{bad}");
        }
        assert_eq!(Tolerance::new(0.05).unwrap().fraction(), 0.05);
    }

    #[test]
    fn more_rounds_decide_for_good() {
        let tolerance = Tolerance::new(0.05).unwrap();
        let would: Vec<bool> = (1..100).map(|more| would_decide(&comparison(0.03), tolerance, 0.001, more)).collect();
        let first = would.iter().position(|would| *would).unwrap();
        assert!(first > 0 && would[first..].iter().all(|would| *would));
    }
}
