//! One child process, a crew of one: started with an explicit environment, listened to, ended with all of its group.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::awake::Awake;
use super::crew::Crew;
pub use super::crew::Heard;
pub use super::process::{Spec, WIRE_FD};

/// A running child.
pub struct Child<T>(Crew<T>);

impl<T: DeserializeOwned + Send + 'static> Child<T> {
    /// Starts the running executable again as `spec` says, and hands it `job` on stdin.
    pub fn spawn(spec: &Spec, job: Option<&impl Serialize>) -> std::io::Result<Self> {
        Crew::start(&[(*spec, job)], None).map(Self)
    }

    /// Waits for the next message for so long.
    pub fn hear(&self, limit: Duration, interrupted: impl Fn() -> bool) -> Heard<T> {
        self.0.hear(&Awake::start(), limit, interrupted).1
    }

    /// Writes a message to its stdin.
    pub fn tell(&self, message: &impl Serialize) {
        self.0.tell(message);
    }

    /// Its process id, which is that of its group too.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits for the child to exit by itself; `None` when it does not within `limit`, or must not be waited for any longer.
    pub fn wait(&mut self, limit: Duration, enough: impl Fn() -> bool) -> std::io::Result<Option<ExitStatus>> {
        self.0.wait(0, limit, enough)
    }

    /// Ends the child and all of its group.
    pub fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.0.end()?;
        let status = self.0.wait(0, Duration::ZERO, || false)?;
        status.ok_or_else(|| std::io::Error::other("a killed process is still there"))
    }
}

/// The name of the signal that ended a process, when one did.
#[must_use]
pub fn signal_of(status: ExitStatus) -> Option<String> {
    let number = status.signal()?;
    Some(Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned()))
}

/// The signal that ended a worker behind a command: a shell tells it as 128 and its number. A worker never exits so.
#[must_use]
pub fn signal_behind(status: ExitStatus, wrap: &[String]) -> Option<String> {
    let number = status.code().filter(|code| *code > 128 && !wrap.is_empty())? - 128;
    Signal::try_from(number).ok().map(|signal| signal.as_str().to_owned())
}

#[cfg(test)]
mod tests;
