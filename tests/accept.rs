//! `ncclsweep accept` as a user starts it, on the emulator.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use ncclsweep::accept::AcceptPlan;

/// What the tests measure: two sets, one size, six visits each.
const MEASURED: &str = "gpus = 2\nsizes = \"7168x1\"\nrounds = 6\nseed = 5\nmodes = [\"graph\"]\n\
                        [sets.pcie-ll]\nNCCL_PROTO = \"LL\"\nNCCL_ALGO = \"Ring\"\n";

fn ncclsweep(home: &Path, arguments: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ncclsweep"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", home);
    command.current_dir(home).timeout(Duration::from_secs(600)).args(arguments.split_whitespace());
    command.envs(variables.iter().copied());
    command.output().unwrap()
}

fn home(require: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("plan.toml"), format!("{MEASURED}{require}")).unwrap();
    home
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap().replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

const SOUND: &str = "[require]\ngpus = 2\ngpu-name = \"RTX PRO 6000\"\nlink-width = 16\nchecked-outputs = 100\n\
                     applied = \"pcie-ll\"\nno-throttling = true\nno-replays = true\n\
                     [[require.latency]]\nset = \"pcie-ll\"\np50 = \"<= 1ms\"\np99 = \"<= 1ms\"\n";

#[test]
fn the_example_is_a_plan_that_can_be_judged() {
    let home = tempfile::tempdir().unwrap();
    let ran = ncclsweep(home.path(), "accept --example", &[]);
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(0), String::new()));
    let plan = AcceptPlan::parse("example", &String::from_utf8(ran.stdout).unwrap()).unwrap();
    assert_eq!(plan.config.sets.len(), 2);
    for wrong in ["accept", "accept plan.toml --example"] {
        assert_eq!(ncclsweep(home.path(), wrong, &[]).status.code(), Some(2), "{wrong}");
    }
    for without in ["accept", "accept plan.toml"] {
        let ran = ncclsweep(home.path(), without, &[]);
        assert!(text(&ran.stderr).contains("ncclsweep accept --example > plan.toml"), "{without}: {ran:?}");
    }
}

#[test]
fn a_sound_box_is_accepted_and_its_run_can_be_judged_again() {
    let home = home(SOUND);
    let ran = ncclsweep(home.path(), "accept plan.toml --emulate --quiet --out run --junit accept.xml", &[]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let shown = text(&ran.stdout);
    assert!(shown.contains("EMULATED") && shown.contains("accepted: all 11 requirements hold"), "{shown}");
    let junit = std::fs::read_to_string(home.path().join("accept.xml")).unwrap();
    assert!(junit.contains(r#"tests="11""#) && junit.contains(r#"failures="0""#), "{junit}");
    let again = ncclsweep(home.path(), "accept plan.toml --run run", &[]);
    assert_eq!((again.status.code(), &again.stdout), (Some(0), &ran.stdout));
    // The same run, one GPU too few, and a bound that no box meets.
    let strict = SOUND.replace("gpus = 2", "gpus = 8").replace("<= 1ms", "<= 1us");
    std::fs::write(home.path().join("strict.toml"), format!("{MEASURED}{strict}")).unwrap();
    let ran = ncclsweep(home.path(), "accept strict.toml --run run --format json", &[]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let acceptance: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let all = acceptance["requirements"].as_array().unwrap();
    assert_eq!(all.iter().filter(|judged| judged["outcome"] == "fail").count(), 3, "{acceptance:#}");
    // Another question: no run of this plan, however fast.
    std::fs::write(home.path().join("other.toml"), format!("dtype = \"f32\"\n{MEASURED}{SOUND}")).unwrap();
    let ran = ncclsweep(home.path(), "accept other.toml --run run", &[]);
    assert_eq!(ran.status.code(), Some(4), "{ran:?}");
    assert!(text(&ran.stdout).contains("what was measured: not measured, no 7168x1 f32"), "{ran:?}");
    // Without the samples of its journal, a tail has no interval.
    std::fs::remove_file(home.path().join("run/journal.jsonl")).unwrap();
    let ran = ncclsweep(home.path(), "accept plan.toml --run run", &[]);
    assert_eq!(ran.status.code(), Some(5), "{ran:?}");
}

#[test]
fn settings_of_the_shell_are_refused_before_a_run_and_not_accepted_after_one() {
    let home = home(SOUND);
    let shell = [("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "Simple"), ("NCCL_DEBUG", "WARN")];
    let ran = ncclsweep(home.path(), "accept plan.toml --emulate --quiet --out run", &shell);
    assert_eq!((ran.status.code(), home.path().join("run").exists()), (Some(2), false), "{ran:?}");
    let told = text(&ran.stderr);
    assert!(told.contains("brings NCCL_ALGO=Tree, NCCL_PROTO=Simple") && told.contains("clean-env = true"), "{told}");
    std::fs::write(home.path().join("sweep.toml"), MEASURED).unwrap();
    ncclsweep(home.path(), "--emulate --config sweep.toml --quiet --out run", &shell);
    let ran = ncclsweep(home.path(), "accept plan.toml --run run", &[]);
    assert_eq!(ran.status.code(), Some(4), "{ran:?}");
    let shown = text(&ran.stdout);
    assert!(shown.contains("inherited and not in the plan: NCCL_ALGO=Tree, NCCL_PROTO=Simple"), "{shown}");
    // A plan that drops what is inherited measures what it says.
    std::fs::write(home.path().join("clean.toml"), format!("clean-env = true\n{MEASURED}{SOUND}")).unwrap();
    let ran = ncclsweep(home.path(), "accept clean.toml --emulate --quiet", &shell);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
}

#[test]
fn throttling_and_link_errors_are_failures() {
    let home = home(SOUND);
    let ailment = [("NCCLSWEEP_EMULATE_AILMENT", "power@1;replays:3@0")];
    let ran = ncclsweep(home.path(), "accept plan.toml --emulate --quiet", &ailment);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let shown = text(&ran.stdout);
    assert!(shown.contains("GPUs throttled: fail, GPU 1: sw_power_cap"), "{shown}");
    assert!(shown.contains("of 11 requirements 2 failed"), "{shown}");
}

#[test]
fn a_box_that_became_slower_than_its_golden_run_is_not_accepted() {
    let home = home("[require.golden]\nrun = \"golden\"\n");
    let golden = "--emulate --config plan.toml --quiet --out golden";
    // The plan is no configuration as it stands: the golden run is made by the same settings.
    std::fs::write(home.path().join("sweep.toml"), MEASURED).unwrap();
    ncclsweep(home.path(), &golden.replace("plan.toml", "sweep.toml"), &[]);
    let slower = [("NCCLSWEEP_EMULATE_SCALE", "NCCL_PROTO=LL:1.10")];
    let ran = ncclsweep(home.path(), "accept plan.toml --emulate --quiet", &slower);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let shown = text(&ran.stdout);
    assert!(shown.contains("not accepted: of 5 requirements 1 failed"), "{shown}");
    let other = ncclsweep(home.path(), "accept plan.toml --emulate=4x4090-phb --quiet --out other", &[]);
    assert_eq!((other.status.code(), home.path().join("other").exists()), (Some(2), false), "{other:?}");
}

#[test]
fn wrong_data_is_a_failure_and_a_fault_of_the_plan_is_shown_in_its_place() {
    let home = home(SOUND);
    let wrong = [("NCCLSWEEP_EMULATE_FAULT", "wrong@replay,rank=1,when=NCCL_PROTO=LL")];
    let ran = ncclsweep(home.path(), "accept plan.toml --emulate --quiet", &wrong);
    // Not accepted, and its latencies are those of wrong data: not measured, the graver end.
    assert_eq!(ran.status.code(), Some(4), "{ran:?}");
    assert!(text(&ran.stdout).contains("wrong outputs: fail"), "{ran:?}");
    std::fs::write(home.path().join("plan.toml"), "[require]\ngpu = 8\n").unwrap();
    let ran = ncclsweep(home.path(), "accept plan.toml --emulate", &[]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(text(&ran.stderr).contains("did you mean `gpus`?"), "{ran:?}");
}
