//! Executables that a test makes for itself. Another process writes them: a file cannot be started while somebody has it open
//! for writing, and a child of another test, between its fork and its exec, has open what this process has.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program.
#[allow(dead_code, reason = "of the tests that share this file each needs its own part")]
pub fn copied(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success(), "{} is not copied", from.display());
}

/// Writes a script.
#[allow(dead_code, reason = "as above")]
pub fn script(path: &Path, text: &str) {
    let mut writer = Command::new("sh");
    writer.args(["-c", r#"cat > "$1" && chmod 755 "$1""#, "sh"]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success(), "{} is not written", path.display());
}
