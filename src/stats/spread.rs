//! How uncertain a mean over few visits is: the variance between visits, steadied by what their communicators show.
//!
//! Three visits estimate a variance with two degrees of freedom; the t of that is 4.3 for a single 95% interval and
//! beyond 20 for a verdict in a family. But the communicators of the same visits, some 20 degrees of freedom, tell how
//! large the variance is at least, and the other cells tell how much processes add. Both enter as a prior (Smyth 2004's
//! moderated t) with the weight of [`PRIOR_FREEDOM`] degrees of freedom: little enough that where the prior is wrong the
//! intervals still hold, which `cargo xtask simulate` shows.

/// The degrees of freedom that the prior variance counts for.
const PRIOR_FREEDOM: f64 = 1.5;
/// A priori, the variance between visits is this many times what communicators alone would cause: as in stream mode, the
/// noisiest measured (5.8; graph mode 1.9, lone calls 0.7).
const PRIOR_RATIO: f64 = 6.0;
/// The degrees of freedom that [`PRIOR_RATIO`] counts for against the ratios measured in the family.
const PRIOR_RATIO_FREEDOM: f64 = 4.0;
/// A variance of log times below this is rounding: no clock tells times apart that differ by a part in 10¹⁰.
const ROUNDING: f64 = 1e-20;

/// The variance of one unit (a visit's level, or a round's difference).
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    /// Measured between the units.
    pub between: f64,
    /// Its degrees of freedom.
    pub freedom: f64,
    /// What the spread of communicators within visits would cause by itself.
    pub within: Option<f64>,
}

/// What a family of cells of the same kind of noise says about `between / within`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    ratio: f64,
}

impl Spread {
    /// The mean of the units and their spread; `None` below [`MIN_ROUNDS`](super::MIN_ROUNDS) units.
    pub fn of(units: &[f64], within: Option<f64>) -> Option<(f64, Self)> {
        if units.len() < super::MIN_ROUNDS {
            return None;
        }
        let mean = units.iter().sum::<f64>() / units.len() as f64;
        let freedom = (units.len() - 1) as f64;
        let between = units.iter().map(|unit| (unit - mean).powi(2)).sum::<f64>() / freedom;
        Some((mean, Self { between, freedom, within: within.filter(|within| *within > ROUNDING) }))
    }
}

impl Pool {
    /// Pools the ratios of these spreads; never below 1, since communicators are part of their visit.
    pub fn of<'a>(spreads: impl IntoIterator<Item = &'a Spread>) -> Self {
        let prior = (PRIOR_RATIO * PRIOR_RATIO_FREEDOM, PRIOR_RATIO_FREEDOM);
        let (sum, weight) = spreads.into_iter().fold(prior, |(sum, weight), spread| match spread.within {
            Some(within) => (sum + spread.freedom * spread.between / within, weight + spread.freedom),
            None => (sum, weight),
        });
        Self { ratio: (sum / weight).max(1.0) }
    }

    /// The moderated variance of one unit and its degrees of freedom. Plain where a visit has one communicator only.
    pub fn moderate(&self, spread: &Spread) -> (f64, f64) {
        let Some(within) = spread.within else { return (spread.between, spread.freedom) };
        let freedom = PRIOR_FREEDOM + spread.freedom;
        ((PRIOR_FREEDOM * self.ratio * within + spread.freedom * spread.between) / freedom, freedom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lucky_variance_is_raised_towards_what_communicators_show() {
        let lucky = Spread { between: 1e-6, freedom: 2.0, within: Some(1e-4) };
        let (variance, freedom) = Pool::of([&lucky]).moderate(&lucky);
        assert!(variance > 4e-5 && variance < 4e-4, "{variance}");
        assert_eq!(freedom, 2.0 + PRIOR_FREEDOM);
    }

    #[test]
    fn the_prior_fades_with_rounds() {
        let spread = Spread { between: 1e-6, freedom: 400.0, within: Some(1e-6) };
        let (variance, _) = Pool::of([&spread]).moderate(&spread);
        assert!((variance / 1e-6 - 1.0).abs() < 0.02, "{variance}");
    }

    #[test]
    fn a_noisy_family_raises_each_prior() {
        let quiet = Spread { between: 1e-4, freedom: 2.0, within: Some(1e-4) };
        let noisy = Spread { between: 40e-4, ..quiet };
        let alone = Pool::of([&quiet]).moderate(&quiet).0;
        let among = Pool::of([&quiet, &noisy, &noisy, &noisy]).moderate(&quiet).0;
        assert!(among > 1.5 * alone, "{alone} {among}");
    }

    #[test]
    fn with_one_communicator_a_visit_the_variance_is_plain() {
        let (mean, spread) = Spread::of(&[1.0, 2.0, 3.0], None).unwrap();
        assert_eq!(mean, 2.0);
        assert_eq!(Pool::of([&spread]).moderate(&spread), (1.0, 2.0));
        assert!(Spread::of(&[1.0, 2.0], None).is_none());
    }
}
