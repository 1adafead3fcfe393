//! What the ranks of one worker share: the job, the wire, the barrier, and where they are.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nccl_profiler_ncclsweep::recorder;

use super::barrier::Barrier;
use super::data::{self, CaseData};
use crate::gpu::GpuError;
use crate::gpu::communicator::UniqueId;
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

    /// Sends an event. A supervisor that is gone means nobody wants the results: the process ends.
    pub(super) fn send(&self, event: &Event) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wire::send(&mut *pipe, event).is_err() {
            end_process(1);
        }
    }

    /// Sends the last event and ends the process. The pipe stays locked: nothing follows a last word.
    pub(super) fn end(&self, event: &Event) -> ! {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = wire::send(&mut *pipe, event);
        end_process(i32::from(sent.is_err() || *event != Event::Done))
    }

    /// Ends the process with all of its group, as nobody else will: the supervisor is gone, or does not reach this process.
    pub(super) fn end_with_group(&self, event: &Event) -> ! {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = wire::send(&mut *pipe, event);
        end_group();
        end_process(1)
    }
}

/// Ends the process group: of one visit, all that a command of `--wrap` started beside the worker is in it.
fn end_group() {
    // The call cannot fail for a group that has this process in it.
    let _ = nix::sys::signal::killpg(nix::unistd::getpgrp(), nix::sys::signal::Signal::SIGKILL);
}

/// Ends the process without exit handlers.
fn end_process(status: i32) -> ! {
    // SAFETY: `_exit` takes no memory and never returns.
    unsafe { nix::libc::_exit(status) }
}

/// Shared state of the rank threads.
pub(super) struct Team {
    pub(super) wire: Wire,
    pub(super) job: Job,
    /// Host side of the input data; [`CaseData::index`] says which belongs to a case.
    pub(super) data: Vec<CaseData>,
    pub(super) barrier: Barrier,
    /// The call each rank is in, a [`Doing`]; none before the ranks are started.
    doing: Vec<AtomicU8>,
    /// The ranks and the main thread, which reads the GPUs' state when all is measured. It sleeps, the ranks' own spins.
    measured: std::sync::Barrier,
    at: Mutex<At>,
    id: Mutex<Option<UniqueId>>,
    samples: Vec<Mutex<Vec<f64>>>,
    checks: Mutex<Checks>,
    settled: AtomicBool,
}

impl Team {
    pub(super) fn new(wire: Wire, job: Job) -> Self {
        let ranks = job.devices.len() as u32;
        Self {
            wire,
            data: data::for_cases(&job.cases, ranks, job.salt),
            barrier: Barrier::new(ranks),
            doing: (0..ranks).map(|_| AtomicU8::new(Doing::Start as u8)).collect(),
            measured: std::sync::Barrier::new(ranks as usize + 1),
            at: Mutex::new(At { phase: Phase::Start, communicator: 0, case: None, rank: None }),
            id: Mutex::new(None),
            samples: (0..ranks).map(|_| Mutex::default()).collect(),
            checks: Mutex::default(),
            settled: AtomicBool::new(false),
            job,
        }
    }

    pub(super) fn ranks(&self) -> u32 {
        self.job.devices.len() as u32
    }

    /// Where the team is, as seen from `rank`.
    pub(super) fn at(&self, rank: Option<u32>) -> At {
        At { rank, ..*lock(&self.at) }
    }

    /// Begins a phase. Called by rank 0 alone.
    pub(super) fn begin(&self, phase: Phase, communicator: u32, case: Option<usize>) {
        let at = At { phase, communicator, case, rank: None };
        *lock(&self.at) = at;
        self.wire.send(&Event::Phase { at });
    }

    /// Notes what `rank` does next. Never called between the first mark of a timed region and its last.
    pub(super) fn note(&self, rank: u32, doing: Doing) {
        self.doing[rank as usize].store(doing as u8, Ordering::Relaxed);
    }

    /// Waits for the other ranks.
    pub(super) fn meet(&self, rank: u32) {
        self.note(rank, Doing::Barrier);
        self.barrier.wait();
    }

    /// What all ranks are doing.
    pub(super) fn doing(&self) -> Vec<RanksDoing> {
        let of_rank = |doing: &AtomicU8| {
            let number = usize::from(doing.load(Ordering::Relaxed));
            Doing::ALL.get(number).copied().unwrap_or(Doing::Start)
        };
        RanksDoing::of(self.doing.iter().map(of_rank))
    }

    /// Sent by the thread that has the failure, after which the process is gone.
    pub(super) fn fail(&self, rank: u32, error: GpuError) -> ! {
        self.wire.end(&Event::Failed { at: self.at(Some(rank)), error })
    }

    /// Hands rank 0's unique id to every rank.
    pub(super) fn share_id(&self, rank: u32, own: Option<UniqueId>) -> UniqueId {
        if own.is_some() {
            *lock(&self.id) = own;
        }
        self.meet(rank);
        let id = lock(&self.id).expect("rank 0 stored it before the barrier");
        self.meet(rank);
        id
    }

    /// Rank 0 says whether the warm-up has settled; every rank gets its answer.
    ///
    /// One barrier is enough: rank 0 can only say the next thing after another collective, in which every rank takes part.
    pub(super) fn agree(&self, rank: u32, settled: Option<bool>) -> bool {
        if let Some(settled) = settled {
            self.settled.store(settled, Ordering::Release);
        }
        self.meet(rank);
        self.settled.load(Ordering::Acquire)
    }

    /// Gathers the ranks' samples of one region; rank 0 gets the maximum over ranks, sample by sample.
    pub(super) fn slowest(&self, rank: u32, own: Vec<f64>) -> Option<Vec<f64>> {
        *lock(&self.samples[rank as usize]) = own;
        self.meet(rank);
        let slowest = (rank == 0).then(|| {
            let first = std::mem::take(&mut *lock(&self.samples[0]));
            self.samples[1..].iter().fold(first, |mut slowest, other| {
                slowest.iter_mut().zip(lock(other).iter()).for_each(|(a, b)| *a = a.max(*b));
                slowest
            })
        });
        self.meet(rank);
        slowest
    }

    /// Gathers what the ranks' checks found; rank 0 gets the sum.
    pub(super) fn all_checks(&self, rank: u32, own: Checks) -> Option<Checks> {
        lock(&self.checks).add(own);
        self.meet(rank);
        let all = (rank == 0).then(|| std::mem::take(&mut *lock(&self.checks)));
        self.meet(rank);
        all
    }

    /// Reports what the profiler plugin recorded of all ranks since it was last asked. Called by rank 0 alone.
    pub(super) fn report_used(&self, communicator: u32, case: usize, captured: bool) {
        let mut by_use: Vec<UsedBy> = Vec::new();
        for collective in recorder::take().collectives.iter().filter(|c| c.function.as_str() == "AllReduce") {
            let (used, rank) = (Used::recorded(collective, captured), collective.rank.unsigned_abs());
            match by_use.iter_mut().find(|by| by.used == used) {
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

    /// Returns once every rank and the main thread have called it.
    pub(super) fn meet_main(&self, rank: Option<u32>) {
        if let Some(rank) = rank {
            self.note(rank, Doing::Barrier);
        }
        self.measured.wait();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the process, so a poisoned lock is never seen by anyone who could act on it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
