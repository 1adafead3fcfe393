use super::*;
use crate::error::Kind;
use crate::gpu::nvml::GpuState;
use crate::plan::schedule::{Arm, Launch};
use crate::record::fixture::{stored, two_sets};
use crate::record::run::Applied;
use crate::record::visit::Outcome as Ending;

/// `sizes` as the fixture has them, and its sets.
pub(super) const MEASURED: &str = "sizes = \"7168x1..4\"\n[sets.pcie-ll]\nNCCL_PROTO = \"LL\"\n";

pub(super) fn plan(require: &str) -> Result<AcceptPlan> {
    AcceptPlan::parse("plan.toml", &format!("{MEASURED}{require}"))
}

/// The fixture: 48.2 µs and 28.9 µs at 7168x1, intervals of about 1.5%.
pub(super) fn run() -> Stored {
    stored(two_sets(), 1, |_, _| 1.0)
}

/// The run with this done to it.
pub(super) fn altered(alter: impl FnOnce(&mut Stored)) -> Stored {
    let mut run = run();
    alter(&mut run);
    run
}

/// What is always required and then `require`, as if `run` were planned as it was made.
fn all(require: &str, run: &Stored, golden: Option<&Stored>) -> Vec<Judged> {
    judge(&plan(require).unwrap(), &run.run.header.plan, run, golden).unwrap().requirements
}

/// What the requirements come to, those of every run left aside.
fn judged(require: &str, run: &Stored) -> Vec<Judged> {
    all(require, run, None).split_off(2)
}

fn only(require: &str, run: &Stored) -> Judged {
    let mut all = judged(require, run);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

const LATENCY: &str = "[[require.latency]]\nset = \"pcie-ll\"\nsizes = \"7168x1\"\n";

#[test]
fn a_run_that_stopped_early_did_not_pass() {
    let visits = |run: &Stored| all("[require]\ngpus = 8", run, None).remove(0);
    assert_eq!(visits(&run()).outcome, Outcome::Pass);
    let early = visits(&altered(|run| run.run.complete = false));
    assert_eq!(early.outcome, Outcome::NotMeasured);
    assert_eq!(early.reason.as_deref(), Some("the run stopped early: not every planned visit was made"));
    let failed = altered(|run| (run.run.complete, run.run.visits[3].outcome) = (false, Ending::WrongData));
    assert_eq!(visits(&failed).outcome, Outcome::Fail);
}

#[test]
fn a_bound_holds_only_with_the_whole_interval() {
    let bound = |bound: &str| only(&format!("{LATENCY}p50 = \"{bound}\""), &run());
    let at_median = bound("<= 28.9us");
    let [low, high] = at_median.interval.unwrap();
    assert!(low < 28.9 && 28.9 < high, "{low} to {high}");
    assert_eq!(at_median.outcome, Outcome::Undecided);
    assert_eq!((bound("<= 30us").outcome, bound("28 us").outcome), (Outcome::Pass, Outcome::Fail));
    assert_eq!(bound("0.03ms").bound, "≤ 30.0 µs");
    assert_eq!(at_median.requirement, "pcie-ll 7168x1 graph p50");
}

#[test]
fn a_bound_keeps_the_digits_it_was_written_with_and_a_figure_shows_its_side_of_it() {
    let judged = |bound: f64| only(&format!("{LATENCY}p50 = \"{bound}us\""), &run());
    let median = judged(30.0).value.unwrap();
    let near = (median * 1e3).round() / 1e3 + 0.002;
    let judged = judged(near);
    assert_eq!(judged.bound, format!("≤ {near} µs"));
    let shown: f64 = judged.measured.unwrap().trim_end_matches(" µs").parse().unwrap();
    assert!(shown < near, "{shown} {near}");
}

#[test]
fn every_requirement_that_fails_without_a_spread_says_why() {
    let none = altered(|run| run.run.visits.clear());
    assert!(
        all("[require]\ngpus = 8", &none, None).iter().all(|one| one.outcome == Outcome::Pass || one.reason.is_some())
    );
    assert_eq!(only("[require]\ngpus = 7", &run()).reason.as_deref(), Some("8 GPUs took part"));
}

#[test]
fn without_an_interval_a_bound_is_undecided_however_far_away() {
    let two_visits = altered(|run| {
        run.run.visits.retain(|visit| visit.round < 2);
        run.run.cells.iter_mut().for_each(|cell| cell.interval_us = None);
    });
    let far = only(&format!("{LATENCY}p50 = \"1000us\""), &two_visits);
    assert_eq!(far.outcome, Outcome::Undecided);
    // The fixture has no journal: its tails have no interval either.
    let tail = only(&format!("{LATENCY}p99 = \"1000us\""), &run());
    assert_eq!((tail.outcome, tail.interval), (Outcome::Undecided, None));
    assert!(tail.reason.unwrap().contains("journal.jsonl"));
}

#[test]
fn a_bound_without_its_sizes_is_held_against_all_of_them() {
    let all = judged("[[require.latency]]\nset = \"default\"\np50 = \"100us\"\np95 = \"100us\"", &run());
    assert_eq!(all.len(), 8);
    assert!(all.iter().step_by(2).all(|judged| judged.outcome == Outcome::Pass));
}

#[test]
fn figures_that_are_not_those_of_the_set_are_not_measured() {
    let require = format!("{LATENCY}p50 = \"1000us\"");
    let lost = altered(|run| run.run.cells.iter_mut().for_each(|cell| cell.applied = Applied::NotApplied));
    let wrong = altered(|run| run.run.cells.iter_mut().for_each(|cell| cell.wrong_outputs = 1));
    let absent = altered(|run| run.run.cells.retain(|cell| cell.case != 0));
    let crashed = altered(|run| {
        let last = run.run.visits.iter_mut().rfind(|visit| visit.arm.set == 1).unwrap();
        last.outcome = Ending::Exited { code: 3, at: None };
    });
    for run in [lost, wrong, absent, crashed] {
        let judged = only(&require, &run);
        assert_eq!(judged.outcome, Outcome::NotMeasured);
        assert!(judged.reason.is_some());
    }
}

#[test]
fn a_speedup_is_the_ratio_the_other_way_round() {
    let require = |factor: &str| {
        format!("[[require.speedup]]\nset = \"pcie-ll\"\nsizes = \"7168x1\"\nover = \"default\"\nat-least = {factor}")
    };
    let outcome = |factor: &str| only(&require(factor), &run()).outcome;
    assert_eq!((outcome("1.5"), outcome("2")), (Outcome::Pass, Outcome::Fail));
    let judged = only(&require("1.667"), &run());
    let [low, high] = judged.interval.unwrap();
    assert!(judged.outcome == Outcome::Undecided && low < 1.667 && 1.667 < high, "{judged:?}");
    let few = altered(|run| run.run.visits.retain(|visit| visit.round < 2));
    assert_eq!(only(&require("0.1"), &few).outcome, Outcome::Undecided);
}

#[test]
fn a_speedup_is_taken_between_ranks_that_were_started_alike() {
    let both = altered(|run| {
        run.run.header.plan.launches.push(Launch::Processes);
        let as_processes = |arm: &mut Arm| arm.launch = Launch::Processes;
        // Ranks as processes are twenty times as slow.
        let mut slow = stored(two_sets(), 3, |_, _| 20.0).run;
        slow.visits.iter_mut().for_each(|visit| as_processes(&mut visit.arm));
        slow.cells.iter_mut().for_each(|cell| as_processes(&mut cell.arm));
        run.run.visits.extend(slow.visits);
        run.run.cells.extend(slow.cells);
    });
    let require = "[[require.speedup]]\nset = \"pcie-ll\"\nsizes = \"7168x1\"\nover = \"default\"\nat-least = 1.5";
    let values: Vec<f64> = judged(require, &both).iter().map(|judged| judged.value.unwrap()).collect();
    assert!(values.len() == 2 && values.iter().all(|value| (1.5..2.0).contains(value)), "{values:?}");
}

#[test]
fn gpus_are_counted_and_named() {
    assert_eq!(only("[require]\ngpus = 8", &run()).outcome, Outcome::Pass);
    let seven = altered(|run| _ = run.run.header.provenance.gpus.pop());
    let judged = only("[require]\ngpus = 8", &seven);
    assert_eq!((judged.outcome, judged.measured.as_deref()), (Outcome::Fail, Some("7")));
    assert_eq!(only("[require]\ngpu-name = \"RTX PRO 6000\"", &run()).outcome, Outcome::Pass);
    let mixed = altered(|run| run.run.header.provenance.gpus[3].name = "NVIDIA L40S".into());
    let judged = only("[require]\ngpu-name = \"RTX PRO 6000\"", &mixed);
    assert_eq!(judged.outcome, Outcome::Fail);
    assert!(judged.reason.unwrap().contains("NVIDIA L40S (0000:41:00.0)"));
}

/// All eight GPUs in a healthy state but for what `alter` does to one of GPU 2 at the end of the last visit.
fn with_states(alter: impl Fn(&mut GpuState)) -> Stored {
    let healthy = GpuState {
        sm_clock_mhz: Some(2400),
        pcie_replays: Some(5),
        link_generation: Some(5),
        link_width: Some(16),
        ..GpuState::default()
    };
    altered(|run| {
        let idle = GpuState { link_generation: Some(1), ..healthy.clone() };
        run.run.visits.iter_mut().for_each(|visit| visit.gpus = vec![(idle.clone(), healthy.clone()); 8]);
        alter(&mut run.run.visits.last_mut().unwrap().gpus[2].1);
    })
}

#[test]
fn links_count_at_their_highest_generation_and_their_narrowest_width() {
    let healthy = with_states(|_| {});
    assert_eq!(only("[require]\nlink-generation = 5", &healthy).outcome, Outcome::Pass);
    assert_eq!(only("[require]\nlink-width = 16", &healthy).outcome, Outcome::Pass);
    let narrow = only("[require]\nlink-width = 16", &with_states(|state| state.link_width = Some(8)));
    assert_eq!((narrow.outcome, narrow.reason.as_deref()), (Outcome::Fail, Some("GPU 2: 8")));
    assert_eq!(only("[require]\nlink-generation = 6", &healthy).outcome, Outcome::Fail);
    assert_eq!(only("[require]\nlink-generation = 5", &run()).outcome, Outcome::NotMeasured);
}

#[test]
fn throttling_and_replays_fail_and_what_nvml_does_not_tell_does_not_pass() {
    let (throttling, replays) = ("[require]\nno-throttling = true", "[require]\nno-replays = true");
    let healthy = with_states(|_| {});
    for require in [throttling, replays] {
        assert_eq!(only(require, &healthy).outcome, Outcome::Pass);
        assert_eq!(only(require, &run()).outcome, Outcome::NotMeasured);
    }
    let hot = with_states(|state| state.throttle.push("sw_thermal_slowdown".into()));
    assert_eq!(only(throttling, &hot).reason.as_deref(), Some("GPU 2: sw_thermal_slowdown"));
    let faulty = only(replays, &with_states(|state| state.pcie_replays = Some(9)));
    assert_eq!((faulty.outcome, faulty.measured.as_deref()), (Outcome::Fail, Some("4")));
    let silent = with_states(|state| state.pcie_replays = None);
    assert_eq!(only(replays, &silent).outcome, Outcome::NotMeasured);
}

#[test]
fn too_few_checks_are_no_proof_of_right_data() {
    let checked: u64 = run().run.cells.iter().map(|cell| cell.checked_outputs).sum();
    let outcome = |least: u64, run: &Stored| only(&format!("[require]\nchecked-outputs = {least}"), run).outcome;
    assert_eq!((outcome(checked, &run()), outcome(checked + 1, &run())), (Outcome::Pass, Outcome::NotMeasured));
    let wrong = altered(|run| run.run.cells[5].wrong_outputs = 1);
    assert_eq!(outcome(1, &wrong), Outcome::Fail);
}

#[test]
fn a_set_that_the_run_does_not_have_is_said_to_be_missing() {
    let without = altered(|run| run.run.cells.retain(|cell| cell.set != "pcie-ll"));
    let judged = only("[require]\napplied = \"pcie-ll\"", &without);
    assert_eq!((judged.outcome, judged.reason.as_deref()), (Outcome::NotMeasured, Some("the run has no such set")));
}

#[test]
fn settings_must_be_shown_to_be_in_effect() {
    let outcome = |state: Applied| {
        let run =
            altered(|run| run.run.cells.iter_mut().filter(|cell| cell.case == 2).for_each(|cell| cell.applied = state));
        only("[require]\napplied = \"pcie-ll\"", &run).outcome
    };
    assert_eq!(outcome(Applied::Applied), Outcome::Pass);
    assert_eq!((outcome(Applied::Partly), outcome(Applied::Unverified)), (Outcome::Fail, Outcome::NotMeasured));
}

#[test]
fn every_visit_must_complete_whether_or_not_the_plan_says_so() {
    let first = |run: &Stored| all("[require]\ngpus = 8", run, None).remove(0);
    assert_eq!(first(&run()).outcome, Outcome::Pass);
    let hung =
        altered(|run| run.run.visits[4].outcome = Ending::TimedOut { at: None, seconds: 60.0, ranks: Vec::new() });
    assert_eq!((first(&hung).outcome, first(&hung).measured.as_deref()), (Outcome::Fail, Some("11 of 12")));
}

#[test]
fn a_golden_run_passes_what_is_not_slower() {
    let plan = plan("[require.golden]\nrun = \"golden\"\ntolerance = \"10%\"").unwrap();
    assert_eq!(plan.golden().unwrap(), std::path::Path::new("golden"));
    let golden = stored(two_sets(), 2, |set, case| if (set, case) == ("pcie-ll", 3) { 0.7 } else { 1.0 });
    let against = |golden: Option<&Stored>| judge(&plan, &run().run.header.plan, &run(), golden);
    let held = against(Some(&golden)).unwrap().requirements.split_off(2);
    let outcomes: Vec<Outcome> = held.iter().map(|judged| judged.outcome).collect();
    assert_eq!(outcomes, [[Outcome::Pass; 8].as_slice(), &[Outcome::Fail]].concat());
    assert_eq!(held[0].requirement, "the golden run measured");
    // By a golden run of other settings nothing would be known to be as fast as it was.
    let mut other = golden;
    other.run.header.plan.sets[1].vars.set("NCCL_PROTO", "Simple");
    assert_eq!(against(Some(&other)).unwrap().requirements[2].outcome, Outcome::NotMeasured);
    other.run.header.plan.sets[1].vars.set("NCCL_PROTO", "LL");
    other.run.header.provenance.inherited.set("NCCL_ALGO", "Tree");
    let of_the_shell = against(Some(&other)).unwrap().requirements.remove(2);
    assert_eq!(of_the_shell.outcome, Outcome::NotMeasured);
    assert!(of_the_shell.reason.unwrap().contains("NCCL_ALGO=Tree"));
    other.run.header.plan.ranks = 2;
    assert_eq!(against(Some(&other)).unwrap_err().kind(), Kind::Usage);
    assert_eq!(against(None).unwrap().count(Outcome::NotMeasured), 1);
}

#[test]
fn the_plans_that_come_along_are_sound() {
    let plans = [
        ("pcie-8gpu", include_str!("../../bench-configs/accept/pcie-8gpu.toml")),
        ("after-upgrade", include_str!("../../bench-configs/accept/after-upgrade.toml")),
    ];
    let kinds =
        |text: &str| AcceptPlan::parse("plan", text).unwrap_or_else(|error| panic!("{error}")).requirements.len();
    assert_eq!(plans.map(|(_, text)| kinds(text)), [11, 5]);
    let named = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/bench-configs/accept")).unwrap();
    assert_eq!(named.count(), plans.len());
}
