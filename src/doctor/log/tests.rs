//! Logs as servers leave them.

use super::super::{Check, Status};
use super::*;

/// A rank's initialisation as NCCL of 2.28 logs it: process, rank, ranks, variables read.
fn rank(pid: u32, rank: u32, ranks: u32, variables: &[(&str, &str)], complete: bool) -> String {
    let head = format!("box:{pid}:{pid} [{rank}] NCCL INFO");
    let mut text = format!(
        "NCCL version 2.28.3+cuda13.0\n{head} ncclCommInitRank comm 0x{pid} rank {rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} busId {rank}000 commId 0xabc - Init START\n"
    );
    for (name, value) in variables {
        text += &format!("{head} {name} set by environment to {value}\n");
    }
    if complete {
        text += &format!(
            "{head} ncclCommInitRank comm 0x{pid} rank {rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} busId {rank}000 commId 0xabc - Init COMPLETE\n"
        );
    }
    text
}

fn no_meaning(_: &str) -> Option<Meaning> {
    None
}

fn read(text: &str) -> Checkup {
    look("server.log", text.as_bytes(), &no_meaning)
}

#[track_caller]
fn named<'a>(checkup: &'a Checkup, name: &str) -> &'a Check {
    checkup
        .checks
        .iter()
        .find(|check| check.name == name)
        .unwrap_or_else(|| panic!("no check of {name}: {:?}", checkup.checks))
}

fn details(checkup: &Checkup) -> &Facts {
    let Details::Log(facts) = &checkup.details else { panic!("facts of something else") };
    facts
}

#[test]
fn a_log_without_nccl_is_unknown_with_what_to_set() {
    let checkup = read("INFO 11-30 server started\nnothing\n");
    assert_eq!(checkup.checks.iter().map(|check| check.status).collect::<Vec<_>>(), [Status::Unknown]);
    assert!(named(&checkup, "log").next[0].contains("NCCL_DEBUG=INFO"));
    assert_eq!(read("").count(Status::Unknown), 1);
}

#[test]
fn a_variable_that_differs_between_processes_is_a_fault_with_its_ranks() {
    let text = [
        rank(10, 0, 3, &[("NCCL_PROTO", "LL")], true),
        rank(11, 1, 3, &[("NCCL_PROTO", "Simple"), ("NCCL_ALGO", "Ring")], true),
        rank(12, 2, 3, &[("NCCL_PROTO", "LL")], true),
    ]
    .concat();
    let checkup = read(&text);
    let check = named(&checkup, "NCCL_PROTO");
    assert_eq!(check.status, Status::Fault);
    assert_eq!(
        check.evidence,
        [
            "NCCL_PROTO=LL read by ranks 0, 2, in 2 of 3 processes",
            "NCCL_PROTO=Simple read by rank 1, in 1 of 3 processes"
        ]
    );
    let check = named(&checkup, "not everywhere");
    assert_eq!(
        (check.status, check.evidence[0].as_str()),
        (Status::Warning, "NCCL_ALGO=Ring read by rank 1, in 1 of 3 processes")
    );
    assert_eq!(named(&checkup, "variables").evidence.len(), 3);
    assert_eq!(details(&checkup).processes[1].ranks, BTreeSet::from([1]));
    assert_eq!(named(&checkup, "communicators").evidence, ["0xabc: 3 ranks, all initialised"]);
}

#[test]
fn prefixes_of_launchers_are_looked_through_and_left_out_lines_told() {
    let line = rank(539, 1, 2, &[("NCCL_PROTO", "LL")], true);
    let text: String =
        line.lines().map(|line| format!("\u{1b}[36m(RayWorkerWrapper pid=539)\u{1b}[0m {line}\n")).collect();
    let checkup = read(&text);
    assert_eq!(details(&checkup).processes[0].pid, 539);
    assert_eq!(named(&checkup, "variables").evidence, ["NCCL_PROTO=LL read by rank 1"]);
    let checkup = read(&text.replace("to LL\n", "to LL [repeated 7x across cluster]\n"));
    assert!(named(&checkup, "gaps").next[0].contains("RAY_DEDUP_LOGS=0"));
}

#[test]
fn a_rank_that_never_got_ready_is_a_fault_and_one_without_a_line_is_unknown() {
    let hung = [rank(10, 0, 2, &[], true), rank(11, 1, 2, &[], false)].concat();
    let checkup = read(&hung);
    let check = named(&checkup, "communicators");
    assert_eq!(
        (check.status, check.evidence[0].as_str()),
        (Status::Fault, "0xabc: 2 ranks; rank 1 began to initialise and did not end")
    );
    let checkup = read(&rank(10, 0, 4, &[], true));
    let check = named(&checkup, "communicators");
    assert_eq!(
        (check.status, check.evidence[0].as_str()),
        (Status::Unknown, "0xabc: 4 ranks, 1 rank seen; no line of ranks 1–3")
    );
}

#[test]
fn libraries_of_different_versions_are_a_fault() {
    let text = rank(10, 0, 2, &[], true) + &rank(11, 1, 2, &[], true).replace("2.28.3", "2.23.4");
    let checkup = read(&text);
    let check = named(&checkup, "version");
    assert_eq!((check.status, check.evidence[0].as_str()), (Status::Fault, "NCCL 2.23.4, NCCL 2.28.3"));
}

#[test]
fn a_value_that_nccl_misread_is_found_in_what_it_understood() {
    let checkup = read(&rank(10, 0, 1, &[("NCCL_BUFFSIZE", "4.")], true));
    let check = named(&checkup, "NCCL_BUFFSIZE");
    assert!(check.status == Status::Fault && check.evidence[0].contains("too small"), "{check:?}");
}

#[test]
fn the_graph_search_that_found_nothing_is_named_with_its_cures() {
    let graph = "box:10:10 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 0.100000/0.100000, type SYS/SYS, sameChannels 1\n";
    let choice = "box:10:10 [0] NCCL INFO AllReduce: 14336 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}\n";
    let start = rank(10, 0, 1, &[], true);
    let checkup = read(&format!("{start}{graph}{choice}"));
    let check = named(&checkup, "graph search");
    assert_eq!(check.status, Status::Fault);
    assert!(check.evidence[0].starts_with("found a ring of 2 channels at 0.1 GB/s, SYS/SYS"), "{check:?}");
    assert_eq!(check.evidence[1], "Simple was chosen for 1 size of at most 64 KiB");
    let checkup = read(&format!("{start}{graph}"));
    assert_eq!(named(&checkup, "graph search").status, Status::Warning, "what it led to is not told");
    let healthy = graph.replace("0.100000", "24.000000").replace("SYS", "PHB");
    let checkup = read(&format!("{start}{healthy}{choice}"));
    assert!(!checkup.checks.iter().any(|check| check.name == "graph search"));
    assert_eq!(named(&checkup, "choices").evidence, ["AllReduce of 14 KiB (14336 bytes): Ring Simple, 1 channel (1×)"]);
}

#[test]
fn pairs_of_different_transports_are_a_warning() {
    let link = |from: u32, to: u32, via: &str| {
        format!("box:1{from}:1{from} [{from}] NCCL INFO Channel 00/0 : {from}[{from}] -> {to}[{to}] via {via}\n")
    };
    let ranks: String = (0..3).map(|number| rank(10 + number, number, 3, &[], true)).collect();
    let links = |last: &str| ranks.clone() + &link(0, 1, "P2P/CUMEM") + &link(1, 2, "P2P/CUMEM") + &link(2, 0, last);
    let checkup = read(&links("SHM/direct"));
    let check = named(&checkup, "transports");
    assert_eq!(
        (check.status, check.evidence.as_slice()),
        (Status::Warning, &["P2P/CUMEM: 2 ordered pairs".to_owned(), "SHM/direct: 1 ordered pair".to_owned()][..])
    );
    assert_eq!(named(&read(&links("P2P/CUMEM")), "transports").status, Status::Ok);
    assert_eq!(named(&read(&ranks), "transports").status, Status::Unknown);
}

#[test]
fn warnings_stand_once_and_known_signs_tell_their_meaning() {
    let warn =
        |pid: u32, what: &str| format!("\n[2026-11-30 14:55:54] box:{pid}:{pid} [0] init.cc:9 NCCL WARN {what}\n");
    let meaning = |line: &str| {
        let known = |sign: &str, meaning: &str, next: &str, mild| {
            let [sign, meaning, next] = [sign, meaning, next].map(str::to_owned);
            Some(Meaning { sign, meaning, next, mild })
        };
        match () {
            () if line.contains("Duplicate GPU") => {
                known("two on one", "two ranks are on one GPU", "fewer ranks", false)
            }
            () if line.contains("hidden tree") => known("hidden", "the tree is hidden", "nothing", true),
            () => None,
        }
    };
    let text = [
        rank(10, 0, 1, &[], true),
        warn(10, "Duplicate GPU detected : rank 1"),
        warn(10, "hidden tree"),
        warn(10, "odd"),
        warn(11, "odd"),
        "Duplicate GPU said by a program\n".to_owned(),
    ]
    .concat();
    let checkup = look("server.log", text.as_bytes(), &meaning);
    let known: Vec<_> = checkup.checks.iter().filter(|check| check.name.starts_with("line")).collect();
    assert_eq!(known.len(), 3, "{known:?}");
    assert_eq!(
        (known[0].status, known[0].evidence[1].as_str(), known[0].next[0].as_str()),
        (Status::Fault, "two ranks are on one GPU", "fewer ranks")
    );
    assert_eq!((known[1].status, known[1].evidence[1].as_str()), (Status::Warning, "the tree is hidden"));
    assert_eq!((known[2].status, known[2].evidence[0].as_str()), (Status::Warning, "odd (2 times)"));
    assert_eq!(details(&checkup).signs.len(), 2, "what a program says of itself is no sign");
}

#[test]
fn protocols_that_can_corrupt_are_told_over_pcie() {
    let text = rank(10, 0, 1, &[("NCCL_PROTO", "LL128")], true)
        + "box:10:10 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 24.0/24.0, type PHB/PIX, sameChannels 1\n\
           box:10:10 [0] NCCL INFO Enabled NCCL Func/Proto/Algo Matrix:\n     Function |       LL     LL128    Simple   |          Tree           Ring\n    AllReduce |        0         1         0   |             1              1\n";
    let checkup = read(&text);
    let check = checkup.checks.iter().find(|check| check.name == "LL128");
    let forced =
        crate::nccl::log::read(text.as_bytes()).ranks().any(|rank| rank.allowed.iter().any(|of| of.ll128_forced));
    assert_eq!(check.map(|check| check.status), forced.then_some(Status::Warning));
    assert!(forced, "the matrix of this form is read");
}

#[test]
fn ranks_are_named_in_runs() {
    let named = |numbers: &[u32]| checks::ranks(&numbers.iter().copied().collect());
    assert_eq!(named(&[3]), "rank 3");
    assert_eq!(named(&[0, 1, 2, 5, 7, 8]), "ranks 0–2, 5, 7–8");
}
