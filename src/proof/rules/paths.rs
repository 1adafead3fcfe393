//! Paths within the box: peer access, host memory, and how the log names them.

use super::general;
use super::look::Look;
use crate::nccl::levels::PathLevel;
use crate::nccl::words::Transport;
use crate::proof::ranks::{Finding, Outcome};
use crate::proof::read::RankRead;
use crate::proof::variable::State;
use crate::topology::Path;

fn is_peer(transport: &Transport) -> bool {
    matches!(transport, Transport::P2p(_))
}

fn via((from, to): (u32, u32), transport: &Transport) -> String {
    format!("{from} → {to} goes via {transport}")
}

/// `NCCL_P2P_LEVEL`.
pub(super) fn level(look: &Look) -> Outcome {
    if look.peer_access_off() {
        return Outcome::new(State::NoEffectHere, "NCCL_P2P_DISABLE=1 is set, beside which NCCL never reads the level");
    }
    let Some(level) = PathLevel::read(&look.asked.value, look.version()) else {
        return Outcome::new(State::NotApplied, format!("{} is no level: NCCL ignores it", look.asked.value));
    };
    if let Some(none) = look.pairs().and_then(|pairs| look.no_pair(&pairs)) {
        return none;
    }
    if level > PathLevel::Loc && all_nvlink(look) {
        return Outcome::new(State::NoEffectHere, "NVLink joins every pair, which every level but LOC allows");
    }
    let permitted =
        look.pairs().is_some_and(|pairs| pairs.keys().any(|pair| reaches(look, level, *pair) == Some(true)));
    if permitted && look.was_read_by_all() && without_peers(look).is_some() {
        // A level permits; it cannot make the driver or the box let GPUs copy directly.
        return Outcome::new(
            State::NoEffectHere,
            "NCCL read it, but no pair of GPUs goes via P2P: the driver or the box lets none",
        );
    }
    look.each_pair(look.pairs(), |pair, transport| {
        let peer = is_peer(transport);
        match (reaches(look, level, pair), peer) {
            (Some(allowed), peer) if allowed == peer => Finding::Holds,
            (Some(true), _) => {
                let below = if look.was_read_by_all() { ": the driver or the box does not let them" } else { "" };
                Finding::Lacks(format!("{}{below}", via(pair, transport)))
            }
            // How NCCL sees the wiring can differ from what the system tells, but not by this once it is read.
            (Some(false), _) if look.was_read_by_all() => Finding::Unknown(via(pair, transport)),
            (Some(false), _) => Finding::Lacks(via(pair, transport)),
            (None, _) => Finding::Unknown(format!("what lies between {} and {} is not known", pair.0, pair.1)),
        }
    })
}

/// Whether `level` allows the pair peer access, by what lies between.
fn reaches(look: &Look, level: PathLevel, pair: (u32, u32)) -> Option<bool> {
    match level {
        PathLevel::Loc => return Some(false),
        PathLevel::Sys => return Some(true),
        _ => {}
    }
    let distance = match look.evidence.paths.get(&pair)? {
        Path::Loc => PathLevel::Loc,
        Path::Nvl(_) => PathLevel::Nvl,
        Path::Pix => PathLevel::Pix,
        Path::Pxb => PathLevel::Pxb,
        // NCCL has no level for several host bridges of one NUMA node.
        Path::Phb | Path::Node => PathLevel::Phb,
        Path::Sys => PathLevel::Sys,
        Path::Unknown => return None,
    };
    Some(distance <= level)
}

/// Whether NVLink is known to join all pairs: the system says so, or every ring and every tree NCCL found goes over NVLink.
fn all_nvlink(look: &Look) -> bool {
    let (paths, ranks) = (&look.evidence.paths, look.evidence.devices.len());
    let all = ranks > 1 && paths.len() == ranks * (ranks - 1);
    let joined = |path: &Path| matches!(path, Path::Nvl(_));
    let told = all && paths.values().any(joined) && paths.values().all(|path| joined(path) || *path == Path::Loc);
    let over = |rank: &RankRead| {
        // NCCL searches a ring and a tree: where one is missing, a line was lost.
        let both = rank.graphs.iter().any(|graph| graph.is_ring()) && rank.graphs.iter().any(|graph| graph.is_tree());
        both && rank.graphs.iter().all(|graph| graph.intra == "NVL")
    };
    let found = |rank: u32| look.logged(rank).is_some_and(|ranks| ranks.into_iter().all(over));
    told || (ranks > 0 && look.ranks().all(found))
}

/// `NCCL_P2P_DISABLE`, of which only 1 counts.
pub(super) fn no_peer_access(look: &Look) -> Outcome {
    match look.number() {
        1 => look.each_pair(look.pairs(), |pair, transport| match transport {
            Transport::P2p(_) => Finding::Lacks(via(pair, transport)),
            Transport::Unknown(_) => Finding::Unknown(via(pair, transport)),
            _ => Finding::Holds,
        }),
        _ => Outcome::new(State::NoEffectHere, "only the value 1 counts"),
    }
}

/// `NCCL_SHM_DISABLE`, of which only 1 counts.
pub(super) fn no_shared_memory(look: &Look) -> Outcome {
    match look.number() {
        1 => look.each_pair(look.pairs(), |pair, transport| match transport {
            Transport::Shm(_) => Finding::Lacks(via(pair, transport)),
            Transport::Unknown(_) => Finding::Unknown(via(pair, transport)),
            _ => Finding::Holds,
        }),
        _ => Outcome::new(State::NoEffectHere, "only the value 1 counts"),
    }
}

/// Nothing of P2P is used by any pair: variables of P2P act on nothing.
fn without_peers(look: &Look) -> Option<Outcome> {
    let none = look.all_pairs()?.values().flatten().all(|transport| !is_peer(transport));
    none.then(|| Outcome::new(State::NoEffectHere, "no pair goes via P2P"))
}

/// What the detail of P2P connections shows: `holds` of the detail, for each connection via P2P.
fn peers(look: &Look, holds: impl Fn(&str) -> bool) -> Outcome {
    without_peers(look).unwrap_or_else(|| {
        look.each_pair(look.all_pairs(), |pair, transport| match transport {
            Transport::P2p(detail) if !holds(detail) => Finding::Lacks(via(pair, transport)),
            _ => Finding::Holds,
        })
    })
}

/// `NCCL_P2P_DIRECT_DISABLE`. Off it changes nothing, on it shows where ranks share a process.
pub(super) fn no_direct_pointer(look: &Look) -> Outcome {
    peers(look, |detail| !detail.starts_with("direct pointer"))
}

/// `NCCL_P2P_READ_ENABLE`.
pub(super) fn peer_read(look: &Look) -> Outcome {
    let read = look.number() != 0;
    peers(look, |detail| detail.split('/').any(|part| part == "read") == read)
}

/// `NCCL_P2P_USE_CUDA_MEMCPY`.
pub(super) fn peer_copy(look: &Look) -> Outcome {
    let copy = look.number() != 0;
    peers(look, |detail| detail.ends_with("/CE") == copy)
}

/// `NCCL_SHM_USE_CUDA_MEMCPY`: which side copies is another variable's matter.
pub(super) fn shared_copy(look: &Look) -> Outcome {
    let copy = look.number() != 0;
    let shared =
        |pairs: super::look::Pairs| pairs.values().flatten().any(|transport| matches!(transport, Transport::Shm(_)));
    if look.all_pairs().is_some_and(|pairs| !shared(pairs)) {
        return Outcome::new(State::NoEffectHere, "no pair goes via SHM");
    }
    look.each_pair(look.all_pairs(), |pair, transport| match transport {
        Transport::Shm(detail) if detail.contains("CE") != copy => Finding::Lacks(via(pair, transport)),
        _ => Finding::Holds,
    })
}

/// `NCCL_CUMEM_ENABLE`: it shows in P2P between processes only.
pub(super) fn cumem(look: &Look) -> Outcome {
    let (off, on) = (|detail: &str| detail.starts_with("IPC"), |detail: &str| detail.starts_with("CUMEM"));
    let pairs = look.all_pairs().unwrap_or_default();
    let mut details = pairs.values().flatten().filter_map(|transport| match transport {
        Transport::P2p(detail) => Some(detail.as_str()),
        _ => None,
    });
    if !matches!(look.number(), 0 | 1) || !details.any(|detail| off(detail) || on(detail)) {
        return general::traceless(look);
    }
    peers(look, |detail| match look.number() {
        0 => !on(detail),
        _ => !off(detail),
    })
}
