//! [`Forwarded`]: signals that are for a command, not for the program that started it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use nix::unistd::Pid;
use signal_hook_registry::register_sigaction;

use crate::error::{Error, Kind, Result};

/// Signals that people and service managers send, and what would end a program that does not expect them. Not among them are
/// those that a fault of our own raises, and those that stop us: a shell's job control stops the command too.
const NAMED: [i32; 15] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGCONT,
    libc::SIGURG,
    libc::SIGWINCH,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGSTKFLT,
];

/// Signals that came to us and wait to be handed on.
pub(super) struct Forwarded(Vec<(i32, Arc<AtomicBool>)>);

impl Forwarded {
    /// Catches them from now on. What is ignored already stays so, here and in the command: somebody meant it (`nohup`).
    pub(super) fn install() -> Result<Self> {
        let mut caught = Vec::new();
        for signal in NAMED.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
            let failed = |error: io::Error| {
                Error::new(Kind::Environment, format!("cannot catch signal {signal}")).because(error)
            };
            if is_ignored(signal).map_err(failed)? {
                continue;
            }
            let came = Arc::new(AtomicBool::new(false));
            let note = Arc::clone(&came);
            let action = move |info: &libc::siginfo_t| {
                // What the kernel sends (Ctrl-C, a terminal that closes) goes to the whole group, so the command has it already.
                if info.si_code <= 0 {
                    note.store(true, Ordering::Relaxed);
                }
            };
            // SAFETY: the action stores into an atomic, which a handler may do.
            unsafe { register_sigaction(signal, action) }.map_err(failed)?;
            caught.push((signal, came));
        }
        Ok(Self(caught))
    }

    /// Sends what came since the last call to `pid`, which has not been waited for. One that has ended needs no signal.
    pub(super) fn hand_on(&self, pid: Pid) {
        for (signal, came) in &self.0 {
            if came.swap(false, Ordering::Relaxed) {
                // SAFETY: a call without memory. (nix has no name for signals of real time.)
                unsafe { libc::kill(pid.as_raw(), *signal) };
            }
        }
    }
}

impl Drop for Forwarded {
    /// The command has ended: from here on signals are for us.
    fn drop(&mut self) {
        for (signal, _) in &self.0 {
            // SAFETY: the default takes no handler of ours away that is still wanted.
            unsafe { libc::signal(*signal, libc::SIG_DFL) };
        }
    }
}

fn is_ignored(signal: i32) -> io::Result<bool> {
    // SAFETY: all zeros is a record that the call fills.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is set, and the place lives during the call.
    match unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } {
        0 => Ok(action.sa_sigaction == libc::SIG_IGN),
        _ => Err(io::Error::last_os_error()),
    }
}
