//! Starts the program as a user would, and keeps what it said.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;
use std::time::Duration;

use assert_cmd::Command;
use ncclsweep::record::run::{Cell, Run};
use tempfile::TempDir;

/// No run here takes longer on a heavily loaded machine of two cores, unless it hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// The name under which the tests let the program keep its results.
pub const OUT: &str = "run";

/// Arguments of the least that can be measured.
pub const LEAST: [&str; 8] = ["--gpus", "2", "--sizes", "7168x1", "--rounds", "1", "--communicators", "1"];

/// One start of the program.
pub struct Program {
    command: Command,
    home: TempDir,
}

/// What it did.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// The folder it ran in, which was its home too.
    pub home: TempDir,
}

/// The main job on the standard box; made once.
pub static MAIN: LazyLock<Ran> =
    LazyLock::new(|| Program::emulated("--gpus 8 --sizes 7168x1..4 --seed 1").keeping(OUT).run());

impl Program {
    /// The program with these arguments, in an environment of nothing but the search path and places of its own.
    pub fn new<A: AsRef<str>>(arguments: impl IntoIterator<Item = A>) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        let mut command = Command::new(executable());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", home.path()).env("TMPDIR", home.path().join("tmp"));
        command.current_dir(home.path()).timeout(LIMIT);
        arguments.into_iter().for_each(|argument| {
            command.arg(argument.as_ref());
        });
        Self { command, home }
    }

    /// The same on the standard emulated box; arguments are separated by blanks.
    pub fn emulated(arguments: &str) -> Self {
        Self::new(["--emulate"].into_iter().chain(arguments.split_whitespace()))
    }

    /// The least that can be measured on the standard emulated box, and these arguments.
    pub fn least(arguments: &str) -> Self {
        Self::emulated("--seed 7").args(LEAST).args(arguments.split_whitespace())
    }

    pub fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// With `--out`.
    pub fn keeping(self, folder: &str) -> Self {
        self.args(["--out", folder])
    }

    /// With a file in the folder it runs in.
    pub fn file(self, name: &str, text: &str) -> Self {
        std::fs::write(self.home.path().join(name), text).unwrap();
        self
    }

    /// In the folder of an earlier run.
    pub fn beside(mut self, ran: &Ran) -> Self {
        self.command.current_dir(ran.home.path());
        self
    }

    pub fn run(mut self) -> Ran {
        let Output { status, stdout, stderr } = self.command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(stdout), text(stderr));
        let Some(code) = status.code() else { panic!("{status}: {stderr}") };
        assert!(!stderr.contains("panicked"), "{stderr}");
        Ran { code, stdout, stderr, home: self.home }
    }
}

impl Ran {
    /// Fails with all that was said when the exit status is another.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails when its stderr does not tell this, however its lines are broken.
    #[track_caller]
    pub fn tells(&self, what: &str) {
        let words: Vec<&str> = self.stderr.split_whitespace().collect();
        assert!(words.join(" ").contains(what), "`{what}` is missing in\n{}", self.stderr);
    }

    /// Its folder of results.
    pub fn folder(&self) -> PathBuf {
        self.home.path().join(OUT)
    }

    /// Its `run.json`.
    pub fn document(&self) -> Run {
        document(&self.folder())
    }

    /// What it left in the folder for temporary files.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        entries(&self.home.path().join("tmp"))
    }
}

/// The file of the program.
pub fn executable() -> &'static str {
    env!("CARGO_BIN_EXE_ncclsweep")
}

pub fn document(folder: &Path) -> Run {
    let text = std::fs::read_to_string(folder.join("run.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The cells of one env set.
pub fn cells<'a>(run: &'a Run, set: &str) -> Vec<&'a Cell> {
    run.cells.iter().filter(|cell| cell.set == set).collect()
}
