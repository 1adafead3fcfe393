use super::*;
use crate::collective::Size;
use crate::gpu::nvml::GpuState;
use crate::plan::env_set::Vars;
use crate::plan::schedule::Library;
use crate::proof::why::Chosen;
use crate::record::fixture::{case, run, stored, two_sets};
use crate::record::proofs::{ArmProofs, OfCases};
use crate::record::run::Run;

fn plain(seed: u64) -> Stored {
    stored(two_sets(), seed, |_, _| 1.0)
}

fn verdicts(comparison: &Comparison, set: &str) -> Vec<Verdict> {
    comparison.cells.iter().filter(|cell| cell.set == set).map(|cell| cell.verdict).collect()
}

fn told(comparison: &Comparison) -> Vec<String> {
    comparison.changes.iter().map(|change| format!("{}: {} → {}", change.what, change.old, change.new)).collect()
}

/// The change that a single alteration of the later run makes.
fn changed(alter: impl FnOnce(&mut Run)) -> Vec<String> {
    let mut new = plain(2);
    alter(&mut new.run);
    told(&compare(&plain(1), &new, None).unwrap())
}

#[test]
fn two_runs_of_one_thing_are_the_same_and_nothing_changed() {
    for seed in 0..20 {
        let comparison = compare(&plain(2 * seed), &plain(2 * seed + 1), Some(0.1)).unwrap();
        assert_eq!(comparison.changes, []);
        assert_eq!(comparison.cells.len(), 8);
        assert_eq!(verdicts(&comparison, "pcie-ll"), [Verdict::Same; 4], "{seed}");
        assert!(comparison.only_old.is_empty() && comparison.only_new.is_empty());
    }
}

#[test]
fn a_set_that_became_slower_is_found_and_the_other_is_not() {
    let slower = stored(two_sets(), 2, |set, _| if set == "pcie-ll" { 1.15 } else { 1.0 });
    let comparison = compare(&plain(1), &slower, None).unwrap();
    assert_eq!(verdicts(&comparison, "pcie-ll"), [Verdict::Slower; 4]);
    assert!(!verdicts(&comparison, "default").contains(&Verdict::Slower));
    let joint = comparison.joint.iter().find(|joint| joint.set == "pcie-ll").unwrap();
    let [low, high] = joint.ratio_interval.unwrap();
    assert!(joint.verdict == Verdict::Slower && low < 1.15 && 1.15 < high, "{joint:?}");
    let back = compare(&slower, &plain(1), None).unwrap();
    assert_eq!(verdicts(&back, "pcie-ll"), [Verdict::Faster; 4]);
}

#[test]
fn one_visit_cannot_tell() {
    let once = |seed| {
        let mut run = two_sets();
        run.visits.retain(|visit| visit.round == 0);
        stored(run, seed, |_, _| if seed == 1 { 1.0 } else { 3.0 })
    };
    let comparison = compare(&once(1), &once(2), None).unwrap();
    assert_eq!(verdicts(&comparison, "default"), [Verdict::Undecided; 4]);
    assert!(comparison.cells[0].verdict_reason.as_deref().unwrap().starts_with("one visit cannot tell"));
    assert_eq!(comparison.cells[0].ratio, None);
}

#[test]
fn a_cell_that_failed_in_one_run_is_invalid_and_says_in_which() {
    let mut run = two_sets();
    run.visits.iter_mut().filter(|visit| visit.arm.set == 1 && visit.round == 3).for_each(|visit| {
        visit.outcome = crate::record::visit::Outcome::Crashed { signal: "SIGSEGV".into(), at: None };
    });
    let comparison = compare(&plain(1), &stored(run, 2, |_, _| 1.0), None).unwrap();
    assert_eq!(verdicts(&comparison, "pcie-ll"), [Verdict::Invalid; 4]);
    let reason = comparison.cells.last().unwrap().verdict_reason.clone().unwrap();
    assert_eq!(reason, "new run: 1 of 6 visits failed: crashed with SIGSEGV");
    assert!(!verdicts(&comparison, "default").contains(&Verdict::Invalid));
}

#[test]
fn cells_of_one_run_only_are_listed() {
    let old = stored(run(&["default", "pcie-ll"], &[1, 2].map(|n| case(n, Mode::Graph))), 1, |_, _| 1.0);
    let new = stored(run(&["default", "ll-only"], &[2, 3].map(|n| case(n, Mode::Graph))), 2, |_, _| 1.0);
    let comparison = compare(&old, &new, None).unwrap();
    let named = |alone: &[Alone]| -> Vec<String> {
        alone.iter().map(|cell| format!("{} {}", cell.set, cell.case.label())).collect()
    };
    assert_eq!(comparison.cells.len(), 1);
    assert_eq!(named(&comparison.only_old), ["default 7168x1", "pcie-ll 7168x1", "pcie-ll 7168x2"]);
    assert_eq!(named(&comparison.only_new), ["default 7168x3", "ll-only 7168x2", "ll-only 7168x3"]);
}

#[test]
fn a_library_of_each_run_is_what_changed_and_several_are_told_apart() {
    let newer = Library { path: "/opt/new/libnccl.so.2".into(), version: NcclVersion::new(2, 30, 7) };
    let mut new = plain(2);
    new.run.header.plan.libraries[0] = newer.clone();
    assert_eq!(compare(&plain(1), &new, None).unwrap().cells.len(), 8);
    // Of a run with two, only the one of the same version has a partner.
    let mut two = plain(2);
    two.run.header.plan.libraries.push(newer);
    let comparison = compare(&plain(1), &two, None).unwrap();
    assert_eq!((comparison.cells.len(), comparison.only_new.len()), (8, 8));
    assert_eq!(comparison.only_new[0].set, "default @ 2.30.7");
}

#[test]
fn what_must_not_be_compared_is_refused_with_what_differs() {
    let refused = |alter: fn(&mut Run), words: &[&str]| {
        let mut new = plain(2);
        alter(&mut new.run);
        let error = compare(&plain(1), &new, None).unwrap_err();
        assert_eq!(error.kind(), crate::error::Kind::Usage);
        words.iter().for_each(|word| assert!(error.message().contains(word), "{word} is missing in {error}"));
        assert!(error.next_step().is_some());
        assert!(check(&plain(1), &new.run.header).is_err());
    };
    refused(|run| run.header.backend = Backend::Emulated, &["real GPUs against an emulated box"]);
    refused(|run| run.header.plan.ranks = 4, &["8 ranks on 8 GPUs against 4 ranks on 8 GPUs"]);
    refused(
        |run| run.header.plan.measure.graph_length = 100,
        &["graph mode with 20 samples of 50 calls against graph mode with 20 samples of 100 calls"],
    );
    refused(
        |run| run.header.plan.cases.iter_mut().for_each(|case| case.mode = Mode::Sync),
        &["modes graph against sync"],
    );
    refused(
        |run| run.header.plan.cases.iter_mut().for_each(|case| case.size = Size::elements(case.size.elements * 1000)),
        &["no cell in common: sizes 7168x1"],
    );
    refused(
        |run| run.header.plan.measure.rotate = true,
        &["the same buffers for all calls against buffers of its own for each call"],
    );
    refused(
        |run| {
            run.header.plan.ranks = 16;
            run.header.plan.measure.replays = 7;
        },
        &["16 ranks", "7 samples"],
    );
}

#[test]
fn the_command_to_measure_anew_with_names_no_folder_that_has_the_old_run() {
    let mut old = plain(1);
    old.run.header.provenance.arguments =
        ["ncclsweep", "--gpus", "8", "--out", "before", "--rounds", "3"].map(String::from).to_vec();
    let mut new = plain(2);
    new.run.header.plan.ranks = 4;
    let error = compare(&old, &new, None).unwrap_err();
    assert_eq!(error.next_step(), Some("measure anew as the old run was: ncclsweep --gpus 8 --rounds 3"));
}

#[test]
fn two_different_emulated_boxes_are_refused_and_one_is_not() {
    let emulated = |seed, name: &str| {
        let mut stored = plain(seed);
        stored.run.header.backend = Backend::Emulated;
        stored.run.header.provenance.emulated = Some(name.into());
        stored
    };
    assert!(compare(&emulated(1, "8xpcie-flat"), &emulated(2, "8xpcie-flat"), None).is_ok());
    let error = compare(&emulated(1, "8xpcie-flat"), &emulated(2, "4x4090-phb"), None).unwrap_err();
    assert!(error.message().contains("8xpcie-flat against the emulated box 4x4090-phb"), "{error}");
}

#[test]
fn a_run_is_not_compared_with_itself() {
    let error = compare(&plain(1), &plain(1), None).unwrap_err();
    assert!(error.message().contains("one and the same run"), "{error}");
}

#[test]
fn a_measure_of_a_mode_that_is_not_compared_may_differ() {
    let mut new = plain(2);
    new.run.header.plan.measure.calls = 17;
    assert!(compare(&plain(1), &new, None).is_ok());
}

#[test]
fn each_change_of_the_box_is_told() {
    assert_eq!(changed(|run| run.header.provenance.driver = Some("590.1".into())), ["driver: 580.159.04 → 590.1"]);
    assert_eq!(
        changed(|run| run.header.provenance.libraries[0].build_id = Some("c0ffee".into())),
        ["NCCL build id: unknown → c0ffee"]
    );
    assert_eq!(
        changed(|run| run.header.provenance.libraries[0].version = Some(NcclVersion::new(2, 30, 7))),
        ["NCCL: 2.28.9 → 2.30.7"]
    );
    let swapped = changed(|run| run.header.provenance.gpus.swap(0, 1));
    assert!(
        swapped.len() == 1 && swapped[0].starts_with("PCI ids in rank order: 0000:11:00.0, 0000:21"),
        "{swapped:?}"
    );
    let card = changed(|run| run.header.provenance.gpus[2].uuid = "GPU-new".into());
    assert!(card.len() == 1 && card[0].starts_with("card at rank 2, 0000:31:00.0: GPU-"), "{card:?}");
    assert_eq!(changed(|run| run.header.provenance.gpus[2].uuid = "GPU-redacted-2".into()), Vec::<String>::new());
}

#[test]
fn each_change_of_settings_is_told() {
    let inherit = |run: &mut Run| run.header.provenance.inherited = Vars::from_iter([("NCCL_DEBUG", "INFO")]);
    assert_eq!(changed(inherit), ["inherited NCCL_DEBUG: not set → INFO"]);
    let dropped = |run: &mut Run| {
        inherit(run);
        run.header.plan.clean_env = true;
    };
    assert_eq!(changed(dropped), Vec::<String>::new());
    assert_eq!(
        changed(|run| _ = run.header.plan.sets[1].vars.set("NCCL_PROTO", "Simple")),
        ["pcie-ll: NCCL_PROTO: LL → Simple"]
    );
    assert_eq!(
        changed(|run| run
            .cells
            .iter_mut()
            .filter(|cell| cell.arm.set == 1)
            .for_each(|cell| cell.applied = Applied::Partly)),
        ["settings of pcie-ll: applied → partly"]
    );
}

#[test]
fn what_nccl_chose_is_told_by_set_and_size() {
    let with = |seed: u64, ways: [&str; 2]| {
        let mut stored = plain(seed);
        let chosen = |(case, way): (usize, &str)| {
            let transports = vec![(way.to_owned(), 8)];
            OfCases { cases: vec![case], what: Chosen { transports, ..Chosen::default() } }
        };
        stored.run.proofs = vec![ArmProofs {
            arm: crate::plan::schedule::Arm { set: 1, ..Default::default() },
            set: "pcie-ll".into(),
            identical_to_baseline: false,
            difference: None,
            variables: Vec::new(),
            chosen: ways.into_iter().enumerate().map(chosen).collect(),
        }];
        stored
    };
    let comparison =
        compare(&with(1, ["SHM/direct", "SHM/direct"]), &with(2, ["P2P/direct pointer", "SHM/direct"]), None).unwrap();
    assert_eq!(told(&comparison), ["transports (pairs) of pcie-ll at 7168x1: SHM/direct (8) → P2P/direct pointer (8)"]);
    assert_eq!(comparison.changes[0].topic, Topic::Chosen);
}

/// The run with GPU 0 in this state at the end of every visit.
fn in_state(seed: u64, state: &GpuState) -> Stored {
    let mut stored = plain(seed);
    stored.run.visits.iter_mut().for_each(|visit| visit.gpus = vec![(state.clone(), state.clone())]);
    stored
}

#[test]
fn links_and_clocks_that_changed_are_told_and_throttling_takes_verdicts_back() {
    let healthy =
        GpuState { sm_clock_mhz: Some(2400), link_generation: Some(5), link_width: Some(16), ..GpuState::default() };
    let narrow = GpuState { sm_clock_mhz: Some(2000), link_width: Some(8), ..healthy.clone() };
    let comparison = compare(&in_state(1, &healthy), &in_state(2, &narrow), Some(0.1)).unwrap();
    assert_eq!(told(&comparison), ["PCIe link of GPU 0: Gen5 x16 → Gen5 x8", "SM clock of GPU 0: 2400 MHz → 2000 MHz"]);
    assert_eq!(comparison.cells[0].verdict, Verdict::Same);
    let hot = GpuState { throttle: vec!["hw_thermal_slowdown".into()], ..healthy.clone() };
    let comparison = compare(&in_state(1, &healthy), &in_state(2, &hot), Some(0.1)).unwrap();
    assert_eq!(comparison.cells[0].verdict, Verdict::Undecided);
    let reason = comparison.cells[0].verdict_reason.clone().unwrap();
    assert!(reason.starts_with("measured same, but only the new run was throttled: hw_thermal_slowdown"), "{reason}");
}

#[test]
fn a_hop_changed_where_no_run_of_it_came_near_the_earlier_ones() {
    use crate::record::floor::{FlagHop, Floor, Over};
    let with = |seed: u64, runs_us: &[f64]| {
        let mut stored = plain(seed);
        let hop = FlagHop { gpus: [0, 1], over: Over::PeerMemory, runs_us: runs_us.to_vec(), why: None };
        let started = stored.run.finished;
        stored.run.floor = Some(Floor { started, seconds: 1.0, kernels: vec![], hops: vec![hop], failed: None });
        stored
    };
    let told = |new: &[f64]| told(&compare(&with(1, &[0.6, 0.62]), &with(2, new), None).unwrap());
    assert_eq!(told(&[0.9, 0.94]), ["hop of a flag over peer memory, GPU 0 and 1: 0.61 µs → 0.92 µs"]);
    assert_eq!(told(&[0.61, 0.94]), Vec::<String>::new(), "the runs overlap");
    assert_eq!(told(&[0.94]), Vec::<String>::new(), "one run tells no spread");
}

#[test]
fn further_hosts_are_compared_like_the_first() {
    let two = |seed: u64, driver: &str| {
        let mut stored = plain(seed);
        let mut other = stored.run.header.provenance.clone();
        other.driver = Some(driver.into());
        stored.run.header.provenance.others = vec![other];
        stored
    };
    assert_eq!(told(&compare(&two(1, "580"), &two(2, "590"), None).unwrap()), ["host 2: driver: 580 → 590"]);
    assert_eq!(told(&compare(&plain(1), &two(2, "590"), None).unwrap()), ["hosts: 1 → 2"]);
}
