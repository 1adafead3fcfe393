use super::*;
use crate::topology::{Device, Kind as DeviceKind, Link, NumaNode, Slot, parse_graphs, parse_nvidia_smi, parse_xml};

fn look(topology: Topology) -> Look {
    Look {
        version: "0.1.0".into(),
        created: "2026-03-14T09:26:26Z".parse().unwrap(),
        source: Source::Host("box-1".into()),
        emulated: None,
        driver: None,
        cuda: None,
        visible_devices: None,
        unasked: Vec::new(),
        topology,
        graphs: Vec::new(),
    }
}

fn switches() -> Topology {
    parse_xml("switches.xml", include_str!("../../../tests/data/topology/switches.xml")).unwrap()
}

/// The words of a text, however its lines are broken.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_box_of_which_nothing_is_known_still_has_an_answer() {
    let mut look = look(Topology::default());
    look.unasked.push("the CUDA driver (libcuda) cannot be used".into());
    insta::assert_snapshot!(render(&look, Style::default()), @"
    ncclsweep 0.1.0 · topology of box-1 · 2026-03-14 09:26 UTC

      GPUs       none
      driver     ? · CUDA ?
      machine    ?
      IOMMU      ? · ACS ? (no port above a GPU shows)

      unknown    the CUDA driver (libcuda) cannot be used
                 the kernel shows no GPU below /sys/bus/pci/devices: no tree of
                 switches, no slots
    ");
}

#[test]
fn a_matrix_of_a_file_is_shown_with_its_paths() {
    let text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNODE\t0-9\t0\nGPU1\tNODE\t X \t0-9\t0\n";
    let file = Look { source: Source::File("topo.txt".into()), ..look(parse_nvidia_smi("topo.txt", text).unwrap()) };
    insta::assert_snapshot!(render(&file, Style::default()), @"
    ncclsweep 0.1.0 · topology in topo.txt

      GPUs       2 × GPU
      paths      NODE between all · 1 NUMA node

    what lies between them
          GPU0  GPU1  NUMA
    GPU0  X     NODE  0
    GPU1  NODE  X     0
    ");
}

#[test]
fn a_narrow_link_is_a_fault_with_its_address_and_a_way_out() {
    let mut topology = switches();
    let wide = Lanes { generation: Some(5), width: Some(16) };
    let gpu = &mut topology.numa[0].children[1];
    assert_eq!(gpu.kind, DeviceKind::Gpu(3));
    (gpu.link, gpu.slot) =
        (Link { now: Lanes { width: Some(4), ..wide }, max: wide }, Slot { max: wide, acs_redirect: Some(true) });
    let shown = words(&render(&look(topology), Style::default()));
    assert!(shown.contains("fault 0000:3a:00.0 runs on x4 of x16; power saving never does that"), "{shown}");
    assert!(shown.contains("0000:3a:00.0: Gen5 x4 now of Gen5 x16 NARROW"), "{shown}");
    assert!(shown.contains("ACS redirects above 1 GPU, ? above 4"), "{shown}");
    assert!(shown.contains("warning ACS sends peer-to-peer traffic up to the root"), "{shown}");
}

#[test]
fn only_gpus_that_ranks_run_on_count_in_the_head_of_a_report() {
    let topology = switches();
    let cuda: Vec<_> = (0..).zip(topology.gpus.iter().filter_map(|gpu| gpu.bus_id)).collect();
    let two = topology.with_ordinals(cuda).with_ranks(&[0, 1], 2);
    let text =
        |lines: Vec<Line>| lines.into_iter().map(|line| format!("{}: {}", line.label, line.text)).collect::<Vec<_>>();
    assert_eq!(text(brief(&two)), ["paths: PIX between all · 1 NUMA node", "links: Gen5 x16"]);
}

#[test]
fn a_device_cannot_steer_the_terminal() {
    let node = NumaNode { cpu: Some("CPU \x1b[2J".into()), children: vec![device()], ..NumaNode::default() };
    let mut topology = switches();
    topology.numa = vec![node];
    let shown = render(&look(topology), Style::default());
    assert!(!shown.contains('\x1b') && shown.contains("CPU [2J"), "{shown}");
}

fn device() -> Device {
    Device {
        kind: DeviceKind::Other,
        bus_id: None,
        link: Link::default(),
        slot: Slot::default(),
        iommu_group: None,
        children: Vec::new(),
    }
}

#[test]
fn a_graph_search_that_gave_up_is_told_with_a_way_out() {
    let dump = include_str!("../../../tests/data/topology/graph-2xh200.xml")
        .replace("speedintra=\"30\"", "speedintra=\"0.1\"");
    let mut look = Look { source: Source::File("graph.xml".into()), ..look(Topology::default()) };
    look.graphs = parse_graphs("graph.xml", &dump).unwrap();
    let shown = render(&look, Style::default());
    assert!(words(&shown).contains("fault the search for a ring found nothing better than 0.1 GB/s"), "{shown}");
    assert!(shown.contains("0-1, 1-0"), "both orders of the tree's channels: {shown}");
}
