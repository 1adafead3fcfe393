//! Drawings of a [`Topology`]: for the terminal, as SVG, for Graphviz. All say the same words of a device.

mod dot;
mod svg;
mod terminal;

pub use dot::dot;
pub use svg::svg;
pub use terminal::{boxes, matrix, p2p, tree};

use super::link::Lanes;
use super::model::{Device, Gpu, Kind, NumaNode, Topology};
use super::path::Path;

/// `NUMA node 0 · AMD EPYC 9555 · CPUs 0-31`
fn node_title(node: &NumaNode) -> String {
    let id = node.id.map_or_else(|| "?".into(), |id| id.to_string());
    let cpu = node.cpu.as_deref().map(|cpu| format!(" · {cpu}")).unwrap_or_default();
    let cpus = node.cpus.as_deref().map(|cpus| format!(" · CPUs {cpus}")).unwrap_or_default();
    format!("NUMA node {id}{cpu}{cpus}")
}

/// `GPU0`
fn gpu_name(topology: &Topology, at: usize) -> String {
    topology.gpus.get(at).map_or_else(|| "GPU?".into(), |gpu| format!("GPU{}", gpu.index))
}

/// `rank 0`, `ranks 0,4`, nothing where none runs.
fn ranks(gpu: &Gpu) -> String {
    let list = gpu.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    match gpu.ranks.len() {
        0 => String::new(),
        1 => format!("rank {list}"),
        _ => format!("ranks {list}"),
    }
}

/// What a device is, and where.
fn label(topology: &Topology, device: &Device) -> String {
    let bus_id = device.bus_id.map(|id| format!(" {id}")).unwrap_or_default();
    let name = match &device.kind {
        Kind::HostBridge => {
            return device
                .bus_id
                .map_or_else(|| "host bridge".into(), |id| format!("host bridge {:04x}:{:02x}", id.domain, id.bus));
        }
        Kind::Switch => "switch".into(),
        Kind::Gpu(at) => {
            let ranks = topology.gpus.get(*at).map(ranks).filter(|ranks| !ranks.is_empty());
            format!("{}{}", gpu_name(topology, *at), ranks.map(|ranks| format!(" {ranks} ")).unwrap_or_default())
        }
        Kind::Nic(ports) => format!("NIC {}", nic_names(topology, ports)),
        Kind::Other => "device".into(),
    };
    format!("{name}{bus_id}")
}

fn nic_names(topology: &Topology, ports: &[usize]) -> String {
    let names: Vec<_> = ports.iter().filter_map(|at| topology.nics.get(*at)).map(|nic| &*nic.name).collect();
    names.join(", ")
}

/// The link as it runs, and what it could be where that is more; `None` for what has no link of its own.
fn link(device: &Device) -> Option<String> {
    let now = device.link.now;
    let possible = Lanes {
        generation: device.link.generation_possible(&device.slot),
        width: device.link.width_possible(&device.slot),
    };
    if now == Lanes::default() && possible == Lanes::default() {
        return (device.bus_id.is_some() && device.kind != Kind::HostBridge).then(|| "link ?".into());
    }
    let more = possible.generation > now.generation || possible.width > now.width;
    Some(if more { format!("{now} (of {possible})") } else { now.to_string() })
}

/// What must be looked at.
fn notes(device: &Device) -> Vec<&'static str> {
    let narrow = device.link.is_narrow(&device.slot) == Some(true);
    let redirects = device.slot.acs_redirect == Some(true);
    [(narrow, "NARROW"), (redirects, "ACS redirects")].into_iter().filter(|(is, _)| *is).map(|(_, note)| note).collect()
}

/// GPUs that NVLinks join, each group in which any two are, and how many links each two have; then single pairs.
fn nvlink_groups(topology: &Topology) -> Vec<(Vec<usize>, Option<u32>)> {
    let links = |a: usize, b: usize| match topology.path(a, b) {
        Path::Nvl(links) => Some(links),
        _ => None,
    };
    let mut groups: Vec<(Vec<usize>, Option<u32>)> = Vec::new();
    for (a, b) in (0..topology.gpus.len()).flat_map(|b| (0..b).map(move |a| (a, b))) {
        let Some(joined) = links(a, b) else { continue };
        if groups.iter().any(|(group, count)| *count == joined && group.contains(&a) && group.contains(&b)) {
            continue;
        }
        // Grown from a pair as far as any two of the group have as many links.
        let mut group = vec![a, b];
        for gpu in 0..topology.gpus.len() {
            if !group.contains(&gpu) && group.iter().all(|&other| links(gpu, other) == Some(joined)) {
                group.push(gpu);
            }
        }
        group.sort_unstable();
        groups.push((group, joined));
    }
    groups
}

/// A line for each group that NVLinks join.
fn nvlinks(topology: &Topology) -> Vec<String> {
    let line = |(group, count): (Vec<usize>, Option<u32>)| {
        let names: Vec<_> = group.iter().map(|&at| gpu_name(topology, at)).collect();
        let each = if group.len() > 2 { " between any two" } else { "" };
        let count = count.map_or_else(|| "?".into(), |count| count.to_string());
        format!("NVLink ×{count}{each}: {}", names.join(" ═ "))
    };
    nvlink_groups(topology).into_iter().map(line).collect()
}
