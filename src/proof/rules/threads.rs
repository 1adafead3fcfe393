//! Threads of a block.
//!
//! NCCL (`topoGetAlgoInfo`, 2.8 to 2.30) takes the number set, and only once a small size is down to one channel it halves it
//! while it is a multiple of 128. Ring Simple adds a warp, a block has three warps at least, a tree always has 640 threads.

use super::look::Look;
use crate::nccl::words::{Algorithm, Protocol};
use crate::proof::ranks::{Finding, Outcome};
use crate::proof::read::RankRead;
use crate::proof::used::Used;
use crate::proof::variable::State;

const WARP: i64 = 32;

/// `NCCL_NTHREADS`: of ring LL and ring Simple.
pub(super) fn nthreads(look: &Look) -> Outcome {
    of(look, &[Protocol::Ll, Protocol::Simple], "it acts on LL and Simple of ring and tree")
}

/// `NCCL_LL128_NTHREADS`.
pub(super) fn ll128_nthreads(look: &Look) -> Outcome {
    of(look, &[Protocol::Ll128], "it acts on LL128 only")
}

fn of(look: &Look, protocols: &[Protocol], why_not: &str) -> Outcome {
    let acts =
        |used: &Used| matches!(used.algorithm, Algorithm::Ring | Algorithm::Tree) && protocols.contains(&used.protocol);
    if look.none_used(acts) {
        return Outcome::new(
            State::NoEffectHere,
            format!("{why_not}, which {} not used", if protocols.len() == 1 { "is" } else { "are" }),
        );
    }
    look.each_use(|rank, used| match used.algorithm {
        _ if !acts(used) => Finding::Holds,
        Algorithm::Tree => {
            Finding::Unknown("a tree has 640 threads whatever is set; its channels may depend on it".to_owned())
        }
        _ => ring(look, rank, used),
    })
}

fn ring(look: &Look, rank: u32, used: &Used) -> Finding {
    let asked = look.number();
    let Some(threads) = used.threads() else { return by_table(look, used) };
    match allowed(asked, used).iter().position(|allowed| *allowed == i64::from(threads)) {
        Some(0) => Finding::Holds,
        // So few a small size would also take of another number.
        Some(_) if look.was_read(rank) => Finding::Holds,
        Some(_) => Finding::Unknown(format!("{threads} threads, as a small size takes them of several numbers")),
        None => Finding::Lacks(format!("{threads} threads were used")),
    }
}

/// The threads that a ring's block can have when `asked` are set: those of a large size first, then of smaller ones.
fn allowed(asked: i64, used: &Used) -> Vec<i64> {
    let extra = if used.protocol == Protocol::Simple { WARP } else { 0 };
    let one_channel = used.channels.is_none_or(|channels| channels.most() <= 1);
    let mut threads = vec![asked];
    while let Some(last) = threads.last().filter(|last| one_channel && **last > 0 && *last % 128 == 0) {
        threads.push(last / 2);
    }
    threads.into_iter().map(|threads| threads.saturating_add(extra).max(3 * WARP)).collect()
}

/// The most threads of a block by the table that rank 0 tells for all, on each communicator; none where one has no table.
pub fn table(look: &Look, used: &Used) -> Option<Vec<u32>> {
    let told = look.evidence.tuning.as_ref().or(look.evidence.read.as_ref());
    let zero =
        told.into_iter().flat_map(|read| &read.communicators).filter_map(|of| of.ranks.iter().find(|of| of.rank == 0));
    let most = |rank: &RankRead| {
        let cells = || rank.threads.iter().filter(|(a, p, _)| (a, p) == (&used.algorithm, &used.protocol));
        cells().map(|(_, _, threads)| *threads).next_back()
    };
    zero.map(most).collect()
}

/// Without a profiler.
fn by_table(look: &Look, used: &Used) -> Finding {
    match table(look, used).as_deref() {
        None | Some([]) => Finding::Unknown("threads are not recorded".to_owned()),
        Some(most) => match most.iter().find(|most| i64::from(**most) != look.number()) {
            None => Finding::Holds,
            Some(other) => Finding::Lacks(format!("NCCL's table says {other} threads")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::used::{Channels, Source};

    fn used(protocol: Protocol, channels: u32) -> Used {
        let channels = Some(Channels::Exactly(channels));
        Used { source: Source::Log, algorithm: Algorithm::Ring, protocol, channels, warps: None, captured: None }
    }

    #[test]
    fn a_size_on_one_channel_halves_its_threads_and_a_larger_one_does_not() {
        assert_eq!(allowed(512, &used(Protocol::Ll, 1)), [512, 256, 128, 96]);
        assert_eq!(allowed(512, &used(Protocol::Ll, 3)), [512]);
        assert_eq!(allowed(256, &used(Protocol::Simple, 2)), [288]);
        assert_eq!(allowed(192, &used(Protocol::Ll, 1)), [192]);
        assert_eq!(allowed(64, &used(Protocol::Ll, 1)), [96], "three warps at least");
    }
}
