//! What a comparison comes to, and the exit status that follows: 0, 1, 5.

use ncclsweep::record::run::{Backend, Verdict};

use crate::support::{MAIN, OUT, Program, cells};

#[test]
fn pcie_ll_is_faster_at_every_size_on_the_standard_box() {
    assert_eq!(MAIN.code, 0, "{}", MAIN.stderr);
    let run = MAIN.document();
    assert!(run.complete);
    assert_eq!(run.header.backend, Backend::Emulated);
    let cells = cells(&run, "pcie-ll");
    assert_eq!(cells.iter().map(|cell| cell.size_bytes).collect::<Vec<_>>(), [14336, 28672, 43008, 57344]);
    for cell in cells {
        assert_eq!(cell.verdict, Verdict::Faster);
        assert!((0.4..0.7).contains(&cell.ratio.unwrap()), "{cell:?}");
    }
    assert!(MAIN.stdout.contains("pcie-ll is faster than default at all 4 sizes"), "{}", MAIN.stdout);
}

#[test]
fn a_table_says_that_its_figures_are_emulated() {
    assert!(MAIN.stdout.contains("EMULATED"), "{}", MAIN.stdout);
}

#[test]
fn every_output_of_every_rank_is_checked_and_counted() {
    let run = MAIN.document();
    for cell in &run.cells {
        assert!(cell.checked_outputs >= u64::from(cell.replicates) * u64::from(cell.ranks), "{cell:?}");
        assert_eq!(cell.wrong_outputs, 0);
    }
    let all: u64 = run.cells.iter().map(|cell| cell.checked_outputs).sum();
    let counted: u64 = run.visits.iter().flat_map(|visit| &visit.replicates).map(|r| r.checks.outputs).sum();
    assert_eq!(all, counted);
}

#[test]
fn a_run_leaves_nothing_but_its_folder() {
    assert_eq!(MAIN.leftovers(), [] as [std::path::PathBuf; 0]);
    let names: Vec<_> = crate::support::entries(&MAIN.folder());
    assert_eq!(names, ["journal.jsonl", "report.html", "run.json"].map(|name| MAIN.folder().join(name)));
}

#[test]
fn what_the_default_does_already_is_the_same() {
    let arguments = "--sizes 7168x1..4 --set ll:NCCL_PROTO=LL,NCCL_ALGO=Ring --expect ll --seed 1";
    let program = Program::new(["--emulate=8xpcie-flat"].into_iter().chain(arguments.split(' '))).keeping(OUT);
    let ran = program.run().exits(0);
    assert!(cells(&ran.document(), "ll").iter().all(|cell| cell.verdict == Verdict::Same), "{}", ran.stdout);
}

#[test]
fn pcie_ll_takes_the_default_s_time_where_the_default_picks_ll_already() {
    let program = Program::new(["--emulate=8xpcie-flat", "--sizes", "7168x1..4", "--seed", "1"]).keeping(OUT);
    let ran = program.run().exits(0);
    assert!(cells(&ran.document(), "pcie-ll").iter().all(|cell| cell.verdict == Verdict::Same), "{}", ran.stdout);
}

const LL_IS_SLOW: (&str, &str) = ("NCCLSWEEP_EMULATE_SCALE", "NCCL_PROTO=LL:4.0");

#[test]
fn an_expected_set_that_is_slower_fails_the_run() {
    let ran = Program::emulated("--gpus 8 --sizes 7168x1/4 --communicators 2 --seed 1").keeping(OUT);
    let ran = ran.env(LL_IS_SLOW.0, LL_IS_SLOW.1).run().exits(1);
    assert!(cells(&ran.document(), "pcie-ll").iter().all(|cell| cell.verdict == Verdict::Slower), "{}", ran.stdout);
}

#[test]
fn a_set_that_nobody_expects_may_be_slower() {
    let arguments = "--gpus 8 --sizes 7168x1/4 --communicators 2 --seed 1 --set ll:NCCL_PROTO=LL";
    let ran = Program::emulated(arguments).env(LL_IS_SLOW.0, LL_IS_SLOW.1).keeping(OUT).run().exits(0);
    let run = ran.document();
    assert_eq!(run.header.plan.expect, [] as [&str; 0]);
    assert!(cells(&run, "ll").iter().all(|cell| cell.verdict == Verdict::Slower), "{}", ran.stdout);
}

#[test]
fn one_round_leaves_every_cell_undecided_and_says_what_is_missing() {
    let run = Program::least("").keeping(OUT).run().exits(5).document();
    let cells = cells(&run, "pcie-ll");
    assert_eq!(cells.len(), 1);
    assert_eq!(cells[0].verdict, Verdict::Undecided);
    assert!(cells[0].verdict_reason.is_some());
}

#[test]
fn a_time_limit_ends_a_run_after_the_round_under_way() {
    let arguments = "--gpus 2 --sizes 7168x1 --communicators 1 --seed 3 --time-limit 1ms";
    let run = Program::emulated(arguments).keeping(OUT).run().exits(5).document();
    assert_eq!(run.visits.iter().map(|visit| visit.round).collect::<Vec<_>>(), [0, 0]);
    let ran = Program::emulated(&format!("{arguments} --rounds 2")).keeping(OUT).run().exits(5);
    assert!(!ran.document().complete, "two rounds were planned");
    assert!(ran.stdout.contains("stopped early"), "{}", ran.stdout);
}

#[test]
fn a_run_that_ran_out_of_time_says_so_and_goes_on_when_it_is_resumed() {
    let arguments = "--gpus 2 --sizes 7168x1 --communicators 1 --seed 3 --time-limit 1ms";
    let ran = Program::emulated(arguments).keeping(OUT).run().exits(5);
    let folder = ran.folder();
    ran.tells(&format!("`ncclsweep --resume {OUT}` goes on"));
    let resumed = Program::emulated("").args(["--resume", folder.to_str().unwrap()]).run().exits(5);
    resumed.tells("--time-limit ended the run");
    assert_eq!(ran.document().visits.iter().map(|visit| visit.round).collect::<Vec<_>>(), [0, 0, 1, 1]);
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let figures = |run: ncclsweep::record::run::Run| -> Vec<_> {
        let visits = run.visits.into_iter();
        visits.map(|visit| (visit.arm, visit.replicates.into_iter().map(|r| r.median_us).collect::<Vec<_>>())).collect()
    };
    let once = || figures(Program::least("").keeping(OUT).run().exits(5).document());
    assert_eq!(once(), once());
}
