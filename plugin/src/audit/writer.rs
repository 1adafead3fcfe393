//! [`Record`]: what is written, and the thread that writes it.

use std::ffi::c_void;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::tally::Tally;
use super::unharmed::unharmed;
use super::{RECORD, now_us, patient, process, record, tallies};
use crate::journal::{Communicator, End, Entry, FOLDER, Process, Tallied, Why};
use crate::recorder::Attached;

/// Between two looks at whether something is to be written.
const PERIOD: Duration = Duration::from_secs(1);

/// Communicators that one process tells at most.
const MOST_COMMUNICATORS: usize = 512;

/// A process's journal in memory, but for the tallies of communicators that live.
pub(super) struct Record {
    path: PathBuf,
    temporary: PathBuf,
    process: Process,
    communicators: Vec<Communicator>,
    /// Of communicators that ended.
    ended: Vec<Tallied>,
    unlisted_communicators: u64,
    /// Whether a failure was told.
    complained: bool,
}

impl Record {
    /// A journal for this process, if the environment names a folder for it.
    pub(super) fn from_environment(of_nccl: *const c_void, now_us: u64) -> Option<Self> {
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty())?;
        let process = process::this(of_nccl, now_us);
        let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' };
        let host: String = process.host.chars().map(safe).collect();
        let name = format!("{host}-{}-{}", process.pid, process.start_ticks.unwrap_or_default());
        let folder = Path::new(&folder);
        Some(Self {
            path: folder.join(format!("{name}.jsonl")),
            // Not the ending of a journal, so that a reader of the folder passes it over.
            temporary: folder.join(format!(".{name}.new")),
            process,
            communicators: Vec::new(),
            ended: Vec::new(),
            unlisted_communicators: 0,
            complained: false,
        })
    }

    /// Notes a communicator and gives its number; nothing when there were too many.
    pub(super) fn open(&mut self, attached: &Attached, now_us: u64) -> Option<u32> {
        if self.communicators.len() >= MOST_COMMUNICATORS {
            self.unlisted_communicators += 1;
            return None;
        }
        let environment = if self.communicators.is_empty() { None } else { Some(process::variables()) };
        let Attached { api, hash, name, rank, ranks, .. } = *attached;
        let id = u32::try_from(self.communicators.len()).ok()?;
        self.communicators.push(Communicator {
            id,
            api,
            hash,
            name,
            rank,
            ranks,
            opened_us: now_us,
            closed_us: None,
            environment: environment.filter(|environment| *environment != self.process.environment),
            unlisted: 0,
        });
        Some(id)
    }

    /// Keeps what a communicator has counted.
    pub(super) fn close(&mut self, tally: &Tally, now_us: u64) {
        let Some(communicator) = self.of(tally) else { return };
        tally.tell(communicator);
        communicator.closed_us = Some(now_us);
        self.ended.extend(tally.lines());
    }

    fn of(&mut self, tally: &Tally) -> Option<&mut Communicator> {
        self.communicators.get_mut(tally.communicator()? as usize)
    }

    /// Replaces the file. A full disk or a lost folder costs the journal, nothing else.
    pub(super) fn write(&mut self, why: Why) {
        // A process made without telling anybody (by the bare system call) must not write over its parent's.
        if self.process.pid != std::process::id() {
            return;
        }
        let Err(error) = self.render(why).and_then(|text| unharmed(|| self.replace(&text))) else { return };
        // What is there of it would keep the disk full.
        let _ = std::fs::remove_file(&self.temporary);
        if !std::mem::replace(&mut self.complained, true) {
            // Standard error is the one place where somebody may look; NCCL itself goes on.
            let complaint = format!("ncclsweep profiler: cannot write {}: {error}\n", self.path.display());
            let _ = unharmed(|| std::io::stderr().write_all(complaint.as_bytes()));
        }
    }

    /// Only a file that is whole takes the place of the one before. Nobody is waited for: a pipe of this name is no file.
    fn replace(&self, text: &[u8]) -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
        options.open(&self.temporary)?.write_all(text)?;
        std::fs::rename(&self.temporary, &self.path)
    }

    fn render(&mut self, why: Why) -> std::io::Result<Vec<u8>> {
        let mut living = Vec::new();
        for tally in tallies() {
            let Some(tally) = patient(tally) else { continue };
            if let Some(communicator) = self.of(&tally) {
                tally.tell(communicator);
                living.extend(tally.lines());
            }
        }
        let mut text = Vec::new();
        let mut line = |entry: &Entry| -> std::io::Result<()> {
            serde_json::to_writer(&mut text, entry)?;
            text.push(b'\n');
            Ok(())
        };
        line(&Entry::Process(Box::new(self.process.clone())))?;
        for communicator in &self.communicators {
            line(&Entry::Communicator(communicator.clone()))?;
        }
        for tallied in self.ended.iter().chain(&living) {
            line(&Entry::Collective(tallied.clone()))?;
        }
        let unlisted_communicators = self.unlisted_communicators;
        line(&Entry::End(End { at_us: now_us(), why, unlisted_communicators }))?;
        Ok(text)
    }
}

/// Starts the thread that writes what has changed. Without one, the file is as of the last communicator that began or ended.
pub(super) fn start() {
    // SAFETY: all zeros is a set of signals, which the calls fill.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: the sets live during the calls; the mask of this thread is put back below.
    unsafe {
        libc::sigfillset(&mut all);
        // The server's signals are for the server's threads: the new thread inherits that it takes none.
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let thread = std::thread::Builder::new().name("ncclsweep-audit".to_owned()).stack_size(256 << 10);
    let _ = thread.spawn(|| {
        loop {
            std::thread::sleep(PERIOD);
            let _ = std::panic::catch_unwind(write_changes);
        }
    });
    // SAFETY: the mask that was there before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
}

fn write_changes() {
    let mut changed = false;
    for tally in tallies() {
        changed |= patient(tally).is_some_and(|mut tally| tally.take_changed());
    }
    if !changed || RECORD.load(Ordering::Acquire).is_null() {
        return;
    }
    if let Some(mut record) = record().and_then(patient) {
        record.write(Why::Running);
    }
}
