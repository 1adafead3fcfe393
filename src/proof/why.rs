//! Why a set is faster or slower: what NCCL chose under it, beside what it chose under the baseline, and known faults.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::read::GraphRead;
use super::used::Used;
use crate::collective::Case;
use crate::nccl::words::Protocol;

/// The lowest bandwidth the graph search goes down to: what it settles for when nothing else is found.
const LAST_RESORT: f64 = 0.1;

/// What NCCL chose for one case under one arm, over all its visits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Chosen {
    /// What was used, each once: one entry when all ranks, communicators and visits agree.
    pub used: Vec<Used>,
    /// Transports with the number of pairs that use them, most first; nothing when not known.
    pub transports: Vec<(String, usize)>,
    /// Results of the graph search for rings, each once.
    pub rings: Vec<GraphRead>,
}

/// What one case of the table is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Explained {
    /// What the baseline chose.
    pub baseline: Chosen,
    /// What the set chose.
    pub set: Chosen,
    /// In a sentence, what differs.
    pub difference: String,
    /// Known faults of the baseline or the set, each with its cures.
    pub faults: Vec<String>,
}

/// What was chosen for case `index`.
#[must_use]
pub fn chosen(visits: &[Evidence], index: usize, case: &Case) -> Chosen {
    let mut chosen = Chosen::default();
    for visit in visits {
        let used = (0..visit.ranks()).filter_map(|rank| visit.used(index, case, rank)).flatten();
        add(&mut chosen.used, used.cloned());
        let ranks = visit.read.iter().flat_map(|read| &read.communicators).flat_map(|of| &of.ranks);
        add(&mut chosen.rings, ranks.flat_map(|rank| &rank.graphs).filter(|graph| graph.is_ring()).cloned());
    }
    chosen.transports = transports(visits);
    chosen
}

fn add<T: PartialEq>(to: &mut Vec<T>, items: impl Iterator<Item = T>) {
    for item in items {
        if !to.contains(&item) {
            to.push(item);
        }
    }
}

/// Pairs by transport, over all visits: a pair that varies counts under each.
fn transports(visits: &[Evidence]) -> Vec<(String, usize)> {
    let mut pairs: BTreeMap<String, BTreeSet<(u32, u32)>> = BTreeMap::new();
    for visit in visits {
        let Some(read) = &visit.read else { continue };
        for (pair, via) in read.transports(visit.ranks(), visit.communicators).unwrap_or_default() {
            for transport in via {
                pairs.entry(transport.to_string()).or_default().insert(pair);
            }
        }
    }
    let mut counts: Vec<_> = pairs.into_iter().map(|(transport, pairs)| (transport, pairs.len())).collect();
    counts.sort_by_key(|(_, pairs)| std::cmp::Reverse(*pairs));
    counts
}

/// What the baseline and a set chose for case `index`, and what is known of such a choice.
#[must_use]
pub fn explain(baseline: &[Evidence], set: &[Evidence], index: usize, case: &Case) -> Explained {
    let (baseline, set) = (chosen(baseline, index, case), chosen(set, index, case));
    let difference = difference(&baseline, &set);
    let named = |name: &str, chosen: &Chosen| {
        faults(chosen).into_iter().map(move |fault| format!("{name}: {fault}")).collect::<Vec<_>>()
    };
    let faults = [named("default", &baseline), named("the set", &set)].concat();
    Explained { baseline, set, difference, faults }
}

/// Known faults in what was chosen, each with its cures.
#[must_use]
pub fn faults(chosen: &Chosen) -> Vec<String> {
    let mut faults = Vec::new();
    let lost = |graph: &&GraphRead| {
        graph.channels <= 2 && graph.bandwidth.0 <= LAST_RESORT && graph.intra == "SYS" && graph.inter == "SYS"
    };
    if let Some(graph) = chosen.rings.iter().find(lost)
        && chosen.used.iter().any(|used| used.protocol == Protocol::Simple)
    {
        faults.push(format!(
            "NCCL's graph search failed (ring of {} channels at {} GB/s, {}/{}), so that its model takes every path for slow \
             and chooses Simple for small sizes: NCCL_PROTO=LL, or a graph of the real box by NCCL_GRAPH_FILE, avoids that",
            graph.channels, graph.bandwidth.0, graph.intra, graph.inter
        ));
    }
    faults
}

/// `Ring Simple, 2 channels → Ring LL, 4 channels; via SHM/direct → P2P/direct pointer`.
fn difference(baseline: &Chosen, set: &Chosen) -> String {
    let used = |chosen: &Chosen| {
        let mut words: Vec<String> = Vec::new();
        add(&mut words, chosen.used.iter().map(ToString::to_string));
        if words.is_empty() { "not recorded".to_owned() } else { words.join(" or ") }
    };
    let ways =
        |chosen: &Chosen| chosen.transports.iter().map(|(way, _)| way.as_str()).collect::<Vec<_>>().join(" and ");
    let rings = |chosen: &Chosen| {
        let mut words: Vec<String> = Vec::new();
        add(&mut words, chosen.rings.iter().map(ToString::to_string));
        words.join(" or ")
    };
    let told = [
        ("", used(baseline), used(set)),
        ("via ", ways(baseline), ways(set)),
        ("graph search ", rings(baseline), rings(set)),
    ];
    let changed =
        told.into_iter().filter(|(_, before, after)| before != after && !before.is_empty() && !after.is_empty());
    let changed: Vec<_> = changed.map(|(what, before, after)| format!("{what}{before} → {after}")).collect();
    if changed.is_empty() { format!("both: {}", used(set)) } else { changed.join("; ") }
}
