//! The journal of a run: `journal.jsonl`, a header line and a line per visit with all its samples, synced as each ends; then
//! one for each pair of GPUs that was tried alone (`--isolate`), and one for what an all-reduce costs at least (`--floor`).
//!
//! The file is the truth of a run; `run.json` can be made from it at any time. Visits stay on disk and are read back arm by
//! arm, so a run of thousands of cells needs little memory. A writer holds a lock on the file, so that two runs never write
//! to one folder. A last line torn by a kill or a full disk is cut off when the journal is opened again, and said.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::floor::Floor;
use super::pairs::PairTried;
use super::redact::Redactor;
use super::run::{Header, SCHEMA};
use super::valid;
use super::visit::Visit;
use crate::error::{Error, Kind, Result};
use crate::plan::schedule::Arm;
use crate::regular;

/// Name of the journal in a run's folder.
pub const FILE: &str = "journal.jsonl";

/// Longest line that is read: 64 MiB.
const MAX_LINE: u64 = 64 << 20;

/// Bytes of a line that are kept for what is neither sample nor replicate.
const OF_VISIT: u64 = 1 << 20;
/// The most bytes of a replicate without its samples, and of a sample: `1.2345678901234567e-5,`.
const REPLICATE: u64 = 768;
const SAMPLE: u64 = 22;

/// How every journal begins.
const BEGINNING: &[u8] = b"{\"header\":";
/// How the line of a floor begins.
pub(super) const FLOOR: &[u8] = b"{\"floor\":";

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Line<'a> {
    Header(&'a Header),
    Visit(&'a Visit),
    Pair(&'a PairTried),
    Floor(&'a Floor),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OwnedLine {
    Header(Box<Header>),
    Visit(Box<Visit>),
    Pair(Box<PairTried>),
    Floor(Box<Floor>),
}

/// What of a visit is kept in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Position in the run.
    pub index: u32,
    /// Round.
    pub round: u32,
    /// What was measured.
    pub arm: Arm,
    /// Made for the proof only.
    pub untimed: bool,
    /// Wall time, seconds.
    pub seconds: f64,
    /// Whether it completed with right data.
    pub completed: bool,
    offset: u64,
    length: u64,
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    end: u64,
    entries: Vec<Entry>,
    pairs: Vec<PairTried>,
    floor: Option<Floor>,
}

/// Whether a visit of so many replicates, and samples of all of them, could be read again.
#[must_use]
pub fn holds(replicates: u64, samples: u64) -> bool {
    replicates.saturating_mul(REPLICATE).saturating_add(samples.saturating_mul(SAMPLE)) < MAX_LINE - OF_VISIT
}

/// When the run of a journal was started, and its seed, which tell it from others; nothing where it has no header.
pub(super) fn began(path: &Path) -> Result<Option<(jiff::Timestamp, u64)>> {
    #[derive(Deserialize)]
    struct Line {
        header: Began,
    }
    #[derive(Deserialize)]
    struct Began {
        created: jiff::Timestamp,
        plan: Seeded,
    }
    #[derive(Deserialize)]
    struct Seeded {
        seed: u64,
    }
    let file = open_file(OpenOptions::new().read(true), path)?;
    let mut line = Vec::new();
    let read = BufReader::new(file).take(MAX_LINE).read_until(b'\n', &mut line);
    read.map_err(|error| failed("read", path, error))?;
    let line = serde_json::from_slice::<Line>(&line).ok();
    Ok(line.map(|line| (line.header.created, line.header.plan.seed)))
}

/// A journal opened again.
#[derive(Debug)]
pub struct Reopened {
    /// The journal, positioned at its end.
    pub journal: Journal,
    /// What was known before the first visit.
    pub header: Header,
    /// What was repaired, as a sentence, when something was.
    pub repaired: Option<String>,
}

impl Journal {
    /// Starts a journal in `folder`, which must not hold one; that of a run killed before it began holds nothing.
    pub fn create(folder: &Path, header: &Header) -> Result<Self> {
        let path = folder.join(FILE);
        let created = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = match created {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                open_file(OpenOptions::new().read(true).write(true), &path)?
            }
            created => created.map_err(|error| failed("create", &path, error))?,
        };
        let mut journal = Self { path, file, end: 0, entries: Vec::new(), pairs: Vec::new(), floor: None };
        journal.refuse_begun(folder)?;
        journal.lock()?;
        // Another may have begun it until the lock was ours.
        journal.refuse_begun(folder)?;
        journal.file.set_len(0).map_err(|error| failed("empty", &journal.path, error))?;
        journal.append_line(&Line::Header(header)).map_err(|error| {
            // Nobody could continue what is there of it.
            let _ = std::fs::remove_file(&journal.path);
            error.help("nothing was measured yet; free space, or name another folder with --out")
        })?;
        sync(folder)?;
        Ok(journal)
    }

    /// Opens the journal in `folder` to continue it, and repairs a torn last line.
    pub fn reopen(folder: &Path) -> Result<Reopened> {
        let path = folder.join(FILE);
        let file = open_file(OpenOptions::new().read(true).write(true), &path)?;
        let mut journal = Self { path, file, end: 0, entries: Vec::new(), pairs: Vec::new(), floor: None };
        journal.lock()?;
        let (header, torn) = journal.load()?;
        let repaired = match torn {
            0 => None,
            torn => {
                journal.file.set_len(journal.end).map_err(|error| failed("repair", &journal.path, error))?;
                let visits = journal.entries.len();
                Some(format!("the last line of {FILE} was torn: {torn} bytes cut off, {visits} visits kept"))
            }
        };
        Ok(Reopened { journal, header, repaired })
    }

    /// Opens the journal in `folder` to read it; a torn last line is left out.
    pub fn open(folder: &Path) -> Result<(Self, Header)> {
        let path = folder.join(FILE);
        let file = open_file(OpenOptions::new().read(true), &path)?;
        let mut journal = Self { path, file, end: 0, entries: Vec::new(), pairs: Vec::new(), floor: None };
        let (header, _) = journal.load()?;
        Ok((journal, header))
    }

    /// Adds a visit; when this returns, it is on the disk.
    pub fn append(&mut self, visit: &Visit) -> Result<()> {
        let (offset, length) = self.append_line(&Line::Visit(visit))?;
        self.entries.push(entry(visit, offset, length));
        Ok(())
    }

    /// Adds a pair; when this returns, it is on the disk.
    pub fn append_pair(&mut self, pair: PairTried) -> Result<()> {
        self.append_line(&Line::Pair(&pair))?;
        self.pairs.push(pair);
        Ok(())
    }

    /// Adds what an all-reduce costs at least; when this returns, it is on the disk.
    pub fn append_floor(&mut self, floor: Floor) -> Result<()> {
        self.append_line(&Line::Floor(&floor))?;
        self.floor = Some(floor);
        Ok(())
    }

    /// What an all-reduce costs at least, where it was measured; the last time, where it was measured again.
    #[must_use]
    pub fn floor(&self) -> Option<&Floor> {
        self.floor.as_ref()
    }

    /// Pairs of GPUs that were tried alone, in order.
    #[must_use]
    pub fn pairs(&self) -> &[PairTried] {
        &self.pairs
    }

    /// All visits in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The visits of an arm whose figures count: timed and completed with right data.
    pub fn measured(&self, arm: Arm) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.arm == arm && entry.completed && !entry.untimed)
    }

    /// Reads one visit back.
    pub fn read(&self, entry: &Entry) -> Result<Visit> {
        let mut line = vec![0; entry.length as usize];
        // At a place of its own: several threads read at once.
        self.file.read_exact_at(&mut line, entry.offset).map_err(|error| failed("read", &self.path, error))?;
        match serde_json::from_slice(&line) {
            Ok(OwnedLine::Visit(visit)) => Ok(*visit),
            Ok(OwnedLine::Header(_) | OwnedLine::Pair(_) | OwnedLine::Floor(_)) => {
                Err(self.damaged(entry.offset, "no visit any more"))
            }
            Err(error) => Err(self.damaged(entry.offset, &error.to_string())),
        }
    }

    /// Writes the journal again with everything that is secret replaced, in place of the old one. Such a run can be read
    /// and published, but no longer continued.
    pub fn redact(self, header: &Header) -> Result<(Self, Header)> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut redactor = Redactor::new(header);
        for entry in &self.entries {
            redactor.learn(&self.read(entry)?);
        }
        let mut redacted = header.clone();
        redactor.header(&mut redacted)?;
        let beside = tempfile::Builder::new().prefix(".journal-").tempdir_in(folder);
        let beside = beside.map_err(|error| failed("redact", &self.path, error))?;
        let mut journal = Self::create(beside.path(), &redacted)?;
        for entry in &self.entries {
            let mut visit = self.read(entry)?;
            redactor.visit(&mut visit)?;
            journal.append(&visit)?;
        }
        for pair in &self.pairs {
            journal.append_pair(redactor.pair(pair)?)?;
        }
        if let Some(floor) = &self.floor {
            journal.append_floor(redactor.floor(floor)?)?;
        }
        std::fs::rename(&journal.path, &self.path).map_err(|error| failed("replace", &self.path, error))?;
        sync(folder)?;
        journal.path.clone_from(&self.path);
        Ok((journal, redacted))
    }

    /// Fails when the file has a line, or the beginning of one that no journal begins with.
    fn refuse_begun(&self, folder: &Path) -> Result<()> {
        let mut line = Vec::new();
        (&self.file).seek(SeekFrom::Start(0)).map_err(|error| failed("read", &self.path, error))?;
        let read = BufReader::new(&self.file).take(MAX_LINE).read_until(b'\n', &mut line);
        read.map_err(|error| failed("read", &self.path, error))?;
        let torn = !line.ends_with(b"\n") && line.iter().zip(BEGINNING).all(|(one, other)| one == other);
        if torn {
            return Ok(());
        }
        Err(Error::usage(format!("{} already holds a run", folder.display()))
            .help(format!("continue it with `--resume {}`, or name another folder with --out", folder.display())))
    }

    fn lock(&self) -> Result<()> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                Err(Error::usage(format!("another ncclsweep is writing to {}", self.path.display()))
                    .help("wait for it to end, or name another folder with --out"))
            }
            Err(TryLockError::Error(error)) => Err(failed("lock", &self.path, error)),
        }
    }

    fn append_line(&mut self, line: &Line) -> Result<(u64, u64)> {
        let mut bytes = serde_json::to_vec(line).map_err(|error| failed("write to", &self.path, error.into()))?;
        bytes.push(b'\n');
        let offset = self.end;
        let written = (&self.file)
            .seek(SeekFrom::Start(offset))
            .and_then(|_| (&self.file).write_all(&bytes))
            .and_then(|()| self.file.sync_data());
        written.map_err(|error| {
            // What reached the disk of this line is cut off when the journal is opened again.
            failed("write to", &self.path, error)
                .help("everything before it is kept; free space, then continue with --resume")
        })?;
        self.end += bytes.len() as u64;
        self.still_there()?;
        Ok((offset, bytes.len() as u64))
    }

    /// Fails when the path no longer leads to the file that is written: what is written then is lost with its last descriptor.
    fn still_there(&self) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let (there, ours) = (std::fs::metadata(&self.path), self.file.metadata());
        match (there, ours) {
            (Ok(there), Ok(ours)) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(()),
            (Err(error), _) => {
                Err(failed("find", &self.path, error).help("the folder of the run was removed or moved"))
            }
            _ => Err(Error::new(Kind::Incomplete, format!("{} was replaced by another file", self.path.display()))
                .help("two runs must not share a folder; name another with --out")),
        }
    }

    /// Reads the header and indexes the visits. Gives the number of bytes of a torn last line.
    fn load(&mut self) -> Result<(Header, u64)> {
        let mut reader = BufReader::new(&self.file);
        let mut header = None;
        let mut order = valid::Order::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let limited = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            let length = limited.map_err(|error| failed("read", &self.path, error))? as u64;
            if length == MAX_LINE {
                return Err(self.damaged(self.end, &format!("a line longer than {MAX_LINE} bytes")));
            }
            if line.last() != Some(&b'\n') {
                let header = header.ok_or_else(|| {
                    self.damaged(0, "no header")
                        .help("a run that was killed before it began has nothing to continue: start it anew")
                })?;
                return Ok((header, length));
            }
            match serde_json::from_slice(&line) {
                Ok(OwnedLine::Header(found)) if header.is_none() => header = Some(self.supported(*found)?),
                Ok(OwnedLine::Visit(visit)) if header.is_some() => {
                    let valid = header.as_ref().map_or(Ok(()), |header| valid::visit(header, &visit));
                    valid.and_then(|()| order.follow(&visit)).map_err(|what| self.damaged(self.end, what))?;
                    self.entries.push(entry(&visit, self.end, length));
                }
                Ok(OwnedLine::Pair(pair)) if header.is_some() => {
                    let valid = header.as_ref().map_or(Ok(()), |header| valid::pair(header, &pair));
                    valid.map_err(|what| self.damaged(self.end, what))?;
                    self.pairs.push(*pair);
                }
                Ok(OwnedLine::Floor(floor)) if header.is_some() => {
                    let valid = header.as_ref().map_or(Ok(()), |header| valid::floor(header, &floor));
                    valid.map_err(|what| self.damaged(self.end, what))?;
                    self.floor = Some(*floor);
                }
                Ok(_) => return Err(self.damaged(self.end, "the header is not the first line, or stands twice")),
                Err(error) => {
                    let newer = header.is_none().then(|| schema_of(&line)).flatten().filter(|schema| *schema != SCHEMA);
                    return Err(newer.map_or_else(|| self.damaged(self.end, &error.to_string()), |s| self.newer(s)));
                }
            }
            self.end += length;
        }
    }

    fn supported(&self, header: Header) -> Result<Header> {
        match valid::header(&header) {
            _ if header.schema != SCHEMA => Err(self.newer(header.schema)),
            Err(what) => Err(self.damaged(0, what)),
            Ok(()) => Ok(header),
        }
    }

    fn newer(&self, schema: u32) -> Error {
        Error::usage(format!("{} has schema {schema}; this ncclsweep reads {SCHEMA}", self.path.display()))
            .help("read it with the ncclsweep that wrote it")
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        let help = match offset {
            0 => "without its header it cannot be gone on with: begin a new run".to_owned(),
            _ => format!(
                "the visits before it are whole: `head -c {offset}` keeps them, and `--resume` makes the others again"
            ),
        };
        Error::usage(format!("{} is damaged at byte {offset}: {what}", self.path.display())).help(help)
    }
}

/// The schema a header line claims, also when the rest of it cannot be read.
fn schema_of(line: &[u8]) -> Option<u32> {
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    line.get("header")?.get("schema")?.as_u64()?.try_into().ok()
}

fn entry(visit: &Visit, offset: u64, length: u64) -> Entry {
    let completed = visit.outcome.is_completed();
    let Visit { index, round, arm, untimed, seconds, .. } = *visit;
    Entry { index, round, arm, untimed, seconds, completed, offset, length }
}

fn open_file(options: &mut OpenOptions, path: &Path) -> Result<File> {
    regular::open(path, options).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    let help = match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            "what cannot be written to can be shown: `ncclsweep report`; to go on, copy the folder"
        }
        _ => "a run is a folder with a journal.jsonl in it, as `ncclsweep` makes under results/",
    };
    Error::usage(format!("cannot open the journal {}", path.display())).because(error).help(help)
}

/// Entries of a folder must reach the disk too.
fn sync(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed("sync", folder, error))
}

fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::new(Kind::Incomplete, format!("cannot {what} {}", path.display())).because(error)
}

#[cfg(test)]
mod tests;
