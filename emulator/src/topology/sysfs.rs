//! What Linux shows of the box below `/`: PCI devices and ports, NUMA nodes, processors, IOMMU. Written into a folder that
//! `NCCLSWEEP_EMULATE_ROOT` names, since nobody can lay another `/sys` over a process.
//!
//! Attributes are those of `Documentation/ABI/testing/sysfs-bus-pci` of the Linux source.

use std::fs;
use std::io::Result;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Iommu, Machine};
use crate::ailment::{self, Ailment};

/// Control register of the access control capability when all of its redirections are on, and when none is.
const ACS_ON: u16 = 0x1d;
const ACS_OFF: u16 = 0;

/// Writes the files of `machine` below `root`.
pub(crate) fn write(root: &Path, machine: &Machine, ailments: &[Ailment]) -> Result<()> {
    let sysfs = Sysfs { root, machine, ailments };
    sysfs.processors()?;
    sysfs.iommu()?;
    fs::create_dir_all(root.join("sys/bus/pci/devices"))?;
    (0..machine.slots.len()).try_for_each(|gpu| sysfs.gpu(gpu))
}

struct Sysfs<'a> {
    root: &'a Path,
    machine: &'a Machine,
    ailments: &'a [Ailment],
}

impl Sysfs<'_> {
    fn file(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) -> Result<()> {
        let file = self.root.join(path);
        fs::create_dir_all(file.parent().unwrap_or(self.root))?;
        fs::write(file, text)
    }

    fn processors(&self) -> Result<()> {
        let flags = if self.machine.guest { "fpu sse avx2 hypervisor" } else { "fpu sse avx2" };
        self.file("proc/cpuinfo", format!("processor\t: 0\nmodel name\t: {}\nflags\t\t: {flags}\n", self.machine.cpu))?;
        let vendor = if self.machine.guest { "QEMU" } else { "Supermicro" };
        self.file("sys/class/dmi/id/sys_vendor", format!("{vendor}\n"))?;
        for (socket, cpus) in self.machine.cpus.iter().enumerate() {
            self.file(format!("sys/devices/system/node/node{socket}/cpulist"), format!("{cpus}\n"))?;
        }
        Ok(())
    }

    fn iommu(&self) -> Result<()> {
        fs::create_dir_all(self.root.join("sys/class/iommu"))?;
        let kind = match self.machine.iommu {
            Iommu::Off => return Ok(()),
            Iommu::Passthrough => "identity",
            Iommu::Translating => "DMA-FQ",
        };
        self.file("sys/class/iommu/ivhd0/amd-iommu/cap", "80b048ba\n")?;
        let groups = (0..self.machine.slots.len()).map(group);
        groups
            .into_iter()
            .try_for_each(|group| self.file(format!("sys/kernel/iommu_groups/{group}/type"), format!("{kind}\n")))
    }

    /// A GPU with the ports above it: a root port, and where GPUs share a switch its upstream and downstream ports.
    fn gpu(&self, gpu: usize) -> Result<()> {
        let slot = self.machine.slots[gpu];
        let (bus, device) = (slot.address >> 12, slot.address >> 4 & 0xFF);
        if self.machine.guest {
            // A guest sees its GPUs as devices of the one root bus.
            return self.endpoint(gpu, Path::new(&format!("pci0000:00/0000:00:{device:02x}.0")));
        }
        let root_bus = bus & 0xE0;
        let root = PathBuf::from(format!("pci0000:{root_bus:02x}/0000:{root_bus:02x}:01.1"));
        self.port(&root)?;
        let mut path = root;
        if self.machine.slots.iter().filter(|other| other.switch == slot.switch).count() > 1 {
            let siblings = self.machine.slots.iter().filter(|other| other.switch == slot.switch);
            let first = siblings.map(|other| other.address >> 12).min().unwrap_or(bus);
            path = path.join(format!("0000:{:02x}:00.0", first - 2));
            self.port(&path)?;
            path = path.join(format!("0000:{:02x}:{:02x}.0", first - 1, bus - first));
            self.port(&path)?;
        }
        self.endpoint(gpu, &path.join(format!("0000:{bus:02x}:{device:02x}.0")))
    }

    fn port(&self, path: &Path) -> Result<()> {
        let control = if ailment::acs(self.ailments) { ACS_ON } else { ACS_OFF };
        let speed = speed(self.machine.pcie_generation());
        let attributes = [
            ("class", "0x060400"),
            ("vendor", "0x1022"),
            ("current_link_speed", speed),
            ("current_link_width", "16"),
            ("max_link_speed", speed),
            ("max_link_width", "16"),
        ];
        let folder = self.device(path, &attributes)?;
        fs::write(folder.join("config"), config_space(control))
    }

    fn endpoint(&self, gpu: usize, path: &Path) -> Result<()> {
        let machine = self.machine;
        let fastest = speed(machine.pcie_generation());
        // Nothing runs while one looks: cards that save power are at their slowest.
        let now = if machine.saves_power() { speed(1) } else { fastest };
        let width = ailment::width(self.ailments, gpu).to_string();
        // A hypervisor hides the width of the link.
        let (width, most) = if machine.guest { ("0", "0") } else { (width.as_str(), "16") };
        let socket = if machine.guest { "-1".to_owned() } else { machine.slots[gpu].socket.to_string() };
        let attributes = [
            ("class", if machine.gpu.name.contains("GeForce") { "0x030000" } else { "0x030200" }),
            ("vendor", "0x10de"),
            ("numa_node", socket.as_str()),
            ("local_cpulist", machine.cpus[machine.slots[gpu].socket as usize]),
            ("current_link_speed", now),
            ("current_link_width", width),
            ("max_link_speed", fastest),
            ("max_link_width", most),
        ];
        let folder = self.device(path, &attributes)?;
        if machine.iommu != Iommu::Off {
            link(&self.root.join(format!("sys/kernel/iommu_groups/{}", group(gpu))), &folder.join("iommu_group"))?;
        }
        Ok(())
    }

    fn device(&self, path: &Path, attributes: &[(&str, &str)]) -> Result<PathBuf> {
        let folder = self.root.join("sys/devices").join(path);
        fs::create_dir_all(&folder)?;
        for (name, value) in attributes {
            fs::write(folder.join(name), format!("{value}\n"))?;
        }
        let name = folder.file_name().unwrap_or_default();
        link(&folder, &self.root.join("sys/bus/pci/devices").join(name))?;
        Ok(folder)
    }
}

/// Ports of several GPUs, and several processes, meet the same link.
fn link(to: &Path, at: &Path) -> Result<()> {
    if at.is_symlink() { Ok(()) } else { symlink(to, at) }
}

fn group(gpu: usize) -> usize {
    20 + gpu
}

fn speed(generation: u32) -> &'static str {
    ["2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"]
        [(generation.clamp(1, 5) - 1) as usize]
}

/// A configuration space with one extended capability, access control (PCI Express base specification, 7.7.11).
fn config_space(control: u16) -> Vec<u8> {
    let mut config = vec![0; 0x1000];
    config[0x100..0x104].copy_from_slice(&(0x000d_u32 | 1 << 16).to_le_bytes());
    config[0x106..0x108].copy_from_slice(&control.to_le_bytes());
    config
}

#[cfg(test)]
mod tests {
    use super::super::by_name;
    use super::*;

    fn written(name: &str, ailments: &str) -> (tempfile::TempDir, Vec<String>) {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), by_name(name).unwrap(), &ailment::parse(ailments).unwrap()).unwrap();
        let devices = fs::read_dir(root.path().join("sys/bus/pci/devices")).unwrap();
        let mut names: Vec<_> = devices.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        (root, names)
    }

    #[test]
    fn gpus_of_one_switch_hang_below_its_ports() {
        let (root, names) = written("8xrtxpro6000-switch", "");
        // For each of four switches: a root port, an upstream and two downstream ports, two GPUs.
        assert_eq!(names.len(), 4 * 6);
        let gpu = root.path().join("sys/bus/pci/devices/0000:24:00.0").canonicalize().unwrap();
        assert!(gpu.ends_with("pci0000:20/0000:20:01.1/0000:21:00.0/0000:22:01.0/0000:24:00.0"), "{}", gpu.display());
        assert_eq!(fs::read_to_string(gpu.join("numa_node")).unwrap(), "0\n");
    }

    #[test]
    fn a_guest_hides_width_and_node() {
        let (root, names) = written("2xh200-nvlink", "");
        assert_eq!(names, ["0000:00:06.0", "0000:00:07.0"]);
        let gpu = root.path().join("sys/bus/pci/devices/0000:00:06.0");
        assert_eq!(fs::read_to_string(gpu.join("numa_node")).unwrap(), "-1\n");
        assert_eq!(fs::read_to_string(gpu.join("current_link_width")).unwrap(), "0\n");
    }

    #[test]
    fn a_narrow_link_is_that_of_its_gpu_and_acs_that_of_all_ports() {
        let (root, _) = written("8xpcie-flat", "narrow:4@2;acs@all");
        let read = |path: &str| fs::read(root.path().join("sys/bus/pci/devices").join(path)).unwrap();
        assert_eq!(
            (read("0000:41:00.0/current_link_width"), read("0000:21:00.0/current_link_width")),
            (b"4\n".to_vec(), b"16\n".to_vec())
        );
        assert_eq!(read("0000:40:01.1/config")[0x106], ACS_ON as u8);
    }
}
