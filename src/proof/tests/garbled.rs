//! A log that lost lines, was cut or got junk between: what can be known stays known, and nothing becomes applied.

use proptest::prelude::*;

use super::*;

/// Variables of which some are in effect in the recorded logs and some are not, or not on all ranks.
const ASKED: &str = "NCCL_P2P_DISABLE=1 NCCL_PROTO=LL NCCL_ALGO=Tree NCCL_P2P_LEVEL=PHB NCCL_MAX_NCHANNELS=3 NCCL_MIN_CTAS=8 NCCL_BUFFSIZE=8388608 \
     NCCL_NTHREADS=256 NCCL_SHM_DISABLE=1 NCCL_P2P_DIRECT_DISABLE=1 NCCL_P2P_READ_ENABLE=1 NCCL_NVLS_ENABLE=1 NCCL_CUMEM_ENABLE=1 NCCL_MULTI_RANK_GPU_ENABLE=1";

/// What was asked for and known of the process and of the uses.
#[derive(Clone, Copy, Debug)]
struct Known {
    peer_access: bool,
    environment: bool,
    plugin: bool,
}

fn evidence(text: &[u8], known: Known) -> Evidence {
    let asked = if known.peer_access { ASKED.replace("NCCL_P2P_DISABLE=1 ", "") } else { ASKED.to_owned() };
    let mut evidence = visit("", &asked).reading(&log::read(text)).version("2.28.3");
    if !known.environment {
        evidence.seen = Vec::new();
    }
    if known.plugin { evidence.using(&ring_ll()) } else { evidence }
}

fn states(evidence: &Evidence) -> Vec<(String, State)> {
    judge(evidence, 0, &graph()).into_iter().map(|proof| (proof.name, proof.state)).collect()
}

/// One way to spoil a log.
#[derive(Clone, Debug)]
enum Garble {
    /// Cut after a share of its bytes.
    Cut(f64),
    /// A line is lost.
    Lose(usize),
    /// A line comes twice.
    Repeat(usize),
    /// The second half of a line is lost with its end: two lines run into each other.
    Join(usize),
    /// A byte is something else.
    Byte(usize, u8),
    /// Bytes of no text come between.
    Junk(usize, Vec<u8>),
}

fn garbles() -> impl Strategy<Value = Garble> {
    let at = 0usize..100_000;
    prop_oneof![
        (0.0f64..1.0).prop_map(Garble::Cut),
        at.clone().prop_map(Garble::Lose),
        at.clone().prop_map(Garble::Repeat),
        at.clone().prop_map(Garble::Join),
        // Digits and letters could make one value of another: that is a forged log, not a garbled one.
        (at.clone(), prop::sample::select(vec![0u8, b'?', b' ', b'\t', 0x1b, 0xff]))
            .prop_map(|(at, byte)| Garble::Byte(at, byte)),
        (at, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(at, junk)| Garble::Junk(at, junk)),
    ]
}

fn garble(text: &mut Vec<u8>, how: &Garble) {
    let line_at = |text: &[u8], at: usize| {
        let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| at + end + 1);
        start..end
    };
    if text.is_empty() {
        return;
    }
    let place = |at: &usize| at % text.len();
    match how {
        Garble::Cut(share) => text.truncate((text.len() as f64 * share) as usize),
        Garble::Lose(at) => _ = text.drain(line_at(text, place(at))),
        Garble::Repeat(at) => {
            let line = line_at(text, place(at));
            let copy = text[line.clone()].to_vec();
            text.splice(line.end..line.end, copy);
        }
        Garble::Join(at) => {
            let line = line_at(text, place(at));
            text.drain(line.start + line.len() / 2..line.end);
        }
        Garble::Byte(at, byte) => {
            let at = place(at);
            text[at] = *byte;
        }
        Garble::Junk(at, junk) => {
            let at = place(at);
            text.splice(at..at, junk.iter().copied());
        }
    }
}

proptest! {
    #[test]
    fn a_garbled_log_makes_nothing_applied_that_was_not(
        name in prop::sample::select(vec![
            "2.21.5-pcie-ll-2ranks-hostmem.log",
            "2.28.3-default-2ranks-nvlink.log",
            "2.28.3-default-2ranks-hostmem.log",
            "2.32.3-pcie-ll-2ranks-hostmem.log",
        ]),
        how in prop::collection::vec(garbles(), 1..6),
        (peer_access, environment, plugin) in any::<(bool, bool, bool)>(),
    ) {
        let known = Known { peer_access, environment, plugin };
        let whole = text_of(name).into_bytes();
        let mut spoilt = whole.clone();
        how.iter().for_each(|how| garble(&mut spoilt, how));
        let before = states(&evidence(&whole, known));
        let after = states(&evidence(&spoilt, known));
        for ((name, before), (_, after)) in before.iter().zip(&after) {
            prop_assert!(*after != State::Applied || *before == State::Applied, "{}: {} became {}", name, before, after);
            // A line that shows the value spoilt can get lost; that it acts on nothing here is as true without.
            let idle = name == "NCCL_BUFFSIZE" && *after == State::NoEffectHere;
            prop_assert!(after.blocks() || !before.blocks() || idle, "{}: {} became {}", name, before, after);
        }
    }
}

#[test]
fn a_log_cut_anywhere_keeps_what_the_plugin_shows_and_leaves_the_rest_unverified() {
    let whole = text_of("2.28.3-pcie-ll-2ranks-hostmem.log");
    let lines: Vec<&str> = whole.lines().collect();
    for kept in (0..lines.len()).step_by(7) {
        let text = lines[..kept].join("\n");
        let evidence = visit(HOST_MEMORY, PCIE_LL).reading(&log::read(text.as_bytes())).using(&ring_ll());
        assert_eq!(evidence.state("NCCL_PROTO"), State::Applied, "{kept} lines");
        let off = evidence.state("NCCL_P2P_DISABLE");
        assert!(matches!(off, State::Applied | State::Unverified), "{kept} lines: {off}");
    }
    let half = lines[..lines.len() / 2].join("\n");
    let evidence = visit(HOST_MEMORY, PCIE_LL).reading(&log::read(half.as_bytes())).using(&ring_ll());
    assert_eq!(evidence.state("NCCL_P2P_DISABLE"), State::Unverified);
    let shown = evidence.proof("NCCL_P2P_DISABLE").evidence;
    assert!(shown.iter().any(|line| line.starts_with("read: the log has gaps: ")), "{shown:?}");
}

#[test]
fn a_lost_connection_leaves_all_pairs_unknown() {
    let whole = text_of("2.28.3-pcie-ll-2ranks-hostmem.log");
    let lost =
        whole.lines().filter(|line| !line.contains("Channel 02 : 1[1] -> 0[0]")).collect::<Vec<_>>().join("\n") + "\n";
    let read = |text: &str| Read::of(&log::read(text.as_bytes()));
    assert_eq!(read(&whole).transports(2, 1).unwrap().len(), 2);
    assert_eq!(read(&whole).transports(2, 2), None, "the second communicator's are missing");
    assert_eq!(read(&whole).transports(3, 1), None, "the third rank's are missing");
    assert_eq!(read(&lost).transports(2, 1), None);
    assert_eq!(read(&lost).gaps, [""; 0], "nothing else shows that the line is lost");
}
