//! Runs a command whose processes load the profiler plugin: [`run`] for an audit, [`become_command`] for settings alone.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use nccl_profiler_ncclsweep::journal;
use nix::unistd::Pid;

use super::beside;
use super::dispositions;
use super::forwarded::Forwarded;
use crate::error::{Error, Kind, Result};
use crate::plan::env_set::Vars;

/// By which NCCL finds the plugin.
pub const PLUGIN: &str = "NCCL_PROFILER_PLUGIN";

const FILE: &str = "libnccl_profiler_ncclsweep.so";

/// Between two looks at the command.
const PERIOD: Duration = Duration::from_millis(20);

/// The plugin as a shared library, beside the running executable.
pub fn plugin() -> Result<PathBuf> {
    beside::find(FILE).map_err(|looked| {
        Error::new(Kind::Environment, format!("cannot audit: {FILE} is not beside the executable"))
            .help(format!("looked for {looked}; it is the same plugin as in the executable, as a library for others"))
    })
}

/// A command and what its processes get.
#[derive(Clone, Debug)]
pub struct Started<'a> {
    /// Program and arguments.
    pub command: &'a [OsString],
    /// Variables laid over the inherited ones.
    pub variables: &'a Vars,
}

impl Started<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).envs(self.variables.iter());
        dispositions::hand_on(&mut command);
        command
    }

    fn failed(&self, error: std::io::Error) -> Error {
        let message = format!("cannot start `{}`", self.command[0].to_string_lossy());
        Error::new(Kind::Usage, message).because(error).help("is it on the PATH, and may it be executed?")
    }
}

/// Runs the command and waits for it. Its processes write their journals to `folder`; `plugin` is the library they load, or
/// nothing when the environment names another already.
///
/// The command stays in our process group. Signals do not end us: what is sent to us is handed on, and the command decides.
pub fn run(started: &Started, folder: &Path, plugin: Option<&Path>) -> Result<ExitStatus> {
    let failed = |error: std::io::Error| Error::new(Kind::Environment, "cannot wait for the command").because(error);
    let forwarded = Forwarded::install()?;
    let mut command = started.command();
    command.env(journal::FOLDER, folder).env(journal::ROOT, std::process::id().to_string());
    if let Some(plugin) = plugin {
        command.env(PLUGIN, plugin);
    }
    let mut child = command.spawn().map_err(|error| started.failed(error))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        forwarded.hand_on(pid);
        std::thread::sleep(PERIOD);
    }
}

/// Becomes the command: its first process is this one, under the same number. Returns only when that fails.
#[must_use]
pub fn become_command(started: &Started) -> Error {
    started.failed(started.command().exec())
}

/// The number that a shell gives for how a command ended.
#[must_use]
pub fn code(status: ExitStatus) -> u8 {
    let signalled = status.signal().map(|signal| 128 + signal);
    status.code().or(signalled).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
