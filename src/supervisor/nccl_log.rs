//! NCCL's own log of a visit: asked for in a private file, so that the proof can read it, and handed on afterwards to the
//! file that the user asked NCCL to write.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::plan::environment::{Environment, Origin};

/// The longest line that is handed on whole.
const MAX_LINE: u64 = 1 << 20;

/// What the user asked NCCL to log, before our own wishes replaced it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    level: Option<Level>,
    file: Option<String>,
}

/// Levels of `NCCL_DEBUG`, as far as they tell lines apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Version,
    Warn,
    Info,
}

/// Directs the log of a worker with this environment into `file`, of these subsystems and the user's; returns what it would
/// have been.
pub fn direct(environment: &mut Environment, subsystems: &str, file: &Path) -> Wish {
    let wish = Wish {
        level: environment.get("NCCL_DEBUG").and_then(level),
        file: environment.get("NCCL_DEBUG_FILE").filter(|file| !file.is_empty()).map(str::to_owned),
    };
    let subsystems = match environment.get("NCCL_DEBUG_SUBSYS").filter(|asked| !asked.is_empty()) {
        // `^` turns the list into what is left out, which cannot be joined with a list of what is wanted.
        Some(asked) if !asked.starts_with('^') => format!("{subsystems},{asked}"),
        _ => subsystems.to_owned(),
    };
    environment.set("NCCL_DEBUG", "INFO", Origin::Tool);
    environment.set("NCCL_DEBUG_SUBSYS", &subsystems, Origin::Tool);
    environment.set("NCCL_DEBUG_FILE", &file.display().to_string(), Origin::Tool);
    wish
}

fn level(text: &str) -> Option<Level> {
    match text.to_ascii_uppercase().as_str() {
        "VERSION" => Some(Level::Version),
        "WARN" => Some(Level::Warn),
        "INFO" | "ABORT" | "TRACE" => Some(Level::Info),
        _ => None,
    }
}

impl Wish {
    /// Appends to the user's own file what it would have got of the log in `file`; `pid` is the worker's.
    pub fn grant(&self, file: &Path, pid: u32, host: &str) -> std::io::Result<()> {
        let (Some(level), Some(name)) = (self.level, &self.file) else { return Ok(()) };
        let name = name.replace("%h", host).replace("%p", &pid.to_string());
        let mut from = BufReader::new(File::open(file)?);
        // Opened without waiting, and no pipe or device: nobody may be at its other end.
        let flags = nix::libc::O_NONBLOCK;
        let to = OpenOptions::new().create(true).append(true).custom_flags(flags).open(name)?;
        if !to.metadata()?.is_file() {
            return Err(std::io::Error::other("the log file that NCCL was asked for is no regular file"));
        }
        let mut to = std::io::BufWriter::new(to);
        let mut line = Vec::new();
        loop {
            line.clear();
            if std::io::Read::take(&mut from, MAX_LINE).read_until(b'\n', &mut line)? == 0 {
                return to.flush();
            }
            if of_level(&line) <= level {
                to.write_all(&line)?;
            }
        }
    }
}

/// The level from which NCCL writes a line.
fn of_level(line: &[u8]) -> Level {
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    match () {
        () if has(b" NCCL INFO ") => Level::Info,
        () if has(b" NCCL WARN ") || has(b" NCCL ATTN ") => Level::Warn,
        () if has(b"NCCL version ") => Level::Version,
        () => Level::Info,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "NCCL version 2.28.3+cuda13.0\nvm:7:9 [0] NCCL INFO Bootstrap: Using eth0\n\
                       \n[2026-11-30 14:55:54] vm:7:9 [0] misc.cc:9 NCCL WARN oh\n";

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::inherit(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())), false)
    }

    #[test]
    fn an_inherited_level_never_blinds_the_proof() {
        let mut environment = environment(&[("NCCL_DEBUG", "WARN"), ("NCCL_DEBUG_SUBSYS", "NET")]);
        direct(&mut environment, "INIT,ENV,GRAPH", Path::new("/private/log"));
        assert_eq!(environment.get("NCCL_DEBUG"), Some("INFO"));
        assert_eq!(environment.get("NCCL_DEBUG_SUBSYS"), Some("INIT,ENV,GRAPH,NET"));
        assert_eq!(environment.get("NCCL_DEBUG_FILE"), Some("/private/log"));
    }

    #[test]
    fn the_users_file_gets_the_lines_of_the_users_level() {
        let folder = tempfile::tempdir().unwrap();
        let (private, own) = (folder.path().join("private"), folder.path().join("own.%h.%p"));
        std::fs::write(&private, LOG).unwrap();
        let asked = |level: &str| {
            let mut environment = environment(&[("NCCL_DEBUG", level), ("NCCL_DEBUG_FILE", own.to_str().unwrap())]);
            direct(&mut environment, "INIT", &private).grant(&private, 42, "box").unwrap();
            let got = std::fs::read_to_string(folder.path().join("own.box.42")).unwrap();
            std::fs::remove_file(folder.path().join("own.box.42")).unwrap();
            got.lines().count()
        };
        assert_eq!((asked("VERSION"), asked("WARN"), asked("info")), (1, 2, 4));
    }

    #[test]
    fn a_user_who_asked_for_nothing_gets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let private = folder.path().join("private");
        std::fs::write(&private, LOG).unwrap();
        let mut environment = environment(&[("NCCL_DEBUG", "INFO")]);
        direct(&mut environment, "INIT", &private).grant(&private, 42, "box").unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
