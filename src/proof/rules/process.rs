//! Launching, registration and what stands beside the collectives: logs, dumps, services.

use super::general;
use super::look::Look;
use crate::collective::Mode;
use crate::nccl::register::Register;
use crate::nccl::version::NcclVersion;
use crate::nccl::words::{Algorithm, Protocol, Transport};
use crate::proof::ranks::Outcome;
use crate::proof::variable::State;

/// `NCCL_GRAPH_REGISTER`: buffers of captured calls; of ring and tree under Simple only (`ncclRegisterCollBuffers`).
pub(super) fn graph_register(look: &Look) -> Outcome {
    if look.case.mode != Mode::Graph {
        return only_captured(look);
    }
    if look.none_used(|used| !matches!(used.protocol, Protocol::Ll | Protocol::Ll128)) {
        return Outcome::new(State::NoEffectHere, "it acts on Simple only, which is not used");
    }
    // Networks and other algorithms register in ways of their own.
    let local = |way: &&Transport| matches!(way, Transport::P2p(_) | Transport::Shm(_));
    let pairs = look.all_pairs().filter(|pairs| pairs.values().flatten().all(local));
    let Some(pairs) = pairs.filter(|_| uses_only_ring_or_tree(look)) else { return general::traceless(look) };
    if !pairs.values().flatten().any(|way| matches!(way, Transport::P2p(_))) {
        return Outcome::new(State::NoEffectHere, "it lets peers write to the buffers, and no pair has P2P");
    }
    // Plain memory is registered by request alone since 2.24 (`ipcRegisterBuffer`).
    let plain = look.evidence.register == Some(Register::None) && look.version() >= Some(NcclVersion::new(2, 24, 0));
    if plain && look.other("NCCL_LEGACY_CUDA_REGISTER").is_none_or(|value| value == 0) {
        return Outcome::new(
            State::NoEffectHere,
            "NCCL registers memory of ncclMemAlloc, and the buffers are of cudaMalloc",
        );
    }
    general::traceless(look)
}

fn uses_only_ring_or_tree(look: &Look) -> bool {
    look.none_used(|used| !matches!(used.algorithm, Algorithm::Ring | Algorithm::Tree))
}

/// Variables that act on calls while they are captured.
pub(super) fn only_captured(look: &Look) -> Outcome {
    match look.case.mode {
        Mode::Graph => general::traceless(look),
        Mode::Stream | Mode::Sync => Outcome::new(State::NoEffectHere, "it acts on captured calls, and these are not"),
    }
}

/// `NCCL_LAUNCH_MODE`: PARALLEL unless it says GROUP.
pub(super) fn launch_mode(look: &Look) -> Outcome {
    match look.asked.value.eq_ignore_ascii_case("GROUP") {
        true => general::traceless(look),
        false => Outcome::new(State::NoEffectHere, "it is what NCCL takes when nothing is set"),
    }
}

/// `NCCL_MULTI_RANK_GPU_ENABLE`: without it, communicators with ranks that share a GPU fail.
pub(super) fn shared_gpus(look: &Look) -> Outcome {
    let mut devices = look.evidence.devices.clone();
    devices.sort_unstable();
    match devices.windows(2).any(|pair| pair[0] == pair[1]) {
        false => Outcome::new(State::NoEffectHere, "every rank has a GPU of its own"),
        true if look.evidence.communicators > 0 => Outcome { why: None, ..Outcome::new(State::Applied, "") },
        true => Outcome::new(State::Unverified, "no communicator came up"),
    }
}
