//! Configuration files: a question in TOML, with the names of the flags.
//!
//! Settings stand at the top, variables of every env set in `[base]`, a set in `[sets.NAME]`, a product in `[vary]`.
//! Settings are in small letters, variables in capitals, so a set's variables stand directly in its table. What a file
//! leaves out is `None` here: flags and defaults fill it. A key nobody knows is a fault, as it would else do nothing.

mod read;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use super::affinity::CpuAffinity;
use super::env_set::{EnvSet, Vars};
use super::schedule::{Launch, Rounds};
use super::settings::Percent;
use crate::collective::{Dtype, Mode, Op, Placement, SizeList};
use crate::error::{Error, Result};
use crate::nccl::register::Register;
use crate::nearest::nearest;

/// What a person writes fits many times over.
const MAX_FILE: u64 = 1 << 20;

/// The files of `bench-configs/`, built in.
const BUILTIN: [(&str, &str); 5] = [
    (STANDARD, include_str!("../../bench-configs/pcie-tp8.toml")),
    ("proto-algo-grid", include_str!("../../bench-configs/proto-algo-grid.toml")),
    ("channels", include_str!("../../bench-configs/channels.toml")),
    ("p2p-vs-host-memory", include_str!("../../bench-configs/p2p-vs-host-memory.toml")),
    ("eagle3-verify", include_str!("../../bench-configs/eagle3-verify.toml")),
];
/// The built-in configuration that runs when none is asked for.
pub const STANDARD: &str = "pcie-tp8";

/// A configuration: every setting it gives, and its env sets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The path it was read from, or the name of the built-in file.
    pub name: String,
    /// What it asks, in a sentence.
    pub note: Option<String>,
    /// Message sizes; elements of the data type are counted when that is settled.
    pub sizes: Option<SizeList>,
    /// Data types.
    pub dtype: Option<Vec<Dtype>>,
    /// Operations.
    pub op: Option<Vec<Op>>,
    /// Where results go: `in-place = true`, `false` or `"both"`.
    pub placement: Option<Vec<Placement>>,
    /// Modes.
    pub modes: Option<Vec<Mode>>,
    /// How often every set is visited.
    pub rounds: Option<Rounds>,
    /// How many communicators a visit makes.
    pub communicators: Option<u32>,
    /// What counts as a difference.
    pub tolerance: Option<Percent>,
    /// How long the whole run may take.
    pub time_limit: Option<Duration>,
    /// Seed of the order of visits and of the statistics.
    pub seed: Option<u64>,
    /// The first so many GPUs.
    pub gpus: Option<u32>,
    /// Ranks, when they are not as many as the GPUs.
    pub ranks: Option<u32>,
    /// How ranks are started.
    pub launch: Option<Vec<Launch>>,
    /// Numbers of further communicators.
    pub alive: Option<Vec<u32>>,
    /// How buffers are registered with NCCL.
    pub register: Option<Vec<Register>>,
    /// CPUs that ranks are bound to.
    pub cpu_affinity: Option<CpuAffinity>,
    /// Whether inherited `NCCL_*` variables are dropped.
    pub clean_env: Option<bool>,
    /// Sets that must not be slower than the baseline.
    pub expect: Option<Vec<String>>,
    /// Variables under every set.
    pub base: Vars,
    /// The baseline, the sets of `[sets]` in their order, the product of `[vary]`. The baseline alone when the file names none.
    pub sets: Vec<EnvSet>,
}

impl Config {
    /// Reads the file at `path`; when there is none, the built-in configuration of that name.
    pub fn load(path: &Path) -> Result<Self> {
        let shown = path.display().to_string();
        if !path.exists() && BUILTIN.iter().any(|(name, _)| *name == shown) {
            return Self::builtin(&shown);
        }
        let text = read_text(path, "configuration", &format!("a TOML file, or a built-in one: {}", names()))?;
        Self::parse(&shown, &text)
    }

    /// Whether a file may say `key`, which is named as its flag.
    #[must_use]
    pub fn takes(key: &str) -> bool {
        read::KEYS.contains(&key)
    }

    /// The built-in configuration of this name.
    pub fn builtin(name: &str) -> Result<Self> {
        match BUILTIN.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => Self::parse(name, text),
            None => {
                let guess = nearest(name, BUILTIN.iter().map(|(name, _)| *name));
                let guess = guess.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
                let error = Error::usage(format!("no built-in configuration is called `{name}`"));
                Err(error.help(format!("{guess}built in: {}", names())))
            }
        }
    }

    /// Names and texts of the built-in configurations.
    pub fn builtins() -> impl Iterator<Item = (&'static str, &'static str)> {
        BUILTIN.into_iter()
    }

    /// Reads the `text` of a configuration called `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        read::config(name, text, &[])
    }

    /// Reads the configuration in a `text` that holds more: what stands under the keys `others` is somebody else's.
    pub fn parse_beside(name: &str, text: &str, others: &[&str]) -> Result<Self> {
        read::config(name, text, others)
    }
}

/// The text of a file that a person wrote; `what` it is, and `help` when it cannot be read.
pub fn read_text(path: &Path, what: &str, help: &str) -> Result<String> {
    let shown = path.display();
    let fault = || Error::usage(format!("cannot read {what} `{shown}`"));
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| fault().because(error).help(help))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::usage(format!("{what} `{shown}` is larger than 1 MiB")).help("is it the right file?"));
    }
    String::from_utf8(bytes).map_err(|error| fault().because(error).help("write it in UTF-8"))
}

fn names() -> String {
    BUILTIN.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests;
