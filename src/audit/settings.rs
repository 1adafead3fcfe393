//! Settings of a process, where they came from, and in which processes they differ.

use std::fmt;
use std::path::{Path, PathBuf};

use nccl_profiler_ncclsweep::journal::{Process, Variables};
use serde::Serialize;

use super::{Audit, Worker};
use crate::nccl::catalogue::{self, ReadAt};
use crate::nccl::conf::{self, Conf, Files, Home, Origin};
use crate::nccl::is_variable;
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::Vars;

/// A variable of NCCL's in a process, as NCCL found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it came from.
    pub source: Source,
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum Source {
    /// The process was started with it.
    Environment,
    /// NCCL's configuration file.
    File {
        /// `/etc/nccl.conf:3`
        place: String,
    },
    /// The process set it itself, after its start (`os.environ`, `setenv`).
    Itself,
    /// The process was started with another value and changed it.
    Changed {
        /// The value it was started with.
        before: String,
    },
    /// The process wrote over the memory that tells what it was started with.
    Unknown,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("environment"),
            Self::File { place } => f.write_str(place),
            Self::Itself => f.write_str("set by the process itself"),
            Self::Changed { before } => write!(f, "changed by the process itself, from {before}"),
            Self::Unknown => f.write_str("environment, or set by the process itself"),
        }
    }
}

/// The settings of a process.
pub(super) fn of(process: &Process, version: Option<NcclVersion>) -> Vec<Setting> {
    let files = conf_files(process, version);
    let files: Vec<_> = files.iter().map(|(path, conf)| (path.as_path(), conf)).collect();
    let environment = process.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let found = conf::effective(environment, &files).into_iter().filter(|(name, _)| is_variable(name));
    let setting = |(name, effective): (String, conf::Effective)| {
        let of_file = |origin: &Origin| matches!(origin, Origin::File { .. });
        // Up to 2.28 NCCL puts what its files say into the environment, so the same value stands in both.
        let same = effective.beaten.iter().find(|(value, origin)| of_file(origin) && *value == effective.value);
        let given = process.at_start.as_ref().map(|start| start.get(&name));
        let source = match (&effective.origin, given) {
            (Origin::File { .. }, _) => Source::File { place: effective.origin.to_string() },
            (Origin::Environment, Some(Some(start))) if *start == effective.value => Source::Environment,
            (Origin::Environment, Some(Some(start))) => Source::Changed { before: start.clone() },
            (Origin::Environment, _) if same.is_some() => {
                Source::File { place: same.map(|(_, origin)| origin.to_string()).unwrap_or_default() }
            }
            (Origin::Environment, Some(None)) => Source::Itself,
            (Origin::Environment, None) => Source::Unknown,
        };
        Setting { name, value: effective.value, source }
    };
    found.map(setting).collect()
}

/// The files that this version reads, of those the process saw, in NCCL's order.
fn conf_files(process: &Process, version: Option<NcclVersion>) -> Vec<(PathBuf, Conf)> {
    let home = Home {
        conf_file: process.environment.get("NCCL_CONF_FILE").map(String::as_str),
        home: process.home.as_deref(),
        passwd: process.passwd_home.as_deref(),
    };
    let Files { user, system } = Files::of(version, home);
    let text = |path: &PathBuf| process.files.iter().find(|file| Path::new(&file.path) == path);
    let read = |path: PathBuf| text(&path).map(|file| (path, conf::parse(file.text.as_bytes(), version)));
    user.into_iter().chain([system]).filter_map(read).collect()
}

/// What stands otherwise `then` than `at_first`.
pub(super) fn changes(at_first: &Variables, then: &Variables) -> Vec<(String, Option<String>)> {
    let gone = at_first.keys().filter(|name| !then.contains_key(*name)).map(|name| (name.clone(), None));
    let other = then.iter().filter(|(name, value)| at_first.get(*name) != Some(value));
    other.map(|(name, value)| (name.clone(), Some(value.clone()))).chain(gone).collect()
}

impl Worker {
    /// The variables that NCCL goes by on the communicator at `index`: most are read once in a process and kept, a few at
    /// every communicator.
    #[must_use]
    pub fn in_force(&self, index: usize) -> Vars {
        let mut vars: Vars = self.settings.iter().map(|setting| (&*setting.name, &*setting.value)).collect();
        let changes = self.communicators.get(index).map_or(&[][..], |communicator| &communicator.changes);
        let anew = |name: &str| catalogue::get(name).is_some_and(|variable| variable.read == ReadAt::Init);
        let changes: Vec<_> = changes.iter().filter(|(name, _)| anew(name)).collect();
        let gone = |name: &str| changes.iter().any(|(other, value)| other == name && value.is_none());
        vars = vars.iter().filter(|(name, _)| !gone(name)).collect();
        for (name, value) in changes {
            if let Some(value) = value {
                vars.set(name, value);
            }
        }
        vars
    }
}

/// A variable, and which workers have which value of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The variable.
    pub name: String,
    /// Values with the workers that have them (indices), that of the most workers first; nothing where it is not set.
    pub values: Vec<(Option<String>, Vec<usize>)>,
}

impl Spread {
    /// Whether all workers have the same.
    #[must_use]
    pub fn is_common(&self) -> bool {
        self.values.len() == 1
    }
}

/// Every variable that some worker has.
#[must_use]
pub fn spreads(audit: &Audit) -> Vec<Spread> {
    let mut spreads: Vec<Spread> = Vec::new();
    for setting in audit.workers.iter().flat_map(|worker| &worker.settings) {
        if spreads.iter().any(|spread| spread.name == setting.name) {
            continue;
        }
        let mut values: Vec<(Option<String>, Vec<usize>)> = Vec::new();
        for (at, worker) in audit.workers.iter().enumerate() {
            let value = worker.settings.iter().find(|other| other.name == setting.name).map(|other| &other.value);
            match values.iter_mut().find(|(known, _)| known.as_ref() == value) {
                Some((_, workers)) => workers.push(at),
                None => values.push((value.cloned(), vec![at])),
            }
        }
        // Ties: a value goes before its absence.
        values.sort_by_key(|(value, workers)| (std::cmp::Reverse(workers.len()), value.is_none()));
        spreads.push(Spread { name: setting.name.clone(), values });
    }
    spreads.sort_by(|one, other| one.name.cmp(&other.name));
    spreads
}
