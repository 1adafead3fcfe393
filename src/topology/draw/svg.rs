//! As SVG, to be put into a page or a file of its own. It takes the page's text colour, so it reads on light and dark.

use std::fmt::Write;

use quick_xml::escape::escape;

use super::{gpu_name, label, link, nic_names, node_title, notes, nvlink_groups, ranks};
use crate::topology::{Device, Kind, NumaNode, Path, Topology};

const LEAF: Size = Size { width: 136.0, height: 58.0 };
const INNER: Size = Size { width: 136.0, height: 26.0 };
/// Between leaves, between levels, inside a NUMA node's box.
const GAP: f64 = 12.0;
const RISE: f64 = 30.0;
const PAD: f64 = 14.0;
const TITLE: f64 = 24.0;
/// Strip below the boxes for each group of NVLinks.
const NVLINK: f64 = 24.0;
/// Boxes of NUMA nodes stand beside each other up to this width.
const WIDEST: f64 = 1240.0;
const CELL: Size = Size { width: 56.0, height: 26.0 };

#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
}

/// The topology as one `<svg>` element: the PCIe tree with its links and NVLinks; where the source told only paths, their
/// matrix.
#[must_use]
pub fn svg(topology: &Topology) -> String {
    let mut canvas = Canvas { topology, body: String::new(), gpus: vec![None; topology.gpus.len()] };
    let size = if topology.numa.is_empty() { canvas.matrix() } else { canvas.tree() };
    let (width, height) = (size.width.ceil(), size.height.ceil());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"topology\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         role=\"img\" aria-label=\"{}\">\n{STYLE}{}</svg>\n",
        escape(summary(topology).as_str()),
        canvas.body
    )
}

/// Colours carry no meaning alone: every link has its text.
const STYLE: &str = "\
<style>
.topology { max-width: 100%; height: auto; font: 12px system-ui, sans-serif; color: inherit }
.topology text { fill: currentColor; text-anchor: middle }
.topology .name { font-weight: 600 }
.topology .small { font-size: 10px; opacity: .75 }
.topology .left { text-anchor: start }
.topology rect { stroke: currentColor; stroke-opacity: .45; fill: currentColor; fill-opacity: .04 }
.topology .gpu { fill: #3a9d5d; fill-opacity: .18 }
.topology .idle { fill-opacity: .05; stroke-dasharray: 4 3 }
.topology .nic { fill: #4178be; fill-opacity: .16 }
.topology .switch { fill: #c99a2e; fill-opacity: .2 }
.topology path { stroke: currentColor; stroke-opacity: .6; fill: none }
.topology .unknown { stroke-dasharray: 3 3 }
.topology .bad { stroke: #d03b3b; stroke-opacity: 1 }
.topology text.bad { fill: #d03b3b; stroke: none; font-weight: 600; opacity: 1 }
.topology .nvlink { stroke: #3a9d5d; stroke-opacity: 1; stroke-width: 3 }
</style>
";

fn summary(topology: &Topology) -> String {
    let longest = topology.longest_path().map(|path| format!(", farthest two: {path}")).unwrap_or_default();
    format!("{} GPUs on {} NUMA nodes{longest}", topology.gpus.len(), topology.numa.len())
}

/// A device with the place of its subtree.
struct Placed<'a> {
    device: &'a Device,
    /// Left edge of the subtree, and its width.
    x: f64,
    width: f64,
    children: Vec<Placed<'a>>,
}

impl<'a> Placed<'a> {
    fn new(device: &'a Device, x: f64) -> Self {
        let (children, width) = row(&device.children, x);
        Self { device, x, width: width.max(LEAF.width), children }
    }

    fn middle(&self) -> f64 {
        self.x + self.width / 2.0
    }

    fn levels(&self) -> usize {
        1 + self.children.iter().map(Placed::levels).max().unwrap_or(0)
    }
}

/// Devices beside each other from `x` on, and the width of all.
fn row(devices: &[Device], x: f64) -> (Vec<Placed<'_>>, f64) {
    let mut right = x;
    let placed: Vec<_> = devices
        .iter()
        .map(|device| {
            let placed = Placed::new(device, right);
            right += placed.width + GAP;
            placed
        })
        .collect();
    (placed, (right - GAP - x).max(0.0))
}

struct Canvas<'a> {
    topology: &'a Topology,
    body: String,
    /// Middle of each GPU's lower edge.
    gpus: Vec<Option<(f64, f64)>>,
}

impl Canvas<'_> {
    fn tree(&mut self) -> Size {
        let nodes: Vec<_> = self.topology.numa.iter().map(|node| (node, row(&node.children, 0.0))).collect();
        let levels = nodes.iter().flat_map(|(_, (placed, _))| placed).map(Placed::levels).max().unwrap_or(1);
        let height = TITLE + PAD + LEAF.height + (levels - 1) as f64 * (INNER.height + RISE) + PAD;
        let (mut x, mut y, mut right) = (1.0, 1.0, 0.0_f64);
        for (node, (_, inner)) in &nodes {
            let width = inner.max(title_width(node)) + 2.0 * PAD;
            if x > 1.0 && x + width > WIDEST {
                (x, y) = (1.0, y + height + GAP);
            }
            self.node(node, x, y, Size { width, height });
            x += width + GAP;
            right = right.max(x - GAP);
        }
        let bottom = self.nvlinks(y + height);
        Size { width: right + 1.0, height: bottom + 1.0 }
    }

    fn node(&mut self, node: &NumaNode, x: f64, y: f64, size: Size) {
        self.rect("numa", x, y, size);
        self.text("name left", x + PAD, y + 17.0, &node_title(node));
        let (placed, _) = row(&node.children, x + PAD);
        placed.iter().for_each(|device| self.device(device, y + TITLE + PAD / 2.0, None));
    }

    /// Draws a subtree whose top is at `y`, below a device whose lower middle is given.
    fn device(&mut self, placed: &Placed<'_>, y: f64, above: Option<(f64, f64)>) {
        let leaf = placed.children.is_empty();
        let size = if leaf { LEAF } else { INNER };
        let middle = placed.middle();
        if let Some(above) = above {
            self.link(placed.device, above, (middle, y));
        }
        let class = match &placed.device.kind {
            Kind::Gpu(at) if self.topology.gpus.iter().any(|gpu| !gpu.ranks.is_empty()) => {
                let used = self.topology.gpus.get(*at).is_some_and(|gpu| !gpu.ranks.is_empty());
                if used { "gpu" } else { "gpu idle" }
            }
            Kind::Gpu(_) => "gpu",
            Kind::Nic(_) => "nic",
            Kind::Switch => "switch",
            Kind::HostBridge | Kind::Other => "bridge",
        };
        self.rect(class, middle - size.width / 2.0, y, size);
        if leaf {
            self.leaf(placed.device, middle, y);
        } else {
            self.text("", middle, y + 17.0, &label(self.topology, placed.device));
        }
        if let Kind::Gpu(at) = placed.device.kind
            && let Some(place) = self.gpus.get_mut(at)
        {
            *place = Some((middle, y + size.height));
        }
        let below = (middle, y + size.height);
        placed.children.iter().for_each(|child| self.device(child, y + size.height + RISE, Some(below)));
    }

    fn leaf(&mut self, device: &Device, x: f64, y: f64) {
        let name = match &device.kind {
            Kind::Gpu(at) => {
                let ranks = self.topology.gpus.get(*at).map(ranks).filter(|ranks| !ranks.is_empty());
                let ranks = ranks.map(|ranks| format!(" · {ranks}")).unwrap_or_default();
                format!("{}{ranks}", gpu_name(self.topology, *at))
            }
            Kind::Nic(ports) => nic_names(self.topology, ports),
            _ => label(self.topology, device),
        };
        self.text("name", x, y + 18.0, &name);
        let address = device.bus_id.map_or_else(|| "?".into(), |bus_id| bus_id.to_string());
        self.text("small", x, y + 33.0, &address);
        if let Some(link) = link(device) {
            self.text("small", x, y + 48.0, &link);
        }
    }

    /// The line from a device up to what it hangs on: as thick as it is wide, broken where its width is not known.
    fn link(&mut self, device: &Device, from: (f64, f64), to: (f64, f64)) {
        let notes = notes(device);
        let width = device.link.now.width;
        let class = match () {
            () if !notes.is_empty() => "bad",
            () if width.is_none() => "unknown",
            () => "link",
        };
        let thickness = 1.0 + width.map_or(0.0, |width| f64::from(width.min(16)) / 5.0);
        let half = (from.1 + to.1) / 2.0;
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" stroke-width=\"{thickness:.1}\" d=\"M{:.1} {:.1}V{half:.1}H{:.1}V{:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
        if !notes.is_empty() {
            self.text("small bad", to.0, to.1 - 4.0, &notes.join(" · "));
        }
    }

    /// A bar below the GPUs for each group that NVLinks join; returns the lower end of all.
    fn nvlinks(&mut self, top: f64) -> f64 {
        let mut y = top;
        for (group, count) in nvlink_groups(self.topology) {
            let places: Vec<_> = group.iter().filter_map(|&at| self.gpus[at]).collect();
            let (Some(first), Some(last)) = (places.first(), places.last()) else { continue };
            y += NVLINK;
            let bar = y - NVLINK / 3.0;
            for (x, from) in &places {
                let _ = writeln!(self.body, "<path class=\"nvlink\" d=\"M{x:.1} {from:.1}V{bar:.1}\"/>");
            }
            let _ = writeln!(self.body, "<path class=\"nvlink\" d=\"M{:.1} {bar:.1}H{:.1}\"/>", first.0, last.0);
            let count = count.map_or_else(|| "?".into(), |count| count.to_string());
            self.text("small", (first.0 + last.0) / 2.0, bar - 4.0, &format!("NVLink ×{count}"));
        }
        y
    }

    /// The matrix of paths, nearer ones darker.
    fn matrix(&mut self) -> Size {
        let topology = self.topology;
        let gpus = (0..topology.gpus.len()).map(|at| gpu_name(topology, at));
        let names: Vec<_> = gpus.chain(topology.nics.iter().map(|nic| nic.name.clone())).collect();
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
        let cell = Size { width: CELL.width.max(longest * 7.0 + 8.0), ..CELL };
        for (at, name) in names.iter().enumerate() {
            let place = at as f64 + 1.0;
            self.text("name", (place + 0.5) * cell.width, 17.0, name);
            self.text("name", 0.5 * cell.width, place * cell.height + 17.0, name);
            for column in 0..names.len() {
                let path = topology.cell(at, column);
                let (x, y) = ((column as f64 + 1.0) * cell.width, place * cell.height);
                let near = path.distance().map_or(0.0, |distance| 0.35 - f64::from(distance) * 0.05);
                let class = if path == Path::Unknown { "unknown" } else { "gpu" };
                let _ = writeln!(
                    self.body,
                    "<rect class=\"{class}\" style=\"fill-opacity:{near:.2}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                    cell.width, cell.height
                );
                self.text("", x + cell.width / 2.0, y + 17.0, &path.to_string());
            }
        }
        let side = names.len() as f64 + 1.0;
        Size { width: side * cell.width + 1.0, height: side * cell.height + 1.0 }
    }

    fn rect(&mut self, class: &str, x: f64, y: f64, size: Size) {
        let Size { width, height } = size;
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\"/>"
        );
    }

    fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = writeln!(self.body, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
    }
}

/// About what the title of a node takes.
fn title_width(node: &NumaNode) -> f64 {
    node_title(node).chars().count() as f64 * 7.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{parse_nvidia_smi, parse_xml};

    /// Every element is closed, every text escaped.
    #[track_caller]
    fn well_formed(svg: &str) {
        let mut reader = quick_xml::Reader::from_str(svg);
        loop {
            match reader.read_event().unwrap_or_else(|error| panic!("{error} in {svg}")) {
                quick_xml::events::Event::Eof => break,
                _ => continue,
            }
        }
    }

    #[test]
    fn switches_nics_and_nvlinks_are_drawn() {
        let drawn = svg(&parse_xml("switches.xml", include_str!("../../../tests/data/topology/switches.xml")).unwrap());
        well_formed(&drawn);
        let count = |what: &str| drawn.matches(what).count();
        assert_eq!((count("class=\"gpu\""), count("class=\"switch\""), count("class=\"nic\"")), (5, 2, 1));
        assert_eq!((count("class=\"numa\""), count("NVLink ×4")), (2, 1));
        assert!(drawn.contains("GPU3 · rank 3") && drawn.contains("0000:1a:00.0"), "{drawn}");
    }

    #[test]
    fn a_source_without_a_tree_is_drawn_as_its_matrix() {
        let text = "\tGPU0\tGPU1\tmlx5_<0>\tCPU Affinity\nGPU0\t X \tNODE\tPIX\t0-9\nGPU1\tNODE\t X \tCXL\t0-9\n";
        let drawn = svg(&parse_nvidia_smi("topo.txt", text).unwrap());
        well_formed(&drawn);
        assert_eq!((drawn.matches(">NODE<").count(), drawn.matches(">PIX<").count()), (2, 2));
        assert!(drawn.contains("mlx5_&lt;0&gt;") && drawn.contains("class=\"unknown\""), "{drawn}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let drawn = svg(&Topology::default());
        well_formed(&drawn);
        assert!(!drawn.contains("<rect") && drawn.contains("0 GPUs"));
    }
}
