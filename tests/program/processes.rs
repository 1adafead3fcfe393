//! Ranks as processes, single ranks with variables of their own, communicators in turn.

use std::collections::BTreeSet;

use ncclsweep::plan::schedule::Launch;
use ncclsweep::proof::State;
use ncclsweep::record::run::{Applied, Cell, Run, Verdict};
use ncclsweep::record::visit::{Doing, Outcome, Phase, Visit};

use crate::support::{OUT, Program, Ran, cells};

/// A small run of four ranks.
fn small(rounds: u32, arguments: &str) -> Program {
    Program::emulated("--gpus 4 --sizes 7168x1 --communicators 2 --samples 4 --chain 8 --seed 7")
        .args(["--rounds", &rounds.to_string()])
        .args(arguments.split_whitespace())
        .keeping(OUT)
}

/// One round.
fn four(arguments: &str) -> Program {
    small(1, arguments)
}

/// One round, without noise.
fn quiet(arguments: &str) -> Program {
    four(arguments).env("NCCLSWEEP_EMULATE_NOISE", "none")
}

fn of_launch(run: &Run, launch: Launch) -> Vec<&Cell> {
    run.cells.iter().filter(|cell| cell.launch == launch).collect()
}

fn visit(run: &Run, launch: Launch) -> &Visit {
    run.visits.iter().find(|visit| visit.arm.launch == launch).unwrap()
}

/// How a visit of processes with this fault ended, and the whole run.
fn struck(fault: &str, arguments: &str) -> (Outcome, Ran) {
    let program = four(&format!("--launch processes --sets default {arguments}"));
    let ran = program.env("NCCLSWEEP_EMULATE_FAULT", fault).run().exits(4);
    assert_eq!(ran.leftovers(), [] as [std::path::PathBuf; 0]);
    let outcome = ran.document().visits[0].outcome.clone();
    (outcome, ran)
}

#[test]
fn without_noise_and_cost_processes_measure_what_threads_measure() {
    let arguments = "--launch threads,processes --sets default --modes graph,stream,sync --in-place=both";
    let run = quiet(arguments).run().document();
    let (threads, processes) = (of_launch(&run, Launch::Threads), of_launch(&run, Launch::Processes));
    assert_eq!((threads.len(), processes.len()), (6, 6));
    for (one, other) in threads.iter().zip(processes) {
        let (one_us, other_us) = (one.median_us.unwrap(), other.median_us.unwrap());
        assert!((one_us / other_us - 1.0).abs() < 1e-6, "{}: {one_us} and {other_us} µs", one.mode);
        assert_eq!((other.wrong_outputs, other.checked_outputs), (0, one.checked_outputs));
    }
}

#[test]
fn every_rank_has_a_process_and_the_proof_holds_for_all_of_them() {
    let run = quiet("--launch processes").run().document();
    let worker = visit(&run, Launch::Processes).worker.as_ref().unwrap();
    let ranks: Vec<u32> = worker.others.iter().map(|other| other.rank).collect();
    let pids: BTreeSet<u32> = worker.others.iter().map(|other| other.pid).chain([worker.pid]).collect();
    assert_eq!((ranks, pids.len(), worker.devices.len()), (vec![1, 2, 3], 4, 4));
    assert!(run.cells.iter().all(|cell| cell.applied == Applied::Applied), "{:?}", run.cells);
    let read = visit(&run, Launch::Processes).read.as_ref().unwrap();
    assert_eq!((read.gaps.len(), read.communicators.len()), (0, 2), "{:?}", read.gaps);
    let used = &visit(&run, Launch::Processes).used;
    assert!(used.iter().all(|by| by.ranks == [0, 1, 2, 3] && by.communicators == [0, 1]), "{used:?}");
}

#[test]
fn processes_reach_each_other_by_other_transports() {
    let ways = |run: &Run, launch: Launch| -> BTreeSet<String> {
        let read = visit(run, launch).read.as_ref().unwrap();
        let hops = read.communicators.iter().flat_map(|of| &of.ranks).flat_map(|rank| &rank.sends);
        hops.flat_map(|hop| hop.via.iter().map(ToString::to_string)).filter(|way| way.starts_with("P2P")).collect()
    };
    let run = quiet("--launch threads,processes --sets default").run().document();
    assert_eq!(ways(&run, Launch::Threads), ["P2P/direct pointer".to_owned()].into());
    assert_eq!(ways(&run, Launch::Processes), ["P2P/CUMEM".to_owned()].into());
    let run = quiet("--launch processes --sets default --base NCCL_CUMEM_ENABLE=0").run().document();
    assert_eq!(ways(&run, Launch::Processes), ["P2P/IPC".to_owned()].into());
}

#[test]
fn the_launch_is_a_factor_with_a_verdict_of_its_own() {
    let program = small(4, "--launch threads,processes --sets default");
    let program =
        program.env("NCCLSWEEP_EMULATE_NOISE", "sd=0.002").env("NCCLSWEEP_EMULATE_SCALE", "LAUNCH=processes:1.2");
    let ran = program.run().exits(0);
    let run = ran.document();
    let cell = of_launch(&run, Launch::Processes)[0];
    assert_eq!(cell.verdict, Verdict::Slower);
    assert!((cell.ratio.unwrap() - 1.2).abs() < 0.01, "{cell:?}");
    assert!(ran.stdout.contains("processes are slower than threads at 7168x1"), "{}", ran.stdout);
}

#[test]
fn communicators_in_turn_are_a_factor_and_each_is_proven() {
    let program = small(3, "--alive 0,2 --sets default").env("NCCLSWEEP_EMULATE_NOISE", "none");
    let ran = program.env("NCCLSWEEP_EMULATE_SCALE", "ALIVE=3:1.25").run().exits(0);
    let run = ran.document();
    let of = |alive: u32| run.cells.iter().find(|cell| cell.alive == alive).unwrap();
    assert!((of(2).ratio.unwrap() - 1.25).abs() < 0.02, "{:?}", of(2));
    assert_eq!((of(2).verdict, of(2).applied), (Verdict::Slower, Applied::Applied));
    let visit = run.visits.iter().find(|visit| visit.arm.alive == 2).unwrap();
    assert_eq!(visit.read.as_ref().unwrap().communicators.len(), 6);
    for captured in [false, true] {
        let seen: BTreeSet<u32> = (visit.used.iter().filter(|by| by.used.captured == Some(captured)))
            .flat_map(|by| by.communicators.iter().copied())
            .collect();
        assert_eq!(seen, (0..6).collect(), "captured: {captured}");
    }
    assert!(ran.stdout.contains("default (3 in turn) is slower than default (alone)"), "{}", ran.stdout);
}

#[test]
fn communicators_take_turns_among_processes_too() {
    let run = quiet("--alive 1 --launch processes --sets default --modes graph,sync").run().document();
    assert_eq!(run.visits[0].outcome, Outcome::Completed);
    assert!(run.cells.iter().all(|cell| cell.applied == Applied::Applied && cell.wrong_outputs == 0));
}

#[test]
fn a_variable_that_misses_one_rank_is_partly_in_effect_and_the_rank_is_named() {
    let ran = quiet("--launch processes --rank-env 2:NCCL_PROTO= --why --expect pcie-ll").run().exits(1);
    let run = ran.document();
    assert!(
        cells(&run, "pcie-ll").iter().all(|cell| cell.applied == Applied::Partly && cell.verdict == Verdict::Undecided)
    );
    let proof = run.proofs.iter().find(|proof| proof.set == "pcie-ll").unwrap();
    let proof = &proof.variables.iter().find(|of| of.what.name == "NCCL_PROTO").unwrap().what;
    assert_eq!((proof.state, proof.lacking.as_slice()), (State::Partly, [2].as_slice()));
    assert!(proof.why.as_ref().unwrap().starts_with("rank 2 without it"), "{proof:?}");
    assert!(ran.stdout.contains("rank 2 without NCCL_PROTO"), "{}", ran.stdout);
}

#[test]
fn a_variable_of_one_rank_alone_is_lacking_on_all_others() {
    let run = quiet("--launch processes --sets default --rank-env 1:NCCL_BUFFSIZE=8388608").run().document();
    let proof = &run.proofs[0].variables.iter().find(|of| of.what.name == "NCCL_BUFFSIZE").unwrap().what;
    assert_eq!((proof.state, proof.lacking.as_slice()), (State::Partly, [0, 2, 3].as_slice()));
}

#[test]
fn a_value_for_each_rank_is_no_one_setting_and_every_table_says_so() {
    let own: String = (0..4).map(|rank| format!(" --rank-env {rank}:NCCL_BUFFSIZE={}", 1 << (20 + rank))).collect();
    let ran = quiet(&format!("--launch processes --sets default --why{own}")).run();
    let run = ran.document();
    assert!(run.cells.iter().all(|cell| cell.applied == Applied::DiffersByRank));
    let proof = &run.proofs[0].variables.iter().find(|of| of.what.name == "NCCL_BUFFSIZE").unwrap().what;
    assert_eq!((proof.state, proof.value.as_str()), (State::DiffersByRank, "1048576|2097152|4194304|8388608"));
    let why = "1048576 on rank 0; 2097152 on rank 1; 4194304 on rank 2; 8388608 on rank 3";
    assert_eq!(proof.why.as_deref(), Some(why));
    let told = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(&format!("differs by rank, {why}")) && !told.contains("partly"), "{told}");
}

#[test]
fn ranks_whose_settings_do_not_match_hang_until_the_deadline_which_says_why() {
    let arguments = "--launch processes --set simple:NCCL_PROTO=Simple --rank-env 2:NCCL_PROTO= --deadline 8s";
    let ran = quiet(arguments).run().exits(4);
    let run = ran.document();
    let visit = run.visits.iter().find(|visit| visit.arm.set == 1).unwrap();
    match &visit.outcome {
        Outcome::TimedOut { at: Some(at), ranks, .. } => {
            assert_eq!(at.phase, Phase::First);
            assert_eq!((ranks.len(), ranks[0].doing), (1, Doing::Synchronize), "{ranks:?}");
        }
        other => panic!("{other}"),
    }
    assert!(visit.diagnosis.as_ref().unwrap().sign.contains("--rank-env"), "{:?}", visit.diagnosis);
}

#[test]
fn the_death_of_one_rank_ends_the_visit_at_once_and_names_it() {
    for (fault, expected) in [("kill", "SIGKILL"), ("segv", "SIGSEGV")] {
        let (outcome, ran) = struck(&format!("{fault}@first,rank=2"), "");
        match outcome {
            Outcome::Crashed { signal, at: Some(at) } => {
                assert_eq!((signal.as_str(), at.phase, at.rank), (expected, Phase::First, Some(2)));
            }
            other => panic!("{other}"),
        }
        let visit = &ran.document().visits[0];
        assert!(visit.seconds < 60.0, "others wait for the dead rank until a deadline of 120 s: {} s", visit.seconds);
        ran.tells(&format!("crashed with {expected} during first collective on rank 2"));
    }
}

#[test]
fn the_error_of_one_rank_ends_the_visit_and_names_it() {
    let (outcome, _) = struck("nccl-error@init,rank=3", "");
    match outcome {
        Outcome::Failed { at, .. } => assert_eq!((at.phase, at.rank), (Phase::Init, Some(3))),
        other => panic!("{other}"),
    }
    let (outcome, _) = struck("exit@destroy,rank=1", "");
    assert!(matches!(outcome, Outcome::Exited { code: 1, at: Some(at) } if at.rank == Some(1)), "{outcome}");
}

#[test]
fn a_hang_of_one_rank_tells_what_each_process_is_in() {
    let (outcome, _) = struck("hang@init,rank=1", "--deadline 6s");
    match outcome {
        Outcome::TimedOut { at: Some(at), ranks, .. } => {
            assert_eq!(at.phase, Phase::Init);
            assert!(ranks.iter().any(|group| group.doing == Doing::Init && group.ranks.contains(&1)), "{ranks:?}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_wrong_element_of_one_process_is_told_with_its_rank() {
    let (outcome, ran) = struck("wrong@replay,rank=3", "");
    assert_eq!(outcome, Outcome::WrongData);
    let run = ran.document();
    let first = run.visits[0].replicates.iter().find_map(|replicate| replicate.checks.first_wrong.as_ref()).unwrap();
    assert_eq!(first.rank, 3);
}

#[test]
fn a_run_of_processes_is_resumed_by_its_own_plan() {
    let ran = quiet("--launch processes,threads --rank-env 1:NCCL_X=1 --sets default").run().exits(2);
    ran.tells("--rank-env needs a process for each rank");
    let ran = small(2, "--launch processes,threads --sets default").env("NCCLSWEEP_EMULATE_NOISE", "none").run();
    let (before, journal) = (ran.document(), ran.folder().join("journal.jsonl"));
    let length = std::fs::metadata(&journal).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&journal).unwrap().set_len(length - 100).unwrap();
    let resume = Program::emulated("").args(["--resume", ran.folder().to_str().unwrap()]);
    resume.env("NCCLSWEEP_EMULATE_NOISE", "none").run();
    let after = ran.document();
    let medians = |run: &Run| run.cells.iter().map(|cell| (cell.arm, cell.median_us)).collect::<Vec<_>>();
    assert_eq!((after.visits.len(), medians(&after)), (4, medians(&before)));
}

#[test]
fn a_command_before_the_workers_starts_each_of_them() {
    let program = quiet("--launch processes --sets default").args(["--wrap", "env NCCL_ALGO=Tree"]);
    let run = program.run().document();
    let visit = &run.visits[0];
    assert_eq!(visit.outcome, Outcome::Completed);
    let worker = visit.worker.as_ref().unwrap();
    let trees = worker.others.iter().filter(|other| other.variables.get("NCCL_ALGO") == Some("Tree")).count();
    assert_eq!(trees, 3);
}

#[test]
fn the_plan_of_processes_is_shown_before_anything_starts() {
    let arguments = "--launch threads,processes --alive 0,1 --dry-run";
    let ran = Program::emulated(arguments).args(["--gpus", "4"]).run().exits(0);
    assert!(ran.stdout.contains("one worker for each visit of threads, one for each rank"), "{}", ran.stdout);
    assert!(ran.stdout.contains("each of 8 visits"), "{}", ran.stdout);
    let ran = Program::emulated("--launch processes --rank-env 1:NCCL_PROTO= --dry-run --gpus 4").run().exits(0);
    assert!(ran.stdout.contains("rank 1: NCCL_PROTO is not set"), "{}", ran.stdout);
    for (wrong, told) in [
        ("--launch forks", "no way to start ranks"),
        ("--launch threads,threads", "twice"),
        ("--alive 0,0", "twice"),
        ("--launch processes --rank-env 9:NCCL_PROTO=LL", "names rank 9"),
    ] {
        Program::emulated(wrong).args(["--gpus", "4", "--quiet"]).run().exits(2).tells(told);
    }
}

#[test]
fn a_private_log_of_each_process_goes_to_the_users_file_with_its_own_pid() {
    let program = quiet("--launch processes --sets default").env("NCCL_DEBUG", "INFO").env("NCCL_DEBUG_FILE", "own.%p");
    let ran = program.run();
    let worker = ran.document().visits[0].worker.clone().unwrap();
    for pid in worker.others.iter().map(|other| other.pid).chain([worker.pid]) {
        let log = std::fs::read_to_string(ran.home.path().join(format!("own.{pid}"))).unwrap();
        assert!(log.contains(&format!(":{pid}:")), "the log of {pid} is its own");
    }
}

#[test]
fn transports_of_communicators_that_take_turns_are_proven_for_each() {
    let run = quiet("--launch threads,processes --alive 2 --set level:NCCL_P2P_LEVEL=SYS").run().document();
    let levels = run.proofs.iter().flat_map(|proof| &proof.variables).filter(|of| of.what.name == "NCCL_P2P_LEVEL");
    let states: Vec<_> = levels.map(|of| (of.what.state, of.what.why.as_deref())).collect();
    assert_eq!(states, [(State::Applied, None); 2]);
}
