//! What the ranks of a visit share: the job, the wire, the barrier, and where they are. The same for threads of one worker
//! and for workers of one rank each.

use std::collections::HashMap;
use std::fs::File;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use nccl_profiler_ncclsweep::recorder;

use super::barrier::Barrier;
use super::data::{self, CaseData};
use super::hosts::Hosts;
use super::shared::Shared;
use crate::gpu::GpuError;
use crate::gpu::communicator::UniqueId;
use crate::locks::lock;
use crate::nccl::shm;
use crate::proof::Used;
use crate::record::visit::{At, Checks, Doing, Phase, RanksDoing, UsedBy};
use crate::wire::{self, Event, Job};

/// The pipe to the supervisor.
#[derive(Clone)]
pub(super) struct Wire(Arc<Mutex<File>>);

impl Wire {
    pub(super) fn new(pipe: File) -> Self {
        Self(Arc::new(Mutex::new(pipe)))
    }

    /// Sends an event. A supervisor that is gone means nobody wants the results: the process ends with all of its group.
    pub(super) fn send(&self, event: &Event) {
        let mut pipe = lock(&self.0);
        if wire::send(&mut *pipe, event).is_err() {
            end_group();
        }
    }

    /// Sends the last event and ends the process. The pipe stays locked: nothing follows a last word.
    pub(super) fn end(&self, event: &Event) -> ! {
        let mut pipe = lock(&self.0);
        match wire::send(&mut *pipe, event) {
            Ok(()) => end_process(i32::from(*event != Event::Done)),
            Err(_) => end_group(),
        }
    }

    /// Says why there is no job and ends this process alone: who started it may be no supervisor, and its group not a visit's.
    pub(super) fn refuse(&self, message: String) -> ! {
        let _ = wire::send(&mut *lock(&self.0), &Event::WorkerError { message });
        end_process(1)
    }

    /// Sends the last event to a supervisor that is gone, or does not reach this process, and ends all of the group.
    pub(super) fn end_with_group(&self, event: &Event) -> ! {
        let mut pipe = lock(&self.0);
        let _ = wire::send(&mut *pipe, event);
        end_group()
    }
}

/// Ends the process group, as nobody else will when the supervisor is gone: of one visit, all that a command of `--wrap`
/// started beside the worker is in it.
fn end_group() -> ! {
    let group = nix::unistd::getpgrp();
    shm::remove(shm::held_by(group.as_raw().cast_unsigned()));
    // The call cannot fail for a group that has this process in it.
    let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    end_process(1)
}

/// Ends the process without exit handlers. After a failure communicators are not destroyed, and NCCL does not remove what it
/// shares through `/dev/shm`: that goes here.
fn end_process(status: i32) -> ! {
    if status != 0 {
        shm::remove(shm::held_here());
    }
    // SAFETY: `_exit` takes no memory and never returns.
    unsafe { nix::libc::_exit(status) }
}

/// What the ranks of one worker share, and how they reach those of other workers.
pub(super) struct Team {
    pub(super) wire: Wire,
    pub(super) job: Job,
    /// Host side of the input data; [`CaseData::index`] says which belongs to a case.
    pub(super) data: Vec<CaseData>,
    pub(super) barrier: Barrier,
    shared: Shared,
    /// Communicators of this worker by NCCL's hash, as the profiler plugin names them.
    hashes: Mutex<HashMap<u64, u32>>,
}

impl Team {
    pub(super) fn new(wire: Wire, job: Job, shared: Shared, others: Vec<TcpStream>) -> Self {
        let ranks = job.devices.len() as u32;
        let here = job.host.len() as u32;
        let hosts = (here < ranks).then(|| Hosts::new(&job, shared, others));
        Self {
            wire,
            data: data::for_cases(&job.cases, ranks, job.salt),
            barrier: Barrier::new(here, shared.barrier(), hosts),
            shared,
            hashes: Mutex::default(),
            job,
        }
    }

    pub(super) fn ranks(&self) -> u32 {
        self.job.devices.len() as u32
    }

    /// Whether `rank` does what is done once in every worker.
    pub(super) fn leads_worker(&self, rank: u32) -> bool {
        rank == self.job.ranks.start
    }

    /// Where the team is, as seen from `rank`.
    pub(super) fn at(&self, rank: Option<u32>) -> At {
        At { rank, ..unpack(self.shared.at().load(Ordering::Relaxed)) }
    }

    /// Begins a phase. Called by rank 0 alone.
    pub(super) fn begin(&self, phase: Phase, communicator: u32, case: Option<usize>) {
        let at = At { phase, communicator, case, rank: None };
        self.shared.at().store(pack(at), Ordering::Relaxed);
        self.wire.send(&Event::Phase { at });
    }

    /// Notes what `rank` does next. Never called between the first mark of a timed region and its last.
    pub(super) fn note(&self, rank: u32, doing: Doing) {
        self.shared.note(rank, doing);
    }

    /// Waits for the other ranks.
    pub(super) fn meet(&self, rank: u32) {
        self.note(rank, Doing::Barrier);
        self.barrier.wait(rank);
    }

    /// What all ranks of this host are doing, those of other workers too.
    pub(super) fn doing(&self) -> Vec<RanksDoing> {
        let here = |(rank, _): &(u32, Doing)| self.job.host.contains(rank);
        RanksDoing::of((0..).zip(self.shared.doing()).filter(here))
    }

    /// Sent by the thread that has the failure, after which the process is gone.
    pub(super) fn fail(&self, rank: u32, error: GpuError) -> ! {
        self.wire.end(&Event::Failed { at: self.at(Some(rank)), error })
    }

    /// Hands rank 0's unique id to every rank.
    pub(super) fn share_id(&self, rank: u32, own: Option<UniqueId>) -> UniqueId {
        if let Some(own) = own {
            self.shared.store_id(own);
        }
        self.meet(rank);
        let id = self.shared.id();
        self.meet(rank);
        id
    }

    /// Rank 0 says whether the warm-up has settled; every rank gets its answer.
    ///
    /// One barrier is enough: rank 0 can only say the next thing after another collective, in which every rank takes part.
    pub(super) fn agree(&self, rank: u32, settled: Option<bool>) -> bool {
        if let Some(settled) = settled {
            self.shared.settled().store(settled.into(), Ordering::Release);
        }
        self.meet(rank);
        self.shared.settled().load(Ordering::Acquire) != 0
    }

    /// Gathers the ranks' samples of one region; rank 0 gets the maximum over ranks, sample by sample.
    pub(super) fn slowest(&self, rank: u32, own: &[f64]) -> Option<Vec<f64>> {
        self.shared.store_samples(rank, own);
        self.meet(rank);
        let slowest = (rank == 0).then(|| self.shared.slowest());
        self.meet(rank);
        slowest
    }

    /// Gathers what the ranks' checks found; rank 0 gets the sum.
    pub(super) fn all_checks(&self, rank: u32, own: &Checks) -> Option<Checks> {
        self.shared.store_checks(rank, own);
        self.meet(rank);
        let all = (rank == 0).then(|| self.shared.all_checks());
        self.meet(rank);
        all
    }

    /// Reports what the profiler plugin recorded of this worker's ranks since it was last asked: of `communicator`, or of
    /// those that take turns from it on when the calls were captured. Called by the rank that leads the worker.
    pub(super) fn report_used(&self, communicator: u32, case: usize, captured: bool) {
        let mut by_use: Vec<UsedBy> = Vec::new();
        let mut hashes = lock(&self.hashes);
        for collective in recorder::take().collectives.iter().filter(|c| c.function.as_str() == "AllReduce") {
            let (used, rank) = (Used::recorded(collective, captured), collective.rank.unsigned_abs());
            let known = hashes.entry(collective.communicator.hash);
            let communicator =
                if captured { *known.or_insert(communicator) } else { *known.insert_entry(communicator).get() };
            match by_use.iter_mut().find(|by| by.used == used && by.communicators == [communicator]) {
                Some(by) if by.ranks.contains(&rank) => {}
                Some(by) => by.ranks.push(rank),
                None => by_use.push(UsedBy { case, communicators: vec![communicator], ranks: vec![rank], used }),
            }
        }
        for mut used in by_use {
            used.ranks.sort_unstable();
            self.wire.send(&Event::Used { used });
        }
    }
}

/// Phase, communicator, and case with one added, so that no case is zero.
fn pack(at: At) -> u64 {
    let case = at.case.map_or(0, |case| case as u64 + 1);
    (at.phase as u64) << 56 | u64::from(at.communicator) << 32 | case
}

fn unpack(word: u64) -> At {
    let phase = Phase::ALL.get((word >> 56) as usize).copied().unwrap_or(Phase::Start);
    let case = (word as u32 as usize).checked_sub(1);
    At { phase, communicator: (word >> 32) as u32 & 0xff_ffff, case, rank: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back_from_its_word() {
        for phase in Phase::ALL {
            for (communicator, case) in [(0, None), (999, Some(0)), (5, Some(4_000_000))] {
                let at = At { phase, communicator, case, rank: None };
                assert_eq!(unpack(pack(at)), at);
            }
        }
        assert_eq!(unpack(0).phase, Phase::Start, "what nobody has written yet");
    }
}
