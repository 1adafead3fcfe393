//! For Graphviz.

use std::fmt::Write;

use super::{gpu_name, label, link, node_title, notes, nvlink_groups, ranks};
use crate::topology::{Device, Kind, Topology};

/// The topology as an undirected graph in Graphviz's language: the PCIe tree and NVLinks, or where the source told only
/// paths, these.
#[must_use]
pub fn dot(topology: &Topology) -> String {
    let mut graph = Graph { topology, text: String::from("graph topology {\n"), next: 0 };
    graph.line(1, "node [shape=box, style=rounded, fontname=\"sans-serif\"]");
    if topology.numa.is_empty() {
        graph.paths();
    } else {
        graph.tree();
    }
    for (group, count) in nvlink_groups(topology) {
        let links = count.map_or_else(|| "NVL".into(), |count| format!("NV{count}"));
        for (a, b) in (0..group.len()).flat_map(|b| (0..b).map(move |a| (a, b))) {
            let edge =
                format!("gpu{} -- gpu{} [label={}, style=bold, constraint=false]", group[a], group[b], quoted(&links));
            graph.line(1, &edge);
        }
    }
    graph.text + "}\n"
}

struct Graph<'a> {
    topology: &'a Topology,
    text: String,
    next: usize,
}

impl Graph<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.text, "{}{text};", "  ".repeat(depth));
    }

    fn tree(&mut self) {
        let topology = self.topology;
        for (at, node) in topology.numa.iter().enumerate() {
            let _ = writeln!(self.text, "  subgraph cluster_{at} {{");
            self.line(2, &format!("label={}", quoted(&node_title(node))));
            node.children.iter().for_each(|child| self.device(child, None));
            self.text.push_str("  }\n");
        }
    }

    fn device(&mut self, device: &Device, above: Option<&str>) {
        let name = match device.kind {
            Kind::Gpu(at) => format!("gpu{at}"),
            _ => {
                self.next += 1;
                format!("device{}", self.next)
            }
        };
        self.line(2, &format!("{name} [label={}]", quoted(&label(self.topology, device))));
        if let Some(above) = above {
            let words: Vec<String> =
                link(device).into_iter().chain(notes(device).into_iter().map(str::to_owned)).collect();
            let color = if notes(device).is_empty() { "" } else { ", color=red" };
            self.line(2, &format!("{above} -- {name} [label={}{color}]", quoted(&words.join(" "))));
        }
        device.children.iter().for_each(|child| self.device(child, Some(&name)));
    }

    fn paths(&mut self) {
        let topology = self.topology;
        for (at, gpu) in topology.gpus.iter().enumerate() {
            let name = format!("{} {}", gpu_name(topology, at), ranks(gpu));
            self.line(1, &format!("gpu{at} [label={}]", quoted(name.trim_end())));
        }
        for (a, b) in (0..topology.gpus.len()).flat_map(|b| (0..b).map(move |a| (a, b))) {
            let path = topology.path(a, b);
            if !matches!(path, crate::topology::Path::Nvl(_)) {
                self.line(1, &format!("gpu{a} -- gpu{b} [label={}]", quoted(&path.to_string())));
            }
        }
        for (at, nic) in topology.nics.iter().enumerate() {
            self.line(1, &format!("nic{at} [label={}]", quoted(&nic.name)));
            for gpu in 0..topology.gpus.len() {
                let path = topology.path_to_nic(gpu, at).to_string();
                self.line(1, &format!("gpu{gpu} -- nic{at} [label={}, style=dashed]", quoted(&path)));
            }
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{parse_nvidia_smi, parse_xml};

    #[test]
    fn a_tree_and_its_nvlinks_are_edges() {
        let dump = include_str!("../../../tests/data/topology/topo-2xh200.xml");
        insta::assert_snapshot!(dot(&parse_xml("topo.xml", dump).unwrap()));
    }

    #[test]
    fn paths_are_edges_where_there_is_no_tree() {
        let text = "\tGPU0\tGPU1\tmlx5_\"0\tCPU Affinity\nGPU0\t X \tNODE\tPIX\t0-9\nGPU1\tNODE\t X \tSYS\t0-9\n";
        let drawn = dot(&parse_nvidia_smi("topo.txt", text).unwrap());
        assert!(drawn.contains("gpu0 -- gpu1 [label=\"NODE\"]"), "{drawn}");
        assert!(drawn.contains("nic0 [label=\"mlx5_\\\"0\"]") && drawn.contains("gpu1 -- nic0"), "{drawn}");
    }
}
