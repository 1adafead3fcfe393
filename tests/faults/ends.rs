//! What follows a failure, and hostile ends of the program itself.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ncclsweep::nccl::register::Register;
use ncclsweep::plan::schedule::Measure;
use ncclsweep::record::journal::Journal;
use ncclsweep::record::pairs::Suspect;
use ncclsweep::record::run::{Run, Verdict};
use ncclsweep::record::visit::{Outcome, Visit};
use ncclsweep::wire::{self, Job};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::left_over::left_over;

/// Long enough for any step of a starved machine, and shorter than the deadline of a hung worker.
const LIMIT: Duration = Duration::from_secs(60);

const LEAST: &str = "--emulate --gpus 4 --sizes 7168x1 --communicators 1 --samples 2 --chain 2 --quiet --out run";

fn start(home: &Path, fault: &str, arguments: &str) -> Child {
    std::fs::create_dir_all(home.join("tmp")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclsweep"));
    command.args(LEAST.split(' ')).args(arguments.split_whitespace()).current_dir(home);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home).env("TMPDIR", home.join("tmp"));
    command.env("NCCLSWEEP_EMULATE_FAULT", fault);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A whole run: its exit status, visits and document.
fn run(fault: &str, arguments: &str) -> (TempDir, Option<i32>, Vec<Visit>, Run) {
    let home = tempfile::tempdir().unwrap();
    let status = start(home.path(), fault, arguments).wait().unwrap();
    let (journal, _) = Journal::open(&home.path().join("run")).unwrap();
    let visits = journal.entries().iter().map(|entry| journal.read(entry).unwrap()).collect();
    let document = std::fs::read(home.path().join("run/run.json")).unwrap();
    (home, status.code(), visits, serde_json::from_slice(&document).unwrap())
}

/// Waits until a worker of the run in `home` is there, behind whatever command starts it, and has this many threads: one at
/// once; one for each rank and one that hears the supervisor when it has its job.
fn wait_for_worker(home: &Path, threads: usize) {
    let limit = Instant::now() + LIMIT;
    let mark = home.as_os_str().as_encoded_bytes();
    let is_worker = |process: &std::fs::DirEntry| {
        let read = |name: &str| std::fs::read(process.path().join(name)).unwrap_or_default();
        let words = read("cmdline");
        let ours = read("environ").windows(mark.len()).any(|part| part == mark);
        let is_started = || std::fs::read_dir(process.path().join("task")).is_ok_and(|of| of.count() >= threads);
        ours && words.split(|byte| *byte == 0).nth(1) == Some(b"__worker".as_slice()) && is_started()
    };
    while !std::fs::read_dir("/proc").unwrap().flatten().any(|process| is_worker(&process)) {
        assert!(Instant::now() < limit, "no worker with {threads} threads within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_supervisor_takes_a_hung_worker_along_also_behind_a_shell() {
    for wrap in [&[][..], &["--wrap", r#"sh -c '"$@"; exit 1' sh"#]] {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ncclsweep"));
        command.args(LEAST.split(' ')).args(wrap).current_dir(home.path());
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path());
        command.env("TMPDIR", home.path().join("tmp")).env("NCCLSWEEP_EMULATE_FAULT", "hang@init");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for_worker(home.path(), 1);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert_eq!(left_over(home.path()), None);
    }
}

#[test]
fn a_second_interrupt_ends_at_once_and_leaves_no_worker() {
    let home = tempfile::tempdir().unwrap();
    let mut child = start(home.path(), "hang@init", "");
    wait_for_worker(home.path(), 1);
    let begun = Instant::now();
    let pid = Pid::from_raw(child.id().cast_signed());
    // The second may come before the first was noticed, or after its end was reached.
    kill(pid, Signal::SIGINT).unwrap();
    let _ = kill(pid, Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begun.elapsed() < LIMIT, "the worker hangs for two minutes: {:?}", begun.elapsed());
    assert_eq!(left_over(home.path()), None);
}

#[test]
fn a_flood_of_log_lines_is_stopped_and_said() {
    let (home, code, visits, _) = run("log-flood@first,when=NCCL_PROTO=LL", "--rounds 1 --seed 7");
    assert_eq!(code, Some(4));
    let flooded = visits.iter().find(|visit| visit.arm.set == 1).unwrap();
    assert!(matches!(flooded.outcome, Outcome::Flooded { mib: 256.., .. }), "{}", flooded.outcome);
    assert!(!flooded.evidence.is_empty() && flooded.diagnosis.is_some());
    assert_eq!(std::fs::read_dir(home.path().join("tmp")).unwrap().count(), 0, "nothing of it is left");
}

#[test]
fn a_box_on_which_what_passed_fails_is_measured_no_further() {
    // With this seed the baseline passes, and every visit after it is struck: pcie-ll, then both tries of the baseline.
    let (_home, code, visits, run) = run("kill@first,p=0.6", "--rounds 2 --seed 3");
    assert_eq!(code, Some(4));
    let passed: Vec<_> = visits.iter().map(|visit| visit.outcome.is_completed()).collect();
    assert_eq!(passed, [true, false], "what was measured before is kept, and nothing comes after");
    assert!(!run.complete);
    assert!(run.warnings[0].contains("tiny all-reduce under default, which passed before"), "{:?}", run.warnings);
}

#[test]
fn sets_of_a_way_on_which_two_crashed_alike_are_not_run() {
    let sets =
        "--set a:NCCL_P2P_LEVEL=SYS --set b:NCCL_P2P_LEVEL=SYS,NCCL_PROTO=LL --set c:NCCL_P2P_LEVEL=SYS,NCCL_ALGO=Ring";
    let (_home, code, visits, run) = run("segv@first,when=NCCL_P2P_LEVEL=SYS", &format!("{sets} --rounds 1 --seed 7"));
    assert_eq!(code, Some(4));
    let count = |wanted: fn(&Outcome) -> bool| visits.iter().filter(|visit| wanted(&visit.outcome)).count();
    assert_eq!(count(|outcome| matches!(outcome, Outcome::Completed)), 1);
    assert_eq!(count(|outcome| matches!(outcome, Outcome::Crashed { .. })), 2);
    assert_eq!(count(|outcome| matches!(outcome, Outcome::NotRun { .. })), 1);
    let invalid = run.cells.iter().filter(|cell| cell.verdict == Verdict::Invalid);
    assert_eq!(invalid.count(), 3);
    assert!(
        run.cells.iter().any(|cell| cell.verdict_reason.as_deref().is_some_and(|why| why.starts_with("not run: 2")))
    );
}

#[test]
fn a_set_that_failed_is_isolated_to_its_gpu_or_pair() {
    for (fault, failed, told) in [
        ("wrong@first,gpus=2,when=NCCL_PROTO=LL", vec![[1, 2], [2, 3], [0, 2]], Suspect::Gpus(vec![2])),
        ("hang@first,gpus=1+3,when=NCCL_PROTO=LL", vec![[1, 3]], Suspect::Pairs(vec![[1, 3]])),
    ] {
        let (_home, code, visits, run) = run(fault, "--rounds 1 --seed 7 --deadline 4s --isolate");
        assert_eq!(code, Some(4), "{fault}");
        assert_eq!(visits.len(), 2, "pairs are no visits");
        let bad: Vec<_> = run.pairs.iter().filter(|pair| !pair.outcome.is_completed()).map(|pair| pair.gpus).collect();
        assert_eq!((run.pairs.len(), bad), (6, failed), "{fault}");
        assert_eq!(Suspect::of(&run.pairs.iter().collect::<Vec<_>>()), told);
        assert!(run.complete);
    }
}

#[test]
fn a_run_is_isolated_afterwards_too_and_pairs_are_tried_once() {
    let (home, code, _, run) = run("segv@first,gpus=0,when=NCCL_PROTO=LL", "--rounds 1 --seed 7");
    assert_eq!((code, run.pairs.len()), (Some(4), 0));
    let again = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ncclsweep"));
        command.args(["--resume", "run", "--isolate", "--quiet"]).current_dir(home.path());
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", home.path())
            .env("TMPDIR", home.path().join("tmp"));
        command.env("NCCLSWEEP_EMULATE_FAULT", "segv@first,gpus=0,when=NCCL_PROTO=LL");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
        let document = std::fs::read(home.path().join("run/run.json")).unwrap();
        let run: Run = serde_json::from_slice(&document).unwrap();
        (run.pairs, String::from_utf8(output.stdout).unwrap())
    };
    let (pairs, shown) = again();
    assert_eq!(Suspect::of(&pairs.iter().collect::<Vec<_>>()), Suspect::Gpus(vec![0]));
    assert!(shown.contains("suspect") && shown.contains("--devices 1,2,3"), "{shown}");
    assert_eq!(again().0, pairs);
}

#[test]
fn a_soak_goes_on_through_wrong_data_and_counts_it() {
    let (_home, code, visits, run) = run("wrong@replay,p=0.02,when=NCCL_PROTO=LL", "--soak 4s --seed 7");
    assert_eq!(code, Some(4));
    let of = |set: usize| visits.iter().filter(move |visit| visit.arm.set == set);
    assert!(of(0).count() >= 2 && of(0).all(|visit| visit.outcome == Outcome::Completed));
    let wrong = of(1).filter(|visit| visit.outcome == Outcome::WrongData).count();
    assert!(of(1).count() >= 2 && wrong >= 1, "{wrong} of {}", of(1).count());
    let seconds = visits.iter().map(|visit| visit.seconds).sum::<f64>();
    assert!(seconds >= 4.0 && seconds - visits.last().unwrap().seconds < 4.0, "{seconds} s");
    let cell = run.cells.iter().find(|cell| cell.arm.set == 1).unwrap();
    assert!(cell.verdict == Verdict::Invalid && cell.wrong_outputs > 0 && cell.wrong_outputs < cell.checked_outputs);
    assert_eq!(run.cells[0].verdict, Verdict::Baseline);
    // Every size of every communicator three times, and a look after each of the two samples.
    assert!(of(0).all(|visit| visit.replicates.len() == 3));
}

#[test]
fn a_soak_without_wrong_data_holds_and_compares_no_times() {
    let (_home, code, visits, run) = run("", "--soak 1s --seed 7");
    assert_eq!(code, Some(0));
    assert!(visits.len() >= 2 && run.complete);
    assert!(run.cells.iter().all(|cell| cell.ratio.is_none() && cell.wrong_outputs == 0 && cell.checked_outputs > 0));
}

#[test]
fn what_a_command_started_beside_the_worker_goes_with_a_killed_supervisor_too() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("tmp")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclsweep"));
    command.args(LEAST.split(' ')).args(["--wrap", r#"sh -c 'sleep 600 & "$@"; exit 1' sh"#]).current_dir(home.path());
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path());
    command.env("TMPDIR", home.path().join("tmp")).env("NCCLSWEEP_EMULATE_FAULT", "hang@init");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The worker must have its job: until then nothing of it knows of a supervisor.
    wait_for_worker(home.path(), 5);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(left_over(home.path()), None);
    let abandoned = std::fs::read_dir(home.path().join("tmp")).unwrap().count();
    assert_eq!(abandoned, 1, "a killed run cannot take its folder away");
    std::fs::remove_dir_all(home.path().join("run")).unwrap();
    assert_eq!(start(home.path(), "", "--rounds 1").wait().unwrap().code(), Some(5));
    assert_eq!(std::fs::read_dir(home.path().join("tmp")).unwrap().count(), 0, "the next one does");
}

/// A shell in a group of its own that does this beside the worker, whose wire is the shell's stdout.
fn beside_worker(home: &Path, script: &str, stdin: Stdio) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_ncclsweep")]).env_clear().env("PATH", "/usr/bin:/bin");
    command.env("HOME", home).process_group(0).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn a_worker_that_cannot_tell_its_supervisor_anything_ends_all_of_its_visit() {
    let home = tempfile::tempdir().unwrap();
    let script = r#"sleep 600 & "$0" __worker 1; exit 1"#;
    let mut shell = beside_worker(home.path(), script, Stdio::piped());
    drop(shell.stdout.take());
    // The supervisor still holds the worker's stdin open: only what the worker says goes nowhere.
    let mut stdin = shell.stdin.take().unwrap();
    wire::send(&mut stdin, &a_job()).unwrap();
    assert_eq!(shell.wait().unwrap().signal(), Some(9));
    assert_eq!(left_over(home.path()), None);
}

#[test]
fn a_worker_without_a_job_ends_alone() {
    let home = tempfile::tempdir().unwrap();
    let mut shell = beside_worker(home.path(), r#""$0" __worker 1; exit 7"#, Stdio::null());
    drop(shell.stdout.take());
    assert_eq!(shell.wait().unwrap().code(), Some(7));
}

fn a_job() -> Job {
    Job {
        version: wire::VERSION,
        cases: Vec::new(),
        devices: vec![0],
        ranks: 0..1,
        host: 0..1,
        links: Vec::new(),
        cpus: Vec::new(),
        memory: None,
        communicators: 1,
        in_turn: 1,
        register: Register::default(),
        measure: Measure::default(),
        salt: 0,
    }
}
