//! For the terminal: the PCIe tree, as lines and in boxes, and the matrix of paths.

use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use super::{gpu_name, label, link, node_title, notes, nvlinks, ranks};
use crate::topology::{Device, NumaNode, Peering, Topology};

/// The PCIe tree, a line for each node; `None` where the source told only paths.
#[must_use]
pub fn tree(topology: &Topology) -> Option<String> {
    if topology.numa.is_empty() {
        return None;
    }
    let mut drawn = String::new();
    for node in &topology.numa {
        let _ = writeln!(drawn, "{}", node_title(node));
        lines(topology, node).iter().for_each(|line| {
            let _ = writeln!(drawn, "{line}");
        });
    }
    Some(drawn)
}

/// The PCIe tree in a box for each NUMA node, at most `columns` wide; `None` where the source told only paths.
#[must_use]
pub fn boxes(topology: &Topology, columns: usize) -> Option<String> {
    if topology.numa.is_empty() {
        return None;
    }
    let nodes: Vec<(String, Vec<String>)> =
        topology.numa.iter().map(|node| (node_title(node), lines(topology, node))).collect();
    let widest = |(title, lines): &(String, Vec<String>)| {
        lines.iter().map(|line| line.width()).chain([title.width() + 2]).max().unwrap_or(0)
    };
    let inside = nodes.iter().map(widest).max().unwrap_or(0).min(columns.saturating_sub(4)).max(20);
    let mut drawn = String::new();
    for (at, (title, lines)) in nodes.iter().enumerate() {
        let title = cut(title, inside - 2);
        // The interconnect between sockets leaves one box and enters the next.
        let joined =
            |from: usize| [from, from + 1].iter().all(|&at| topology.numa.get(at).is_some_and(|n| n.id.is_some()));
        let rule = "─".repeat(inside - 1 - title.width());
        let _ = writeln!(drawn, "╭─ {title} {rule}╮");
        for line in lines {
            let line = cut(line, inside);
            let _ = writeln!(drawn, "│ {line}{} │", " ".repeat(inside - line.width()));
        }
        let _ = if joined(at) {
            writeln!(drawn, "╰───┬{}╯\n    │ SYS", "─".repeat(inside - 2))
        } else {
            writeln!(drawn, "╰{}╯", "─".repeat(inside + 2))
        };
    }
    nvlinks(topology).iter().for_each(|line| {
        let _ = writeln!(drawn, "{line}");
    });
    Some(drawn)
}

fn lines(topology: &Topology, node: &NumaNode) -> Vec<String> {
    let mut lines = Vec::new();
    branches(topology, &node.children, "", &mut lines);
    lines
}

fn branches(topology: &Topology, devices: &[Device], indent: &str, lines: &mut Vec<String>) {
    for (at, device) in devices.iter().enumerate() {
        let (branch, below) = if at + 1 == devices.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let marks: String = notes(device).iter().map(|note| format!("  {note}")).collect();
        let link = link(device).map(|link| format!("  {link}")).unwrap_or_default();
        lines.push(format!("{indent}{branch}{}{link}{marks}", label(topology, device)));
        branches(topology, &device.children, &format!("{indent}{below}"), lines);
    }
}

/// `text` in at most `columns`.
fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if kept.width() + c.to_string().width() >= columns {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

/// The matrix of paths over GPUs and network adapters, by rank where ranks are known, with the NUMA node of each GPU. Empty
/// without any of them.
#[must_use]
pub fn matrix(topology: &Topology) -> String {
    let nics = topology.nics.iter().map(|nic| (nic.name.clone(), nic.name.clone()));
    let names: Vec<_> = gpu_names(topology).chain(nics).collect();
    let cells = |row: usize| {
        let numa = topology.gpus.get(row).map(|gpu| gpu.numa.map_or_else(|| "?".into(), |numa| numa.to_string()));
        let paths = (0..names.len()).map(move |column| topology.cell(row, column).to_string());
        paths.chain([numa.unwrap_or_default()]).collect::<Vec<_>>()
    };
    let rows = names.iter().enumerate().map(|(row, (name, _))| (name.clone(), cells(row))).collect();
    grid(names.iter().map(|(_, short)| short.clone()).chain(["NUMA".into()]).collect(), rows)
}

/// What the driver says that the GPU of each row may do with the memory of the GPU of each column.
#[must_use]
pub fn p2p(topology: &Topology) -> String {
    let word = |row: usize, column: usize| {
        if row == column {
            return "X".to_owned();
        }
        let told = topology.p2p(row, column);
        let word =
            if told.read == told.write { told.read.to_string() } else { format!("{}/{}", told.read, told.write) };
        let atomics = if told.atomics == Peering::Supported { "+A" } else { "" };
        // NVML says what could be, CUDA what a process gets.
        let refused = if told.access == Some(false) && told.is_allowed() == Some(true) { " (not by CUDA)" } else { "" };
        format!("{word}{atomics}{refused}")
    };
    let names: Vec<_> = gpu_names(topology).collect();
    let row = |at: usize| (0..names.len()).map(|column| word(at, column)).collect::<Vec<_>>();
    let rows = names.iter().enumerate().map(|(at, (name, _))| (name.clone(), row(at))).collect();
    grid(names.iter().map(|(_, short)| short.clone()).collect(), rows)
}

/// The GPUs as rows and columns name them: by rank where ranks are known.
fn gpu_names(topology: &Topology) -> impl Iterator<Item = (String, String)> + '_ {
    let ranked = topology.gpus.iter().any(|gpu| !gpu.ranks.is_empty());
    topology.gpus.iter().enumerate().map(move |(at, gpu)| {
        let name = gpu_name(topology, at);
        match ranks(gpu) {
            none if none.is_empty() && ranked => (format!("-  {name}"), name),
            none if none.is_empty() => (name.clone(), name),
            ranks => {
                let short = gpu.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
                (format!("{ranks}  {name}"), short)
            }
        }
    })
}

/// Rows of words under a header.
fn grid(header: Vec<String>, rows: Vec<(String, Vec<String>)>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let width = |column: usize| {
        rows.iter().map(|(_, row)| &row[column]).chain([&header[column]]).map(|cell| cell.width()).max()
    };
    let widths: Vec<_> = (0..header.len()).map(|column| width(column).unwrap_or(0)).collect();
    let margin = rows.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let padded = |text: &str, to: usize| format!("{text}{}", " ".repeat(to.saturating_sub(text.width())));
    let mut drawn = String::new();
    for (name, row) in std::iter::once(("", &header)).chain(rows.iter().map(|(name, row)| (name.as_str(), row))) {
        let cells: String =
            row.iter().zip(&widths).map(|(cell, width)| format!("  {}", padded(cell, *width))).collect();
        let _ = writeln!(drawn, "{}", format!("{}{cells}", padded(name, margin)).trim_end());
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Lanes, parse_nvidia_smi, parse_xml};

    #[test]
    fn a_tree_shows_what_a_virtual_machine_hides_as_unknown() {
        let dump = include_str!("../../../tests/data/topology/topo-2xh200.xml");
        insta::assert_snapshot!(tree(&parse_xml("topo.xml", dump).unwrap()).unwrap(), @"
        NUMA node ? · GenuineIntel x86_64
        ├─ GPU0 rank 0  0000:00:06.0  Gen5 x?
        ├─ NIC eth0
        └─ GPU1 rank 1  0000:00:07.0  Gen5 x?
        ");
    }

    #[test]
    fn switches_and_links_below_their_best_are_drawn() {
        let dump = include_str!("../../../tests/data/topology/switches.xml");
        let mut topology = parse_xml("switches.xml", dump).unwrap();
        let gpu = &mut topology.numa[0].children[0].children[0];
        gpu.link.max = Lanes { generation: Some(5), width: Some(16) };
        gpu.slot.max = gpu.link.max;
        gpu.link.now = Lanes { generation: Some(1), width: Some(8) };
        gpu.slot.acs_redirect = Some(true);
        insta::assert_snapshot!(tree(&topology).unwrap(), @"
        NUMA node 0 · GenuineIntel x86_64 · CPUs 0-15
        ├─ switch 0000:16:00.0  Gen5 x16
        │  ├─ GPU1 rank 1  0000:18:00.0  Gen1 x8 (of Gen5 x16)  NARROW  ACS redirects
        │  ├─ GPU0 rank 0  0000:17:00.0  Gen5 x16
        │  └─ switch 0000:19:00.0  Gen4 x16
        │     ├─ GPU2 rank 2  0000:1a:00.0  Gen4 x16
        │     └─ NIC mlx5_0, mlx5_1 0000:1b:00.0  Gen4 x16
        └─ GPU3 rank 3  0000:3a:00.0  Gen5 x16
        NUMA node 1 · GenuineIntel x86_64 · CPUs 16-31
        └─ GPU4 rank 4  0000:9a:00.0  Gen5 x16
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
