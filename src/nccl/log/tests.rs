//! Recorded logs of 2.21.5, 2.28.3 and 2.32.3 with what they say, forms of other versions written after NCCL's source, and
//! garbled input.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-log")
}

fn recorded(name: &str) -> Log {
    let log = read_file(&folder().join(name)).unwrap();
    assert_eq!((log.problems.as_slice(), log.more_problems, log.left_out), ([].as_slice(), 0, 0), "{name}");
    log
}

fn text(lines: &[&str]) -> Log {
    read((lines.join("\n") + "\n").as_bytes())
}

fn only(log: &Log) -> &Communicator {
    assert_eq!(log.communicators.len(), 1, "one communicator");
    &log.communicators[0]
}

/// Bytes, algorithm, protocol, channels, times.
type Shown = (u64, String, String, Option<(u32, u32)>, u64);

fn choices(communicator: &Communicator) -> Vec<Shown> {
    let shown = |c: &Choice| (c.bytes.0, c.algorithm.to_string(), c.protocol.to_string(), c.channels, c.times);
    communicator.choices().map(shown).collect()
}

fn values<'a>(log: &'a Log, name: &'a str) -> Vec<&'a str> {
    log.env(name).map(|(_, seen)| seen.value.as_str()).collect()
}

#[test]
fn buffers_in_host_memory_are_told_by_size_and_kind() {
    let buffers = |log: &Log| log.processes[0].buffers.iter().map(|b| (b.bytes.0, b.cumem)).collect::<Vec<_>>();
    for (name, bytes) in [
        ("2.28.3-default-2ranks-hostmem.log", 9_637_888),
        ("2.28.3-pcie-ll-2ranks-hostmem.log", 22_220_800),
        ("2.32.3-pcie-ll-8ranks-on-2gpus-hostmem.log", 22_220_800),
    ] {
        assert_eq!(buffers(&recorded(name)), [(4096, false), (bytes, false)], "{name}");
    }
    let head = "vm:1:7 [0] NCCL INFO";
    let log = text(&[
        &format!("{head} CUMEM allocated shareable buffer 0x7f41d47ad000 size 9637888"),
        &format!("{head} MMAP allocated shareable host buffer /dev/shm/nccl-X size 96378"),
        &format!("{head} MMAP imported shareable host buffer /dev/shm/nccl-X size 4096 ptr 0x7f41c36ce000"),
    ]);
    assert_eq!(buffers(&log), [(9_637_888, true)], "a line that is cut could have lost digits");
}

#[test]
fn every_recorded_pair_tells_version_ranks_and_transport() {
    let expected = [
        ("2.21.5-default-2ranks-hostmem.log", "2.21.5", "SHM/direct/direct", 4, 2),
        ("2.21.5-default-2ranks-nvlink.log", "2.21.5", "P2P/direct pointer", 24, 12),
        ("2.21.5-pcie-ll-2ranks-hostmem.log", "2.21.5", "SHM/direct/direct", 4, 2),
        ("2.28.3-default-2ranks-hostmem.log", "2.28.3", "SHM/direct/direct", 4, 2),
        ("2.28.3-default-2ranks-nvlink.log", "2.28.3", "P2P/direct pointer", 24, 12),
        ("2.28.3-pcie-ll-2ranks-hostmem.log", "2.28.3", "SHM/direct/direct", 4, 2),
        ("2.32.3-default-2ranks-hostmem.log", "2.32.3", "SHM/direct", 4, 2),
        ("2.32.3-default-2ranks-nvlink.log", "2.32.3", "P2P/direct pointer", 24, 12),
        ("2.32.3-pcie-ll-2ranks-hostmem.log", "2.32.3", "SHM/direct", 4, 2),
    ];
    for (name, version, transport, channels, searched) in expected {
        let log = recorded(name);
        assert_eq!(log.version().unwrap().to_string(), version, "{name}");
        assert_eq!(log.processes.len(), 1, "{name}");
        let communicator = only(&log);
        assert_eq!((communicator.size, communicator.missing()), (Some(2), vec![]), "{name}");
        assert!(communicator.id.as_deref().is_some_and(|id| id.starts_with("0x")), "{name}");
        for (number, rank) in (0..).zip(&communicator.ranks) {
            assert_eq!((rank.rank, rank.device), (Some(number), Some(number)), "{name}");
            assert_eq!(rank.bus.as_deref(), Some(["60", "70"][number as usize]), "{name}");
            assert!(rank.complete, "{name}");
            assert_eq!((rank.rings, rank.trees), (channels, channels), "{name}");
            assert_eq!(rank.channels.unwrap().collective, channels, "{name}");
            assert_eq!(rank.network.as_deref(), Some("Socket"), "{name}");
            assert_eq!(rank.graphs.len(), 2, "{name}");
            assert_eq!((rank.graphs[0].pattern, rank.graphs[0].channels), (4, searched), "{name}");
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let shown: Vec<_> = communicator.transports(from, to).iter().map(ToString::to_string).collect();
            assert_eq!(shown, [transport], "{name}");
        }
        assert_eq!(communicator.pairs(), BTreeSet::from([(0, 1), (1, 0)]), "{name}");
    }
}

#[test]
fn choices_of_2_21_are_numbers_with_a_time() {
    let log = recorded("2.21.5-default-2ranks-hostmem.log");
    let communicator = only(&log);
    let shown = choices(communicator);
    assert_eq!(shown.len(), 5);
    assert_eq!(shown[0], (14_336, "Ring".into(), "LL".into(), None, 2));
    let first = communicator.choices().next().unwrap();
    assert_eq!((first.function.clone(), first.time), (None, Some(Micros(9.3168))));
    assert!(communicator.ranks[1].choices.is_empty());
}

#[test]
fn choices_of_2_28_and_2_32_are_names_with_channels() {
    for (name, last) in [("2.28.3-default-2ranks-nvlink.log", 22), ("2.32.3-default-2ranks-hostmem.log", 3)] {
        let log = recorded(name);
        let shown = choices(only(&log));
        assert_eq!(shown[0], (14_336, "Ring".into(), "LL".into(), Some((0, 0)), 2), "{name}");
        assert_eq!(shown[1], (28_672, "Ring".into(), "LL".into(), Some((0, 2)), 1), "{name}");
        assert_eq!(shown[4], (229_376, "Ring".into(), "LL".into(), Some((0, last)), 1), "{name}");
        assert!(only(&log).choices().all(|choice| choice.function == Some(Function::AllReduce)));
    }
}

#[test]
fn variables_are_seen_with_the_rank_that_read_them() {
    let log = recorded("2.28.3-pcie-ll-2ranks-hostmem.log");
    let by_rank = |name| log.env(name).map(|(_, seen)| seen.rank.unwrap().1).collect::<BTreeSet<_>>();
    assert_eq!(by_rank("NCCL_PROTO"), BTreeSet::from([0, 1]), "read at every initialisation");
    assert_eq!(by_rank("NCCL_BUFFSIZE"), BTreeSet::from([1]), "read once per process");
    assert_eq!(values(&log, "NCCL_BUFFSIZE"), ["16777216"]);
    assert_eq!(values(&log, "NCCL_ALGO"), ["Ring", "Ring"]);
    assert_eq!(values(&log, "NCCL_NTHREADS"), ["512"]);
    // P2P_DISABLE beats P2P_LEVEL, which is never read then.
    assert_eq!((values(&log, "NCCL_P2P_DISABLE"), values(&log, "NCCL_P2P_LEVEL")), (vec!["1", "1"], vec![]));
}

#[test]
fn the_graph_search_and_the_model_are_kept() {
    let log = recorded("2.28.3-default-2ranks-hostmem.log");
    let rank = &only(&log).ranks[0];
    let graph = &rank.graphs[1];
    assert_eq!((graph.pattern, graph.same_channels, graph.bandwidth_intra), (1, false, GBps(40.0)));
    assert_eq!((graph.type_intra.as_str(), graph.type_inter.as_str()), ("PHB", "PIX"));
    assert_eq!(rank.orders, vec![vec![0, 1]; 4]);
    let cell = |algorithm, protocol| {
        let is = |cell: &&TuningCell| {
            (&cell.function, &cell.algorithm, &cell.protocol) == (&Function::AllReduce, &algorithm, &protocol)
        };
        rank.tuning.iter().find(is).map(|cell| (cell.latency, cell.bandwidth))
    };
    assert_eq!(cell(Algorithm::Ring, Protocol::Ll), Some((Micros(8.6), GBps(20.0))));
    assert_eq!(rank.tuning.len(), 5 * 7 * 3);
    assert!(rank.threads.contains(&(Algorithm::Ring, Protocol::Ll, 512)));
}

#[test]
fn the_matrix_tells_what_stays_allowed() {
    for name in ["2.28.3-pcie-ll-2ranks-hostmem.log", "2.32.3-pcie-ll-2ranks-hostmem.log"] {
        let log = recorded(name);
        let allowed = &only(&log).ranks[0].allowed;
        assert_eq!(allowed.len(), 5, "{name}");
        for row in allowed {
            assert_eq!(
                (row.algorithms.as_slice(), row.protocols.as_slice()),
                (&[Algorithm::Ring][..], &[Protocol::Ll][..])
            );
            assert!(!row.ll128_forced);
        }
    }
}

#[test]
fn eight_ranks_on_two_devices_are_told_apart() {
    let log = recorded("2.32.3-pcie-ll-8ranks-on-2gpus-hostmem.log");
    let communicator = only(&log);
    let ranks: Vec<_> = communicator.ranks.iter().map(|rank| (rank.rank.unwrap(), rank.device.unwrap())).collect();
    assert_eq!(ranks, (0..8).map(|rank| (rank, rank % 2)).collect::<Vec<_>>());
    assert!(communicator.ranks.iter().all(|rank| rank.complete && rank.rings == 4 && !rank.links.is_empty()));
    assert_eq!(communicator.ranks[0].orders[0], [0, 2, 4, 6, 1, 3, 5, 7]);
    let transport = |from, to| communicator.transports(from, to).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(transport(1, 3), ["P2P/direct pointer"], "on one device");
    assert_eq!(transport(7, 0), ["SHM/direct"]);
    assert_eq!(values(&log, "NCCL_MULTI_RANK_GPU_ENABLE"), ["1"]);
}

#[test]
fn logs_of_bad_settings_tell_what_was_refused() {
    let log = recorded("2.21.5-bad.log");
    assert_eq!(values(&log, "NCCL_BUFFSIZE"), ["4"], "4M is read as 4");
    let refused = log.env("NCCL_NTHREADS").filter(|(_, seen)| seen.refused).count();
    assert_eq!(refused, 6);
    let threads: Vec<_> = log.warnings.iter().filter(|w| w.message.contains("multiple of 32")).collect();
    assert_eq!(threads.iter().map(|warning| warning.times).sum::<u64>(), 6);
    assert_eq!(threads[0].place.as_deref(), Some("graph/tuning.cc:19"));

    let log = recorded("2.28.3-bad.log");
    let said = |part: &str| log.warnings.iter().any(|warning| warning.message.contains(part));
    assert!(
        said("Unrecognized element token \"foo\"") && said("no algorithm/protocol available for function AllReduce")
    );
    assert!(said("no socket interface found"));
    assert_eq!(log.processes.len(), 9, "one process per bad setting");
}

#[test]
fn what_only_mentions_channels_is_no_gap_and_two_lines_in_one_are() {
    let problems = |line: &str| text(&[&format!("box:10:11 [0] NCCL INFO {line}")]).problems.len();
    assert_eq!(problems("NVLS tuning: nChannels 16 chunkSize 131072 algThreshold 1024"), 0);
    assert_eq!(problems("Comm config nChannelsPerNetPeer reset to 1"), 0);
    let joined =
        "NCCL_PROTO set by environment to LL[2026-11-30 14:55:56] box:10:12 [1] plugin/net.cc:229 NCCL ATTN Failed";
    assert_eq!(problems(joined), 1);
    assert_eq!(problems("Pattern 4, crossNic 0, nChannels"), 0, "cut before its mark");
    assert_eq!(problems("Pattern 4, crossNic 0, nChannels x"), 1);
}

#[test]
fn forms_of_versions_that_were_not_recorded_are_read() {
    // 2.8 to 2.11: no Init START, PCI addresses as tags, unsigned numbers, `speed`, one row of headings.
    let log = text(&[
        "NCCL version 2.8.4+cuda11.0",
        "box:10:11 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 8388608.",
        "box:10:11 [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 18446744073709551615.",
        "box:10:12 [1] NCCL INFO NCCL_SOCKET_IFNAME set to eth0",
        "box:10:11 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 2, speed 12.000000/12.000000, type PHB/PIX, sameChannels 1",
        "box:10:11 [0] NCCL INFO Channel 00/02 :    0   1",
        "box:10:11 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1",
        "box:10:12 [1] NCCL INFO Trees [0] -1/-1/-1->1->0 [1] 0/-1/-1->1->-1",
        "box:10:11 [0] NCCL INFO Channel 00 : 0[1a000] -> 1[1b000] via direct shared memory",
        "box:10:12 [1] NCCL INFO Channel 00 : 1[1b000] -> 0[1a000] via P2P/IPC/read",
        "box:10:11 [0] NCCL INFO Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Ring/Simple |",
        "box:10:11 [0] NCCL INFO  Max NThreads |            512 |            640 |            256 |",
        "box:10:11 [0] NCCL INFO     AllReduce |     8.8/   9.7 |    17.8/   0.0 |    19.8/  40.0 |",
        "box:10:11 [0] NCCL INFO 2 coll channels, 2 p2p channels, 1 p2p channels per peer",
        "box:10:11 [0] NCCL INFO comm 0x7f0a rank 0 nranks 2 cudaDev 0 busId 1a000 - Init COMPLETE",
        "box:10:12 [1] NCCL INFO comm 0x7f0b rank 1 nranks 2 cudaDev 1 busId 1b000 - Init COMPLETE",
    ]);
    assert_eq!((log.problems.as_slice(), log.version().unwrap().to_string().as_str()), ([].as_slice(), "2.8.4"));
    assert_eq!((values(&log, "NCCL_BUFFSIZE"), values(&log, "NCCL_IB_GID_INDEX")), (vec!["8388608"], vec!["-1"]));
    assert_eq!(values(&log, "NCCL_SOCKET_IFNAME"), ["eth0"]);
    let communicator = only(&log);
    assert_eq!(
        communicator.ranks.iter().map(|rank| (rank.rank, rank.trees)).collect::<Vec<_>>(),
        [(Some(0), 2), (Some(1), 2)]
    );
    assert_eq!(communicator.ranks[0].graphs[0].bandwidth_intra, GBps(12.0));
    assert_eq!(communicator.transports(0, 1), BTreeSet::from([&Transport::Shm("direct".into())]));
    assert_eq!(communicator.transports(1, 0), BTreeSet::from([&Transport::P2p("IPC/read".into())]));
    let tuning: Vec<_> = communicator.ranks[0].tuning.iter().map(|cell| (&cell.algorithm, &cell.protocol)).collect();
    assert_eq!(tuning[2], (&Algorithm::Ring, &Protocol::Simple));
    assert_eq!(communicator.ranks[0].threads[1], (Algorithm::Tree, Protocol::Ll128, 640));

    // 2.23: the collective and numbers; 2.24: names; 2.29: kernels over symmetric memory; network connections.
    let log = text(&[
        "box:10:11 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo 0 proto 2 time 34.690000",
        "box:10:11 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo COLLNET_DIRECT proto SIMPLE channel{Lo..Hi}={0..15}",
        "box:10:11 [0] NCCL INFO AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 4 nthreads 512 nWorks 1",
        "box:10:11 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "box:10:11 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] [send] via NET/Socket/2(1)/Shared",
        "box:10:11 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0",
        "box:10:11 [0] NCCL INFO NCCL_PROTO set by environment to ^LL128.",
    ]);
    assert_eq!(log.problems, []);
    let communicator = only(&log);
    let shown = choices(communicator);
    assert_eq!(shown[0], (4096, "Tree".into(), "Simple".into(), None, 1));
    assert_eq!(shown[1], (4096, "CollNetDirect".into(), "Simple".into(), Some((0, 15)), 1));
    assert_eq!(shown[2], (4096, "AllReduce_AGxLL_R".into(), "symmetric".into(), Some((0, 3)), 1));
    assert_eq!(
        communicator.transports(3, 0),
        BTreeSet::from([&Transport::Net("IB/0/GDRDMA".into())]),
        "from the receiver"
    );
    assert_eq!(communicator.ranks[0].links.len(), 3);
    assert_eq!(values(&log, "NCCL_PROTO"), ["^LL128."], "a string keeps its full stop");
}

#[test]
fn processes_with_prefixes_join_one_communicator_and_left_out_lines_are_counted() {
    let rank = |pid: u32, rank: u32, what: &str| {
        format!(
            "(Worker pid={pid}, ip=192.0.2.7) box:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x7f00 rank {rank} nranks 3 cudaDev 0 nvmlDev {rank} busId {rank}a000 commId 0xabc - Init {what}"
        )
    };
    let env =
        "(Worker pid=71) box:71:71 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS [repeated 2x across cluster]";
    let lines =
        [rank(70, 0, "START"), rank(71, 1, "START"), env.to_owned(), rank(70, 0, "COMPLETE"), rank(71, 1, "COMPLETE")];
    let log = read((lines.join("\n") + "\n").as_bytes());
    let communicator = only(&log);
    assert_eq!((communicator.ranks.len(), communicator.missing()), (2, vec![2]));
    assert_eq!(communicator.ranks.iter().map(|rank| rank.process).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((log.left_out, values(&log, "NCCL_P2P_LEVEL")), (2, vec!["SYS"]));
    assert_eq!(log.env("NCCL_P2P_LEVEL").next().unwrap().1.rank, Some((0, 1)));
}

#[test]
fn communicators_made_in_turn_by_one_thread_stay_apart() {
    let init = |id: &str, what: &str| {
        format!(
            "b:1:2 [0] NCCL INFO ncclCommInitRank comm 0x7f00 rank 0 nranks 2 cudaDev 0 busId 60 commId {id} - Init {what}"
        )
    };
    let choice = "b:1:2 [0] NCCL INFO AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}".to_owned();
    let gone = "b:1:2 [0] NCCL INFO comm 0x7f00 rank 0 nranks 2 cudaDev 0 busId 60 - Destroy COMPLETE".to_owned();
    let with_proxy = "b:1:9 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct".to_owned();
    let lines = [
        init("0x1", "START"),
        init("0x1", "COMPLETE"),
        choice.clone(),
        choice.clone(),
        gone,
        init("0x2", "START"),
        init("0x2", "COMPLETE"),
        choice,
        with_proxy,
    ];
    let log = read((lines.join("\n") + "\n").as_bytes());
    let times: Vec<_> = log.communicators.iter().map(|c| c.choices().map(|choice| choice.times).sum::<u64>()).collect();
    assert_eq!(times, [2, 1]);
    assert_eq!(log.communicators[0].ranks[0].links.len(), 0);
    assert_eq!(log.communicators[1].ranks[0].links.len(), 1, "another thread, found by the rank it names");
}

#[test]
fn connections_of_communicators_that_are_used_in_turn_are_each_ones_own() {
    let init = |comm: u32| {
        format!(
            "b:1:2 [0] NCCL INFO ncclCommInitRank comm 0x7f{comm} rank 0 nranks 2 cudaDev 0 busId 60 commId 0x{comm} - Init COMPLETE"
        )
    };
    let link = |channel: u32| format!("b:1:2 [0] NCCL INFO Channel 0{channel} : 0[0] -> 1[1] via SHM/direct");
    // All are made before the first is used, and then connected one after the other.
    let links = |lines: &[String]| {
        let log = read((lines.join("\n") + "\n").as_bytes());
        log.communicators.iter().map(|of| of.ranks[0].links.len()).collect::<Vec<_>>()
    };
    let made = [init(1), init(2), init(3)];
    let connected = [link(0), link(1), link(0), link(1), link(0)];
    assert_eq!(links(&[&made[..], &connected].concat()), [2, 1, 2], "the second lacks one");
    let again = [link(1), link(1)];
    assert_eq!(links(&[&made[..], &connected, &again].concat()), [2, 2, 2], "more than all is nobody's");
}

#[test]
fn what_cannot_be_read_is_a_problem_and_not_a_failure() {
    let mut bytes = b"b:1:2 [0] NCCL INFO NCCL_PROTO set by environment to \xff\xfe\n".to_vec();
    bytes.extend(std::iter::repeat_n(b'x', limits::LINE + 5));
    bytes.extend(b"\nb:1:2 [0] NCCL INFO 12 Bytes -> Algo\nb:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n");
    bytes.extend(b"b:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Rib:1:3 [1] NCCL INFO Connected all rings\n");
    bytes.extend(b"b:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Tr");
    let log = read(bytes.as_slice());
    let said: Vec<_> = log.problems.iter().map(|problem| (problem.line, problem.what.as_str())).collect();
    let cut = "the line is longer than 1 MiB and was cut";
    let expected = [
        (1, "the line is not UTF-8"),
        (2, cut),
        (3, "not understood: 12 Bytes -> Algo"),
        (5, "two lines run into each other and were not used"),
        (6, "the log ends within a line, which was not used"),
    ];
    assert_eq!(said, expected);
    assert_eq!((log.lines, values(&log, "NCCL_ALGO")), (6, vec!["Ring"]));
}

#[test]
fn caps_hold_and_are_told() {
    let mut lines = String::new();
    for at in 0..limits::WARNINGS + 7 {
        lines += &format!("b:1:2 [0] x.cc:1 NCCL WARN number {at}\n");
    }
    let log = read(lines.as_bytes());
    assert_eq!(log.warnings.len(), limits::WARNINGS);
    assert_eq!(log.problems.len(), 1);
    assert!(log.problems[0].what.contains("more warnings"));
}

#[test]
fn every_variable_of_the_recorded_logs_is_in_the_catalogue() {
    for bytes in all_recorded() {
        let log = read(bytes.as_slice());
        for seen in log.processes.iter().flat_map(|process| &process.env) {
            assert!(crate::nccl::catalogue::get(&seen.name).is_some(), "{}", seen.name);
        }
    }
}

/// Every recorded log.
fn all_recorded() -> Vec<Vec<u8>> {
    let paths = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    paths.sort();
    assert_eq!(paths.len(), 12, "logs");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_log_cut_or_garbled_anywhere_is_read(
        file in 0usize..12,
        cut in 0.0f64..1.0,
        flips in proptest::collection::vec((0.0f64..1.0, any::<u8>()), 0..200),
    ) {
        let mut bytes = all_recorded().swap_remove(file);
        for (place, byte) in flips {
            let at = (place * bytes.len() as f64) as usize;
            bytes[at] = byte;
        }
        bytes.truncate((cut * bytes.len() as f64) as usize);
        let log = read(bytes.as_slice());
        prop_assert!(log.nccl_lines <= log.lines);
    }

    #[test]
    fn any_text_is_read(text in "(\\PC|\n|[0-9:/|.>\\[\\]-]| NCCL INFO | via | : ){0,80}") {
        read(text.as_bytes());
        let line = format!("b:1:2 [0] NCCL INFO {text}\n");
        prop_assert!(read(line.as_bytes()).nccl_lines >= 1);
    }
}
