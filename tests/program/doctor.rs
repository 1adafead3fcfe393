//! `ncclsweep doctor` as a user meets it, on a machine of any kind.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Program;

/// Shells that have a library named as NCCL is mapped; ended with their test.
struct Server {
    child: Child,
    folder: tempfile::TempDir,
}

impl Server {
    /// A server with two workers, the second without the variable that the server was started with.
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libnccl.so.2");
        std::fs::copy(ncclsweep::supervisor::emulator::find().unwrap(), &library).unwrap();
        let script = "LD_PRELOAD=$LIBRARY sleep 100 & LD_PRELOAD=$LIBRARY env -u NCCL_PROTO sleep 100 & wait";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env_clear().env("PATH", "/usr/bin:/bin").env("LIBRARY", &library);
        command.envs([("NCCL_PROTO", "LL"), ("NCCL_ALGO", "Ring"), ("HOME", "/nonexistent")]);
        let child = command.process_group(0).stdin(Stdio::null()).spawn().unwrap();
        let server = Self { child, folder };
        let limit = Instant::now() + Duration::from_secs(30);
        while server.sleepers() < 2 {
            assert!(Instant::now() < limit, "the workers do not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// How many workers have executed what they are to be.
    fn sleepers(&self) -> usize {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let parent = format!(" S {} ", self.child.id());
        let ours = |path: &Path| {
            let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
            stat.contains("(sleep)") && stat.contains(&parent)
        };
        processes.filter(|entry| ours(&entry.path())).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The check of this name.
#[track_caller]
fn check<'a>(document: &'a Value, name: &str) -> &'a Value {
    let checks = document["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no check of {name}: {document:#}"))
}

#[test]
fn this_machine_has_an_answer_to_every_check_and_nothing_panics() {
    let ran = Program::new(["doctor", "--format", "json"]).run();
    let document = document(&ran.stdout);
    let faults = document["checks"].as_array().unwrap().iter().filter(|check| check["status"] == "fault").count();
    let seen = check(&document, "CUDA")["status"] != "unknown" || check(&document, "PCIe links")["status"] != "unknown";
    assert_eq!(ran.code, if seen { i32::from(faults > 0) } else { 3 }, "{}", ran.stdout);
    let table = Program::new(["doctor"]).run();
    assert_eq!(table.stdout.contains("No GPU shows here"), !seen, "{}", table.stdout);
    for name in ["machine", "driver", "CUDA", "PCIe links", "ACS", "IOMMU", "/dev/shm", "NCCL libraries", "conf files"]
    {
        check(&document, name);
    }
    assert_eq!(check(&document, "base environment")["status"], "ok");
    assert!(ran.leftovers().is_empty());
}

#[test]
fn an_emulated_box_has_its_driver_and_its_links() {
    let ran = Program::new(["doctor", "--emulate", "--format", "json"]).run();
    let found = document(&ran.stdout);
    assert_eq!(check(&found, "driver")["evidence"][0], "580.159.04");
    assert_eq!(check(&found, "GPUs")["evidence"][0], "8 × NVIDIA RTX PRO 6000 Blackwell Server Edition");
    assert_eq!(check(&found, "PCIe links")["status"], "ok", "{found:#}");
    assert!(found["limits"].to_string().contains("EMULATED: driver, GPUs and links are those of 8xrtxpro6000-switch"));
    Program::new(["doctor", "--emulate=none"]).run().exits(2).tells("no emulated box is called `none`");
}

#[test]
fn workers_of_differing_environment_are_told_by_pid() {
    let server = Server::start();
    let pid = server.child.id().to_string();
    let ran = Program::new(["doctor", "--pid", &pid, "--format", "json"]).run().exits(1);
    let found = document(&ran.stdout);
    let processes = found["details"]["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 3, "{found:#}");
    let library = server.folder.path().join("libnccl.so.2").canonicalize().unwrap();
    for worker in &processes[1..] {
        assert_eq!(worker["nccl"][0]["path"], library.display().to_string());
        assert_eq!(worker["parent"].to_string(), pid);
    }
    let difference = check(&found, "NCCL_PROTO");
    assert_eq!(difference["status"], "fault");
    let lost = processes[1..].iter().find(|worker| !worker["variables"].to_string().contains("NCCL_PROTO")).unwrap();
    assert_eq!(difference["evidence"][1], format!("NCCL_PROTO not set in 1 of 2: pid {}", lost["pid"]));
    assert_eq!(check(&found, "inheritance")["status"], "fault");

    let by_name = server.folder.path().display().to_string();
    let ran = Program::new(["doctor", "--pid", &pid, "--match", &by_name]).run().exits(2);
    ran.tells("no process has");
    let ran = Program::new(["doctor", "--pid", &pid]).run().exits(1);
    assert!(ran.stdout.contains("2 faults"), "{}", ran.stdout);
}

#[test]
fn a_configuration_file_is_linted_by_the_rules_of_the_version_named() {
    let text = "NCCL_PROTO=LL\r\nexport NCCL_ALGO=Ring\nNCCL_BUFFSIZE=16M\nNCCL_LL_BUFFSIZE = 16M\n";
    let of = |version: &str| {
        let ran = Program::new(["doctor", "--conf", "nccl.conf", "--nccl", version, "--format", "json"])
            .file("nccl.conf", text);
        document(&ran.run().exits(1).stdout)
    };
    let old = of("2.28.3");
    assert_eq!(check(&old, "line 1")["next"][0], "write NCCL_PROTO=LL");
    assert_eq!(check(&old, "line 2")["next"][0], "write NCCL_ALGO=Ring");
    assert_eq!(check(&old, "line 3")["next"][0], "write NCCL_BUFFSIZE=16777216");
    assert_eq!(check(&old, "line 4")["next"], serde_json::json!(["write NCCL_LL_BUFFSIZE=16777216"]));
    assert_eq!(old["details"]["conf"]["files"][0]["lints"][2]["corrected"], "NCCL_LL_BUFFSIZE=16777216");
    let new = of("2.30.7");
    assert!(!new["checks"].as_array().unwrap().iter().any(|check| check["name"] == "line 1"), "{new:#}");
    Program::new(["doctor", "--conf", "nowhere"]).run().exits(2).tells("there is no configuration file nowhere");
    Program::new(["doctor", "--conf"]).run().exits(0);
}

#[test]
fn a_log_of_the_emulated_library_is_read() {
    let ran = Program::least("--sets default")
        .env("NCCL_DEBUG", "INFO")
        .env("NCCL_DEBUG_FILE", "nccl.log")
        .keeping("run")
        .run();
    let log = std::fs::read_to_string(ran.home.path().join("nccl.log")).unwrap();
    let ran = Program::new(["doctor", "--log", "nccl.log", "--format", "json"]).file("nccl.log", &log).run();
    let found = document(&ran.stdout);
    assert_eq!(check(&found, "version")["evidence"][0], "NCCL 2.28.3");
    assert_eq!(check(&found, "communicators")["status"], "ok", "{found:#}");
    assert_eq!(found["details"]["log"]["communicators"][0]["size"], 2);
    Program::new(["doctor", "--log", "nowhere"]).run().exits(2).tells("cannot open the log nowhere");
    Program::new(["doctor", "--log", "/"]).run().exits(2).tells("the log / is a folder");
}

#[test]
fn a_python_environment_is_asked_or_named() {
    Program::new(["doctor", "--python", "/nonexistent/python"]).run().exits(2).tells("no Python interpreter");
    let python = ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|path| Path::new(path).exists());
    // A machine without Python has nothing to ask.
    let Some(python) = python else { return };
    let start_up =
        "import os\nprint('noise')\nos.environ.pop('NCCL_PROTO', None)\nos.environ['NCCL_NTHREADS'] = '256'\n";
    let ran = Program::new(["doctor", "--python", python, "--format", "json"])
        .file("sitecustomize.py", start_up)
        .env("PYTHONPATH", ".")
        .env("NCCL_PROTO", "LL")
        .run()
        .exits(0);
    let found = document(&ran.stdout);
    let variables = check(&found, "variables");
    assert_eq!(variables["status"], "warning", "{found:#}");
    assert_eq!(variables["evidence"][1], "the start-up code takes NCCL_PROTO away");
    assert_eq!(found["details"]["python"]["child"]["variables"]["NCCL_NTHREADS"], "256");
    assert!(ran.leftovers().is_empty(), "the script and its answers are gone");
}
