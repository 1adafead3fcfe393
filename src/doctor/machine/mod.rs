//! Checks of this machine: what of it makes all-reduce slow, wrong or not what one thinks.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::files::Root;
use super::{Check, Checkup, Details, SCHEMA};
use crate::nccl::version::NcclVersion;
use crate::topology::{self, Topology};

mod cpu;
mod driver;
mod memory;
mod paths;
mod software;

/// What callers found out by means that a look at files has not.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// What CUDA's driver says; or why it does not.
    pub cuda: Answer<Cuda>,
    /// What the management library says; or why it does not.
    pub management: Answer<Management>,
    /// The wiring as kernel and driver tell it; when it is not given, as the kernel does.
    pub topology: Option<Topology>,
    /// NCCL libraries, the one that is taken first.
    pub libraries: Vec<Library>,
    /// Name of the emulated box that GPUs and wiring are of.
    pub emulated: Option<String>,
    /// Where libraries were looked for.
    pub places: String,
    /// The whole environment.
    #[serde(skip)]
    pub environment: Vec<(String, String)>,
    /// The user's folder in the password database.
    #[serde(skip)]
    pub home: Option<PathBuf>,
}

/// What somebody said who was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer<T> {
    /// Nobody was asked.
    #[default]
    NotAsked,
    /// Why there is no answer.
    Refused(String),
    /// The answer.
    Told(T),
}

impl<T> From<Result<T, String>> for Answer<T> {
    fn from(result: Result<T, String>) -> Self {
        result.map_or_else(Self::Refused, Self::Told)
    }
}

/// What CUDA's driver says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cuda {
    /// The CUDA version it supports.
    pub version: String,
    /// GPUs in CUDA's order.
    pub gpus: Vec<Gpu>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// Its name.
    pub name: String,
    /// Its PCI address.
    pub pci: String,
    /// How busy it is, in percent.
    pub load: Option<u32>,
}

/// What the management library says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Management {
    /// Version of the driver.
    pub driver: String,
    /// Processes on the GPUs, each with its id and name.
    pub processes: Vec<(u32, Option<String>)>,
}

/// An NCCL library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    /// Its file.
    pub path: String,
    /// How it was found.
    pub by: String,
    /// Its version.
    pub version: Option<NcclVersion>,
}

impl Facts {
    /// The value of an environment variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The library that is taken.
    #[must_use]
    pub fn version(&self) -> Option<NcclVersion> {
        self.libraries.first()?.version
    }
}

/// Looks at the machine below `root`, which is `/` but for tests.
#[must_use]
pub fn look(root: &Path, mut facts: Facts) -> Checkup {
    let files = Root(root);
    facts.topology = facts.topology.or_else(|| topology::probe(root).ok());
    let topology = facts.topology.as_ref();
    // An emulated box has GPUs and wiring; processors and memory are this machine's.
    let own = topology.filter(|_| facts.emulated.is_none());
    let mut checks = vec![cpu::machine(files, own)];
    checks.extend(driver::checks(files, &facts, topology));
    checks.extend(paths::checks(topology));
    checks.extend(memory::checks(files));
    checks.extend(cpu::checks(files, own));
    checks.extend(software::checks(files, &facts));
    Checkup {
        schema: SCHEMA,
        subject: subject(&facts),
        checks,
        limits: limits(&facts),
        details: Details::Machine(Box::new(facts)),
    }
}

fn subject(facts: &Facts) -> String {
    match &facts.emulated {
        Some(name) => format!("this machine with the EMULATED GPUs of {name}"),
        None => "this machine".to_owned(),
    }
}

fn limits(facts: &Facts) -> Vec<String> {
    let mut limits = vec![
        "that a path is allowed does not show that it works: only a collective with checked data does (`ncclsweep`)"
            .to_owned(),
    ];
    if let Some(name) = &facts.emulated {
        limits.push(format!("EMULATED: driver, GPUs and links are those of {name}, all else is this machine's"));
    }
    limits
}

/// How many GPUs sysfs shows, as words.
fn no_gpu(topology: Option<&Topology>) -> &'static str {
    match topology {
        None => "the PCI devices in /sys cannot be listed",
        Some(_) => "/sys shows no NVIDIA GPU",
    }
}

/// A check of nothing that could be looked at.
fn hidden(name: &str, what: &str) -> Check {
    Check::unknown(name, format!("{what} cannot be read here"))
}

#[cfg(test)]
mod tests;
