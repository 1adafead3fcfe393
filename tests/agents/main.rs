//! Several agents, each with the ranks of an emulated host: as mpirun starts them, and by RANK and WORLD_SIZE without one.
//!
//! The tests under Open MPI need `mpirun` (`apt-get install openmpi-bin`, as `.ci/run` does). On a machine without it they say
//! that they did not run, and pass; where `NCCLSWEEP_MPI=required` is set, they fail.

mod ends;
mod launched;
#[path = "../faults/left_over.rs"]
mod left_over;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use launched::{Agents, TOKEN};
use left_over::left_over;
use ncclsweep::record::run::{Applied, Run};
use ncclsweep::record::visit::{Outcome, Visit};

/// What each agent measures.
const SMALL: &str = "--emulate --sizes 7168x1 --communicators 2 --samples 4 --chain 8 --seed 7 --sets default,pcie-ll";

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_ncclsweep"))
}

/// `of` agents of a small run, and these arguments.
fn start(of: usize, arguments: &str, more: &[(Option<usize>, &str, &str)]) -> Agents {
    Agents::start(program(), of, &format!("{SMALL} {arguments}"), more)
}

/// The same under mpirun; none where there is no mpirun.
fn mpirun(of: usize, arguments: &str, more: &[(&str, &str)]) -> Option<Agents> {
    if let Err(error) = Command::new("mpirun").arg("--version").output() {
        let required = std::env::var("NCCLSWEEP_MPI").is_ok_and(|value| value == "required");
        assert!(!required, "mpirun: {error}");
        eprintln!("NOT RUN: there is no mpirun here ({error}), so no agents were started by it");
        return None;
    }
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-x", "NCCLSWEEP_TOKEN", "-np"]);
    command.arg(of.to_string()).arg(program()).args(SMALL.split(' ')).args(arguments.split_whitespace());
    command.args(["--out", "run"]);
    let mut agents = Agents::none();
    agents.spawn(&mut command, more);
    Some(agents)
}

/// The document of a run.
fn document(agents: &Agents) -> Run {
    let text = std::fs::read(agents.folder().join("run/run.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// What must hold of a run of `agents` with `each` rank.
#[track_caller]
fn is_whole(run: &Run, agents: u32, each: u32) {
    assert_eq!((run.header.plan.ranks, &run.header.plan.agents), (agents * each, &vec![each; agents as usize]));
    assert_eq!(run.header.provenance.others.len() + 1, agents as usize);
    assert!(run.visits.iter().all(|visit| visit.outcome == Outcome::Completed), "{:?}", run.visits);
    assert!(
        run.cells.iter().all(|cell| cell.applied == Applied::Applied && cell.wrong_outputs == 0),
        "{:?}",
        run.cells
    );
    // Every rank looked at its own output: of the first call, between the timed ones and of the chain, on two communicators.
    assert!(run.cells.iter().all(|cell| cell.checked_outputs == u64::from(agents * each) * 2 * (1 + 4 + 8)));
    let visit = &run.visits[0];
    let worker = visit.worker.as_ref().unwrap();
    assert_eq!((worker.devices.len(), visit.gpus.len()), ((agents * each) as usize, (agents * each) as usize));
    assert!(visit.used.iter().all(|by| by.ranks == (0..agents * each).collect::<Vec<_>>()), "{:?}", visit.used);
}

/// Pairs of ranks of a visit by whether they go over the network.
fn over_network(visit: &Visit, network: bool) -> BTreeSet<(u32, u32)> {
    let read = visit.read.as_ref().unwrap();
    assert_eq!(read.gaps, [] as [String; 0]);
    let ranks = read.communicators.iter().flat_map(|of| &of.ranks);
    let hops = ranks.flat_map(|rank| rank.sends.iter().map(move |hop| (rank.rank, hop)));
    let goes = |hop: &ncclsweep::proof::Hop| hop.via.iter().any(|via| via.to_string().starts_with("NET/Socket"));
    hops.filter(|(_, hop)| goes(hop) == network).map(|(rank, hop)| (rank, hop.to)).collect()
}

#[test]
fn two_hosts_of_four_ranks_are_one_communicator_over_the_network() {
    let mut agents = start(2, "--gpus 4 --rounds 1", &[]);
    let ended = agents.all();
    assert!(matches!(ended[0].code, Some(0 | 5)), "{ended:?}");
    assert_eq!((ended[1].code, ended[1].stdout.as_str(), ended[1].stderr.as_str()), (Some(0), "", ""));
    assert_eq!(left_over(agents.folder()), None);
    let run = document(&agents);
    is_whole(&run, 2, 4);
    assert_eq!(over_network(&run.visits[0], true), [(0, 4), (4, 0)].into(), "a tree of the hosts' first ranks");
    assert!(over_network(&run.visits[0], false).iter().all(|(from, to)| from / 4 == to / 4));
    let pids: BTreeSet<u32> = (0..8).map(|rank| run.visits[0].worker.as_ref().unwrap().pid_of(rank).unwrap()).collect();
    assert_eq!(pids.len(), 2, "a worker on each host");
    assert!(ended[0].stdout.contains("2 agents: ranks 0-3 on"), "{ended:?}");
    assert!(ended[0].stdout.contains("paths on each host: "), "nothing is said of paths between hosts: {ended:?}");
    let journal = std::fs::read_to_string(agents.folder().join("run/journal.jsonl")).unwrap();
    assert!(!journal.contains(TOKEN), "the token is nobody's to read");
    let left: Vec<_> = std::fs::read_dir(agents.folder().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_run_of_several_hosts_is_not_continued_and_left_as_it_is() {
    let mut agents = start(2, "--gpus 2 --rounds 1", &[]);
    agents.all();
    let journal = agents.folder().join("run/journal.jsonl");
    let before = std::fs::read(&journal).unwrap();
    let resumed = Command::new(program()).args(["--resume", "run"]).current_dir(agents.folder()).output().unwrap();
    let said = String::from_utf8(resumed.stderr).unwrap();
    assert_eq!(resumed.status.code(), Some(2), "{said}");
    assert!(said.contains("was measured by 2 agents"), "{said}");
    assert_eq!(std::fs::read(&journal).unwrap(), before);
}

#[test]
fn processes_on_each_host_measure_what_threads_measure() {
    let quiet = [(None, "NCCLSWEEP_EMULATE_NOISE", "none")];
    let mut agents = start(2, "--gpus 2 --rounds 1 --launch threads,processes --modes graph,sync", &quiet);
    let ended = agents.all();
    assert!(matches!(ended[0].code, Some(0 | 5)), "{ended:?}");
    let run = document(&agents);
    is_whole(&run, 2, 2);
    let half = run.cells.len() / 2;
    for (threads, processes) in run.cells[..half].iter().zip(&run.cells[half..]) {
        let (one, other) = (threads.median_us.unwrap(), processes.median_us.unwrap());
        assert!((one / other - 1.0).abs() < 1e-6, "{}: {one} and {other} µs", threads.mode);
    }
}

#[test]
fn a_rank_of_another_host_may_miss_a_variable_and_communicators_take_turns() {
    let mut agents = start(2, "--gpus 2 --rounds 1 --launch processes --rank-env 3:NCCL_PROTO= --alive 2 --floor", &[]);
    let ended = agents.all();
    assert_eq!(ended[0].code, Some(1), "its settings are not in effect: {ended:?}");
    let run = document(&agents);
    let applied: Vec<Applied> = run.cells.iter().map(|cell| cell.applied).collect();
    assert_eq!(applied, [Applied::Applied, Applied::Partly]);
    assert!(ended[0].stdout.contains("rank 3 without it"), "{ended:?}");
    // Two communicators a visit, and three in turn.
    assert!(run.cells.iter().all(|cell| cell.checked_outputs > 4 * 2 * (1 + 4 + 8)), "{:?}", run.cells);
    assert!(run.floor.is_none() && ended[0].stderr.contains("between hosts nothing is measured"), "{ended:?}");
}

#[test]
fn settings_that_hosts_inherit_differently_are_said_without_their_names_where_these_are_secret() {
    let mut agents = start(2, "--gpus 2 --rounds 1 --redact", &[(Some(1), "NCCL_MAX_NCHANNELS", "1")]);
    let ended = agents.all();
    let (said, shown) = (&ended[0].stderr, &ended[0].stdout);
    let warning =
        "the hosts inherit NCCL_MAX_NCHANNELS differently: not set on host-1 (agent 0), 1 on host-1 (agent 1)";
    assert!(said.contains(warning), "{ended:?}");
    assert!(document(&agents).warnings.iter().any(|stored| stored.contains(warning)));
    assert!(
        shown.contains("inherited NCCL_MAX_NCHANNELS: not set on") && !shown.contains("under every set"),
        "{shown}"
    );
}

#[test]
fn a_soak_looks_at_the_data_of_all_hosts() {
    let mut agents = start(2, "--gpus 2 --soak 1s", &[]);
    let ended = agents.all();
    assert_eq!(ended[0].code, Some(0), "{ended:?}");
    assert!(ended[0].stdout.contains("no wrong data"), "{ended:?}");
    let run = document(&agents);
    assert!(run.visits.len() >= 2 && run.cells.iter().all(|cell| cell.checked_outputs > 0 && cell.wrong_outputs == 0));
}

#[test]
fn under_open_mpi_two_hosts_of_four_ranks_are_one_communicator() {
    let Some(mut agents) = mpirun(2, "--gpus 4 --rounds 1", &[]) else { return };
    let ended = agents.end(0);
    assert!(matches!(ended.code, Some(0 | 5)), "{ended:?}");
    is_whole(&document(&agents), 2, 4);
    assert_eq!(left_over(agents.folder()), None);
}

#[test]
fn under_open_mpi_four_hosts_of_eight_ranks_are_one_communicator() {
    let Some(mut agents) = mpirun(4, "--gpus 8 --rounds 1", &[]) else { return };
    let ended = agents.end(0);
    assert!(matches!(ended.code, Some(0 | 5)), "{ended:?}");
    let run = document(&agents);
    is_whole(&run, 4, 8);
    // The two trees over four hosts: one hangs the third below the first, the other the second below the last.
    let pairs = [(0, 16), (16, 8), (16, 24), (24, 8), (8, 16), (8, 0)];
    let both_ways = pairs.into_iter().flat_map(|(from, to)| [(from, to), (to, from)]).collect();
    assert_eq!(over_network(&run.visits[0], true), both_ways);
    assert_eq!(left_over(agents.folder()), None);
}

#[test]
fn without_a_launcher_or_with_none_asked_for_a_host_is_alone() {
    let mut agents = start(1, "--gpus 2 --rounds 1 --rendezvous none", &[(None, "WORLD_SIZE", "7")]);
    let ended = agents.end(0);
    assert!(matches!(ended.code, Some(0 | 5)), "{ended:?}");
    assert_eq!(document(&agents).header.plan.agents, [] as [u32; 0]);
}
