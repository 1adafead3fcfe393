//! One process that the supervisor starts: with an explicit environment, in a group, listened to over a pipe of its own.

use std::cell::OnceCell;
use std::fs::OpenOptions;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child as Handle, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::signal::{SigHandler, Signal};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;

use super::awake::Awake;
use crate::plan::environment::Environment;
use crate::wire::{self, Received};

/// Descriptor of the wire in the process.
pub const WIRE_FD: i32 = 3;
/// Descriptor of the memory that the processes of a crew share.
pub const MEMORY_FD: i32 = 4;
/// The first of the descriptors of connections to other hosts, which only the first process of a crew has.
pub const LINK_FD: i32 = 5;

/// A descriptor that a process gets, and its number there.
pub(super) type Given = (OwnedFd, i32);

/// What to start.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// Command before the executable (`--wrap`), with its arguments.
    pub wrap: &'a [String],
    /// Arguments of the executable.
    pub arguments: &'a [String],
    /// The whole environment.
    pub environment: &'a Environment,
    /// File for its standard output and error, to which it appends.
    pub output: &'a Path,
}

/// A running process.
pub(super) struct Process {
    handle: Handle,
    /// Lines for its stdin, open as long as the process is wanted: its end tells the process that nobody is there.
    stdin: Option<Sender<Vec<u8>>>,
    /// When it was first seen gone with its wire still open: a descendant holds it.
    gone: OnceCell<Awake>,
}

impl Process {
    /// Starts the running executable again as `spec` says, in `group` or one of its own, and hands it `job` on stdin. What it
    /// says goes to `hear`, which answers whether anybody still listens.
    pub(super) fn start<T: DeserializeOwned>(
        spec: &Spec,
        job: Option<Vec<u8>>,
        group: Option<u32>,
        given: Vec<Given>,
        hear: impl Fn(Received<T>) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let executable = own_executable();
        let (reader, writer) = std::io::pipe()?;
        let mut words = spec.wrap.iter().map(std::ffi::OsString::from).chain([executable.into()]);
        let mut command = Command::new(words.next().expect("there is at least the executable"));
        let output = OpenOptions::new().create(true).append(true).open(spec.output)?;
        let wire = FdMapping { parent_fd: OwnedFd::from(writer), child_fd: WIRE_FD };
        let given = given.into_iter().map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        command
            .args(words)
            .args(spec.arguments)
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value, _)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(group.map_or(0, u32::cast_signed))
            .fd_mappings([wire].into_iter().chain(given).collect())
            .map_err(std::io::Error::other)?;
        if let ([], Some(called)) = (spec.wrap, std::env::args_os().next()) {
            // Lists of processes show the name that people know.
            command.arg0(called);
        }
        // SAFETY: prctl is async-signal-safe, and nothing else runs between fork and exec.
        unsafe {
            // A supervisor that is killed takes its workers along.
            command.pre_exec(|| {
                nix::sys::signal::signal(Signal::SIGXFSZ, SigHandler::SigDfl)?;
                nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from)
            });
        }
        let mut handle = command.spawn()?;
        // The command holds the wire's write end open; without it the wire ends when the process does.
        drop(command);
        // A process without a job is told by the end of its stdin that there is none.
        let stdin = handle.stdin.take().filter(|_| job.is_some()).map(feed);
        let threads = stdin.transpose().and_then(|stdin| listen(reader, hear).map(|()| stdin));
        let stdin = threads.inspect_err(|_| {
            let _ = handle.kill();
            let _ = handle.wait();
        })?;
        let process = Self { handle, stdin, gone: OnceCell::new() };
        if let Some(job) = job {
            process.tell(job);
        }
        Ok(process)
    }

    /// Writes a line to its stdin. One that is gone already, or never reads, is found out by what it does not say.
    pub(super) fn tell(&self, line: Vec<u8>) {
        if let Some(stdin) = &self.stdin {
            let _ = stdin.send(line);
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.handle.id()
    }

    /// Whether it was seen gone, `ago` or earlier. It is not reaped.
    pub(super) fn has_been_gone(&self, ago: Duration) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let pid = Pid::from_raw(self.id().cast_signed());
        let gone = self.gone.get().is_some() || !matches!(waitid(Id::Pid(pid), flags), Ok(WaitStatus::StillAlive));
        gone && self.gone.get_or_init(Awake::start).elapsed() >= ago
    }

    /// Waits for it to exit by itself; `None` when it does not within `limit`, or must not be waited for any longer.
    pub(super) fn wait(&mut self, limit: Duration, enough: &dyn Fn() -> bool) -> std::io::Result<Option<ExitStatus>> {
        let waited = Awake::start();
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.handle.try_wait()? {
                return Ok(Some(status));
            }
            if waited.elapsed() >= limit || enough() {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Waits for it to be gone, however long that takes: it was killed.
    pub(super) fn reap(&mut self) -> std::io::Result<ExitStatus> {
        self.handle.wait()
    }
}

/// The file that this process runs, whatever has its name by now: a build or an update replaces the file of a run that goes on,
/// and what then has the name may speak otherwise. A command of `--wrap` finds it there too, as long as this process lives.
fn own_executable() -> String {
    format!("/proc/{}/exe", std::process::id())
}

/// Writes lines to a process from a thread of its own: one that never reads must not keep its deadline from passing.
fn feed(mut stdin: ChildStdin) -> std::io::Result<Sender<Vec<u8>>> {
    let (sender, lines) = mpsc::channel::<Vec<u8>>();
    let write = move || lines.iter().try_for_each(|line| std::io::Write::write_all(&mut stdin, &line));
    std::thread::Builder::new().spawn(write)?;
    Ok(sender)
}

fn listen<T: DeserializeOwned>(
    pipe: std::io::PipeReader,
    hear: impl Fn(Received<T>) -> bool + Send + 'static,
) -> std::io::Result<()> {
    let read = move || {
        let mut pipe = BufReader::new(pipe);
        loop {
            let received = wire::receive(&mut pipe).unwrap_or_else(|error| Received::Garbage(error.to_string()));
            let last = !matches!(received, Received::Message(_));
            if !hear(received) || last {
                return;
            }
        }
    };
    std::thread::Builder::new().spawn(read).map(drop)
}
