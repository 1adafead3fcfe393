//! Machines made of files.

use std::os::unix::fs::symlink;

use super::super::Status;
use super::super::files::tree;
use super::*;
use crate::topology::{Driver, DriverPair, GpuFacts, Lanes, P2p, Peering};

/// A machine with GPUs at these paths below `/sys/devices`, each with further attributes, and other files.
fn machine(gpus: &[(&str, &[(&str, &str)])], files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tree(files);
    let devices = root.path().join("sys/bus/pci/devices");
    std::fs::create_dir_all(&devices).unwrap();
    let write = |folder: &Path, attributes: &[(&str, &str)]| {
        std::fs::create_dir_all(folder).unwrap();
        for (name, value) in attributes {
            std::fs::write(folder.join(name), value).unwrap();
        }
        let link = devices.join(folder.file_name().unwrap());
        if !link.exists() {
            symlink(folder, link).unwrap();
        }
    };
    for (path, attributes) in gpus {
        let folder = root.path().join("sys/devices").join(path);
        let port = [("class", "0x060400"), ("max_link_speed", "32.0 GT/s PCIe"), ("max_link_width", "16")];
        write(folder.parent().unwrap(), &port);
        let own = [("class", "0x030200"), ("vendor", "0x10de"), ("numa_node", "0"), ("local_cpulist", "0-7")];
        let full = [
            ("current_link_width", "16"),
            ("max_link_width", "16"),
            ("current_link_speed", "32.0 GT/s PCIe"),
            ("max_link_speed", "32.0 GT/s PCIe"),
        ];
        write(&folder, &own);
        write(&folder, &full);
        write(&folder, attributes);
    }
    root
}

const FIRST: &str = "pci0000:00/0000:00:01.0/0000:01:00.0";
const SECOND: &str = "pci0000:40/0000:40:01.0/0000:41:00.0";

fn gpu(pci: &str) -> Gpu {
    Gpu { name: "NVIDIA H200".into(), pci: pci.into(), load: Some(0) }
}

/// Facts of a box with two GPUs whose driver answers.
fn answered() -> Facts {
    Facts {
        cuda: Answer::Told(Cuda { version: "13.0".into(), gpus: vec![gpu("0000:01:00.0"), gpu("0000:41:00.0")] }),
        management: Answer::Told(Management { driver: "580.159.04".into(), processes: Vec::new() }),
        ..Facts::default()
    }
}

#[track_caller]
fn check(root: &tempfile::TempDir, facts: Facts, name: &str) -> (Status, String) {
    let checkup = look(root.path(), facts);
    let check = checkup.checks.into_iter().find(|check| check.name == name);
    let check = check.unwrap_or_else(|| panic!("no check of {name}"));
    assert!(check.status <= Status::Unknown || !check.next.is_empty(), "{check:?} tells no next step");
    (check.status, check.evidence.join("; "))
}

#[test]
fn a_machine_without_anything_is_unknown_and_never_at_fault() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("dev/shm")).unwrap();
    let facts = Facts {
        cuda: Answer::Refused("there is no libcuda".to_owned()),
        management: Answer::Refused("no NVML".into()),
        ..Facts::default()
    };
    let checkup = look(root.path(), facts);
    assert_eq!(checkup.count(Status::Fault), 0, "{:?}", checkup.checks);
    for name in [
        "driver",
        "CUDA",
        "nvidia_uvm options",
        "MIG",
        "PCIe links",
        "ACS",
        "IOMMU",
        "CPU governor",
        "NUMA binding",
        "NCCL libraries",
    ] {
        let check = checkup.checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.status, Status::Unknown, "{check:?}");
    }
}

#[test]
fn module_and_libraries_of_the_driver_must_be_of_one_version() {
    let loaded = [("sys/module/nvidia/version", "580.159.04\n")];
    let root = machine(&[(FIRST, &[])], &loaded);
    assert_eq!(check(&root, answered(), "driver"), (Status::Ok, "580.159.04".into()));
    let other = Management { driver: "575.57.08".into(), processes: Vec::new() };
    let facts = Facts { management: Answer::Told(other), ..answered() };
    let (status, evidence) = check(&root, facts, "driver");
    assert!(status == Status::Fault && evidence.contains("580.159.04") && evidence.contains("575.57.08"), "{evidence}");
    let refused = Facts { management: Answer::Refused("NVML: no permission".into()), ..answered() };
    assert_eq!(check(&root, refused, "driver").0, Status::Fault);
    let root = machine(&[(FIRST, &[])], &[]);
    let (status, evidence) = check(&root, Facts::default(), "driver");
    assert_eq!((status, evidence.as_str()), (Status::Fault, "1 GPU on the bus, but no NVIDIA driver is loaded"));
}

#[test]
fn the_version_of_a_module_is_read_in_both_its_forms() {
    let line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (root@box)\nGCC version: 12.3.0\n";
    let root = machine(&[(FIRST, &[])], &[("proc/driver/nvidia/version", line)]);
    assert_eq!(check(&root, answered(), "driver"), (Status::Ok, "580.159.04".into()));
}

#[test]
fn gpus_are_counted_against_the_bus_and_told_by_kind() {
    let root = machine(&[(FIRST, &[]), (SECOND, &[])], &[]);
    assert_eq!(check(&root, answered(), "GPUs"), (Status::Ok, "2 × NVIDIA H200".into()));
    let fewer = || {
        let mut facts = answered();
        let Answer::Told(cuda) = &mut facts.cuda else { unreachable!() };
        cuda.gpus.pop();
        facts
    };
    assert_eq!(check(&root, fewer(), "GPUs").0, Status::Warning);
    let chosen = Facts { environment: vec![("CUDA_VISIBLE_DEVICES".into(), "0".into())], ..fewer() };
    assert_eq!(check(&root, chosen, "GPUs"), (Status::Ok, "1 × NVIDIA H200; CUDA_VISIBLE_DEVICES=0".into()));
    let mut mixed = answered();
    let Answer::Told(cuda) = &mut mixed.cuda else { unreachable!() };
    cuda.gpus[1].name = "NVIDIA L4".into();
    assert_eq!(check(&root, mixed, "GPUs"), (Status::Warning, "1 × NVIDIA H200, 1 × NVIDIA L4".into()));
}

#[test]
fn an_order_that_is_not_the_buses_is_told() {
    let root = machine(&[(FIRST, &[]), (SECOND, &[])], &[]);
    assert_eq!(check(&root, answered(), "GPU order").0, Status::Ok);
    let mut facts = answered();
    let Answer::Told(cuda) = &mut facts.cuda else { unreachable!() };
    cuda.gpus.reverse();
    let (status, evidence) = check(&root, facts, "GPU order");
    assert!(status == Status::Warning && evidence.contains("0 0000:41:00.0, 1 0000:01:00.0"), "{evidence}");
}

#[test]
fn a_busy_gpu_without_a_process_is_wedged() {
    let root = machine(&[(FIRST, &[]), (SECOND, &[])], &[]);
    assert_eq!(check(&root, answered(), "GPU processes").0, Status::Ok);
    let mut facts = answered();
    let Answer::Told(cuda) = &mut facts.cuda else { unreachable!() };
    cuda.gpus[1].load = Some(100);
    let (status, evidence) = check(&root, facts.clone(), "GPU processes");
    assert!(status == Status::Fault && evidence.contains("0000:41:00.0"), "{evidence}");
    let Answer::Told(management) = &mut facts.management else { unreachable!() };
    management.processes = vec![(812, Some("python3".into())), (900, None)];
    let (status, evidence) = check(&root, facts, "GPU processes");
    assert_eq!((status, evidence.as_str()), (Status::Warning, "pid 812 (python3), pid 900 (not visible from here)"));
}

#[test]
fn a_narrow_link_is_a_fault_and_a_slow_idle_one_is_not() {
    let idle: &[(&str, &str)] = &[("current_link_speed", "2.5 GT/s PCIe")];
    let narrow: &[(&str, &str)] = &[("current_link_width", "4")];
    let root = machine(&[(FIRST, idle), (SECOND, narrow)], &[]);
    let (status, evidence) = check(&root, answered(), "PCIe links");
    assert_eq!(status, Status::Fault);
    assert_eq!(
        evidence,
        "GPU 0000:01:00.0: Gen1 x16, up to Gen5 under load; GPU 0000:41:00.0: runs on x4 of x16: its slot has all of them"
    );
    let root = machine(&[(FIRST, &[]), (SECOND, &[])], &[]);
    assert_eq!(check(&root, answered(), "PCIe links"), (Status::Ok, "GPU 0000:01:00.0, 0000:41:00.0: Gen5 x16".into()));
    let hidden: &[(&str, &str)] = &[("current_link_width", "0"), ("max_link_width", "255")];
    let root = machine(&[(FIRST, hidden)], &[]);
    assert_eq!(check(&root, answered(), "PCIe links").0, Status::Unknown);
}

#[test]
fn a_link_that_stays_slow_under_load_is_a_fault() {
    let idle: &[(&str, &str)] = &[("current_link_speed", "2.5 GT/s PCIe")];
    let root = machine(&[(FIRST, idle)], &[]);
    let loaded = |generation| {
        let kernel = topology::probe(root.path()).unwrap();
        let lanes = Lanes { generation: Some(generation), width: Some(16) };
        let facts = GpuFacts { loaded: Some(lanes), ..GpuFacts::default() };
        let driver = Driver { gpus: vec![("0000:01:00.0".parse().unwrap(), facts)], pairs: Vec::new() };
        let facts = Facts { topology: Some(topology::merge(kernel, &driver)), ..answered() };
        check(&root, facts, "PCIe links")
    };
    assert_eq!(loaded(5), (Status::Ok, "GPU 0000:01:00.0: Gen5 x16 under load".into()));
    assert_eq!(loaded(1), (Status::Fault, "GPU 0000:01:00.0: runs at Gen1 under load, of Gen5".into()));
}

/// What the driver says of a box whose GPUs may do `p2p` with each other's memory.
fn driver(p2p: Peering) -> Driver {
    let gpu = |pci: &str| (pci.parse().unwrap(), GpuFacts { numa: Some(0), ..GpuFacts::default() });
    let p2p = P2p { read: p2p, write: p2p, ..P2p::default() };
    let pair = |(from, to)| DriverPair { from, to, path: topology::Path::Sys, p2p };
    Driver { gpus: vec![gpu("0000:01:00.0"), gpu("0000:41:00.0")], pairs: [(0, 1), (1, 0)].map(pair).into() }
}

#[test]
fn pairs_that_the_driver_does_not_allow_are_told() {
    let root = machine(&[(FIRST, &[]), (SECOND, &[])], &[]);
    let read = |p2p| {
        let kernel = topology::probe(root.path()).unwrap();
        check(&root, Facts { topology: Some(topology::merge(kernel, &driver(p2p))), ..answered() }, "P2P")
    };
    assert_eq!(read(Peering::Supported), (Status::Ok, "the driver allows it between all 2 ordered pairs".into()));
    let (status, evidence) = read(Peering::Chipset);
    assert_eq!(status, Status::Warning);
    assert_eq!(
        evidence,
        "the driver does not allow 2 of 2 ordered pairs; 0000:01:00.0 → 0000:41:00.0: read CNS, write CNS"
    );
    assert_eq!(check(&root, answered(), "P2P").0, Status::Unknown);
}

#[test]
fn a_gpu_that_the_driver_does_not_show_is_told() {
    let root = machine(&[(FIRST, &[]), (SECOND, &[])], &[]);
    let mut lost = driver(Peering::Supported);
    lost.gpus.pop();
    lost.pairs.clear();
    let topology = topology::merge(topology::probe(root.path()).unwrap(), &lost);
    let (status, evidence) = check(&root, Facts { topology: Some(topology), ..answered() }, "kernel and driver");
    assert!(status == Status::Warning && evidence.contains("presence of 0000:41:00.0"), "{evidence}");
}

#[test]
fn a_card_in_a_short_or_slow_slot_is_told_with_its_slot() {
    let narrow: &[(&str, &str)] = &[("current_link_width", "4")];
    let root = machine(&[(FIRST, narrow)], &[]);
    let port = root.path().join("sys/devices/pci0000:00/0000:00:01.0");
    std::fs::write(port.join("max_link_width"), "4").unwrap();
    let (status, evidence) = check(&root, answered(), "PCIe links");
    assert_eq!(
        (status, evidence.as_str()),
        (Status::Fault, "GPU 0000:01:00.0: runs on x4 of x16: its slot has 4 lanes")
    );
    let root = machine(&[(FIRST, &[])], &[]);
    let port = root.path().join("sys/devices/pci0000:00/0000:00:01.0");
    std::fs::write(port.join("max_link_speed"), "16.0 GT/s PCIe").unwrap();
    let (status, evidence) = check(&root, answered(), "PCIe links");
    assert!(status == Status::Warning && evidence.contains("its slot allows Gen4 of Gen5"), "{evidence}");
}

#[test]
fn acs_that_cannot_be_read_is_unknown() {
    let root = machine(&[(FIRST, &[]), (SECOND, &[])], &[]);
    assert_eq!(check(&root, answered(), "ACS").0, Status::Unknown);
    // A port whose extended configuration holds no such capability redirects nothing.
    for port in ["pci0000:00/0000:00:01.0", "pci0000:40/0000:40:01.0"] {
        std::fs::write(root.path().join("sys/devices").join(port).join("config"), vec![0; 4096]).unwrap();
    }
    assert_eq!(check(&root, answered(), "ACS").0, Status::Ok);
    let mut config = vec![0; 4096];
    config[0x100..0x104].copy_from_slice(&(0x000d_u32 | 1 << 16).to_le_bytes());
    config[0x106] = 0b100;
    std::fs::write(root.path().join("sys/devices/pci0000:00/0000:00:01.0/config"), config).unwrap();
    let (status, evidence) = check(&root, answered(), "ACS");
    assert!(status == Status::Warning && evidence.contains("0000:01:00.0"), "{evidence}");
}

#[test]
fn an_iommu_that_translates_is_a_warning_and_one_seen_from_a_guest_is_unknown() {
    let group = ("sys/kernel/iommu_groups/3/type", "DMA-FQ\n");
    let unit = ("sys/class/iommu/dmar0/version", "1");
    let root = machine(&[(FIRST, &[])], &[unit, group]);
    symlink(
        root.path().join("sys/kernel/iommu_groups/3"),
        root.path().join("sys/devices").join(FIRST).join("iommu_group"),
    )
    .unwrap();
    assert_eq!(check(&root, answered(), "IOMMU").0, Status::Warning);
    std::fs::write(root.path().join(group.0), "identity\n").unwrap();
    assert_eq!(check(&root, answered(), "IOMMU").0, Status::Ok);
    let guest = ("proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
    let root = machine(&[(FIRST, &[])], &[guest]);
    std::fs::create_dir_all(root.path().join("sys/class/iommu")).unwrap();
    assert_eq!(check(&root, answered(), "IOMMU").0, Status::Unknown);
}

#[test]
fn shared_memory_of_a_plain_container_is_too_small() {
    let judged = |total, free| memory::shared(total, free).status;
    assert_eq!(judged(64 << 20, 64 << 20), Status::Fault, "what Docker gives when nothing is said");
    assert_eq!(judged(8 << 30, 1 << 20), Status::Fault, "full");
    assert_eq!(judged(512 << 20, 512 << 20), Status::Warning);
    assert_eq!(judged(24 << 30, 20 << 30), Status::Ok);
    let root = machine(&[], &[("dev/shm/nccl-aB3xYz", "0123"), ("dev/shm/other", "")]);
    assert_eq!(check(&root, Facts::default(), "/dev/shm/nccl-*"), (Status::Warning, "1 file of NCCL, 1 MiB".into()));
}

#[test]
fn locked_memory_matters_where_a_network_adapter_is() {
    let adapters = ["mlx5_0".to_owned()];
    assert_eq!(memory::locked(None, &adapters).status, Status::Ok);
    assert_eq!(memory::locked(Some(8 << 20), &[]).status, Status::Ok);
    let check = memory::locked(Some(8 << 20), &adapters);
    assert_eq!((check.status, check.evidence[0].as_str()), (Status::Warning, "limit 8 MiB, and there is mlx5_0"));
}

#[test]
fn options_of_unified_memory_and_slices_are_told() {
    let options = |value| [("sys/module/nvidia_uvm/parameters/uvm_disable_hmm", value)];
    let both: &[(&str, &[(&str, &str)])] = &[(FIRST, &[]), (SECOND, &[])];
    let read = |value| check(&machine(both, &options(value)), answered(), "nvidia_uvm options");
    assert_eq!(read("N\n").0, Status::Warning);
    assert_eq!(read("Y\n"), (Status::Ok, "uvm_disable_hmm=Y".into()));
    let mig = [
        ("proc/driver/nvidia/capabilities/gpu0/mig/gi7/access", ""),
        ("proc/driver/nvidia/capabilities/gpu1/mig/monitor", ""),
    ];
    assert_eq!(check(&machine(both, &mig), answered(), "MIG"), (Status::Warning, "sliced: gpu0".into()));
    assert_eq!(check(&machine(both, &mig[1..]), answered(), "MIG").0, Status::Ok);
}

#[test]
fn governors_are_counted() {
    let governor = |cpu, kind| (format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), kind);
    let read = |governors: &[(String, &str)]| {
        let files: Vec<_> = governors.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
        check(&machine(&[], &files), Facts::default(), "CPU governor")
    };
    assert_eq!(
        read(&[governor(0, "performance"), governor(1, "performance")]),
        (Status::Ok, "performance on 2 CPUs".into())
    );
    let (status, evidence) = read(&[governor(0, "performance"), governor(1, "powersave"), governor(10, "powersave")]);
    assert_eq!((status, evidence.as_str()), (Status::Warning, "performance on 1 CPU, powersave on 2 CPUs"));
}

#[test]
fn a_binding_away_from_a_gpu_is_told() {
    let status = |cpus| format!("Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n");
    let far: &[(&str, &str)] = &[("numa_node", "1"), ("local_cpulist", "8-15")];
    let read = |cpus| {
        let files = [("sys/devices/system/node/online", "0-1"), ("proc/self/status", &status(cpus))];
        check(&machine(&[(FIRST, &[]), (SECOND, far)], &files), answered(), "NUMA binding")
    };
    assert_eq!(read("0-15").0, Status::Ok);
    let (bound, evidence) = read("0-7");
    assert!(bound == Status::Warning && evidence.ends_with("no CPU near GPU 0000:41:00.0 may be used"), "{evidence}");
    assert!(evidence.contains("node 0: GPU 0000:01:00.0; node 1: GPU 0000:41:00.0"), "{evidence}");
}

#[test]
fn balancing_matters_where_there_are_nodes_to_balance() {
    let read = |nodes, on| {
        let files = [("sys/devices/system/node/online", nodes), ("proc/sys/kernel/numa_balancing", on)];
        let checkup = look(machine(&[], &files).path(), Facts::default());
        checkup.checks.into_iter().find(|check| check.name == "NUMA balancing").map(|check| check.status)
    };
    assert_eq!((read("0-1", "1"), read("0-1", "0"), read("0", "1")), (Some(Status::Warning), Some(Status::Ok), None));
}

#[test]
fn libraries_of_several_versions_are_told_with_the_one_that_is_taken() {
    let library = |path: &str, version: &str| Library {
        path: path.into(),
        by: "a Python wheel".into(),
        version: version.parse().ok(),
    };
    let root = machine(&[], &[]);
    let read = |libraries| check(&root, Facts { libraries, ..Facts::default() }, "NCCL libraries");
    assert_eq!(read(vec![library("/a/libnccl.so.2", "2.28.3")]).0, Status::Ok);
    let (status, evidence) = read(vec![library("/a/libnccl.so.2", "2.28.3"), library("/b/libnccl.so.2", "2.23.4")]);
    assert_eq!(status, Status::Warning);
    assert_eq!(
        evidence,
        "taken: 2.28.3 /a/libnccl.so.2 (by a Python wheel); also there: 2.23.4 /b/libnccl.so.2 (by a Python wheel)"
    );
}

#[test]
fn inherited_variables_are_a_warning_and_misread_ones_a_fault() {
    let root = machine(&[], &[]);
    let read = |variables: &[(&str, &str)]| {
        let environment = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        check(&root, Facts { environment, ..Facts::default() }, "base environment")
    };
    assert_eq!(read(&[("PATH", "/bin")]), (Status::Ok, "no NCCL_ variable is set".into()));
    assert_eq!(read(&[("NCCL_PROTO", "LL")]), (Status::Warning, "NCCL_PROTO=LL".into()));
    let (status, evidence) = read(&[("NCCL_BUFFSIZE", "16M"), ("LD_PRELOAD", "/x.so")]);
    assert!(
        status == Status::Fault && evidence.contains("as 16") && evidence.contains("LD_PRELOAD=/x.so"),
        "{evidence}"
    );
}

#[test]
fn configuration_files_are_linted_in_passing() {
    let root = machine(&[], &[("etc/nccl.conf", "export NCCL_PROTO=LL\n"), ("home/u/.nccl.conf", "NCCL_ALGO=Ring\n")]);
    let facts = Facts { environment: vec![("HOME".into(), "/home/u".into())], ..Facts::default() };
    let (status, evidence) = check(&root, facts, "conf files");
    assert_eq!(status, Status::Fault);
    assert_eq!(evidence, "/home/u/.nccl.conf: NCCL_ALGO=Ring; /etc/nccl.conf: export NCCL_PROTO=LL");
}
