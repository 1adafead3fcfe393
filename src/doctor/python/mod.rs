//! A Python environment: which start-up code it runs, which NCCL it and a child it spawns load, which `NCCL_` variables both
//! see. [`SCRIPT`] asks the interpreter; whoever runs it hands [`look`] what it answered.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::is_nccl;
use super::{Check, Checkup, Details, SCHEMA, Status};
use crate::nccl::check::{self, Context, Severity, UnknownBox};
use crate::nccl::is_variable;
use crate::nccl::version::NcclVersion;

#[cfg(test)]
mod tests;

/// The questions. Takes the file for the answer as its argument, which [`Answer`] reads.
pub const SCRIPT: &str = include_str!("look.py");

/// What the script answers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Answer {
    /// The interpreter that was started.
    pub own: Told,
    /// The child that it spawned.
    pub child: Option<Told>,
    /// Why there is none.
    pub failure: Option<String>,
}

/// What one process of Python tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// The interpreter.
    pub executable: Option<String>,
    /// Its version.
    pub version: String,
    /// Folder of its environment.
    pub prefix: String,
    /// Started with `-I`.
    pub isolated: bool,
    /// Started with `-E` or `-I`: variables of Python are ignored.
    pub ignores_environment: bool,
    /// The file of `sitecustomize`, when there is one.
    pub sitecustomize: Option<String>,
    /// The file of `usercustomize`, when there is one.
    pub usercustomize: Option<String>,
    /// Packages of the user count.
    pub user_site: bool,
    /// Path files that run code and speak of NCCL.
    pub path_files: Vec<String>,
    /// NCCL in wheels.
    pub wheels: Vec<String>,
    /// Files of NCCL mapped before anything asked for it.
    pub before: Vec<String>,
    /// Its `NCCL_` variables.
    pub variables: BTreeMap<String, String>,
    /// Variables of the dynamic loader.
    pub loader: BTreeMap<String, String>,
    /// What came with torch, when it is installed.
    pub torch: Option<Loaded>,
    /// What the loader gives for `libnccl.so.2`.
    pub by_name: Option<Loaded>,
}

/// What an attempt to load gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Loaded {
    /// Why it failed.
    pub error: Option<String>,
    /// Version of what was imported.
    pub version: Option<String>,
    /// Files of NCCL mapped then.
    pub mapped: Vec<String>,
}

/// Facts of a Python environment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Facts {
    /// The interpreter that was started.
    pub own: Told,
    /// The child that it spawned.
    pub child: Option<Told>,
    /// Versions of the libraries named, by their files.
    pub versions: BTreeMap<String, Option<NcclVersion>>,
}

/// Judges an answer. `environment` holds the `NCCL_` variables that the interpreter was started with; `version` reads it from a
/// library's file.
pub fn look(
    answer: Answer,
    environment: &[(String, String)],
    version: &dyn Fn(&Path) -> Option<NcclVersion>,
) -> Checkup {
    let Answer { own, child, failure } = answer;
    let told = [Some(&own), child.as_ref()].into_iter().flatten();
    let files = told.flat_map(|told| {
        let loads = [&told.torch, &told.by_name].into_iter().flatten().flat_map(|loaded| &loaded.mapped);
        told.wheels.iter().chain(&told.before).chain(loads)
    });
    let mut versions: BTreeMap<String, Option<NcclVersion>> = BTreeMap::new();
    for file in files.filter(|file| is_nccl(file)) {
        versions.entry(file.clone()).or_insert_with(|| version(Path::new(file)));
    }
    let of_own = library("library", &own, &versions);
    let mut checks = vec![interpreter(&own), start_up(&own), of_own.clone()];
    match &child {
        Some(child) => {
            let name = "library of a child";
            let of_child = library(name, child, &versions);
            let alike = of_child.evidence == of_own.evidence;
            checks.push(if alike { Check::ok(name, "the same, by a spawned child") } else { of_child });
            checks.extend(same(&own, child));
        }
        None => checks.push(
            Check::fault("spawned child", failure.unwrap_or_else(|| "did not answer".to_owned()))
                .next("servers spawn their workers in this way: run `python -c 'import multiprocessing'` and look at its start-up code"),
        ),
    }
    checks.push(variables(environment, &own, child.as_ref(), taken(&own).and_then(|file| *versions.get(file)?)));
    let subject = own.executable.clone().unwrap_or_else(|| "Python".to_owned());
    let limits = vec![
        "told for the environment of this shell and this folder: a service file, a container or Ray give another"
            .to_owned(),
        "a program may name a library by its path (VLLM_NCCL_SO_PATH), or set variables itself before it spawns"
            .to_owned(),
    ];
    let facts = Facts { own, child, versions };
    Checkup { schema: SCHEMA, subject, checks, limits, details: Details::Python(Box::new(facts)) }
}

/// The library that torch brings, else the one by name.
fn taken(told: &Told) -> Option<&String> {
    let mut loads = [&told.torch, &told.by_name].into_iter().flatten();
    told.before
        .iter()
        .find(|file| is_nccl(file))
        .or_else(|| loads.find_map(|of| of.mapped.iter().find(|file| is_nccl(file))))
}

fn interpreter(own: &Told) -> Check {
    let mut check = Check::ok("interpreter", format!("Python {} of {}", own.version, own.prefix));
    let notes = [(own.isolated, "isolated (-I)"), (own.ignores_environment, "ignores variables of Python (-E)")];
    check.evidence.extend(notes.into_iter().filter(|(holds, _)| *holds).map(|(_, note)| note.to_owned()));
    check
}

/// Code that runs at every start, in children too: where variables can come from and go.
fn start_up(own: &Told) -> Check {
    let name = "start-up code";
    let hooks = [("sitecustomize", &own.sitecustomize), ("usercustomize", &own.usercustomize)];
    let mut found: Vec<_> =
        hooks.iter().filter_map(|(name, file)| Some(format!("{name}: {}", file.as_ref()?))).collect();
    found.extend(own.path_files.iter().map(|file| format!("runs code and speaks of NCCL: {file}")));
    match found.split_first() {
        None => Check::ok(name, "no sitecustomize, no usercustomize, no path file that speaks of NCCL"),
        Some((first, others)) => Check::ok(name, first.clone()).also(others.iter().cloned()),
    }
}

fn library(name: &str, told: &Told, versions: &BTreeMap<String, Option<NcclVersion>>) -> Check {
    let shown = |file: &String| {
        let version = versions.get(file).copied().flatten();
        version.map_or_else(|| format!("{file}, version not told"), |version| format!("{version} {file}"))
    };
    let mapped = |of: &'_ Loaded| of.mapped.iter().filter(|file| is_nccl(file)).map(shown).collect::<Vec<_>>();
    let mut evidence = Vec::new();
    let mut files: Vec<&String> = told.before.iter().filter(|file| is_nccl(file)).collect();
    evidence.extend(files.first().map(|file| format!("loaded before anything asks for it: {}", shown(file))));
    if let Some(torch) = &told.torch {
        let version = torch.version.as_deref().unwrap_or_default();
        evidence.push(match (&torch.error, mapped(torch)) {
            (Some(error), _) => format!("torch cannot be imported: {error}"),
            (None, found) if found.is_empty() => {
                format!("torch {version} maps no libnccl: built without, or linked in")
            }
            (None, found) => format!("torch {version} loads {}", found.join(" and ")),
        });
        files.extend(torch.mapped.iter().filter(|file| is_nccl(file)));
    }
    if let Some(by_name) = &told.by_name {
        evidence.push(match (&by_name.error, mapped(by_name)) {
            (Some(error), _) => format!("the loader has no libnccl.so.2: {error}"),
            (None, found) if told.torch.as_ref().is_some_and(|torch| !torch.mapped.is_empty()) => {
                format!("after it libnccl.so.2 is {}", found.join(" and "))
            }
            (None, found) => format!("libnccl.so.2 is {}", found.join(" and ")),
        });
        files.extend(by_name.mapped.iter().filter(|file| is_nccl(file)));
    }
    evidence.extend(
        told.wheels
            .iter()
            .filter(|file| !files.contains(file))
            .map(|file| format!("a wheel that is not loaded by itself: {}", shown(file))),
    );
    evidence.extend(told.loader.iter().map(|(name, value)| format!("{name}={value}")));
    files.sort();
    files.dedup();
    let broken = told.torch.as_ref().is_some_and(|torch| torch.error.is_some());
    let mut check = Check { name: name.to_owned(), status: Status::Ok, evidence, next: Vec::new() };
    match files.len() {
        _ if broken => {
            check.status = Status::Fault;
            check.next.push("mend the installation of torch: a server will not start with it".to_owned());
        }
        0 => {
            check.status = Status::Unknown;
            check.next.push(
                "no library is found by name: torch brings one, or LD_LIBRARY_PATH names the folder of a wheel"
                    .to_owned(),
            );
        }
        1 => {}
        _ => {
            check.status = Status::Fault;
            check.next.push(
                "two libraries in one process: take LD_PRELOAD or LD_LIBRARY_PATH away, or let both name one file"
                    .to_owned(),
            );
        }
    }
    check
}

/// Whether a child loads and runs at its start what its parent does.
fn same(own: &Told, child: &Told) -> Option<Check> {
    let pairs = [
        ("interpreter", own.executable.as_ref(), child.executable.as_ref()),
        ("sitecustomize", own.sitecustomize.as_ref(), child.sitecustomize.as_ref()),
        ("usercustomize", own.usercustomize.as_ref(), child.usercustomize.as_ref()),
        ("NCCL", taken(own), taken(child)),
    ];
    let shown = |file: Option<&String>| file.map_or_else(|| "none".to_owned(), Clone::clone);
    let differ: Vec<_> = pairs
        .into_iter()
        .filter(|(_, own, child)| own != child)
        .map(|(what, own, child)| format!("{what}: {} here, {} in a child", shown(own), shown(child)))
        .collect();
    let (first, others) = differ.split_first()?;
    Some(
        Check::fault("child differs", first.clone())
            .also(others.iter().cloned())
            .next("workers would run otherwise than what was tried by hand"),
    )
}

/// What happens to `NCCL_` variables on the way from the shell to a child.
fn variables(
    environment: &[(String, String)],
    own: &Told,
    child: Option<&Told>,
    version: Option<NcclVersion>,
) -> Check {
    let name = "variables";
    let started: BTreeMap<String, String> = environment.iter().filter(|(name, _)| is_variable(name)).cloned().collect();
    let last = child.unwrap_or(own);
    let shown: Vec<_> = last.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let who = if child.is_some() { "a spawned child" } else { "the interpreter" };
    let mut check = match shown.is_empty() {
        true => Check::ok(name, format!("{who} sees no NCCL_ variable")),
        false => Check::ok(name, format!("{who} sees {}", shown.join(" "))),
    };
    let mut steps = vec![(&started, &own.variables, "the start-up code")];
    steps.extend(child.map(|child| (&own.variables, &child.variables, "the way to the child")));
    for (before, after, by) in steps {
        let changed: Vec<_> = changes(before, after).into_iter().map(|change| format!("{by} {change}")).collect();
        if !changed.is_empty() {
            check.status = Status::Warning;
            check.evidence.extend(changed);
        }
    }
    if check.status == Status::Warning {
        check.next.push(
            "look at sitecustomize, usercustomize and .pth files: they run in every process of this environment"
                .to_owned(),
        );
    }
    let setting = |(name, value): (&String, &String)| check::Setting {
        name: name.clone(),
        value: value.clone(),
        origin: who.to_owned(),
    };
    let settings: Vec<_> = last.variables.iter().map(setting).collect();
    for finding in check::check(&settings, &Context { version, allow_unknown: true, facts: &UnknownBox }) {
        let status = if finding.severity == Severity::Error { Status::Fault } else { Status::Warning };
        check.status = check.status.max(status);
        check.evidence.push(finding.to_string());
        check.next.extend(finding.help.map(|help| format!("{}: {help}", finding.variable)));
    }
    check
}

fn changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("takes {name} away"));
    let new = after.iter().filter_map(|(name, value)| match before.get(name) {
        None => Some(format!("sets {name}={value}")),
        Some(old) if old != value => Some(format!("changes {name} from {old} to {value}")),
        Some(_) => None,
    });
    gone.chain(new).collect()
}
