//! The rule for variables without one of their own: what the catalogue says they act on, and that nothing shows them.

use super::look::{Look, Pairs};
use crate::nccl::catalogue;
use crate::nccl::words::{Algorithm, Protocol, Transport};
use crate::proof::ranks::Outcome;
use crate::proof::used::Used;
use crate::proof::variable::State;

/// No effect where all it acts on is known not to be used; else nothing tells.
pub(super) fn rule(look: &Look) -> Outcome {
    let acts_on = catalogue::get(&look.asked.name).map_or(&[][..], |variable| &variable.acts_on);
    // Beside point to point, other words say what of it.
    if acts_on.iter().any(|what| what == "send/recv") {
        return Outcome::new(State::NoEffectHere, "it acts on point to point only, of which an all-reduce has none");
    }
    if !acts_on.is_empty() && acts_on.iter().all(|what| is_idle(look, what)) {
        return Outcome::new(
            State::NoEffectHere,
            format!("it acts on {} only, which is not used", acts_on.join(" and ")),
        );
    }
    traceless(look)
}

/// Whether `what` of the catalogue's words is known not to be used.
fn is_idle(look: &Look, what: &str) -> bool {
    let no_pair = |of: fn(&Transport) -> bool| {
        look.all_pairs().is_some_and(|pairs: Pairs| !pairs.values().flatten().any(|transport| of(transport)))
    };
    match what {
        "P2P" => no_pair(|transport| matches!(transport, Transport::P2p(_) | Transport::Unknown(_))),
        "SHM" => no_pair(|transport| matches!(transport, Transport::Shm(_) | Transport::Unknown(_))),
        "NET" => no_pair(|transport| !matches!(transport, Transport::P2p(_) | Transport::Shm(_))),
        _ => match what.split_once('/') {
            Some((algorithm, protocol)) => match (Algorithm::known(algorithm), Protocol::known(protocol)) {
                (Some(a), Some(p)) => look.none_used(|used: &Used| used.algorithm == a && used.protocol == p),
                _ => false,
            },
            None => match (Algorithm::known(what), Protocol::known(what)) {
                (Some(algorithm), _) => look.none_used(|used| used.algorithm == algorithm),
                (_, Some(protocol)) => look.none_used(|used| used.protocol == protocol),
                _ => false,
            },
        },
    }
}

/// Nothing that is recorded shows the variable: that it was read is all there is to know.
pub(super) fn traceless(look: &Look) -> Outcome {
    let why = match look.was_read_by_all() {
        true => "NCCL read it, and nothing that is recorded shows its effect",
        false => "nothing that is recorded shows its effect",
    };
    Outcome::new(State::Unverified, why)
}
