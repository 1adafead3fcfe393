//! Exit status 130: an interrupt keeps what was measured, and `--resume` goes on as if nothing had happened.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ncclsweep::record::journal::Journal;
use ncclsweep::record::run::Run;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;

use crate::executable::{copied, script};
use crate::support::{OUT, Program, document, entries, executable};

const ARGUMENTS: &str = "--emulate --gpus 4 --sizes 7168x1/4 --rounds 4 --communicators 2 --seed 11 --out run";

/// Starts the program in `home` without waiting for it.
fn start(home: &Path, more: &str) -> Child {
    start_as(Path::new(executable()), home, more, "")
}

fn start_as(executable: &Path, home: &Path, more: &str, fault: &str) -> Child {
    std::fs::create_dir(home.join("tmp")).unwrap();
    let mut command = Command::new(executable);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", home).env("TMPDIR", home.join("tmp")).env("NCCLSWEEP_EMULATE_FAULT", fault).current_dir(home);
    // SAFETY: the call is async-signal-safe, and nothing else runs between fork and exec.
    unsafe {
        // The tests themselves may run under nohup, which what they start inherits.
        command.pre_exec(|| Ok(signal(Signal::SIGHUP, SigHandler::SigDfl).map(drop)?));
    }
    command
        .args(ARGUMENTS.split_whitespace().chain(more.split_whitespace()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until `visits` visits are recorded.
fn wait_for(folder: &Path, visits: usize) {
    let limit = Instant::now() + Duration::from_secs(300);
    let made = || Journal::open(folder).map_or(0, |(journal, _)| journal.entries().len());
    while made() < visits {
        assert!(Instant::now() < limit, "no {visits} visits within five minutes");
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
    // With this seed the fourth visit hangs, so the interrupt finds a run under way however late it comes.
    let child = start_as(Path::new(executable()), home.path(), "", "hang@first,rank=0,p=0.03");
    wait_for(&folder, 3);
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let last = said.lines().last().unwrap();
    assert!(
        last.starts_with("interrupted after ") && last.contains(" of 8 visits; `ncclsweep --resume run`"),
        "{said}"
    );
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

    let again = Program::emulated("").args(["--resume", folder.to_str().unwrap()]).run();
    again.tells("nothing was left to do: this run was finished with its 8 visits");
    assert_eq!(document(&folder).visits.len(), 8);
}

#[test]
fn a_terminal_that_goes_away_ends_a_run_in_order_and_not_one_under_nohup() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(OUT);
    let hang_up = |mut child: Child| {
        wait_for(&folder, 1);
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGHUP).unwrap();
        child.wait().unwrap().code()
    };
    // With this seed the fourth visit never ends by itself.
    let hangs = "hang@first,rank=0,p=0.03";
    assert_eq!(hang_up(start_as(Path::new(executable()), home.path(), "", hangs)), Some(130));
    assert!(!document(&folder).complete);
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::remove_dir(home.path().join("tmp")).unwrap();
    let nohup = home.path().join("nohup.sh");
    script(&nohup, &format!("#!/bin/sh\ntrap '' HUP\nexec {} \"$@\"\n", executable()));
    let ended = hang_up(start_as(&nohup, home.path(), "", ""));
    assert!(matches!(ended, Some(0 | 5)), "{ended:?}");
    assert!(document(&folder).complete);
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

#[test]
fn a_run_that_was_stopped_for_longer_than_its_deadline_goes_on_and_blames_nobody() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(OUT);
    let child = start(home.path(), "--deadline 6s");
    let signal = |signal: Signal| kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    wait_for(&folder, 2);
    signal(Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(8));
    signal(Signal::SIGCONT);
    let output = child.wait_with_output().unwrap();
    let run = document(&folder);
    let outcomes: Vec<_> = run.visits.iter().map(|visit| &visit.outcome).collect();
    assert!(run.visits.len() == 8 && outcomes.iter().all(|outcome| outcome.is_completed()), "{outcomes:?}\n{output:?}");
}

#[test]
fn a_run_whose_executable_is_replaced_goes_on_with_the_one_it_is() {
    let home = tempfile::tempdir().unwrap();
    let own = home.path().join("ncclsweep");
    copied(Path::new(executable()), &own);
    let child = start_as(&own, home.path(), "--wrap env", "");
    wait_for(&home.path().join(OUT), 1);
    let other = home.path().join("other");
    script(&other, "#!/bin/sh\nexit 7\n");
    std::fs::rename(&other, &own).unwrap();
    let output = child.wait_with_output().unwrap();
    let run = document(&home.path().join(OUT));
    let completed = run.visits.iter().filter(|visit| visit.outcome.is_completed()).count();
    assert_eq!(completed, 8, "{output:?}");
}

#[test]
fn a_journal_that_ends_anywhere_is_continued_to_the_cells_of_a_whole_run() {
    let arguments = "--gpus 2 --sizes 7168x1 --rounds 2 --communicators 1 --samples 2 --chain 2 --seed 11";
    let whole = Program::emulated(arguments).keeping(OUT).run();
    let journal = std::fs::read(whole.folder().join("journal.jsonl")).unwrap();
    let lines: Vec<usize> = journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    assert_eq!(lines.len(), 5, "a header and four visits");
    // Before the end of a line, at its end, behind it, and in the middle of the next.
    let ends = lines.windows(2).flat_map(|pair| [pair[0] + 1, (pair[0] + pair[1]) / 2, pair[1]]);
    for end in ends.chain([journal.len()]) {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(OUT);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("journal.jsonl"), &journal[..end]).unwrap();
        let resumed = Program::emulated("").args(["--resume", folder.to_str().unwrap()]).run();
        let (ended, resumed) = ((resumed.code, resumed.stderr), document(&folder));
        assert_eq!(ended.0, whole.code, "cut at byte {end}: {}", ended.1);
        assert!(resumed.complete, "cut at byte {end}");
        assert_eq!(figures(&resumed), figures(&whole.document()), "cut at byte {end}");
    }
}
