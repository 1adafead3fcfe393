//! `ncclsweep audit`: what NCCL did in the processes of a command.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::answer::{answer, unwritten};
use super::args::Audit as Args;
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::{folder, interrupt, terminal};
use crate::audit::{self, Audit, Expectation};
use crate::error::{Error, Result};
use crate::plan::config::{Config, STANDARD};
use crate::plan::env_set::{self, EnvSet, Vars};
use crate::report::{Form, audit as report};
use crate::supervisor::audited::{self, PLUGIN, Started};
use crate::supervisor::provenance;

/// How often a watched audit is read again.
const PERIOD: Duration = Duration::from_secs(2);

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let expected =
        args.expect.as_deref().map(|text| named_set("--expect", text, args.config.as_deref())).transpose()?;
    if let Some(set) = expected.as_ref().filter(|set| set.vars.is_empty()) {
        return Err(Error::usage(format!("{} sets nothing, so any run would hold it", set.name))
            .help("--expect takes a set with variables, or NAME:K=V,…"));
    }
    match &args.watch {
        Some(folder) => watch(folder, expected.as_ref(), args.format),
        None => {
            let started = Started { command: &args.command, variables: &Vars::default() };
            under_audit(&started, expected.as_ref(), args.out.as_deref(), args.format)
        }
    }
}

/// The env set that is meant: one of a configuration, or one that is written out.
pub fn named_set(flag: &str, text: &str, config: Option<&Path>) -> Result<EnvSet> {
    if text.contains(':') {
        return env_set::written(flag, text);
    }
    let config = config.map_or_else(|| Config::builtin(STANDARD), Config::load)?;
    let set = env_set::named(&config.sets, flag, text)?;
    Ok(EnvSet { vars: set.vars.over(&config.base), ..set })
}

/// Starts a command, waits for it, and tells what it did.
pub fn under_audit(started: &Started, expected: Option<&EnvSet>, out: Option<&Path>, form: Form) -> Result<Exit> {
    let other = other_plugin(started.variables);
    if let Some(other) = &other {
        terminal::note(format!(
            "{PLUGIN}={other} is set and stays so: processes that load another plugin tell nothing here"
        ));
    }
    let plugin = if other.is_none() { Some(audited::plugin()?) } else { None };
    let folder = folder(out)?;
    let quoted = shell_words::quote(&folder.to_string_lossy()).into_owned();
    terminal::note(format!(
        "audit in {0}; live from another terminal: ncclsweep audit --watch {quoted}",
        folder.display()
    ));
    let status = audited::run(started, &folder, plugin.as_deref()).inspect_err(|_| {
        // Nothing is in it when the command did not start.
        let _ = std::fs::remove_dir(&folder);
    })?;
    if !status.success() {
        terminal::note(format!("the command ended with {status}"));
    }
    // Not before: the command would inherit it.
    interrupt::outlive_file_limit()?;
    let told = Audit::load(&folder).and_then(|audit| {
        let expectation = expected.map(|set| audit::hold(&audit, set));
        if audit.workers.is_empty() {
            terminal::note(silence(other.as_deref()));
        }
        answer(exit(expectation.as_ref(), Some(status)), |out| {
            report::write(&audit, expectation.as_ref(), form, terminal::style(), out)
        })
    });
    Ok(told.unwrap_or_else(|error| {
        super::exit::show(&error);
        lost(expected.is_some(), status)
    }))
}

/// Why no process told anything.
fn silence(other: Option<&str>) -> String {
    match other {
        Some(other) => format!(
            "no process told anything: each was given {PLUGIN}={other}, and NCCL loads one profiler plugin; unset it to audit"
        ),
        None => format!(
            "no process told anything. Either none made a communicator, or: NCCL before 2.23 loads no profiler plugin, and 2.27.3 none by its path; the command \
             sets another {PLUGIN} for its processes; their environment was replaced (sudo, ssh, a container); or they could not \
             write to the folder, which they say on their stderr"
        ),
    }
}

/// How it ends when what the command did cannot be told: an expectation is open then, but the command's own status is known.
fn lost(is_expected: bool, status: ExitStatus) -> Exit {
    if is_expected || status.success() { Exit::Incomplete } else { Exit::Command(audited::code(status)) }
}

/// A profiler plugin that somebody else asked for.
fn other_plugin(variables: &Vars) -> Option<String> {
    let inherited = std::env::var_os(PLUGIN).map(|value| value.to_string_lossy().into_owned());
    variables.get(PLUGIN).map(str::to_owned).or(inherited).filter(|value| !value.is_empty())
}

/// The folder for the journals; it must be empty, or another audit's processes would be counted too.
fn folder(out: Option<&Path>) -> Result<PathBuf> {
    let folder = folder::of_audit(out, &provenance::host())?;
    let failed = |error: std::io::Error| {
        Error::usage(format!("cannot use the folder {}", folder.display())).because(error).help("--out takes another")
    };
    if std::fs::read_dir(&folder).map_err(failed)?.next().is_some() {
        let message = format!("the folder {} is not empty", folder.display());
        return Err(Error::usage(message).help("name another by --out, or remove what is in it"));
    }
    // Workers may change their folder.
    folder.canonicalize().map_err(failed)
}

/// Shows an audit until all of its processes have ended: again and again on a terminal, once elsewhere.
fn watch(folder: &Path, expected: Option<&EnvSet>, form: Form) -> Result<Exit> {
    let interrupt = Interrupt::install()?;
    let live = std::io::stdout().is_terminal() && form == Form::Table;
    loop {
        let audit = Audit::load(folder)?;
        let expectation = expected.map(|set| audit::hold(&audit, set));
        let exit = answer(exit(expectation.as_ref(), None), |out| {
            if live {
                // To the first column of the first line, and what was there goes.
                write!(out, "\x1b[H\x1b[2J").map_err(unwritten)?;
            }
            report::write(&audit, expectation.as_ref(), form, terminal::style(), out)
        })?;
        if !live || !(audit.is_live() || audit.workers.is_empty()) {
            return Ok(exit);
        }
        let ticks = PERIOD.as_millis() / 50;
        for _ in 0..ticks {
            if interrupt.asked() {
                return Ok(exit);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The exit code: what was expected decides; where nothing was, or it holds, how the command ended.
fn exit(expectation: Option<&Expectation>, status: Option<ExitStatus>) -> Exit {
    match expectation {
        Some(expectation) if !expectation.broken.is_empty() => Exit::Failed,
        Some(expectation) if expectation.is_incomplete() => Exit::Incomplete,
        _ => match status {
            Some(status) if !status.success() => Exit::Command(audited::code(status)),
            _ => Exit::Held,
        },
    }
}
