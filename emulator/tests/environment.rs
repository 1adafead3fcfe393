//! NCCL's environment and NCCL's log, as a process with these variables has them.

mod support;

use std::ptr::null_mut;

use support::*;

/// Makes a communicator of `ranks` ranks and runs one all-reduce of 14336 B; prints the first result codes that failed.
fn one_call(ranks: usize) {
    assert_eq!(cuInit(0), 0);
    let id = unique_id();
    let codes = on_ranks(ranks, |rank, _| {
        bind(rank);
        let (mut comm, mut stream, mut buffer) = (null_mut(), null_mut(), 0);
        ok!(cuStreamCreate(&raw mut stream, 1));
        ok!(cuMemAlloc_v2(&raw mut buffer, 14336));
        // SAFETY: all pointers are to locals.
        let init = unsafe { ncclCommInitRank(&raw mut comm, ranks as i32, id, rank as i32) };
        if init != 0 {
            return format!("init {init} {}", last_error());
        }
        // SAFETY: the handles are those just made.
        let call = unsafe { ncclAllReduce(buffer, buffer, 7168, BF16, SUM, comm, stream) };
        if call != 0 {
            return format!("call {call} {}", last_error());
        }
        ok!(cuStreamSynchronize(stream));
        ok!(ncclCommDestroy(comm));
        "fine".to_owned()
    });
    codes.iter().for_each(|code| say(code));
}

/// One communicator, all-reduces of 7168 × 1, 2, 3, 4, 16.
fn sizes(ranks: usize) {
    with_comm(ranks, 229_376, |rank, _| {
        for tokens in [1, 2, 3, 4, 16] {
            ok!(ncclAllReduce(rank.send, rank.receive, 7168 * tokens, BF16, SUM, rank.comm, rank.stream));
        }
        rank.wait();
    });
    say("done");
}

#[test]
fn scenarios() {
    match scenario().as_deref() {
        Some("one call of 2 ranks") => one_call(2),
        Some("one call of 8 ranks") => one_call(8),
        Some("sizes on 2 ranks") => sizes(2),
        Some("sizes on 8 ranks") => sizes(8),
        Some("init") => say(&cuInit(0).to_string()),
        _ => (),
    }
}

const H200: (&str, &str) = ("NCCLSWEEP_EMULATE_TOPOLOGY", "2xh200-nvlink");
const HOST: (&str, &str) = ("NCCL_P2P_DISABLE", "1");

/// What each rank got.
fn codes(scenario: &str, variables: &[(&str, &str)]) -> Vec<String> {
    said(&in_process(scenario, variables))
}

/// The log without the part of the lines that names host, process and thread.
fn log(scenario: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let path =
        std::env::temp_dir().join(format!("emulated-nccl-{}-{:?}", std::process::id(), std::thread::current().id()));
    let path = path.to_str().expect("a plain path");
    let debug =
        [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV,GRAPH,TUNING,P2P,SHM"), ("NCCL_DEBUG_FILE", path)];
    said(&in_process(scenario, &[&debug, variables].concat()));
    let text = std::fs::read_to_string(path).expect("the log is there");
    std::fs::remove_file(path).expect("the log can be removed");
    text.lines().filter_map(|line| Some(line.split_once("] NCCL INFO ")?.1.to_owned())).collect()
}

fn with(lines: &[String], text: &str) -> Vec<String> {
    lines.iter().filter(|line| line.contains(text)).cloned().collect()
}

#[test]
fn a_bad_word_in_a_list_fails_every_rank_at_init_since_2_24_and_none_before() {
    let new = codes("one call of 2 ranks", &[("NCCL_ALGO", "foo")]);
    assert_eq!(new, ["init 5 Unrecognized element token \"foo\" when parsing \"foo\""; 2]);
    let prefix = codes("one call of 2 ranks", &[("NCCL_ALGO", "ring;tree")]);
    assert_eq!(prefix, ["init 5 All entries except the first must have a prefix: \"ring;tree\""; 2]);
    let old = codes("one call of 2 ranks", &[("NCCL_ALGO", "foo"), ("NCCLSWEEP_EMULATE_NCCL", "2.21.5")]);
    assert_eq!(old, ["fine"; 2]);
}

#[test]
fn an_impossible_choice_fails_at_the_first_collective() {
    let codes = codes("one call of 2 ranks", &[("NCCL_ALGO", "CollNetDirect")]);
    let message = "call 5 Error : no algorithm/protocol available for function AllReduce with datatype ncclBfloat16. \
                   NCCL_ALGO was set to CollNetDirect.";
    assert_eq!(codes, [message; 2]);
}

#[test]
fn two_ranks_on_a_gpu_need_2_30_and_its_variable() {
    let old = codes("one call of 8 ranks", &[H200]);
    assert!(old[0].starts_with("init 5 Duplicate GPU detected"), "{old:?}");
    let unset = codes("one call of 8 ranks", &[H200, ("NCCLSWEEP_EMULATE_NCCL", "2.30.3")]);
    assert!(unset[0].starts_with("init 5 Multiple Ranks are using the same GPU"), "{unset:?}");
    let set = [H200, ("NCCLSWEEP_EMULATE_NCCL", "2.30.3"), ("NCCL_MULTI_RANK_GPU_ENABLE", "1")];
    assert_eq!(codes("one call of 8 ranks", &set), ["fine"; 8]);
}

#[test]
fn the_log_tells_choices_as_the_recorded_logs_do() {
    let lines = log("sizes on 2 ranks", &[H200, HOST]);
    let told: Vec<String> = with(&lines, "Bytes ->");
    let expected: Vec<String> = [(14336, 0), (28672, 2), (43008, 3), (57344, 3), (229_376, 3)]
        .iter()
        .map(|(bytes, last)| format!("AllReduce: {bytes} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..{last}}}"))
        .collect();
    assert_eq!(told, expected);
    let old = log("sizes on 2 ranks", &[H200, HOST, ("NCCLSWEEP_EMULATE_NCCL", "2.21.5")]);
    assert_eq!(with(&old, "Bytes ->")[0], "14336 Bytes -> Algo 1 proto 0 time 9.316800");
    assert_eq!(with(&old, "P2P_").first().map(String::as_str), Some("NCCL_P2P_LEVEL set by environment to LOC"));
    let many = [H200, HOST, ("NCCLSWEEP_EMULATE_NCCL", "2.32.3"), ("NCCL_MULTI_RANK_GPU_ENABLE", "1")];
    let many = log("sizes on 8 ranks", &many);
    assert_eq!(
        with(&many, "229376 Bytes ->"),
        ["AllReduce: 229376 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3} cgaClusterSize 4"]
    );
    assert_eq!(with(&many, "Channel 00/04 :"), ["Channel 00/04 : 0 2 4 6 1 3 5 7"]);
    assert!(many.contains(&"Channel 00/0 : 1[1] -> 3[1] via P2P/direct pointer".to_owned()));
    assert!(many.contains(&"Channel 00 : 7[1] -> 0[0] via SHM/direct".to_owned()));
}

#[test]
fn the_tuner_table_is_that_of_a_recorded_log() {
    let lines = log("sizes on 2 ranks", &[H200, HOST]);
    let row = with(&lines, "    AllReduce |").remove(0);
    assert!(
        row.starts_with(
            "    AllReduce |     8.8/   9.7 |    17.8/   0.0 |    16.4/  36.8 |     8.6/  20.0 |    19.0/   0.0 |    19.8/  40.0 |"
        ),
        "{row}"
    );
}

#[test]
fn variables_are_logged_numbers_with_a_full_stop_and_words_without() {
    let set = [("NCCL_PROTO", "LL"), ("NCCL_ALGO", "Ring"), ("NCCL_P2P_LEVEL", "SYS"), ("NCCL_MAX_NCHANNELS", "16")];
    let more = [("NCCL_BUFFSIZE", "16777216"), ("NCCL_NTHREADS", "512"), ("NCCL_P2P_DISABLE", "")];
    let lines = log("sizes on 8 ranks", &[&set[..], &more[..]].concat());
    for line in [
        "NCCL_P2P_LEVEL set by environment to SYS",
        "NCCL_MAX_NCHANNELS set by environment to 16.",
        "NCCL_BUFFSIZE set by environment to 16777216.",
        "NCCL_NTHREADS set by environment to 512.",
    ] {
        assert_eq!(with(&lines, line), [line]);
    }
    assert_eq!(with(&lines, "NCCL_PROTO set by environment to LL").len(), 8, "read by every rank");
    assert_eq!(with(&lines, "via SHM").len(), 0);
    assert_eq!(with(&lines, "Channel 00/0 : 3[3] -> 4[4] via P2P/direct pointer").len(), 1);
}

#[test]
fn without_p2p_and_host_memory_sockets_are_left() {
    let lines = log("sizes on 2 ranks", &[H200, HOST, ("NCCL_SHM_DISABLE", "1")]);
    assert_eq!(with(&lines, "Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0").len(), 1);
    assert_eq!(with(&lines, "Channel 00/0 : 0[0] -> 1[1] [receive] via NET/Socket/0").len(), 1);
}

#[test]
fn a_level_in_small_letters_changes_nothing() {
    let lines = log("sizes on 8 ranks", &[("NCCL_P2P_LEVEL", "sys")]);
    assert!(with(&lines, "P2P_LEVEL").is_empty());
    assert_eq!(with(&lines, "Channel 00 : 3[3] -> 4[4] via SHM/direct/direct").len(), 1);
}

#[test]
fn a_level_gives_no_p2p_where_the_driver_allows_none() {
    let lines = log("sizes on 8 ranks", &[("NCCL_P2P_LEVEL", "SYS"), ("NCCLSWEEP_EMULATE_TOPOLOGY", "8xpcie-flat")]);
    assert_eq!(with(&lines, "NCCL_P2P_LEVEL set by environment to SYS").len(), 1);
    assert!(with(&lines, "via P2P").is_empty());
}

#[test]
fn bad_numbers_are_read_as_strtoll_does_and_bad_thread_counts_are_told() {
    let lines = log("sizes on 2 ranks", &[("NCCL_BUFFSIZE", "4M"), ("NCCL_NTHREADS", "100")]);
    assert_eq!(with(&lines, "NCCL_BUFFSIZE set"), ["NCCL_BUFFSIZE set by environment to 4."]);
    assert!(!with(&lines, "Invalid NCCL_NTHREADS 100 (must be a multiple of 32)").is_empty());
}

#[test]
fn channels_are_capped_and_raised_by_their_variables() {
    let count = |variables: &[(&str, &str)]| {
        let lines = log("sizes on 2 ranks", &[&[H200], variables].concat());
        with(&lines, "coll channels")[0].split(' ').next().map(str::to_owned)
    };
    assert_eq!(count(&[]).as_deref(), Some("24"));
    assert_eq!(count(&[("NCCL_MAX_NCHANNELS", "16")]).as_deref(), Some("16"));
    assert_eq!(count(&[("NCCL_MAX_NCHANNELS", "16"), ("NCCL_MAX_CTAS", "8")]).as_deref(), Some("8"));
    assert_eq!(count(&[("NCCL_MIN_NCHANNELS", "32")]).as_deref(), Some("32"));
}

#[test]
fn a_file_gives_what_the_process_does_not_say() {
    let path = std::env::temp_dir().join(format!("nccl-file-{}", std::process::id()));
    std::fs::write(&path, "NCCL_PROTO=Simple\nNCCL_MAX_NCHANNELS=3\n").expect("a file can be written");
    let file = ("NCCL_CONF_FILE", path.to_str().expect("a plain path"));
    let lines = log("sizes on 2 ranks", &[H200, file, ("NCCL_MAX_NCHANNELS", "5")]);
    assert_eq!(with(&lines, "NCCL_MAX_NCHANNELS set"), ["NCCL_MAX_NCHANNELS set by environment to 5."]);
    assert!(with(&lines, "Bytes ->").iter().all(|line| line.contains("proto SIMPLE")));
    std::fs::remove_file(path).expect("the file can be removed");
}

#[test]
fn an_unknown_setting_of_the_emulator_fails_cu_init() {
    for variable in [("NCCLSWEEP_EMULATE_TOPOLOGY", "9xh100"), ("NCCLSWEEP_EMULATE_NOSE", "none")] {
        let output = in_process("init", &[variable]);
        assert_eq!(said(&output), ["1"]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(variable.0));
    }
}

#[test]
fn no_visible_device_is_an_error_of_cu_init() {
    assert_eq!(said(&in_process("init", &[("CUDA_VISIBLE_DEVICES", "")])), ["100"]);
    assert_eq!(said(&in_process("init", &[("CUDA_VISIBLE_DEVICES", "3")])), ["0"]);
}
