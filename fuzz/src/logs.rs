//! What NCCL writes and reads: its log and its configuration files; and what is proved by a log that lost something.

use ncclsweep::collective::{Case, Dtype, Mode, Op, Placement, Size};
use ncclsweep::nccl::conf;
use ncclsweep::nccl::log::{self, limits};
use ncclsweep::nccl::version::NcclVersion;
use ncclsweep::plan::env_set::Vars;
use ncclsweep::plan::environment::Origin;
use ncclsweep::proof::{Evidence, Read, Seen, State, asked, judge};

/// NCCL's log: read the same every time, within its limits, and its digest can be stored.
pub fn log(input: &[u8]) {
    let log = log::read(input);
    assert!(log.nccl_lines <= log.lines);
    assert!(log.ranks().count() <= limits::RANKS);
    assert!(log.warnings.len() <= limits::WARNINGS && log.problems.len() <= limits::PROBLEMS);
    for communicator in &log.communicators {
        let pairs = communicator.pairs();
        assert!(pairs.iter().all(|(from, to)| !communicator.transports(*from, *to).is_empty()));
        assert!(communicator.missing().len() <= limits::RANKS);
    }
    let read = Read::of(&log);
    let text = serde_json::to_string(&read).expect("a digest can be stored");
    assert_eq!(serde_json::from_str::<Read>(&text).expect("a stored digest is read"), read);
    assert_eq!(log::read(input), log);
}

/// A configuration file: what NCCL sets for it is what a file of just these lines sets, and a corrected line needs no correction.
pub fn conf(input: &[u8]) {
    for version in [Some(NcclVersion::new(2, 23, 4)), Some(NcclVersion::new(2, 28, 3)), None] {
        let conf = conf::parse(input, version);
        let lines = input.split(|byte| *byte == b'\n').count();
        let plain = |text: &str| !text.contains('\u{fffd}') && !text.ends_with('\r');
        assert!(conf.entries.iter().all(|entry| !entry.name.is_empty() && (1..=lines).contains(&entry.line)));
        if conf.entries.iter().all(|entry| plain(&entry.name) && plain(&entry.value)) {
            let written: String =
                conf.entries.iter().map(|entry| format!("{}={}\n", entry.name, entry.value)).collect();
            let bare = |conf: &conf::Conf| {
                conf.entries.iter().map(|entry| (entry.name.clone(), entry.value.clone())).collect::<Vec<_>>()
            };
            assert_eq!(bare(&conf::parse(written.as_bytes(), version)), bare(&conf));
        }
        for lint in &conf.lints {
            assert!((1..=lines).contains(&lint.line) && !lint.message.is_empty());
            if let Some(corrected) = &lint.corrected {
                corrects(corrected, version);
            }
        }
    }
}

/// A correction may lead to another (a name misspelt under blanks), but it ends.
fn corrects(line: &str, version: Option<NcclVersion>) {
    let mut line = line.to_owned();
    for _ in 0..4 {
        let again = conf::parse(line.as_bytes(), version);
        assert_eq!(again.entries.len(), 1, "{line:?} is one setting");
        match again.lints.into_iter().find_map(|lint| lint.corrected) {
            Some(next) => line = next,
            None => return,
        }
    }
    panic!("corrections of {line:?} do not end");
}

/// Recorded logs: of 2.21.5 without a profiler, with and without peer access.
const RECORDED: [&[u8]; 4] = [
    include_bytes!("../../tests/data/nccl-log/2.21.5-pcie-ll-2ranks-hostmem.log"),
    include_bytes!("../../tests/data/nccl-log/2.28.3-default-2ranks-nvlink.log"),
    include_bytes!("../../tests/data/nccl-log/2.28.3-default-2ranks-hostmem.log"),
    include_bytes!("../../tests/data/nccl-log/2.32.3-pcie-ll-2ranks-hostmem.log"),
];

/// Variables of which some are in effect in the recorded logs and some are not, or not on all ranks.
const ASKED: &str = "NCCL_P2P_DISABLE=1 NCCL_PROTO=LL NCCL_ALGO=Tree NCCL_P2P_LEVEL=PHB NCCL_MAX_NCHANNELS=3 NCCL_MIN_CTAS=8 \
     NCCL_BUFFSIZE=8388608 NCCL_NTHREADS=256 NCCL_SHM_DISABLE=1 NCCL_P2P_DIRECT_DISABLE=1 NCCL_P2P_READ_ENABLE=1 NCCL_NVLS_ENABLE=1 \
     NCCL_CUMEM_ENABLE=1";

/// A recorded log that lost lines, was cut or got junk between, as the input says: nothing becomes applied that was not.
pub fn proof(input: &[u8]) {
    let Some(([which, known], spoiling)) = input.split_first_chunk::<2>() else { return };
    let whole = RECORDED[usize::from(*which) % RECORDED.len()];
    let mut spoilt = whole.to_vec();
    for step in spoiling.chunks_exact(3).take(16) {
        spoil(&mut spoilt, step[0], usize::from(u16::from_le_bytes([step[1], step[2]])));
    }
    let before = states(whole, *known);
    let after = states(&spoilt, *known);
    for ((name, before), (_, after)) in before.iter().zip(&after) {
        assert!(*after != State::Applied || *before == State::Applied, "{name}: {before} became {after}");
    }
}

fn states(log: &[u8], known: u8) -> Vec<(String, State)> {
    let peer_access = known & 1 != 0;
    let vars: Vars = ASKED
        .split_whitespace()
        .filter(|pair| !(peer_access && pair.starts_with("NCCL_P2P_DISABLE")))
        .filter_map(|pair| pair.split_once('='))
        .collect();
    let read = Read::of(&log::read(log));
    let seen = Seen { ranks: vec![0, 1], variables: vars.clone() };
    let evidence = Evidence {
        version: read.version.or(Some(NcclVersion::new(2, 28, 3))),
        devices: vec![0, 1],
        communicators: 1,
        asked: asked(&[(Origin::Set, &vars)], &Vars::default()),
        seen: if known & 2 != 0 { vec![seen] } else { Vec::new() },
        read: Some(read),
        ..Evidence::default()
    };
    let (dtype, op, placement, mode) = (Dtype::Bfloat16, Op::Sum, Placement::OutOfPlace, Mode::Graph);
    let case = Case {
        function: ncclsweep::collective::Function::AllReduce,
        dtype,
        op,
        placement,
        mode,
        size: Size::elements(7168),
    };
    judge(&evidence, 0, &case).into_iter().map(|proof| (proof.name, proof.state)).collect()
}

fn spoil(log: &mut Vec<u8>, how: u8, at: usize) {
    if log.is_empty() {
        return;
    }
    let at = at % log.len();
    let start = log[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = log[at..].iter().position(|byte| *byte == b'\n').map_or(log.len(), |end| at + end + 1);
    match how % 6 {
        0 => log.truncate(at),
        1 => _ = log.drain(start..end),
        2 => {
            let line = log[start..end].to_vec();
            log.splice(end..end, line);
        }
        // The second half of a line is lost with its end: two lines run into each other.
        3 => _ = log.drain(start + (end - start) / 2..end),
        // Digits and letters could make one value of another: that is a forged log, not a garbled one.
        4 => log[at] = [0, b'?', b' ', b'\t', 0x1b, 0xff][usize::from(how) / 6 % 6],
        _ => _ = log.splice(at..at, std::iter::repeat_n(how, 20)),
    }
}
