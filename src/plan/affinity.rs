//! [`CpuAffinity`]: on which CPUs the threads of ranks run.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::topology::CpuList;

/// Where the thread of each rank may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub enum CpuAffinity {
    /// Wherever the process may: how most servers start theirs.
    #[default]
    None,
    /// On the CPUs near its GPU.
    Near,
    /// On these: one list for all ranks, or one for each.
    Lists(Vec<CpuList>),
}

impl CpuAffinity {
    /// Whether ranks are bound at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// The CPUs of a rank whose GPU is near to `near`; `None` when it is not bound.
    #[must_use]
    pub fn of_rank(&self, rank: u32, near: Option<&CpuList>) -> Option<CpuList> {
        match self {
            Self::None => None,
            Self::Near => near.cloned(),
            Self::Lists(lists) => {
                lists.get(rank as usize).or_else(|| lists.first().filter(|_| lists.len() == 1)).cloned()
            }
        }
    }

    /// Refuses lists that are neither one for all ranks nor one for each.
    pub fn check(&self, ranks: u32) -> Result<(), Error> {
        match self {
            Self::Lists(lists) if lists.len() != 1 && lists.len() != ranks as usize => {
                let message = format!("--cpu-affinity has {} lists for {ranks} ranks", lists.len());
                Err(Error::usage(message).help("one list for all ranks, or one for each: 0-15/16-31"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for CpuAffinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Near => f.pad("near"),
            Self::Lists(lists) => f.pad(&lists.iter().map(ToString::to_string).collect::<Vec<_>>().join("/")),
        }
    }
}

impl FromStr for CpuAffinity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "none" => Ok(Self::None),
            "near" => Ok(Self::Near),
            lists => {
                let lists = lists.split('/').map(str::parse).collect::<Result<_, String>>();
                lists.map(Self::Lists).map_err(|why| {
                    Error::usage(why).help("near, none, a list of CPUs for all ranks, or one for each: 0-15/16-31")
                })
            }
        }
    }
}

impl From<CpuAffinity> for String {
    fn from(affinity: CpuAffinity) -> Self {
        affinity.to_string()
    }
}

impl TryFrom<String> for CpuAffinity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error: Error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn each_rank_has_its_list_or_all_have_one() {
        let near = list("8-15");
        let of = |text: &str, rank| text.parse::<CpuAffinity>().unwrap().of_rank(rank, Some(&near));
        assert_eq!((of("none", 0), of("near", 3)), (None, Some(list("8-15"))));
        assert_eq!((of("0-3", 0), of("0-3", 5)), (Some(list("0-3")), Some(list("0-3"))));
        assert_eq!((of("0/1,2", 1), of("0/1,2", 2)), (Some(list("1-2")), None));
        assert_eq!(CpuAffinity::Near.of_rank(0, None), None);
    }

    #[test]
    fn lists_must_be_one_or_as_many_as_ranks() {
        let two: CpuAffinity = "0/1".parse().unwrap();
        assert!(two.check(2).is_ok() && two.check(3).is_err() && CpuAffinity::Near.check(3).is_ok());
        assert_eq!(two.to_string(), "0/1");
        assert!("close".parse::<CpuAffinity>().unwrap_err().next_step().is_some());
    }
}
