//! Running processes: which NCCL they have mapped, the `NCCL_` variables they were started with, the configuration files that
//! apply to them, and how they differ.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;

use super::files::Root;
use super::{Checkup, Details, SCHEMA, conf};
use crate::error::{Error, Result};
use crate::nccl::conf::{Files, Home};
use crate::nccl::is_variable;
use crate::nccl::version::NcclVersion;

mod compare;
mod proc;
mod show;
#[cfg(test)]
mod tests;

use proc::{Environment, Process};

/// Which processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// This one and its descendants.
    pub pid: Option<u32>,
    /// Of those the ones whose command holds this; without a pid all such processes of the machine, and their descendants.
    pub pattern: Option<&'a str>,
}

/// A library that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Library {
    /// Its file, as the process sees it.
    pub path: String,
    /// Its version.
    pub version: Option<NcclVersion>,
    /// The file was removed or replaced since.
    pub deleted: bool,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Its id.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its command line, cut when long.
    pub command: String,
    /// NCCL libraries it has mapped.
    pub nccl: Vec<Library>,
    /// Plugins of NCCL it has mapped.
    pub plugins: Vec<String>,
    /// Why its mapped files are not known.
    pub unmapped: Option<String>,
    /// Why its environment is not known.
    pub hidden: Option<String>,
    /// It was forked and never executed: its environment is that of its ancestor.
    pub forked: bool,
    /// Variables at exec that concern NCCL.
    pub variables: Vec<(String, String)>,
    /// Configuration files that apply to it and are there.
    pub files: Vec<String>,
    /// Configuration files that apply to it, are there, and cannot be read.
    pub unreadable: Vec<String>,
    /// Every `NCCL_` variable as NCCL would find it.
    pub effective: Vec<conf::Setting>,
}

impl Facts {
    /// The version of the library it has mapped first.
    fn version(&self) -> Option<NcclVersion> {
        self.nccl.first()?.version
    }

    fn known(&self) -> bool {
        self.hidden.is_none()
    }
}

/// Looks at processes below `root`, which is `/` but for tests; `version` reads it from a library's file.
///
/// # Errors
/// When there is no such process.
pub fn look(root: &Path, request: &Request, version: &dyn Fn(&Path) -> Option<NcclVersion>) -> Result<Checkup> {
    let files = Root(root);
    let all = proc::list(files);
    let chosen = choose(&all, request)?;
    let mut versions = HashMap::new();
    let facts: Vec<Facts> = chosen.iter().map(|process| read(files, process, version, &mut versions)).collect();
    let subject = match (request.pid, request.pattern) {
        (Some(pid), None) => format!("pid {pid} and its descendants"),
        (Some(pid), Some(pattern)) => format!("descendants of pid {pid} that hold {pattern:?}"),
        (None, pattern) => format!("processes that hold {:?}", pattern.unwrap_or_default()),
    };
    let checks = show::checks(&facts);
    let limits = [
        "variables are those at exec: one that the process set or removed later is not seen (`ncclsweep audit` sees them)",
        "a library that is linked in statically is not mapped as libnccl, and one that is mapped need not be in use yet",
    ];
    Ok(Checkup {
        schema: SCHEMA,
        subject,
        checks,
        limits: limits.map(str::to_owned).into(),
        details: Details::Processes(facts),
    })
}

/// The processes that are asked for, parents before their children.
fn choose<'a>(all: &'a [Process], request: &Request) -> Result<Vec<&'a Process>> {
    let holds = |process: &Process| request.pattern.is_none_or(|pattern| process.holds(pattern));
    if let Some(pid) = request.pid {
        if !all.iter().any(|process| process.pid == pid) {
            return Err(Error::usage(format!("there is no process {pid}")).help(
                "`--match NAME` finds processes by their command; one of another container has another pid here",
            ));
        }
        let chosen: Vec<_> = below(all, &[pid]).into_iter().filter(|process| holds(process)).collect();
        return if chosen.is_empty() { Err(nothing(request)) } else { Ok(chosen) };
    }
    // The shell that this was typed into holds the pattern too.
    let own = ancestry(all, std::process::id());
    let roots = all.iter().filter(|process| !own.contains(&process.pid) && holds(process));
    let roots: Vec<u32> = roots.map(|process| process.pid).collect();
    if roots.is_empty() { Err(nothing(request)) } else { Ok(below(all, &roots)) }
}

fn nothing(request: &Request) -> Error {
    Error::usage(format!("no process has {:?} in its command", request.pattern.unwrap_or_default()))
        .help("`ps -ef` shows the commands; a process of another container is seen from its host, or from inside it")
}

/// The processes `roots` and all below them, each once, parents first.
fn below<'a>(all: &'a [Process], roots: &[u32]) -> Vec<&'a Process> {
    let mut found: Vec<&Process> = Vec::new();
    let mut open: Vec<u32> = roots.iter().rev().copied().collect();
    while let Some(pid) = open.pop() {
        if found.iter().any(|known| known.pid == pid) {
            continue;
        }
        found.extend(all.iter().find(|process| process.pid == pid));
        open.extend(all.iter().rev().filter(|process| process.parent == pid).map(|process| process.pid));
    }
    found
}

/// A process and what it was started by.
fn ancestry(all: &[Process], pid: u32) -> Vec<u32> {
    let parent = |pid: &u32| all.iter().find(|process| process.pid == *pid).map(|process| process.parent);
    // No longer than there are processes: a snapshot is not taken at one moment.
    std::iter::successors(Some(pid), parent).take(all.len() + 1).collect()
}

/// All that is known of one process.
fn read(
    root: Root,
    process: &Process,
    version: &dyn Fn(&Path) -> Option<NcclVersion>,
    versions: &mut HashMap<String, Option<NcclVersion>>,
) -> Facts {
    let mut facts = Facts {
        pid: process.pid,
        parent: process.parent,
        command: process.shown(),
        forked: process.forked,
        ..Facts::default()
    };
    match proc::mapped(root, process.pid) {
        Ok(mapped) => {
            for file in mapped {
                match file.is_nccl() {
                    true => facts.nccl.push(Library {
                        version: *versions.entry(file.key.clone()).or_insert_with(|| version(&file.reachable(root))),
                        path: file.path,
                        deleted: file.deleted,
                    }),
                    false => facts.plugins.push(file.path),
                }
            }
        }
        Err(why) => facts.unmapped = Some(why),
    }
    let environment = match proc::environment(root, process) {
        Environment::Known(environment) => environment,
        Environment::Hidden(why) => {
            facts.hidden = Some(why);
            return facts;
        }
    };
    let variable = |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let passwd = proc::home(root, process.pid);
    let home = Home { conf_file: variable("NCCL_CONF_FILE"), home: variable("HOME"), passwd: passwd.as_deref() };
    let own = root.path(&format!("proc/{}/root", process.pid));
    let cwd = root.path(&format!("proc/{}/cwd", process.pid));
    let applying = conf::applying(Root(&own), Some(&cwd), &Files::of(facts.version(), home), facts.version());
    for of in &applying {
        match &of.conf {
            Ok(None) => {}
            Ok(Some(_)) => facts.files.push(of.path.display().to_string()),
            Err(why) => facts.unreadable.push(why.clone()),
        }
    }
    facts.effective = conf::effective(&environment, &applying);
    facts.variables = environment.into_iter().filter(|(name, _)| concerns_nccl(name)).collect();
    facts.variables.sort();
    facts
}

/// Whether a variable decides which NCCL is loaded, on which GPUs, and how it is set.
fn concerns_nccl(name: &str) -> bool {
    const OTHERS: [&str; 5] =
        ["CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "VLLM_NCCL_SO_PATH"];
    is_variable(name) || OTHERS.contains(&name)
}
