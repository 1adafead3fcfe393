//! [`CpuList`]: logical CPUs as Linux writes them, `0-15,64-79`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::as_text;

/// A system with more logical CPUs does not exist; a longer list is a slip of the pen.
const MOST: u32 = 8192;

/// Logical CPUs, ascending, each once, at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// These CPUs; `None` when there are none.
    #[must_use]
    pub fn new(cpus: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        (!cpus.is_empty()).then_some(Self(cpus))
    }

    /// The CPUs of a mask, words of 64 from the lowest on; `None` when no bit is set.
    #[must_use]
    pub fn of_mask(words: &[u64]) -> Option<Self> {
        let bits = |(at, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at as u32 * 64 + bit)
        };
        Self::new(words.iter().enumerate().flat_map(bits))
    }

    /// The CPUs.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Whether it has this CPU.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = |run: &[u32]| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        };
        f.pad(&self.0.chunk_by(|a, b| a + 1 == *b).map(run).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no list of CPUs, e.g. 0-15,64-79");
        let mut cpus = Vec::new();
        for part in text.trim().split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) =
                first.parse().ok().zip(last.parse().ok()).filter(|(a, b)| a <= b && *b < MOST).ok_or_else(wrong)?;
            cpus.extend(first..=last);
        }
        Self::new(cpus).ok_or_else(wrong)
    }
}

as_text!(CpuList);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_linux_does() {
        for (text, shown) in [("0-15,64-79", "0-15,64-79"), ("3", "3"), ("2,0,1,8", "0-2,8"), (" 4-4 , 7 ", "4,7")] {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["", "-1", "5-2", "a", "0-99999", "1,,2", "N/A"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mask_has_a_bit_for_each_cpu() {
        assert_eq!(CpuList::of_mask(&[0xffff, 0b101]).unwrap().to_string(), "0-15,64,66");
        assert_eq!(CpuList::of_mask(&[0, 0]), None);
    }
}
