//! `ncclsweep audit` and `exec`: whole programs on the emulator, started as people start servers.

#[path = "../program/executable.rs"]
mod executable;
mod rough;
mod server;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ncclsweep");

/// A server among the tests: this program again.
#[test]
fn server() {
    server::serve_if_asked();
}

/// A box with the emulator in place of driver and NCCL.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let emulator = PathBuf::from(PROGRAM).with_file_name("deps").join("libncclsweep_emulator.so");
        fs::create_dir(folder.path().join("lib")).unwrap();
        for name in ["libcuda.so.1", "libnccl.so.2"] {
            symlink(&emulator, folder.path().join("lib").join(name)).unwrap();
        }
        Self { folder }
    }

    /// `ncclsweep` with these arguments in an environment of its own.
    fn program(&self, arguments: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments.split_ascii_whitespace()).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.folder.path());
        command.env("LD_LIBRARY_PATH", self.folder.path().join("lib")).env("COLUMNS", "110");
        command.stdin(Stdio::null());
        command
    }

    /// Runs `ncclsweep ARGUMENTS -- sh -c SCRIPT`, in which `$SERVER` is the server's command.
    fn run(&self, arguments: &str, script: &str) -> Ran {
        self.run_with(arguments, script, |_| {})
    }

    fn run_with(&self, arguments: &str, script: &str, setup: impl FnOnce(&mut Command)) -> Ran {
        self.run_output(arguments, script, |command| {
            command.stdout(Stdio::piped());
            setup(command);
        })
    }

    /// The same, with stdout as `setup` has it.
    fn run_output(&self, arguments: &str, script: &str, setup: impl FnOnce(&mut Command)) -> Ran {
        let mut command = self.program(arguments);
        let this = std::env::current_exe().unwrap();
        command.env("SERVER", format!("{} --exact server --nocapture", this.display()));
        command.args(["--", "sh", "-c", script]);
        setup(&mut command);
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        // The other ends of what `setup` gave.
        drop(command);
        Ran(child.wait_with_output().unwrap())
    }

    /// What the audit's folder tells as a document.
    fn document(&self) -> Value {
        let output = self.program("audit --watch audit --format json").output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

/// What a run left.
struct Ran(Output);

impl Ran {
    #[track_caller]
    fn exits(self, code: i32) -> Self {
        assert_eq!(self.0.status.code(), Some(code), "{}{}", self.stdout(), self.stderr());
        self
    }

    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// stdout with all blanks as one, so that a broken line is whole.
    fn words(&self) -> String {
        self.stdout().split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn serve(work: &str) -> String {
    format!("{}='{work}' $SERVER", server::VARIABLE)
}

#[test]
fn settings_in_the_environment_reach_every_process_and_all_reduces_run_as_they_say() {
    let stage = Stage::new();
    let script = format!("{} & {}; wait", serve("calls=20 captured=5"), serve("calls=20 captured=5"));
    let arguments = "exec --set pcie-ll --audit --out audit";
    let ran = stage.run(arguments, &script).exits(0);
    let words = ran.words();
    assert!(words.contains("pcie-ll holds: all 100 all-reduces ran as it says, in every worker."), "{words}");
    assert!(words.contains("NCCL_PROTO=LL · environment"), "{words}");
    let document = stage.document();
    let usage = document["usage"].as_array().unwrap();
    assert_eq!(usage.len(), 1, "{usage:#?}");
    assert_eq!((usage[0]["calls"]["eager"].as_u64(), usage[0]["calls"]["captured"].as_u64()), (Some(40), Some(10)));
    assert_eq!((&usage[0]["used"]["algorithm"], &usage[0]["used"]["protocol"]), (&"Ring".into(), &"LL".into()));
}

#[test]
fn a_worker_without_the_setting_is_named_with_its_parent() {
    let stage = Stage::new();
    let with = format!("NCCL_PROTO=LL {}", serve("calls=7"));
    let script = format!("{with}; {with}; {}; {with}", serve("calls=7"));
    let ran = stage.run("audit --out audit --expect ll:NCCL_PROTO=LL", &script).exits(1);
    let document = stage.document();
    let workers = document["workers"].as_array().unwrap();
    let without: Vec<&Value> =
        workers.iter().filter(|worker| worker["process"]["environment"].get("NCCL_PROTO").is_none()).collect();
    let [without] = without[..] else { panic!("{workers:#?}") };
    let (pid, parent) = (&without["process"]["pid"], &without["process"]["ancestors"][0]["pid"]);
    let words = ran.words();
    let difference = format!("NCCL_PROTO=LL in 3 of 4 workers (environment); missing in pid {pid}");
    assert!(words.contains(&difference) && words.contains(&format!("parent {parent}")), "{words}");
    assert!(words.contains("ll does not hold in 1 of 4 workers."), "{words}");
    assert!(words.contains("it is not in the environment of the process"), "{words}");
}

#[test]
fn a_variable_that_a_process_sets_itself_is_told_from_one_that_it_was_given() {
    let stage = Stage::new();
    let script = format!("{}; {}", serve("set=NCCL_PROTO=LL"), serve("communicators=2 set=NCCL_NTHREADS=256"));
    let words = stage.run("audit --out audit", &script).exits(0).words();
    assert!(words.contains("NCCL_PROTO=LL in 1 of 2 workers (set by the process itself)"), "{words}");
    assert!(words.contains("NCCL_NTHREADS=256 was set after the first communicator of pid"), "{words}");
    assert!(words.contains("NCCL had read it by then and keeps what it found"), "{words}");
}

#[test]
fn what_a_configuration_file_sets_is_told_with_its_line() {
    let stage = Stage::new();
    let conf = stage.folder.path().join("nccl.conf");
    fs::write(&conf, "# tuned\nNCCL_PROTO=LL\n").unwrap();
    let script = format!("NCCL_CONF_FILE={} {}", conf.display(), serve("calls=3"));
    let ran = stage.run("audit --out audit --expect ll:NCCL_PROTO=LL", &script).exits(0);
    assert!(ran.words().contains(&format!("NCCL_PROTO=LL · {}:2", conf.display())), "{}", ran.stdout());
}

#[test]
fn another_algorithm_than_the_set_names_breaks_it_though_the_variable_is_there() {
    let stage = Stage::new();
    let script = format!("NCCL_PROTO=LL {}", serve("calls=3"));
    let words = stage.run("audit --out audit --expect s:NCCL_PROTO=Simple", &script).exits(1).words();
    assert!(words.contains("the environment of the process has LL"), "{words}");
}

#[test]
fn older_versions_of_nccl_tell_what_they_can() {
    // Up to 2.26 no plugin is told of captured calls.
    for (version, captured) in [("2.23.4", 0), ("2.26.2", 0), ("2.27.7", 4), ("2.32.3", 4)] {
        let stage = Stage::new();
        // One more eager call after the graph would settle the last one; without it one call stays untold up to 2.27.
        let script = serve("calls=6 captured=4");
        stage.run_with("audit --out audit", &script, |command| {
            command.env("NCCLSWEEP_EMULATE_NCCL", version);
        });
        let document = stage.document();
        let calls = &document["usage"][0]["calls"];
        let [eager, told, untold] = ["eager", "captured", "untold"].map(|name| calls[name].as_u64().unwrap());
        assert_eq!(eager + told + untold, 6 + captured, "{version}: {calls}");
        assert_eq!(told + u64::from(captured > 0) * untold, captured, "{version}: {calls}");
        assert_eq!(document["workers"][0]["version"], version);
    }
}

#[test]
fn a_killed_server_is_told_as_lost_and_what_it_did_before_is_there() {
    let stage = Stage::new();
    let this = std::env::current_exe().unwrap();
    let mut command = stage.program("audit --out audit --");
    command.arg(this).args(["--exact", "server", "--nocapture"]);
    let mut audit = command.env(server::VARIABLE, "calls=9 end=wait").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(audit.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ready")), "the server is up");
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let live = loop {
        // The plugin writes once a second, and a starved one later.
        let live = stage.document();
        if live["usage"][0]["calls"]["eager"] == 9 || std::time::Instant::now() > limit {
            break live;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert_eq!((&live["workers"][0]["life"], &live["usage"][0]["calls"]["eager"]), (&"running".into(), &9.into()));
    let pid = i32::try_from(live["workers"][0]["process"]["pid"].as_i64().unwrap()).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    let text: String = lines.map(|line| line.unwrap() + "\n").collect();
    assert_eq!(audit.wait().unwrap().code(), Some(137), "{text}");
    assert!(text.contains("1 lost"), "{text}");
    assert_eq!(stage.document()["usage"][0]["calls"]["eager"], 9);
}

#[test]
fn the_commands_own_status_is_handed_on_and_a_missing_command_is_a_fault_of_use() {
    let stage = Stage::new();
    let ran = stage.run("audit --out audit", "exit 7").exits(7);
    assert!(ran.stderr().contains("no process told anything"), "{}", ran.stderr());
    let output = stage.program("audit --out other -- /nonexistent/server").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!stage.folder.path().join("other").exists(), "nothing is left of an audit of nothing");
    fs::write(stage.folder.path().join("audit/other.jsonl"), "").unwrap();
    let ran = stage.run("audit --out audit", "true").exits(2);
    assert!(ran.stderr().contains("not empty"), "a folder of another audit is refused: {}", ran.stderr());
    stage.run("audit --out third --expect pcie-ll", "true").exits(4);
}

#[test]
fn a_plugin_that_is_set_already_stays_and_is_told() {
    let stage = Stage::new();
    let ran = stage.run_with("audit --out audit", &serve("calls=1"), |command| {
        command.env("NCCL_PROFILER_PLUGIN", "/opt/other.so");
    });
    assert!(ran.stderr().contains("NCCL_PROFILER_PLUGIN=/opt/other.so is set and stays so"), "{}", ran.stderr());
    assert_eq!(stage.document()["workers"].as_array().unwrap().len(), 0);
}

#[test]
fn an_executable_that_was_copied_away_finds_the_plugin_where_it_was_built() {
    let stage = Stage::new();
    let alone = stage.folder.path().join("ncclsweep");
    executable::copied(Path::new(PROGRAM), &alone);
    let mut command = Command::new(&alone);
    command.args(["audit", "--out", "audit", "--", "true"]).current_dir(stage.folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn exec_gives_the_set_to_every_process_and_becomes_the_command() {
    let stage = Stage::new();
    let ran =
        stage.run("exec --set pcie-ll", "echo $NCCL_PROTO $NCCL_NTHREADS; sh -c 'echo $NCCL_ALGO'; exit 3").exits(3);
    assert_eq!(ran.stdout(), "LL 512\nRing\n");
    let ran = stage.run_with("exec --set a:NCCL_PROTO=LL", "echo $NCCL_PROTO", |command| {
        command.env("NCCL_PROTO", "Simple");
    });
    assert!(ran.stderr().contains("NCCL_PROTO=LL of a instead of the inherited Simple"), "{}", ran.stderr());
    assert_eq!(ran.stdout(), "LL\n");
    stage.run("exec --set a:NCCL_BUFFSIZE=4M", "true").exits(2);
    stage.run("exec --set nosuch", "true").exits(2);
}

#[test]
fn exec_takes_the_fastest_set_of_a_run_and_refuses_what_the_run_does_not_carry() {
    let stage = Stage::new();
    let sweep = "--emulate --gpus 8 --sizes 7168x1 --rounds 4 --communicators 2 --quiet --out run --seed 1 \
                 --base NCCL_NTHREADS=512 --set slow:NCCL_PROTO=Simple --set fast:NCCL_PROTO=LL";
    let output = stage.program(sweep).output().unwrap();
    assert!(stage.folder.path().join("run/run.json").exists(), "{output:?}");
    let refused = stage.run("exec --from run", "true").exits(2);
    assert!(refused.stderr().contains("emulated"), "{}", refused.stderr());
    let ran = stage.run("exec --from run --force", "echo $NCCL_PROTO $NCCL_NTHREADS").exits(0);
    assert_eq!(ran.stdout(), "LL 512\n", "{}", ran.stderr());
    let ran = stage.run("exec --from run --set slow --force", "echo $NCCL_PROTO").exits(0);
    assert_eq!(ran.stdout(), "Simple\n");
    stage.run("exec --from run --set nosuch --force", "true").exits(2);
}

#[test]
fn the_sizes_of_an_audit_are_measured_and_weighted_by_their_calls() {
    let stage = Stage::new();
    stage.run("audit --out audit", &serve("sizes=7168 calls=30 captured=61")).exits(0);
    fs::create_dir(stage.folder.path().join("more")).unwrap();
    let least = "--emulate --sizes-from audit --rounds 1 --communicators 1 --seed 1 --out run";
    let output = stage.program(least).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stderr.contains("1 size among 2 ranks: 91 of the 91 all-reduces that the audit counted"), "{stderr}");
    assert!(stdout.contains("what the audit counted · 91 all-reduces of a rank"), "{stdout}{stderr}");
    let run = fs::read_to_string(stage.folder.path().join("run/run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    let cells = run["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["size_bytes"] == 14_336 && cell["ranks"] == 2 && cell["mode"] == "graph"));
    let output = stage.program("--sizes-from more --dry-run").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "an audit without all-reduces is refused");
}
