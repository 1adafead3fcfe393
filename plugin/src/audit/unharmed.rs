//! [`unharmed`]: a write that cannot end the server.

use std::mem::zeroed;
use std::ptr::null_mut;

/// What a write can raise in the thread that makes it: a limit on the size of files, and a reader that is gone. Either ends a
/// process that does not expect it.
const RAISED: [i32; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

/// Makes `write` fail with an error where a signal would come too. What the server does about these signals stays as it is: they
/// are blocked in this thread alone, and only what came meanwhile is taken away.
pub(super) fn unharmed<T>(write: impl FnOnce() -> T) -> T {
    // SAFETY: all zeros are sets of signals, which the calls fill.
    let (mut raised, mut before, mut pending): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
        unsafe { (zeroed(), zeroed(), zeroed()) };
    // SAFETY: the sets live during the calls; the mask is this thread's, and is put back below.
    unsafe {
        libc::sigemptyset(&mut raised);
        for signal in RAISED {
            libc::sigaddset(&mut raised, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raised, &mut before);
        libc::sigpending(&mut pending);
        for signal in RAISED {
            // What waited before is the server's.
            if libc::sigismember(&pending, signal) == 1 {
                libc::sigdelset(&mut raised, signal);
            }
        }
    }
    let written = write();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above; what is taken is blocked, so no handler runs.
    unsafe {
        while libc::sigtimedwait(&raised, null_mut(), &at_once) > 0 {}
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
    }
    written
}

#[cfg(test)]
mod tests {
    use std::ptr::null;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static CAME: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn note(_: i32) {
        CAME.fetch_add(1, Ordering::Relaxed);
    }

    fn mask() -> libc::sigset_t {
        // SAFETY: all zeros is a set, which the call fills.
        unsafe {
            let mut mask = zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, null(), &mut mask);
            mask
        }
    }

    fn raise() {
        // SAFETY: a handler is installed.
        unsafe { libc::raise(libc::SIGXFSZ) };
    }

    #[test]
    fn a_signal_of_the_write_is_taken_away_and_the_servers_handler_stays() {
        let blocked = || {
            let mask = mask();
            // SAFETY: a set that was filled.
            unsafe { libc::sigismember(&mask, libc::SIGXFSZ) == 1 }
        };
        // SAFETY: the handler only counts.
        unsafe { libc::signal(libc::SIGXFSZ, note as extern "C" fn(i32) as libc::sighandler_t) };
        assert!(!blocked());
        let seen = unharmed(|| {
            raise();
            (blocked(), 7)
        });
        assert_eq!((seen, CAME.load(Ordering::Relaxed)), ((true, 7), 0));
        assert!(!blocked());
        raise();
        assert_eq!(CAME.load(Ordering::Relaxed), 1, "the server's own comes to its handler");
    }

    #[test]
    fn what_waited_before_the_write_still_waits_after_it() {
        // SAFETY: a thread of its own, whose mask and pending signals end with it.
        let waits = std::thread::spawn(|| unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, null_mut());
            libc::pthread_kill(libc::pthread_self(), libc::SIGPIPE);
            unharmed(|| ());
            let mut pending: libc::sigset_t = zeroed();
            libc::sigpending(&mut pending);
            libc::sigismember(&pending, libc::SIGPIPE) == 1
        });
        assert!(waits.join().unwrap());
    }
}
