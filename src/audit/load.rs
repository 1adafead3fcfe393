//! Reads a folder of journals.

use std::collections::BTreeMap;
use std::path::Path;

use nccl_profiler_ncclsweep::journal::{self, Entry, Process, Why};

use super::{Audit, Communicator, Life, SCHEMA, Unread, Worker, settings};
use crate::error::{Error, Result};
use crate::nccl::version::NcclVersion;
use crate::regular;

/// A larger journal is none of the plugin's, which lists 8192 kinds of collectives and 512 communicators at most.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes of all journals of a folder: what is above is said, not read.
const MOST_OF_ALL: u64 = 1 << 30;

/// Figures above these are no process's: a call a microsecond for twelve days, a message of a petabyte, more GPUs than any one job
/// has had. So sums of them stay numbers, and nobody is asked to measure with them.
const MOST_CALLS: u64 = 1 << 40;
const MOST_ELEMENTS: u64 = 1 << 50;
const MOST_RANKS: u32 = 1 << 20;

impl Audit {
    /// All journals in `folder`. One that cannot be read is said and hides no other.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn load(folder: &Path) -> Result<Self> {
        let shown = folder.display().to_string();
        let failed = |error: std::io::Error| {
            Error::usage(format!("cannot read the folder of an audit {shown}"))
                .because(error)
                .help("`ncclsweep audit -- COMMAND` makes one and names it")
        };
        let mut paths = Vec::new();
        for file in std::fs::read_dir(folder).map_err(failed)? {
            let path = file.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "jsonl") {
                paths.push(path);
            }
        }
        paths.sort();
        let mut audit = Self { schema: SCHEMA, folder: shown, workers: Vec::new(), unread: Vec::new() };
        let mut left = MOST_OF_ALL;
        for path in paths {
            match worker(&path, &mut left) {
                Ok(worker) => audit.workers.push(worker),
                Err(why) => audit.unread.push(Unread { path: path.display().to_string(), why }),
            }
        }
        audit.workers.sort_by_key(|worker| (worker.process.opened_us, worker.process.pid));
        Ok(audit)
    }

    /// Whether a process still runs.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.workers.iter().any(|worker| worker.life == Life::Running)
    }
}

fn worker(path: &Path, left: &mut u64) -> Result<Worker, String> {
    if *left == 0 {
        return Err("the journals before it are too large already".to_owned());
    }
    let text = regular::text(path, MOST_BYTES).map_err(|error| error.to_string())?;
    *left = left.saturating_sub(text.len() as u64);
    known(&text)?;
    let entries = journal::read(&text).map_err(|(line, why)| format!("line {line}: {why}"))?;
    worker_of(entries, &is_running)
}

/// Refuses a journal of another version before its lines are looked at: they may be anything.
fn known(text: &str) -> Result<(), String> {
    let head: Option<serde_json::Value> = text.lines().next().and_then(|line| serde_json::from_str(line).ok());
    match head.as_ref().and_then(|head| head.get("schema")).and_then(serde_json::Value::as_u64) {
        Some(schema) if schema == u64::from(journal::SCHEMA) => Ok(()),
        Some(schema) => Err(format!("it has version {schema} of the format, this program reads {}", journal::SCHEMA)),
        None => Err("it is no journal of the plugin".to_owned()),
    }
}

/// Puts the lines of one journal together.
pub(super) fn worker_of(entries: Vec<Entry>, is_running: &dyn Fn(&Process) -> bool) -> Result<Worker, String> {
    let (mut process, mut end) = (None, None);
    let mut communicators: BTreeMap<u32, Communicator> = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Process(told) => process = Some(*told),
            Entry::Communicator(told) => {
                if told.unlisted > MOST_CALLS {
                    return Err(format!("no process makes {} calls", told.unlisted));
                }
                if told.ranks.is_some_and(|ranks| ranks > MOST_RANKS) {
                    return Err(format!("communicator {} has more ranks than there are GPUs", told.id));
                }
                let (changes, collectives) = (Vec::new(), Vec::new());
                communicators.insert(told.id, Communicator { told, changes, collectives });
            }
            Entry::Collective(tallied) if tallied.calls() > MOST_CALLS || tallied.count > MOST_ELEMENTS => {
                return Err(format!("no process makes {} calls of {} elements", tallied.calls(), tallied.count));
            }
            Entry::Collective(tallied) => match communicators.get_mut(&tallied.communicator) {
                Some(communicator) => communicator.collectives.push(tallied),
                None => return Err(format!("it names communicator {}, which has no line", tallied.communicator)),
            },
            Entry::End(told) if told.unlisted_communicators > MOST_CALLS => {
                return Err(format!("no process makes {} communicators", told.unlisted_communicators));
            }
            Entry::End(told) => end = Some(told),
        }
    }
    let (Some(process), Some(end)) = (process, end) else { return Err("it is not whole".to_owned()) };
    let mut communicators: Vec<Communicator> = communicators.into_values().collect();
    for communicator in &mut communicators {
        communicator.collectives.sort_by_key(|tallied| std::cmp::Reverse(tallied.calls()));
        let then = communicator.told.environment.as_ref();
        communicator.changes = then.map(|then| settings::changes(&process.environment, then)).unwrap_or_default();
    }
    let version = process.nccl.as_ref().and_then(|nccl| nccl.version).and_then(NcclVersion::from_code);
    let life = life(&process, end.why, &communicators, is_running);
    Ok(Worker { settings: settings::of(&process, version), version, process, communicators, end, life })
}

fn life(process: &Process, why: Why, communicators: &[Communicator], is_running: &dyn Fn(&Process) -> bool) -> Life {
    let ended = communicators.iter().all(|communicator| communicator.told.closed_us.is_some());
    match why {
        Why::Exit => Life::Exited,
        Why::Running | Why::Finalize if is_running(process) => Life::Running,
        Why::Running | Why::Finalize if ended => Life::Finalized,
        Why::Running | Why::Finalize => Life::Lost,
    }
}

/// Whether the process runs on this host. One of its number that started at another time is another.
fn is_running(process: &Process) -> bool {
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").is_ok_and(|host| host.trim() == process.host);
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid)).ok().filter(|_| here);
    let Some(fields) = stat.as_deref().and_then(|stat| stat.rsplit_once(')')) else { return false };
    let mut fields = fields.1.split_ascii_whitespace();
    // A zombie has ended, and nobody has asked how.
    let gone = fields.next().is_some_and(|state| matches!(state, "Z" | "X"));
    let start = fields.nth(18).and_then(|start| start.parse().ok());
    !gone && (process.start_ticks.is_none() || start == process.start_ticks)
}
