//! Answers of interpreters.

use super::super::Status;
use super::*;

const WHEEL: &str = "/venv/nvidia/nccl/lib/libnccl.so.2";

fn told(variables: &[(&str, &str)]) -> Told {
    Told {
        executable: Some("/venv/bin/python3".into()),
        version: "3.12.3".into(),
        prefix: "/venv".into(),
        variables: variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        torch: Some(loaded(&[WHEEL])),
        by_name: Some(loaded(&[WHEEL])),
        wheels: vec![WHEEL.into()],
        ..Told::default()
    }
}

fn loaded(files: &[&str]) -> Loaded {
    Loaded { version: Some("2.9.0".into()), mapped: files.iter().map(|file| (*file).to_owned()).collect(), error: None }
}

fn version(path: &Path) -> Option<NcclVersion> {
    path.starts_with("/venv").then_some(NcclVersion::new(2, 28, 3))
}

fn judged(own: Told, child: Option<Told>, environment: &[(&str, &str)]) -> Checkup {
    let failure = child.is_none().then(|| "RuntimeError('no')".to_owned());
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    look(Answer { own, child, failure }, &environment, &version)
}

#[track_caller]
fn named<'a>(checkup: &'a Checkup, name: &str) -> &'a Check {
    checkup
        .checks
        .iter()
        .find(|check| check.name == name)
        .unwrap_or_else(|| panic!("no check of {name}: {:?}", checkup.checks))
}

#[test]
fn an_environment_in_order_has_nothing_to_tell_but_facts() {
    let set = [("NCCL_PROTO", "LL")];
    let checkup = judged(told(&set), Some(told(&set)), &[("NCCL_PROTO", "LL"), ("PATH", "/bin")]);
    assert!(checkup.checks.iter().all(|check| check.status == Status::Ok), "{:?}", checkup.checks);
    assert_eq!(named(&checkup, "library").evidence[0], format!("torch 2.9.0 loads 2.28.3 {WHEEL}"));
    assert_eq!(named(&checkup, "variables").evidence, ["a spawned child sees NCCL_PROTO=LL"]);
}

#[test]
fn variables_that_start_up_code_takes_or_sets_are_told() {
    let own = Told {
        sitecustomize: Some("/venv/sitecustomize.py".into()),
        ..told(&[("NCCL_ALGO", "Tree"), ("NCCL_NTHREADS", "256")])
    };
    let child = told(&[("NCCL_ALGO", "Tree")]);
    let checkup = judged(own, Some(child), &[("NCCL_PROTO", "LL"), ("NCCL_ALGO", "Ring")]);
    let check = named(&checkup, "variables");
    assert_eq!(check.status, Status::Warning);
    assert_eq!(
        check.evidence,
        [
            "a spawned child sees NCCL_ALGO=Tree",
            "the start-up code takes NCCL_PROTO away",
            "the start-up code changes NCCL_ALGO from Ring to Tree",
            "the start-up code sets NCCL_NTHREADS=256",
            "the way to the child takes NCCL_NTHREADS away",
        ]
    );
    assert_eq!(named(&checkup, "start-up code").evidence, ["sitecustomize: /venv/sitecustomize.py"]);
    assert_eq!(named(&checkup, "child differs").status, Status::Fault, "the child has no sitecustomize");
}

#[test]
fn two_libraries_in_one_process_are_a_fault() {
    let preloaded = Told { before: vec!["/opt/libnccl.so.2".into()], ..told(&[]) };
    let checkup = judged(preloaded.clone(), Some(preloaded), &[]);
    let check = named(&checkup, "library");
    assert_eq!(
        (check.status, check.evidence[0].as_str()),
        (Status::Fault, "loaded before anything asks for it: /opt/libnccl.so.2, version not told")
    );
}

#[test]
fn a_child_that_loads_another_library_or_does_not_start_is_a_fault() {
    let other = Told { torch: Some(loaded(&["/opt/libnccl.so.2"])), by_name: None, ..told(&[]) };
    let checkup = judged(told(&[]), Some(other), &[]);
    let check = named(&checkup, "child differs");
    assert_eq!(check.evidence, [format!("NCCL: {WHEEL} here, /opt/libnccl.so.2 in a child")]);
    let checkup = judged(told(&[]), None, &[]);
    assert_eq!(named(&checkup, "spawned child").status, Status::Fault);
    assert_eq!(named(&checkup, "variables").evidence, ["the interpreter sees no NCCL_ variable"]);
}

#[test]
fn a_wheel_that_nothing_loads_and_a_broken_torch_are_told() {
    let absent = Loaded { error: Some("cannot open shared object file".into()), ..Loaded::default() };
    let bare = Told { torch: None, by_name: Some(absent.clone()), ..told(&[]) };
    let checkup = judged(bare.clone(), Some(bare), &[]);
    let check = named(&checkup, "library");
    assert_eq!(check.status, Status::Unknown);
    assert!(check.evidence[1].starts_with("a wheel that is not loaded by itself: 2.28.3"), "{check:?}");
    let broken = Told { torch: Some(absent), ..told(&[]) };
    let checkup = judged(broken.clone(), Some(broken), &[]);
    assert_eq!(named(&checkup, "library").status, Status::Fault);
}

#[test]
fn an_answer_of_any_python_is_read() {
    let text = r#"{"own": {"executable": null, "version": "3.6.9", "variables": {}, "later": 1}, "child": null, "failure": "x"}"#;
    let answer: Answer = serde_json::from_str(text).unwrap();
    assert_eq!((answer.own.version.as_str(), answer.child), ("3.6.9", None));
}
