use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::topology::Path;
use crate::topology::config_space::tests::config;

/// A sysfs with devices at the paths given below `/sys/devices`.
struct Sysfs(TempDir);

impl Sysfs {
    fn new() -> Self {
        let sysfs = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(sysfs.root().join("sys/bus/pci/devices")).unwrap();
        sysfs
    }

    fn root(&self) -> &FilePath {
        self.0.path()
    }

    /// A device with attributes, at a path such as `pci0000:00/0000:00:01.0/0000:01:00.0`.
    fn device(&self, path: &str, attributes: &[(&str, &str)]) -> PathBuf {
        let folder = self.root().join("sys/devices").join(path);
        fs::create_dir_all(&folder).unwrap();
        for (name, value) in attributes {
            fs::write(folder.join(name), format!("{value}\n")).unwrap();
        }
        let link = self.root().join("sys/bus/pci/devices").join(folder.file_name().unwrap());
        if !link.exists() {
            symlink(&folder, link).unwrap();
        }
        folder
    }

    fn port(&self, path: &str) -> PathBuf {
        self.device(path, &[("class", "0x060400"), ("max_link_speed", "32.0 GT/s PCIe"), ("max_link_width", "16")])
    }

    fn gpu(&self, path: &str, numa: &str) -> PathBuf {
        self.device(
            path,
            &[("class", "0x030200"), ("vendor", "0x10de"), ("numa_node", numa), ("local_cpulist", "0-15")],
        )
    }

    fn probe(&self) -> Topology {
        probe(self.root()).unwrap()
    }
}

#[test]
fn paths_follow_from_ports_host_bridges_and_nodes() {
    let sysfs = Sysfs::new();
    // Two GPUs below one switch, one below a switch of that switch, one below another port, one below another bridge.
    let switch = "pci0000:10/0000:10:01.0/0000:11:00.0";
    for port in
        ["pci0000:10/0000:10:01.0", switch, &format!("{switch}/0000:12:00.0"), &format!("{switch}/0000:12:01.0")]
    {
        sysfs.port(port);
    }
    sysfs.gpu(&format!("{switch}/0000:12:00.0/0000:13:00.0"), "0");
    sysfs.gpu(&format!("{switch}/0000:12:01.0/0000:14:00.0"), "0");
    sysfs.gpu(&format!("{switch}/0000:12:02.0/0000:15:00.0/0000:16:00.0/0000:17:00.0"), "0");
    sysfs.gpu("pci0000:10/0000:10:02.0/0000:20:00.0", "0");
    sysfs.gpu("pci0000:30/0000:30:01.0/0000:31:00.0", "0");
    sysfs.gpu("pci0000:80/0000:80:01.0/0000:81:00.0", "1");

    let topology = sysfs.probe();
    let from_first: Vec<_> = (0..6).map(|gpu| topology.path(0, gpu)).collect();
    assert_eq!(from_first, [Path::Loc, Path::Pix, Path::Pxb, Path::Phb, Path::Node, Path::Sys]);
    assert_eq!(topology.gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    assert_eq!((topology.gpus[5].numa, topology.gpus[5].cpus.as_deref()), (Some(1), Some("0-15")));
    let bridges = topology.numa.iter().map(|node| node.children.len());
    assert_eq!(bridges.collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn nodes_the_platform_does_not_tell_make_unknown_paths() {
    let sysfs = Sysfs::new();
    sysfs.gpu("pci0000:00/0000:00:06.0", "-1");
    sysfs.gpu("pci0000:00/0000:00:07.0", "-1");
    sysfs.gpu("LNXSYSTM:00/pci0001:00/0001:00:00.0", "-1");
    let topology = sysfs.probe();
    assert_eq!((topology.path(0, 1), topology.path(0, 2)), (Path::Phb, Path::Unknown));
    assert_eq!((topology.gpus[0].numa, topology.numa[0].id), (None, None));
    assert_eq!(topology.gpus[2].bus_id.unwrap().domain, 1);
}

#[test]
fn links_are_read_of_the_device_and_of_its_slot() {
    let sysfs = Sysfs::new();
    sysfs.port("pci0000:00/0000:00:01.0");
    let gpu = sysfs.gpu("pci0000:00/0000:00:01.0/0000:01:00.0", "0");
    for (name, value) in [
        ("current_link_speed", "2.5 GT/s PCIe"),
        ("current_link_width", "8"),
        ("max_link_speed", "16.0 GT/s PCIe"),
        ("max_link_width", "16"),
    ] {
        fs::write(gpu.join(name), value).unwrap();
    }
    let topology = sysfs.probe();
    let device = &topology.numa[0].children[0].children[0];
    assert_eq!((device.link.now.to_string(), device.link.max.to_string()), ("Gen1 x8".into(), "Gen4 x16".into()));
    assert_eq!(device.slot.max.to_string(), "Gen5 x16");
    assert_eq!(
        (device.link.is_narrow(&device.slot), device.link.generation_possible(&device.slot)),
        (Some(true), Some(4))
    );
}

#[test]
fn redirection_and_groups_are_unknown_without_privileges() {
    let sysfs = Sysfs::new();
    let port = sysfs.port("pci0000:00/0000:00:01.0");
    let gpu = sysfs.gpu("pci0000:00/0000:00:01.0/0000:01:00.0", "0");
    let read = || {
        let device = sysfs.probe().numa[0].children[0].children[0].clone();
        (device.slot.acs_redirect, device.iommu_group)
    };
    assert_eq!(read(), (None, None));
    fs::write(port.join("config"), &config(0x1d)[..64]).unwrap();
    assert_eq!(read(), (None, None));
    fs::write(port.join("config"), config(0x1d)).unwrap();
    let group = sysfs.root().join("sys/kernel/iommu_groups/27");
    fs::create_dir_all(&group).unwrap();
    symlink(group, gpu.join("iommu_group")).unwrap();
    assert_eq!(read(), (Some(true), Some(27)));
}

#[test]
fn adapters_have_the_name_nccl_gives_them_and_count_once() {
    let sysfs = Sysfs::new();
    let nic = |path: &str| sysfs.device(path, &[("class", "0x020000"), ("vendor", "0x15b3"), ("numa_node", "0")]);
    let rdma = nic("pci0000:00/0000:00:01.0/0000:01:00.0");
    fs::create_dir_all(rdma.join("infiniband/mlx5_0")).unwrap();
    fs::create_dir_all(rdma.join("net/ens1f0")).unwrap();
    let ethernet = nic("pci0000:00/0000:00:02.0/0000:02:00.0");
    fs::create_dir_all(ethernet.join("net/eno1")).unwrap();
    let virtual_function = nic("pci0000:00/0000:00:01.0/0000:01:00.1");
    fs::create_dir_all(virtual_function.join("net/ens1f0v0")).unwrap();
    symlink(&rdma, virtual_function.join("physfn")).unwrap();
    sysfs.gpu("pci0000:00/0000:00:03.0/0000:03:00.0", "0");
    // Neither another vendor's display nor a disk is one of ours.
    sysfs.device("pci0000:00/0000:00:04.0", &[("class", "0x030000"), ("vendor", "0x1a03")]);
    sysfs.device("pci0000:00/0000:00:05.0", &[("class", "0x010802"), ("vendor", "0x144d")]);

    let topology = sysfs.probe();
    assert_eq!(topology.nics.iter().map(|nic| &*nic.name).collect::<Vec<_>>(), ["mlx5_0", "eno1"]);
    assert_eq!((topology.gpus.len(), topology.path_to_nic(0, 0)), (1, Path::Phb));
}

#[test]
fn a_box_without_sysfs_is_an_error_that_says_so() {
    let nothing = tempfile::tempdir().unwrap();
    let error = probe(nothing.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Environment);
    assert!(error.message().starts_with("cannot list the PCI devices in "));
}
