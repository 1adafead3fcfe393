//! Reads what NCCL writes to `NCCL_TOPO_DUMP_FILE`.
//!
//! The dump is NCCL's own view: it has no host bridges, so two GPUs of one NUMA node that share no switch are PHB here,
//! whatever `nvidia-smi` calls them. Elements this reader does not know are stepped over.

use std::collections::HashMap;
use std::ops::Range;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::address::BusId;
use super::cpus::CpuList;
use super::link::{Lanes, Link, Slot};
use super::model::{Device, Gpu, Kind, Nic, NumaNode, Topology};
use super::path::Path;
use super::tree::Places;
use crate::error::{Error, Result};

/// Elements within elements; real dumps have fewer than ten.
const DEPTH: usize = 32;

/// The topology in `text`, which came from the file `name`.
pub fn parse(name: &str, text: &str) -> Result<Topology> {
    let mut reader = Reader::from_str(text);
    let mut dump = Dump::default();
    loop {
        let from = reader.buffer_position();
        let event = reader.read_event().map_err(|error| {
            let at = reader.error_position();
            fault(name, text, at..at, "here").because(error).help(HELP)
        })?;
        let outcome = match event {
            Event::Start(element) => dump.open(&element),
            Event::Empty(element) => dump.open(&element).map(|()| dump.close()),
            Event::End(_) => {
                dump.close();
                Ok(())
            }
            Event::Eof if dump.open.is_empty() => break,
            Event::Eof => Err("the file ends within an element: the dump is cut off".into()),
            _ => Ok(()),
        };
        outcome.map_err(|label| fault(name, text, from..reader.buffer_position(), label).help(HELP))?;
    }
    if !dump.seen {
        return Err(fault(name, text, 0..0, "no <system> element").help(HELP));
    }
    Ok(dump.finish())
}

const HELP: &str = "a topology dump is what NCCL writes when NCCL_TOPO_DUMP_FILE names a file";

fn fault(name: &str, text: &str, span: Range<u64>, label: impl Into<String>) -> Error {
    let within = |at: u64| text.floor_char_boundary(usize::try_from(at).unwrap_or(text.len()));
    Error::usage(format!("cannot read the NCCL topology {name}")).at(
        name,
        text,
        within(span.start)..within(span.end),
        label,
    )
}

/// What was read so far.
#[derive(Default)]
struct Dump {
    seen: bool,
    open: Vec<Open>,
    numa: Vec<NumaNode>,
    gpus: Vec<(Gpu, Vec<NvLink>)>,
    nics: Vec<Nic>,
}

/// An element whose end has not come yet.
struct Open {
    tag: String,
    node: Option<Node>,
}

enum Node {
    Numa(NumaNode),
    Device(Device),
}

struct NvLink {
    target: Option<BusId>,
    links: u32,
    to_switch: bool,
}

impl Dump {
    fn open(&mut self, element: &BytesStart<'_>) -> Result<(), String> {
        if self.open.len() >= DEPTH {
            return Err(format!("more than {DEPTH} elements within each other"));
        }
        let tag = element.name().as_ref().to_owned();
        match (self.open.is_empty(), &*tag) {
            (true, "system") if self.seen => return Err("a second topology in one file".into()),
            (true, "system") => self.seen = true,
            (true, "graphs") => return Err("these are graphs (NCCL_GRAPH_DUMP_FILE), no topology".into()),
            (true, _) => return Err(format!("<{tag}> is no topology, which is one <system>")),
            (false, _) => {}
        }
        let attributes = attributes(element)?;
        let node = match &*tag {
            "cpu" => Some(Node::Numa(numa_node(&attributes))),
            "pci" => Some(Node::Device(pci_device(&attributes)?)),
            // Network adapters that are no PCI devices (the socket transport's) stand below a <nic> of their own.
            "nic" if !matches!(self.above(), Some(Node::Device(_))) => Some(Node::Device(device(Kind::Other))),
            _ => None,
        };
        match &*tag {
            "gpu" => self.gpu(&attributes)?,
            "nvlink" => self.nvlink(&attributes),
            "net" => self.net(&attributes),
            _ => {}
        }
        self.open.push(Open { tag, node });
        Ok(())
    }

    fn close(&mut self) {
        match self.open.pop().and_then(|open| open.node) {
            Some(Node::Numa(numa)) => self.numa.push(numa),
            Some(Node::Device(device)) => match self.above() {
                Some(Node::Numa(numa)) => numa.children.push(device),
                Some(Node::Device(above)) => above.children.push(device),
                // A device below no <cpu> hangs nowhere we know.
                None => self.numa.push(NumaNode { children: vec![device], ..NumaNode::default() }),
            },
            None => {}
        }
    }

    /// The innermost node that is open.
    fn above(&mut self) -> Option<&mut Node> {
        self.open.iter_mut().rev().find_map(|open| open.node.as_mut())
    }

    fn device_above(&mut self) -> Option<&mut Device> {
        match self.above()? {
            Node::Device(device) => Some(device),
            Node::Numa(_) => None,
        }
    }

    fn gpu(&mut self, attributes: &Attributes) -> Result<(), String> {
        let index = attributes.get("dev").ok_or("a <gpu> without dev")?;
        let index = index.parse().map_err(|_| format!("dev=\"{index}\" is no number of a GPU"))?;
        let position = self.gpus.len();
        let node = self.open.iter().find_map(|open| match &open.node {
            Some(Node::Numa(numa)) => Some((numa.id, numa.cpus.clone())),
            _ => None,
        });
        let (numa, cpus) = node.unwrap_or_default();
        let device = self.device_above().ok_or("a <gpu> outside a <pci>")?;
        let rank = attributes.get("rank").and_then(|rank| rank.parse().ok());
        if let Kind::Gpu(known) = device.kind {
            // Several ranks on one GPU: it is there already.
            let ranks = &mut self.gpus[known].0.ranks;
            ranks.extend(rank.filter(|rank| !ranks.contains(rank)));
            return Ok(());
        }
        device.kind = Kind::Gpu(position);
        let bus_id = device.bus_id;
        let ranks = rank.into_iter().collect();
        self.gpus.push((Gpu { index, bus_id, numa, cpus, ranks, ..Gpu::default() }, Vec::new()));
        Ok(())
    }

    fn nvlink(&mut self, attributes: &Attributes) {
        let in_gpu = self.open.last().is_some_and(|open| open.tag == "gpu");
        if let (true, Some((_, links))) = (in_gpu, self.gpus.last_mut()) {
            links.push(NvLink {
                target: attributes.get("target").and_then(|target| target.parse().ok()),
                links: attributes.get("count").and_then(|count| count.parse().ok()).unwrap_or(0),
                to_switch: attributes.get("tclass").is_some_and(|class| class.starts_with("0x0680")),
            });
        }
    }

    fn net(&mut self, attributes: &Attributes) {
        let position = self.nics.len();
        let name = attributes.get("name").cloned();
        if let Some(device) = self.device_above() {
            match &mut device.kind {
                Kind::Nic(ports) => ports.push(position),
                kind @ Kind::Other => *kind = Kind::Nic(vec![position]),
                // What is something else already stays it; the adapter then hangs nowhere we know.
                Kind::HostBridge | Kind::Switch | Kind::Gpu(_) => {}
            }
            self.nics.push(Nic { name: name.unwrap_or_else(|| format!("NIC{position}")) });
        }
    }

    fn finish(mut self) -> Topology {
        self.sort_gpus();
        let places = Places::of(&self.numa, self.gpus.len(), self.nics.len());
        let (gpus, links): (Vec<_>, Vec<_>) = self.gpus.into_iter().unzip();
        let buses: Vec<_> = gpus.iter().map(|gpu| gpu.bus_id).collect();
        let nvlink = |a: usize, b: usize| {
            let direct = sum(&links[a], |link| link.target.is_some() && link.target == buses[b]);
            let switched = sum(&links[a], |link| link.to_switch).min(sum(&links[b], |link| link.to_switch));
            (direct + switched > 0).then_some(Path::Nvl(Some(direct + switched)))
        };
        let gpu_count = gpus.len();
        Topology::new(gpus, self.nics, self.numa, |a, b| {
            let nvlink = if b < gpu_count { nvlink(a, b) } else { None };
            nvlink.unwrap_or_else(|| places.path(a, b))
        })
    }

    /// NCCL writes GPUs as they hang in the tree; we number positions by the GPUs' own numbers.
    fn sort_gpus(&mut self) {
        let mut order: Vec<_> = (0..self.gpus.len()).collect();
        order.sort_by_key(|&at| self.gpus[at].0.index);
        let new_place: HashMap<_, _> = order.iter().enumerate().map(|(new, &old)| (old, new)).collect();
        let place = |old: usize| new_place.get(&old).copied().unwrap_or(old);
        self.numa.iter_mut().flat_map(|numa| &mut numa.children).for_each(|device| device.renumber(&place));
        self.gpus.sort_by_key(|(gpu, _)| gpu.index);
    }
}

fn sum(links: &[NvLink], which: impl Fn(&NvLink) -> bool) -> u32 {
    links.iter().filter(|link| which(link)).fold(0, |sum, link| sum.saturating_add(link.links))
}

type Attributes = HashMap<String, String>;

fn attributes(element: &BytesStart<'_>) -> Result<Attributes, String> {
    let mut attributes = Attributes::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())?;
        attributes.insert(attribute.key.as_ref().to_owned(), value.into_owned());
    }
    Ok(attributes)
}

fn numa_node(attributes: &Attributes) -> NumaNode {
    let word = |key: &str| attributes.get(key).filter(|word| !word.is_empty()).cloned();
    let cpu = match (word("vendor"), word("arch")) {
        (Some(vendor), Some(arch)) => Some(format!("{vendor} {arch}")),
        (vendor, arch) => vendor.or(arch),
    };
    // -1 is "the platform does not tell".
    let id = word("numaid").and_then(|id| id.parse().ok());
    NumaNode { id, cpu, cpus: word("affinity").and_then(|mask| cpus_of_mask(&mask)), children: Vec::new() }
}

/// The CPUs of a mask as NCCL writes it: words of 32 bits in hexadecimal, the highest first.
fn cpus_of_mask(mask: &str) -> Option<String> {
    let words: Option<Vec<u64>> =
        mask.split(',').rev().map(|word| u64::from(u32::from_str_radix(word, 16).ok()?).into()).collect();
    let words: Vec<u64> = words?.chunks(2).map(|pair| pair[0] | pair.get(1).unwrap_or(&0) << 32).collect();
    CpuList::of_mask(&words).map(|cpus| cpus.to_string())
}

fn pci_device(attributes: &Attributes) -> Result<Device, String> {
    let text = |key: &str| attributes.get(key).map(String::as_str);
    let bus_id = text("busid").ok_or("a <pci> without busid")?;
    let bridge = text("class").is_some_and(|class| class.starts_with("0x0604"));
    Ok(Device {
        bus_id: bus_id.parse().ok(),
        link: Link { now: Lanes::read(text("link_speed"), text("link_width")), max: Lanes::default() },
        ..device(if bridge { Kind::Switch } else { Kind::Other })
    })
}

fn device(kind: Kind) -> Device {
    Device { kind, bus_id: None, link: Link::default(), slot: Slot::default(), iommu_group: None, children: Vec::new() }
}

#[cfg(test)]
mod tests;
