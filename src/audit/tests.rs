//! Journals put together by hand: what they say of settings, processes, sizes and an env set.

use nccl_profiler_ncclsweep::journal::{
    self, Ancestor, ConfFile, End, Entry, Library, Process, Tallied, Variables, Why,
};
use nccl_profiler_ncclsweep::recorder::{Api, Channels};

use super::load::worker_of;
use super::*;
use crate::plan::env_set::{EnvSet, Vars};

fn variables(pairs: &[(&str, &str)]) -> Variables {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A process of NCCL 2.28.9 whose variables came with it.
fn process(pid: u32, environment: &[(&str, &str)]) -> Process {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    let ancestor = |pid, command: &str| Ancestor { pid, command: words(command) };
    Process {
        schema: journal::SCHEMA,
        pid,
        start_ticks: Some(1),
        host: "box".to_owned(),
        executable: None,
        command: words("python worker"),
        ancestors: vec![ancestor(10, "python server.py"), ancestor(2, "bash run.sh")],
        opened_us: pid.into(),
        environment: variables(environment),
        at_start: Some(variables(environment)),
        files: Vec::new(),
        home: None,
        passwd_home: Some("/home/me".to_owned()),
        nccl: Some(Library { path: "/lib/libnccl.so.2".to_owned(), version: Some(22_809) }),
    }
}

fn communicator(id: u32, rank: i32) -> journal::Communicator {
    journal::Communicator {
        id,
        api: Api::V5,
        hash: 7 + u64::from(id),
        name: "".into(),
        rank: Some(rank),
        ranks: Some(2),
        opened_us: 1,
        closed_us: None,
        environment: None,
        unlisted: 0,
    }
}

fn all_reduces(communicator: u32, count: u64, protocol: &str, eager: u64, captured: u64) -> Tallied {
    Tallied {
        communicator,
        function: "AllReduce".into(),
        datatype: "ncclBfloat16".into(),
        count,
        bytes: Some(2 * count),
        algorithm: "RING".into(),
        protocol: protocol.into(),
        channels: Some(Channels::Used(1)),
        warps: 16,
        eager,
        captured,
        untold: 0,
        first_us: 1,
        last_us: 2,
    }
}

fn worker(process: Process, communicators: Vec<journal::Communicator>, collectives: Vec<Tallied>, why: Why) -> Worker {
    let mut entries = vec![Entry::Process(Box::new(process))];
    entries.extend(communicators.into_iter().map(Entry::Communicator));
    entries.extend(collectives.into_iter().map(Entry::Collective));
    entries.push(Entry::End(End { at_us: 9, why, unlisted_communicators: 0 }));
    worker_of(entries, &|_| false).unwrap()
}

/// Two workers of one communicator, each with its variables, that reduced 7168 elements by its protocol.
fn two(first: (&[(&str, &str)], &str), second: (&[(&str, &str)], &str)) -> Audit {
    let one = |pid, rank, (environment, protocol): (&[(&str, &str)], &str)| {
        let lines = vec![all_reduces(0, 7168, protocol, 20, 61)];
        worker(process(pid, environment), vec![communicator(0, rank)], lines, Why::Exit)
    };
    audit(vec![one(100, 0, first), one(101, 1, second)])
}

fn audit(workers: Vec<Worker>) -> Audit {
    Audit { schema: SCHEMA, folder: "audit".to_owned(), workers, unread: Vec::new() }
}

fn set(pairs: &[(&str, &str)]) -> EnvSet {
    EnvSet { name: "mine".to_owned(), vars: Vars::from_iter(pairs.iter().copied()), note: None }
}

const LL: &[(&str, &str)] = &[("NCCL_PROTO", "LL")];

#[test]
fn a_set_holds_where_every_worker_has_it_and_ran_by_it() {
    let held = hold(&two((LL, "LL"), (LL, "LL")), &set(LL));
    assert!(held.holds() && held.all_reduces == 2 * 81, "{held:#?}");
    assert!(!hold(&audit(Vec::new()), &set(LL)).holds(), "nothing seen is not held");
}

#[test]
fn a_worker_that_lacks_the_variable_is_named_and_one_that_ran_otherwise_too() {
    let lacks = hold(&two((LL, "LL"), (&[], "LL")), &set(LL));
    let [broken] = &lacks.broken[..] else { panic!("{lacks:#?}") };
    assert_eq!((broken.worker, broken.name.as_str(), broken.all_reduces), (1, "NCCL_PROTO", 81));
    let otherwise = hold(&two((LL, "SIMPLE"), (LL, "LL")), &set(LL));
    let [broken] = &otherwise.broken[..] else { panic!("{otherwise:#?}") };
    assert_eq!((broken.worker, broken.bytes.as_slice()), (0, &[Some(14_336)][..]));
    assert!(broken.why.starts_with("Simple was used"), "{}", broken.why);
}

#[test]
fn a_worker_that_told_of_no_all_reduce_is_held_by_its_variables() {
    let mut audit = two((LL, "LL"), (LL, "LL"));
    let silent = |environment| worker(process(102, environment), vec![communicator(0, 0)], Vec::new(), Why::Running);
    audit.workers.push(silent(LL));
    assert!(hold(&audit, &set(LL)).holds());
    audit.workers.push(silent(&[("NCCL_PROTO", "Simple")]));
    let held = hold(&audit, &set(LL));
    let [broken] = &held.broken[..] else { panic!("{held:#?}") };
    assert_eq!((broken.worker, broken.all_reduces), (3, 0));
    assert!(broken.why.starts_with("it is Simple in the process"), "{}", broken.why);
}

#[test]
fn what_could_not_be_read_is_not_held() {
    let mut audit = two((LL, "LL"), (LL, "LL"));
    audit.unread.push(Unread { path: "vm-1-1.jsonl".into(), why: "cut off".into() });
    let held = hold(&audit, &set(LL));
    assert!(!held.holds() && held.is_incomplete() && held.broken.is_empty());
}

#[test]
fn ranks_that_nobody_told_of_leave_it_open() {
    let mut audit = two((LL, "LL"), (LL, "LL"));
    audit.workers.pop();
    let held = hold(&audit, &set(LL));
    assert_eq!(held.absent, Some(Absent { ranks: 1, of: 2, communicators: 1 }));
    assert!(!held.holds() && held.is_incomplete() && held.broken.is_empty());
    audit.workers[0].communicators[0].told.ranks = None;
    assert!(hold(&audit, &set(LL)).holds(), "interfaces before version 4 do not tell how many ranks there are");
}

#[test]
fn collectives_of_which_only_the_number_is_known_leave_it_open() {
    let mut audit = two((LL, "LL"), (LL, "LL"));
    audit.workers[0].communicators[0].told.unlisted = 2000;
    audit.workers[1].end.unlisted_communicators = 6;
    let held = hold(&audit, &set(LL));
    assert!(held.unlisted == 2006 && !held.holds() && held.broken.is_empty(), "{held:#?}");
}

#[test]
fn what_is_not_recorded_is_unseen_not_broken() {
    let with = &[("NCCL_PROTO", "LL"), ("CUDA_DEVICE_MAX_CONNECTIONS", "1")];
    let held = hold(&two((LL, "LL"), (LL, "LL")), &set(with));
    assert!(held.holds() && held.unseen.iter().any(|unseen| unseen.name.starts_with("CUDA_")), "{held:#?}");
}

#[test]
fn a_variable_whose_effect_no_profiler_sees_is_unseen_and_breaks_nothing() {
    let level = &[("NCCL_P2P_LEVEL", "SYS")];
    let held = hold(&two((level, "LL"), (level, "LL")), &set(level));
    assert!(held.holds() && held.unseen.len() == 1, "{held:#?}");
}

#[test]
fn what_is_kept_from_the_first_communicator_comes_too_late_and_what_is_read_anew_does_not() {
    let mut late = communicator(1, 0);
    late.environment = Some(variables(&[("NCCL_PROTO", "LL"), ("NCCL_NTHREADS", "256")]));
    let lines = vec![all_reduces(1, 7168, "LL", 1, 0)];
    let audit = audit(vec![worker(process(5, &[]), vec![communicator(0, 0), late], lines, Why::Exit)]);
    assert!(hold(&audit, &set(LL)).broken.is_empty(), "NCCL_PROTO is read at every communicator");
    let broken = hold(&audit, &set(&[("NCCL_NTHREADS", "256")])).broken;
    assert_eq!(broken[0].why, "it was set after NCCL had read it in this process");
}

#[test]
fn settings_know_where_they_came_from() {
    let mut process =
        process(5, &[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL"), ("NCCL_DEBUG", "INFO"), ("NCCL_NTHREADS", "256")]);
    process.at_start = Some(variables(&[("NCCL_ALGO", "Ring"), ("NCCL_DEBUG", "WARN")]));
    let text = "NCCL_PROTO=LL\nNCCL_BUFFSIZE=1\n".to_owned();
    process.files = vec![ConfFile { path: "/home/me/.nccl.conf".to_owned(), text }];
    let settings = worker(process.clone(), vec![communicator(0, 0)], Vec::new(), Why::Exit).settings;
    let source = |name: &str| settings.iter().find(|own| own.name == name).map(|own| own.source.to_string()).unwrap();
    assert_eq!(source("NCCL_ALGO"), "environment");
    assert_eq!(source("NCCL_PROTO"), "/home/me/.nccl.conf:1", "up to 2.28 the environment has it too");
    assert_eq!(source("NCCL_BUFFSIZE"), "/home/me/.nccl.conf:2");
    assert_eq!(source("NCCL_DEBUG"), "changed by the process itself, from WARN");
    assert_eq!(source("NCCL_NTHREADS"), "set by the process itself");
    process.at_start = None;
    let settings = worker(process, vec![communicator(0, 0)], Vec::new(), Why::Exit).settings;
    assert_eq!(settings.iter().find(|own| own.name == "NCCL_ALGO").unwrap().source, Source::Unknown);
}

#[test]
fn a_variable_that_differs_has_its_workers_by_value_the_most_first() {
    let audit = two((LL, "LL"), (&[], "LL"));
    let [spread] = &spreads(&audit)[..] else { panic!() };
    assert!(!spread.is_common());
    assert_eq!(spread.values, [(Some("LL".to_owned()), vec![0]), (None, vec![1])]);
    assert!(spreads(&two((LL, "LL"), (LL, "LL")))[0].is_common());
}

#[test]
fn the_tree_begins_at_the_nearest_process_that_started_all_of_them() {
    let forest = forest(&two((LL, "LL"), (LL, "LL")));
    let [root] = &forest["box"][..] else { panic!("{forest:#?}") };
    assert_eq!((root.pid, root.children.len()), (10, 2), "the shell above explains nothing");
    assert_eq!(root.children.iter().flat_map(|child| child.workers.clone()).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn calls_of_all_ranks_count_once_and_a_rank_that_told_most_is_believed() {
    let mut audit = two((LL, "LL"), (LL, "LL"));
    audit.workers[1].communicators[0].collectives[0].eager = 15;
    let [usage] = &usage(&audit)[..] else { panic!() };
    assert_eq!((usage.calls.eager, usage.calls.captured, usage.workers.as_slice()), (20, 61, &[0, 1][..]));
    // Another protocol for the same size is another kind.
    audit.workers[1].communicators[0].collectives[0].protocol = "SIMPLE".into();
    assert_eq!(super::usage(&audit).len(), 2);
}

#[test]
fn a_mix_is_of_the_communicators_that_reduce_most() {
    let mut small = communicator(1, 0);
    small.ranks = Some(4);
    let lines = vec![
        all_reduces(0, 7168, "LL", 10, 0),
        // The same size by another protocol is the same size.
        all_reduces(0, 7168, "SIMPLE", 5, 0),
        all_reduces(0, 64, "LL", 0, 61),
        all_reduces(1, 1, "LL", 3, 0),
    ];
    let audit = audit(vec![worker(process(5, &[]), vec![communicator(0, 0), small], lines, Why::Exit)]);
    let mix = mix(&audit).unwrap();
    assert_eq!((mix.ranks, mix.calls(), mix.left_out), (Some(2), 76, 3));
    let shares: Vec<_> = mix.shares.iter().map(|share| (share.size.elements, share.calls, share.captured)).collect();
    assert_eq!(shares, [(64, 61, 61), (7168, 15, 0)]);
    assert_eq!(super::mix(&super::tests::audit(Vec::new())), None);
}

#[test]
fn what_became_of_a_process_is_told_by_its_last_line() {
    let mut closed = communicator(0, 0);
    closed.closed_us = Some(5);
    let life = |communicator: &journal::Communicator, why| {
        worker(process(5, &[]), vec![communicator.clone()], Vec::new(), why).life
    };
    assert_eq!(life(&communicator(0, 0), Why::Exit), Life::Exited);
    assert_eq!(life(&communicator(0, 0), Why::Running), Life::Lost);
    assert_eq!(life(&closed, Why::Finalize), Life::Finalized);
}

#[test]
fn a_file_that_is_no_journal_is_said_and_hides_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let text = |schema: u32| {
        let process = Process { schema, ..process(5, &[]) };
        let end = Entry::End(End { at_us: 9, why: Why::Exit, unlisted_communicators: 0 });
        let lines = [Entry::Process(Box::new(process)), Entry::Communicator(communicator(0, 0)), end];
        lines.map(|line| serde_json::to_string(&line).unwrap() + "\n").concat()
    };
    let good = text(journal::SCHEMA);
    let files = [("good", good.as_str()), ("newer", &text(99)), ("cut", &good[..good.len() / 2]), ("empty", "")];
    for (name, text) in files {
        std::fs::write(folder.path().join(format!("{name}.jsonl")), text).unwrap();
    }
    std::fs::write(folder.path().join(".half.new"), "half").unwrap();
    let audit = Audit::load(folder.path()).unwrap();
    assert_eq!((audit.workers.len(), audit.unread.len()), (1, 3), "{:#?}", audit.unread);
    assert!(audit.unread.iter().any(|file| file.why.contains("version 99")), "{:#?}", audit.unread);
    assert!(Audit::load(&folder.path().join("nowhere")).is_err());
}
