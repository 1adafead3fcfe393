//! The recorded logs.

use super::*;

/// Name and state of every variable, the set's first.
fn states(evidence: &Evidence, case: &Case) -> Vec<(String, State)> {
    judge(evidence, 0, case).into_iter().map(|proof| (proof.name, proof.state)).collect()
}

fn pcie_ll() -> Vec<(String, State)> {
    let expected = [
        ("NCCL_P2P_DISABLE", State::Applied),
        ("NCCL_NVLS_ENABLE", State::Applied),
        ("NCCL_PROTO", State::Applied),
        ("NCCL_ALGO", State::Applied),
        ("NCCL_P2P_LEVEL", State::NoEffectHere),
        ("NCCL_MAX_NCHANNELS", State::Applied),
        ("NCCL_BUFFSIZE", State::NoEffectHere),
        ("NCCL_NTHREADS", State::Applied),
    ];
    expected.map(|(name, state)| (name.to_owned(), state)).into()
}

#[test]
fn pcie_ll_through_host_memory_is_applied_except_what_has_no_effect_there() {
    for name in ["2.28.3-pcie-ll-2ranks-hostmem.log", "2.32.3-pcie-ll-2ranks-hostmem.log"] {
        let evidence = visit(HOST_MEMORY, PCIE_LL).reading(&log_of(name)).using(&ring_ll());
        assert_eq!(states(&evidence, &graph()), pcie_ll(), "{name}");
        assert_eq!(cell_state(&judge(&evidence, 0, &graph())), Applied::Applied, "{name}");
    }
}

#[test]
fn without_a_profiler_the_log_tells_what_was_used() {
    // 2.21.5 has no profiler: choices and the table of threads stand in its log, for every size that ran.
    let evidence = visit(HOST_MEMORY, PCIE_LL).reading(&log_of("2.21.5-pcie-ll-2ranks-hostmem.log"));
    for elements in SIZES {
        for mode in [Mode::Graph, Mode::Stream] {
            assert_eq!(states(&evidence, &case(elements, mode)), pcie_ll(), "{elements} {mode}");
        }
    }
    let shown = evidence.proof("NCCL_PROTO").evidence;
    assert!(shown.contains(&"used: Ring LL (NCCL's log, rank 0 for all)".to_owned()), "{shown:?}");
    // A size that did not run in it is not known.
    assert_eq!(states(&evidence, &case(1 << 20, Mode::Graph))[2], ("NCCL_PROTO".to_owned(), State::Unverified));
}

#[test]
fn without_a_profiler_a_process_that_is_not_timed_tells_for_those_that_are() {
    // The timed process logs no TUNING: neither choices nor the table of threads.
    let whole = text_of("2.21.5-pcie-ll-2ranks-hostmem.log");
    let tuning = |line: &&str| line.contains("Bytes -> Algo") || line.contains("|");
    let timed = whole.lines().filter(|line| !tuning(line)).collect::<Vec<_>>().join("\n") + "\n";
    let mut evidence = visit(HOST_MEMORY, PCIE_LL).reading(&log::read(timed.as_bytes()));
    assert_eq!(evidence.state("NCCL_PROTO"), State::Unverified);
    evidence.tuning = Some(Read::of(&log_of("2.21.5-pcie-ll-2ranks-hostmem.log")));
    assert_eq!(states(&evidence, &graph()), pcie_ll());
    let mut evidence = visit("", "NCCL_PROTO=Simple").version("2.21.5");
    evidence.tuning = Some(Read::of(&log_of("2.21.5-default-2ranks-nvlink.log")));
    assert_eq!(evidence.state("NCCL_PROTO"), State::NotApplied);
}

#[test]
fn eight_ranks_on_two_gpus_are_judged_by_pairs_on_different_gpus() {
    let set = format!("{PCIE_LL} NCCL_MULTI_RANK_GPU_ENABLE=1");
    let mut evidence = visit(HOST_MEMORY, &set);
    evidence.devices = vec![0, 1, 0, 1, 0, 1, 0, 1];
    evidence.seen[0].ranks = (0..8).collect();
    let evidence = evidence.reading(&log_of("2.32.3-pcie-ll-8ranks-on-2gpus-hostmem.log")).using(&ring_ll());
    let expected = [pcie_ll(), vec![("NCCL_MULTI_RANK_GPU_ENABLE".to_owned(), State::Applied)]].concat();
    assert_eq!(states(&evidence, &graph()), expected);
    let shown = evidence.proof("NCCL_P2P_DISABLE").evidence;
    assert_eq!(shown.last().unwrap(), "used: pairs on different GPUs go via SHM/direct");
}

#[test]
fn without_a_profiler_the_table_of_threads_stands_for_what_was_used() {
    let evidence = visit(HOST_MEMORY, PCIE_LL).reading(&log_of("2.21.5-pcie-ll-2ranks-hostmem.log"));
    let proof = evidence.proof("NCCL_NTHREADS");
    assert_eq!(proof.state, State::Applied);
    let last = proof.evidence.last().unwrap();
    assert_eq!(last, "used: 512 threads at most (a table in NCCL's log, rank 0 for all)");
}

#[test]
fn every_step_is_shown_in_a_sentence() {
    let log = log_of("2.28.3-pcie-ll-2ranks-hostmem.log");
    let evidence = visit(HOST_MEMORY, PCIE_LL).reading(&log).using(&ring_ll());
    assert_eq!(
        evidence.proof("NCCL_MAX_NCHANNELS").evidence,
        [
            "asked: NCCL_MAX_NCHANNELS=16 by the set",
            "seen: in the environment of all 2 ranks",
            "read: NCCL_MAX_NCHANNELS = 16, for all 2 ranks",
            "used: Ring LL, 1 channel, 512 threads (profiler plugin v4)",
            "used: 4 channels were set up",
        ]
    );
    let buffer = evidence.proof("NCCL_BUFFSIZE");
    assert_eq!(buffer.why.as_deref(), Some("it acts on Simple only, which is not used"));
    let level = evidence.proof("NCCL_P2P_LEVEL");
    assert!(level.why.unwrap().contains("never reads the level"));
    assert!(level.evidence.contains(&"read: no line of the log names NCCL_P2P_LEVEL".to_owned()));
}

#[test]
fn peer_access_over_nvlink_contradicts_its_being_off_and_needs_no_level() {
    for version in ["2.21.5", "2.28.3", "2.32.3"] {
        let log = log_of(&format!("{version}-default-2ranks-nvlink.log"));
        let evidence = visit("", "NCCL_P2P_DISABLE=1").reading(&log).using(&ring_ll());
        let off = evidence.proof("NCCL_P2P_DISABLE");
        assert_eq!(off.state, State::NotApplied, "{version}");
        assert_eq!(off.why.as_deref(), Some("0 → 1 goes via P2P/direct pointer"), "{version}");
        for (level, state) in [("SYS", State::NoEffectHere), ("LOC", State::NotApplied)] {
            let evidence = visit("", &format!("NCCL_P2P_LEVEL={level}")).reading(&log).using(&ring_ll());
            assert_eq!(evidence.state("NCCL_P2P_LEVEL"), state, "{version} {level}");
        }
    }
}

#[test]
fn a_default_run_satisfies_what_its_choice_satisfies() {
    let log = log_of("2.28.3-default-2ranks-nvlink.log");
    for (set, state) in [
        ("NCCL_PROTO=LL,Simple", State::Applied),
        ("NCCL_PROTO=Simple", State::NotApplied),
        ("NCCL_MAX_NCHANNELS=24", State::Applied),
        ("NCCL_MAX_NCHANNELS=8", State::NotApplied),
        ("NCCL_MIN_CTAS=24", State::Applied),
        ("NCCL_MIN_CTAS=32", State::NotApplied),
        ("NCCL_SHM_DISABLE=1", State::Applied),
        ("NCCL_P2P_DIRECT_DISABLE=1", State::NotApplied),
        ("NCCL_SHM_LOCALITY=1", State::NoEffectHere),
        ("NCCL_SOCKET_NTHREADS=2", State::NoEffectHere),
        ("NCCL_IGNORE_CPU_AFFINITY=1", State::Unverified),
    ] {
        let evidence = visit("", set).reading(&log).using(&ring_ll());
        assert_eq!(evidence.proof(set.split_once('=').unwrap().0).state, state, "{set}");
    }
}

#[test]
fn through_host_memory_the_size_of_buffers_tells_buffsize() {
    let simple = used(Algorithm::Ring, Protocol::Simple, 2, 17);
    for version in ["2.28.3", "2.32.3"] {
        let read = |set: &str| log_of(&format!("{version}-{set}-2ranks-hostmem.log"));
        let large = visit(HOST_MEMORY, "NCCL_BUFFSIZE=16777216").using(&simple);
        let large = |set: &str| large.clone().reading(&read(set)).proof("NCCL_BUFFSIZE");
        assert_eq!(large("pcie-ll").state, State::Applied, "{version}");
        let lost = large("default");
        assert_eq!(lost.state, State::NotApplied, "{version}");
        assert_eq!(lost.why.as_deref(), Some("a connection has 9637888 B of buffers, and 22220800 are due"));
    }
    let old = visit(HOST_MEMORY, "NCCL_BUFFSIZE=16777216").using(&simple);
    assert_eq!(old.reading(&log_of("2.21.5-pcie-ll-2ranks-hostmem.log")).state("NCCL_BUFFSIZE"), State::Unverified);
}

#[test]
fn cumem_host_memory_shows_between_processes_only() {
    let log = log_of("2.28.3-default-2ranks-hostmem.log");
    let asked = |value: u32| visit(HOST_MEMORY, &format!("NCCL_CUMEM_HOST_ENABLE={value}")).using(&ring_ll());
    assert_eq!(asked(1).reading(&log).state("NCCL_CUMEM_HOST_ENABLE"), State::NoEffectHere);
    // The same log, as if each rank had been a process.
    let apart = |value| {
        let mut evidence = asked(value).reading(&log);
        let seen = evidence.seen[0].variables.clone();
        evidence.seen = [0, 1].map(|rank| Seen { ranks: vec![rank], variables: seen.clone() }).into();
        evidence.state("NCCL_CUMEM_HOST_ENABLE")
    };
    assert_eq!((apart(0), apart(1)), (State::Applied, State::NotApplied));
}

#[test]
fn bad_values_are_what_nccl_makes_of_them() {
    for version in ["2.21.5", "2.28.3"] {
        let log = log_of(&format!("{version}-bad.log"));
        let proof = |set: &str| {
            let evidence = visit("", set).reading(&log).using(&used(Algorithm::Ring, Protocol::Simple, 1, 17));
            evidence.proof(set.split_once('=').unwrap().0)
        };
        let buffer = proof("NCCL_BUFFSIZE=4M");
        assert_eq!((buffer.state, buffer.why.as_deref()), (State::NotApplied, Some("NCCL read 4")), "{version}");
        assert_ne!(proof("NCCL_NTHREADS=100").state, State::Applied, "{version}");
    }
    let threads = visit("", "NCCL_NTHREADS=100").reading(&log_of("2.21.5-bad.log")).using(&ring_ll());
    assert_eq!(threads.state("NCCL_NTHREADS"), State::Overridden, "2.21.5 says that it cannot use 100");
}
