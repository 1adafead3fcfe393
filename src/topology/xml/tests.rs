use super::*;

const H200: &str = include_str!("../../../tests/data/topology/topo-2xh200.xml");
const SWITCHES: &str = include_str!("../../../tests/data/topology/switches.xml");

fn read(text: &str) -> Topology {
    parse("topo.xml", text).unwrap_or_else(|error| panic!("{error:?}"))
}

/// The label of the error `text` leads to, and what it points at.
fn refused(text: &str) -> (String, String) {
    use miette::Diagnostic;
    let error = parse("topo.xml", text).unwrap_err();
    assert!(error.next_step().is_some());
    let label = error.labels().unwrap().next().unwrap().label().unwrap().to_owned();
    (label, text[error.span().unwrap()].to_owned())
}

#[test]
fn a_dump_of_a_virtual_machine_has_unknowns_but_no_zeros() {
    let topology = read(H200);
    assert_eq!(topology.path(0, 1), Path::Nvl(Some(18)));
    assert_eq!(topology.gpus[1].bus_id, "0000:00:07.0".parse().ok());
    assert_eq!((topology.gpus[0].numa, topology.numa[0].id), (None, None));
    assert_eq!(topology.numa[0].children[0].link.now, Lanes { generation: Some(5), width: None });
    assert_eq!(topology.nics, [Nic { name: "eth0".into() }]);
}

#[test]
fn nccls_dump_and_nvidia_smi_agree_on_the_same_box() {
    let matrix = include_str!("../../../tests/data/topology/nvidia-smi-topo-2xh200.txt");
    let matrix = crate::topology::parse_nvidia_smi("topo.txt", matrix).unwrap();
    assert_eq!(read(H200).path(0, 1), matrix.path(0, 1));
}

#[test]
fn paths_follow_from_the_lowest_node_above_both() {
    let topology = read(SWITCHES);
    let path = |a, b| topology.path(a, b);
    assert_eq!(path(0, 1), Path::Pix);
    assert_eq!(path(0, 2), Path::Pxb);
    assert_eq!(path(0, 3), Path::Phb);
    assert_eq!(path(0, 4), Path::Sys);
    assert_eq!((topology.path_to_nic(2, 0), topology.path_to_nic(2, 1)), (Path::Pix, Path::Pix));
    assert_eq!((topology.path_to_nic(1, 0), topology.path_to_nic(4, 0)), (Path::Pxb, Path::Sys));
}

#[test]
fn gpus_are_in_the_order_of_their_numbers_wherever_they_hang() {
    let topology = read(SWITCHES);
    assert_eq!(topology.gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let first_child = &topology.numa[0].children[0].children[0];
    assert_eq!((first_child.kind.clone(), first_child.bus_id), (Kind::Gpu(1), topology.gpus[1].bus_id));
    assert_eq!(topology.gpu_at("18:00.0".parse().unwrap()), Some(1));
}

#[test]
fn a_bridge_of_nvlinks_beats_the_way_between_sockets() {
    assert_eq!(read(SWITCHES).path(3, 4), Path::Nvl(Some(4)));
}

#[test]
fn sockets_without_a_number_are_an_unknown_path_apart() {
    let unnumbered = SWITCHES.replace("numaid=\"0\"", "numaid=\"-1\"").replace("numaid=\"1\"", "numaid=\"-1\"");
    let topology = read(&unnumbered);
    assert_eq!((topology.path(0, 4), topology.path(0, 1)), (Path::Unknown, Path::Pix));
    assert_eq!(topology.longest_path(), Some(Path::Unknown));
}

#[test]
fn several_ranks_on_one_gpu_are_one_gpu() {
    let element = r#"<gpu dev="0" sm="90" rank="0" gdr="1"/>"#;
    let topology = read(&SWITCHES.replace(element, &element.repeat(4)));
    assert_eq!(topology, read(SWITCHES));
}

#[test]
fn elements_of_other_generations_are_stepped_over() {
    let with = SWITCHES.replace("</cpu>", "<c2c bw=\"1\" count=\"10\"/><future><pci busid=\"x\"/></future></cpu>");
    let topology = read(&with);
    assert_eq!((topology.gpus.len(), topology.path(0, 4)), (5, Path::Sys));
}

#[test]
fn a_dump_of_graphs_is_named_as_such() {
    let graphs = include_str!("../../../tests/data/topology/graph-2xh200.xml");
    let (label, place) = refused(graphs);
    assert_eq!((&*label, &*place), ("these are graphs (NCCL_GRAPH_DUMP_FILE), no topology", "<graphs version=\"1\">"));
}

#[test]
fn what_is_no_dump_is_refused_with_its_place() {
    assert_eq!(refused("").0, "no <system> element");
    assert_eq!(refused("<html></html>"), ("<html> is no topology, which is one <system>".into(), "<html>".into()));
    assert_eq!(refused("<system><gpu dev=\"0\"/></system>").0, "a <gpu> outside a <pci>");
    assert_eq!(refused("<system><cpu><pci class=\"0x030200\"/></cpu></system>").0, "a <pci> without busid");
    assert_eq!(refused(&SWITCHES.replace("dev=\"4\"", "dev=\"four\"")).0, "dev=\"four\" is no number of a GPU");
    assert_eq!(refused(&SWITCHES.replace("</system>", "</system><system/>")).0, "a second topology in one file");
}

#[test]
fn a_dump_that_is_cut_off_anywhere_is_refused() {
    let whole = H200.trim_end().len();
    for end in (0..whole).filter(|&end| H200.is_char_boundary(end)) {
        assert!(parse("topo.xml", &H200[..end]).is_err(), "cut after {end} bytes: {}", &H200[..end]);
    }
}

#[test]
fn elements_do_not_nest_without_end() {
    let deep = format!("<system>{}", "<pci busid=\"0000:01:00.0\">".repeat(100_000));
    assert_eq!(refused(&deep).0, "more than 32 elements within each other");
}

proptest::proptest! {
    #[test]
    fn damaged_dumps_are_read_or_refused_with_a_place_inside_them(at in 0_usize..2600, cut in 0_usize..80, junk in ".{0,8}") {
        let mut text = SWITCHES.to_owned();
        let start = text.floor_char_boundary(at);
        let end = text.floor_char_boundary(start + cut);
        text.replace_range(start..end, &junk);
        match parse("topo.xml", &text) {
            Ok(topology) => proptest::prop_assert!(topology.gpus.len() <= 5),
            Err(error) => proptest::prop_assert!(text.get(error.span().unwrap()).is_some()),
        }
    }
}
