//! The processes of one visit: started one after the other, in one group, heard over one channel, ended together.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::agents::first::Others;
use super::awake::Awake;
use super::process::{Given, LINK_FD, MEMORY_FD, Process, Spec};
use crate::nccl::shm;
use crate::wire::{self, Question, Received};

/// How long members that were asked to end may take before they are killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long other agents may take beyond that to end theirs.
const ELSEWHERE: Duration = Duration::from_secs(10);
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

/// Running processes; members are named by their place in the order of their start. Those that other agents started follow.
pub struct Crew<T> {
    members: Vec<Process>,
    /// The other agents, and how many members they have.
    others: Option<(Arc<Others>, usize)>,
    events: Receiver<(usize, Received<T>)>,
    /// Members whose wire is known to have ended.
    silent: RefCell<BTreeSet<usize>>,
}

/// Where members are heard: each message with its place.
pub(super) type Channel<T> = (Sender<(usize, Received<T>)>, Receiver<(usize, Received<T>)>);

/// Memory for the processes of a crew to share, of no length yet.
pub(super) fn memory() -> std::io::Result<OwnedFd> {
    Ok(memfd_create(c"ncclsweep-ranks", MFdFlags::MFD_CLOEXEC)?)
}

impl<T: DeserializeOwned + Send + 'static> Crew<T> {
    /// Starts a process for each `spec`, hands each its job, and all of them `memory`. All are in the group of the first.
    pub fn start<J: Serialize>(specs: &[(Spec, Option<J>)], memory: Option<&OwnedFd>) -> std::io::Result<Self> {
        Self::start_on(mpsc::channel(), specs, memory, Vec::new())
    }

    /// The same, heard over `channel`; the first process gets the connections to other hosts.
    pub(super) fn start_on<J: Serialize>(
        (sender, events): Channel<T>,
        specs: &[(Spec, Option<J>)],
        memory: Option<&OwnedFd>,
        mut links: Vec<OwnedFd>,
    ) -> std::io::Result<Self> {
        let members = Vec::with_capacity(specs.len());
        let mut crew = Self { members, others: None, events, silent: RefCell::default() };
        for (place, (spec, job)) in specs.iter().enumerate() {
            let job = job.as_ref().map(line).transpose()?;
            let mut given: Vec<Given> = links.drain(..).zip(LINK_FD..).collect();
            given.extend(memory.map(OwnedFd::try_clone).transpose()?.map(|memory| (memory, MEMORY_FD)));
            let group = crew.members.first().map(Process::id);
            let sender = sender.clone();
            let hear = move |received| sender.send((place, received)).is_ok();
            // Those that were started go with the crew when one cannot be.
            crew.members.push(Process::start(spec, job, group, given, hear)?);
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
        self.members.len() + self.others.as_ref().map_or(0, |(_, members)| *members)
    }

    /// Joins the members that other agents have started.
    pub(super) fn join(&mut self, others: Arc<Others>, members: usize) {
        self.others = Some((others, members));
    }

    /// The other agents.
    pub(super) fn others(&self) -> Option<&Others> {
        self.others.as_ref().map(|(others, _)| &**others)
    }

    /// Asks every member.
    pub(super) fn ask(&self, question: Question) {
        self.tell(&question);
        self.others().into_iter().for_each(|others| others.ask(question));
    }

    /// Waits for a member to exit by itself; `None` when it does not within `limit`, or must not be waited for any longer.
    pub fn wait(
        &mut self,
        place: usize,
        limit: Duration,
        enough: impl Fn() -> bool,
    ) -> std::io::Result<Option<ExitStatus>> {
        match (self.members.get_mut(place), &self.others) {
            (Some(member), _) => member.wait(limit, &enough),
            (None, Some((others, _))) => Ok(others.wait(place, limit, &enough)),
            (None, None) => Ok(None),
        }
    }

    /// Waits for all members to exit by themselves; false when one does not within `limit`, or must not be waited for.
    pub fn wait_for_all(&mut self, limit: Duration, enough: impl Fn() -> bool) -> std::io::Result<bool> {
        let waited = Awake::start();
        for member in &mut self.members {
            if member.wait(limit.saturating_sub(waited.elapsed()), &enough)?.is_none() {
                return Ok(false);
            }
        }
        let left = limit.saturating_sub(waited.elapsed());
        Ok(self.others().is_none_or(|others| others.wait_for_all(left, &enough)))
    }

    /// Ends all members and their descendants: asks, waits a moment, kills. What they leave in `/dev/shm` goes with them.
    pub fn end(&mut self) -> std::io::Result<()> {
        let shared = shm::held_by(self.id());
        self.others().into_iter().for_each(Others::end);
        self.signal(Signal::SIGTERM);
        let asked = self.wait_for_all(GRACE, || false);
        // Descendants that ignored the question get no second one.
        self.signal(Signal::SIGKILL);
        let reaped = self.members.iter_mut().try_for_each(|member| member.reap().map(|_| ()));
        shm::remove(shared);
        if let Some(others) = self.others()
            && !others.wait_for_all(ELSEWHERE, &|| false)
        {
            others.give_up_unended();
        }
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
        self.others().into_iter().for_each(Others::end);
    }
}

#[cfg(test)]
mod tests;
