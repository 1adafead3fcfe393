use super::*;

const H200: &str = include_str!("../../../tests/data/topology/nvidia-smi-topo-2xh200.txt");

/// Eight GPUs, four below each socket, pasted with blanks for tabs.
const PCIE_8: &str = "\
        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NODE    NODE    NODE    SYS     SYS     SYS     SYS     0-31,64-95      0               N/A
GPU1    NODE     X      PHB     NODE    SYS     SYS     SYS     SYS     0-31,64-95      0               N/A
GPU2    NODE    PHB      X      NODE    SYS     SYS     SYS     SYS     0-31,64-95      0               N/A
GPU3    NODE    NODE    NODE     X      SYS     SYS     SYS     SYS     0-31,64-95      0               N/A
GPU4    SYS     SYS     SYS     SYS      X      NODE    NODE    NODE    32-63,96-127    1               N/A
GPU5    SYS     SYS     SYS     SYS     NODE     X      NODE    NODE    32-63,96-127    1               N/A
GPU6    SYS     SYS     SYS     SYS     NODE    NODE     X      PXB     32-63,96-127    1               N/A
GPU7    SYS     SYS     SYS     SYS     NODE    NODE    PXB      X      32-63,96-127    1               N/A
";

/// Two GPUs and their adapters, as drivers since 470 print them.
const NICS: &str = "\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tSYS\tPIX\tSYS\t0-15\t0\t\tN/A
GPU1\tSYS\t X \tSYS\tPXB\t16-31\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_bond_0
";

/// Paths between the GPUs, row by row above the diagonal.
fn paths(text: &str) -> String {
    let topology = read(text);
    let count = topology.gpus.len();
    let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
    pairs.map(|(a, b)| topology.path(a, b).to_string()).collect::<Vec<_>>().join(" ")
}

fn read(text: &str) -> Topology {
    parse("topo.txt", text).unwrap_or_else(|error| panic!("{error:?}"))
}

/// The message of the error `text` leads to, its label and what it points at.
fn refused(text: &str) -> (String, String, String) {
    use miette::Diagnostic;
    let error = parse("topo.txt", text).unwrap_err();
    let span = error.span().unwrap();
    let label = error.labels().unwrap().next().unwrap().label().unwrap().to_owned();
    assert!(error.next_step().is_some());
    (error.message().to_owned(), label, text[span].to_owned())
}

#[test]
fn a_terminals_output_is_read_through_its_colours() {
    let topology = read(H200);
    assert_eq!(topology.path(0, 1), Path::Nvl(Some(18)));
    let gpu = |index| Gpu { index, numa: Some(0), cpus: Some("0-31".into()), ..Gpu::default() };
    assert_eq!(topology.gpus, [gpu(0), gpu(1)]);
    assert!(topology.nics.is_empty() && topology.numa.is_empty());
}

#[test]
fn colours_that_lost_their_escape_character_are_no_part_of_a_name() {
    assert_eq!(paths(&H200.replace('\u{1b}', "")), "NV18");
}

#[test]
fn eight_gpus_on_two_sockets_keep_their_paths_and_nodes() {
    let topology = read(PCIE_8);
    assert_eq!(topology.longest_path(), Some(Path::Sys));
    assert_eq!((topology.path(1, 2), topology.path(6, 7), topology.path(0, 3)), (Path::Phb, Path::Pxb, Path::Node));
    assert_eq!(topology.gpus.iter().map(|gpu| gpu.numa).collect::<Vec<_>>(), [[Some(0); 4], [Some(1); 4]].concat());
    assert_eq!(topology.gpus[7].cpus.as_deref(), Some("32-63,96-127"));
}

#[test]
fn adapters_are_read_with_the_names_of_their_legend() {
    let topology = read(NICS);
    assert_eq!(topology.nics.iter().map(|nic| &*nic.name).collect::<Vec<_>>(), ["mlx5_0", "mlx5_bond_0"]);
    assert_eq!((topology.path_to_nic(0, 0), topology.path_to_nic(1, 1)), (Path::Pix, Path::Pxb));
    assert_eq!(topology.gpus[1].numa, Some(1));
}

#[test]
fn rows_of_adapters_may_be_missing() {
    let cut: String = NICS.lines().filter(|line| !line.starts_with("NIC")).map(|line| format!("{line}\n")).collect();
    let topology = read(&cut);
    assert_eq!((topology.path_to_nic(1, 1), &*topology.nics[0].name), (Path::Pxb, "mlx5_0"));
}

#[test]
fn old_drivers_name_adapters_in_the_header_and_know_no_numa_column() {
    let text = "\
\tGPU0\tGPU1\tmlx5_0\tCPU Affinity
GPU0\t X \tPHB\tPIX\t0-9,20-29
GPU1\tPHB\t X \tPHB\t0-9,20-29
mlx5_0\tPIX\tPHB\t X \t
";
    let topology = read(text);
    assert_eq!((topology.path(0, 1), topology.path_to_nic(0, 0)), (Path::Phb, Path::Pix));
    assert_eq!((topology.gpus[0].numa, topology.gpus[0].cpus.as_deref()), (None, Some("0-9,20-29")));
    assert_eq!(topology.nics[0].name, "mlx5_0");
}

#[test]
fn older_drivers_call_the_way_between_sockets_soc() {
    assert_eq!(paths("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tSOC\t0-7\nGPU1\tSOC\t X \t8-15\n"), "SYS");
}

#[test]
fn a_header_on_the_line_of_the_prompt_is_found() {
    let text = format!("root@box:~# nvidia-smi topo -m {}", PCIE_8.trim_start());
    assert_eq!(read(&text), read(PCIE_8));
}

#[test]
fn what_stands_before_the_matrix_is_passed_over() {
    let listing = "GPU 0: NVIDIA H200 (UUID: GPU-0)\nCompare GPU0 and GPU1:\n$ nvidia-smi topo -m\n";
    assert_eq!(read(&format!("{listing}{PCIE_8}")), read(PCIE_8));
}

#[test]
fn nvlink_bridges_stand_beside_paths_between_sockets() {
    let text = "\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV4\tSYS\tSYS\t0-15\t0
GPU1\tNV4\t X \tSYS\tSYS\t0-15\t0
GPU2\tSYS\tSYS\t X \tNV4\t16-31\t1
GPU3\tSYS\tSYS\tNV4\t X \t16-31\t1
";
    assert_eq!(paths(text), "NV4 SYS SYS SYS SYS NV4");
    assert_eq!(read(text).longest_path(), Some(Path::Sys));
}

#[test]
fn windows_line_ends_change_nothing() {
    assert_eq!(read(&NICS.replace('\n', "\r\n")), read(NICS));
}

#[test]
fn a_table_of_a_web_page_is_read() {
    let text = "\
| | GPU0 | GPU1 | CPU Affinity | NUMA Affinity | GPU NUMA ID |
|---|---|---|---|---|---|
| GPU0 | X | NODE | 0-31 | 0 | N/A |
| GPU1 | NODE | X | 0-31 | 0 | N/A |
";
    assert_eq!((paths(text), read(text).gpus[1].numa), ("NODE".into(), Some(0)));
}

#[test]
fn one_gpu_has_no_path_to_another() {
    let topology = read("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\t0\t\tN/A\n");
    assert_eq!((topology.gpus.len(), topology.longest_path()), (1, None));
}

#[test]
fn gpus_keep_their_numbers_when_some_are_missing() {
    let topology = read("\tGPU2\tGPU5\tCPU Affinity\nGPU2\t X \tSYS\t0-7\nGPU5\tSYS\t X \t8-15\n");
    assert_eq!(topology.gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [2, 5]);
}

#[test]
fn affinities_that_are_missing_or_mixed_are_unknown() {
    let text = "\
\tGPU0\tGPU1\tGPU2\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPHB\tPHB\t\t0\t\tN/A
GPU1\tPHB\t X \tPHB\tN/A\tN/A\t\tN/A
GPU2\tPHB\tPHB\t X \t0-7\t0-1\t\tN/A
";
    let gpus = read(text).gpus;
    assert_eq!(gpus.iter().map(|gpu| gpu.numa).collect::<Vec<_>>(), [None, None, None]);
    assert_eq!(gpus.iter().map(|gpu| gpu.cpus.as_deref()).collect::<Vec<_>>(), [None, None, Some("0-7")]);
}

#[test]
fn a_word_newer_than_this_program_is_an_unknown_path() {
    let text = "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tCXL\tN/A\nGPU1\tCXL\t X \tPIX\nGPU2\tN/A\tPIX\t X \n";
    assert_eq!(paths(text), "? ? PIX");
}

#[test]
fn a_ragged_row_is_an_error_with_its_line() {
    let (message, label, place) =
        refused(&PCIE_8.replacen("SYS     32-63", "32-63", 1).replacen("SYS     0-31", "0-31", 1));
    assert_eq!(message, "cannot read the topology topo.txt, line 2");
    assert_eq!((&*label, &*place), ("no path to GPU7: the row has 7 of 8 cells", "0-31,64-95"));
    let (message, label, _) = refused("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\n");
    assert_eq!((&*message, &*label), ("cannot read the topology topo.txt, line 3", "the row ends after 1 of 2 cells"));
}

#[test]
fn a_row_too_few_or_too_many_is_an_error() {
    let cut = PCIE_8.lines().take(8).collect::<Vec<_>>().join("\n");
    assert_eq!(refused(&cut).1, "no row of GPU7");
    let twice = format!("{PCIE_8}{}", PCIE_8.lines().last().unwrap());
    assert_eq!(refused(&twice).1, "a second row of GPU7");
    let narrow = PCIE_8.replacen("    GPU7", "", 1);
    let (_, label, place) = refused(&narrow);
    assert_eq!((&*label, &*place), ("a cell more than the 7 columns of the header", "SYS"));
}

#[test]
fn a_matrix_that_contradicts_itself_is_an_error() {
    let (_, label, place) = refused("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tSYS\t X \n");
    assert_eq!((&*label, &*place), ("SYS from GPU1 to GPU0, but PIX from GPU0 to GPU1", "SYS"));
    let (_, label, place) = refused("\tGPU0\tGPU1\nGPU0\tPIX\t X \nGPU1\t X \tPIX\n");
    assert_eq!((&*label, &*place), ("PIX from GPU0 to itself: the columns are shifted", "PIX"));
}

#[test]
fn other_outputs_of_nvidia_smi_are_named() {
    let (_, label, place) = refused("\tGPU0\tGPU1\nGPU0\tX\tCNS\nGPU1\tCNS\tX\n");
    assert_eq!((&*label, &*place), ("CNS is a peer-to-peer status, as `topo -p2p` prints it", "CNS"));
    assert_eq!(refused("GPU 0: NVIDIA H200 (UUID: GPU-0)\n").1, "no header with GPU0, GPU1, …");
    assert_eq!(refused("").1, "no header with GPU0, GPU1, …");
}

proptest::proptest! {
    #[test]
    fn damaged_output_is_read_or_refused_with_a_place_inside_it(at in 0_usize..800, cut in 0_usize..40, junk in ".{0,8}") {
        let mut text = NICS.to_owned();
        let start = text.floor_char_boundary(at);
        let end = text.floor_char_boundary(start + cut);
        text.replace_range(start..end, &junk);
        match parse("topo.txt", &text) {
            Ok(topology) => proptest::prop_assert!(topology.gpus.len() <= 2),
            Err(error) => proptest::prop_assert!(text.get(error.span().unwrap()).is_some()),
        }
    }
}
