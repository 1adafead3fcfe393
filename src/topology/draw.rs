//! A [`Topology`] for the terminal: the PCIe tree and the matrix of paths.

use std::fmt::Write;

use super::model::{Device, Kind, Lanes, Topology};

/// The PCIe tree, a line for each node; `None` where the source told only paths.
#[must_use]
pub fn tree(topology: &Topology) -> Option<String> {
    if topology.numa.is_empty() {
        return None;
    }
    let mut drawn = String::new();
    for node in &topology.numa {
        let id = node.id.map_or_else(|| "?".into(), |id| id.to_string());
        let cpu = node.cpu.as_deref().map(|cpu| format!("  {cpu}")).unwrap_or_default();
        let _ = writeln!(drawn, "NUMA node {id}{cpu}");
        branches(topology, &node.children, "", &mut drawn);
    }
    Some(drawn)
}

fn branches(topology: &Topology, devices: &[Device], indent: &str, drawn: &mut String) {
    for (at, device) in devices.iter().enumerate() {
        let (branch, below) = if at + 1 == devices.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let _ = writeln!(drawn, "{indent}{branch}{}", label(topology, device));
        branches(topology, &device.children, &format!("{indent}{below}"), drawn);
    }
}

fn label(topology: &Topology, device: &Device) -> String {
    let bus_id = device.bus_id.map(|id| format!(" {id}")).unwrap_or_default();
    let name = match &device.kind {
        Kind::HostBridge => {
            return device
                .bus_id
                .map_or_else(|| "host bridge".into(), |id| format!("host bridge {:04x}:{:02x}", id.domain, id.bus));
        }
        Kind::Switch => "switch".into(),
        Kind::Gpu(at) => topology.gpus.get(*at).map_or_else(|| "GPU?".into(), |gpu| format!("GPU{}", gpu.index)),
        Kind::Nic(ports) => {
            let names: Vec<_> = ports.iter().filter_map(|at| topology.nics.get(*at)).map(|nic| &*nic.name).collect();
            format!("NIC {}", names.join(", "))
        }
        Kind::Other => "device".into(),
    };
    format!("{name}{bus_id}{}{}", link(device), notes(device))
}

/// The link as it runs, and what it could be where that is more.
fn link(device: &Device) -> String {
    let now = device.link.now;
    let possible = Lanes {
        generation: device.link.generation_possible(&device.slot),
        width: device.link.width_possible(&device.slot),
    };
    if now == Lanes::default() && possible == Lanes::default() {
        return if device.bus_id.is_some() { "  link ?".into() } else { String::new() };
    }
    let more = possible.generation > now.generation || possible.width > now.width;
    if more { format!("  {now} (of {possible})") } else { format!("  {now}") }
}

fn notes(device: &Device) -> String {
    let mut notes = String::new();
    if device.link.is_narrow(&device.slot) == Some(true) {
        notes.push_str("  NARROW");
    }
    if device.slot.acs_redirect == Some(true) {
        notes.push_str("  ACS redirects");
    }
    notes
}

/// The matrix of paths over GPUs and network adapters, with the NUMA node of each GPU. Empty without any of them.
#[must_use]
pub fn matrix(topology: &Topology) -> String {
    if topology.gpus.is_empty() && topology.nics.is_empty() {
        return String::new();
    }
    let gpus = topology.gpus.iter().map(|gpu| format!("GPU{}", gpu.index));
    let names: Vec<_> = gpus.chain(topology.nics.iter().map(|nic| nic.name.clone())).collect();
    let cells = |row: usize| {
        let numa = topology.gpus.get(row).map(|gpu| gpu.numa.map_or_else(|| "?".into(), |numa| numa.to_string()));
        let paths = (0..names.len()).map(move |column| topology.cell(row, column).to_string());
        paths.chain([numa.unwrap_or_default()]).collect::<Vec<_>>()
    };
    let header: Vec<_> = names.iter().cloned().chain(["NUMA".into()]).collect();
    let rows: Vec<_> = (0..names.len()).map(cells).collect();
    let width = |column: usize| rows.iter().chain([&header]).map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..header.len()).map(|column| width(column).unwrap_or(0)).collect();
    let margin = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);

    let mut drawn = String::new();
    for (name, row) in std::iter::once((String::new(), &header)).chain(names.iter().cloned().zip(&rows)) {
        let cells: String = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:<width$}")).collect();
        let _ = writeln!(drawn, "{}", format!("{name:<margin$}{cells}").trim_end());
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{parse_nvidia_smi, parse_xml};

    #[test]
    fn a_tree_shows_what_a_virtual_machine_hides_as_unknown() {
        let dump = include_str!("../../tests/data/topology/topo-2xh200.xml");
        insta::assert_snapshot!(tree(&parse_xml("topo.xml", dump).unwrap()).unwrap(), @"
        NUMA node ?  GenuineIntel x86_64
        ├─ GPU0 0000:00:06.0  Gen5 x?
        ├─ NIC eth0
        └─ GPU1 0000:00:07.0  Gen5 x?
        ");
    }

    #[test]
    fn switches_and_links_below_their_best_are_drawn() {
        let dump = include_str!("../../tests/data/topology/switches.xml");
        let mut topology = parse_xml("switches.xml", dump).unwrap();
        let gpu = &mut topology.numa[0].children[0].children[0];
        gpu.link.max = Lanes { generation: Some(5), width: Some(16) };
        gpu.slot.max = gpu.link.max;
        gpu.link.now = Lanes { generation: Some(1), width: Some(8) };
        gpu.slot.acs_redirect = Some(true);
        insta::assert_snapshot!(tree(&topology).unwrap(), @"
        NUMA node 0  GenuineIntel x86_64
        ├─ switch 0000:16:00.0  Gen5 x16
        │  ├─ GPU1 0000:18:00.0  Gen1 x8 (of Gen5 x16)  NARROW  ACS redirects
        │  ├─ GPU0 0000:17:00.0  Gen5 x16
        │  └─ switch 0000:19:00.0  Gen4 x16
        │     ├─ GPU2 0000:1a:00.0  Gen4 x16
        │     └─ NIC mlx5_0, mlx5_1 0000:1b:00.0  Gen4 x16
        └─ GPU3 0000:3a:00.0  Gen5 x16
        NUMA node 1  GenuineIntel x86_64
        └─ GPU4 0000:9a:00.0  Gen5 x16
        ");
    }

    #[test]
    fn a_matrix_names_paths_and_nodes() {
        let text = "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\n\
            GPU0\t X \tNODE\tPIX\t0-9\t0\nGPU1\tNODE\t X \tN/A\t0-9\tN/A\n";
        let topology = parse_nvidia_smi("topo.txt", text).unwrap();
        insta::assert_snapshot!(matrix(&topology), @"
                GPU0  GPU1  mlx5_0  NUMA
        GPU0    X     NODE  PIX     0
        GPU1    NODE  X     ?       ?
        mlx5_0  PIX   ?     X
        ");
        assert_eq!(tree(&topology), None);
        assert_eq!(matrix(&Topology::default()), "");
    }
}
