use super::*;
use crate::plan::env_set::Vars;
use crate::record::fixture;

const DEFAULT: Arm = Arm {
    set: 0,
    library: 0,
    launch: crate::plan::schedule::Launch::Threads,
    alive: 0,
    register: crate::nccl::register::Register::None,
};
const LL: Arm = Arm { set: 1, ..DEFAULT };

fn plan() -> Plan {
    fixture::two_sets().header.plan
}

fn setup(inherited: &[(&str, &str)], emulation: Option<Emulation>) -> Setup {
    Setup {
        inherited: inherited.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        library_folders: vec!["/private/library-0".into(), "/private/library-1".into()],
        emulation,
        ..Setup::default()
    }
}

/// A variable with its origin.
fn of<'a>(environment: &'a Environment, name: &str) -> Option<(&'a str, Origin)> {
    environment.iter().find(|(known, ..)| *known == name).map(|(_, value, origin)| (value, origin))
}

#[test]
fn a_workers_environment_is_inherited_below_base_below_set() {
    let mut plan = plan();
    plan.base = Vars::from_iter([("NCCL_NTHREADS", "256"), ("NCCL_DEBUG", "WARN")]);
    let setup = setup(&[("NCCL_DEBUG", "INFO"), ("NCCL_PROTO", "Simple"), ("HOME", "/root")], None);
    let (default, ll) = (setup.environment(&plan, DEFAULT), setup.environment(&plan, LL));
    assert_eq!(of(&default, "NCCL_PROTO"), Some(("Simple", Origin::Inherited)));
    assert_eq!(of(&ll, "NCCL_PROTO"), Some(("LL", Origin::Set)));
    assert_eq!(of(&default, "NCCL_NTHREADS"), Some(("256", Origin::Base)));
    assert_eq!(of(&ll, "NCCL_NTHREADS"), Some(("512", Origin::Set)));
    assert_eq!(of(&ll, "NCCL_DEBUG"), Some(("WARN", Origin::Base)));
    assert_eq!(of(&ll, "HOME"), Some(("/root", Origin::Inherited)));
}

#[test]
fn the_arms_library_leads_the_loaders_path_and_what_was_there_follows() {
    let setup = setup(&[("LD_LIBRARY_PATH", "/opt/a:/opt/b")], None);
    let second = Arm { set: 1, library: 1, ..Arm::default() };
    let environment = setup.environment(&plan(), second);
    assert_eq!(of(&environment, "LD_LIBRARY_PATH"), Some(("/private/library-1:/opt/a:/opt/b", Origin::Tool)));
}

#[test]
fn an_empty_loaders_path_does_not_become_the_current_folder() {
    for inherited in [&[("LD_LIBRARY_PATH", "")][..], &[]] {
        let environment = setup(inherited, None).environment(&plan(), DEFAULT);
        assert_eq!(environment.get("LD_LIBRARY_PATH"), Some("/private/library-0"), "a colon at its end would mean `.`");
    }
}

#[test]
fn nothing_of_the_emulator_is_in_the_environment_of_a_real_run() {
    let environment = setup(&[("PATH", "/bin")], None).environment(&plan(), LL);
    assert!(environment.iter().all(|(name, ..)| name != "LD_PRELOAD" && !name.contains("EMULATE")));
    let emulation = Emulation { topology: "8xpcie-flat".into() };
    let environment = setup(&[("PATH", "/bin")], Some(emulation)).environment(&plan(), LL);
    assert_eq!(of(&environment, "LD_PRELOAD"), Some(("/private/library-0/libcuda.so.1", Origin::Tool)));
    assert_eq!(of(&environment, "NCCLSWEEP_EMULATE_TOPOLOGY"), Some(("8xpcie-flat", Origin::Tool)));
}

#[test]
fn only_ranks_that_share_a_gpu_need_the_variable_that_allows_it() {
    let (mut plan, setup) = (plan(), setup(&[], None));
    assert_eq!(setup.environment(&plan, LL).get("NCCL_MULTI_RANK_GPU_ENABLE"), None);
    plan.devices.truncate(2);
    let environment = setup.environment(&plan, LL);
    assert_eq!(of(&environment, "NCCL_MULTI_RANK_GPU_ENABLE"), Some(("1", Origin::Tool)));
}

#[test]
fn threads_that_share_a_gpu_have_hardware_queues_of_their_own_and_processes_leave_them_to_each_other() {
    let (mut plan, setup) = (plan(), setup(&[], None));
    plan.devices.truncate(2);
    let queues = |launch| setup.environment(&plan, Arm { launch, ..LL }).get(CONNECTIONS).map(str::to_owned);
    assert_eq!([Launch::Threads, Launch::Processes].map(queues), [Some("32".to_owned()), None]);
}

#[test]
fn ranks_go_round_the_gpus_in_their_order() {
    let mut plan = plan();
    plan.devices = vec![5, 2, 7];
    let planned = Planned { index: 0, round: 0, arm: DEFAULT, untimed: false };
    assert_eq!(job(&plan, &setup(&[], None), planned, 1).devices, [5, 2, 7, 5, 2, 7, 5, 2]);
}

#[test]
fn visits_differ_in_their_seed_and_a_run_repeats_them() {
    let seeds: std::collections::BTreeSet<u64> = (0..1000).map(|index| visit_seed(42, index)).collect();
    assert_eq!(seeds.len(), 1000);
    assert_eq!(visit_seed(42, 7), visit_seed(42, 7));
    assert_ne!(visit_seed(42, 7), visit_seed(43, 7));
}

#[test]
fn the_last_words_of_a_worker_are_kept_short() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let lines: Vec<String> = (0..50_000).map(|n| format!("line {n}\n\n")).collect();
    std::fs::write(file.path(), lines.concat() + &"x".repeat(10_000)).unwrap();
    let last = last_lines(file.path());
    assert_eq!(last.len(), EVIDENCE_LINES);
    assert_eq!(last[0], "line 49989");
    assert_eq!(last[EVIDENCE_LINES - 1].len(), EVIDENCE_WIDTH);
    assert_eq!(last_lines(std::path::Path::new("/nonexistent")), [] as [String; 0]);
}

#[test]
fn ranks_get_the_cpus_near_their_gpu_only_when_that_is_asked_for() {
    let mut plan = plan();
    (plan.devices, plan.ranks) = (vec![5, 2, 7], 4);
    let near = [(2, "0-7"), (5, "8-15")].map(|(gpu, cpus)| (gpu, cpus.parse().unwrap()));
    let setup = Setup { near: near.into(), ..setup(&[], None) };
    let planned = Planned { index: 0, round: 0, arm: Arm::default(), untimed: false };
    assert!(job(&plan, &setup, planned, 1).cpus.is_empty());
    plan.cpu_affinity = "near".parse().unwrap();
    let cpus = job(&plan, &setup, planned, 1).cpus;
    let shown: Vec<_> = cpus.iter().map(|cpus| cpus.as_ref().map(ToString::to_string)).collect();
    assert_eq!(shown, [Some("8-15".into()), Some("0-7".into()), None, Some("8-15".into())]);
}
