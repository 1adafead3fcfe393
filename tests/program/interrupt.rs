//! Exit status 130: an interrupt keeps what was measured, and `--resume` goes on as if nothing had happened.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ncclsweep::record::journal::Journal;
use ncclsweep::record::run::Run;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{OUT, Program, document, entries, executable};

const ARGUMENTS: &str = "--emulate --gpus 4 --sizes 7168x1/4 --rounds 4 --communicators 2 --seed 11 --out run";

/// Starts the program in `home` without waiting for it.
fn start(home: &Path) -> Child {
    std::fs::create_dir(home.join("tmp")).unwrap();
    let mut command = Command::new(executable());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", home).env("TMPDIR", home.join("tmp")).current_dir(home);
    command.args(ARGUMENTS.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until `visits` visits are recorded.
fn wait_for(folder: &Path, visits: usize) {
    let limit = Instant::now() + Duration::from_secs(60);
    let made = || Journal::open(folder).map_or(0, |(journal, _)| journal.entries().len());
    while made() < visits {
        assert!(Instant::now() < limit, "no {visits} visits within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What two runs of one seed have in common: all figures, but no times of day and no seconds spent.
fn figures(run: &Run) -> String {
    let mut cells = run.cells.clone();
    cells.iter_mut().for_each(|cell| cell.verdict_reason = None);
    let arms: Vec<_> = run.visits.iter().map(|visit| (visit.index, visit.round, visit.arm)).collect();
    format!("{cells:#?}\n{:#?}\n{arms:?}", run.joint)
}

#[test]
fn an_interrupted_run_keeps_its_visits_and_completes_to_the_cells_of_an_uninterrupted_one() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(OUT);
    let child = start(home.path());
    wait_for(&folder, 3);
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let interrupted = document(&folder);
    assert!(!interrupted.complete);
    let kept = interrupted.visits.len();
    assert!((3..8).contains(&kept), "{kept} of 8 visits");
    assert_eq!(entries(&home.path().join("tmp")), [] as [std::path::PathBuf; 0], "no private folder is left");

    let resumed = Program::emulated("").args(["--resume", folder.to_str().unwrap()]).run();
    assert!(resumed.stdout.contains("pcie-ll"), "{}", resumed.stdout);
    let whole = Program::new(ARGUMENTS.split_whitespace()).run();
    assert_eq!(resumed.code, whole.code, "{}", resumed.stderr);
    let (resumed, whole) = (document(&folder), whole.document());
    assert!(resumed.complete && resumed.visits.len() == 8);
    assert_eq!(figures(&resumed), figures(&whole));
}

#[test]
fn a_torn_last_line_is_cut_off_said_and_measured_again() {
    let ran = Program::new(ARGUMENTS.split_whitespace()).run();
    let (before, journal) = (ran.document(), ran.folder().join("journal.jsonl"));
    let length = std::fs::metadata(&journal).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&journal).unwrap();
    file.set_len(length - 100).unwrap();
    let resumed = Program::emulated("").args(["--resume", ran.folder().to_str().unwrap()]).run();
    resumed.tells("7 visits kept");
    assert_eq!(figures(&ran.document()), figures(&before));
}
