//! What the plugin saw, for the executable it is linked into: switch it on, run a collective, [`take`] what was used.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::abi;
use crate::audit;
use crate::name::Name;

/// Collectives held between two calls of [`take`]; what comes on top is counted, not kept.
pub const CAPACITY: usize = 4096;

/// Collective events need no other bit, but up to NCCL 2.27 they hang below a group event, so both are asked for.
const MASK_ON: c_int = (abi::ncclProfileGroup | abi::ncclProfileColl).cast_signed();

/// Version of the profiler interface by which NCCL spoke to the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// NCCL 2.23.
    V1,
    /// NCCL 2.24 and 2.25.
    V2,
    /// NCCL 2.26.
    V3,
    /// NCCL 2.27, and later ones that find no version 5.
    V4,
    /// NCCL 2.28 and later, of the shared library.
    V5,
}

/// One rank's end of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Communicator {
    /// Ours: equal for all events of one rank of one communicator while it lives.
    pub id: u32,
    /// NCCL's hash, the same on all ranks.
    pub hash: u64,
    /// The name the user gave it, mostly empty.
    pub name: Name,
    /// Its number of ranks, where NCCL tells it (version 4).
    pub ranks: Option<u32>,
}

/// Channels of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channels {
    /// So many were used (version 4).
    Used(u8),
    /// At most so many (versions 1 to 3): small sizes use fewer.
    AtMost(u8),
}

/// One rank's part of one collective, as NCCL announced it when it enqueued the kernel.
///
/// NCCL announces a collective as well when a stream is being captured, and does not tell which it was; at replay of a
/// graph nothing comes. One that has work for a proxy it announces at each replay instead, from a callback. A communicator of one rank announces nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Collective {
    /// Which interface told it.
    pub api: Api,
    /// The communicator.
    pub communicator: Communicator,
    /// The rank within it.
    pub rank: i32,
    /// NCCL's number of this collective among those of the same function in the communicator.
    pub sequence: u64,
    /// `AllReduce`, …
    pub function: Name,
    /// `ncclBfloat16`, …; `Unknown` where NCCL has no name.
    pub datatype: Name,
    /// Elements, as NCCL counts them for this function (for an all-reduce, those of the call).
    pub count: u64,
    /// Elements times their size, where the size is known.
    pub bytes: Option<u64>,
    /// `RING`, `TREE`, …
    pub algorithm: Name,
    /// `LL`, `LL128`, `SIMPLE`.
    pub protocol: Name,
    /// Channels; `None` where NCCL does not count them (CollNet).
    pub channels: Option<Channels>,
    /// Warps of each block of the kernel.
    pub warps: u8,
}

impl Collective {
    /// Threads of each block of the kernel.
    #[must_use]
    pub fn threads(&self) -> u32 {
        u32::from(self.warps) * 32
    }
}

/// What came since the last [`take`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// In the order NCCL announced them.
    pub collectives: Vec<Collective>,
    /// Collectives above [`CAPACITY`], which are lost.
    pub dropped: u64,
}

/// What NCCL told at init of one rank of a communicator.
pub(crate) struct Attached {
    pub api: Api,
    pub mask: *mut c_int,
    pub hash: u64,
    pub name: Name,
    pub ranks: Option<u32>,
    pub rank: Option<i32>,
}

// SAFETY: the mask is written through an atomic only, and only while its communicator is attached.
unsafe impl Send for Attached {}

struct State {
    attached: Vec<Option<Attached>>,
    recording: Recording,
}

/// Whether [`take`] is to see collectives.
static ON: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<State> =
    Mutex::new(State { attached: Vec::new(), recording: Recording { collectives: Vec::new(), dropped: 0 } });

/// A process that forks goes on with the state as it stood between two changes.
pub(crate) mod fork {
    use std::cell::Cell;
    use std::sync::MutexGuard;

    use super::State;

    thread_local! {
        static HELD: Cell<Option<MutexGuard<'static, State>>> = const { Cell::new(None) };
    }

    /// Before the fork, in the thread that forks.
    pub(crate) fn hold() {
        HELD.set(Some(super::state()));
    }

    /// After it, in both processes.
    pub(crate) fn release() {
        drop(HELD.take());
    }
}

/// Nothing in here leaves the state half-changed, so a poisoned lock is as good as any.
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Switches recording for all communicators of the process, those to come included. Off at the start.
///
/// NCCL reads the mask at each call: change it between barriers only, when no rank is inside NCCL.
pub fn set_mask(on: bool) {
    let mut state = state();
    if on {
        let missing = CAPACITY.saturating_sub(state.recording.collectives.capacity());
        state.recording.collectives.reserve_exact(missing);
    }
    ON.store(on, Ordering::Release);
    for attached in state.attached.iter().flatten() {
        attached.show_mask(is_on() || audit::is_on());
    }
}

/// Whether recording is on: an event may still come of a call that began before it went off.
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Acquire)
}

/// Takes what was recorded since the last call.
#[must_use]
pub fn take() -> Recording {
    std::mem::take(&mut state().recording)
}

/// Ranks whose communicator has loaded the plugin and lives. 0 after init of a communicator: NCCL did not load it.
#[must_use]
pub fn attached() -> usize {
    state().attached.iter().flatten().count()
}

/// The interface NCCL chose, while a communicator lives.
#[must_use]
pub fn api() -> Option<Api> {
    state().attached.iter().flatten().map(|attached| attached.api).next()
}

impl Attached {
    fn show_mask(&self, on: bool) {
        if self.mask.is_null() || !self.mask.is_aligned() {
            return;
        }
        // SAFETY: NCCL gave the address of its mask, an int that lives as long as the communicator, and reads it atomically.
        let mask = unsafe { AtomicI32::from_ptr(self.mask) };
        mask.store(if on { MASK_ON } else { 0 }, Ordering::Release);
    }
}

/// Notes a new communicator and returns the opaque context NCCL is to hand back: a number, never dereferenced.
pub(crate) fn attach(attached: Attached) -> *mut c_void {
    let mut state = state();
    let free = state.attached.iter().position(Option::is_none).unwrap_or_else(|| {
        state.attached.push(None);
        state.attached.len() - 1
    });
    // Under the lock, so that communicators begin one after the other.
    audit::attach(free, &attached);
    attached.show_mask(is_on() || audit::is_on());
    state.attached[free] = Some(attached);
    std::ptr::without_provenance_mut(free + 1)
}

/// Forgets a communicator; whatever is no context of ours is ignored.
pub(crate) fn detach(context: *mut c_void) {
    let mut state = state();
    let Some(slot) = slot_of(context) else { return };
    if let Some(place) = state.attached.get_mut(slot) {
        *place = None;
        audit::detach(slot);
    }
}

/// A collective event, before the recorder knows whose it is.
pub(crate) struct Event {
    pub rank: c_int,
    /// Hash and name of the communicator, where the event carries them (versions 1 to 3).
    pub communicator: Option<(u64, Name)>,
    pub sequence: u64,
    pub function: Name,
    pub datatype: Name,
    pub count: usize,
    pub algorithm: Name,
    pub protocol: Name,
    pub channels: Option<Channels>,
    pub warps: u8,
    /// Whether it was captured, where NCCL tells (version 5).
    pub captured: Option<bool>,
}

/// Keeps a collective for [`take`], as long as there is room.
pub(crate) fn record(context: *mut c_void, api: Api, event: &Event) {
    let mut state = state();
    let collective = state.collective(context, api, event);
    if state.recording.collectives.len() < CAPACITY {
        state.recording.collectives.push(collective);
    } else {
        state.recording.dropped += 1;
    }
}

impl State {
    fn collective(&self, context: *mut c_void, api: Api, event: &Event) -> Collective {
        let slot = slot_of(context);
        let attached = slot.and_then(|slot| self.attached.get(slot)).and_then(Option::as_ref);
        let told = attached.map(|attached| (attached.hash, attached.name));
        let (hash, name) = event.communicator.or(told).unwrap_or((0, Name::EMPTY));
        let ranks = attached.and_then(|attached| attached.ranks);
        let id = slot.and_then(|slot| u32::try_from(slot).ok()).unwrap_or(u32::MAX);
        let count = event.count as u64;
        Collective {
            api,
            communicator: Communicator { id, hash, name, ranks },
            rank: event.rank,
            sequence: event.sequence,
            function: event.function,
            datatype: event.datatype,
            count,
            bytes: event.datatype.element_size().and_then(|size| count.checked_mul(size)),
            algorithm: event.algorithm,
            protocol: event.protocol,
            channels: event.channels,
            warps: event.warps,
        }
    }
}

pub(crate) fn slot_of(context: *mut c_void) -> Option<usize> {
    context.addr().checked_sub(1)
}
