//! Whether a program registers its buffers with NCCL, and how: one of the factors of a plan.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::version::NcclVersion;
use crate::error::{Error, Result};

/// How the buffers of all-reduces are made known to NCCL before they are used.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Register {
    /// Not at all: plain device memory (`cudaMalloc`, as of PyTorch), copied through NCCL's own buffers.
    #[default]
    None,
    /// Memory of `ncclMemAlloc` (as of nccl-tests) and no call: NCCL itself registers what a graph captures (`NCCL_GRAPH_REGISTER`),
    /// which it does not do with plain memory.
    Capture,
    /// Memory of `ncclMemAlloc`, each rank's by `ncclCommRegister`.
    Local,
    /// The same, by all ranks together as symmetric windows (`ncclCommWindowRegister`).
    Symmetric,
}

impl Register {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::None, Self::Capture, Self::Local, Self::Symmetric];

    /// Whether nothing is registered; what is left out of a journal.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Whether buffers are registered by a call, before they are used.
    #[must_use]
    pub fn is_by_call(self) -> bool {
        matches!(self, Self::Local | Self::Symmetric)
    }

    /// The first release that has the calls.
    #[must_use]
    pub fn since(self) -> NcclVersion {
        match self {
            Self::None => NcclVersion::UNKNOWN,
            Self::Capture | Self::Local => NcclVersion::new(2, 19, 0),
            Self::Symmetric => NcclVersion::new(2, 27, 0),
        }
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Capture => "capture",
            Self::Local => "local",
            Self::Symmetric => "symmetric",
        })
    }
}

impl FromStr for Register {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|one| one.to_string() == text).ok_or_else(|| {
            Error::usage(format!("`{text}` is no way to register buffers"))
                .help("none, capture, local, symmetric, or several")
        })
    }
}

/// What NCCL did with the buffers of a visit that were to be registered, over all ranks and communicators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Registration {
    /// Buffers for which it gave a handle.
    pub taken: u64,
    /// Buffers that it left alone without an error: it has no use for them here.
    pub left: u64,
}

impl Registration {
    /// Adds those of another rank or communicator.
    pub fn add(&mut self, other: Self) {
        self.taken += other.taken;
        self.left += other.left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_read_as_it_is_written_and_needs_its_release() {
        for register in Register::ALL {
            assert_eq!(register.to_string().parse::<Register>().unwrap(), register);
        }
        assert!("windows".parse::<Register>().is_err());
        assert!(Register::Symmetric.since() > Register::Local.since());
    }
}
