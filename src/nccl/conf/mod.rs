//! NCCL's configuration files, read exactly as NCCL reads them: [`parse`], which files there are: [`Files`], and who wins:
//! [`effective`].
//!
//! NCCL (`src/misc/param.cc`) takes what stands before the first `=` of a line as the name and all after it as the value,
//! trims nothing, and sets it in the process's environment unless it is set there already: the environment beats the user's
//! file, which beats `/etc/nccl.conf`, and within a file the first line beats later ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::version::NcclVersion;
use crate::error::{Error, Kind, Result};

mod lint;
#[cfg(test)]
mod tests;

/// The file that NCCL reads last.
pub const SYSTEM_FILE: &str = "/etc/nccl.conf";

/// Bytes of a name and of a value that NCCL keeps.
const KEPT: usize = 1023;

/// Bytes of a line that NCCL reads at once since 2.30; what follows is a line of its own.
const PIECE: usize = 4095;

/// A configuration file as NCCL sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conf {
    /// What it sets, in order, names repeated where the file repeats them.
    pub entries: Vec<Entry>,
    /// Lines that lose or spoil what they seem to set.
    pub lints: Vec<Lint>,
}

/// What a line sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, with every blank that stands there.
    pub name: String,
    /// The value, with every blank, quote and carriage return that stands there.
    pub value: String,
    /// Line number, from 1.
    pub line: usize,
}

/// A line that does not do what it seems to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// Line number, from 1.
    pub line: usize,
    /// The setting is lost or its value another; otherwise it survives by luck.
    pub lost: bool,
    /// What is wrong.
    pub message: String,
    /// The line as it should be.
    pub corrected: Option<String>,
}

/// Reads a file's bytes as `version` does (the latest, when it is not known).
#[must_use]
pub fn parse(bytes: &[u8], version: Option<NcclVersion>) -> Conf {
    let mut conf = Conf::default();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines.pop_if(|last| last.is_empty());
    for (line, bytes) in (1..).zip(lines) {
        let entries: Vec<_> = seen(bytes, line, version).collect();
        conf.lints.extend(lint::line(bytes, line, &entries, &conf.entries));
        conf.entries.extend(entries);
    }
    conf
}

/// Reads the file at `path`; `None` when there is none, which NCCL passes over.
///
/// # Errors
/// When it is there and cannot be read. NCCL passes over that too, in silence.
pub fn read_file(path: &Path, version: Option<NcclVersion>) -> Result<Option<Conf>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(parse(&bytes, version))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("cannot read NCCL's configuration file {}", path.display());
            Err(Error::new(Kind::Environment, message)
                .because(error)
                .help("NCCL passes over it in silence: correct its owner or mode"))
        }
    }
}

/// What NCCL sets for one line (without its line feed): nothing or one entry, more where 2.30 breaks a long line up.
fn seen(line: &[u8], number: usize, version: Option<NcclVersion>) -> impl Iterator<Item = Entry> {
    let pieces = version.is_none_or(|version| version.at_least(2, 30));
    // `#` became a comment in 2.26; before, such a line sets a variable that nothing reads.
    let comments = version.is_none_or(|version| version.at_least(2, 26));
    let size = if pieces { PIECE } else { line.len().max(1) };
    line.chunks(size).filter_map(move |piece| {
        // C's strings end at the first zero byte.
        let piece = piece.split(|byte| *byte == 0).next().unwrap_or_default();
        let piece = if pieces { piece.strip_suffix(b"\r").unwrap_or(piece) } else { piece };
        if comments && piece.first() == Some(&b'#') {
            return None;
        }
        let at = piece.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(KEPT)]).into_owned();
        let (name, value) = (text(&piece[..at]), text(&piece[at + 1..]));
        // The environment takes no variable without a name.
        (!name.is_empty()).then_some(Entry { name, value, line: number })
    })
}

/// Where NCCL looks for configuration files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The user's file, if there can be one.
    pub user: Option<PathBuf>,
    /// The system's file.
    pub system: PathBuf,
}

/// What decides where the user's file is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Home<'a> {
    /// `NCCL_CONF_FILE` of the process's environment.
    pub conf_file: Option<&'a str>,
    /// `HOME` of the process's environment.
    pub home: Option<&'a str>,
    /// The user's folder in the password database.
    pub passwd: Option<&'a str>,
}

impl Files {
    /// The files that `version` reads. `NCCL_CONF_FILE` names the user's since 2.23; else it is in the folder that the
    /// password database names up to 2.29, and in `$HOME`, which many services lack, since 2.30.
    #[must_use]
    pub fn of(version: Option<NcclVersion>, home: Home) -> Self {
        let at_least = |minor| version.is_none_or(|version| version.at_least(2, minor));
        let named = home.conf_file.filter(|file| at_least(23) && !file.is_empty()).map(PathBuf::from);
        let folder = if at_least(30) { home.home } else { home.passwd };
        let user = named.or_else(|| folder.map(|folder| PathBuf::from(format!("{folder}/.nccl.conf"))));
        Self { user, system: PathBuf::from(SYSTEM_FILE) }
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The process's environment.
    Environment,
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
}

/// A variable as NCCL will find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Its value.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Other values that lost against it, in the order in which they would have counted.
    pub beaten: Vec<(String, Origin)>,
}

/// Every variable that the files set, and every `NCCL_` variable of the environment, with who wins. `files` are in the order
/// in which NCCL reads them.
#[must_use]
pub fn effective<'a>(
    environment: impl IntoIterator<Item = (&'a str, &'a str)>,
    files: &[(&Path, &Conf)],
) -> BTreeMap<String, Effective> {
    let in_environment =
        environment.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned(), Origin::Environment));
    let in_files = files.iter().flat_map(|(path, conf)| {
        conf.entries.iter().map(|entry| {
            let origin = Origin::File { path: path.to_path_buf(), line: entry.line };
            (entry.name.clone(), entry.value.clone(), origin)
        })
    });
    let mut found: BTreeMap<String, Effective> = BTreeMap::new();
    for (name, value, origin) in in_environment.chain(in_files) {
        match found.get_mut(&name) {
            Some(winner) => winner.beaten.push((value, origin)),
            None => _ = found.insert(name, Effective { value, origin, beaten: Vec::new() }),
        }
    }
    // What a file could have set is of interest, the rest of the environment is not.
    let from_file =
        |variable: &Effective| matches!(variable.origin, Origin::File { .. }) || !variable.beaten.is_empty();
    found.retain(|name, variable| name.starts_with("NCCL_") || from_file(variable));
    found
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment => f.write_str("environment"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}
