//! [`Path`]: what lies between two devices, in the words of `nvidia-smi topo -m`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::as_text;

/// What lies between two devices, in the words of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub enum Path {
    /// The same device.
    Loc,
    /// NVLinks, direct or through NVSwitch, and how many.
    Nvl(Option<u32>),
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches, no host bridge.
    Pxb,
    /// One PCIe host bridge. NCCL says PHB also where `nvidia-smi` says NODE.
    Phb,
    /// Several host bridges of one NUMA node.
    Node,
    /// The interconnect between NUMA nodes.
    Sys,
    /// Not told.
    Unknown,
}

impl Path {
    /// Rank among the paths, nearest first.
    #[must_use]
    pub fn distance(self) -> Option<u8> {
        Some(match self {
            Self::Loc => 0,
            Self::Nvl(_) => 1,
            Self::Pix => 2,
            Self::Pxb => 3,
            Self::Phb => 4,
            Self::Node => 5,
            Self::Sys => 6,
            Self::Unknown => return None,
        })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loc => f.pad("X"),
            Self::Nvl(Some(links)) => f.pad(&format!("NV{links}")),
            Self::Nvl(None) => f.pad("NVL"),
            Self::Pix => f.pad("PIX"),
            Self::Pxb => f.pad("PXB"),
            Self::Phb => f.pad("PHB"),
            Self::Node => f.pad("NODE"),
            Self::Sys => f.pad("SYS"),
            Self::Unknown => f.pad("?"),
        }
    }
}

impl FromStr for Path {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "X" | "LOC" => Self::Loc,
            "NVL" => Self::Nvl(None),
            "PIX" => Self::Pix,
            "PXB" => Self::Pxb,
            "PHB" => Self::Phb,
            "NODE" => Self::Node,
            // `SOC` is what drivers before 375 wrote.
            "SYS" | "SOC" => Self::Sys,
            "?" | "N/A" => Self::Unknown,
            _ => match word.strip_prefix("NV").map(str::parse) {
                Some(Ok(links)) => Self::Nvl(Some(links)),
                _ => return Err(format!("`{word}` is no kind of path")),
            },
        })
    }
}

as_text!(Path);
