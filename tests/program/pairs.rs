//! `ncclsweep pairs`: every two GPUs of the emulated boxes, and faults that are between two of them, named.

use ncclsweep::pairs::{Pairs, Trouble, Way};

use crate::support::{Program, Ran};

/// The pairs of four GPUs, two below each of two switches.
fn pairs(arguments: &str) -> Program {
    let least = "pairs --emulate --devices 0,1,2,3 --sizes 1K,64K --communicators 1 --seed 7 --quiet --format json";
    Program::new(least.split_whitespace().chain(arguments.split_whitespace()))
}

fn document(ran: &Ran) -> Pairs {
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn a_box_that_is_well_has_a_figure_for_every_pair_on_both_ways() {
    let of = document(&pairs("").run().exits(0));
    assert_eq!((of.pairs.len(), of.findings.len(), of.stopped.clone()), (2 * 6, 0, None));
    for pair in &of.pairs {
        assert!(pair.all_reduce.latency_us.is_some() && pair.send_recv.bandwidth_gbps.is_some(), "{pair:?}");
        assert!(pair.checked_outputs > 0 && pair.wrong_outputs == 0, "{pair:?}");
        let used = if pair.way == Way::P2p { "P2P/direct pointer" } else { "SHM/direct/direct" };
        assert_eq!(pair.transport.as_deref(), Some(used));
    }
}

#[test]
fn a_hang_between_two_gpus_is_named_and_the_other_pairs_are_measured() {
    let fault = "hang@first,gpus=1+2,when=NCCL_P2P_LEVEL=SYS";
    let ran = pairs("--deadline 8s").env("NCCLSWEEP_EMULATE_FAULT", fault).run().exits(4);
    let of = document(&ran);
    let [finding] = of.findings.as_slice() else { panic!("{:?}", of.findings) };
    assert_eq!(
        (finding.trouble, finding.way, finding.pairs.as_slice()),
        (Trouble::Hang, Way::P2p, [(1, 2)].as_slice())
    );
    assert!(finding.text.contains("0000:04:00.0") && finding.text.contains("0000:23:00.0"), "{}", finding.text);
    let measured = of.pairs.iter().filter(|pair| pair.outcome.is_completed()).count();
    assert_eq!((measured, of.pairs.len()), (11, 12));
    assert_eq!(ran.leftovers(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn wrong_data_of_a_send_is_named_too() {
    // The first eager call is an all-reduce; the exchange has a size of its own.
    let fault = "wrong@eager,gpus=0+3,size=65536,when=NCCL_P2P_DISABLE=1";
    let of = document(&pairs("").env("NCCLSWEEP_EMULATE_FAULT", fault).run().exits(4));
    let [finding] = of.findings.as_slice() else { panic!("{:?}", of.findings) };
    assert_eq!(
        (finding.trouble, finding.way, finding.pairs.as_slice()),
        (Trouble::WrongData, Way::HostMemory, [(0, 3)].as_slice())
    );
    let struck = of.get(0, 3, Way::HostMemory).unwrap();
    assert!(struck.wrong_outputs > 0 && struck.first_wrong.is_some(), "{struck:?}");
}

#[test]
fn a_slow_pair_is_named_against_others_alike_and_fails_the_gate() {
    let fault = "slow:2@eager,gpus=0+2;slow:2@replay,gpus=0+2";
    let of = document(&pairs("").env("NCCLSWEEP_EMULATE_FAULT", fault).run().exits(1));
    assert!(
        of.findings.iter().all(|finding| finding.trouble == Trouble::Slow && finding.pairs == [(0, 2)]),
        "{:?}",
        of.findings
    );
    assert_eq!(of.findings.len(), 2, "on both ways");
}

#[test]
fn a_gpu_that_falls_off_the_bus_is_named_and_ends_the_run_with_what_was_measured() {
    let fault = "gpu-lost@first,gpus=3";
    let of = document(&pairs("--p2p off").env("NCCLSWEEP_EMULATE_FAULT", fault).run().exits(4));
    assert_eq!(of.findings.first().map(|finding| finding.trouble), Some(Trouble::Failure), "{:?}", of.findings);
    assert!(of.pairs.iter().any(|pair| pair.outcome.is_completed()));
}

#[test]
fn p2p_that_the_driver_does_not_allow_is_not_tried() {
    let arguments = "pairs --emulate=4x4090-phb --gpus 2 --sizes 1K,64K --communicators 1 --quiet";
    let ran = Program::new(arguments.split_whitespace()).keeping("pairs.json").run().exits(0);
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no: the driver does not allow P2P"), "{words}");
    let written = std::fs::read_to_string(ran.home.path().join("pairs.json")).unwrap();
    let of: Pairs = serde_json::from_str(&written).unwrap();
    assert!(of.get(0, 1, Way::P2p).unwrap().all_reduce.latency_us.is_none());
}

#[test]
fn what_is_no_pair_is_refused() {
    Program::new("pairs --emulate --gpus 1".split_whitespace()).run().exits(2).tells("a pair needs two GPUs");
    Program::new("pairs --emulate --sizes 1M".split_whitespace())
        .run()
        .exits(2)
        .tells("not a small size and a large one");
    Program::new("pairs --emulate --devices 0,9".split_whitespace()).run().exits(3).tells("GPU 9 was asked for");
}
