//! [`Comparison`]: the ratio of two cells on the log scale, and how sure it is.

use super::special::{t_quantile, t_tail};
use super::verdict::Tolerance;

/// Candidate against baseline: log ratio, its standard error and the degrees of freedom of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    pub(super) log_ratio: f64,
    pub(super) error: f64,
    pub(super) freedom: f64,
    /// Rounds that both cells have, or for two runs the visits of the smaller one.
    pub rounds: usize,
}

impl Comparison {
    /// Time of the candidate over time of the baseline: below 1 is faster.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.log_ratio.exp()
    }

    /// The interval of the ratio at a confidence `level` such as 0.95, for this cell alone.
    #[must_use]
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let (low, high) = self.reach((1.0 - level) / 2.0);
        (low.exp(), high.exp())
    }

    /// The log ratio's interval that leaves `tail` on each side.
    pub(super) fn reach(&self, tail: f64) -> (f64, f64) {
        let half = t_quantile(tail, self.freedom) * self.error;
        (self.log_ratio - half, self.log_ratio + half)
    }

    /// p-value against "at least the tolerance apart" (two one-sided tests).
    #[must_use]
    pub fn p_same(&self, tolerance: Tolerance) -> f64 {
        self.above(-tolerance.log()).max(self.below(tolerance.log()))
    }

    /// p-value against "not faster by more than the tolerance".
    #[must_use]
    pub fn p_faster(&self, tolerance: Tolerance) -> f64 {
        self.below(-tolerance.log())
    }

    /// p-value against "not slower by more than the tolerance".
    #[must_use]
    pub fn p_slower(&self, tolerance: Tolerance) -> f64 {
        self.above(tolerance.log())
    }

    /// p-value of the hypothesis that the log ratio is at most `limit`.
    fn above(&self, limit: f64) -> f64 {
        let distance = self.log_ratio - limit;
        // Without any spread the ratio is known exactly.
        if distance == 0.0 { 0.5 } else { t_tail(distance / self.error, self.freedom) }
    }

    /// p-value of the hypothesis that the log ratio is at least `limit`.
    fn below(&self, limit: f64) -> f64 {
        Self { log_ratio: -self.log_ratio, ..*self }.above(-limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(ratio: f64, error: f64) -> Comparison {
        Comparison { log_ratio: ratio.ln(), error, freedom: 5.0, rounds: 4 }
    }

    #[test]
    fn the_interval_lies_around_the_ratio_on_the_log_scale() {
        let comparison = comparison(0.8, 0.01);
        let (low, high) = comparison.interval(0.95);
        assert!((low * high / comparison.ratio().powi(2) - 1.0).abs() < 1e-12);
        assert!(((high / low).ln() / 0.02 - 2.570_582).abs() < 1e-5);
    }

    #[test]
    fn a_p_value_is_small_for_the_claim_that_holds_only() {
        let tolerance = Tolerance::new(0.05).unwrap();
        for (ratio, small) in [(0.8, 0), (1.0, 1), (1.25, 2)] {
            let c = comparison(ratio, 0.005);
            let p = [c.p_faster(tolerance), c.p_same(tolerance), c.p_slower(tolerance)];
            for (claim, p) in p.into_iter().enumerate() {
                assert!(if claim == small { p < 0.001 } else { p > 0.99 }, "ratio {ratio}, claim {claim}: p = {p}");
            }
        }
    }

    #[test]
    fn faster_and_slower_mirror_each_other() {
        let tolerance = Tolerance::new(0.03).unwrap();
        let faster = comparison(0.94, 0.02).p_faster(tolerance);
        assert!((faster - comparison(1.0 / 0.94, 0.02).p_slower(tolerance)).abs() < 1e-15);
    }

    #[test]
    fn without_spread_the_ratio_is_known() {
        let tolerance = Tolerance::new(0.05).unwrap();
        let exact = comparison(1.0, 0.0);
        assert_eq!(exact.interval(0.95), (1.0, 1.0));
        assert_eq!((exact.p_same(tolerance), exact.p_faster(tolerance)), (0.0, 1.0));
    }
}
