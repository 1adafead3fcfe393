//! Tails and quantiles of Student's t, on the side where they keep their digits.

use statrs::function::beta::{beta_reg, inv_beta_reg};

/// P(T > t) for `df` degrees of freedom. `t` may be infinite.
pub(super) fn t_tail(t: f64, df: f64) -> f64 {
    let both = if t.is_infinite() { 0.0 } else { beta_reg(df / 2.0, 0.5, df / (df + t * t)) };
    if t >= 0.0 { both / 2.0 } else { 1.0 - both / 2.0 }
}

/// The t with P(T > t) = `p`, for `p` at most one half.
pub(super) fn t_quantile(p: f64, df: f64) -> f64 {
    debug_assert!(p > 0.0 && p <= 0.5, "upper tail expected, got {p}");
    let y = inv_beta_reg(df / 2.0, 0.5, 2.0 * p);
    (df * (1.0 - y) / y).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_printed_tables() {
        for (p, df, t) in [(0.025, 2.0, 4.302_653), (0.025, 11.0, 2.200_985), (0.001, 4.0, 7.173_182), (0.5, 3.0, 0.0)]
        {
            let got = t_quantile(p, df);
            assert!((got - t).abs() < 2e-6, "t({p}, {df}) = {got}, expected {t}");
        }
    }

    #[test]
    fn tail_and_quantile_invert_each_other_far_out() {
        for df in [2.0, 3.5, 7.0, 40.0] {
            for p in [0.3, 0.01, 1e-4, 1e-7] {
                let back = t_tail(t_quantile(p, df), df);
                assert!((back / p - 1.0).abs() < 1e-6, "df {df}, p {p}: {back}");
            }
        }
    }

    #[test]
    fn the_tail_of_an_infinite_t_is_nothing_or_all() {
        assert_eq!(t_tail(f64::INFINITY, 3.0), 0.0);
        assert_eq!(t_tail(f64::NEG_INFINITY, 3.0), 1.0);
    }
}
