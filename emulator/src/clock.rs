//! Virtual time: one clock per host thread, one for the box, told by `clock_gettime(CLOCK_MONOTONIC_RAW)`.
//!
//! A thread's time grows by what its calls cost and by waiting for streams. The box's time is the latest moment any
//! thread has waited for. The first reading after a wait is the thread's own time: it ends a measurement, and other ranks
//! may have gone on already. Any other reading brings the thread to the later of both, so threads that met at a barrier
//! read the same time. All other clock ids tell real time: deadlines must still fire when a rank hangs.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds of virtual time since the process started.
pub(crate) type Nanos = u64;

thread_local! {
    static THREAD: Cell<Nanos> = const { Cell::new(0) };
    /// The thread has waited for something and not read the clock since.
    static WAITED: Cell<bool> = const { Cell::new(false) };
}
static BOX: AtomicU64 = AtomicU64::new(0);

/// This thread's time.
pub(crate) fn now() -> Nanos {
    THREAD.get()
}

/// The thread spends `cost` in a call.
pub(crate) fn spend(cost: Nanos) {
    THREAD.set(THREAD.get() + cost);
}

/// The thread waited for something that ended at `end`; seeing it costs `cost`.
pub(crate) fn wait_until(end: Nanos, cost: Nanos) {
    let now = THREAD.get().max(end) + cost;
    THREAD.set(now);
    WAITED.set(true);
    BOX.fetch_max(now, Ordering::AcqRel);
}

/// The latest moment that any thread of this process has waited for.
pub(crate) fn of_box() -> Nanos {
    BOX.load(Ordering::Acquire)
}

/// Another process of the box has waited until then.
pub(crate) fn note_box(time: Nanos) {
    BOX.fetch_max(time, Ordering::AcqRel);
}

/// What the virtual clock shows to this thread.
fn read() -> Nanos {
    if !WAITED.replace(false) {
        THREAD.set(THREAD.get().max(BOX.load(Ordering::Acquire)));
    }
    THREAD.get()
}

type ClockGettime = extern "C" fn(c_int, *mut libc::timespec) -> c_int;

/// The C library's own function, behind this one.
fn real() -> Option<ClockGettime> {
    static REAL: OnceLock<Option<ClockGettime>> = OnceLock::new();
    *REAL.get_or_init(|| {
        // SAFETY: dlsym takes a valid handle and a terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: the symbol of that name is the C library's function of this very type.
        Some(unsafe { std::mem::transmute::<*mut libc::c_void, ClockGettime>(found) })
    })
}

/// Interposed through LD_PRELOAD: virtual time for CLOCK_MONOTONIC_RAW, the real clock for everything else.
#[unsafe(no_mangle)]
pub extern "C" fn clock_gettime(id: c_int, time: *mut libc::timespec) -> c_int {
    if id == libc::CLOCK_MONOTONIC_RAW && !time.is_null() {
        let now = read();
        crate::abi::put(
            time,
            libc::timespec { tv_sec: (now / 1_000_000_000) as i64, tv_nsec: (now % 1_000_000_000) as i64 },
        );
        return 0;
    }
    match real() {
        Some(real) => real(id, time),
        None => {
            // SAFETY: a plain system call with the caller's own arguments.
            unsafe { libc::syscall(libc::SYS_clock_gettime, id, time) as c_int }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time), 0);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[test]
    fn the_virtual_clock_moves_by_what_calls_cost() {
        let before = raw();
        spend(1500);
        assert!(raw() >= before + 1500);
    }

    #[test]
    fn a_thread_that_waited_carries_all_threads_forward() {
        let end = raw() + 5_000_000;
        std::thread::spawn(move || wait_until(end, 10)).join().unwrap();
        assert!(raw() >= end + 10);
    }

    #[test]
    fn the_reading_that_ends_a_measurement_is_the_threads_own() {
        wait_until(0, 100);
        let own = now();
        std::thread::spawn(move || wait_until(own + 7_000_000, 0)).join().unwrap();
        assert_eq!(raw(), own);
        assert!(raw() >= own + 7_000_000);
    }

    #[test]
    fn the_monotonic_clock_stays_real() {
        spend(3_600_000_000_000);
        let start = std::time::Instant::now();
        spend(3_600_000_000_000);
        assert!(start.elapsed().as_secs() < 1000);
    }
}
