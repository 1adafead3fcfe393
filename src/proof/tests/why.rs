//! What was chosen, and the known fault of the graph search.

use super::super::why::{explain, faults};
use super::*;

/// A log of two ranks whose graph search found nothing.
fn lost() -> Log {
    let text = text_of("2.28.3-default-2ranks-hostmem.log");
    let graph = "nChannels 2, bw 20.000000/20.000000, type PHB/PIX";
    assert!(text.contains(graph));
    log::read(text.replace(graph, "nChannels 2, bw 0.100000/0.100000, type SYS/SYS").as_bytes())
}

fn simple() -> Used {
    used(Algorithm::Ring, Protocol::Simple, 2, 9)
}

#[test]
fn a_failed_graph_search_is_named_with_both_cures() {
    let baseline = [visit("", "").reading(&lost()).using(&simple())];
    let set = [visit("", PCIE_LL).reading(&lost()).using(&ring_ll())];
    let told = explain(&baseline, &set, 0, &graph());
    assert_eq!(told.faults.len(), 1, "{:?}", told.faults);
    for part in ["default: ", "2 channels at 0.1 GB/s, SYS/SYS", "NCCL_PROTO=LL", "NCCL_GRAPH_FILE"] {
        assert!(told.faults[0].contains(part), "{part}: {}", told.faults[0]);
    }
    assert_eq!(told.difference, "Ring Simple, 2 channels, 288 threads → Ring LL, 1 channel, 512 threads");
}

#[test]
fn a_sound_graph_or_another_protocol_is_no_fault() {
    let sound = [visit("", "").reading(&log_of("2.28.3-default-2ranks-hostmem.log")).using(&simple())];
    assert_eq!(faults(&super::super::why::chosen(&sound, 0, &graph())), [""; 0]);
    let low = [visit("", "").reading(&lost()).using(&ring_ll())];
    assert_eq!(faults(&super::super::why::chosen(&low, 0, &graph())), [""; 0]);
}

#[test]
fn differences_name_transport_and_graph_and_likeness_is_said() {
    let host = [visit(HOST_MEMORY, "").reading(&log_of("2.28.3-default-2ranks-hostmem.log")).using(&ring_ll())];
    let linked = [visit("", "").reading(&log_of("2.28.3-default-2ranks-nvlink.log")).using(&ring_ll())];
    let told = explain(&host, &linked, 0, &graph());
    assert_eq!(
        told.difference,
        "via SHM/direct/direct → P2P/direct pointer; graph search 2 channels at 20.0 GB/s, PHB/PIX → 12 channels at 30.0 GB/s, NVL/PIX"
    );
    assert_eq!(told.set.transports, [("P2P/direct pointer".to_owned(), 2)]);
    assert_eq!(explain(&host, &host, 0, &graph()).difference, "both: Ring LL, 1 channel, 512 threads");
    let nothing = explain(&[], &[], 0, &graph());
    assert_eq!((nothing.difference.as_str(), nothing.faults.len()), ("both: not recorded", 0));
}
