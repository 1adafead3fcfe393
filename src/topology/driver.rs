//! What the driver tells of the GPUs: [`Driver`], read by a probe process through NVML and CUDA.
//!
//! That it says two GPUs can reach each other is what it *says*: whether they do shows when a collective has moved data
//! that was checked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::address::BusId;
use super::as_text;
use super::link::{Lanes, Link};
use super::path::Path;

/// The GPUs of the box as the driver numbers them, and what it says of each two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Driver {
    /// All GPUs the driver runs, also those that `CUDA_VISIBLE_DEVICES` hides.
    pub gpus: Vec<(BusId, GpuFacts)>,
    /// What it says of ordered pairs, by positions in `gpus`.
    pub pairs: Vec<DriverPair>,
}

/// What the driver tells of a GPU; `None` where it does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct GpuFacts {
    /// Marketing name.
    pub name: Option<String>,
    /// `GPU-xxxxxxxx-…`.
    pub uuid: Option<String>,
    /// Compute capability, as `12.0`.
    pub capability: Option<String>,
    /// NUMA node whose memory is near.
    pub numa: Option<u32>,
    /// CPUs that are near, as a list of ranges.
    pub cpus: Option<String>,
    /// Its link: now, and what device and system allow together.
    pub link: Link,
    /// Its link while data was moving.
    pub loaded: Option<Lanes>,
    /// Device memory in MiB.
    pub memory_mib: Option<u64>,
    /// BAR1, the window through which others see its memory, in MiB.
    pub bar1_mib: Option<u64>,
    /// Whether a display is attached.
    pub display: Option<bool>,
    /// Whether it is cut into instances (MIG).
    pub mig: Option<bool>,
    /// Whether its memory corrects errors.
    pub ecc: Option<bool>,
    /// Whether the driver stays loaded while nobody uses it.
    pub persistence: Option<bool>,
    /// SM clock now, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Highest SM clock, MHz.
    pub max_sm_clock_mhz: Option<u32>,
    /// Memory clock now, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Power it may draw, watts.
    pub power_limit_w: Option<f64>,
    /// PCIe packets that had to be sent again since the driver was loaded.
    pub replays: Option<u32>,
}

/// What the driver says of one GPU's way to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DriverPair {
    /// Position of the GPU that reads and writes.
    pub from: usize,
    /// Position of the GPU whose memory it is.
    pub to: usize,
    /// What lies between them.
    pub path: Path,
    /// What it may do.
    pub p2p: P2p,
}

/// What one GPU may do with another's memory, as the driver says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct P2p {
    /// Load from it.
    pub read: Peering,
    /// Store to it.
    pub write: Peering,
    /// Change it atomically.
    pub atomics: Peering,
    /// Whether CUDA lets it map that memory; unknown for GPUs that this process does not see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<bool>,
}

/// The driver's answer, in the words of `nvidia-smi topo -p2p`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub enum Peering {
    /// `OK`: it says yes.
    Supported,
    /// `CNS`: not with this chipset.
    Chipset,
    /// `GNS`: not with this GPU.
    Gpu,
    /// `TNS`: not with this topology.
    Topology,
    /// `DR`: switched off by a registry key.
    Disabled,
    /// `NS`: not supported.
    NotSupported,
    /// Not told.
    #[default]
    Unknown,
}

impl Peering {
    /// Whether the driver says yes; `None` where it says nothing.
    #[must_use]
    pub fn is_supported(self) -> Option<bool> {
        (self != Self::Unknown).then_some(self == Self::Supported)
    }
}

impl P2p {
    /// Whether the driver lets the GPU both load and store there: what NCCL asks for before it uses P2P.
    #[must_use]
    pub fn is_allowed(&self) -> Option<bool> {
        Some(self.read.is_supported()? && self.write.is_supported()?)
    }
}

impl fmt::Display for Peering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Supported => "OK",
            Self::Chipset => "CNS",
            Self::Gpu => "GNS",
            Self::Topology => "TNS",
            Self::Disabled => "DR",
            Self::NotSupported => "NS",
            Self::Unknown => "?",
        })
    }
}

impl FromStr for Peering {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [
            Self::Supported,
            Self::Chipset,
            Self::Gpu,
            Self::Topology,
            Self::Disabled,
            Self::NotSupported,
            Self::Unknown,
        ];
        let found = all.into_iter().find(|peering| peering.to_string() == word);
        found.ok_or_else(|| format!("`{word}` is no peer-to-peer status"))
    }
}

as_text!(Peering);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2p_is_allowed_only_when_the_driver_says_so_of_loads_and_stores() {
        let p2p = |read, write| P2p { read, write, ..P2p::default() }.is_allowed();
        assert_eq!(p2p(Peering::Supported, Peering::Supported), Some(true));
        assert_eq!(p2p(Peering::Supported, Peering::Chipset), Some(false));
        assert_eq!(p2p(Peering::Supported, Peering::Unknown), None);
    }

    #[test]
    fn a_status_is_written_and_read_in_the_words_of_nvidia_smi() {
        let text = serde_json::to_string(&[Peering::Supported, Peering::Chipset, Peering::Unknown]).unwrap();
        assert_eq!(text, r#"["OK","CNS","?"]"#);
        let read: Vec<Peering> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, [Peering::Supported, Peering::Chipset, Peering::Unknown]);
        assert!("YES".parse::<Peering>().is_err());
    }
}
