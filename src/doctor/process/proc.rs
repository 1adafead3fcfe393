//! What `/proc` tells of processes.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::super::files::{Root, field, is_nccl};

/// Flag of a process that was forked and has executed nothing since (`PF_FORKNOEXEC` of the kernel).
const FORKED: u64 = 0x40;
/// Characters of a command line that are shown.
const SHOWN: usize = 90;

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    /// Its name: 15 bytes at most.
    pub name: String,
    /// Its command line; empty for the kernel's own.
    pub line: String,
    pub forked: bool,
    /// It has ended, and its parent did not ask how.
    pub zombie: bool,
}

/// A process's environment at exec.
pub enum Environment {
    /// As it was.
    Known(Vec<(String, String)>),
    /// Why it is not known.
    Hidden(String),
}

/// A mapped file of NCCL's or of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    pid: u32,
    /// The path as the process sees it.
    pub path: String,
    /// The file was removed or replaced since.
    pub deleted: bool,
    /// Tells files apart, also those of other containers: device, inode, path.
    pub key: String,
    range: String,
}

/// All processes, by pid.
pub fn list(root: Root) -> Vec<Process> {
    let names = root.names("proc").unwrap_or_default();
    let mut processes: Vec<_> = names.iter().filter_map(|name| process(root, name.parse().ok()?)).collect();
    processes.sort_by_key(|process| process.pid);
    processes
}

/// None when it ended meanwhile.
fn process(root: Root, pid: u32) -> Option<Process> {
    let stat = root.text(&format!("proc/{pid}/stat"))?;
    // The name stands in parentheses and may hold anything; state, parent, …, flags follow it.
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let line = std::fs::read(root.path(&format!("proc/{pid}/cmdline"))).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        name,
        line,
        forked: fields.get(6).and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & FORKED != 0),
        zombie: fields.first() == Some(&"Z"),
    })
}

impl Process {
    /// Whether its name or command line holds `pattern`; those of the kernel never do.
    pub fn holds(&self, pattern: &str) -> bool {
        !self.line.is_empty() && (self.name.contains(pattern) || self.line.contains(pattern))
    }

    /// Its command as it is shown.
    pub fn shown(&self) -> String {
        let line = if self.line.is_empty() { &self.name } else { &self.line };
        let mut shown: String = line.chars().take(SHOWN).collect();
        if line.chars().nth(SHOWN).is_some() {
            shown.push('…');
        }
        shown
    }
}

/// Why a file of a process could not be read.
fn why(what: &str, pid: u32, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("no permission to read {what}: run it as the user of pid {pid}, or as root")
        }
        // `/proc` answers ESRCH for a process that ended.
        _ => format!("{what} cannot be read: {error}"),
    }
}

/// The environment at exec.
pub fn environment(root: Root, process: &Process) -> Environment {
    if process.zombie {
        return Environment::Hidden("it has ended".to_owned());
    }
    match std::fs::read(root.path(&format!("proc/{}/environ", process.pid))) {
        Ok(bytes) => parse(&bytes),
        Err(error) => Environment::Hidden(why("its environment", process.pid, &error)),
    }
}

/// Programs that change their title write it over the place of their environment, and fill the rest with zeros.
fn parse(bytes: &[u8]) -> Environment {
    let entries: Vec<_> = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).collect();
    let variable = |entry: &&[u8]| {
        let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    if zeros > 1 || bytes.starts_with(&[0]) {
        return Environment::Hidden(
            "the process has written its title over it (setproctitle); started with SPT_NOENV=1 it leaves it alone"
                .to_owned(),
        );
    }
    Environment::Known(entries.iter().filter_map(variable).collect())
}

/// Files of NCCL and of its plugins that a process has mapped, each once.
pub fn mapped(root: Root, pid: u32) -> Result<Vec<Mapped>, String> {
    let maps =
        std::fs::read(root.path(&format!("proc/{pid}/maps"))).map_err(|error| why("its mapped files", pid, &error))?;
    let mut found: Vec<Mapped> = Vec::new();
    for line in String::from_utf8_lossy(&maps).lines() {
        if let Some(file) = mapping(pid, line)
            && !found.iter().any(|known| known.key == file.key)
        {
            found.push(file);
        }
    }
    Ok(found)
}

/// `ADDRESSES FLAGS OFFSET DEVICE INODE   PATH`, where the path may hold blanks.
fn mapping(pid: u32, line: &str) -> Option<Mapped> {
    let path = &line[line.find('/')?..];
    let mut fields = line.split_whitespace();
    let (range, _, _, device, inode) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let (path, deleted) = match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let name = path.rsplit('/').next()?;
    let of_nccl = name.starts_with("libnccl") && name.contains(".so");
    of_nccl.then(|| Mapped {
        pid,
        path: path.to_owned(),
        deleted,
        key: format!("{device} {inode} {path}"),
        range: range.to_owned(),
    })
}

impl Mapped {
    /// Whether it is NCCL itself.
    pub fn is_nccl(&self) -> bool {
        is_nccl(&self.path)
    }

    /// Where it can be read from here: in the process's own view of the file system, or, of a removed file, the mapping.
    pub fn reachable(&self, root: Root) -> PathBuf {
        match self.deleted {
            true => root.path(&format!("proc/{}/map_files/{}", self.pid, self.range)),
            false => root.path(&format!("proc/{}/root{}", self.pid, self.path)),
        }
    }
}

/// The folder that the password database of the process's file system names for its user.
pub fn home(root: Root, pid: u32) -> Option<String> {
    let status = root.text(&format!("proc/{pid}/status"))?;
    // Real, effective, saved and file-system id: NCCL asks for the real one.
    let user = field(&status, "Uid")?.split_whitespace().next()?.to_owned();
    let database = root.text(&format!("proc/{pid}/root/etc/passwd"))?;
    let entry = |line: &str| {
        let fields: Vec<_> = line.split(':').collect();
        (fields.get(2) == Some(&user.as_str())).then(|| fields.get(5).map(|home| (*home).to_owned())).flatten()
    };
    database.lines().find_map(entry)
}
