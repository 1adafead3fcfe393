//! SIGINT and SIGTERM: the first asks for an orderly end, the second ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigHandler, Signal, signal};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Error, Kind, Result};

/// Makes a limit on the size of files an error of the write, which names the file, and not the end of the program.
pub fn outlive_file_limit() -> Result<()> {
    // SAFETY: the signal is ignored; no handler runs.
    let ignored = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    ignored.map(drop).map_err(|error| Error::new(Kind::Environment, "cannot ignore SIGXFSZ").because(error))
}

/// Whether the user asked for the end.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches both signals from now on.
    pub fn install() -> Result<Self> {
        outlive_file_limit()?;
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
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
