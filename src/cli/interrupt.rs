//! SIGINT, SIGTERM and SIGHUP: the first asks for an orderly end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal, signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Error, Kind, Result};

/// Makes a limit on the size of files an error of the write, which names the file, and not the end of the program.
pub fn outlive_file_limit() -> Result<()> {
    // SAFETY: the signal is ignored; no handler runs.
    let ignored = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    ignored.map(drop).map_err(|error| Error::new(Kind::Environment, "cannot ignore SIGXFSZ").because(error))
}

/// Whether a signal is ignored, as `nohup` has it for SIGHUP.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Whether the user asked for the end.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches the signals from now on; SIGHUP, of a terminal that went away, where it is not ignored.
    pub fn install() -> Result<Self> {
        outlive_file_limit()?;
        let asked = Arc::new(AtomicBool::new(false));
        let hang_up = Some(SIGHUP).filter(|signal| !is_ignored(*signal));
        for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
            // Registered first, so that it acts on the second signal only: the flag is set by the one after it.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&asked)))
                .map_err(|error| Error::new(Kind::Environment, "cannot catch signals").because(error))?;
        }
        Ok(Self(asked))
    }

    /// Whether it was asked for.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
