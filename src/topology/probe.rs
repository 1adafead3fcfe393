//! Reads the wiring from sysfs: what the kernel knows of GPUs, network adapters and the ports above them.
//!
//! Attributes that are missing or unreadable (virtual machines, containers, no privileges) are unknown, not an error.
//! NVLinks are no PCI matter: between GPUs this source tells PCIe paths only.

use std::fs;
use std::path::{Path as FilePath, PathBuf};

use super::address::BusId;
use super::config_space::acs_redirect;
use super::host::Host;
use super::link::{Lanes, Link, Slot};
use super::model::{Device, Gpu, Kind, Nic, NumaNode, Topology};
use super::tree::Places;
use crate::error::{Error, Kind as ErrorKind, Result};

const NVIDIA: &str = "0x10de";

/// The topology below `root`, which is `/` but for tests. GPUs are numbered in the order of their bus addresses.
pub fn probe(root: &FilePath) -> Result<Topology> {
    let folder = root.join("sys/bus/pci/devices");
    let entries = fs::read_dir(&folder).map_err(|error| {
        Error::new(ErrorKind::Environment, format!("cannot list the PCI devices in {}", folder.display()))
            .because(error)
            .help("mount /sys, or pass the output of `nvidia-smi topo -m`")
    })?;
    let mut endpoints: Vec<_> = entries.flatten().filter_map(|entry| Endpoint::read(&entry.path())).collect();
    endpoints.sort_by_key(|endpoint| endpoint.bus_id);

    let (mut gpus, mut nics, mut numa) = (Vec::new(), Vec::new(), Vec::new());
    for endpoint in &endpoints {
        let kind = match &endpoint.function {
            Function::Gpu => {
                gpus.push(Gpu {
                    index: u32::try_from(gpus.len()).unwrap_or(u32::MAX),
                    bus_id: Some(endpoint.bus_id),
                    numa: endpoint.numa,
                    cpus: text(&endpoint.folder, "local_cpulist"),
                    ..Gpu::default()
                });
                Kind::Gpu(gpus.len() - 1)
            }
            Function::Nic(name) => {
                nics.push(Nic { name: name.clone() });
                Kind::Nic(vec![nics.len() - 1])
            }
        };
        hang(&mut numa, endpoint, kind);
    }
    numa.sort_by_key(|node: &NumaNode| node.id.map_or(u32::MAX, |id| id));
    let cpu = cpu_model(root);
    for node in &mut numa {
        node.cpu.clone_from(&cpu);
        let folder = node.id.map(|id| root.join(format!("sys/devices/system/node/node{id}")));
        node.cpus = folder.and_then(|folder| text(&folder, "cpulist"));
    }
    let places = Places::of(&numa, gpus.len(), nics.len());
    let groups: Vec<u32> = endpoints
        .iter()
        .filter(|e| matches!(e.function, Function::Gpu))
        .filter_map(|e| iommu_group(&e.folder))
        .collect();
    let mut topology = Topology::new(gpus, nics, numa, |a, b| places.path(a, b));
    topology.host = Host::read(root, &groups);
    Ok(topology)
}

/// A GPU or network adapter and the way to it.
struct Endpoint {
    bus_id: BusId,
    function: Function,
    folder: PathBuf,
    numa: Option<u32>,
    root: BusId,
    /// Ports from the root complex down.
    ports: Vec<PathBuf>,
}

enum Function {
    Gpu,
    Nic(String),
}

impl Endpoint {
    /// The device at an entry of `/sys/bus/pci/devices`, if it is one of those we look for.
    fn read(entry: &FilePath) -> Option<Self> {
        let folder = fs::canonicalize(entry).ok()?;
        let class = text(&folder, "class")?;
        let function = match class.get(..6)? {
            "0x0300" | "0x0302" if text(&folder, "vendor")? == NVIDIA => Function::Gpu,
            // Virtual functions are the same adapter once more.
            "0x0200" | "0x0207" if !folder.join("physfn").exists() => Function::Nic(nic_name(&folder)?),
            _ => return None,
        };
        let mut above: Vec<_> = folder.ancestors().skip(1).collect();
        above.reverse();
        let root_at = above.iter().position(|folder| root_complex(folder).is_some())?;
        let ports = above[root_at + 1..].iter().map(PathBuf::from).collect();
        Some(Self {
            bus_id: bus_id(&folder)?,
            numa: text(&folder, "numa_node").and_then(|numa| numa.parse().ok()),
            root: root_complex(above[root_at])?,
            function,
            folder,
            ports,
        })
    }
}

/// Hangs an endpoint into the tree, with the host bridge and the switches above it.
///
/// Below a root complex ports take turns: a root port, then for each switch its upstream and one downstream port. A switch
/// is one node, the upstream port; the other ports are slots.
fn hang(numa: &mut Vec<NumaNode>, endpoint: &Endpoint, kind: Kind) {
    let at = numa.iter().position(|node| node.id == endpoint.numa).unwrap_or_else(|| {
        numa.push(NumaNode { id: endpoint.numa, ..NumaNode::default() });
        numa.len() - 1
    });
    let mut children = &mut numa[at].children;
    let bridge = Device {
        kind: Kind::HostBridge,
        bus_id: Some(endpoint.root),
        link: Link::default(),
        slot: Slot::default(),
        iommu_group: None,
        children: Vec::new(),
    };
    children = below(children, bridge);
    for pair in endpoint.ports.chunks(2) {
        if let [above, upstream] = pair {
            children = below(children, device(upstream, Some(above), Kind::Switch));
        }
    }
    let slot = if endpoint.ports.len() % 2 == 1 { endpoint.ports.last() } else { None };
    children.push(device(&endpoint.folder, slot, kind));
}

/// The children of the node with this address, which is put there if it is new.
fn below(children: &mut Vec<Device>, node: Device) -> &mut Vec<Device> {
    let at = children.iter().position(|child| child.kind == node.kind && child.bus_id == node.bus_id);
    let at = at.unwrap_or_else(|| {
        children.push(node);
        children.len() - 1
    });
    &mut children[at].children
}

fn device(folder: &FilePath, port: Option<&PathBuf>, kind: Kind) -> Device {
    let lanes = |folder: &FilePath, which: &str| {
        let read = |what: &str| text(folder, &format!("{which}_link_{what}"));
        Lanes::read(read("speed").as_deref(), read("width").as_deref())
    };
    let slot = |port: &PathBuf| Slot {
        max: lanes(port, "max"),
        acs_redirect: fs::read(port.join("config")).ok().and_then(|config| acs_redirect(&config)),
    };
    Device {
        kind,
        bus_id: bus_id(folder),
        link: Link { now: lanes(folder, "current"), max: lanes(folder, "max") },
        slot: port.map(slot).unwrap_or_default(),
        iommu_group: iommu_group(folder),
        children: Vec::new(),
    }
}

/// Model of the processors: boxes with several have them all alike.
fn cpu_model(root: &FilePath) -> Option<String> {
    let info = fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
    info.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_owned()))
}

fn iommu_group(folder: &FilePath) -> Option<u32> {
    file_name(&fs::read_link(folder.join("iommu_group")).ok()?)?.parse().ok()
}

/// What NCCL and people call the adapter: its InfiniBand device, else its network interface.
fn nic_name(folder: &FilePath) -> Option<String> {
    let first = |kind: &str| {
        let names = fs::read_dir(folder.join(kind)).ok()?;
        names.flatten().filter_map(|entry| entry.file_name().into_string().ok()).min()
    };
    first("infiniband").or_else(|| first("net"))
}

/// Domain and bus of a root complex, a folder such as `pci0000:80`.
fn root_complex(folder: &FilePath) -> Option<BusId> {
    format!("{}:00.0", file_name(folder)?.strip_prefix("pci")?).parse().ok()
}

fn bus_id(folder: &FilePath) -> Option<BusId> {
    file_name(folder)?.parse().ok()
}

fn file_name(folder: &FilePath) -> Option<&str> {
    folder.file_name()?.to_str()
}

/// An attribute of a device, without the line end.
fn text(folder: &FilePath, attribute: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(attribute)).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
