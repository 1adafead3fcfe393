//! `ncclsweep compare` and `--baseline` as a user starts them, on the emulator, whose truth is known.

use std::path::Path;
use std::process::Output;
use std::sync::LazyLock;
use std::time::Duration;

use assert_cmd::Command;
use tempfile::TempDir;

/// Enough of a run for verdicts at 5%: two sets, one size, six visits each.
const RUN: &str = "--gpus 2 --sizes 7168x1 --rounds 6 --quiet";

/// A run of the emulator's standard box, made once.
static OLD: LazyLock<TempDir> = LazyLock::new(|| {
    let home = tempfile::tempdir().unwrap();
    let ran = ncclsweep(home.path(), &format!("--emulate {RUN} --seed 1 --out old"), None);
    assert!(matches!(ran.status.code(), Some(0 | 5)), "{ran:?}");
    home
});

/// The LL protocol of `pcie-ll` takes a tenth longer.
const SLOWER: &str = "NCCL_PROTO=LL:1.10";

fn ncclsweep(home: &Path, arguments: &str, scale: Option<&str>) -> Output {
    ncclsweep_with(home, arguments, scale.map(|scale| ("NCCLSWEEP_EMULATE_SCALE", scale)))
}

fn ncclsweep_with(home: &Path, arguments: &str, variable: Option<(&str, &str)>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclsweep"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
    command.current_dir(home).timeout(Duration::from_secs(600)).args(arguments.split_whitespace());
    command.envs(variable);
    command.output().unwrap()
}

fn old() -> String {
    OLD.path().join("old").display().to_string()
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    // Words as a reader sees them: without the frame that errors are drawn in.
    text.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_same_box_is_the_same() {
    let home = tempfile::tempdir().unwrap();
    ncclsweep(home.path(), &format!("--emulate {RUN} --seed 2 --out new"), None);
    let ran = ncclsweep(home.path(), &format!("compare {} new", old()), None);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let shown = text(&ran.stdout);
    assert!(shown.contains("changed nothing that the runs tell"), "{shown}");
    assert!(shown.contains("pcie-ll is the same as it was at 7168x1"), "{shown}");
}

#[test]
fn ten_percent_slower_is_found_by_the_command_and_by_a_baseline() {
    let home = tempfile::tempdir().unwrap();
    let ran = ncclsweep(home.path(), &format!("--emulate {RUN} --seed 3 --out new --baseline {}", old()), Some(SLOWER));
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(text(&ran.stdout).contains("pcie-ll is slower than it was at 7168x1"), "{ran:?}");
    let ran = ncclsweep(home.path(), &format!("compare {} new/run.json --format json", old()), None);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let comparison: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let verdicts: Vec<_> =
        comparison["cells"].as_array().unwrap().iter().map(|cell| (&cell["set"], &cell["verdict"])).collect();
    assert_eq!(verdicts, [(&"default".into(), &"same".into()), (&"pcie-ll".into(), &"slower".into())]);
    // A tolerance that covers it makes it the same.
    let ran = ncclsweep(home.path(), &format!("compare {} new --tolerance 20%", old()), None);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}

#[test]
fn one_visit_cannot_tell() {
    let home = tempfile::tempdir().unwrap();
    ncclsweep(home.path(), "--emulate --gpus 2 --sizes 7168x1 --rounds 1 --quiet --out new", Some(SLOWER));
    let ran = ncclsweep(home.path(), &format!("compare {} new", old()), None);
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    assert!(text(&ran.stdout).contains("undecided, one visit cannot tell"), "{ran:?}");
}

#[test]
fn another_box_is_refused_before_anything_is_measured() {
    let home = tempfile::tempdir().unwrap();
    let ran = ncclsweep(home.path(), &format!("--emulate=4x4090-phb {RUN} --out new --baseline {}", old()), None);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(!home.path().join("new").exists());
    let said = text(&ran.stderr);
    assert!(said.contains("8xrtxpro6000-switch against the emulated box 4x4090-phb"), "{said}");
}

#[test]
fn what_is_no_run_is_a_usage_error() {
    let home = tempfile::tempdir().unwrap();
    let ran = ncclsweep(home.path(), &format!("compare {} nowhere", old()), None);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(text(&ran.stderr).contains("cannot read the run nowhere"), "{ran:?}");
}

#[test]
fn a_run_throttled_under_one_set_has_no_verdict_of_it_and_cannot_be_compared() {
    let home = tempfile::tempdir().unwrap();
    let ailment = ("NCCLSWEEP_EMULATE_AILMENT", "thermal@1,when=NCCL_PROTO=LL;clock:0.8@0,when=NCCL_PROTO=LL");
    let ran = ncclsweep_with(home.path(), &format!("--emulate {RUN} --seed 2 --out new"), Some(ailment));
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    let shown = text(&ran.stdout);
    let told = "but only pcie-ll was throttled: hw_thermal_slowdown on GPU 1 in 6 of 6 visits";
    assert!(shown.contains(told) && shown.contains("pcie-ll was throttled: hw_thermal_slowdown"), "{shown}");
    let ran = ncclsweep(home.path(), &format!("compare {} new", old()), None);
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    assert!(text(&ran.stdout).contains("but only the new run was throttled"), "{ran:?}");
}

#[test]
fn arms_under_other_clocks_have_no_verdict() {
    let home = tempfile::tempdir().unwrap();
    let ailment = ("NCCLSWEEP_EMULATE_AILMENT", "clock:0.9@0,when=NCCL_PROTO=LL");
    let ran = ncclsweep_with(home.path(), &format!("--emulate {RUN} --seed 2"), Some(ailment));
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
    assert!(text(&ran.stdout).contains("but the SM clock of GPU 0 was"), "{ran:?}");
}

#[test]
fn a_step_of_a_model_is_told_under_the_report() {
    let home = tempfile::tempdir().unwrap();
    let ran = ncclsweep(home.path(), &format!("--emulate {RUN} --model kimi-k2.5 --step-time 29.5,19"), None);
    let shown = text(&ran.stdout);
    assert!(shown.contains("per decode step · 122 all-reduces (kimi-k2.5: 61 layers × 2)"), "{shown}");
    assert!(shown.contains("by which the step became faster: all-reduces explain"), "{shown}");
    let ran = ncclsweep(home.path(), "--emulate --model kimi-k9", None);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
}
