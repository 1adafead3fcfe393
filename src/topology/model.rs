//! The wiring as data: [`Topology`], its GPUs, the [`Path`] between any two of them and, where known, the PCIe tree.

use serde::{Deserialize, Serialize};

use super::address::BusId;
use super::driver::{GpuFacts, P2p};
use super::host::Host;
use super::link::{Lanes, Link, Slot};
use super::path::Path;

/// What a device of the PCIe tree is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A root complex.
    HostBridge,
    /// A PCIe switch; its address is that of its upstream port.
    Switch,
    /// A GPU, by its position in [`Topology::gpus`].
    Gpu(usize),
    /// A network adapter, by its positions in [`Topology::nics`].
    Nic(Vec<usize>),
    /// Something else.
    Other,
}

/// A node of the PCIe tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Device {
    /// What it is.
    pub kind: Kind,
    /// Its address.
    pub bus_id: Option<BusId>,
    /// Its link upwards.
    pub link: Link,
    /// The port above it.
    pub slot: Slot,
    /// Devices of one IOMMU group cannot be told apart by the IOMMU.
    pub iommu_group: Option<u32>,
    /// What hangs below.
    pub children: Vec<Device>,
}

/// A NUMA node, or what stands in for it where the platform names none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NumaNode {
    /// Its number.
    pub id: Option<u32>,
    /// Its processor: model, or architecture and vendor.
    pub cpu: Option<String>,
    /// Its logical CPUs, as a list of ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// What hangs below.
    pub children: Vec<Device>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Gpu {
    /// Number the driver gives it (in the order of the bus addresses).
    pub index: u32,
    /// Its address.
    pub bus_id: Option<BusId>,
    /// NUMA node it is near to.
    pub numa: Option<u32>,
    /// CPUs it is near to, as a list of ranges.
    pub cpus: Option<String>,
    /// Number CUDA gives it in the processes of a run (`CUDA_VISIBLE_DEVICES`); `None` when they do not see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
    /// Ranks that run on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<u32>,
    /// What the driver tells of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<GpuFacts>,
}

/// A network adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Nic {
    /// Its name.
    pub name: String,
}

/// Something that two sources tell differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Difference {
    /// Of what: a GPU or a pair, by addresses, and what of it.
    pub of: String,
    /// What the kernel tells.
    pub kernel: String,
    /// What the driver tells.
    pub driver: String,
}

/// How GPUs and network adapters of one box are wired.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Topology {
    /// The GPUs: those of a run in the order of its ranks, then the others in ascending order of their number.
    pub gpus: Vec<Gpu>,
    /// The network adapters.
    pub nics: Vec<Nic>,
    /// The PCIe tree; empty where the source has none.
    pub numa: Vec<NumaNode>,
    /// The machine around them.
    #[serde(default)]
    pub host: Host,
    /// What the kernel and the driver tell differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
    /// Rows of a square and symmetric matrix over GPUs, then NICs.
    paths: Vec<Vec<Path>>,
    /// Rows over GPUs: what the row's GPU may do with the column's memory. Empty where no driver was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    p2p: Vec<Vec<P2p>>,
}

impl Topology {
    /// A topology; `path(a, b)` is asked for positions `a < b` among the GPUs followed by the NICs.
    pub(super) fn new(
        gpus: Vec<Gpu>,
        nics: Vec<Nic>,
        numa: Vec<NumaNode>,
        path: impl Fn(usize, usize) -> Path,
    ) -> Self {
        let size = gpus.len() + nics.len();
        let cell = |row: usize, column: usize| match row.cmp(&column) {
            std::cmp::Ordering::Less => path(row, column),
            std::cmp::Ordering::Equal => Path::Loc,
            std::cmp::Ordering::Greater => path(column, row),
        };
        let paths = (0..size).map(|row| (0..size).map(|column| cell(row, column)).collect()).collect();
        Self { gpus, nics, numa, paths, ..Self::default() }
    }

    /// The path between two GPUs, by their positions in `gpus`; unknown where there is no such GPU.
    #[must_use]
    pub fn path(&self, a: usize, b: usize) -> Path {
        if a < self.gpus.len() && b < self.gpus.len() { self.cell(a, b) } else { Path::Unknown }
    }

    /// The path between a GPU and a NIC, by their positions in `gpus` and `nics`.
    #[must_use]
    pub fn path_to_nic(&self, gpu: usize, nic: usize) -> Path {
        if gpu < self.gpus.len() && nic < self.nics.len() {
            self.cell(gpu, self.gpus.len() + nic)
        } else {
            Path::Unknown
        }
    }

    /// Whether NVLink joins every two of the GPUs at these positions. Nothing for less than two, and while no pair is known to be
    /// without it and one is not known.
    #[must_use]
    pub fn all_nvlink(&self, gpus: &[usize]) -> Option<bool> {
        let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| *b < a).map(move |b| self.path(*a, *b)));
        let without = |path: &Path| !matches!(path, Path::Nvl(_) | Path::Loc | Path::Unknown);
        let paths: Vec<Path> = pairs.collect();
        match () {
            () if paths.iter().any(without) => Some(false),
            () if paths.is_empty() || paths.contains(&Path::Unknown) => None,
            () => Some(true),
        }
    }

    /// The longest path between two of the GPUs; unknown as soon as one is. `None` for less than two GPUs.
    #[must_use]
    pub fn longest_path(&self) -> Option<Path> {
        let pairs = (0..self.gpus.len()).flat_map(|a| (0..a).map(move |b| self.path(a, b)));
        pairs.max_by_key(|path| path.distance().unwrap_or(u8::MAX))
    }

    /// Notes that NVLinks join two GPUs, by their positions in `gpus`: sysfs does not know of them, the driver does.
    pub fn set_nvlinks(&mut self, a: usize, b: usize, links: u32) {
        if a != b && a < self.gpus.len() && b < self.gpus.len() {
            self.paths[a][b] = Path::Nvl(Some(links));
            self.paths[b][a] = Path::Nvl(Some(links));
        }
    }

    /// What the driver says that one GPU may do with another's memory, by their positions in `gpus`.
    #[must_use]
    pub fn p2p(&self, from: usize, to: usize) -> P2p {
        self.p2p.get(from).and_then(|row| row.get(to)).copied().unwrap_or_default()
    }

    /// Notes what the driver says of each two GPUs, by their positions in `gpus`.
    pub(super) fn set_p2p(&mut self, p2p: impl Fn(usize, usize) -> P2p) {
        let size = self.gpus.len();
        self.p2p = (0..size).map(|from| (0..size).map(|to| p2p(from, to)).collect()).collect();
    }

    /// Whether the source told of peer-to-peer capabilities at all.
    #[must_use]
    pub fn knows_p2p(&self) -> bool {
        !self.p2p.is_empty()
    }

    /// The GPU's node of the PCIe tree, by its position in `gpus`.
    #[must_use]
    pub fn device(&self, gpu: usize) -> Option<&Device> {
        fn find(devices: &[Device], gpu: usize) -> Option<&Device> {
            devices.iter().find_map(|device| match device.kind {
                Kind::Gpu(at) if at == gpu => Some(device),
                _ => find(&device.children, gpu),
            })
        }
        self.numa.iter().find_map(|node| find(&node.children, gpu))
    }

    /// The GPU's link now and at its best, of the kernel where it tells, else of the driver; by its position in `gpus`.
    #[must_use]
    pub fn link(&self, gpu: usize) -> Link {
        let kernel = self.device(gpu).map(|device| device.link).unwrap_or_default();
        let driver = self.gpus.get(gpu).and_then(|gpu| gpu.driver.as_ref()).map(|facts| facts.link).unwrap_or_default();
        Link { now: kernel.now.or(driver.now), max: kernel.max.or(driver.max) }
    }

    /// The GPU's link while data was moving, where that was looked at; by its position in `gpus`.
    #[must_use]
    pub fn loaded_link(&self, gpu: usize) -> Option<Lanes> {
        self.gpus.get(gpu)?.driver.as_ref()?.loaded
    }

    /// What the port above the GPU can; by its position in `gpus`.
    #[must_use]
    pub fn slot(&self, gpu: usize) -> Slot {
        self.device(gpu).map(|device| device.slot).unwrap_or_default()
    }

    /// Position of the GPU at a bus address.
    #[must_use]
    pub fn gpu_at(&self, bus_id: BusId) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.bus_id == Some(bus_id))
    }

    /// The same box with its GPUs in another order: `order` has each position once.
    pub(super) fn reordered(self, order: &[usize]) -> Self {
        let old = |at: usize| order.get(at).copied().unwrap_or(at);
        let peers = |a, b| self.p2p(old(a), old(b));
        let mut new = Self::new(
            order.iter().map(|&at| self.gpus[at].clone()).collect(),
            self.nics.clone(),
            self.numa.clone(),
            |a, b| self.cell(old(a), old(b)),
        );
        if self.knows_p2p() {
            new.set_p2p(peers);
        }
        let place = |was: usize| order.iter().position(|&at| at == was).unwrap_or(was);
        new.numa.iter_mut().flat_map(|node| &mut node.children).for_each(|device| device.renumber(&place));
        Self { host: self.host, differences: self.differences, ..new }
    }

    /// A cell of the square over GPUs, then NICs.
    pub(super) fn cell(&self, row: usize, column: usize) -> Path {
        self.paths.get(row).and_then(|row| row.get(column)).copied().unwrap_or(Path::Unknown)
    }
}

impl Device {
    /// Gives the GPUs of this subtree other positions.
    pub(super) fn renumber(&mut self, place: &impl Fn(usize) -> usize) {
        if let Kind::Gpu(at) = &mut self.kind {
            *at = place(*at);
        }
        self.children.iter_mut().for_each(|child| child.renumber(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvlinks_are_noted_both_ways_and_between_gpus_only() {
        let nic = Nic { name: "mlx5_0".into() };
        let mut topology = Topology::new(vec![Gpu::default(); 2], vec![nic], vec![], |_, _| Path::Sys);
        for (a, b) in [(0, 1), (1, 1), (0, 2)] {
            topology.set_nvlinks(a, b, 18);
        }
        assert_eq!((topology.path(0, 1), topology.path(1, 0)), (Path::Nvl(Some(18)), Path::Nvl(Some(18))));
        assert_eq!((topology.path(1, 1), topology.path_to_nic(0, 0)), (Path::Loc, Path::Sys));
    }

    #[test]
    fn a_topology_survives_its_file() {
        let gpu = |index| Gpu { index, bus_id: format!("0000:0{index}:00.0").parse().ok(), ..Gpu::default() };
        let topology = Topology::new(vec![gpu(1), gpu(2), gpu(3)], vec![], vec![], |a, b| match (a, b) {
            (0, 1) => Path::Nvl(Some(4)),
            (0, 2) => Path::Unknown,
            _ => Path::Node,
        });
        let text = serde_json::to_string(&topology).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), topology);
        assert_eq!(
            (topology.path(2, 1), topology.path(1, 0), topology.path(0, 0)),
            (Path::Node, Path::Nvl(Some(4)), Path::Loc)
        );
        assert_eq!(topology.longest_path(), Some(Path::Unknown));
        let joined = |gpus: &[usize]| topology.all_nvlink(gpus);
        assert_eq!((joined(&[0, 1]), joined(&[0, 2]), joined(&[1, 2])), (Some(true), None, Some(false)));
        assert_eq!((joined(&[0, 1, 2]), joined(&[0])), (Some(false), None));
        assert_eq!(topology.path(0, 3), Path::Unknown);
    }
}
