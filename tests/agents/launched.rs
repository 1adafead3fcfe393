//! Several agents of one emulated run, started as a launcher would.
//!
//! Shared by the test suite and by `cargo xtask soak agents`.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ncclsweep::record::journal::Journal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// No run of this takes longer on a loaded machine of two cores, unless it hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// The token of every run, unless an agent has another.
pub const TOKEN: &str = "a token of more than sixteen characters";

/// Running agents; what each says is in a file.
pub struct Agents {
    home: tempfile::TempDir,
    children: Vec<Child>,
}

/// How an agent, or a launcher, ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status; none when a signal ended it.
    pub code: Option<i32>,
    /// What it said on stdout.
    pub stdout: String,
    /// And on stderr.
    pub stderr: String,
}

impl Agents {
    /// Starts `of` agents with these arguments, separated by blanks, by RANK and WORLD_SIZE; `more` is set for one agent or,
    /// where none is named, for all.
    pub fn start(program: &Path, of: usize, arguments: &str, more: &[(Option<usize>, &str, &str)]) -> Self {
        let mut agents = Self::none();
        // Free now; it is not kept, since the first agent must be able to take it.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        for agent in 0..of {
            let (rank, size, port) = (agent.to_string(), of.to_string(), port.to_string());
            let mut own = vec![("RANK", &*rank), ("WORLD_SIZE", &*size), ("LOCAL_RANK", "0")];
            own.extend([("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &*port)]);
            let more = more.iter().filter(|(whose, ..)| whose.is_none_or(|whose| whose == agent));
            own.extend(more.map(|(_, name, value)| (*name, *value)));
            let mut command = Command::new(program);
            command.args(arguments.split_whitespace()).args(["--out", "run"]);
            agents.spawn(&mut command, &own);
        }
        agents
    }

    /// None yet, and a folder for them.
    pub fn none() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(home.path().join("tmp")).expect("a folder");
        Self { home, children: Vec::new() }
    }

    /// Starts the next, or a launcher of them, in an environment of nothing but places of its own, and the token.
    pub fn spawn(&mut self, command: &mut Command, more: &[(&str, &str)]) {
        let agent = self.children.len();
        let file = |end: &str| File::create(self.file(agent, end)).expect("a file");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder()).env("TMPDIR", self.folder().join("tmp")).env("NCCLSWEEP_TOKEN", TOKEN);
        command.current_dir(self.folder()).stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        command.envs(more.iter().copied());
        self.children.push(command.spawn().expect("it starts"));
    }

    fn file(&self, agent: usize, end: &str) -> PathBuf {
        self.folder().join(format!("agent-{agent}.{end}"))
    }

    /// The folder in which all of them run.
    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    /// Sends an agent a signal; one that is gone already gets none.
    pub fn signal(&self, agent: usize, signal: Signal) {
        let _ = kill(Pid::from_raw(self.children[agent].id().cast_signed()), signal);
    }

    /// Whether an agent is still there.
    pub fn is_running(&mut self, agent: usize) -> bool {
        self.children[agent].try_wait().expect("a child").is_none()
    }

    /// Waits for an agent to end.
    pub fn end(&mut self, agent: usize) -> Ended {
        let begun = Instant::now();
        while self.is_running(agent) {
            if begun.elapsed() > LIMIT {
                let _ = self.children[agent].kill();
                panic!("agent {agent} hangs: {:?}", self.said(agent));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let code = self.children[agent].wait().expect("a child").code();
        Ended { code, ..self.said(agent) }
    }

    /// Waits for all of them.
    pub fn all(&mut self) -> Vec<Ended> {
        (0..self.children.len()).map(|agent| self.end(agent)).collect()
    }

    /// What an agent has said; lines are joined, for they break where the terminal would.
    fn said(&self, agent: usize) -> Ended {
        let text = |end: &str| {
            let text = std::fs::read_to_string(self.file(agent, end)).unwrap_or_default();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        Ended { code: None, stdout: text("out"), stderr: text("err") }
    }

    /// Visits in the journal, which must load.
    pub fn visits(&self) -> Result<usize, String> {
        let (journal, _) =
            Journal::open(&self.folder().join("run")).map_err(|error| format!("the journal does not load: {error}"))?;
        Ok(journal.entries().len())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
