//! The processes of one visit: started one after the other, in one group, heard over one channel, ended together.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::awake::Awake;
use super::process::{Process, Spec};
use crate::nccl::shm;
use crate::wire::{self, Received};

/// How long members that were asked to end may take before they are killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long the wire may stay open after its process is gone: a descendant may hold it.
const DRAIN: Duration = Duration::from_secs(1);
/// How often a wait looks whether the user has interrupted.
const GLANCE: Duration = Duration::from_millis(50);

/// What was heard while waiting.
#[derive(Debug)]
pub enum Heard<T> {
    /// A message or the end of the wire.
    Received(Received<T>),
    /// Nothing within the limit.
    Silence,
    /// The user interrupted.
    Interrupted,
}

/// Running processes; members are named by their place in the order of their start.
pub struct Crew<T> {
    members: Vec<Process>,
    events: Receiver<(usize, Received<T>)>,
    /// Members whose wire is known to have ended.
    silent: RefCell<BTreeSet<usize>>,
}

/// Memory for the processes of a crew to share, of no length yet.
pub(super) fn memory() -> std::io::Result<OwnedFd> {
    Ok(memfd_create(c"ncclsweep-ranks", MFdFlags::MFD_CLOEXEC)?)
}

impl<T: DeserializeOwned + Send + 'static> Crew<T> {
    /// Starts a process for each `spec`, hands each its job, and all of them `memory`. All are in the group of the first.
    pub fn start<J: Serialize>(specs: &[(Spec, Option<J>)], memory: Option<&OwnedFd>) -> std::io::Result<Self> {
        let (sender, events) = mpsc::channel();
        let mut crew = Self { members: Vec::with_capacity(specs.len()), events, silent: RefCell::default() };
        for (place, (spec, job)) in specs.iter().enumerate() {
            let job = job.as_ref().map(line).transpose()?;
            let memory = memory.map(OwnedFd::try_clone).transpose()?;
            let group = crew.members.first().map(Process::id);
            let sender = sender.clone();
            let hear = move |received| sender.send((place, received)).is_ok();
            // Those that were started go with the crew when one cannot be.
            crew.members.push(Process::start(spec, job, group, memory, hear)?);
        }
        Ok(crew)
    }

    /// Waits for the next message of any member until `silence` has lasted to its `limit`, and tells whose it is.
    pub fn hear(&self, silence: &Awake, limit: Duration, interrupted: impl Fn() -> bool) -> (usize, Heard<T>) {
        loop {
            if interrupted() {
                return (0, Heard::Interrupted);
            }
            let left = limit.saturating_sub(silence.elapsed());
            if left.is_zero() {
                return (0, Heard::Silence);
            }
            match self.events.recv_timeout(left.min(GLANCE)) {
                Ok((place, received)) => {
                    if matches!(received, Received::End) && !self.silent.borrow_mut().insert(place) {
                        continue;
                    }
                    return (place, Heard::Received(received));
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Some(place) = self.gone() {
                        self.silent.borrow_mut().insert(place);
                        return (place, Heard::Received(Received::End));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return (0, Heard::Received(Received::End)),
            }
        }
    }
}

fn line(message: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    wire::send(&mut line, message)?;
    Ok(line)
}

impl<T> Crew<T> {
    /// A member that has been gone for a while with its wire still open.
    fn gone(&self) -> Option<usize> {
        let silent = self.silent.borrow();
        let mut open = self.members.iter().enumerate().filter(|(place, _)| !silent.contains(place));
        open.find(|(_, member)| member.has_been_gone(DRAIN)).map(|(place, _)| place)
    }

    /// Writes a message to the stdin of every member.
    pub fn tell(&self, message: &impl Serialize) {
        if let Ok(line) = line(message) {
            self.members.iter().for_each(|member| member.tell(line.clone()));
        }
    }

    /// The process id of the first member, which is that of the group too.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.members.first().map_or(0, Process::id)
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Waits for a member to exit by itself; `None` when it does not within `limit`, or must not be waited for any longer.
    pub fn wait(
        &mut self,
        place: usize,
        limit: Duration,
        enough: impl Fn() -> bool,
    ) -> std::io::Result<Option<ExitStatus>> {
        self.members[place].wait(limit, &enough)
    }

    /// Waits for all members to exit by themselves; false when one does not within `limit`, or must not be waited for.
    pub fn wait_for_all(&mut self, limit: Duration, enough: impl Fn() -> bool) -> std::io::Result<bool> {
        let waited = Awake::start();
        for member in &mut self.members {
            if member.wait(limit.saturating_sub(waited.elapsed()), &enough)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends all members and their descendants: asks, waits a moment, kills. What they leave in `/dev/shm` goes with them.
    pub fn end(&mut self) -> std::io::Result<()> {
        let shared = shm::held_by(self.id());
        self.signal(Signal::SIGTERM);
        let asked = self.wait_for_all(GRACE, || false);
        // Descendants that ignored the question get no second one.
        self.signal(Signal::SIGKILL);
        let reaped = self.members.iter_mut().try_for_each(|member| member.reap().map(|_| ()));
        shm::remove(shared);
        asked.and(reaped)
    }

    fn signal(&self, signal: Signal) {
        // The group may be gone already, which is what is wanted.
        if !self.members.is_empty() {
            let _ = killpg(Pid::from_raw(self.id().cast_signed()), signal);
        }
    }
}

impl<T> Drop for Crew<T> {
    fn drop(&mut self) {
        // Whatever way the supervisor leaves a visit, nothing of it keeps running.
        self.signal(Signal::SIGKILL);
        for member in &mut self.members {
            let _ = member.reap();
        }
    }
}

#[cfg(test)]
mod tests;
