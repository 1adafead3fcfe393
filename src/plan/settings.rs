//! How people write the small settings that flags and configuration files share: [`Rounds`], [`Percent`], durations.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::{Launch, Rounds};
use crate::error::{Error, Result};

impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Fixed(n) => write!(f, "{n}"),
        }
    }
}

impl FromStr for Rounds {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse() {
            _ if text == "auto" => Ok(Self::Auto),
            Ok(n) if (1..=10_000).contains(&n) => Ok(Self::Fixed(n)),
            _ => {
                Err(Error::usage(format!("`{text}` is no number of rounds")).help("auto, or a number from 1 to 10000"))
            }
        }
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Threads => "threads",
            Self::Processes => "processes",
        })
    }
}

impl FromStr for Launch {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "threads" => Ok(Self::Threads),
            "processes" => Ok(Self::Processes),
            _ => Err(Error::usage(format!("`{text}` is no way to start ranks")).help("threads, processes, or both")),
        }
    }
}

/// A share, read and printed with its sign (`5%`): a bare `0.05` could mean two things.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Percent(f64);

impl Percent {
    /// As a fraction of one: 0.05.
    #[must_use]
    pub const fn fraction(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded, so that 0.07 × 100 prints as 7 and not as 7.000000000000001.
        f.pad(&format!("{}%", (self.0 * 1e8).round() / 1e6))
    }
}

impl FromStr for Percent {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok()) {
            Some(n) if (0.1..=50.0).contains(&n) => Ok(Self(n / 100.0)),
            Some(_) => Err(Error::usage(format!("`{text}` is out of range")).help("from 0.1% to 50%, e.g. 5%")),
            None => Err(Error::usage(format!("`{text}` is not a percentage")).help("with its sign, e.g. 5%")),
        }
    }
}

/// Ten years: nobody waits as long, and every limit that is stored can be read again.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A length of time as people write it: `90s`, `2min`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration> {
    let read = text.parse::<jiff::SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    let fault = |message: String| Error::usage(message).help("with its unit, e.g. 90s, 2min or 1h 30m");
    match read {
        Some(duration) if duration > LONGEST => Err(fault(format!("`{text}` is longer than ten years"))),
        Some(duration) if duration.is_zero() => Err(fault(format!("`{text}` leaves no time"))),
        Some(duration) => Ok(duration),
        None => Err(fault(format!("`{text}` is not a length of time"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_needs_its_unit() {
        assert_eq!(duration("90s").unwrap(), duration("1min 30s").unwrap());
        assert_eq!(duration("2min").unwrap(), Duration::from_secs(120));
        for text in ["90", "", "0s", "-2min", "2 moons", "99999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rounds_are_auto_or_a_positive_number() {
        for text in ["auto", "1", "12", "10000"] {
            assert_eq!(text.parse::<Rounds>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "10001", "Auto", "", "1.5"] {
            assert!(text.parse::<Rounds>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_percentage_needs_its_sign_and_a_sensible_size() {
        assert_eq!("5%".parse::<Percent>().unwrap().fraction(), 0.05);
        for text in ["5%", "0.1%", "2.5%", "7%", "50%"] {
            assert_eq!(text.parse::<Percent>().unwrap().to_string(), text);
        }
        for text in ["5", "0.05", "0%", "51%", "-1%", "NaN%", "%", ""] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
