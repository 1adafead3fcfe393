//! [`Sample`]: the iterations of one replicate, in microseconds.

use crate::error::{Error, Kind, Result};
use crate::units::Micros;

/// Times in µs, sorted. Never empty, all finite and positive.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample(Vec<f64>);

/// A replicate without its start: what is left, how many iterations were cut, and whether it settled at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Settled {
    /// The iterations after the cut.
    pub sample: Sample,
    /// How many iterations at the start were cut.
    pub cut: usize,
    /// False when half of the replicate was cut and what is left still begins away from its end.
    pub settled: bool,
}

/// What a report prints of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle value.
    pub median: Micros,
    /// The arithmetic mean.
    pub mean: Micros,
    /// 95% of the iterations took at most this.
    pub p95: Micros,
    /// 99% of the iterations took at most this.
    pub p99: Micros,
    /// The fastest iteration.
    pub min: Micros,
}

impl Sample {
    /// A sample of these times, in any order. An error when there is none, or one is not a positive finite number.
    pub fn new(mut times: Vec<f64>) -> Result<Self> {
        check(&times)?;
        times.sort_unstable_by(f64::total_cmp);
        Ok(Self(times))
    }

    /// These times, in the order they were measured, without the start that differs from their second half.
    ///
    /// The start goes in blocks of a tenth for as long as the median of a block lies away from the median of the second
    /// half by more than four standard errors (from the median absolute deviation, so that the tail of a replicate
    /// neither hides nor fakes a start) and by more than 0.1%. At most half is cut. Below ten iterations nothing is.
    pub fn settled(mut times: Vec<f64>) -> Result<Settled> {
        check(&times)?;
        let (cut, settled) = start(&times);
        Ok(Settled { sample: Self::new(times.split_off(cut))?, cut, settled })
    }

    /// All iterations of several samples together; `None` without any.
    #[must_use]
    pub fn pooled<'a>(samples: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut times: Vec<f64> = samples.into_iter().flat_map(|sample| &sample.0).copied().collect();
        times.sort_unstable_by(f64::total_cmp);
        (!times.is_empty()).then_some(Self(times))
    }

    /// The times, in ascending order.
    #[must_use]
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }

    /// The quantile at `p` in 0..=1, linear between order statistics (type 7 of Hyndman and Fan).
    #[must_use]
    pub fn quantile(&self, p: f64) -> Micros {
        Micros(quantile(&self.0, p))
    }

    /// The middle value; of an even number of iterations the mean of the two in the middle.
    #[must_use]
    pub fn median(&self) -> Micros {
        self.quantile(0.5)
    }

    /// The arithmetic mean.
    #[must_use]
    pub fn mean(&self) -> Micros {
        Micros(self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// The figures of a report.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            median: self.median(),
            mean: self.mean(),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            min: Micros(self.0[0]),
        }
    }
}

fn check(times: &[f64]) -> Result<()> {
    if times.is_empty() {
        return Err(Error::new(Kind::Incomplete, "a replicate has no iterations"));
    }
    match times.iter().enumerate().find(|(_, time)| !(time.is_finite() && **time > 0.0)) {
        Some((at, bad)) => Err(Error::new(Kind::Incomplete, format!("iteration {at} of a replicate took {bad} µs"))),
        None => Ok(()),
    }
}

/// Type 7 quantile of ascending, non-empty values.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let at = p.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

/// The median of values that need not be a sample, of which there is at least one.
#[must_use]
pub fn median_of(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// How many leading times to cut, and whether what follows agrees with the second half.
fn start(times: &[f64]) -> (usize, bool) {
    const FEWEST: usize = 10;
    const STANDARD_ERRORS: f64 = 4.0;
    /// Relative differences below this are not worth a cut.
    const NEGLIGIBLE: f64 = 1e-3;

    if times.len() < FEWEST {
        return (0, true);
    }
    let half = times.len() / 2;
    let block = times.len() / FEWEST;
    let end = median_of(times[half..].iter().copied());
    let deviation = 1.4826 * median_of(times[half..].iter().map(|t| (t - end).abs()));
    // √(π/2) turns the standard error of a mean into that of a median.
    let reach = (STANDARD_ERRORS * deviation * 1.2533 / (block as f64).sqrt()).max(NEGLIGIBLE * end);
    let away = |from: usize| (median_of(times[from..from + block].iter().copied()) - end).abs() > reach;
    match (0..=half - block).step_by(block).find(|&from| !away(from)) {
        Some(cut) => (cut, true),
        None => (half, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(times: &[f64]) -> Sample {
        Sample::new(times.to_vec()).unwrap()
    }

    #[test]
    fn a_single_iteration_is_every_figure_of_its_summary() {
        let one = Micros(48.5);
        let summary = sample(&[48.5]).summary();
        assert_eq!(summary, Summary { median: one, mean: one, p95: one, p99: one, min: one });
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        assert_eq!(sample(&[4.0, 1.0, 3.0, 2.0]).median(), Micros(2.5));
        assert_eq!(sample(&[5.0, 1.0, 3.0]).median(), Micros(3.0));
    }

    #[test]
    fn quantiles_interpolate_between_order_statistics() {
        let ten = sample(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        for (p, expected) in [(0.0, 1.0), (0.25, 3.25), (0.95, 9.55), (1.0, 10.0)] {
            let Micros(got) = ten.quantile(p);
            assert!((got - expected).abs() < 1e-12, "quantile {p}: {got}");
        }
    }

    #[test]
    fn constant_data_have_one_value_and_settle_at_once() {
        let settled = Sample::settled(vec![7.0; 40]).unwrap();
        assert_eq!((settled.cut, settled.settled), (0, true));
        assert_eq!(settled.sample.summary().p99, Micros(7.0));
    }

    #[test]
    fn what_is_no_time_is_an_error() {
        for bad in [vec![], vec![1.0, f64::NAN], vec![f64::INFINITY], vec![0.0], vec![2.0, -1.0]] {
            assert!(Sample::new(bad.clone()).is_err(), "{bad:?}");
            assert!(Sample::settled(bad.clone()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_slow_start_is_cut_and_a_slow_iteration_is_not() {
        let steady = |i: usize| 50.0 + [0.3, -0.2, 0.1, -0.4, 0.2][i % 5];
        let warming: Vec<f64> = (0..100).map(|i| steady(i) + if i < 20 { 6.0 } else { 0.0 }).collect();
        let settled = Sample::settled(warming).unwrap();
        assert_eq!((settled.cut, settled.settled), (20, true));

        let spiked: Vec<f64> = (0..100).map(|i| if i == 13 { 900.0 } else { steady(i) }).collect();
        let settled = Sample::settled(spiked).unwrap();
        assert_eq!((settled.cut, settled.sample.sorted().len()), (0, 100));
    }

    #[test]
    fn a_replicate_that_drifts_to_its_end_did_not_settle() {
        let drifting: Vec<f64> = (0..200).map(|i| 80.0 - 0.1 * i as f64).collect();
        let settled = Sample::settled(drifting).unwrap();
        assert_eq!((settled.cut, settled.settled), (100, false));
    }

    #[test]
    fn samples_pool_into_one_of_all_their_iterations() {
        let pooled = Sample::pooled([&sample(&[3.0, 1.0]), &sample(&[2.0])]).unwrap();
        assert_eq!(pooled.sorted(), [1.0, 2.0, 3.0]);
        assert_eq!(Sample::pooled([]), None);
    }
}
