//! Units of what is measured: [`Bytes`], [`Micros`], [`GBps`].
//!
//! A number between modules carries its unit in its type. `1 GB/s` is 10⁹ bytes a second; `K`, `M`, `G` of sizes are powers of 1024.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub f64);

/// A bandwidth in 10⁹ bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
