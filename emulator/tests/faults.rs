//! Faults on order, each in a process of its own.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use support::*;

const RANKS: usize = 4;

/// A small visit: two communicators, each with eager calls, a replay and a check; prints what each rank saw.
fn visit() {
    assert_eq!(cuInit(0), 0);
    for number in 0..2 {
        let id = unique_id();
        let seen = on_ranks(RANKS, |rank, barrier| {
            let rank = Rank::new(id, rank, RANKS, 4096);
            let mut seen = Vec::new();
            for _ in 0..2 {
                rank.all_reduce();
                rank.wait();
                seen.push(rank.result_is_right());
            }
            barrier.wait();
            let graph = rank.graph(3);
            barrier.wait();
            ok!(cuGraphLaunch(graph.1, rank.stream));
            rank.wait();
            seen.push(rank.result_is_right());
            rank.destroy_graph(graph);
            barrier.wait();
            rank.end();
            seen.iter().map(|right| if *right { '.' } else { 'X' }).collect::<String>()
        });
        say(&format!("{number} {}", seen.join(" ")));
    }
}

/// One collective whose results are looked at by code: of the call, of the wait, of `ncclCommGetAsyncError`.
fn codes() {
    assert_eq!(cuInit(0), 0);
    let id = unique_id();
    let seen = on_ranks(RANKS, |rank, barrier| {
        let rank = Rank::new(id, rank, RANKS, 4096);
        // SAFETY: the rank's own buffers and handles.
        let call = unsafe { ncclAllReduce(rank.send, rank.receive, rank.len / 2, BF16, SUM, rank.comm, rank.stream) };
        barrier.wait();
        // SAFETY: the rank's stream.
        let wait = if call == 0 { unsafe { cuStreamSynchronize(rank.stream) } } else { 0 };
        let mut asynchronous = 0;
        ok!(ncclCommGetAsyncError(rank.comm, &raw mut asynchronous));
        format!("{call}/{wait}/{asynchronous}")
    });
    say(&seen.join(" "));
}

#[test]
fn scenarios() {
    match scenario().as_deref() {
        Some("visit") => visit(),
        Some("codes") => codes(),
        _ => (),
    }
}

fn with_fault(scenario: &str, fault: &str) -> std::process::Output {
    in_process(scenario, &[("NCCLSWEEP_EMULATE_FAULT", fault)])
}

#[test]
fn wrong_elements_are_wrong_for_the_rank_and_phase_asked_for() {
    let clean = "... ... ... ...";
    for (fault, first, second) in [
        ("wrong@first,rank=2", "... ... X.. ...", "... ... X.. ..."),
        ("wrong@eager,rank=1,comm=2", clean, "... .X. ... ..."),
        ("nan@replay,rank=3,comm=1", "... ... ... ..X", clean),
        ("wrong@replay", "..X ..X ..X ..X", "..X ..X ..X ..X"),
        ("wrong@first,rank=0,size=14336", clean, clean),
        ("wrong@first,rank=0,when=NCCL_PROTO=LL", clean, clean),
        ("wrong@eager,p=0", clean, clean),
    ] {
        let said = said(&with_fault("visit", fault));
        assert_eq!(said, [format!("0 {first}"), format!("1 {second}")], "{fault}");
    }
}

#[test]
fn a_fault_bound_to_a_variable_strikes_where_the_variable_is_set() {
    let variables = [("NCCLSWEEP_EMULATE_FAULT", "wrong@first,rank=0,when=NCCL_PROTO=LL"), ("NCCL_PROTO", "LL")];
    assert_eq!(said(&in_process("visit", &variables))[0], "0 X.. ... ... ...");
}

#[test]
fn a_wrong_copy_spoils_what_the_host_sees() {
    let all = with_fault("visit", "wrong@copy,rank=1");
    assert!(String::from_utf8_lossy(&all.stdout).contains("... XXX ... ..."));
}

#[test]
fn a_process_ends_the_way_asked_for_at_every_phase() {
    for (kind, signal) in [("segv", libc::SIGSEGV), ("kill", libc::SIGKILL), ("abort", libc::SIGABRT)] {
        for phase in ["load", "init", "first", "eager", "capture", "replay", "copy", "destroy"] {
            let output = with_fault("visit", &format!("{kind}@{phase}"));
            assert_eq!(output.status.signal(), Some(signal), "{kind}@{phase}");
        }
    }
    assert_eq!(with_fault("visit", "exit@replay").status.code(), Some(1));
}

#[test]
fn errors_reach_the_rank_and_call_asked_for() {
    let codes = |fault| said(&with_fault("codes", fault)).concat();
    assert_eq!(codes("async-error@first,rank=1"), "0/0/1 0/719/1 0/0/1 0/0/1");
    assert_eq!(codes("cuda-error@first,rank=0"), "0/700/0 0/0/0 0/0/0 0/0/0");
    assert_eq!(codes("gpu-lost@first,rank=3"), "0/0/0 0/0/0 0/0/0 0/999/0");
    assert_eq!(codes("nccl-error@first"), "2/0/0 2/0/0 2/0/0 2/0/0");
    assert_eq!(codes("slow:3@first"), "0/0/0 0/0/0 0/0/0 0/0/0");
}

#[test]
fn a_lost_gpu_is_told_as_the_kernel_would() {
    let output = with_fault("codes", "gpu-lost@first,rank=3");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("NVRM: Xid (PCI:0000:24:00): 79, GPU has fallen off the bus."), "{text}");
}

/// User time a process has spent, in clock ticks; none while a thread of it runs or would.
fn ticks_at_rest(child: &Child) -> Option<u64> {
    let process = std::path::PathBuf::from(format!("/proc/{}", child.id()));
    let of =
        |stat: &str| stat.rsplit(") ").next().expect("a stat line").split(' ').map(str::to_owned).collect::<Vec<_>>();
    let tasks = std::fs::read_dir(process.join("task")).expect("the process is there").flatten();
    // A thread may end between the list and the look.
    let mut stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let whole = std::fs::read_to_string(process.join("stat")).expect("the process is there");
    stats.all(|stat| of(&stat)[0] == "S").then(|| of(&whole)[11].parse().expect("a number"))
}

#[test]
fn a_hang_blocks_for_good_without_using_the_processor() {
    let phases = ["load", "init", "first", "eager", "capture", "replay", "destroy"];
    let mut children = phases.map(|phase| {
        let fault = format!("hang@{phase},rank=0");
        let mut command = command("visit", &[("NCCLSWEEP_EMULATE_FAULT", &fault)]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the test program starts")
    });
    // How long they take to come there is the machine's affair; one that spins never rests.
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let before = children.each_ref().map(ticks_at_rest);
        std::thread::sleep(Duration::from_millis(300));
        let after = children.each_ref().map(ticks_at_rest);
        let busy: Vec<_> = phases
            .into_iter()
            .zip(before.iter().zip(&after))
            .filter(|(_, (before, after))| before.is_none() || before != after)
            .map(|(phase, _)| phase)
            .collect();
        if busy.is_empty() {
            break;
        }
        assert!(Instant::now() < limit, "these end or spin: {busy:?}");
    }
    for (child, phase) in children.iter_mut().zip(phases) {
        assert!(child.try_wait().expect("the process can be asked").is_none(), "hang@{phase} ended");
        child.kill().expect("the process can be killed");
        child.wait().expect("the process ends");
    }
}
