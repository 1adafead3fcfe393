//! NCCL's version, [`NcclVersion`], from every form it is told in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A release of NCCL. What follows the three numbers (`+cuda13.0`) says what it was built with and is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub struct NcclVersion {
    /// 2 in every release since 2017.
    pub major: u16,
    /// Grows with features.
    pub minor: u16,
    /// Grows with fixes.
    pub patch: u16,
}

impl NcclVersion {
    /// Stands where nobody told the version.
    pub const UNKNOWN: Self = Self::new(0, 0, 0);

    /// The release `major.minor.patch`.
    #[must_use]
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// The first release of `major.minor`.
    #[must_use]
    pub const fn minor(major: u16, minor: u16) -> Self {
        Self::new(major, minor, 0)
    }

    /// From what `ncclGetVersion` returns: `major * 1000 + minor * 100 + patch` up to 2.8, `major * 10000 + …` since 2.9
    /// (2.10 and later do not fit the old form). `None` for a number that is no version.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Self> {
        let code = u32::try_from(code).ok().filter(|code| *code >= 1000)?;
        let major = if code < 10_000 { 1000 } else { 10_000 };
        let part = |value: u32| u16::try_from(value).ok();
        Some(Self::new(part(code / major)?, part(code % major / 100)?, part(code % 100)?))
    }

    /// Whether this release is `major.minor` or later.
    #[must_use]
    pub fn at_least(self, major: u16, minor: u16) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// The first version in free text: of `NCCL version 2.21.5+cuda12.4`, of `libnccl.so.2.28.3`, of `2.9`.
    ///
    /// A number stands on its own: `cuda12.4` holds none, and neither does `192.0.2.2` (four parts).
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        let start_of_number = |(at, c): &(usize, char)| {
            c.is_ascii_digit() && !text[..*at].ends_with(|b: char| b.is_ascii_alphanumeric() || b == '+')
        };
        text.char_indices().filter(start_of_number).find_map(|(at, _)| {
            let in_a_number =
                text[..at].strip_suffix('.').is_some_and(|head| head.ends_with(|b: char| b.is_ascii_digit()));
            if in_a_number { None } else { leading(&text[at..]) }
        })
    }
}

/// The version at the start of `text`: two or three numbers with dots between.
fn leading(text: &str) -> Option<NcclVersion> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut parts = text[..end].trim_end_matches('.').split('.').map(str::parse);
    let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
    let patch = parts.next().unwrap_or(Ok(0)).ok()?;
    parts.next().is_none().then_some(NcclVersion::new(major, minor, patch))
}

impl fmt::Display for NcclVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{}.{}", self.major, self.minor, self.patch))
    }
}

impl FromStr for NcclVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::find(text)
            .ok_or_else(|| Error::usage(format!("`{text}` holds no NCCL version")).help("write it as 2.28.3 or 2.28"))
    }
}

impl From<NcclVersion> for String {
    fn from(version: NcclVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for NcclVersion {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_integer_encodings_are_read() {
        let known =
            [(2804, (2, 8, 4)), (2708, (2, 7, 8)), (20_906, (2, 9, 6)), (22_105, (2, 21, 5)), (23_203, (2, 32, 3))];
        for (code, (major, minor, patch)) in known {
            assert_eq!(NcclVersion::from_code(code), Some(NcclVersion::new(major, minor, patch)), "{code}");
        }
        for code in [i32::MIN, -1, 0, 999, i32::MAX] {
            assert_eq!(NcclVersion::from_code(code), None, "{code}");
        }
    }

    #[test]
    fn a_version_is_found_in_what_tools_print() {
        let found = |text: &str| NcclVersion::find(text).map(|version| version.to_string());
        assert_eq!(found("NCCL version 2.21.5+cuda12.4").as_deref(), Some("2.21.5"));
        assert_eq!(found("2.28.3+cuda13.0").as_deref(), Some("2.28.3"));
        assert_eq!(found("libnccl.so.2.30.7").as_deref(), Some("2.30.7"));
        assert_eq!(found("v2.9").as_deref(), None);
        assert_eq!(found("2.9").as_deref(), Some("2.9.0"));
        assert_eq!(found("Using eth0:192.0.2.2<0>, NCCL 2.19.3.").as_deref(), Some("2.19.3"));
        assert_eq!(found("+cuda12.4"), None);
        assert_eq!(found("nothing"), None);
    }

    #[test]
    fn versions_order_by_number_and_travel_as_text() {
        let (old, new): (NcclVersion, NcclVersion) = ("2.9.6".parse().unwrap(), "2.10.3".parse().unwrap());
        assert!(old < new && new.at_least(2, 10) && !old.at_least(2, 10));
        assert_eq!(serde_json::to_string(&new).unwrap(), "\"2.10.3\"");
        assert_eq!(serde_json::from_str::<NcclVersion>("\"2.10.3\"").unwrap(), new);
        assert!(serde_json::from_str::<NcclVersion>("\"ten\"").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".{0,40}") {
            let _ = NcclVersion::find(&text);
        }

        #[test]
        fn what_is_shown_is_read_back(major in 1u16..9, minor in 0u16..99, patch in 0u16..99) {
            let version = NcclVersion::new(major, minor, patch);
            prop_assert_eq!(version.to_string().parse::<NcclVersion>().unwrap(), version);
        }
    }
}
