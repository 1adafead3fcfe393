//! What processes that are not ours used: a file of JSON lines for each process that loads the plugin.
//!
//! Servers start their workers themselves, so the environment is the way in: with
//! `NCCL_PROFILER_PLUGIN=/path/to/libnccl_profiler_ncclsweep.so` and [`FOLDER`] naming a folder, each process writes
//! `<folder>/<pid>.jsonl`: its NCCL environment, its communicators, and each kind of collective when it first comes. A line is
//! written at once and whole, so a process that is killed leaves a file that can be read.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::recorder::{Api, Attached, Collective};

/// Environment variable that names the folder for the files.
pub const FOLDER: &str = "NCCLSWEEP_PROFILER_FOLDER";

/// Kinds of collectives one process tells at most: a server with many batch sizes has some hundreds.
const KINDS: usize = 4096;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Entry {
    /// The first line: the process, and what NCCL could read of its environment.
    Process {
        /// Its number.
        pid: u32,
        /// Its executable, where the system tells it.
        executable: Option<PathBuf>,
        /// Variables whose names begin with `NCCL_`, as they stood at the first communicator.
        environment: BTreeMap<String, String>,
    },
    /// A communicator loaded the plugin.
    Communicator {
        /// The interface NCCL chose.
        api: Api,
        /// NCCL's hash, the same on all ranks; 0 where it is not told (versions 1 to 3).
        hash: u64,
        /// The name the user gave it.
        name: Name,
        /// Our rank.
        rank: Option<i32>,
        /// The number of ranks.
        ranks: Option<u32>,
    },
    /// A collective unlike all before it: its sequence number is that of the first of its kind.
    Collective(Collective),
}

/// The entries of a journal. A last line without its end, left by a process that was killed while it wrote, is passed over.
///
/// # Errors
///
/// The line that is no entry, by its number from 1, and why.
pub fn read(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let entry = |(at, line)| serde_json::from_str(line).map_err(|error| (at + 1, error.to_string()));
    whole.lines().enumerate().map(entry).collect()
}

/// The journal of this process.
pub(crate) struct Journal {
    file: File,
    seen: HashSet<Collective>,
}

impl Journal {
    /// Begins the journal, if the environment names a folder for it.
    pub(crate) fn from_environment() -> Option<Self> {
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty())?;
        let path = Path::new(&folder).join(format!("{}.jsonl", std::process::id()));
        match File::options().create(true).append(true).open(&path) {
            Ok(file) => {
                let mut journal = Self { file, seen: HashSet::new() };
                journal.write(&Entry::Process {
                    pid: std::process::id(),
                    executable: std::env::current_exe().ok(),
                    environment: nccl_variables(std::env::vars_os()),
                });
                Some(journal)
            }
            Err(error) => {
                // Standard error is the one place where somebody may look; NCCL itself goes on.
                eprintln!("ncclsweep profiler: cannot write {}: {error}", path.display());
                None
            }
        }
    }

    pub(crate) fn attached(&mut self, attached: &Attached) {
        let Attached { api, hash, name, rank, ranks, .. } = *attached;
        self.write(&Entry::Communicator { api, hash, name, rank, ranks });
    }

    /// Writes a collective, when it is the first of its kind.
    pub(crate) fn collective(&mut self, collective: &Collective) {
        let kind = Collective { sequence: 0, ..*collective };
        if self.seen.len() < KINDS && self.seen.insert(kind) {
            self.write(&Entry::Collective(*collective));
        }
    }

    /// One write for one line, so that nothing tears it apart; a full disk loses lines, nothing else.
    fn write(&mut self, entry: &Entry) {
        if let Ok(mut line) = serde_json::to_vec(entry) {
            line.push(b'\n');
            let _ = self.file.write_all(&line);
        }
    }
}

fn nccl_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("NCCL_"))?;
        Some((name, value.to_string_lossy().into_owned()))
    };
    variables.filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_nccl_are_told() {
        let variables = [("NCCL_PROTO", "LL"), ("HF_TOKEN", "secret"), ("XNCCL_", "1")];
        let told = nccl_variables(variables.iter().map(|(name, value)| (name.into(), value.into())));
        assert_eq!(told, BTreeMap::from([("NCCL_PROTO".into(), "LL".into())]));
    }

    #[test]
    fn a_line_cut_off_by_a_kill_is_passed_over_and_others_are_not() {
        let whole = r#"{"event":"communicator","api":"v4","hash":7,"name":"tp","rank":1,"ranks":8}"#;
        let entries = read(&format!("{whole}\n{}", &whole[..40])).unwrap();
        assert!(matches!(&entries[..], [Entry::Communicator { hash: 7, rank: Some(1), .. }]));
        assert_eq!(read("").unwrap(), []);
        assert_eq!(read(&format!("{whole}\n{}\n", &whole[..40])).unwrap_err().0, 2);
    }
}
