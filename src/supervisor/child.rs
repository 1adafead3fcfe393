//! One child process: started with an explicit environment in a group of its own, listened to, ended.

use std::cell::Cell;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child as Process, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::signal::{SigHandler, Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::shm;
use crate::plan::environment::Environment;
use crate::wire::{self, Received};

/// Descriptor of the wire in the child.
pub const WIRE_FD: i32 = 3;

/// How long a child that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// How long the wire may stay open after the child is gone: a descendant may hold it.
const DRAIN: Duration = Duration::from_secs(1);
/// How often a wait looks whether the user has interrupted.
const GLANCE: Duration = Duration::from_millis(50);

/// What to start.
#[derive(Debug)]
pub struct Spec<'a> {
    /// Command before the executable (`--wrap`), with its arguments.
    pub wrap: &'a [String],
    /// Arguments of the executable.
    pub arguments: &'a [String],
    /// The whole environment.
    pub environment: &'a Environment,
    /// File for its standard output and error.
    pub output: &'a Path,
}

/// What was heard while waiting.
#[derive(Debug)]
pub enum Heard<T> {
    /// A message or the end of the wire.
    Received(Received<T>),
    /// Nothing until the deadline.
    Silence,
    /// The user interrupted.
    Interrupted,
}

/// A running child.
pub struct Child<T> {
    process: Process,
    /// Lines for its stdin, open as long as the child is wanted: its end tells the child that nobody is there.
    stdin: Option<Sender<Vec<u8>>>,
    /// When it was first seen gone with its wire still open: a descendant holds it.
    gone: Cell<Option<Instant>>,
    events: Receiver<Received<T>>,
}

impl<T: DeserializeOwned + Send + 'static> Child<T> {
    /// Starts the running executable again as `spec` says, and hands it `job` on stdin.
    pub fn spawn(spec: &Spec, job: Option<&impl Serialize>) -> std::io::Result<Self> {
        let executable = std::env::current_exe()?;
        let (reader, writer) = std::io::pipe()?;
        let mut words = spec.wrap.iter().map(std::ffi::OsString::from).chain([executable.into_os_string()]);
        let mut command = Command::new(words.next().expect("there is at least the executable"));
        let output = File::create(spec.output)?;
        command
            .args(words)
            .args(spec.arguments)
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value, _)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .fd_mappings(vec![FdMapping { parent_fd: OwnedFd::from(writer), child_fd: WIRE_FD }])
            .map_err(std::io::Error::other)?;
        // SAFETY: prctl is async-signal-safe, and nothing else runs between fork and exec.
        unsafe {
            // A supervisor that is killed takes its workers along.
            command.pre_exec(|| {
                nix::sys::signal::signal(Signal::SIGXFSZ, SigHandler::SigDfl)?;
                nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from)
            });
        }
        let mut process = command.spawn()?;
        // The command holds the wire's write end open; without it the wire ends when the child does.
        drop(command);
        // A child without a job is told by the end of its stdin that there is none.
        let stdin = process.stdin.take().filter(|_| job.is_some()).map(feed);
        let child = Self { process, stdin, gone: Cell::new(None), events: listen(reader) };
        if let Some(job) = job {
            child.tell(job);
        }
        Ok(child)
    }

    /// Writes a message to its stdin. A child that is gone already, or never reads, is found out by what it does not say.
    pub fn tell(&self, message: &impl Serialize) {
        let mut line = Vec::new();
        if let (Some(stdin), Ok(())) = (&self.stdin, wire::send(&mut line, message)) {
            let _ = stdin.send(line);
        }
    }

    /// Its process id, which is that of its group too.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the next message until `deadline`.
    pub fn hear(&self, deadline: Instant, interrupted: impl Fn() -> bool) -> Heard<T> {
        loop {
            if interrupted() {
                return Heard::Interrupted;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return Heard::Silence;
            };
            match self.events.recv_timeout(left.min(GLANCE)) {
                Ok(received) => return Heard::Received(received),
                Err(RecvTimeoutError::Timeout) if self.has_been_gone(DRAIN) => return Heard::Received(Received::End),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Heard::Received(Received::End),
            }
        }
    }

    /// Whether the child was seen gone, `ago` or earlier. It is not reaped.
    fn has_been_gone(&self, ago: Duration) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let pid = Pid::from_raw(self.process.id().cast_signed());
        if self.gone.get().is_none() && !matches!(waitid(Id::Pid(pid), flags), Ok(WaitStatus::StillAlive)) {
            self.gone.set(Some(Instant::now()));
        }
        self.gone.get().is_some_and(|gone| gone.elapsed() >= ago)
    }

    /// Waits for the child to exit by itself; `None` when it does not within `limit`, or must not be waited for any longer.
    pub fn wait(&mut self, limit: Duration, enough: impl Fn() -> bool) -> std::io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline || enough() {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Ends the child and all of its group: asks, waits a moment, kills. What it leaves in `/dev/shm` goes with it.
    pub fn end(&mut self) -> std::io::Result<ExitStatus> {
        let shared = shm::held_by(self.id());
        self.signal(Signal::SIGTERM);
        let ended = self.wait(GRACE, || false);
        // Descendants that ignored the question get no second one.
        self.signal(Signal::SIGKILL);
        let status = match ended? {
            Some(status) => Ok(status),
            None => self.process.wait(),
        };
        shm::remove(shared);
        status
    }

    fn signal(&self, signal: Signal) {
        // The group may be gone already, which is what is wanted.
        let _ = killpg(Pid::from_raw(self.process.id().cast_signed()), signal);
    }
}

impl<T> Drop for Child<T> {
    fn drop(&mut self) {
        // Whatever way the supervisor leaves a visit, nothing of it keeps running.
        let _ = killpg(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGKILL);
        let _ = self.process.wait();
    }
}

/// Writes lines to a child from a thread of its own: one that never reads must not keep its deadline from passing.
fn feed(mut stdin: ChildStdin) -> Sender<Vec<u8>> {
    let (sender, lines) = mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || lines.iter().try_for_each(|line| std::io::Write::write_all(&mut stdin, &line)));
    sender
}

fn listen<T: DeserializeOwned + Send + 'static>(pipe: std::io::PipeReader) -> Receiver<Received<T>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        loop {
            let received = wire::receive(&mut pipe).unwrap_or_else(|error| Received::Garbage(error.to_string()));
            let last = !matches!(received, Received::Message(_));
            if sender.send(received).is_err() || last {
                return;
            }
        }
    });
    receiver
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
