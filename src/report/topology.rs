//! How a box is wired, for a terminal: all of a [`Look`], and the two lines of it in the head of every report.

use std::fmt::Write as _;
use std::io::Write;
use std::str::FromStr;

use super::Style;
use super::head::Line;
use super::ink::{Tone, paragraph, plain};
use super::sheet::{Align, Column, Sheet};
use super::table::{LEAST, WIDEST, labelled};
use crate::error::{Error, Kind, Result};
use crate::record::look::{Look, Source};
use crate::topology::{self, Gpu, Graph, Lanes, Machine, Topology};
use crate::units::plural;

/// A form of the look, as `--format` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people at a terminal.
    Table,
    /// The document.
    Json,
    /// For Graphviz.
    Dot,
    /// A drawing for a page.
    Svg,
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "table" => Self::Table,
            "json" => Self::Json,
            "dot" => Self::Dot,
            "svg" => Self::Svg,
            _ => return Err(Error::usage(format!("`{text}` is no form of a topology")).help("table, json, dot or svg")),
        })
    }
}

/// Writes a look in this form.
pub fn write(look: &Look, form: Form, style: Style, out: &mut impl Write) -> Result<()> {
    let failed = |error: std::io::Error| Error::new(Kind::Incomplete, "cannot write the topology").because(error);
    let text = match form {
        Form::Table => render(look, style),
        Form::Json => serde_json::to_string_pretty(look).map_err(|error| failed(error.into()))? + "\n",
        Form::Dot => topology::dot(&look.topology),
        Form::Svg => topology::svg(&look.topology),
    };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)
}

/// The look for a terminal.
#[must_use]
pub fn render(look: &Look, style: Style) -> String {
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    paragraph(&mut out, "", &Tone::Strong.ink(&title(look)), columns);
    if let Some(name) = &look.emulated {
        let alarm = format!("EMULATED: this is {}, not the box it runs on.", plain(name));
        paragraph(&mut out, "", &Tone::Bad.ink(&alarm), columns);
    }
    out.push('\n');
    labelled(&mut out, head(look), columns);
    let topology = &look.topology;
    if topology.gpus.len() + topology.nics.len() > 1 {
        let _ = write!(
            out,
            "\n{}\n{}",
            Tone::Strong.ink("what lies between them"),
            plain_lines(&topology::matrix(topology))
        );
    }
    if let Some(boxes) = topology::boxes(topology, columns) {
        let _ = write!(out, "\n{}", plain_lines(&boxes));
    }
    if topology.gpus.iter().any(|gpu| gpu.driver.is_some()) || !topology.numa.is_empty() {
        let _ = write!(out, "\n{}", gpus(topology).fit(style.width, "GPU").render());
    }
    if topology.knows_p2p() && topology.gpus.len() > 1 {
        let title = Tone::Strong.ink("peer-to-peer, as the driver says");
        let _ = write!(out, "\n{title}\n{}", plain_lines(&topology::p2p(topology)));
        let legend = "loads and stores: OK, CNS (not with this chipset), GNS (GPU), TNS (topology), DR (switched off), NS; +A: \
                      atomics. Whether it works is told by `ncclsweep pairs`";
        paragraph(&mut out, "  ", &Tone::Quiet.ink(legend), columns);
    }
    if !look.graphs.is_empty() {
        let _ = write!(out, "\n{}", graphs(&look.graphs).fit(style.width, "order").render());
    }
    let findings = findings(look);
    if !findings.is_empty() {
        out.push('\n');
        labelled(&mut out, findings, columns);
    }
    style.finish(&out)
}

/// Text that a file or a device may have put words into, line by line.
fn plain_lines(text: &str) -> String {
    text.lines().map(|line| plain(line) + "\n").collect()
}

fn title(look: &Look) -> String {
    let time = look.created.strftime("%Y-%m-%d %H:%M UTC");
    match &look.source {
        Source::Host(host) => format!("ncclsweep {} · topology of {} · {time}", look.version, plain(host)),
        Source::File(file) => format!("ncclsweep {} · topology in {}", look.version, plain(file)),
    }
}

fn head(look: &Look) -> Vec<Line> {
    let topology = &look.topology;
    let mut lines = Vec::new();
    if !topology.gpus.is_empty() || matches!(look.source, Source::Host(_)) {
        lines.push(Line::new("GPUs", kinds(topology)));
    }
    if let Source::Host(_) = look.source {
        let known = |text: &Option<String>| text.as_deref().map_or_else(|| "?".into(), plain);
        lines.push(Line::new("driver", format!("{} · CUDA {}", known(&look.driver), known(&look.cuda))));
        let host = &topology.host;
        let container = host.container.iter().map(|name| format!(" · in a container ({})", plain(name)));
        lines.push(Line::new("machine", format!("{}{}", host.machine, container.collect::<String>())));
        lines.push(Line::new("IOMMU", format!("{} · {}", host.iommu, acs(topology))));
    }
    if let Some(visible) = &look.visible_devices {
        lines.push(Line::new("visible", format!("CUDA_VISIBLE_DEVICES={}", plain(visible))));
    }
    lines.extend(brief(topology));
    lines
}

fn kinds(topology: &Topology) -> String {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for gpu in &topology.gpus {
        let name = gpu.driver.as_ref().and_then(|facts| facts.name.as_deref()).map_or_else(|| "GPU".into(), plain);
        match kinds.iter_mut().find(|(known, _)| *known == name) {
            Some((_, number)) => *number += 1,
            None => kinds.push((name, 1)),
        }
    }
    let kinds: Vec<_> = kinds.iter().map(|(name, number)| format!("{number} × {name}")).collect();
    if kinds.is_empty() { "none".into() } else { kinds.join(", ") }
}

/// What access control does on the ports above the GPUs.
fn acs(topology: &Topology) -> String {
    let told: Vec<Option<bool>> = (0..topology.gpus.len()).map(|gpu| topology.slot(gpu).acs_redirect).collect();
    let count = |what: Option<bool>| told.iter().filter(|told| **told == what).count();
    let ports = (0..topology.gpus.len()).any(|gpu| topology.slot(gpu).max != Lanes::default());
    match (count(Some(true)), count(Some(false)), count(None)) {
        (0, 0, _) if ports => "ACS ? (reading it needs root)".into(),
        (0, 0, _) => "ACS ? (no port above a GPU shows)".into(),
        (0, _, 0) => "ACS redirects above no GPU".into(),
        (redirected, _, 0) => format!("ACS redirects above {}", plural(redirected, "GPU")),
        (redirected, _, unknown) => format!("ACS redirects above {}, ? above {unknown}", plural(redirected, "GPU")),
    }
}

/// The box in two lines, about the GPUs that ranks run on: what lies between them, and their links.
#[must_use]
pub(super) fn brief(topology: &Topology) -> Vec<Line> {
    let used = used(topology);
    let mut lines = Vec::new();
    if used.len() > 1 {
        let mut text = paths(topology, &used);
        let nodes = used.iter().filter_map(|&gpu| topology.gpus[gpu].numa).collect::<std::collections::BTreeSet<_>>();
        if !nodes.is_empty() {
            let _ = write!(text, " · {}", plural(nodes.len(), "NUMA node"));
        }
        if topology.knows_p2p() {
            let _ = write!(text, " · {}", allowed(topology, &used));
        }
        lines.push(Line::new("paths", text));
    }
    if let Some(links) = links(topology, &used) {
        lines.push(Line::new("links", links));
    }
    lines
}

/// Positions of the GPUs that ranks run on; all where no ranks are known.
fn used(topology: &Topology) -> Vec<usize> {
    let used: Vec<usize> = (0..topology.gpus.len()).filter(|&at| !topology.gpus[at].ranks.is_empty()).collect();
    if used.is_empty() { (0..topology.gpus.len()).collect() } else { used }
}

/// `PIX in 4 pairs, SYS in 24`
fn paths(topology: &Topology, used: &[usize]) -> String {
    let mut kinds: Vec<(topology::Path, usize)> = Vec::new();
    for (a, b) in pairs(used) {
        let path = topology.path(a, b);
        match kinds.iter_mut().find(|(known, _)| *known == path) {
            Some((_, number)) => *number += 1,
            None => kinds.push((path, 1)),
        }
    }
    kinds.sort_by_key(|(path, _)| path.distance().unwrap_or(u8::MAX));
    match kinds.as_slice() {
        [(path, _)] => format!("{path} between all"),
        several => {
            let each = several.iter().map(|(path, number)| format!("{path} in {}", plural(*number, "pair")));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

fn pairs(used: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    (0..used.len()).flat_map(move |b| (0..b).map(move |a| (used[a], used[b])))
}

/// How many pairs the driver lets reach each other's memory.
fn allowed(topology: &Topology, used: &[usize]) -> String {
    let both = |(a, b)| Some(topology.p2p(a, b).is_allowed()? && topology.p2p(b, a).is_allowed()?);
    let told: Vec<Option<bool>> = pairs(used).map(both).collect();
    let yes = told.iter().filter(|told| **told == Some(true)).count();
    match told.iter().filter(|told| told.is_some()).count() {
        0 => "P2P ?".into(),
        known if yes == known && known == told.len() => "P2P allowed by the driver".into(),
        known if yes == 0 && known == told.len() => "P2P not allowed by the driver".into(),
        _ => format!("P2P allowed by the driver in {yes} of {}", plural(told.len(), "pair")),
    }
}

/// The links of the GPUs, alike ones together.
fn links(topology: &Topology, used: &[usize]) -> Option<String> {
    let mut kinds: Vec<(String, Vec<usize>)> = Vec::new();
    for &gpu in used {
        let text = link(topology, gpu);
        match kinds.iter_mut().find(|(known, _)| *known == text) {
            Some((_, gpus)) => gpus.push(gpu),
            None => kinds.push((text, vec![gpu])),
        }
    }
    if kinds.iter().all(|(text, _)| text == "?") {
        return None;
    }
    kinds.sort_by_key(|(_, gpus)| std::cmp::Reverse(gpus.len()));
    let each = kinds.iter().enumerate().map(|(at, (text, gpus))| match at {
        0 => text.clone(),
        _ => {
            let names: Vec<_> = gpus.iter().map(|&gpu| address(&topology.gpus[gpu])).collect();
            format!("{}: {text}", names.join(", "))
        }
    });
    Some(each.collect::<Vec<_>>().join(" · "))
}

/// `Gen5 x16`, `Gen1 x16 now of Gen5 x16`, with a word for one that is too narrow.
fn link(topology: &Topology, gpu: usize) -> String {
    let (link, slot) = (topology.link(gpu), topology.slot(gpu));
    let now = topology.loaded_link(gpu).unwrap_or_default().or(link.now);
    let most = Lanes {
        generation: link.generation_possible(&slot).or(link.max.generation),
        width: link.width_possible(&slot).or(link.max.width),
    };
    let text = match (now, most) {
        (now, most) if now == Lanes::default() && most == Lanes::default() => "?".into(),
        (now, most) if most.or(now) == now => now.to_string(),
        (now, most) => format!("{now} now of {most}"),
    };
    if is_narrow(topology, gpu) { format!("{text} {}", Tone::Bad.ink("NARROW")) } else { text }
}

fn is_narrow(topology: &Topology, gpu: usize) -> bool {
    let (link, slot) = (topology.link(gpu), topology.slot(gpu));
    // The driver's maximum is that of device and slot together.
    let driver = topology.gpus[gpu].driver.as_ref().map(|facts| facts.link).unwrap_or_default();
    let told = driver.now.width.zip(driver.max.width).map(|(now, most)| now < most);
    link.is_narrow(&slot).or(told) == Some(true)
}

fn address(gpu: &Gpu) -> String {
    gpu.bus_id.map_or_else(|| format!("GPU{}", gpu.index), |bus_id| bus_id.to_string())
}

/// Head of the column of links while data moves, which is there only when that was looked at.
const UNDER: &str = "under";

/// A row for each GPU.
fn gpus(topology: &Topology) -> Sheet {
    let columns = vec![
        Column::new("rank", "", Align::Left),
        Column::new("GPU", "", Align::Left),
        Column::new("address", "", Align::Left),
        Column::new("link", "now", Align::Left),
        Column::new(UNDER, "load", Align::Left).spare(2),
        Column::new("device", "most", Align::Left).spare(3),
        Column::new("slot", "most", Align::Left).spare(3),
        Column::new("NUMA", "", Align::Right),
        Column::new("BAR1", "MiB", Align::Right).spare(4),
        Column::new("SM", "MHz", Align::Right).spare(5),
        Column::new("modes", "", Align::Left).spare(1),
        Column::new("CPUs", "", Align::Left).spare(6),
    ];
    let loaded = (0..topology.gpus.len()).any(|gpu| topology.loaded_link(gpu).is_some());
    let columns = columns.into_iter().filter(|column| loaded || column.head != UNDER).collect();
    let mut sheet = Sheet::new(columns);
    for (at, gpu) in topology.gpus.iter().enumerate() {
        let facts = gpu.driver.clone().unwrap_or_default();
        let link = topology.link(at);
        let lanes = |lanes: Lanes| if lanes == Lanes::default() { "?".into() } else { lanes.to_string() };
        let number = |number: Option<u64>| number.map_or_else(|| "?".into(), |number| number.to_string());
        let now = lanes(link.now);
        let mut row = vec![
            gpu.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
            format!("GPU{}", gpu.index),
            gpu.bus_id.map_or_else(|| "?".into(), |bus_id| bus_id.to_string()),
            if is_narrow(topology, at) { Tone::Bad.ink(&now) } else { now },
            lanes(link.max),
            lanes(topology.slot(at).max),
            number(gpu.numa.map(u64::from)),
            number(facts.bar1_mib),
            number(facts.sm_clock_mhz.map(u64::from)),
            modes(&facts),
            gpu.cpus.as_deref().map_or_else(|| "?".into(), plain),
        ];
        if loaded {
            row.insert(4, topology.loaded_link(at).map_or_else(|| "?".into(), lanes));
        }
        sheet.row(row);
    }
    sheet
}

/// What is switched on; `?` after what is not told.
fn modes(facts: &topology::GpuFacts) -> String {
    let modes = [("MIG", facts.mig), ("ECC", facts.ecc), ("persistent", facts.persistence), ("display", facts.display)];
    let told = modes.iter().filter_map(|(name, on)| match on {
        Some(true) => Some((*name).to_owned()),
        Some(false) => None,
        None => Some(format!("{name}?")),
    });
    told.collect::<Vec<_>>().join(" ")
}

/// A row for each of NCCL's graphs.
fn graphs(graphs: &[Graph]) -> Sheet {
    let columns = vec![
        Column::new("graph", "", Align::Left),
        Column::new("channels", "", Align::Right),
        Column::new("each", "GB/s", Align::Right),
        Column::new("farthest", "hop", Align::Left),
        Column::new("order", "", Align::Left),
    ];
    let mut sheet = Sheet::new(columns);
    for graph in graphs {
        let mut orders: Vec<String> = Vec::new();
        for channel in &graph.channels {
            let order = channel.iter().map(u32::to_string).collect::<Vec<_>>().join("-");
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
        let bandwidth = graph.bandwidth.to_string();
        sheet.row(vec![
            graph.purpose.to_string(),
            graph.channels.len().to_string(),
            if graph.is_hopeless() { Tone::Bad.ink(&bandwidth) } else { bandwidth },
            if graph.channels.is_empty() { "-".into() } else { graph.path.to_string() },
            orders.join(", "),
        ]);
    }
    sheet
}

/// What must be looked at.
fn findings(look: &Look) -> Vec<Line> {
    let topology = &look.topology;
    let mut lines: Vec<Line> = look.unasked.iter().map(|why| Line::new("unknown", plain(why))).collect();
    if matches!(look.source, Source::Host(_)) && topology.numa.is_empty() {
        lines.push(Line::new(
            "unknown",
            "the kernel shows no GPU below /sys/bus/pci/devices: no tree of switches, no slots",
        ));
    }
    for gpu in (0..topology.gpus.len()).filter(|&gpu| is_narrow(topology, gpu)) {
        let (now, most) = (topology.link(gpu).now, topology.link(gpu).width_possible(&topology.slot(gpu)));
        let most = most.or(topology.link(gpu).max.width).map_or_else(|| "?".into(), |most| format!("x{most}"));
        let what = format!("{} runs on x{} of {most}", address(&topology.gpus[gpu]), now.width.unwrap_or_default());
        let help = "power saving never does that: reseat the card, another riser or slot, the slot's lanes in the BIOS";
        lines.push(Line::new("fault", format!("{what}; {help}")));
    }
    let redirected = (0..topology.gpus.len()).any(|gpu| topology.slot(gpu).acs_redirect == Some(true));
    if redirected && topology.host.machine != Machine::Virtual(None) {
        let text = "ACS sends peer-to-peer traffic up to the root instead of across the switch: slow, or broken where the \
                    IOMMU translates; off in the BIOS, or by setpci, or pci=disable_acs_redir=";
        lines.push(Line::new("warning", text));
    }
    for difference in &topology.differences {
        let text = format!(
            "{}: the kernel says {}, the driver {}",
            plain(&difference.of),
            plain(&difference.kernel),
            plain(&difference.driver)
        );
        lines.push(Line::new("differs", text));
    }
    for graph in look.graphs.iter().filter(|graph| graph.is_hopeless()) {
        let text = format!(
            "the search for a {} found nothing better than {} GB/s: NCCL takes every path for slow and chooses Simple for \
             small sizes; NCCL_PROTO=LL, or a graph of the real box by NCCL_GRAPH_FILE, avoids that",
            graph.purpose, graph.bandwidth
        );
        lines.push(Line::new("fault", text));
    }
    lines
}

#[cfg(test)]
mod tests;
