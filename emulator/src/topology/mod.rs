//! The emulated boxes: what hangs where, which pairs can talk directly, and what each way of talking costs.

mod boxes;
mod cost;
pub(crate) mod sysfs;

pub(crate) use boxes::{NAMES, by_name};
pub(crate) use cost::{Base, Hop, Transfer, transfer_time};

/// How far two devices are apart, in NCCL's order of distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Path {
    /// The same GPU.
    Loc,
    Nvl,
    Nvb,
    C2c,
    Pix,
    Pxb,
    P2c,
    Pxn,
    Phb,
    Sys,
}

impl Path {
    pub(crate) const ALL: [Path; 10] =
        [Path::Loc, Path::Nvl, Path::Nvb, Path::C2c, Path::Pix, Path::Pxb, Path::P2c, Path::Pxn, Path::Phb, Path::Sys];

    /// NCCL's name of the distance.
    pub(crate) fn name(self) -> &'static str {
        ["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"][self as usize]
    }
}

/// How the data of a pair travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transport {
    /// Two ranks on one GPU.
    SameGpu,
    /// Direct loads and stores over NVLink.
    Nvlink,
    /// Direct loads and stores over PCIe.
    Pcie,
    /// Pinned host memory that both GPUs map.
    HostMemory,
    /// Sockets: between hosts, or when host memory is switched off too.
    Socket,
}

/// A kind of GPU.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub name: &'static str,
    pub memory: u64,
    /// Compute capability, 120 for 12.0.
    pub capability: u32,
    pub multiprocessors: u32,
    /// PCI device and subsystem id, as NVML packs them.
    pub pci_device: u32,
    pub power_limit_mw: u32,
    pub sm_clock_mhz: u32,
    pub memory_clock_mhz: u32,
    pub ecc: bool,
}

/// A GPU of a box and where it is plugged in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub socket: u32,
    /// The PCIe switch, or root port when there is no switch; GPUs of one switch reach each other below the host bridge.
    pub switch: u32,
    /// Bus and device as NCCL writes them in one number: `0000:03:00.0` is 0x3000.
    pub address: u32,
}

/// What NCCL's graph search finds for one pattern: channels and the bandwidth of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Graph {
    pub channels: u32,
    pub bandwidth: f64,
    pub intra: Path,
    pub inter: Path,
}

/// What a search ends with that found nothing.
const FAILED: Graph = Graph { channels: 2, bandwidth: 0.1, intra: Path::Sys, inter: Path::Sys };

/// Host-side costs, in microseconds.
#[derive(Debug)]
pub(crate) struct HostCosts {
    /// One eager collective: the time its call keeps the thread, and so the floor of back-to-back launches.
    pub launch: f64,
    /// From entering the call to the kernel's start when the stream is idle.
    pub submit: f64,
    /// What each rank of the communicator adds to that: lone calls do not start together.
    pub skew: f64,
    pub graph_launch: f64,
    /// From the end of the work to the return of a stream synchronisation.
    pub wake: f64,
    /// What an eager launch adds to the device time of a collective, as a share.
    pub eager_share: f64,
    /// What a collective over a network costs more when a graph replays it: NCCL hands it to its proxy in a host callback.
    pub callback: f64,
}

/// What the IOMMU does with the GPUs' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Iommu {
    Off,
    Passthrough,
    Translating,
}

/// An emulated box.
#[derive(Debug)]
pub(crate) struct Machine {
    pub name: &'static str,
    pub gpu: Gpu,
    pub slots: &'static [Slot],
    /// Model of the processors, and the logical CPUs of each socket.
    pub cpu: &'static str,
    pub cpus: &'static [&'static str],
    pub amd: bool,
    /// It is a virtual machine.
    pub guest: bool,
    pub iommu: Iommu,
    /// All GPUs joined by NVLink.
    pub nvlink: bool,
    /// The driver allows P2P over PCIe.
    pub p2p: bool,
    /// NCCL's graph search finds nothing better than 0.1 GB/s once the set spans sockets (see `boxes`).
    pub search_fails: bool,
    pub host: HostCosts,
    pub base: Base,
    pub hops: &'static [(Transport, Hop)],
}

impl Machine {
    /// How far two GPUs are apart, as the hardware is (NVLink counts even where P2P is switched off).
    pub(crate) fn path(&self, a: usize, b: usize) -> Path {
        if a == b {
            return Path::Loc;
        }
        if self.nvlink { Path::Nvl } else { self.pci_path(a, b) }
    }

    /// The distance over PCIe alone.
    pub(crate) fn pci_path(&self, a: usize, b: usize) -> Path {
        let (a, b) = (self.slots[a], self.slots[b]);
        match () {
            () if a.address == b.address => Path::Loc,
            () if a.switch == b.switch => Path::Pix,
            () if a.socket == b.socket => Path::Phb,
            () => Path::Sys,
        }
    }

    /// Whether the driver lets one GPU address the other's memory.
    pub(crate) fn peer_access(&self, a: usize, b: usize) -> bool {
        a != b && (self.nvlink || self.p2p)
    }

    /// The widest distance within a set of GPUs, over NVLink only when `direct` allows it.
    fn widest(&self, gpus: &[usize], direct: bool) -> Path {
        let pairs = gpus.iter().flat_map(|&a| gpus.iter().map(move |&b| (a, b)));
        pairs.map(|(a, b)| if direct { self.path(a, b) } else { self.pci_path(a, b) }).max().unwrap_or(Path::Loc)
    }

    /// Ring and tree as NCCL's search would find them for these GPUs; `nvlink` says that P2P over NVLink is allowed.
    pub(crate) fn graphs(&self, gpus: &[usize], nvlink: bool) -> (Graph, Graph) {
        let intra = self.widest(gpus, nvlink);
        if intra <= Path::Nvl {
            let ring = Graph { channels: 12, bandwidth: 30.0, intra: Path::Nvl, inter: Path::Pix };
            return (ring, Graph { bandwidth: 60.0, ..ring });
        }
        if self.search_fails && intra == Path::Sys {
            return (FAILED, FAILED);
        }
        let ring = Graph { channels: 2, bandwidth: 20.0, intra, inter: Path::Pix };
        (ring, Graph { bandwidth: 40.0, ..ring })
    }

    /// Ring and tree over several hosts with these GPUs each: one channel at the 10 Gb/s that NCCL supposes of a socket's
    /// interface that does not tell its speed.
    pub(crate) fn graphs_between(&self, hosts: &[Vec<usize>], nvlink: bool) -> (Graph, Graph) {
        let intra = hosts.iter().map(|gpus| self.widest(gpus, nvlink)).max().unwrap_or(Path::Loc);
        if self.search_fails && intra == Path::Sys {
            return (FAILED, FAILED);
        }
        let ring = Graph { channels: 1, bandwidth: 1.2, intra, inter: Path::Phb };
        (ring, Graph { bandwidth: 2.4, ..ring })
    }

    /// The hop costs of a transport.
    pub(crate) fn hop(&self, transport: Transport) -> &Hop {
        let found = self.hops.iter().find(|(of, _)| *of == transport);
        &found.or(self.hops.last()).expect("a machine has hop costs").1
    }

    /// A flag from one GPU to another, µs: a step of LL without its data. On two H200 one took 1.76 µs through host memory and
    /// 0.60 µs over NVLink; other ways have the same share of their steps as host memory has.
    pub(crate) fn flag_hop(&self, transport: Transport) -> f64 {
        let share = if transport == Transport::Nvlink { 0.60 / 2.25 } else { 1.76 / 2.6 };
        self.hop(transport).step[0] * share
    }

    /// The PCIe generation of all slots.
    pub(crate) fn pcie_generation(&self) -> u32 {
        if self.gpu.capability < 90 { 4 } else { 5 }
    }

    /// Whether idle GPUs lower the speed of their links: cards do, boards of data centres do not.
    pub(crate) fn saves_power(&self) -> bool {
        self.gpu.capability != 90
    }

    pub(crate) fn pci_bus_id(&self, gpu: usize) -> String {
        let address = self.slots[gpu].address;
        format!("0000:{:02X}:{:02X}.0", address >> 12, address >> 4 & 0xFF)
    }

    /// The 16 bytes of a GPU's UUID: fixed per box and slot.
    pub(crate) fn uuid(&self, gpu: usize) -> [u8; 16] {
        let seed = self.name.bytes().fold(gpu as u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let (high, low) = (crate::noise::mix(seed), crate::noise::mix(seed ^ 0x5EED));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_be_bytes());
        id[8..].copy_from_slice(&low.to_be_bytes());
        id
    }

    /// The UUID as nvidia-smi prints it.
    pub(crate) fn uuid_text(&self, gpu: usize) -> String {
        let hex: String = self.uuid(gpu).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_of_the_story_has_pix_phb_and_sys_pairs() {
        let machine = by_name("8xrtxpro6000-switch").unwrap();
        assert_eq!(machine.path(0, 0), Path::Loc);
        assert_eq!(machine.path(0, 1), Path::Pix);
        assert_eq!(machine.path(1, 2), Path::Phb);
        assert_eq!(machine.path(3, 4), Path::Sys);
    }

    #[test]
    fn every_gpu_has_a_uuid_of_its_own() {
        let all: std::collections::HashSet<_> = NAMES
            .iter()
            .flat_map(|name| {
                let m = by_name(name).unwrap();
                (0..m.slots.len()).map(move |i| m.uuid(i))
            })
            .collect();
        assert_eq!(all.len(), 8 + 8 + 4 + 2);
    }

    #[test]
    fn the_graph_search_fails_only_across_sockets() {
        let machine = by_name("8xrtxpro6000-switch").unwrap();
        assert_eq!(machine.graphs(&[0, 1, 2, 3, 4, 5, 6, 7], false).0.bandwidth, 0.1);
        assert_eq!(machine.graphs(&[0, 1], false).0.bandwidth, 20.0);
    }

    #[test]
    fn nvlink_boxes_fall_back_to_the_pci_graph_without_p2p() {
        let machine = by_name("2xh200-nvlink").unwrap();
        assert_eq!(machine.graphs(&[0, 1], true).0.channels, 12);
        let (ring, tree) = machine.graphs(&[0, 1], false);
        assert_eq!((ring.channels, ring.bandwidth, ring.intra), (2, 20.0, Path::Phb));
        assert_eq!(tree.bandwidth, 40.0);
    }

    #[test]
    fn between_hosts_there_is_one_channel_of_a_slow_network() {
        let machine = by_name("2xh200-nvlink").unwrap();
        let (ring, tree) = machine.graphs_between(&[vec![0], vec![1]], true);
        assert_eq!((ring.channels, ring.bandwidth, ring.intra, ring.inter), (1, 1.2, Path::Loc, Path::Phb));
        assert_eq!(tree.bandwidth, 2.4);
    }
}
