//! The vocabulary of proof: [`Algorithm`], [`Protocol`], [`Function`] and [`Transport`], as NCCL names and numbers them.
//!
//! Every type keeps a word it does not know (`Unknown`), so that a log of a later NCCL is read, not refused.
//! Numbers and names: `src/include/nccl_common.h`, `src/graph/topo.h` and `ncclAlgoStr` of NCCL 2.8 to 2.30.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Declares an enum of words: its variants with the name shown and the other spellings that are read.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $shown:literal $(| $also:literal)*,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(into = "String", from = "String")]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A word this build does not know, as it was written.
            Unknown(String),
        }

        impl $name {
            /// Those with a number, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// NCCL's number for it in `ncclGetAlgoInfo`, in logs up to 2.23 and in profiler v1.
            #[must_use]
            pub fn id(&self) -> Option<usize> {
                Self::ALL.iter().position(|known| known == self)
            }

            /// What NCCL numbers `id`; an unknown number becomes `Unknown("#7")`.
            #[must_use]
            pub fn from_id(id: usize) -> Self {
                Self::ALL.get(id).cloned().unwrap_or_else(|| Self::Unknown(format!("#{id}")))
            }

            /// The known word for `text` in any spelling or case NCCL uses.
            #[must_use]
            pub fn known(text: &str) -> Option<Self> {
                $(if [$shown $(, $also)*].iter().any(|name| name.eq_ignore_ascii_case(text)) { return Some(Self::$variant); })*
                None
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $shown,)* Self::Unknown(text) => text })
            }
        }

        impl FromStr for $name {
            type Err = Infallible;

            fn from_str(text: &str) -> Result<Self, Infallible> {
                Ok(Self::from(text.to_owned()))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::known(&text).unwrap_or(Self::Unknown(text))
            }
        }

        impl From<$name> for String {
            fn from(word: $name) -> Self {
                word.to_string()
            }
        }
    };
}

words! {
    /// How ranks pass data on to each other.
    Algorithm {
        /// A double binary tree between nodes, a chain within one.
        Tree = "Tree",
        /// A ring over all ranks.
        Ring = "Ring",
        /// Reduction in the switches of the network, every GPU talks to them. Called `CollNet` up to 2.13.
        CollNetDirect = "CollNetDirect" | "COLLNET_DIRECT" | "CollNet",
        /// Reduction in the switches of the network, GPUs of a node in a chain.
        CollNetChain = "CollNetChain" | "COLLNET_CHAIN",
        /// Reduction in the NVLink switches.
        Nvls = "NVLS",
        /// Reduction in the NVLink switches of a node, a tree between nodes.
        NvlsTree = "NVLSTree" | "NVLS_TREE",
        /// Parallel aggregated trees, for all-gather and reduce-scatter with one GPU per node.
        Pat = "PAT",
    }
}

words! {
    /// How data and flags travel within a channel.
    Protocol {
        /// Eight-byte lines of four bytes data and four bytes flag: low latency, half the bandwidth.
        Ll = "LL",
        /// 128-byte lines of 120 bytes data and a flag: needs stores of 128 bytes to stay whole, as over NVLink.
        Ll128 = "LL128",
        /// Data in large pieces, flags beside them: full bandwidth, higher latency.
        Simple = "Simple",
    }
}

words! {
    /// The collectives that NCCL tunes; their order is that of its tables.
    Function {
        /// One rank's data to all.
        Broadcast = "Broadcast",
        /// The reduction to one rank.
        Reduce = "Reduce",
        /// Everyone's data to all.
        AllGather = "AllGather",
        /// A piece of the reduction to each rank.
        ReduceScatter = "ReduceScatter",
        /// The reduction to all ranks.
        AllReduce = "AllReduce",
    }
}

impl Algorithm {
    /// Whether `function` can run on this algorithm at all with `protocol`, whatever the box: what NCCL's model
    /// (`ncclTopoTuneModel`) never gives a bandwidth to. Words that are not known are held possible.
    #[must_use]
    pub fn can(&self, function: &Function, protocol: &Protocol) -> bool {
        let simple = !matches!(protocol, Protocol::Ll | Protocol::Ll128);
        match (self, function) {
            (Self::Ring | Self::Unknown(_), _) => true,
            (_, Function::Broadcast | Function::Reduce) => false,
            (Self::Tree | Self::CollNetChain | Self::NvlsTree, Function::AllGather | Function::ReduceScatter) => false,
            (Self::Pat, Function::AllReduce) => false,
            (Self::Tree, _) => true,
            (Self::CollNetDirect | Self::CollNetChain | Self::Nvls | Self::NvlsTree | Self::Pat, _) => simple,
        }
    }
}

/// How two ranks are connected on a channel, with the detail NCCL's log gives: `P2P/direct pointer`, `SHM/direct`,
/// `NET/Socket/0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(into = "String", from = "String")]
pub enum Transport {
    /// GPU memory of the peer, over NVLink or PCIe: `direct pointer`, `CUMEM`, `IPC/read`, `indirect/3[3]`.
    P2p(String),
    /// Pinned host memory both map: `direct` (kernels access it), `CE` (copied).
    Shm(String),
    /// The network: plugin, device, and whether GPUDirect RDMA is used.
    Net(String),
    /// Reduction in the network.
    CollNet(String),
    /// A transport this build does not know, as it was written.
    Unknown(String),
}

impl Transport {
    /// Its name without detail: `P2P`, `SHM`, `NET`, `COLLNET`, or the first part of an unknown one.
    #[must_use]
    pub fn family(&self) -> &str {
        match self {
            Self::P2p(_) => "P2P",
            Self::Shm(_) => "SHM",
            Self::Net(_) => "NET",
            Self::CollNet(_) => "COLLNET",
            Self::Unknown(text) => text.split('/').next().unwrap_or_default(),
        }
    }

    /// Whether bytes go through host memory between GPUs of one box: shared memory, or a network device.
    #[must_use]
    pub fn through_host(&self) -> bool {
        matches!(self, Self::Shm(_)) || matches!(self, Self::Net(detail) if !detail.contains("GDRDMA"))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) => f.pad(text),
            Self::P2p(detail) | Self::Shm(detail) | Self::Net(detail) | Self::CollNet(detail) if detail.is_empty() => {
                f.pad(self.family())
            }
            Self::P2p(detail) | Self::Shm(detail) | Self::Net(detail) | Self::CollNet(detail) => {
                f.pad(&format!("{}/{detail}", self.family()))
            }
        }
    }
}

impl From<String> for Transport {
    fn from(text: String) -> Self {
        // Up to 2.11 shared memory had a name of its own; kernels accessed it directly.
        if text == "direct shared memory" {
            return Self::Shm("direct".to_owned());
        }
        let (family, detail) = text.split_once('/').unwrap_or((&text, ""));
        match family {
            "P2P" => Self::P2p(detail.to_owned()),
            "SHM" => Self::Shm(detail.to_owned()),
            "NET" => Self::Net(detail.to_owned()),
            "COLLNET" => Self::CollNet(detail.to_owned()),
            _ => Self::Unknown(text),
        }
    }
}

impl From<Transport> for String {
    fn from(transport: Transport) -> Self {
        transport.to_string()
    }
}

impl FromStr for Transport {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_log_and_the_profiler() {
        assert_eq!(Algorithm::Ring.id(), Some(1));
        assert_eq!(Algorithm::from_id(6), Algorithm::Pat);
        assert_eq!(Algorithm::from_id(7), Algorithm::Unknown("#7".into()));
        assert_eq!(Protocol::from_id(2), Protocol::Simple);
        assert_eq!(Function::from_id(4), Function::AllReduce);
        assert_eq!(Algorithm::Unknown("X".into()).id(), None);
    }

    #[test]
    fn names_of_variables_and_of_logs_are_one_word() {
        for text in ["NVLSTree", "nvlstree", "NVLS_TREE"] {
            assert_eq!(text.parse(), Ok(Algorithm::NvlsTree));
        }
        assert_eq!("SIMPLE".parse(), Ok(Protocol::Simple));
        assert_eq!("foo".parse(), Ok(Protocol::Unknown("foo".into())));
        assert_eq!(serde_json::to_string(&Algorithm::CollNetDirect).unwrap(), "\"CollNetDirect\"");
        assert_eq!(serde_json::from_str::<Protocol>("\"LL256\"").unwrap(), Protocol::Unknown("LL256".into()));
    }

    #[test]
    fn transports_keep_their_detail_and_show_it() {
        for text in ["P2P/direct pointer/read", "SHM/direct/direct", "NET/IB/0/GDRDMA", "NVLS", "P2P"] {
            assert_eq!(Transport::from(text.to_owned()).to_string(), text);
        }
        assert_eq!(Transport::from("direct shared memory".to_owned()), Transport::Shm("direct".into()));
        let host = ["SHM/direct", "NET/Socket/0", "P2P/IPC", "NET/IB/0/GDRDMA"];
        assert_eq!(host.map(|text| Transport::from(text.to_owned()).through_host()), [true, true, false, false]);
    }

    #[test]
    fn only_ring_and_tree_carry_low_latency_protocols() {
        let carrying = |protocol| {
            Algorithm::ALL.iter().filter(|algorithm| algorithm.can(&Function::AllReduce, &protocol)).collect::<Vec<_>>()
        };
        assert_eq!(carrying(Protocol::Ll), [&Algorithm::Tree, &Algorithm::Ring]);
        assert_eq!(carrying(Protocol::Simple).len(), 6, "all but PAT");
        assert!(!Algorithm::Tree.can(&Function::Broadcast, &Protocol::Simple));
    }
}
