//! Values that NCCL was recorded to spoil: each is caught before a worker is started, or seen in the visit.

use ncclsweep::record::run::{Applied, Verdict};

use crate::support::{OUT, Program, cells};

/// The settings of `<version>-bad.log`: one bad value after the other.
fn recorded(version: &str) -> Vec<String> {
    let path = format!("{}/tests/data/nccl-log/{version}-bad.log", env!("CARGO_MANIFEST_DIR"));
    let log = std::fs::read_to_string(path).unwrap();
    let head = format!("== {version} ");
    log.lines().filter_map(|line| line.strip_prefix(&head)).map(str::to_owned).collect()
}

fn with(version: &str, setting: &str) -> Program {
    let program = Program::least("").env("NCCLSWEEP_EMULATE_NCCL", version).keeping(OUT);
    program.args(["--set", &format!("bad:{setting}")])
}

/// Collectives can be named since 2.24.
fn is_legal(version: &str, setting: &str) -> bool {
    version == "2.28.3" && setting == "NCCL_ALGO=allreduce:ring"
}

#[test]
fn every_recorded_bad_value_is_refused_before_a_worker_starts() {
    for version in ["2.21.5", "2.28.3"] {
        let settings = recorded(version);
        assert_eq!(settings.len(), 9);
        for setting in settings.iter().filter(|setting| !is_legal(version, setting)) {
            let ran = with(version, setting).run().exits(2);
            ran.tells(setting.split('=').next().unwrap());
            assert!(!ran.folder().exists(), "{setting} on {version}: a run was begun");
        }
    }
}

#[test]
fn what_is_legal_in_a_version_runs_there_and_is_applied() {
    let run = with("2.28.3", "NCCL_ALGO=allreduce:ring").run().exits(5).document();
    assert_eq!(cells(&run, "bad")[0].applied, Applied::Applied);
}

#[test]
fn a_network_that_does_not_reduce_is_found_by_the_visit() {
    let setting = "NCCL_ALGO=CollNetDirect,NCCL_COLLNET_ENABLE=1";
    let bad = |version: &str| {
        let program = Program::least("").env("NCCLSWEEP_EMULATE_NCCL", version).keeping(OUT);
        program.args(["--set", &format!("bad:{setting}")]).run()
    };
    // Since 2.24 the first collective fails; before, NCCL takes ring and tree in silence.
    let ran = bad("2.28.3").exits(4);
    let cell = cells(&ran.document(), "bad")[0].clone();
    assert!(
        cell.verdict == Verdict::Invalid && cell.verdict_reason.unwrap().contains("no algorithm/protocol available")
    );
    assert!(ran.stdout.contains("cannot be had"), "{}", ran.stdout);
    assert_eq!(cells(&bad("2.21.5").document(), "bad")[0].applied, Applied::Overridden);
}
