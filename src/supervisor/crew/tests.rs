use std::time::Instant;

use nix::errno::Errno;
use nix::sys::signal::kill;

use super::*;
use crate::plan::environment::Environment;

const SOON: Duration = Duration::from_secs(20);

/// Shells that run these scripts; what they write to descriptor 3 is heard as texts.
fn shells(scripts: &[&str], memory: Option<&OwnedFd>) -> Crew<String> {
    let environment = Environment::default();
    let output = tempfile::NamedTempFile::new().unwrap();
    let wraps: Vec<[String; 3]> = scripts.iter().map(|script| ["/bin/sh", "-c", script].map(str::to_owned)).collect();
    let spec = |wrap| (Spec { wrap, arguments: &[], environment: &environment, output: output.path() }, Some("job"));
    Crew::start(&wraps.iter().map(|wrap| spec(wrap.as_slice())).collect::<Vec<_>>(), memory).unwrap()
}

fn hear(crew: &Crew<String>) -> (usize, Received<String>) {
    match crew.hear(&Awake::start(), SOON, || false) {
        (place, Heard::Received(received)) => (place, received),
        other => panic!("{other:?}"),
    }
}

fn is_there(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH)
}

#[test]
fn every_message_is_told_with_whose_it_is() {
    let crew = shells(&["echo '\"a\"' >&3", "sleep 0.2; echo '\"b\"' >&3; sleep 60"], None);
    let heard: Vec<_> = (0..3).map(|_| hear(&crew)).collect();
    for expected in [(0, Received::Message("a".to_owned())), (0, Received::End), (1, Received::Message("b".to_owned()))]
    {
        assert!(heard.contains(&expected), "{heard:?}");
    }
}

#[test]
fn all_members_are_in_one_group_and_end_together() {
    let script = r#"trap '' TERM; echo "\"$$\"" >&3; sleep 60; sleep 60"#;
    let mut crew = shells(&[script; 4], None);
    let pids: Vec<i32> = (0..4)
        .map(|_| match hear(&crew) {
            (_, Received::Message(pid)) => pid.parse().unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    let group = Pid::from_raw(crew.id().cast_signed());
    assert!(pids.iter().all(|pid| nix::unistd::getpgid(Some(Pid::from_raw(*pid))) == Ok(group)));
    crew.end().unwrap();
    assert!(!pids.into_iter().any(is_there));
}

#[test]
fn a_member_that_dies_first_is_told_at_once_and_the_group_still_ends() {
    let mut crew = shells(&["kill -KILL $$", r#"echo "\"$$\"" >&3; sleep 60"#], None);
    let begun = Instant::now();
    let mut pid = None;
    let died = std::iter::from_fn(|| Some(hear(&crew))).find_map(|(place, received)| match received {
        Received::Message(text) => {
            pid = Some(text.parse::<i32>().unwrap());
            None
        }
        _ => Some(place),
    });
    assert_eq!(died, Some(0));
    assert!(begun.elapsed() < SOON / 2);
    let pid = pid.unwrap_or_else(|| match hear(&crew) {
        (1, Received::Message(text)) => text.parse().unwrap(),
        other => panic!("{other:?}"),
    });
    assert!(is_there(pid));
    crew.end().unwrap();
    assert!(!is_there(pid), "its leader is gone, the group is not");
}

#[test]
fn all_members_have_the_same_memory() {
    let memory = memory().unwrap();
    let write = "printf 1234 >&4; echo '\"written\"' >&3";
    let crew = shells(&[write, "sleep 60"], Some(&memory));
    assert_eq!(hear(&crew), (0, Received::Message("written".to_owned())));
    assert_eq!(nix::sys::stat::fstat(&memory).unwrap().st_size, 4);
}
