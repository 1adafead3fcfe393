use super::*;
use crate::doctor::{Details, conf};

fn check(name: &str, status: Status, evidence: &[&str], next: &[&str]) -> Check {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Check { name: name.to_owned(), status, evidence: owned(evidence), next: owned(next) }
}

fn checkup() -> Checkup {
    Checkup {
        schema: 1,
        subject: "this machine".into(),
        checks: vec![
            check("driver", Status::Ok, &["580.159.04"], &[]),
            check(
                "PCIe links",
                Status::Fault,
                &["GPU 0000:01:00.0: Gen5 x16", "GPU 0000:41:00.0: runs on x4 of x16: its slot has 4 lanes"],
                &["put the card into a slot of all its lanes"],
            ),
            check("ACS", Status::Unknown, &["the ports' configuration cannot be read"], &[]),
            check("pids 100001, 100002, 100003", Status::Warning, &["python3 server.py \u{1b}[2J (parent 1)"], &[]),
        ],
        limits: vec!["a note".into()],
        details: Details::Conf(conf::Facts::default()),
    }
}

#[test]
fn checks_stand_under_each_other_with_their_evidence_and_next_steps() {
    insta::assert_snapshot!(render(&checkup(), Style::default()), @r"
    ncclsweep 0.1.0 · doctor of this machine

      ok       driver      580.159.04
      fault    PCIe links  GPU 0000:01:00.0: Gen5 x16
                           GPU 0000:41:00.0: runs on x4 of x16: its slot has 4 lanes
                           → put the card into a slot of all its lanes
      unknown  ACS         the ports' configuration cannot be read
      warning  pids 100001, 100002, 100003
                           python3 server.py [2J (parent 1)

    note  a note

    1 fault, 1 warning, 1 unknown, 1 ok
    ");
}

#[test]
fn a_checkup_is_json_for_programs() {
    let mut out = Vec::new();
    write(&checkup(), Form::Json, Style::default(), None, &mut out).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&document["schema"], &document["checks"][1]["status"]), (&1.into(), &"fault".into()));
    assert!(document["details"]["conf"]["effective"].is_array());
}

#[test]
fn forms_are_named() {
    assert_eq!("JSON".parse::<Form>().unwrap(), Form::Json);
    assert!("csv".parse::<Form>().unwrap_err().next_step().unwrap().contains("table, json"));
}

#[test]
fn paths_and_hosts_go_when_they_are_redacted() {
    let mut secret = checkup();
    secret.subject = "/home/ada/server.log".into();
    secret.checks[0].evidence = vec!["box-7 loads /home/ada/venv/libnccl.so.2".into()];
    let mut redactor = Redactor::default();
    redactor.learn_host("box-7");
    for form in [Form::Table, Form::Json] {
        let mut out = Vec::new();
        write(&secret, form, Style::default(), Some(&redactor), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("ada") && !text.contains("box-7") && text.contains("libnccl.so.2"), "{text}");
    }
}
