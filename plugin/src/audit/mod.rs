//! The journal of a process that is not ours: begun at its first communicator when the environment names a folder, kept until
//! it ends.
//!
//! Three things happen at once in here, none of which may hold up NCCL: threads of ranks count into the tally of their own
//! communicator; a thread of ours writes the file every second; processes fork. A child that forks has none of its parent's
//! communicators, so it leaves all that behind and begins anew.

mod process;
mod tally;
mod unharmed;
mod writer;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use tally::Tally;
use writer::Record;

use crate::journal::Why;
use crate::recorder::{self, Api, Attached, Event};

/// Communicators that are counted at a time: what is above is said, not counted.
const SLOTS: usize = 1024;

/// Whether collectives are wanted.
static ON: AtomicBool = AtomicBool::new(false);

/// This process's journal. Never freed: whoever reads the pointer may use it at any time.
static RECORD: AtomicPtr<Mutex<Record>> = AtomicPtr::new(null_mut());

/// The tally of each communicator, by the number of its context. Never freed, but used again.
static TALLIES: [AtomicPtr<Mutex<Tally>>; SLOTS] = [const { AtomicPtr::new(null_mut()) }; SLOTS];

/// Whether collectives are wanted.
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Acquire)
}

/// A rank of a communicator begins. One at a time: the caller holds the recorder's lock.
pub(crate) fn attach(slot: usize, attached: &Attached) {
    let now = now_us();
    let Some(record) = record().or_else(|| begin(attached, now)) else { return };
    let Some(mut held) = patient(record) else { return };
    let Some(id) = held.open(attached, now) else { return };
    if let Some(place) = TALLIES.get(slot) {
        let mut tally = place.load(Ordering::Acquire);
        if tally.is_null() {
            tally = Box::into_raw(Box::new(Mutex::new(Tally::new())));
            place.store(tally, Ordering::Release);
        }
        // SAFETY: a tally is never freed.
        if let Some(mut tally) = patient(unsafe { &*tally }) {
            tally.begin(id);
        }
    }
    held.write(Why::Running);
}

/// It ends.
pub(crate) fn detach(slot: usize) {
    let Some(record) = record() else { return };
    let Some(mut held) = patient(record) else { return };
    let Some(mut tally) = tally(slot).and_then(patient) else { return };
    if tally.communicator().is_some() {
        held.close(&tally, now_us());
        tally.end();
        drop(tally);
        held.write(Why::Finalize);
    }
}

/// Counts a collective: the hot path. Its lock is that of one rank, whose calls come one after the other.
pub(crate) fn note(context: *mut c_void, api: Api, event: &Event) {
    if let Some(tally) = recorder::slot_of(context).and_then(tally) {
        tally.lock().unwrap_or_else(PoisonError::into_inner).note(api, event, now_us());
    }
}

fn record() -> Option<&'static Mutex<Record>> {
    // SAFETY: NULL, or a record that is never freed.
    unsafe { RECORD.load(Ordering::Acquire).as_ref() }
}

fn tally(slot: usize) -> Option<&'static Mutex<Tally>> {
    // SAFETY: NULL, or a tally that is never freed.
    unsafe { TALLIES.get(slot)?.load(Ordering::Acquire).as_ref() }
}

/// Tallies of communicators that live.
fn tallies() -> impl Iterator<Item = &'static Mutex<Tally>> {
    (0..SLOTS).filter_map(tally)
}

/// Begins the journal of this process, if the environment asks for one.
fn begin(attached: &Attached, now_us: u64) -> Option<&'static Mutex<Record>> {
    static HOOKS: Once = Once::new();
    let record = Record::from_environment(attached.mask.cast_const().cast(), now_us)?;
    // A child inherits both hooks.
    HOOKS.call_once(|| {
        // SAFETY: functions of this library, which is never unloaded.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child));
            libc::atexit(at_exit);
        }
    });
    RECORD.store(Box::into_raw(Box::new(Mutex::new(record))), Ordering::Release);
    ON.store(true, Ordering::Release);
    writer::start();
    self::record()
}

extern "C" fn before_fork() {
    recorder::fork::hold();
}

extern "C" fn after_fork() {
    recorder::fork::release();
}

/// Locks in here may be held by threads that the child does not have, so none is touched.
extern "C" fn after_fork_in_child() {
    ON.store(false, Ordering::Release);
    RECORD.store(null_mut(), Ordering::Release);
    for tally in &TALLIES {
        tally.store(null_mut(), Ordering::Release);
    }
    recorder::fork::release();
}

extern "C" fn at_exit() {
    // The process is about to end, and a panic would not be let out of here.
    let _ = std::panic::catch_unwind(|| {
        if let Some(mut record) = record().and_then(patient) {
            record.write(Why::Exit);
        }
    });
}

/// How long a lock is waited for. Its holder may be a thread of ours that a busy machine lets wait for seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Locks, or gives up: the holder may be a thread that a signal handler interrupted to exit, and that never goes on.
fn patient<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    let begun = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

/// µs since 1970, by a clock that ticks with the kernel (1 to 4 ms) and costs a few nanoseconds.
fn now_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place lives during the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1000
}
