//! [`Scale`]: from a figure to its place on an axis, and which figures the axis names.

/// Figures further apart than this factor stand on a logarithmic axis: on a linear one the small ones would all look alike.
const LOGARITHMIC: f64 = 12.0;

/// An axis from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    /// A linear axis; of no length it becomes one.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + low.abs().max(1.0) * 0.1 };
        Self { low, high, log: false }
    }

    /// A logarithmic axis between positive ends.
    pub(super) fn log(low: f64, high: f64) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        Self { low, high: if high > low { high } else { low * 1.1 }, log: true }
    }

    /// For times that are compared by their heights: from zero, or logarithmic where they differ too much for that.
    pub(super) fn of_times(times: impl Iterator<Item = f64> + Clone) -> Self {
        let low = times.clone().fold(f64::INFINITY, f64::min);
        let high = times.fold(0.0, f64::max);
        match () {
            () if !low.is_finite() => Self::linear(0.0, 1.0),
            () if high > low * LOGARITHMIC => Self::log(low / 1.3, high * 1.3),
            () => Self::linear(0.0, high * 1.08),
        }
    }

    /// Just around these figures.
    pub(super) fn around(figures: impl Iterator<Item = f64> + Clone) -> Self {
        let low = figures.clone().fold(f64::INFINITY, f64::min);
        let high = figures.fold(f64::NEG_INFINITY, f64::max);
        if !(low.is_finite() && high.is_finite()) {
            return Self::linear(0.0, 1.0);
        }
        let edge = (high - low).max(high.abs() * 1e-3) * 0.06;
        Self::linear(low - edge, high + edge)
    }

    /// Whether it is logarithmic.
    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// Where a figure stands, 0 to 1; what lies beyond an end stands at it.
    pub(super) fn at(&self, figure: f64) -> f64 {
        let share = match self.log {
            true => (figure.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (figure - self.low) / (self.high - self.low),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Round figures on the axis, `most` at most.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.log { self.log_ticks(most) } else { self.linear_ticks(most) }
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let least = (self.high - self.low) / most.max(1) as f64;
        let power = 10_f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * power).find(|step| *step >= least * 0.999);
        let step = step.unwrap_or(power * 10.0);
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        // By tens where that is exact: 127 tenths are 12.7, 127 times 0.1 is not.
        let tick = |of: i64| if step < 1.0 { of as f64 / (1.0 / step).round() } else { of as f64 * step };
        (first..=last).map(tick).take(most + 1).collect()
    }

    /// Figures that start with few digits, as many as there is room for, the roundest first.
    fn log_ticks(&self, most: usize) -> Vec<f64> {
        const DIGITS: [&[f64]; 4] =
            [&[1.0], &[1.0, 2.0, 5.0], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]];
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let of = |digits: &&[f64]| {
            let all = (first..=last).flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
            all.filter(|tick| (self.low..=self.high).contains(tick)).collect::<Vec<_>>()
        };
        let sets = DIGITS.iter().map(of).filter(|ticks| ticks.len() <= most);
        let ticks = sets.max_by_key(Vec::len).unwrap_or_default();
        if ticks.len() < 2 { self.linear_ticks(most) } else { ticks }
    }
}

/// A tick's figure without digits that say nothing: `40`, `0.85`.
pub(super) fn label(tick: f64) -> String {
    let rounded = (tick * 1e6).round() / 1e6;
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

/// A place on the way across, for an attribute: `37.25%`.
pub(super) fn across(share: f64) -> String {
    format!("{}%", (share * 1e4).round() / 1e2)
}

/// A place from the top of a plot of this height, for an attribute: `20.5`.
pub(super) fn down(share: f64, height: f64) -> String {
    place((1.0 - share) * height)
}

/// A coordinate without digits that no screen shows.
pub(super) fn place(value: f64) -> String {
    format!("{}", (value * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Scale::linear(0.0, 52.0).ticks(5), [0.0, 20.0, 40.0]);
        assert_eq!(Scale::linear(25.3, 26.1).ticks(4), [25.4, 25.6, 25.8, 26.0]);
        for (low, high) in [(0.0, 1.0), (3.0, 3.0001), (1e-3, 1e6), (7.0, 7.0)] {
            for scale in [Scale::linear(low, high), Scale::log(low.max(1e-6), high)] {
                let ticks = scale.ticks(6);
                assert!(ticks.len() <= 7, "{scale:?}: {ticks:?}");
            }
        }
    }

    #[test]
    fn a_logarithmic_axis_names_a_ratio_of_one() {
        assert!(Scale::log(0.44, 1.1).ticks(6).contains(&1.0));
        assert!(Scale::log(0.9, 1.15).ticks(6).contains(&1.0));
        assert_eq!(Scale::log(10.0, 10_000.0).ticks(4), [10.0, 100.0, 1000.0, 10000.0]);
    }

    #[test]
    fn places_stay_on_the_axis_whatever_the_figure() {
        for scale in [Scale::linear(10.0, 20.0), Scale::log(10.0, 20.0), Scale::linear(5.0, 5.0)] {
            for figure in [-1.0, 0.0, 10.0, 15.0, 1e9, f64::INFINITY, f64::NAN] {
                assert!((0.0..=1.0).contains(&scale.at(figure)), "{scale:?} {figure}");
            }
        }
        assert_eq!(Scale::log(1.0, 100.0).at(10.0), 0.5);
    }

    #[test]
    fn times_start_at_zero_unless_they_differ_by_orders() {
        assert_eq!(Scale::of_times([25.0, 50.0].into_iter()).at(0.0), 0.0);
        assert!(!Scale::of_times([25.0, 50.0].into_iter()).is_log());
        assert!(Scale::of_times([10.0, 5000.0].into_iter()).is_log());
        assert_eq!(Scale::of_times(std::iter::empty()), Scale::linear(0.0, 1.0));
    }

    #[test]
    fn labels_have_no_tail() {
        assert_eq!([0.30000000000000004, 40.0, -0.0, 1250.5].map(label), ["0.3", "40", "0", "1250.5"]);
    }
}
