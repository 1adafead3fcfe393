//! `--floor` and `--timings`, registered and rotated buffers: what else a run can be asked for.

use ncclsweep::collective::Mode;
use ncclsweep::nccl::register::Register;
use ncclsweep::record::floor::Over;
use ncclsweep::record::run::{Cell, Run, Verdict};

use crate::support::{OUT, Program};

/// The least that can be measured on a box with NVLink, without noise.
fn nvlink(arguments: &str) -> Program {
    let least = "--emulate=2xh200-nvlink --sizes 7168x1 --rounds 1 --communicators 1 --seed 7";
    let arguments = least.split_whitespace().chain(arguments.split_whitespace());
    Program::new(arguments).env("NCCLSWEEP_EMULATE_NOISE", "none").keeping(OUT)
}

/// Hops as they are stored: over which way, µs to two digits.
fn hops(run: &Run) -> Vec<(Over, Option<String>)> {
    let floor = run.floor.as_ref().expect("a floor");
    floor.hops.iter().map(|hop| (hop.over, hop.micros().map(|micros| format!("{micros:.2}")))).collect()
}

#[test]
fn the_floor_is_measured_over_the_ways_in_use_and_every_cell_has_its_own() {
    let ran = nvlink("--set host:NCCL_P2P_DISABLE=1 --floor").run();
    let run = ran.document();
    assert_eq!(hops(&run), [(Over::PeerMemory, Some("0.60".into())), (Over::HostMemory, Some("1.76".into()))]);
    let floor = |set: &str| run.cells.iter().find(|cell| cell.set == set).and_then(|cell| cell.floor).expect("a floor");
    let (nvlink, host) = (floor("default"), floor("host"));
    // An empty kernel of a graph of 50 takes half a microsecond, and the pause between graphs adds to it.
    assert!((nvlink.ring_us - 1.72).abs() < 0.01 && (host.ring_us - 4.04).abs() < 0.01, "{nvlink:?} {host:?}");
    assert!((host.ring_us - host.one_shot_us - 1.76).abs() < 0.01, "{host:?}");
    assert!(ran.stdout.contains("what an all-reduce costs at least"), "{}", ran.stdout);
    let again = Program::new(["report", OUT, "--format", "json"]).beside(&ran).run().exits(0);
    assert!(again.stdout.contains("\"one_shot_us\""), "{}", again.stdout);
    let shown = Program::new(["report", OUT]).beside(&ran).run().exits(0);
    assert!(shown.stdout.contains("reached"), "{}", shown.stdout);
}

#[test]
fn ranks_that_share_a_gpu_have_a_floor_too() {
    let program = nvlink("--sets default --ranks 4 --floor").env("NCCLSWEEP_EMULATE_NCCL", "2.30.3");
    let run = program.run().document();
    let floor = run.floor.as_ref().expect("a floor");
    assert!(floor.hops.iter().any(|hop| hop.gpus == [0, 0]) && floor.hops.iter().any(|hop| hop.gpus == [0, 1]));
    assert!(run.cells[0].floor.is_some(), "{:?}", floor);
}

#[test]
fn a_flag_that_never_arrives_is_given_up_and_costs_its_floor_alone() {
    let ran = nvlink("--sets default --floor").env("NCCLSWEEP_EMULATE_FAULT", "hang@flag,gpus=0+1").run();
    let run = ran.document();
    assert_eq!(hops(&run), [(Over::PeerMemory, None)]);
    let why = run.floor.as_ref().and_then(|floor| floor.hops[0].why.clone()).expect("a reason");
    assert!(why.contains("did not arrive within"), "{why}");
    assert!(run.cells[0].floor.is_none() && run.cells[0].median_us.is_some());
    assert!(ran.stdout.contains("did not arrive within"), "{}", ran.stdout);
}

#[test]
fn a_process_that_dies_looking_for_the_floor_leaves_the_run_whole() {
    for (fault, told) in [("segv@flag", "SIGSEGV"), ("garbage@flag", "said"), ("exit@flag", "status 1")] {
        let run = nvlink("--sets default --floor").env("NCCLSWEEP_EMULATE_FAULT", fault).run().document();
        let failed = run.floor.and_then(|floor| floor.failed).expect("it failed");
        assert!(failed.contains(told), "{fault}: {failed}");
        assert_eq!((run.visits.len(), run.cells[0].verdict), (1, Verdict::Baseline), "{fault}");
    }
}

#[test]
fn timings_tell_every_phase_of_a_visit() {
    let ran = nvlink("--sets default --timings").run();
    for phase in ["process start", "contexts", "communicator init", "graph capture", "timing", "teardown", "exit"] {
        assert!(ran.stdout.lines().any(|line| line.trim_start().starts_with(phase)), "{phase}: {}", ran.stdout);
    }
    let run = ran.document();
    let timings = run.visits[0].timings;
    let sum: f64 = timings.phases().iter().map(|(_, seconds)| seconds).sum();
    let visit = run.visits[0].seconds;
    assert!((sum / visit - 1.0).abs() < 0.05, "{timings:?} are not the {visit} s of the visit");
    let again = Program::new(["report", OUT, "--timings"]).beside(&ran).run().exits(0);
    assert!(again.stdout.contains("where the time of a visit goes"), "{}", again.stdout);
}

#[test]
fn registered_buffers_are_a_factor_and_what_nccl_did_with_them_is_told() {
    let ran = nvlink("--sets default --register none,symmetric --launch threads,processes").run();
    let run = ran.document();
    let ways: Vec<Register> = run.header.plan.arms().map(|arm| arm.register).collect();
    assert_eq!(ways, [Register::None, Register::Symmetric, Register::None, Register::Symmetric]);
    for visit in &run.visits {
        let taken = visit.registration.map(|of| (of.taken > 0, of.left));
        assert_eq!(taken, (visit.arm.register == Register::Symmetric).then_some((true, 0)), "{visit:?}");
    }
    assert!(run.cells.iter().all(|cell| cell.wrong_outputs == 0 && cell.checked_outputs > 0));
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let both = "default (threads, symmetric), default (processes, symmetric): NCCL registered all";
    assert!(words.contains(both), "{}", ran.stdout);
}

#[test]
fn buffers_that_nccl_leaves_alone_are_no_verdict_on_registering() {
    let program = Program::new("--emulate=8xpcie-flat --gpus 2 --sizes 7168x1 --rounds 3 --seed 7".split(' '));
    let ran = program
        .args(["--sets", "default", "--register", "none,symmetric"])
        .env("NCCLSWEEP_EMULATE_NOISE", "none")
        .keeping(OUT)
        .run()
        .exits(5);
    let cell = &ran.document().cells[1];
    assert_eq!(cell.verdict, Verdict::Undecided);
    assert!(cell.verdict_reason.as_ref().is_some_and(|why| why.contains("NCCL registered 0 of")), "{cell:?}");
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("registered none of"), "{words}");
}

#[test]
fn captured_calls_on_memory_of_nccl_are_faster_where_peers_write_to_it() {
    let program =
        Program::new("--emulate=2xh200-nvlink --gpus 2 --sizes 7168x1,4M --modes graph,stream --seed 7".split(' '));
    let ran = program
        .args(["--sets", "default", "--register", "none,capture", "--rounds", "3", "--communicators", "1"])
        .env("NCCLSWEEP_EMULATE_NOISE", "none")
        .keeping(OUT)
        .run()
        .exits(0);
    let ratio = |mode, elements: u64| {
        let run = ran.document();
        let is = |cell: &&Cell| {
            let case = &run.header.plan.cases[cell.case];
            cell.arm.register == Register::Capture && case.mode == mode && case.size.elements == elements
        };
        run.cells.iter().find(is).and_then(|cell| cell.ratio).unwrap()
    };
    assert!((ratio(Mode::Graph, 2 << 20) - 0.96).abs() < 0.005, "{}", ratio(Mode::Graph, 2 << 20));
    for (mode, elements) in [(Mode::Graph, 7168), (Mode::Stream, 7168), (Mode::Stream, 2 << 20)] {
        assert!((ratio(mode, elements) - 1.0).abs() < 0.005, "{mode} of {elements}: {}", ratio(mode, elements));
    }
    assert!(ran.stdout.contains("registered when captured"), "{}", ran.stdout);
}

#[test]
fn a_library_too_old_to_register_is_refused_before_anything_is_measured() {
    let program = nvlink("--sets default --register none,symmetric").env("NCCLSWEEP_EMULATE_NCCL", "2.26.2");
    program.run().exits(3).tells("--register symmetric needs NCCL 2.27; this is 2.26.2");
    nvlink("--register windows").run().exits(2).tells("no way to register buffers");
}

#[test]
fn rotated_and_kept_buffers_and_communicators_give_right_data_in_every_mode() {
    let more =
        "--rotate-buffers --keep-communicators --communicators 3 --alive 0,1 --in-place=both --modes graph,stream,sync";
    let arguments = "--emulate=2xh200-nvlink --sizes 14336B,4M --rounds 1 --seed 7 --sets default";
    let program = Program::new(arguments.split(' ').chain(more.split(' ')));
    let run = program.env("NCCLSWEEP_EMULATE_NOISE", "none").keeping(OUT).run().document();
    assert!(run.header.plan.measure.rotate && run.header.plan.measure.keep);
    assert!(run.cells.iter().all(|cell| cell.wrong_outputs == 0 && cell.checked_outputs > 0 && cell.replicates == 3));
    let wrong = "--emulate=2xh200-nvlink --sizes 4M --rounds 1 --seed 7 --sets default --rotate-buffers";
    let program = Program::new(wrong.split(' ')).env("NCCLSWEEP_EMULATE_FAULT", "wrong@replay,rank=1");
    let ran = program.keeping(OUT).run().exits(4);
    assert!(ran.document().cells[0].wrong_outputs > 0, "each buffer's last output is looked at");
}
