//! NCCL's variables as data: what each is, takes, acts on, and when it is read.
//!
//! The data are the TOML files beside this one, one [`Variable`] per table; facts come from the source of NCCL 2.8 to 2.30 and
//! its documentation, which [`Variable::link`] names.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::error::Error;
use crate::nccl::version::NcclVersion;

mod text;

pub use text::{explain, table};

/// The files of variables, in the order they are listed.
const FILES: [&str; 7] = [
    include_str!("choice.toml"),
    include_str!("channels.toml"),
    include_str!("paths.toml"),
    include_str!("logging.toml"),
    include_str!("process.toml"),
    include_str!("network.toml"),
    include_str!("infiniband.toml"),
];

/// A variable that NCCL reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name, with `NCCL_`.
    pub name: String,
    /// What its value is.
    pub kind: Kind,
    /// The first version that reads it; none when that is older than 2.8.
    pub since: Option<NcclVersion>,
    /// The last version that reads it; none when 2.30.7 does.
    pub until: Option<NcclVersion>,
    /// What holds when it is not set, in words where it depends.
    pub default: Option<String>,
    /// What should be set instead.
    pub replaced: Option<Replaced>,
    /// When it is read.
    pub read: ReadAt,
    /// In what of the profiler's and the log's record of `used` it can be seen; nothing for many.
    #[serde(default)]
    pub trace: Vec<Trace>,
    /// Protocols, algorithms, transports or operations that it acts on; empty: on all.
    #[serde(default)]
    pub acts_on: Vec<String>,
    /// What it does, in one sentence.
    pub meaning: String,
    /// Whether NVIDIA documents it.
    #[serde(default)]
    documented: bool,
    /// `path @ tag` of NCCL's source, for those that are not documented.
    source: Option<String>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Kind {
    /// A list of algorithms, see [`crate::nccl::lists`].
    Algorithms,
    /// A list of protocols.
    Protocols,
    /// A path level: `LOC` to `SYS`, or a number.
    Level,
    /// An integer, read as C does.
    Integer {
        /// What it counts.
        unit: String,
        /// The least that makes sense.
        min: Option<i64>,
        /// The most.
        max: Option<i64>,
        /// It should be a multiple of this.
        step: Option<i64>,
    },
    /// An integer that stands for one of a few ways, mostly 0 and 1.
    Switch(Vec<i64>),
    /// Only the number 1 counts.
    Exact1,
    /// `0`, `1`, and since 2.30.7 also `T`, `TRUE`, `F`, `FALSE`.
    Boolean,
    /// One of a few words, or several where there is a separator.
    Words {
        /// The words.
        of: Vec<Word>,
        /// Whether case counts not.
        #[serde(default)]
        ignore_case: bool,
        /// What stands between several.
        separator: Option<char>,
    },
    /// Words separated by commas, all others when `^` comes first; case counts not.
    Flags(Vec<Word>),
    /// Network interfaces: prefixes, `=` whole names, `^` all others.
    Interfaces,
    /// InfiniBand adapters, with ports.
    Adapters,
    /// A file that must be there.
    Read,
    /// A file that is written.
    Write,
    /// A library: its path, its suffix, or a word.
    Plugin,
    /// Anything.
    Text,
}

/// A word that values consist of.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Word {
    /// The word.
    pub text: String,
    /// The first version that knows it; none when that is older than 2.8.
    pub since: Option<NcclVersion>,
}

/// What replaces a variable.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replaced {
    /// Since which version.
    pub since: NcclVersion,
    /// By which variable, or what to do.
    pub by: String,
}

/// When NCCL reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAt {
    /// Before any other: when the library first reads a variable.
    Load,
    /// At the first line of the log.
    Log,
    /// Once, at first use, and never again.
    Once,
    /// Once per process, at first use; since 2.29.7 `NCCL_NO_CACHE` lifts that.
    Process,
    /// Once per process, and laid over the configuration of every communicator.
    Config,
    /// At every initialisation of a communicator, by each rank.
    Init,
}

/// In what a variable can be seen to have worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trace {
    /// The algorithm used.
    Algorithm,
    /// The protocol used.
    Protocol,
    /// The channels used.
    Channels,
    /// The warps used.
    Warps,
    /// The transports of the connections.
    Transport,
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        match text.split_once(" since ") {
            Some((word, since)) => Self { text: word.to_owned(), since: NcclVersion::find(since) },
            None => Self { text, since: None },
        }
    }
}

impl Word {
    /// Whether `version` knows it; a version that is not known is taken for the latest.
    #[must_use]
    pub fn known_in(&self, version: Option<NcclVersion>) -> bool {
        version.zip(self.since).is_none_or(|(version, since)| version >= since)
    }
}

impl Variable {
    /// Whether `version` reads it.
    #[must_use]
    pub fn known_in(&self, version: NcclVersion) -> bool {
        self.since.is_none_or(|since| version >= since) && self.until.is_none_or(|until| version <= until)
    }

    /// Where its facts stand: NVIDIA's documentation, else NCCL's source.
    #[must_use]
    pub fn link(&self) -> String {
        if self.documented {
            let anchor = self.name.to_lowercase().replace('_', "-");
            return format!("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#{anchor}");
        }
        let (path, tag) = self.source.as_deref().and_then(|source| source.split_once(" @ ")).unwrap_or_default();
        format!("https://github.com/NVIDIA/nccl/blob/{tag}/{path}")
    }
}

impl fmt::Display for ReadAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Load => "before any other variable",
            Self::Log => "at the first line of the log",
            Self::Once => "once, never again",
            Self::Process => "once per process",
            Self::Config => "once per process, for every communicator",
            Self::Init => "at every communicator's initialisation",
        })
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Algorithm => "algorithm",
            Self::Protocol => "protocol",
            Self::Channels => "channels",
            Self::Warps => "warps",
            Self::Transport => "transport",
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variables {
    variable: Vec<Variable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Later {
    names: Vec<String>,
}

fn parse(text: &str) -> Result<Vec<Variable>, Error> {
    let variables = toml::from_str::<Variables>(text);
    Ok(variables.map_err(|source| Error::usage("the catalogue of variables is not valid").because(source))?.variable)
}

static ALL: LazyLock<Vec<Variable>> = LazyLock::new(|| {
    // The files are part of the program, and a test reads them.
    FILES.iter().flat_map(|text| parse(text).expect("the built-in catalogue is valid")).collect()
});

static BY_NAME: LazyLock<HashMap<&str, &Variable>> =
    LazyLock::new(|| ALL.iter().map(|variable| (variable.name.as_str(), variable)).collect());

static LATER: LazyLock<Vec<String>> = LazyLock::new(|| {
    toml::from_str::<Later>(include_str!("later.toml")).expect("the built-in list of later names is valid").names
});

/// Every variable.
#[must_use]
pub fn all() -> &'static [Variable] {
    &ALL
}

/// The variable of this name.
#[must_use]
pub fn get(name: &str) -> Option<&'static Variable> {
    BY_NAME.get(name).copied()
}

/// Whether 2.32.3 names it as a variable and nothing more is known.
#[must_use]
pub fn is_later(name: &str) -> bool {
    LATER.iter().any(|later| later == name)
}

/// Who else reads the `NCCL_` variable `name`, which is none of NCCL's.
#[must_use]
pub fn foreign(name: &str) -> Option<&'static str> {
    const NAMES: [(&str, &str); 8] = [
        ("NCCL_VERSION", "container images say with it which NCCL they hold; it is no setting"),
        ("NCCL_ASYNC_ERROR_HANDLING", "PyTorch up to 2.1 read it; now TORCH_NCCL_ASYNC_ERROR_HANDLING"),
        ("NCCL_BLOCKING_WAIT", "PyTorch up to 2.1 read it; now TORCH_NCCL_BLOCKING_WAIT"),
        ("NCCL_DESYNC_DEBUG", "PyTorch up to 2.1 read it; now TORCH_NCCL_DESYNC_DEBUG"),
        ("NCCL_ENABLE_TIMING", "PyTorch up to 2.1 read it; now TORCH_NCCL_ENABLE_TIMING"),
        ("NCCL_HOME", "builds against NCCL look for it there"),
        ("NCCL_ROOT", "builds against NCCL look for it there"),
        ("NCCL_ROOT_DIR", "builds against NCCL look for it there"),
    ];
    const PREFIXES: [(&str, &str); 4] = [
        ("NCCL_TESTS_", "nccl-tests reads it"),
        ("NCCL_INSPECTOR_", "the inspector profiler plugin reads it"),
        ("NCCL_FASTRAK_", "Google's network plugin reads it"),
        ("NCCL_LIB", "builds against NCCL look for it there"),
    ];
    let named = NAMES.iter().find(|(known, _)| *known == name);
    named.or_else(|| PREFIXES.iter().find(|(prefix, _)| name.starts_with(prefix))).map(|(_, who)| *who)
}

/// The variable whose name is nearest to `name`, if it is near enough to be meant.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static Variable> {
    let name = name.to_uppercase();
    let name = if name.starts_with("NCCL_") { name } else { format!("NCCL_{name}") };
    let distance = |variable: &&Variable| strsim::damerau_levenshtein(&variable.name, &name);
    // A quarter of what follows `NCCL_`, at least 2.
    let enough = (name.len().saturating_sub(5) / 4).max(2);
    all().iter().min_by_key(distance).filter(|variable| distance(variable) <= enough)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_files_are_valid_and_name_each_variable_once() {
        for file in FILES {
            parse(file).unwrap();
        }
        let names: BTreeSet<_> = all().iter().map(|variable| &variable.name).collect();
        assert_eq!(names.len(), all().len());
        assert!(all().len() >= 260, "{}", all().len());
        assert!(LATER.iter().all(|later| later.starts_with("NCCL_") && get(later).is_none()));
    }

    #[test]
    fn every_variable_is_complete() {
        for variable in all() {
            let name = &variable.name;
            assert!(
                name.starts_with("NCCL_")
                    && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            );
            assert!(
                variable.meaning.ends_with('.') && variable.meaning.matches(". ").count() == 0,
                "{name}: one sentence"
            );
            assert!(variable.link().starts_with("https://"), "{name}");
            assert!(variable.documented != variable.source.is_some(), "{name}: one source");
            assert!(variable.since.zip(variable.until).is_none_or(|(since, until)| since <= until), "{name}");
            match &variable.kind {
                Kind::Integer { min: Some(min), max: Some(max), .. } => assert!(min < max, "{name}"),
                Kind::Switch(values) => assert!(values.len() > 1, "{name}"),
                Kind::Words { of, .. } | Kind::Flags(of) => assert!(of.len() > 1, "{name}"),
                _ => {}
            }
        }
    }

    #[test]
    fn versions_bound_a_variable() {
        let known = |name: &str, version: &str| get(name).unwrap().known_in(version.parse().unwrap());
        assert!(!known("NCCL_MAX_CTAS", "2.16.5") && known("NCCL_MAX_CTAS", "2.17.1"));
        assert!(known("NCCL_SHM_USE_CUDA_MEMCPY", "2.30.4") && !known("NCCL_SHM_USE_CUDA_MEMCPY", "2.30.7"));
        assert!(!known("NCCL_MULTI_RANK_GPU_ENABLE", "2.29.7") && known("NCCL_MULTI_RANK_GPU_ENABLE", "2.32.3"));
        assert!(known("NCCL_BUFFSIZE", "2.8.3") && !known("NCCL_TREE_THRESHOLD", "2.8.3"));
    }

    #[test]
    fn a_misspelt_name_finds_what_was_meant() {
        let near = |name| nearest(name).map(|variable| variable.name.as_str());
        assert_eq!(near("NCCL_BUFSIZE"), Some("NCCL_BUFFSIZE"));
        assert_eq!(near("NCCL_BUFF_SIZE"), Some("NCCL_BUFFSIZE"));
        assert_eq!(near("NCCL_MAX_CHANNELS"), Some("NCCL_MAX_NCHANNELS"));
        assert_eq!(near("nccl_proto"), Some("NCCL_PROTO"));
        assert_eq!(near("P2P_LEVEL"), Some("NCCL_P2P_LEVEL"));
        assert_eq!(near("NCCL_SOMETHING_ELSE_ENTIRELY"), None);
        assert_eq!(near(""), None);
    }

    #[test]
    fn documented_variables_link_to_the_documentation() {
        let link = get("NCCL_P2P_LEVEL").unwrap().link();
        assert_eq!(link, "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-p2p-level");
        let link = get("NCCL_LL_BUFFSIZE").unwrap().link();
        assert_eq!(link, "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/init.cc");
    }
}
