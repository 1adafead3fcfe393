//! Units of what is measured: [`Bytes`], [`Micros`], [`GBps`].
//!
//! A number between modules carries its unit in its type. `1 GB/s` is 10⁹ bytes a second; `K`, `M`, `G` of sizes are powers of 1024.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Micros(pub f64);

/// A bandwidth in 10⁹ bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct GBps(pub f64);

impl Bytes {
    /// Algorithm bandwidth: these bytes moved in `time`.
    #[must_use]
    pub fn per(self, time: Micros) -> GBps {
        GBps(self.0 as f64 / (time.0 * 1e3))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            b if b >= 1 << 30 && b.is_multiple_of(1 << 30) => (b >> 30, " GiB"),
            b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => (b >> 20, " MiB"),
            b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => (b >> 10, " KiB"),
            b => (b, " B"),
        };
        f.pad(&format!("{value}{unit}"))
    }
}

impl fmt::Display for Micros {
    /// Three significant digits, at least one decimal below 100: `9.87 µs`, `48.2 µs`, `123 µs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} µs", significant(self.0)))
    }
}

impl fmt::Display for GBps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} GB/s", significant(self.0)))
    }
}

/// Digits behind the point that [`exact`] and [`beside`] add at most.
const MORE: usize = 6;

/// A bound as [`significant`] writes it, with all further digits that it has: `30.0`, `25.44`.
#[must_use]
pub fn exact(bound: f64) -> String {
    fewest(bound, |shown| (shown - bound).abs() <= bound.abs() * 1e-9)
}

/// `value` as [`significant`] writes it, with as many more digits as it takes to see on which side of `bound` it lies.
#[must_use]
pub fn beside(bound: f64, value: f64) -> String {
    fewest(value, |shown| shown.partial_cmp(&bound) == value.partial_cmp(&bound))
}

fn fewest(value: f64, holds: impl Fn(f64) -> bool) -> String {
    let least = significant(value);
    if !value.is_finite() {
        return least;
    }
    let decimals = least.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let most = decimals + MORE;
    let mut longer = (decimals..=most).map(|decimals| format!("{value:.decimals$}"));
    longer.find(|text| text.parse().is_ok_and(&holds)).unwrap_or_else(|| format!("{value:.most$}"))
}

/// `value` with three significant digits, never in exponent form.
#[must_use]
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        v if !v.is_finite() => return value.to_string(),
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Both ends of an interval as [`significant`] writes them, one en dash between: `46.9–49.6`.
#[must_use]
pub fn range(low: f64, high: f64) -> String {
    format!("{}–{}", significant(low), significant(high))
}

/// A count with its digits in groups of three: `28 800`. The space does not break.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut shown = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push('\u{a0}');
        }
        shown.push(digit);
    }
    shown
}

/// A span of seconds, in the two largest units that matter: `8.4 s`, `58 s`, `2 min 5 s`, `1 h 12 min`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

/// A limit in seconds as people write one: `20 s`, `2.5 s`, `1 ms`.
#[must_use]
pub fn limit(seconds: f64) -> String {
    match seconds {
        s if s < 0.9995 => format!("{} ms", (s * 1e6).round() / 1e3),
        s if s < 10.0 => format!("{} s", (s * 10.0).round() / 10.0),
        s => format!("{s:.0} s"),
    }
}

/// `a`, `a, b, c`, `a and 3 other sets`: whom something is said of.
#[must_use]
pub fn sets(names: &[String]) -> String {
    match names {
        [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} other sets", rest.len()),
        few => few.join(", "),
    }
}

/// `count` things: `1 size`, `4 sizes`. For words whose plural is formed with an s.
#[must_use]
pub fn plural(count: usize, thing: &str) -> String {
    format!("{} {thing}{}", self::count(count as u64), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_sets_are_named_and_many_are_counted() {
        let names = |number: usize| ["a", "b", "c", "d", "e"].map(String::from)[..number].to_vec();
        let said = [0, 1, 2, 3, 4, 5].map(|number| sets(&names(number)));
        assert_eq!(said, ["", "a", "a, b", "a, b, c", "a and 3 other sets", "a and 4 other sets"]);
    }

    #[test]
    fn bandwidth_is_bytes_over_time() {
        assert_eq!(Bytes(14_336).per(Micros(14.336)), GBps(1.0));
    }

    #[test]
    fn sizes_print_in_the_largest_unit_that_divides_them() {
        assert_eq!(Bytes(14_336).to_string(), "14 KiB");
        assert_eq!(Bytes(14_337).to_string(), "14337 B");
        assert_eq!(Bytes(64 << 20).to_string(), "64 MiB");
    }

    #[test]
    fn times_print_with_three_significant_digits() {
        let shown: Vec<_> = [9.874, 9.996, 48.24, 99.96, 1234.5].map(|t| Micros(t).to_string()).into();
        assert_eq!(shown, ["9.87 µs", "10.0 µs", "48.2 µs", "100 µs", "1234 µs"]);
    }

    #[test]
    fn ends_of_an_interval_have_their_own_digits() {
        assert_eq!(range(9.874, 10.21), "9.87–10.2");
    }

    #[test]
    fn a_figure_beside_a_bound_shows_on_which_side_it_lies() {
        assert_eq!([30.0, 25.44, 1.5, 123.0].map(exact), ["30.0", "25.44", "1.50", "123"]);
        assert_eq!(beside(1.5, 1.49946), "1.499");
        assert_eq!(
            [25.36, 25.396, 25.4, 25.4002, 31.0].map(|value| beside(25.4, value)),
            ["25.36", "25.396", "25.4", "25.4002", "31.0"]
        );
        assert_eq!((beside(1.5, 1.5 + 1e-12), beside(1.5, f64::INFINITY)), ("1.50000000".into(), "inf".into()));
    }

    #[test]
    fn long_counts_are_grouped() {
        let shown = [7, 800, 28_800, 1_234_567].map(|n| count(n).replace('\u{a0}', " "));
        assert_eq!(shown, ["7", "800", "28 800", "1 234 567"]);
        assert_eq!((plural(1, "size"), plural(0, "size")), ("1 size".into(), "0 sizes".into()));
    }

    #[test]
    fn durations_print_in_two_units() {
        let shown = [0.0, 8.44, 9.96, 58.2, 119.6, 7199.7, 7260.0].map(duration);
        assert_eq!(shown, ["0.0 s", "8.4 s", "10 s", "58 s", "2 min 0 s", "2 h 0 min", "2 h 1 min"]);
    }

    #[test]
    fn a_limit_is_told_as_it_was_asked_for_and_never_as_nothing() {
        for (seconds, told) in
            [(0.001, "1 ms"), (0.0000015, "0.002 ms"), (0.5, "500 ms"), (2.0, "2 s"), (2.46, "2.5 s"), (137.4, "137 s")]
        {
            assert_eq!(limit(seconds), told);
        }
    }
}
