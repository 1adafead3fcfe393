use std::time::Instant;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::*;
use crate::plan::environment::{Environment, Origin};
use crate::wire::Received;

const SOON: Duration = Duration::from_secs(20);

/// A shell that runs `script` in place of the executable; what it writes to descriptor 3 is heard as texts.
fn shell(script: &str, job: Option<&str>) -> Child<String> {
    let mut environment = Environment::default();
    environment.set("GIVEN", "this", Origin::Set);
    let wrap = ["/bin/sh", "-c", script].map(str::to_owned);
    let output = tempfile::NamedTempFile::new().unwrap();
    let spec = Spec { wrap: &wrap, arguments: &[], environment: &environment, output: output.path() };
    Child::spawn(&spec, job.as_ref()).unwrap()
}

fn hear(child: &Child<String>) -> String {
    match child.hear(SOON, || false) {
        Heard::Received(Received::Message(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// Waits until there is no such process.
fn gone(pid: i32) {
    let limit = Instant::now() + SOON;
    while is_alive(pid) {
        assert!(Instant::now() < limit, "{pid} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A killed grandchild may wait as a zombie for an init that never reaps: it runs no longer.
fn is_alive(pid: i32) -> bool {
    let zombie = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
    };
    kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH) && !zombie()
}

#[test]
fn a_child_has_the_environment_it_is_given_and_nothing_else() {
    assert!(std::env::vars_os().count() > 1, "there is something to inherit");
    let child = shell(r#"printf '"%s"\n' "$(tr '\0' ';' < /proc/$$/environ)" >&3"#, None);
    assert_eq!(hear(&child), "GIVEN=this;");
}

#[test]
fn a_job_arrives_on_stdin_as_a_line() {
    let child = shell("cat >&3", Some("measure this"));
    assert_eq!(hear(&child), "measure this");
}

#[test]
fn what_a_child_said_before_it_crashed_is_heard() {
    let mut child = shell(r#"echo '"one"' >&3; echo '"two"' >&3; kill -SEGV $$"#, None);
    assert_eq!((hear(&child), hear(&child)), ("one".to_owned(), "two".to_owned()));
    assert!(matches!(child.hear(SOON, || false), Heard::Received(Received::End)));
    let status = child.wait(SOON, || false).unwrap().unwrap();
    assert_eq!(signal_of(status).as_deref(), Some("SIGSEGV"));
}

#[test]
fn a_silent_child_is_waited_for_until_its_deadline() {
    let child = shell("exec sleep 60", None);
    let begun = Instant::now();
    let heard = child.hear(Duration::from_millis(120), || false);
    assert!(matches!(heard, Heard::Silence), "{heard:?}");
    assert!(begun.elapsed() >= Duration::from_millis(120));
}

#[test]
fn an_interrupt_ends_the_waiting_long_before_the_deadline() {
    let child = shell("exec sleep 60", None);
    let begun = Instant::now();
    let heard = child.hear(SOON, || begun.elapsed() > Duration::from_millis(60));
    assert!(matches!(heard, Heard::Interrupted), "{heard:?}");
    assert!(begun.elapsed() < SOON / 2);
}

#[test]
fn a_child_that_ignores_the_question_is_killed_with_all_its_descendants() {
    let mut child = shell(r#"trap '' TERM; sleep 60 & echo "\"$!\"" >&3; wait; wait"#, None);
    let descendant: i32 = hear(&child).parse().unwrap();
    assert!(is_alive(descendant));
    let status = child.end().unwrap();
    assert_eq!(signal_of(status).as_deref(), Some("SIGKILL"));
    gone(descendant);
}

#[test]
fn nothing_keeps_running_when_a_visit_is_left_in_whatever_way() {
    let child = shell(r#"sleep 60 & echo "\"$!\"" >&3; wait"#, None);
    let descendant: i32 = hear(&child).parse().unwrap();
    drop(child);
    gone(descendant);
}

#[test]
fn a_command_that_does_not_exist_is_an_error_of_the_start() {
    let environment = Environment::default();
    let output = tempfile::NamedTempFile::new().unwrap();
    let wrap = ["/nonexistent/command".to_owned()];
    let spec = Spec { wrap: &wrap, arguments: &[], environment: &environment, output: output.path() };
    let error = Child::<String>::spawn(&spec, None::<&()>).err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}
