use super::*;
use crate::record::fixture;
use crate::record::run::Run;
use crate::record::visit::{At, Phase};

const DEFAULT: Arm = Arm {
    set: 0,
    library: 0,
    launch: crate::plan::schedule::Launch::Threads,
    alive: 0,
    register: crate::nccl::register::Register::None,
};
const LL: Arm = Arm { set: 1, ..DEFAULT };

/// Six rounds of two sets at four sizes; `pcie-ll` takes 0.6 of the default's time, communicators differ a little.
fn run() -> Run {
    let mut run = fixture::two_sets();
    for visit in &mut run.visits {
        let factor = if visit.arm == LL { 0.6 } else { 1.0 };
        for replicate in &mut visit.replicates {
            let wobble = 1.0 + 0.002 * f64::from((visit.index * 7 + replicate.communicator * 3) % 5);
            let time = 48.0 * factor * wobble;
            (replicate.median_us, replicate.mean_us, replicate.samples_us) = (time, time, vec![time; 3]);
        }
    }
    run
}

fn tally(run: &Run) -> Tally {
    let mut tally = Tally::default();
    run.visits.iter().for_each(|visit| tally.add(visit).unwrap());
    tally
}

fn cells(run: &Run) -> (Vec<Cell>, Vec<Joint>) {
    proven(run, &[])
}

/// The cells of a run with these proofs.
fn proven(run: &Run, proofs: &[ArmProofs]) -> (Vec<Cell>, Vec<Joint>) {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(folder.path(), &run.header).unwrap();
    run.visits.iter().for_each(|visit| journal.append(visit).unwrap());
    let (plan, tally) = (&run.header.plan, tally(run));
    let summary = Summary::of(plan, &journal, &tally).unwrap();
    let of_arm = |arm| {
        let visits: Vec<Visit> = run.visits.iter().filter(|visit| visit.arm == arm).cloned().collect();
        summary.cells(arm, &visits, proofs.iter().find(|proof| proof.arm == arm)).unwrap()
    };
    (plan.arms().flat_map(of_arm).collect(), summary.joint(proofs))
}

fn of(cells: &[Cell], arm: Arm) -> Vec<&Cell> {
    cells.iter().filter(|cell| cell.arm == arm).collect()
}

/// The first visit of an arm.
fn first(run: &mut Run, arm: Arm) -> &mut Visit {
    run.visits.iter_mut().find(|visit| visit.arm == arm).unwrap()
}

fn crashed() -> Outcome {
    let at = At { phase: Phase::First, communicator: 2, case: Some(0), rank: None };
    Outcome::Crashed { signal: "SIGSEGV".into(), at: Some(at) }
}

#[test]
fn a_set_that_takes_less_time_is_faster_at_every_size_and_all_together() {
    let (cells, joint) = cells(&run());
    assert!(of(&cells, DEFAULT).iter().all(|cell| cell.verdict == Verdict::Baseline && cell.ratio.is_none()));
    for cell in of(&cells, LL) {
        assert_eq!((cell.verdict, cell.visits, cell.replicates), (Verdict::Faster, 6, 36));
        let (ratio, [low, high]) = (cell.ratio.unwrap(), cell.ratio_interval.unwrap());
        assert!(low <= ratio && ratio <= high && (0.59..0.61).contains(&ratio), "{low} {ratio} {high}");
    }
    assert_eq!(joint.iter().map(|joint| (joint.arm, joint.verdict)).collect::<Vec<_>>(), [(LL, Verdict::Faster)]);
}

#[test]
fn one_failed_visit_makes_all_cells_of_its_set_invalid_and_leaves_the_baseline() {
    let mut run = run();
    let failed = first(&mut run, LL);
    failed.outcome = crashed();
    failed.replicates.truncate(4);
    let (cells, joint) = cells(&run);
    for cell in of(&cells, LL) {
        assert_eq!(cell.verdict, Verdict::Invalid);
        let reason = cell.verdict_reason.as_deref().unwrap();
        assert_eq!(reason, "1 of 6 visits failed: crashed with SIGSEGV during first collective");
        assert_eq!((cell.visits, cell.replicates), (5, 30), "what a failed visit measured stays out");
    }
    assert!(of(&cells, DEFAULT).iter().all(|cell| cell.verdict == Verdict::Baseline));
    assert_eq!(joint[0].verdict, Verdict::Invalid);
}

#[test]
fn a_cell_with_wrong_data_says_how_much_is_wrong_and_its_neighbours_why_they_are_invalid_too() {
    let mut run = run();
    let visit = first(&mut run, LL);
    visit.outcome = Outcome::WrongData;
    visit.replicates.iter_mut().filter(|r| r.case == 2).for_each(|r| r.checks.wrong = 3);
    let (cells, _) = cells(&run);
    let ll = of(&cells, LL);
    assert!(ll.iter().all(|cell| cell.verdict == Verdict::Invalid));
    assert_eq!((ll[2].wrong_outputs, ll[1].wrong_outputs), (18, 0));
    let of_all = ll[2].checked_outputs;
    assert_eq!(ll[2].verdict_reason, Some(format!("18 of {of_all} outputs are wrong")));
    assert_eq!(ll[1].verdict_reason.as_deref(), Some("1 of 6 visits failed: wrong data"));
}

#[test]
fn nothing_is_compared_with_a_baseline_that_failed() {
    let mut run = run();
    first(&mut run, DEFAULT).outcome = crashed();
    let (cells, joint) = cells(&run);
    assert!(cells.iter().all(|cell| cell.verdict == Verdict::Invalid));
    let told = of(&cells, LL).iter().all(|cell| cell.verdict_reason.as_deref() == Some("the baseline failed"));
    assert!(told, "{cells:?}");
    assert_eq!(joint[0].verdict, Verdict::Invalid);
}

#[test]
fn no_set_that_does_what_the_baseline_does_is_faster_in_its_cells_or_in_all_together() {
    let (difference, variables, chosen) = (None, Vec::new(), Vec::new());
    let proof =
        ArmProofs { arm: LL, set: "pcie-ll".into(), identical_to_baseline: true, difference, variables, chosen };
    let (cells, joint) = proven(&run(), &[proof]);
    for cell in of(&cells, LL) {
        assert_eq!(cell.verdict, Verdict::Undecided);
        let reason = cell.verdict_reason.as_deref().unwrap();
        assert_eq!(reason, "measured faster, but NCCL does exactly what it does by default");
    }
    assert_eq!(joint[0].verdict, Verdict::Undecided);
}

#[test]
fn a_cell_whose_turn_did_not_come_is_undecided_and_says_so() {
    let mut run = run();
    run.visits.clear();
    let (cells, _) = cells(&run);
    for cell in cells {
        assert_eq!((cell.verdict, cell.median_us), (Verdict::Undecided, None));
        assert_eq!(cell.verdict_reason.as_deref(), Some("not measured: the run ended before"));
    }
}

#[test]
fn an_undecided_cell_says_how_much_longer_it_would_take() {
    let mut run = run();
    run.visits.retain(|visit| visit.round == 0);
    let (cells, _) = cells(&run);
    for cell in of(&cells, LL) {
        assert_eq!(cell.verdict, Verdict::Undecided);
        assert!(cell.verdict_reason.is_some() && cell.interval_us.is_none(), "{cell:?}");
    }
}

#[test]
fn a_round_is_complete_when_every_arm_that_has_not_failed_was_visited() {
    let mut run = run();
    let plan = run.header.plan.clone();
    assert_eq!(tally(&run).complete_rounds(&plan), 6);
    let last = run.visits.pop().unwrap();
    assert_eq!(tally(&run).complete_rounds(&plan), 5);
    run.visits.retain(|visit| visit.arm != LL || visit.round == 0);
    assert_eq!(tally(&run).complete_rounds(&plan), 1);
    first(&mut run, LL).outcome = crashed();
    let baseline = if last.arm == DEFAULT { 5 } else { 6 };
    assert_eq!(tally(&run).complete_rounds(&plan), baseline, "an arm that failed is waited for no longer");
    first(&mut run, DEFAULT).outcome = crashed();
    assert_eq!(tally(&run).complete_rounds(&plan), 0);
}

#[test]
fn an_interrupted_visit_counts_for_nothing() {
    let mut run = run();
    let plan = run.header.plan.clone();
    run.visits.last_mut().unwrap().outcome = Outcome::Interrupted;
    let tally = tally(&run);
    assert!(!plan.arms().any(|arm| tally.has_failed(arm)));
    assert_eq!(tally.complete_rounds(&plan), 5);
}

#[test]
fn a_tally_of_the_journal_is_the_tally_of_its_visits() {
    let folder = tempfile::tempdir().unwrap();
    let run = run();
    let mut journal = Journal::create(folder.path(), &run.header).unwrap();
    run.visits.iter().for_each(|visit| journal.append(visit).unwrap());
    let (read, kept) = (Tally::of(&journal).unwrap(), tally(&run));
    assert_eq!(format!("{read:?}"), format!("{kept:?}"));
}

#[test]
fn the_time_that_would_decide_is_told_as_roughly_as_it_is_known() {
    let told = |rounds, seconds| forecast(stats::Undecided::More(rounds), Some(seconds));
    assert_eq!(told(3, 0.309_014_3), "about 3 more rounds would decide (0.9 s)");
    assert_eq!(told(1, 0.01), "about 1 more round would decide (0.1 s)");
    assert_eq!(told(60, 4.5), "about 60 more rounds would decide (4 min 30 s)");
}
