//! Buffers in host memory: where ranks talk through it, NCCL tells the size and the kind of each.

use super::general;
use super::look::Look;
use crate::nccl::unset::UNSET;
use crate::nccl::words::{Protocol, Transport};
use crate::proof::ranks::{Finding, Outcome};
use crate::proof::read::BufferRead;
use crate::proof::variable::State;

/// Head and tail of a connection, a page. A connection whose buffers are at its other end is nothing else.
const CONTROL: i64 = 4096;
/// Buffers of LL and LL128 when nothing is set (`src/init.cc`).
const LL: i64 = 524_288;
const LL128: i64 = 4_915_200;

/// `NCCL_BUFFSIZE`, of Simple. A connection has the buffers of all protocols in one piece (`src/transport/shm.cc`).
pub(super) fn size(look: &Look) -> Outcome {
    if look.none_used(|used| !matches!(used.protocol, Protocol::Ll | Protocol::Ll128)) || !through_host_memory(look) {
        return general::rule(look);
    }
    let others = [("NCCL_LL_BUFFSIZE", LL), ("NCCL_LL128_BUFFSIZE", LL128)]
        .map(|(name, default)| look.other(name).filter(|bytes| *bytes != UNSET).unwrap_or(default));
    let due = others.into_iter().fold(look.number().saturating_add(CONTROL), i64::saturating_add);
    of_each_rank(look, |buffer| match i64::try_from(buffer.bytes.0) {
        Ok(bytes) if bytes == due => Finding::Holds,
        _ => Finding::Lacks(format!("a connection has {} B of buffers, and {due} are due", buffer.bytes.0)),
    })
}

/// `NCCL_CUMEM_HOST_ENABLE`.
pub(super) fn cumem(look: &Look) -> Outcome {
    let together = look.evidence.seen.iter().any(|seen| look.ranks().all(|rank| seen.ranks.contains(&rank)));
    if together {
        return Outcome::new(State::NoEffectHere, "ranks of one process share mapped files whatever it says");
    }
    if !through_host_memory(look) {
        return general::rule(look);
    }
    let wanted = look.number() != 0;
    let kind = |cumem: bool| if cumem { "made by cuMem" } else { "a mapped file" };
    of_each_rank(look, |buffer| match buffer.cumem == wanted {
        true => Finding::Holds,
        false => Finding::Lacks(format!("a buffer is {}", kind(buffer.cumem))),
    })
}

/// Whether every pair of ranks is known to talk through shared memory, and of some buffer the log tells.
fn through_host_memory(look: &Look) -> bool {
    let shared = |transport: &&Transport| matches!(transport, Transport::Shm(_));
    let told = look.evidence.read.as_ref().is_some_and(|read| !read.buffers.is_empty());
    told && look.all_pairs().is_some_and(|pairs| pairs.values().flatten().all(shared))
}

fn of_each_rank(look: &Look, find: impl Fn(&BufferRead) -> Finding) -> Outcome {
    let all = look.evidence.read.as_ref().map(|read| read.buffers.as_slice()).unwrap_or_default();
    look.each_rank(|rank| {
        let data = |buffer: &&BufferRead| buffer.ranks.contains(&rank) && buffer.bytes.0 > CONTROL.unsigned_abs();
        let mut found = all.iter().filter(data).map(&find).peekable();
        match found.peek() {
            Some(_) => found.fold(Finding::Holds, Finding::and),
            None => Finding::Unknown("the log does not tell of its buffers".to_owned()),
        }
    })
}
