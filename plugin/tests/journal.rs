//! A process that is not ours loads the shared library by its path, and tells what it used however it ends.

mod support;

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use nccl_profiler_ncclsweep::journal::{self, Communicator, Entry, Process, Tallied, Why};
use nccl_profiler_ncclsweep::recorder::{Api, Channels};
use support::Plugin;

const SCENARIO: &str = "PLUGIN_TEST_SCENARIO";

/// What a journal tells.
struct Journal {
    process: Process,
    communicators: Vec<Communicator>,
    collectives: Vec<Tallied>,
    end: Why,
}

impl Journal {
    fn read(path: &Path) -> Self {
        let mut entries = journal::read(&std::fs::read_to_string(path).unwrap()).unwrap();
        let Some(Entry::End(end)) = entries.pop() else { panic!("{entries:#?}") };
        let Entry::Process(process) = entries.remove(0) else { panic!("{entries:#?}") };
        let (mut communicators, mut collectives) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry {
                Entry::Communicator(communicator) => communicators.push(communicator),
                Entry::Collective(collective) => collectives.push(collective),
                other => panic!("{other:#?}"),
            }
        }
        Self { process: *process, communicators, collectives, end: end.why }
    }

    /// Elements, eager and captured calls of each kind.
    fn counts(&self) -> Vec<(u64, u64, u64)> {
        let mut counts: Vec<_> = self.collectives.iter().map(|of| (of.count, of.eager, of.captured)).collect();
        counts.sort_unstable();
        counts
    }
}

/// How a child of this test went.
struct Went {
    status: ExitStatus,
    stderr: String,
    journals: Vec<Journal>,
}

/// Runs a scenario in a child of this test that had `setup` done to its command.
fn run_with(scenario: &str, setup: impl FnOnce(&mut Command)) -> Went {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "scenarios", "--nocapture"]);
    child.env(SCENARIO, scenario).env(journal::FOLDER, folder.path()).env("NCCL_PROTO", "LL").env_remove("NCCL_ALGO");
    child.env_remove("NCCL_NTHREADS");
    setup(&mut child);
    let output = child.output().unwrap();
    let mut files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.iter().all(|file| file.extension().is_some_and(|ending| ending == "jsonl")), "{files:?}");
    let journals = files.iter().map(|file| Journal::read(file)).collect();
    Went { status: output.status, stderr: String::from_utf8_lossy(&output.stderr).into_owned(), journals }
}

fn run(scenario: &str) -> Went {
    run_with(scenario, |_| {})
}

/// Waits until the journal of this process tells of so many captured calls with so many elements: it is written once a second, on
/// a starved machine later.
fn wait_for_the_journal(count: u64, captured: u64) {
    let folder = std::env::var_os(journal::FOLDER).unwrap();
    let tells = |text: &str| {
        let is_it =
            |entry: &Entry| matches!(entry, Entry::Collective(of) if (of.count, of.captured) == (count, captured));
        journal::read(text).is_ok_and(|entries| entries.iter().any(is_it))
    };
    let limit = Instant::now() + Duration::from_secs(60);
    let files = || std::fs::read_dir(&folder).unwrap().flatten();
    while !files().any(|file| std::fs::read_to_string(file.path()).is_ok_and(|text| tells(&text))) {
        assert!(Instant::now() < limit, "the journal is not written");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the children do.
#[test]
fn scenarios() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let plugin = Plugin::load();
    let tp = plugin.communicator(c"tp", 3);
    tp.all_reduce(7168, 100, false);
    tp.all_reduce(14_336, 61, true);
    eprintln!("mask {}", Plugin::mask());
    match scenario.as_str() {
        "exit" => std::process::exit(0),
        "finalize" => {
            // SAFETY: the scenario has one thread of its own, and the plugin reads the environment in this thread.
            unsafe { std::env::set_var("NCCL_NTHREADS", "256") };
            plugin.communicator(c"dp", 1).finalize();
            tp.finalize();
            // SAFETY: nothing is left to be done.
            unsafe { libc::_exit(0) }
        }
        "killed" => {
            wait_for_the_journal(14_336, 61);
            tp.all_reduce(7168, 1, false);
            std::process::abort()
        }
        "threads" => {
            std::thread::scope(|scope| {
                for rank in 0..8 {
                    scope.spawn(move || {
                        let communicators = [c"a", c"b", c"c"].map(|name| plugin.communicator(name, rank));
                        (0..1000).for_each(|_| communicators.iter().for_each(|of| of.all_reduce(64, 1, false)));
                        let [first, ..] = communicators;
                        first.finalize();
                    });
                }
            });
            std::process::exit(0)
        }
        "fork" | "fork and begin" => {
            // SAFETY: the child runs code that a forked server would.
            match unsafe { libc::fork() } {
                0 => {
                    // What it inherited is none of its own.
                    tp.all_reduce(7168, 5, false);
                    if scenario != "fork" {
                        plugin.communicator(c"child", 0).all_reduce(1, 2, false);
                    }
                    std::process::exit(0)
                }
                child => {
                    // SAFETY: a child of this process.
                    assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
                    tp.all_reduce(7168, 7, false);
                    std::process::exit(0)
                }
            }
        }
        "churn" => {
            for _ in 0..3000 {
                let short = plugin.communicator(c"short", 0);
                short.all_reduce(2, 1, false);
                short.finalize();
            }
            (0..9000).for_each(|count| tp.all_reduce(1000 + count, 1, false));
            std::process::exit(0)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_process_that_exits_leaves_itself_and_exact_counts() {
    let went = run("exit");
    let [journal] = &went.journals[..] else { panic!("{}", went.stderr) };
    let process = &journal.process;
    assert_eq!(process.executable, std::env::current_exe().ok());
    assert!(process.command.ends_with(&["--exact".into(), "scenarios".into(), "--nocapture".into()]));
    assert_eq!(process.ancestors[0].pid, std::process::id());
    assert_eq!(process.environment.get("NCCL_PROTO").map(String::as_str), Some("LL"));
    assert!(process.environment.keys().all(|name| name.starts_with("NCCL_")));
    assert_eq!(process.at_start.as_ref(), Some(&process.environment));
    let [tp] = &journal.communicators[..] else { panic!("{:#?}", journal.communicators) };
    assert_eq!((tp.api, tp.hash, tp.name.as_str(), tp.rank, tp.ranks), (Api::V5, 7, "tp", Some(3), Some(8)));
    assert_eq!((tp.closed_us, &tp.environment), (None, &None));
    assert_eq!((journal.counts(), journal.end), (vec![(7168, 100, 0), (14_336, 0, 61)], Why::Exit));
    let first = &journal.collectives[0];
    assert_eq!((first.protocol.as_str(), first.channels, first.warps), ("LL", Some(Channels::Used(1)), 16));
    assert!(process.opened_us <= first.first_us && first.first_us <= first.last_us);
}

#[test]
fn what_ended_is_told_though_the_process_leaves_without_a_word() {
    let went = run("finalize");
    let journal = &went.journals[0];
    assert_eq!((journal.counts(), journal.end), (vec![(7168, 100, 0), (14_336, 0, 61)], Why::Finalize));
    let [tp, dp] = &journal.communicators[..] else { panic!("{:#?}", journal.communicators) };
    assert!(tp.closed_us.is_some() && dp.closed_us.is_some());
    let then = dp.environment.as_ref().expect("it was changed between the two");
    assert_eq!(then.get("NCCL_NTHREADS").map(String::as_str), Some("256"));
    assert!(!journal.process.environment.contains_key("NCCL_NTHREADS"));
}

#[test]
fn a_killed_process_leaves_all_but_its_last_second() {
    let went = run("killed");
    assert!(!went.status.success(), "the child kills itself");
    let journal = &went.journals[0];
    // The last call is there only where the child was starved for a second before its end.
    let kept = |last: u64| vec![(7168, 100 + last, 0), (14_336, 0, 61)];
    assert!([kept(0), kept(1)].contains(&journal.counts()), "{:?}", journal.counts());
    assert_eq!(journal.end, Why::Running);
}

#[test]
fn threads_and_communicators_lose_nothing() {
    let went = run("threads");
    let journal = &went.journals[0];
    assert_eq!((journal.communicators.len(), journal.end), (25, Why::Exit));
    let counts: Vec<u64> =
        journal.collectives.iter().filter(|of| of.count == 64).map(|collective| collective.eager).collect();
    assert_eq!(counts, [1000; 24]);
}

#[test]
fn a_child_that_forks_begins_anew_and_spares_its_parents_journal() {
    let went = run("fork");
    let [parent] = &went.journals[..] else { panic!("{}", went.stderr) };
    assert_eq!((parent.counts()[0], parent.end), ((7168, 107, 0), Why::Exit));

    let went = run("fork and begin");
    let (children, parents): (Vec<_>, Vec<_>) =
        went.journals.iter().partition(|journal| journal.communicators[0].name == "child");
    let ([child], [parent]) = (&children[..], &parents[..]) else { panic!("{}", went.stderr) };
    assert_eq!((child.counts(), child.end), (vec![(1, 2, 0)], Why::Exit));
    assert_eq!(child.process.ancestors[0].pid, parent.process.pid);
    assert_eq!((parent.counts()[0], parent.end), ((7168, 107, 0), Why::Exit));
}

#[test]
fn what_is_too_much_is_said_and_memory_stays_bounded() {
    let went = run("churn");
    let journal = &went.journals[0];
    assert_eq!(journal.communicators.len(), 512);
    let listed: u64 = journal.collectives.iter().map(Tallied::calls).sum();
    let unlisted: u64 = journal.communicators.iter().map(|communicator| communicator.unlisted).sum();
    // 100 + 61 at the beginning, one of each short communicator that has a line, and 9000 kinds.
    assert_eq!(listed + unlisted, 161 + 511 + 9000);
    assert_eq!(journal.collectives.len(), 8192);
}

#[test]
fn without_a_folder_nothing_is_asked_of_nccl() {
    let went = run_with("exit", |child| {
        child.env_remove(journal::FOLDER);
    });
    assert!(went.journals.is_empty() && went.stderr.contains("mask 0"), "{}", went.stderr);
}

#[test]
fn a_folder_that_is_not_there_is_said_once_and_stops_nothing() {
    let went = run_with("finalize", |child| {
        child.env(journal::FOLDER, "/nonexistent");
    });
    assert!(went.journals.is_empty() && went.status.success());
    assert_eq!(went.stderr.matches("ncclsweep profiler: cannot write /nonexistent/").count(), 1, "{}", went.stderr);
}
