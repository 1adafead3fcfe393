//! [`Used`]: what NCCL used for one case on one rank, and who told.

use std::fmt;

use nccl_profiler_ncclsweep::recorder::{self, Api, Collective};
use serde::{Deserialize, Serialize};

use crate::nccl::log::Choice;
use crate::nccl::words::{Algorithm, Protocol};

/// What NCCL used for one call on one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Used {
    /// Who told.
    pub source: Source,
    /// The algorithm; of a symmetric kernel its name.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Channels, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Channels>,
    /// Warps of each block, where told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warps: Option<u8>,
    /// Whether the call was captured into a graph; nothing where the source does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured: Option<bool>,
}

/// Who told what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The profiler plugin, on every rank.
    Plugin(#[schemars(with = "String")] Api),
    /// NCCL's log: rank 0 tells for all.
    Log,
}

/// How many channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Channels {
    /// So many.
    Exactly(u32),
    /// So many at most: the plugin's interface before version 4.
    AtMost(u32),
}

impl Used {
    /// What the plugin recorded.
    #[must_use]
    pub fn recorded(collective: &Collective, captured: bool) -> Self {
        Self {
            source: Source::Plugin(collective.api),
            algorithm: collective.algorithm.to_string().into(),
            protocol: collective.protocol.to_string().into(),
            channels: collective.channels.map(|channels| match channels {
                recorder::Channels::Used(count) => Channels::Exactly(count.into()),
                recorder::Channels::AtMost(count) => Channels::AtMost(count.into()),
            }),
            warps: Some(collective.warps),
            captured: Some(captured),
        }
    }

    /// What a line of the log tells.
    #[must_use]
    pub fn logged(choice: &Choice) -> Self {
        let count = |(first, last): (u32, u32)| last.checked_sub(first)?.checked_add(1);
        Self {
            source: Source::Log,
            algorithm: choice.algorithm.clone(),
            protocol: choice.protocol.clone(),
            channels: choice.channels.and_then(count).map(Channels::Exactly),
            warps: None,
            captured: None,
        }
    }

    /// Threads of each block.
    #[must_use]
    pub fn threads(&self) -> Option<u32> {
        self.warps.map(|warps| u32::from(warps) * 32)
    }

    /// Whether the algorithm reduces in the NVLink switches.
    #[must_use]
    pub fn nvls(&self) -> bool {
        matches!(self.algorithm, Algorithm::Nvls | Algorithm::NvlsTree)
    }
}

impl Channels {
    /// The number, or its upper bound.
    #[must_use]
    pub fn most(self) -> u32 {
        match self {
            Self::Exactly(count) | Self::AtMost(count) => count,
        }
    }
}

impl fmt::Display for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, count) = match self {
            Self::Exactly(count) => ("", count),
            Self::AtMost(count) => ("at most ", count),
        };
        write!(f, "{bound}{count} channel{}", if *count == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plugin(Api::V1) => "profiler plugin v1",
            Self::Plugin(Api::V2) => "profiler plugin v2",
            Self::Plugin(Api::V3) => "profiler plugin v3",
            Self::Plugin(Api::V4) => "profiler plugin v4",
            Self::Plugin(Api::V5) => "profiler plugin v5",
            Self::Log => "NCCL's log, rank 0 for all",
        })
    }
}

impl Used {
    /// `Ring LL`: algorithm and protocol. NCCL names kernels on symmetric memory by one word (`AGxLL_R`) and gives no protocol.
    #[must_use]
    pub fn choice(&self) -> String {
        format!("{} {}", self.algorithm, self.protocol).trim_end().to_owned()
    }
}

impl fmt::Display for Used {
    /// `Ring LL, 1 channel, 512 threads`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.choice())?;
        if let Some(channels) = self.channels {
            write!(f, ", {channels}")?;
        }
        self.threads().map_or(Ok(()), |threads| write!(f, ", {threads} threads"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_travels_as_json_and_reads_as_words() {
        let used = Used {
            source: Source::Plugin(Api::V4),
            algorithm: Algorithm::Ring,
            protocol: Protocol::Ll,
            channels: Some(Channels::Exactly(1)),
            warps: Some(16),
            captured: Some(true),
        };
        let json = serde_json::to_string(&used).unwrap();
        assert!(json.starts_with(r#"{"source":{"plugin":"v4"},"algorithm":"Ring","protocol":"LL""#), "{json}");
        assert_eq!(serde_json::from_str::<Used>(&json).unwrap(), used);
        assert_eq!(used.to_string(), "Ring LL, 1 channel, 512 threads");
    }

    #[test]
    fn a_log_line_tells_channels_from_first_to_last_and_no_threads() {
        let line = "b:1:1 [0] NCCL INFO AllReduce: 64 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={2..5}\n";
        let log = crate::nccl::log::read(line.as_bytes());
        let used = Used::logged(log.communicators[0].choices().next().unwrap());
        assert_eq!((used.to_string().as_str(), used.captured), ("Tree Simple, 4 channels", None));
    }
}
