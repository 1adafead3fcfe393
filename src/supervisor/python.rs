//! Runs a Python interpreter for a short answer, with a deadline: an interpreter's start-up code can do anything.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::awake::Awake;
use super::private::Private;
use crate::doctor::python::{Answer, SCRIPT};
use crate::error::{Error, Kind, Result};
use crate::regular;

/// Importing torch from a cold disk takes its time, twice.
const LIMIT: Duration = Duration::from_secs(180);
const GLANCE: Duration = Duration::from_millis(20);

/// The interpreter that `path` means: a file, the folder of an environment, or a name on the path.
pub fn interpreter(path: &Path) -> Result<PathBuf> {
    let in_folder = ["bin/python3", "bin/python"].map(|name| path.join(name));
    let found = match () {
        () if path.is_dir() => in_folder.into_iter().find(|file| file.is_file()),
        // With a folder in its name it is not looked for on the PATH.
        () if path.is_file() => Some(Path::new(".").join(path)),
        () => regular::program(path),
    };
    found.ok_or_else(|| {
        Error::new(Kind::Usage, format!("there is no Python interpreter at {}", path.display()))
            .help("--python takes an interpreter, the folder of an environment, or a name such as python3")
    })
}

/// Asks the interpreter, in the environment and folder of this process.
pub fn ask(interpreter: &Path, interrupted: &dyn Fn() -> bool) -> Result<Answer> {
    ask_within(interpreter, LIMIT, interrupted)
}

fn ask_within(interpreter: &Path, limit: Duration, interrupted: &dyn Fn() -> bool) -> Result<Answer> {
    let failed = |what: &str| Error::new(Kind::Environment, format!("{} {what}", interpreter.display()));
    let private = Private::create()?;
    let (script, answer, output) = (private.file("ncclsweep_look.py"), private.file("answer"), private.file("output"));
    let kept = std::fs::write(&script, SCRIPT).and_then(|()| File::create(&output));
    let kept = kept.map_err(|error| failed("cannot be asked").because(error))?;
    let child = kept.try_clone().and_then(|second| {
        Command::new(interpreter)
            .arg(&script)
            .arg(&answer)
            .stdin(Stdio::null())
            .stdout(kept)
            .stderr(second)
            .process_group(0)
            .spawn()
    });
    let mut child = child.map_err(|error| failed("did not start").because(error))?;
    let Some(status) = wait(&mut child, limit, interrupted) else {
        if interrupted() {
            return Err(Error::new(Kind::Interrupted, "interrupted while asking Python"));
        }
        return Err(failed(&format!("did not answer within {} s", limit.as_secs()))
            .help("its start-up code or an import hangs; try `python -X importtime -c 'import torch'`"));
    };
    let told = std::fs::read(&answer).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    told.ok_or_else(|| {
        let said = std::fs::read_to_string(&output).unwrap_or_default();
        let said = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing").to_owned();
        failed(&format!("gave no answer ({status}); its last line: {said}"))
            .help("it must be a Python of version 3.6 or later whose start-up code lets programs run")
    })
}

/// Waits for the end; a child that takes too long, or that nobody wants any more, is killed with its group.
fn wait(child: &mut Child, limit: Duration, interrupted: &dyn Fn() -> bool) -> Option<ExitStatus> {
    let waiting = Awake::start();
    while waiting.elapsed() < limit && !interrupted() {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => std::thread::sleep(GLANCE),
            Err(_) => break,
        }
    }
    // It may have ended just now; then there is nobody to kill.
    let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    /// An executable file with this text, written by another process: what this one has open for writing, a child of another
    /// test has too until its exec, and it cannot be started.
    fn program(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bin/python3");
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        let mut writer = Command::new("sh");
        writer.args(["-c", r#"cat > "$1" && chmod 755 "$1""#, "sh"]).arg(&path).stdin(Stdio::piped());
        let mut writer = writer.spawn().unwrap();
        writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        (folder, path)
    }

    #[test]
    fn an_interpreter_is_a_file_a_folder_or_a_name() {
        let (folder, path) = program("");
        assert_eq!(interpreter(folder.path()).unwrap(), path);
        assert_eq!(interpreter(&path).unwrap(), path);
        assert!(interpreter(Path::new("sh")).unwrap().is_file());
        let error = interpreter(&folder.path().join("nowhere")).unwrap_err();
        assert!(error.kind() == Kind::Usage && error.message().contains("nowhere"), "{error}");
    }

    #[test]
    fn one_that_hangs_is_ended_and_one_that_fails_is_quoted() {
        let (_folder, path) = program("#!/bin/sh\nsleep 60\n");
        let start = Instant::now();
        let error = ask_within(&path, Duration::from_millis(300), &|| false).unwrap_err();
        assert!(error.message().contains("did not answer") && start.elapsed() < Duration::from_secs(20), "{error}");
        let (_folder, path) = program("#!/bin/sh\necho no module named site >&2\nexit 3\n");
        let error = ask_within(&path, LIMIT, &|| false).unwrap_err();
        assert!(error.message().contains("no module named site"), "{error}");
        let error = ask_within(&path, LIMIT, &|| true).unwrap_err();
        assert_eq!(error.kind(), Kind::Interrupted);
    }
}
