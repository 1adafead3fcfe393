//! What NVML tells of the GPUs as parts of a box: links, NVLinks, peer-to-peer capabilities, modes.

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, P2pCapabilitiesIndex, P2pStatus, TopologyLevel};

use super::nvml::Management;
use crate::topology::{BusId, CpuList, Driver, DriverPair, GpuFacts, Lanes, Link, P2p, Path, Peering};

/// More NVLinks than any GPU has.
const MOST_NVLINKS: u32 = 36;
/// Words of 64 bits in the masks asked for: 1024 CPUs or NUMA nodes.
const MASK: usize = 16;
/// `NVML_AFFINITY_SCOPE_NODE`.
const SCOPE_NODE: u32 = 0;

impl Management {
    /// All GPUs the driver runs and what it says of each two; whatever it refuses to tell stays unknown.
    #[must_use]
    pub fn wiring(&self) -> Driver {
        let count = self.library().device_count().unwrap_or(0);
        let devices: Vec<Device<'_>> = (0..count).filter_map(|at| self.library().device_by_index(at).ok()).collect();
        let known: Vec<(Device<'_>, BusId)> =
            devices.into_iter().filter_map(|device| bus_id(&device).map(|bus_id| (device, bus_id))).collect();
        let nvlinks: Vec<NvLinks> = known.iter().map(|(device, _)| NvLinks::of(device)).collect();
        let mut pairs = Vec::new();
        for (from, (device, bus_id)) in known.iter().enumerate() {
            for (to, (peer, peer_bus_id)) in known.iter().enumerate().filter(|(to, _)| *to != from) {
                let nvlinks = nvlinks[from].to(&nvlinks[to], *bus_id, *peer_bus_id);
                let joined = status(device, peer, P2pCapabilitiesIndex::NvLink) == Peering::Supported;
                let path = match nvlinks {
                    // NVLinks to switches count only where the driver says that they lead to the other GPU.
                    Some((links, direct)) if direct || joined => Path::Nvl(Some(links)),
                    None if joined => Path::Nvl(None),
                    _ => self.common_ancestor(device, *peer_bus_id),
                };
                pairs.push(DriverPair { from, to, path, p2p: p2p(device, peer) });
            }
        }
        Driver { gpus: known.iter().map(|(device, bus_id)| (*bus_id, facts(device))).collect(), pairs }
    }

    /// The link of the GPU at an address, now.
    #[must_use]
    pub fn link_now(&self, gpu: BusId) -> Lanes {
        self.library().device_by_pci_bus_id(gpu.to_string()).map(|device| link(&device).now).unwrap_or_default()
    }

    fn common_ancestor(&self, device: &Device<'_>, peer: BusId) -> Path {
        // The wrapper takes the other device by value.
        let peer = self.library().device_by_pci_bus_id(peer.to_string());
        match peer.and_then(|peer| device.topology_common_ancestor(peer)) {
            Ok(TopologyLevel::Internal | TopologyLevel::Single) => Path::Pix,
            Ok(TopologyLevel::Multiple) => Path::Pxb,
            Ok(TopologyLevel::HostBridge) => Path::Phb,
            Ok(TopologyLevel::Node) => Path::Node,
            Ok(TopologyLevel::System) => Path::Sys,
            Err(_) => Path::Unknown,
        }
    }
}

fn bus_id(device: &Device<'_>) -> Option<BusId> {
    device.pci_info().ok()?.bus_id.parse().ok()
}

fn facts(device: &Device<'_>) -> GpuFacts {
    let mib = |bytes: u64| bytes >> 20;
    let capability = device.cuda_compute_capability().ok();
    let nodes = device.memory_affinity(MASK, SCOPE_NODE).ok().and_then(|mask| CpuList::of_mask(&mask));
    // A GPU that is near to several nodes is near to none in particular.
    let node = nodes.filter(|nodes| nodes.iter().count() == 1).and_then(|nodes| nodes.iter().next());
    GpuFacts {
        name: device.name().ok(),
        uuid: device.uuid().ok(),
        capability: capability.map(|of| format!("{}.{}", of.major, of.minor)),
        numa: node,
        cpus: device.cpu_affinity(MASK).ok().and_then(|mask| CpuList::of_mask(&mask)).map(|cpus| cpus.to_string()),
        link: link(device),
        loaded: None,
        memory_mib: device.memory_info().ok().map(|memory| mib(memory.total)),
        bar1_mib: device.bar1_memory_info().ok().map(|bar1| mib(bar1.total)),
        display: device.is_display_connected().ok(),
        mig: device.mig_mode().ok().map(|mode| mode.current == 1),
        ecc: device.is_ecc_enabled().ok().map(|ecc| ecc.currently_enabled),
        persistence: device.is_in_persistent_mode().ok(),
        sm_clock_mhz: device.clock_info(Clock::SM).ok(),
        max_sm_clock_mhz: device.max_clock_info(Clock::SM).ok(),
        memory_clock_mhz: device.clock_info(Clock::Memory).ok(),
        power_limit_w: device.enforced_power_limit().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
        replays: device.pcie_replay_counter().ok(),
    }
}

fn link(device: &Device<'_>) -> Link {
    let small = |value: u32| u8::try_from(value).ok().filter(|value| *value > 0);
    let lanes = |generation: Option<u32>, width: Option<u32>| Lanes {
        generation: generation.and_then(small),
        width: width.and_then(small),
    };
    Link {
        now: lanes(device.current_pcie_link_gen().ok(), device.current_pcie_link_width().ok()),
        max: lanes(device.max_pcie_link_gen().ok(), device.max_pcie_link_width().ok()),
    }
}

fn p2p(device: &Device<'_>, peer: &Device<'_>) -> P2p {
    P2p {
        read: status(device, peer, P2pCapabilitiesIndex::Read),
        write: status(device, peer, P2pCapabilitiesIndex::Write),
        atomics: status(device, peer, P2pCapabilitiesIndex::Atomics),
        access: None,
    }
}

fn status(device: &Device<'_>, peer: &Device<'_>, of: P2pCapabilitiesIndex) -> Peering {
    match device.p2p_status(peer, of) {
        Ok(P2pStatus::Ok) => Peering::Supported,
        Ok(P2pStatus::ChipsetNotSupported) => Peering::Chipset,
        Ok(P2pStatus::GpuNotSupported) => Peering::Gpu,
        Ok(P2pStatus::IohTopologyNotSupported) => Peering::Topology,
        Ok(P2pStatus::DisabledByRegkey) => Peering::Disabled,
        Ok(P2pStatus::NotSupported) => Peering::NotSupported,
        Ok(P2pStatus::Unknown) | Err(_) => Peering::Unknown,
    }
}

/// The active NVLinks of a GPU by what is at their other end; `None` where that is not told.
struct NvLinks(Vec<Option<BusId>>);

impl NvLinks {
    fn of(device: &Device<'_>) -> Self {
        let links = (0..MOST_NVLINKS).map(|link| device.link_wrapper_for(link));
        let active = links.filter(|link| matches!(link.is_active(), Ok(true)));
        Self(active.map(|link| link.remote_pci_info().ok()?.bus_id.parse().ok()).collect())
    }

    /// How many lead from `own` to `peer`, and whether they do so directly.
    fn to(&self, other: &Self, own: BusId, peer: BusId) -> Option<(u32, bool)> {
        let direct = self.0.iter().filter(|end| **end == Some(peer)).count();
        if direct > 0 {
            return Some((direct as u32, true));
        }
        let elsewhere = |links: &Self, gpu: BusId| links.0.iter().filter(|end| **end != Some(gpu)).count();
        let through_switches = elsewhere(self, peer).min(elsewhere(other, own));
        (through_switches > 0).then_some((through_switches as u32, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bus(bus: u8) -> BusId {
        BusId { domain: 0, bus, device: 0, function: 0 }
    }

    #[test]
    fn nvlinks_lead_to_a_gpu_directly_or_through_switches() {
        let bridge = NvLinks(vec![Some(bus(2)); 4]);
        assert_eq!(bridge.to(&NvLinks(vec![Some(bus(1)); 4]), bus(1), bus(2)), Some((4, true)));
        let (switched, other) = (NvLinks(vec![None; 18]), NvLinks(vec![Some(bus(0x90)); 12]));
        assert_eq!(switched.to(&other, bus(1), bus(2)), Some((12, false)));
        assert_eq!(NvLinks(vec![]).to(&other, bus(1), bus(2)), None);
    }
}
