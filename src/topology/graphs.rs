//! Reads what NCCL writes to `NCCL_GRAPH_DUMP_FILE`: the rings and trees its search found, with their bandwidths.
//!
//! Attributes are those of `ncclTopoGetXmlFromGraph` (`graph/search.cc`).

use std::collections::HashMap;
use std::fmt;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use serde::{Deserialize, Serialize};

use super::path::Path;
use crate::error::{Error, Result};

/// A search that found no more than this found nothing: NCCL's last resort.
const HOPELESS: f64 = 0.1;

/// One graph of the dump.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Graph {
    /// For which algorithm it is.
    pub purpose: Purpose,
    /// Bandwidth of each channel inside the box, GB/s.
    pub bandwidth: f64,
    /// Farthest hop between GPUs.
    pub path: Path,
    /// GPUs of each channel in its order, by NCCL's numbers.
    pub channels: Vec<Vec<u32>>,
}

/// What NCCL searches graphs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Rings.
    Ring,
    /// Trees.
    Tree,
    /// Chains to a reducing network.
    CollNetChain,
    /// Multicast over NVLink switches.
    Nvls,
    /// GPUs that all talk to a reducing network.
    CollNetDirect,
    /// Newer than this program.
    Other(u32),
}

impl Graph {
    /// Whether the search gave up: NCCL then takes every way for slow and chooses wrongly by it.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        !self.channels.is_empty() && self.bandwidth <= HOPELESS
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring => f.pad("ring"),
            Self::Tree => f.pad("tree"),
            Self::CollNetChain => f.pad("CollNet chain"),
            Self::Nvls => f.pad("NVLS"),
            Self::CollNetDirect => f.pad("CollNet direct"),
            Self::Other(id) => f.pad(&format!("graph {id}")),
        }
    }
}

const CUT_OFF: &str = "the file ends within an element: the dump is cut off";

/// The graphs in `text`, which came from the file `name`.
pub fn parse(name: &str, text: &str) -> Result<Vec<Graph>> {
    let mut reader = Reader::from_str(text);
    let mut dump = Dump::default();
    loop {
        let from = reader.buffer_position();
        let event = reader.read_event().map_err(|error| {
            let at = reader.error_position();
            // A dump that ends within a tag is no fault of the tag.
            let label = if reader.buffer_position() == text.len() as u64 { CUT_OFF } else { "here" };
            fault(name, text, at, at, label).because(error)
        })?;
        let outcome = match event {
            Event::Start(element) => dump.open(&element).map(|()| dump.depth += 1),
            Event::Empty(element) => dump.open(&element),
            Event::End(_) => {
                dump.depth -= 1;
                Ok(())
            }
            Event::Eof if dump.depth == 0 => break,
            Event::Eof => Err(CUT_OFF.to_owned()),
            _ => Ok(()),
        };
        outcome.map_err(|label| fault(name, text, from, reader.buffer_position(), label))?;
    }
    if dump.seen { Ok(dump.graphs) } else { Err(fault(name, text, 0, 0, "no <graphs> element")) }
}

fn fault(name: &str, text: &str, start: u64, end: u64, label: impl Into<String>) -> Error {
    let within = |at: u64| text.floor_char_boundary(usize::try_from(at).unwrap_or(text.len()));
    Error::usage(format!("cannot read the NCCL graphs {name}"))
        .at(name, text, within(start)..within(end), label)
        .help("a dump of graphs is what NCCL writes when NCCL_GRAPH_DUMP_FILE names a file")
}

#[derive(Default)]
struct Dump {
    seen: bool,
    depth: usize,
    graphs: Vec<Graph>,
}

impl Dump {
    fn open(&mut self, element: &BytesStart<'_>) -> std::result::Result<(), String> {
        let tag = element.name().as_ref().to_owned();
        let attributes = attributes(element)?;
        match (self.depth, &*tag) {
            (0, "graphs") => self.seen = true,
            (0, _) => return Err(format!("<{tag}> is no dump of graphs, which is one <graphs>")),
            (1, "graph") => self.graphs.push(graph(&attributes)?),
            (2, "channel") => self.graphs.last_mut().into_iter().for_each(|graph| graph.channels.push(Vec::new())),
            (3, "gpu") => {
                let gpu = attributes.get("dev").and_then(|dev| number(dev)).ok_or("a <gpu> without a number as dev")?;
                let channel = self.graphs.last_mut().and_then(|graph| graph.channels.last_mut());
                channel.into_iter().for_each(|channel| channel.push(gpu));
            }
            // Networks, and what newer versions add.
            _ => {}
        }
        Ok(())
    }
}

type Attributes = HashMap<String, String>;

fn attributes(element: &BytesStart<'_>) -> std::result::Result<Attributes, String> {
    let mut attributes = Attributes::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())?;
        attributes.insert(attribute.key.as_ref().to_owned(), value.into_owned());
    }
    Ok(attributes)
}

fn graph(attributes: &Attributes) -> std::result::Result<Graph, String> {
    let of = |key: &str| attributes.get(key).ok_or(format!("a <graph> without {key}"));
    let purpose = match number(of("id")?).ok_or("the id of a <graph> is no number")? {
        0 => Purpose::Ring,
        1 => Purpose::Tree,
        2 => Purpose::CollNetChain,
        3 => Purpose::Nvls,
        4 => Purpose::CollNetDirect,
        id => Purpose::Other(id),
    };
    let bandwidth = of("speedintra")?;
    let bandwidth = bandwidth.parse().map_err(|_| format!("speedintra=\"{bandwidth}\" is no bandwidth"))?;
    // NCCL has words for paths that nvidia-smi does not have.
    let path = of("typeintra")?.parse().unwrap_or(Path::Unknown);
    Ok(Graph { purpose, bandwidth, path, channels: Vec::new() })
}

/// NCCL writes numbers from 1 on in hexadecimal here.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: &str = include_str!("../../tests/data/topology/graph-2xh200.xml");

    #[test]
    fn rings_and_trees_are_read_with_their_bandwidth() {
        let graphs = parse("graph.xml", H200).unwrap();
        let shown: Vec<_> =
            graphs.iter().map(|g| format!("{} {} × {} {}", g.purpose, g.channels.len(), g.bandwidth, g.path)).collect();
        assert_eq!(
            shown,
            ["ring 12 × 30 NVL", "tree 12 × 60 NVL", "CollNet direct 0 × 0 X", "CollNet chain 0 × 0 X", "NVLS 0 × 0 X"]
        );
        assert_eq!((&graphs[1].channels[0], &graphs[1].channels[11]), (&vec![0, 1], &vec![1, 0]));
        assert!(graphs.iter().all(|graph| !graph.is_hopeless()));
    }

    #[test]
    fn a_search_that_gave_up_is_known_by_its_bandwidth() {
        let failed =
            H200.replace("speedintra=\"30\"", "speedintra=\"0.1\"").replace("typeintra=\"NVL\"", "typeintra=\"SYS\"");
        let graphs = parse("graph.xml", &failed).unwrap();
        assert!(graphs[0].is_hopeless() && !graphs[1].is_hopeless() && !graphs[2].is_hopeless());
        assert_eq!(graphs[0].path, Path::Sys);
    }

    #[test]
    fn what_is_no_dump_of_graphs_is_refused_with_its_place() {
        use miette::Diagnostic;
        let label = |text: &str| {
            let error = parse("graph.xml", text).unwrap_err();
            assert!(error.next_step().is_some());
            error.labels().unwrap().next().unwrap().label().unwrap().to_owned()
        };
        assert_eq!(label(""), "no <graphs> element");
        assert_eq!(label("<html/>"), "<html> is no dump of graphs, which is one <graphs>");
        assert_eq!(label("<graphs><graph id=\"0\"/></graphs>"), "a <graph> without speedintra");
        assert_eq!(label(&H200.replacen("dev=\"0x1\"", "dev=\"one\"", 1)), "a <gpu> without a number as dev");
        assert_eq!(label(&H200.replace("</graphs>", "")), "the file ends within an element: the dump is cut off");
    }
}
