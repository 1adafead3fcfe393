//! Exit status 4: hangs, crashes and wrong data. The set concerned is invalid, what the others measured is kept.

use ncclsweep::record::run::{Run, Verdict};
use ncclsweep::record::visit::{Among, Outcome, Phase, Visit};

use crate::support::{OUT, Program, Ran, cells};

/// Two rounds with a fault that strikes workers of `pcie-ll` only.
fn struck(fault: &str, arguments: &str) -> Ran {
    let program = Program::emulated("--gpus 2 --sizes 7168x1/2 --rounds 2 --communicators 2 --seed 7").keeping(OUT);
    let program = program.env("NCCLSWEEP_EMULATE_FAULT", &format!("{fault},when=NCCL_PROTO=LL"));
    program.args(arguments.split_whitespace()).run().exits(4)
}

/// The visit that was struck, after which its set is not visited again, while `default` goes on.
#[track_caller]
fn only_struck(run: &Run) -> &Visit {
    let of = |set: usize| run.visits.iter().filter(move |visit| visit.arm.set == set);
    assert!(of(0).count() >= 1 && of(0).all(|visit| visit.outcome == Outcome::Completed), "{:?}", run.visits);
    for cell in cells(run, "default") {
        assert_eq!(cell.verdict, Verdict::Baseline);
        assert!(cell.median_us.is_some(), "{cell:?}");
    }
    for cell in cells(run, "pcie-ll") {
        assert_eq!(cell.verdict, Verdict::Invalid);
        assert!(cell.verdict_reason.is_some(), "{cell:?}");
    }
    assert_eq!(of(1).count(), 1, "a set that failed is not visited again");
    of(1).next().unwrap()
}

#[test]
fn a_wrong_element_makes_its_set_invalid_and_is_shown() {
    let ran = struck("wrong@replay,rank=1,size=28672", "");
    let run = ran.document();
    let visit = only_struck(&run);
    assert_eq!(visit.outcome, Outcome::WrongData);
    let wrong: Vec<_> = cells(&run, "pcie-ll").iter().map(|cell| cell.wrong_outputs).collect();
    assert!(wrong[0] == 0 && wrong[1] > 0, "{wrong:?}: only the second size is struck");
    let first = visit.replicates.iter().find_map(|replicate| replicate.checks.first_wrong.as_ref()).unwrap();
    assert_eq!(first.rank, 1);
    assert_ne!(first.found, first.expected);
    assert!(ran.stdout.contains("wrong"), "{}", ran.stdout);
    ran.tells("pcie-ll, round 1: wrong data");
}

#[test]
fn a_nan_is_a_wrong_element_in_every_mode() {
    for (mode, phase) in [("stream", "eager"), ("sync", "eager"), ("graph", "replay")] {
        let ran = struck(&format!("nan@{phase},rank=0"), &format!("--modes {mode}"));
        let run = ran.document();
        let first = only_struck(&run).replicates.iter().find_map(|replicate| replicate.checks.first_wrong.as_ref());
        assert_eq!(first.map(|wrong| wrong.found.to_lowercase()), Some("nan".to_owned()), "{mode}");
    }
}

#[test]
fn a_hang_ends_at_its_deadline_and_is_told_with_its_phase() {
    let ran = struck("hang@first,rank=1", "--deadline 6s");
    let run = ran.document();
    match &only_struck(&run).outcome {
        Outcome::TimedOut { at: Some(at), seconds: 6.0, .. } => assert_eq!(at.phase, Phase::First),
        other => panic!("{other:?}"),
    }
    ran.tells("timed out after 6 s during first collective");
    assert_eq!(ran.leftovers(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn a_crash_is_told_with_its_signal_and_what_was_measured_before_is_kept() {
    let run = struck("segv@first,rank=0,comm=2", "").document();
    let visit = only_struck(&run);
    assert!(matches!(&visit.outcome, Outcome::Crashed { signal, .. } if signal == "SIGSEGV"), "{:?}", visit.outcome);
    assert_eq!(visit.replicates.len(), 2, "both sizes of the first communicator");
}

#[test]
fn an_error_of_the_library_is_told_with_its_rank() {
    let ran = struck("nccl-error@init,rank=1", "");
    let run = ran.document();
    let visit = only_struck(&run);
    match &visit.outcome {
        Outcome::Failed { at, .. } => assert_eq!(at.phase, Phase::Init),
        other => panic!("{other:?}"),
    }
    assert!(ran.stdout.contains("pcie-ll"), "{}", ran.stdout);
}

#[test]
fn a_worker_that_leaves_without_a_word_is_told_with_its_status() {
    let run = struck("exit@init,rank=0", "").document();
    let visit = only_struck(&run);
    assert!(matches!(visit.outcome, Outcome::Exited { code: 1, .. }), "{:?}", visit.outcome);
}

#[test]
fn nothing_is_compared_with_a_baseline_that_failed() {
    let program = Program::least("").env("NCCLSWEEP_EMULATE_FAULT", "kill@first,rank=0").keeping(OUT);
    let run = program.run().exits(4).document();
    assert!(run.cells.iter().all(|cell| cell.verdict == Verdict::Invalid));
    let signals = |visit: &Visit| matches!(&visit.outcome, Outcome::Crashed { signal, .. } if signal == "SIGKILL");
    assert!(run.visits.iter().all(signals), "{:?}", run.visits);
}

#[test]
fn a_command_that_cannot_start_workers_is_told_by_name() {
    let missing = Program::least("").args(["--wrap", "no-such-command -n 0"]).keeping(OUT).run().exits(2);
    missing.tells("there is no command `no-such-command` for --wrap");
    let no_program = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let ran = Program::least("").args(["--wrap", no_program]).keeping(OUT).run().exits(4);
    ran.tells("README.md` of --wrap");
}

#[test]
fn a_wrong_element_in_an_early_timed_replay_alone_is_seen() {
    // Four samples, and a look after each of them; the fourth replay is the second that is timed.
    let ran = struck("wrong@replay,rank=1,comm=1,nth=4", "--samples 4 --sizes 7168x1");
    let run = ran.document();
    let first =
        only_struck(&run).replicates.iter().find_map(|replicate| replicate.checks.first_wrong.as_ref()).unwrap();
    assert_eq!((first.among, first.rank, first.call), (Among::Timed, 1, 99));
    let words: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("call 99 of the timed calls"), "{}", ran.stdout);
    let cell = cells(&run, "pcie-ll")[0];
    assert_eq!(cell.wrong_outputs, 1);
}

#[test]
fn data_is_checked_as_often_as_is_asked_for() {
    let outputs = |checks: &str| {
        let ran = Program::least(checks).keeping(OUT).run().exits(5);
        ran.document().cells[0].checked_outputs
    };
    // Two ranks: the first call, every look between timed calls, the last timed call, and 50 calls of each chain.
    assert_eq!(outputs(""), 2 * (1 + 3 + 1 + 50));
    assert_eq!(outputs("--checks 4"), 2 * (1 + 12 + 1 + 4 * 50));
}

#[test]
fn the_shortest_soak_looks_at_every_set_once() {
    let run = Program::emulated("--gpus 2 --sizes 7168x1 --communicators 1 --soak 1ms --seed 7")
        .keeping(OUT)
        .run()
        .exits(0)
        .document();
    let visited: Vec<usize> = run.visits.iter().map(|visit| visit.arm.set).collect();
    assert_eq!(visited.len(), 2, "one visit of each set, and no more: {visited:?}");
    assert_ne!(visited[0], visited[1]);
}
