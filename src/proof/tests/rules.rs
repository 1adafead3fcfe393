//! Rules on hand-made uses and logs.

use std::sync::Arc;

use super::*;
use crate::nccl::register::Register;
use crate::topology::Path;

/// A log of two ranks whose pairs go `via`, with this many channels.
pub(super) fn connected(via: &str, channels: u32, env: &[&str]) -> Log {
    let mut lines = Vec::new();
    let rank = |rank: u32, what: &str| {
        format!(
            "b:1:{rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x{rank}0 rank {rank} nranks 2 cudaDev {rank} busId {rank}0 commId 0xa - Init {what}"
        )
    };
    for from in 0..2 {
        lines.push(rank(from, "START"));
        lines.extend(env.iter().map(|line| format!("b:1:{from} [{from}] NCCL INFO {line}")));
        lines.push(format!("b:1:{from} [{from}] NCCL INFO {channels} coll channels, 0 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer"));
        lines.push(rank(from, "COMPLETE"));
        let to = 1 - from;
        lines.extend((0..channels).map(|channel| {
            format!("b:1:{from} [{from}] NCCL INFO Channel {channel:02}/0 : {from}[{from}] -> {to}[{to}] via {via}")
        }));
    }
    log::read((lines.join("\n") + "\n").as_bytes())
}

/// The state of the one variable of `set` with this log and use.
pub(super) fn state(set: &str, log: &Log, used: &Used) -> State {
    visit("", set).reading(log).using(used).version("2.28.3").proof(set.split_once('=').unwrap().0).state
}

#[test]
fn a_protocol_is_judged_by_what_the_list_leaves_for_all_reduce() {
    let log = connected("SHM/direct", 2, &[]);
    for (set, expected) in [
        ("NCCL_PROTO=LL", State::Applied),
        ("NCCL_PROTO=ll,simple", State::Applied),
        ("NCCL_PROTO=^LL128", State::Applied),
        ("NCCL_PROTO=^LL", State::NotApplied),
        ("NCCL_PROTO=Simple;allreduce:LL", State::Applied),
        ("NCCL_PROTO=LL;allreduce:Simple", State::NotApplied),
        ("NCCL_PROTO=broadcast:Simple", State::NoEffectHere),
        ("NCCL_PROTO=broadcast:Simple;allreduce:LL", State::Applied),
        ("NCCL_PROTO=", State::NoEffectHere),
        ("NCCL_ALGO=tree,ring", State::Applied),
        ("NCCL_ALGO=^Ring", State::NotApplied),
        ("NCCL_ALGO=allgather:tree", State::NoEffectHere),
    ] {
        assert_eq!(state(set, &log, &ring_ll()), expected, "{set}");
    }
    let read = connected("SHM/direct", 2, &["NCCL_PROTO set by environment to Simple"]);
    assert_eq!(state("NCCL_PROTO=Simple", &read, &ring_ll()), State::Overridden, "read, and something else was used");
}

#[test]
fn an_old_version_that_finds_nothing_usable_takes_something_else() {
    let evidence = visit("", "NCCL_ALGO=CollNetDirect").version("2.17.1").using(&ring_ll());
    let proof = evidence.proof("NCCL_ALGO");
    assert_ne!(proof.state, State::Applied);
    let evidence = visit("", "NCCL_ALGO=foo").version("2.21.5").using(&ring_ll());
    let proof = evidence.proof("NCCL_ALGO");
    assert_eq!(proof.state, State::Overridden);
    assert_eq!(proof.why.as_deref(), Some("it leaves nothing usable: NCCL takes Tree and Ring instead"));
}

#[test]
fn buffers_act_on_their_own_protocol_and_leave_no_trace_under_it() {
    let log = connected("SHM/direct", 2, &["NCCL_BUFFSIZE set by environment to 8388608."]);
    let simple = used(Algorithm::Ring, Protocol::Simple, 2, 9);
    assert_eq!(state("NCCL_BUFFSIZE=8388608", &log, &ring_ll()), State::NoEffectHere);
    assert_eq!(state("NCCL_LL_BUFFSIZE=8388608", &log, &simple), State::NoEffectHere);
    let proof = visit("", "NCCL_BUFFSIZE=8388608").reading(&log).using(&simple).proof("NCCL_BUFFSIZE");
    assert_eq!(proof.state, State::Unverified);
    assert_eq!(proof.why.as_deref(), Some("NCCL read it, and nothing that is recorded shows its effect"));
    assert_eq!(state("NCCL_BUFFSIZE=4194304", &log, &simple), State::NotApplied, "NCCL read another number");
    assert_eq!(state("NCCL_LL_BUFFSIZE=524288", &log, &ring_ll()), State::NoEffectHere, "the default");
}

#[test]
fn threads_are_judged_by_warps() {
    let log = connected("SHM/direct", 2, &[]);
    let read = connected("SHM/direct", 2, &["NCCL_NTHREADS set by environment to 256."]);
    let ring = |protocol, channels, warps| used(Algorithm::Ring, protocol, channels, warps);
    assert_eq!(state("NCCL_NTHREADS=256", &log, &ring(Protocol::Ll, 2, 8)), State::Applied);
    assert_eq!(
        state("NCCL_NTHREADS=256", &log, &ring(Protocol::Simple, 2, 9)),
        State::Applied,
        "a warp to synchronise"
    );
    assert_eq!(state("NCCL_NTHREADS=256", &log, &ring(Protocol::Ll, 2, 16)), State::NotApplied);
    assert_eq!(state("NCCL_NTHREADS=256", &read, &ring(Protocol::Ll, 2, 16)), State::Overridden);
    assert_eq!(state("NCCL_NTHREADS=256", &log, &ring(Protocol::Ll, 1, 4)), State::Unverified, "a small size");
    assert_eq!(state("NCCL_NTHREADS=256", &read, &ring(Protocol::Ll, 1, 4)), State::Applied, "read, and a small size");
    assert_eq!(state("NCCL_NTHREADS=256", &log, &ring(Protocol::Ll128, 2, 20)), State::NoEffectHere);
    let tree = used(Algorithm::Tree, Protocol::Ll, 2, 20);
    assert_eq!(state("NCCL_NTHREADS=256", &read, &tree), State::Unverified, "a tree has 640 whatever is set");
    assert_eq!(state("NCCL_LL128_NTHREADS=320", &log, &ring_ll()), State::NoEffectHere);
    assert_eq!(state("NCCL_LL128_NTHREADS=320", &log, &ring(Protocol::Ll128, 2, 10)), State::Applied);
}

#[test]
fn channels_are_judged_by_those_set_up_and_those_used() {
    let log = connected("SHM/direct", 8, &[]);
    assert_eq!(state("NCCL_MAX_CTAS=8", &log, &ring_ll()), State::Applied);
    assert_eq!(state("NCCL_MAX_CTAS=4", &log, &ring_ll()), State::NotApplied, "eight were set up");
    assert_eq!(state("NCCL_MIN_NCHANNELS=8", &log, &ring_ll()), State::Applied, "small sizes still use one");
    assert_eq!(state("NCCL_MIN_NCHANNELS=16", &log, &ring_ll()), State::NotApplied);
    let bare =
        |set: &str, used: &Used| visit("", set).version("2.28.3").using(used).state(set.split_once('=').unwrap().0);
    assert_eq!(bare("NCCL_MAX_NCHANNELS=4", &ring_ll()), State::Applied, "no log, one channel used");
    assert_eq!(bare("NCCL_MIN_NCHANNELS=4", &ring_ll()), State::Unverified);
    let bound = |most| Used { channels: Some(Channels::AtMost(most)), ..ring_ll() };
    assert_eq!(bare("NCCL_MAX_NCHANNELS=4", &bound(4)), State::Applied, "an upper bound is enough");
    assert_eq!(bare("NCCL_MAX_NCHANNELS=4", &bound(8)), State::Unverified, "less than the bound may be used");
    let nvls = used(Algorithm::Nvls, Protocol::Simple, 16, 20);
    assert_eq!(bare("NCCL_MAX_NCHANNELS=4", &nvls), State::NoEffectHere);
    assert_eq!(bare("NCCL_MAX_CTAS=4", &nvls), State::NotApplied);
    assert_eq!(bare("NCCL_NVLS_NCHANNELS=16", &nvls), State::Applied);
    assert_eq!(bare("NCCL_NVLS_NCHANNELS=16", &ring_ll()), State::NoEffectHere);
}

#[test]
fn a_minimum_above_the_maximum_is_named_as_what_overrode_it() {
    let env = ["NCCL_MAX_NCHANNELS set by environment to 4.", "NCCL_MIN_NCHANNELS set by environment to 8."];
    let log = connected("SHM/direct", 8, &env);
    let evidence = visit("", "NCCL_MAX_NCHANNELS=4 NCCL_MIN_NCHANNELS=8").reading(&log).using(&ring_ll());
    let proof = evidence.proof("NCCL_MAX_NCHANNELS");
    assert_eq!(proof.state, State::Overridden);
    assert_eq!(proof.why.as_deref(), Some("8 channels were set up, as NCCL_MIN_NCHANNELS asks for 8"));
    assert_eq!(evidence.state("NCCL_MIN_NCHANNELS"), State::Applied);
}

#[test]
fn a_level_is_judged_pair_by_pair_by_what_lies_between() {
    let with = |set: &str, via: &str, path: Option<Path>, env: &[&str]| {
        let mut evidence = visit("", set).reading(&connected(via, 2, env)).using(&ring_ll());
        evidence.paths = Arc::new(path.into_iter().flat_map(|path| [((0, 1), path), ((1, 0), path)]).collect());
        evidence.state("NCCL_P2P_LEVEL")
    };
    assert_eq!(with("NCCL_P2P_LEVEL=SYS", "P2P/CUMEM", None, &[]), State::Applied);
    assert_eq!(with("NCCL_P2P_LEVEL=LOC", "SHM/direct", None, &[]), State::Applied);
    assert_eq!(with("NCCL_P2P_LEVEL=PHB", "P2P/CUMEM", None, &[]), State::Unverified, "what lies between is not known");
    assert_eq!(with("NCCL_P2P_LEVEL=PHB", "P2P/CUMEM", Some(Path::Node), &[]), State::Applied);
    assert_eq!(with("NCCL_P2P_LEVEL=PHB", "SHM/direct", Some(Path::Sys), &[]), State::Applied);
    assert_eq!(with("NCCL_P2P_LEVEL=PXB", "P2P/CUMEM", Some(Path::Sys), &[]), State::NotApplied);
    assert_eq!(with("NCCL_P2P_LEVEL=SYS", "SHM/direct", Some(Path::Sys), &[]), State::NotApplied);
    let read = ["NCCL_P2P_LEVEL set by environment to SYS"];
    assert_eq!(
        with("NCCL_P2P_LEVEL=SYS", "SHM/direct", Some(Path::Sys), &read),
        State::NoEffectHere,
        "the driver lets none"
    );
    assert_eq!(with("NCCL_P2P_LEVEL=5", "P2P/CUMEM", Some(Path::Sys), &read), State::Applied, "5 means SYS");
    assert_eq!(with("NCCL_P2P_LEVEL=PIX", "P2P/CUMEM", Some(Path::Nvl(Some(4))), &[]), State::NoEffectHere);
    assert_eq!(with("NCCL_P2P_LEVEL=sys", "P2P/CUMEM", Some(Path::Sys), &[]), State::NotApplied, "ignored in silence");
    assert_eq!(with("NCCL_P2P_DISABLE=1 NCCL_P2P_LEVEL=SYS", "SHM/direct", None, &[]), State::NoEffectHere);
}

#[test]
fn on_one_gpu_no_level_matters_and_no_nvlink_is_to_blame() {
    let mut evidence =
        visit("", "NCCL_P2P_LEVEL=SYS").reading(&connected("P2P/direct pointer", 2, &[])).using(&ring_ll());
    evidence.devices = vec![0, 0];
    evidence.paths = Arc::new([((0, 1), Path::Loc), ((1, 0), Path::Loc)].into_iter().collect());
    let proof = evidence.proof("NCCL_P2P_LEVEL");
    assert_eq!((proof.state, proof.why.as_deref()), (State::NoEffectHere, Some("all ranks share one GPU")));
}

#[test]
fn details_of_peer_connections_tell_their_variables() {
    let peer = |set: &str, via: &str| state(set, &connected(via, 2, &[]), &ring_ll());
    assert_eq!(peer("NCCL_P2P_DIRECT_DISABLE=1", "P2P/CUMEM"), State::Applied);
    assert_eq!(peer("NCCL_P2P_DIRECT_DISABLE=1", "P2P/direct pointer"), State::NotApplied);
    assert_eq!(peer("NCCL_P2P_DIRECT_DISABLE=1", "SHM/direct"), State::NoEffectHere);
    assert_eq!(peer("NCCL_P2P_READ_ENABLE=1", "P2P/IPC/read"), State::Applied);
    assert_eq!(peer("NCCL_P2P_READ_ENABLE=0", "P2P/direct pointer/read"), State::NotApplied);
    assert_eq!(peer("NCCL_P2P_USE_CUDA_MEMCPY=1", "P2P/CUMEM/CE"), State::Applied);
    assert_eq!(peer("NCCL_SHM_USE_CUDA_MEMCPY=1", "SHM/CE/direct"), State::Applied);
    assert_eq!(peer("NCCL_SHM_USE_CUDA_MEMCPY=1", "SHM/direct/direct"), State::NotApplied);
    assert_eq!(peer("NCCL_CUMEM_ENABLE=0", "P2P/IPC"), State::Applied);
    assert_eq!(peer("NCCL_CUMEM_ENABLE=0", "P2P/CUMEM"), State::NotApplied);
    assert_eq!(peer("NCCL_CUMEM_ENABLE=1", "P2P/direct pointer"), State::Unverified, "threads show nothing of it");
    assert_eq!(peer("NCCL_SHM_DISABLE=1", "NET/Socket/0"), State::Applied);
    assert_eq!(peer("NCCL_SHM_DISABLE=1", "SHM/direct"), State::NotApplied);
    assert_eq!(peer("NCCL_P2P_DISABLE=2", "SHM/direct"), State::NoEffectHere);
    assert_eq!(peer("NCCL_SOCKET_NTHREADS=2", "NET/Socket/0"), State::Unverified);
    assert_eq!(peer("NCCL_MIN_P2P_NCHANNELS=2", "NET/Socket/0"), State::NoEffectHere);
}

#[test]
fn what_forbids_is_satisfied_by_what_was_not_used_and_what_permits_by_its_being_read() {
    let log = connected("SHM/direct", 2, &[]);
    let read = connected("SHM/direct", 2, &["NCCL_NVLS_ENABLE set by environment to 1."]);
    let nvls = used(Algorithm::Nvls, Protocol::Simple, 16, 20);
    assert_eq!(state("NCCL_NVLS_ENABLE=0", &log, &ring_ll()), State::Applied);
    assert_eq!(state("NCCL_NVLS_ENABLE=0", &log, &nvls), State::NotApplied);
    assert_eq!(state("NCCL_NVLS_ENABLE=1", &log, &nvls), State::Applied);
    assert_eq!(state("NCCL_NVLS_ENABLE=1", &log, &ring_ll()), State::Unverified);
    assert_eq!(state("NCCL_NVLS_ENABLE=1", &read, &ring_ll()), State::NoEffectHere);
    assert_eq!(state("NCCL_COLLNET_ENABLE=0", &log, &ring_ll()), State::NoEffectHere, "the default");
    assert_eq!(state("NCCL_PAT_ENABLE=1", &log, &ring_ll()), State::NoEffectHere);
}

#[test]
fn variables_of_captured_calls_have_no_effect_on_eager_ones() {
    let evidence = |mode| {
        let evidence = visit("", "NCCL_GRAPH_REGISTER=0 NCCL_LAUNCH_MODE=PARALLEL NCCL_GRAPH_MIXING_SUPPORT=0");
        let simple = used(Algorithm::Ring, Protocol::Simple, 2, 17);
        let evidence = evidence.using(&Used { captured: Some(mode == Mode::Graph), ..simple });
        judge(&evidence, 0, &case(SIZES[0], mode)).into_iter().map(|proof| proof.state).collect::<Vec<_>>()
    };
    assert_eq!(evidence(Mode::Stream), [State::NoEffectHere, State::NoEffectHere, State::Unverified]);
    assert_eq!(evidence(Mode::Graph), [State::Unverified, State::NoEffectHere, State::Unverified]);
    let low = visit("", "NCCL_GRAPH_REGISTER=0").using(&ring_ll());
    assert_eq!(low.state("NCCL_GRAPH_REGISTER"), State::NoEffectHere, "LL registers nothing");
}

#[test]
fn captured_calls_register_what_peers_can_write_to() {
    let simple = used(Algorithm::Ring, Protocol::Simple, 2, 17);
    let state = |transport, register, more: &str| {
        let log = connected(transport, 2, &["NCCL_GRAPH_REGISTER set by environment to 0."]);
        let evidence = visit("", &format!("NCCL_GRAPH_REGISTER=0{more}")).reading(&log).version("2.28.3");
        Evidence { register, ..evidence }.using(&simple).state("NCCL_GRAPH_REGISTER")
    };
    let (plain, nccls, unknown) = (Some(Register::None), Some(Register::Capture), None);
    assert_eq!(state("P2P/direct pointer", nccls, ""), State::Unverified);
    assert_eq!(state("P2P/direct pointer", unknown, ""), State::Unverified, "of another program");
    assert_eq!(state("P2P/direct pointer", plain, ""), State::NoEffectHere, "results/1xh200/capture");
    assert_eq!(state("P2P/direct pointer", plain, " NCCL_LEGACY_CUDA_REGISTER=1"), State::Unverified);
    assert_eq!(state("SHM/direct", nccls, ""), State::NoEffectHere);
    assert_eq!(state("NET/Socket/0", plain, ""), State::Unverified);
}

#[test]
fn a_tuner_is_applied_when_the_log_says_so() {
    let env = "NCCL_TUNER_PLUGIN set by environment to mine";
    let tuner = |line: &str| state("NCCL_TUNER_PLUGIN=mine", &connected("SHM/direct", 2, &[env, line]), &ring_ll());
    assert_eq!(tuner("TUNER/Plugin: Using mine (v4)"), State::Applied);
    assert_eq!(
        tuner("TUNER/Plugin: Could not find: mine libnccl-tuner-mine.so. Using internal tuner plugin."),
        State::NotApplied
    );
    assert_eq!(tuner("Connected all rings"), State::Unverified);
}

#[test]
fn with_one_rank_nothing_that_acts_on_an_algorithm_has_an_effect() {
    let alone = |set: &str| {
        let mut visit = visit("", set).version("2.28.3");
        visit.devices = vec![0];
        visit.alone = true;
        visit.seen[0].ranks = vec![0];
        visit.proof(set.split_once('=').unwrap().0)
    };
    for set in ["NCCL_PROTO=LL", "NCCL_ALGO=Ring", "NCCL_NTHREADS=256", "NCCL_P2P_LEVEL=SYS", "NCCL_BUFFSIZE=1048576"] {
        let proof = alone(set);
        assert_eq!(proof.state, State::NoEffectHere, "{set}");
        assert!(proof.why.unwrap().contains("one rank"), "{set}");
    }
    let mut lost = visit("", "NCCL_PROTO=LL").version("2.28.3");
    (lost.devices, lost.seen) = (vec![0], vec![Seen { ranks: vec![0], variables: Vars::default() }]);
    assert_eq!(lost.proof("NCCL_PROTO").state, State::NotApplied, "what never arrived is told first");
}
