//! How runs of several agents end, or never begin.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use ncclsweep::record::run::Run;
use ncclsweep::record::visit::{Doing, Outcome};

use crate::launched::{Agents, Ended};
use crate::left_over::left_over;
use crate::{document, mpirun, start};

/// More visits than are made before an agent is gone.
const LONG: &str = "--gpus 4 --rounds 50";

/// Waits until the journal has `lines` lines: the head of the run, then a visit each.
fn wait_for(agents: &mut Agents, lines: usize) {
    let journal = agents.folder().join("run/journal.jsonl");
    let written = || std::fs::read(&journal).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count();
    while written() < lines {
        assert!(agents.is_running(0), "{:?}", agents.end(0));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What must hold after an agent was lost: the run tells which, keeps what it had, and leaves nobody behind.
#[track_caller]
fn is_kept(agents: &Agents, first: &Ended, lost: &str) -> Run {
    assert_eq!(first.code, Some(4), "{first:?}");
    assert!(first.stderr.contains(lost), "{first:?}");
    assert_eq!(left_over(agents.folder()), None);
    let run = document(agents);
    assert!(!run.complete && run.warnings[0].contains(lost), "{:?}", run.warnings);
    assert_eq!(agents.visits().unwrap(), run.visits.len());
    assert!(!run.visits.is_empty() && run.visits.iter().all(|visit| visit.outcome == Outcome::Completed));
    run
}

#[test]
fn an_agent_that_is_killed_ends_the_visit_everywhere_by_name() {
    let mut agents = start(3, LONG, &[]);
    wait_for(&mut agents, 2);
    agents.signal(1, Signal::SIGKILL);
    let ended = agents.all();
    is_kept(&agents, &ended[0], "(agent 1, ranks 4-7): its agent is gone");
    assert_eq!(ended[2].code, Some(0), "{ended:?}");
}

#[test]
fn an_agent_that_stands_still_ends_the_visit_everywhere_by_name() {
    let mut agents = start(2, &format!("{LONG} --deadline 8s"), &[]);
    wait_for(&mut agents, 2);
    agents.signal(1, Signal::SIGSTOP);
    // It is told to go in vain until it goes on.
    let waited = Instant::now();
    while !agents.folder().join("run/report.html").exists() {
        assert!(agents.is_running(0) && waited.elapsed().as_secs() < 120);
        std::thread::sleep(Duration::from_millis(20));
    }
    agents.signal(1, Signal::SIGCONT);
    let ended = agents.all();
    // Between two visits it is its workers that do not come.
    let run = is_kept(&agents, &ended[0], "(agent 1, ranks 4-7): its ");
    let said = ["its agent does not answer", "its workers did not come within 8 s"];
    assert!(said.iter().any(|said| run.warnings[0].contains(said)), "{:?}", run.warnings);
}

/// Stops these agents for longer than the deadline of [`SHORT`], and lets them go on in this order.
fn suspend(agents: &Agents, which: &[usize]) {
    which.iter().for_each(|agent| agents.signal(*agent, Signal::SIGSTOP));
    std::thread::sleep(Duration::from_secs(10));
    for agent in which {
        agents.signal(*agent, Signal::SIGCONT);
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// A deadline that is shorter than agents are stopped for.
const SHORT: &str = "--gpus 2 --rounds 3 --deadline 8s";

/// What must hold of a run whose agents were stopped and went on.
#[track_caller]
fn blames_nobody(agents: &mut Agents) {
    let ended = agents.all();
    assert!(matches!(ended[0].code, Some(0 | 5)) && ended[1].code == Some(0), "{ended:?}");
    let run = document(agents);
    assert!(run.complete && run.visits.len() == 6, "{:?}\n{ended:?}", run.warnings);
    assert!(run.visits.iter().all(|visit| visit.outcome == Outcome::Completed), "{:?}", run.visits);
}

#[test]
fn a_first_agent_that_was_stopped_for_longer_than_its_deadline_blames_nobody() {
    let mut agents = start(2, SHORT, &[]);
    wait_for(&mut agents, 2);
    suspend(&agents, &[0]);
    blames_nobody(&mut agents);
}

#[test]
fn agents_of_a_job_that_is_suspended_blame_nobody_when_they_go_on() {
    let mut agents = start(2, SHORT, &[]);
    // Once while they look for each other, and once in the midst of it.
    std::thread::sleep(Duration::from_millis(100));
    suspend(&agents, &[1, 0]);
    wait_for(&mut agents, 2);
    suspend(&agents, &[1, 0]);
    blames_nobody(&mut agents);
}

#[test]
fn one_that_was_started_as_another_or_is_none_of_them_is_told_so_and_the_run_goes_on() {
    let more =
        [(None, "WORLD_SIZE", "2"), (Some(2), "RANK", "1"), (Some(3), "RANK", "5"), (Some(3), "WORLD_SIZE", "8")];
    let mut agents = start(4, "--gpus 2 --rounds 4", &more);
    let ended = agents.all();
    assert!(matches!(ended[0].code, Some(0 | 5)), "{ended:?}");
    // Which of two is the first to come is not known.
    let mut as_one = [&ended[1], &ended[2]];
    as_one.sort_by_key(|ended| ended.code);
    assert_eq!((as_one[0].code, as_one[1].code, ended[3].code), (Some(0), Some(3), Some(3)), "{ended:?}");
    assert!(as_one[1].stderr.contains("agent 1 already: two were started as that one"), "{ended:?}");
    assert!(ended[3].stderr.contains("its run has 2 agents, and this is agent 5"), "{ended:?}");
    assert_eq!(document(&agents).visits.len(), 8);
    assert_eq!(left_over(agents.folder()), None);
}

#[test]
fn without_the_first_agent_the_others_end_too() {
    let mut agents = start(3, LONG, &[]);
    wait_for(&mut agents, 2);
    agents.signal(0, Signal::SIGKILL);
    for other in &agents.all()[1..] {
        assert_eq!(other.code, Some(4), "{other:?}");
        assert!(other.stderr.contains("the first agent at 127.0.0.1") && other.stderr.contains("is gone"), "{other:?}");
    }
    assert_eq!(left_over(agents.folder()), None);
    assert!(agents.visits().unwrap() > 0);
}

#[test]
fn under_open_mpi_an_agent_that_is_killed_leaves_nothing_behind() {
    let Some(mut agents) = mpirun(2, LONG, &[]) else { return };
    wait_for(&mut agents, 2);
    let second = second_agent(&agents);
    kill(Pid::from_raw(second), Signal::SIGKILL).unwrap();
    let ended = agents.end(0);
    assert!(ended.stderr.contains("(agent 1, ranks 4-7): its agent is gone"), "{ended:?}");
    assert_eq!(left_over(agents.folder()), None);
    assert!(agents.visits().unwrap() > 0);
}

#[test]
fn under_open_mpi_an_interrupted_launcher_leaves_the_results_of_what_was_measured() {
    // So long mpirun waits before it kills what it has asked to end.
    let Some(mut agents) = mpirun(2, LONG, &[("OMPI_MCA_odls_base_sigkill_timeout", "4")]) else { return };
    wait_for(&mut agents, 2);
    agents.signal(0, Signal::SIGINT);
    let ended = agents.end(0);
    assert!(ended.stdout.contains("stopped early") && ended.stderr.contains("interrupted after"), "{ended:?}");
    assert!(!super::document(&agents).complete);
    assert_eq!(left_over(agents.folder()), None);
    let left: Vec<_> = std::fs::read_dir(agents.folder().join("tmp")).unwrap().flatten().map(|of| of.path()).collect();
    assert!(left.iter().all(|path| !path.to_string_lossy().contains("ncclsweep-")), "{left:?}");
}

/// The process id of agent 1 of those that mpirun started.
fn second_agent(agents: &Agents) -> i32 {
    let home = agents.folder().as_os_str().as_encoded_bytes();
    let has = |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    let pids =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_it = |pid: &i32| {
        let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        let environment = read("environ");
        let ours = has(&environment, home) && has(&environment, b"OMPI_COMM_WORLD_RANK=1\0");
        ours && !has(&read("cmdline"), b"__worker") && has(&read("cmdline"), b"ncclsweep")
    };
    pids.into_iter().find(is_it).expect("agent 1 runs")
}

#[test]
fn an_interrupted_agent_interrupts_the_run() {
    let mut agents = start(2, LONG, &[]);
    wait_for(&mut agents, 2);
    agents.signal(1, Signal::SIGTERM);
    let ended = agents.all();
    // Its own status would make a launcher kill the first while that writes.
    assert_eq!((ended[0].code, ended[1].code), (Some(130), Some(0)), "{ended:?}");
    assert_eq!(left_over(agents.folder()), None);
    assert!(agents.visits().unwrap() > 0);
    assert!(ended[0].stdout.contains("stopped early"), "{ended:?}");
}

#[test]
fn a_worker_that_crashes_or_hangs_elsewhere_is_told_by_its_rank() {
    let fault = |fault: &str, arguments: &str| {
        let own = [(Some(1), "NCCLSWEEP_EMULATE_FAULT", fault)];
        let mut agents = start(2, &format!("--gpus 2 --rounds 1 {arguments}"), &own);
        let ended = agents.all();
        assert_eq!((ended[0].code, ended[1].code), (Some(4), Some(0)), "{ended:?}");
        assert_eq!(left_over(agents.folder()), None);
        document(&agents).visits.remove(0)
    };
    match fault("segv@first,rank=3", "").outcome {
        Outcome::Crashed { signal, at: Some(at) } => assert_eq!((signal.as_str(), at.rank), ("SIGSEGV", Some(2))),
        other => panic!("{other:?}"),
    }
    match fault("segv@first,rank=3", "--launch processes").outcome {
        Outcome::Crashed { signal, at: Some(at) } => assert_eq!((signal.as_str(), at.rank), ("SIGSEGV", Some(3))),
        other => panic!("{other:?}"),
    }
    match fault("hang@capture,rank=3", "--deadline 8s").outcome {
        Outcome::TimedOut { ranks, .. } => {
            assert_eq!((ranks[0].ranks.as_slice(), ranks[0].doing), ([3].as_slice(), Doing::Capture), "{ranks:?}");
            let all: usize = ranks.iter().map(|group| group.ranks.len()).sum();
            assert_eq!(all, 4, "{ranks:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_does_not_hold_the_token_takes_no_part() {
    let other = [(Some(1), "NCCLSWEEP_TOKEN", "another token of more than sixteen")];
    let mut agents = start(2, "--gpus 2 --rounds 1 --deadline 10s", &other);
    let ended = agents.all();
    assert_eq!((ended[0].code, ended[1].code), (Some(3), Some(3)), "{ended:?}");
    assert!(ended[1].stderr.contains("its token is not that of the first agent"), "{ended:?}");
    assert!(ended[0].stderr.contains("agent 1 of 2 did not come within 10 s"), "{ended:?}");
    assert!(ended[0].stderr.contains("does not hold the token"), "{ended:?}");
    assert!(!agents.folder().join("run").exists());
}

#[test]
fn without_a_token_nothing_begins() {
    let mut agents = start(1, "--gpus 2 --rounds 1", &[(None, "WORLD_SIZE", "2"), (None, "NCCLSWEEP_TOKEN", "")]);
    let ended = agents.end(0);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("openssl rand"), "{ended:?}");
}

#[test]
fn hosts_with_another_nccl_are_refused_unless_that_is_allowed() {
    let other = [(Some(1), "NCCLSWEEP_EMULATE_NCCL", "2.28.9")];
    let mut agents = start(2, "--gpus 2 --rounds 1", &other);
    let ended = agents.all();
    assert_eq!((ended[0].code, ended[1].code), (Some(3), Some(0)), "{ended:?}");
    assert!(
        ended[0].stderr.contains("(agent 1) has NCCL 2.28.9") && ended[0].stderr.contains("--allow-mixed"),
        "{ended:?}"
    );
    let mut agents = start(2, "--gpus 2 --rounds 1 --allow-mixed", &other);
    let ended = agents.all();
    assert!(matches!(ended[0].code, Some(0 | 5)), "{ended:?}");
    assert!(document(&agents).warnings.iter().any(|warning| warning.contains("NCCL 2.28.9")));
}

#[test]
fn an_agent_that_cannot_take_part_says_why_at_once() {
    let mut agents = start(2, "--gpus 2 --rounds 1", &[(Some(1), "NCCLSWEEP_EMULATE_BUSY", "1:4711")]);
    let ended = agents.all();
    assert_eq!((ended[0].code, ended[1].code), (Some(3), Some(3)), "{ended:?}");
    assert!(
        ended[0].stderr.contains("agent 1 at 127.0.0.1 cannot take part") && ended[0].stderr.contains("4711"),
        "{ended:?}"
    );
}

#[test]
fn what_works_on_one_host_alone_is_refused() {
    for arguments in ["--ranks 4", "--isolate"] {
        let mut agents = start(1, &format!("--gpus 2 --rounds 1 {arguments}"), &[(None, "WORLD_SIZE", "2")]);
        let ended = agents.end(0);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("works on one host alone"), "{ended:?}");
    }
}
