//! `ncclsweep pairs`: what two GPUs do together, for every two of a box: its document, [`Pairs`], and what it tells
//! ([`judge`]).
//!
//! Each pair is visited by a process of its own, once with P2P allowed over any distance and once through host memory: a
//! pair that hangs or crashes takes nothing along.

mod judge;

use serde::{Deserialize, Serialize};

use crate::gpu::cuda::Device;
use crate::plan::env_set::Vars;
use crate::plan::schedule::Library;
use crate::record::redact;
use crate::record::run::Backend;
use crate::record::visit::{Diagnosis, Outcome, WrongElement};
use crate::topology::Topology;

pub use judge::{Finding, Trouble, is_far, judge, trouble_of, without_like, worst};

/// Version of the document. Grows with every change that an older reader would misread.
pub const SCHEMA: u32 = 1;

/// How the data of a pair was to travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// P2P allowed over any distance (`NCCL_P2P_LEVEL=SYS`).
    P2p,
    /// P2P off (`NCCL_P2P_DISABLE=1`).
    HostMemory,
}

impl Way {
    /// Both, in the order they are visited in: the one that cannot hang a box first.
    pub const ALL: [Self; 2] = [Self::HostMemory, Self::P2p];

    /// The variables that ask for it.
    #[must_use]
    pub fn vars(self) -> Vars {
        match self {
            Self::P2p => Vars::from_iter([("NCCL_P2P_DISABLE", "0"), ("NCCL_P2P_LEVEL", "SYS")]),
            Self::HostMemory => Vars::from_iter([("NCCL_P2P_DISABLE", "1")]),
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::P2p => "P2P",
            Self::HostMemory => "host memory",
        })
    }
}

/// What was measured of one function: the time of a small message, the bandwidth of a large one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Median time of the small message, µs.
    pub latency_us: Option<f64>,
    /// Bus bandwidth of the large message, GB/s.
    pub bandwidth_gbps: Option<f64>,
}

/// One pair on one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Position of the first GPU in [`Pairs::gpus`].
    pub a: usize,
    /// Position of the second.
    pub b: usize,
    /// How the data was to travel.
    pub way: Way,
    /// How the visit ended.
    pub outcome: Outcome,
    /// By which transport the data did travel, in NCCL's words.
    pub transport: Option<String>,
    /// Two-rank all-reduce.
    pub all_reduce: Figures,
    /// Exchange: each sends to the other and receives from it.
    pub send_recv: Figures,
    /// Outputs compared element by element.
    pub checked_outputs: u64,
    /// Of these, outputs with a wrong element.
    pub wrong_outputs: u64,
    /// The first wrong element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_wrong: Option<Box<WrongElement>>,
    /// What a failure means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// Last words of a worker that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Wall time, seconds.
    pub seconds: f64,
}

impl Pair {
    /// Whether NCCL reached into the other GPU's memory; `None` where it did not tell.
    #[must_use]
    pub fn used_p2p(&self) -> Option<bool> {
        self.transport.as_ref().map(|transport| transport.starts_with("P2P"))
    }
}

/// All pairs, as `--format json` prints them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of ncclsweep.
    pub version: String,
    /// Where the figures come from.
    pub backend: Backend,
    /// UTC time of the start.
    pub created: jiff::Timestamp,
    /// Host name.
    pub host: String,
    /// Name of the emulated box.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<String>,
    /// Version of the GPU driver.
    pub driver: Option<String>,
    /// The NCCL library.
    pub library: Library,
    /// Inherited `NCCL_*` variables that every visit had too.
    pub inherited: Vars,
    /// The GPUs in the order they were asked for.
    pub gpus: Vec<Device>,
    /// How the box is wired.
    pub topology: Topology,
    /// Bytes of the small message.
    pub latency_bytes: u64,
    /// Bytes of the large message.
    pub bandwidth_bytes: u64,
    /// Communicators of each visit.
    pub communicators: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Pairs in the order they were visited.
    pub pairs: Vec<Pair>,
    /// Why not all were visited, and what helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// What it tells.
    pub findings: Vec<Finding>,
}

impl Pairs {
    /// A pair on a way.
    #[must_use]
    pub fn get(&self, a: usize, b: usize, way: Way) -> Option<&Pair> {
        let (a, b) = (a.min(b), a.max(b));
        self.pairs.iter().find(|pair| (pair.a, pair.b, pair.way) == (a, b, way))
    }

    /// What a GPU is called: its number and its address.
    #[must_use]
    pub fn name(&self, gpu: usize) -> String {
        self.gpus.get(gpu).map_or_else(|| "?".to_owned(), |gpu| format!("GPU {} ({})", gpu.ordinal, gpu.pci))
    }

    /// Replaces what tells whose box it is: host name, UUIDs and the folders of paths.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        self.host = redact::HOST.to_owned();
        for (number, gpu) in self.gpus.iter_mut().enumerate() {
            gpu.uuid = format!("GPU-redacted-{number}");
        }
        for (number, gpu) in self.topology.gpus.iter_mut().enumerate() {
            if let Some(uuid) = gpu.driver.as_mut().and_then(|facts| facts.uuid.as_mut()) {
                *uuid = format!("GPU-redacted-{number}");
            }
        }
        self.library.path = self.library.path.rsplit('/').next().unwrap_or_default().to_owned();
        // Lines of others may hold anything; what they mean was told.
        self.pairs.iter_mut().for_each(|pair| pair.evidence.clear());
        self
    }
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::*;
    use crate::nccl::version::NcclVersion;
    use crate::record::fixture;
    use crate::topology::parse_nvidia_smi;

    /// Four GPUs, two below each of two switches; every pair as fast as its like, P2P or not.
    pub fn four() -> Pairs {
        let text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n\
            GPU0\t X \tPIX\tNODE\tNODE\t0-9\t0\nGPU1\tPIX\t X \tNODE\tNODE\t0-9\t0\n\
            GPU2\tNODE\tNODE\t X \tPIX\t0-9\t0\nGPU3\tNODE\tNODE\tPIX\t X \t0-9\t0\n";
        let gpus = fixture::two_sets().header.provenance.gpus[..4].to_vec();
        let ways = |(a, b): (usize, usize)| Way::ALL.map(|way| pair(a, b, way));
        Pairs {
            schema: SCHEMA,
            version: "0.1.0".into(),
            backend: Backend::Cuda,
            created: "2026-03-14T09:26:26Z".parse().expect("a time"),
            host: "box-1".into(),
            emulated: None,
            driver: Some("580.159.04".into()),
            library: Library { path: "/opt/nccl/libnccl.so.2".into(), version: NcclVersion::new(2, 28, 9) },
            inherited: Vars::default(),
            gpus,
            topology: parse_nvidia_smi("topo.txt", text).expect("a matrix"),
            latency_bytes: 1024,
            bandwidth_bytes: 16 << 20,
            communicators: 2,
            seed: 1,
            pairs: [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)].into_iter().flat_map(ways).collect(),
            stopped: None,
            findings: Vec::new(),
        }
    }

    fn pair(a: usize, b: usize, way: Way) -> Pair {
        let (latency, bandwidth, transport) = match way {
            Way::P2p => (8.0, 42.0, "P2P/direct pointer"),
            Way::HostMemory => (12.0, 20.0, "SHM/direct/direct"),
        };
        // No two pairs of a real box are alike to the last digit.
        let factor = 1.0 + 0.01 * (a + 2 * b) as f64;
        let figures = Figures { latency_us: Some(latency * factor), bandwidth_gbps: Some(bandwidth / factor) };
        Pair {
            a,
            b,
            way,
            outcome: Outcome::Completed,
            transport: Some(transport.into()),
            all_reduce: figures,
            send_recv: figures,
            checked_outputs: 400,
            wrong_outputs: 0,
            first_wrong: None,
            diagnosis: None,
            evidence: Vec::new(),
            seconds: 2.0,
        }
    }
}
