//! What stands between the GPUs and the person: [`Host`] — hypervisor, container, IOMMU.

use std::fmt;
use std::fs;
use std::path::Path as FilePath;

use serde::{Deserialize, Serialize};

/// The machine around the GPUs, as far as it can be told from inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Host {
    /// Whether it is a virtual machine.
    pub machine: Machine,
    /// The container this process runs in.
    pub container: Option<String>,
    /// What the IOMMU does with the GPUs' traffic.
    pub iommu: Iommu,
}

/// Real or virtual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Machine {
    /// No hypervisor shows.
    Bare,
    /// A virtual machine; of which kind, where it tells.
    Virtual(Option<String>),
    /// Not told.
    #[default]
    Unknown,
}

/// What an IOMMU does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Iommu {
    /// There is none, or it is off.
    Off,
    /// It lets the GPUs' addresses through.
    Passthrough,
    /// It translates them: peer-to-peer traffic may have to pass through the root.
    Translating,
    /// It is on; what it does with the GPUs is not told.
    On,
    /// Not told.
    #[default]
    Unknown,
}

impl Host {
    /// Reads the files below `root`, which is `/` but for tests; `groups` are the IOMMU groups of the GPUs.
    #[must_use]
    pub fn read(root: &FilePath, groups: &[u32]) -> Self {
        Self { machine: machine(root), container: container(root), iommu: iommu(root, groups) }
    }
}

/// Linux shows the CPUID bit of a hypervisor as a flag; firmware tells its name.
fn machine(root: &FilePath) -> Machine {
    let firmware = |file: &str| text(&root.join("sys/class/dmi/id").join(file)).unwrap_or_default();
    let names =
        [text(&root.join("sys/hypervisor/type")).unwrap_or_default(), firmware("sys_vendor"), firmware("product_name")];
    let known =
        ["KVM", "QEMU", "VMware", "VirtualBox", "Xen", "Hyper-V", "Amazon EC2", "Google Compute Engine", "OpenStack"];
    let told =
        known.into_iter().find(|kind| names.iter().any(|name| name.to_lowercase().contains(&kind.to_lowercase())));
    let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    match flags.map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")) {
        Some(true) => Machine::Virtual(told.map(str::to_owned)),
        // Instances on bare metal carry the vendor's name too.
        Some(false) => Machine::Bare,
        None => told.map_or(Machine::Unknown, |kind| Machine::Virtual(Some(kind.to_owned()))),
    }
}

fn container(root: &FilePath) -> Option<String> {
    if root.join(".dockerenv").exists() {
        return Some("Docker".to_owned());
    }
    if let Ok(told) = fs::read_to_string(root.join("run/.containerenv")) {
        let engine = told.lines().find_map(|line| line.strip_prefix("engine=")).map(|engine| engine.trim_matches('"'));
        let engine = engine.and_then(|engine| engine.split('-').next()).filter(|engine| !engine.is_empty());
        return Some(engine.unwrap_or("podman").to_owned());
    }
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let kinds = [("kubepods", "Kubernetes"), ("docker", "Docker"), ("containerd", "containerd"), ("lxc", "LXC")];
    kinds.into_iter().find(|(mark, _)| groups.contains(mark)).map(|(_, name)| name.to_owned())
}

fn iommu(root: &FilePath, groups: &[u32]) -> Iommu {
    let Ok(mut units) = fs::read_dir(root.join("sys/class/iommu")) else { return Iommu::Unknown };
    if units.next().is_none() {
        return Iommu::Off;
    }
    let kind = |group: &u32| text(&root.join(format!("sys/kernel/iommu_groups/{group}/type")));
    let kinds: Vec<String> = groups.iter().filter_map(kind).collect();
    match () {
        () if kinds.iter().any(|kind| kind.starts_with("DMA")) => Iommu::Translating,
        () if !kinds.is_empty() && kinds.iter().all(|kind| kind == "identity") => Iommu::Passthrough,
        () => Iommu::On,
    }
}

fn text(file: &FilePath) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bare => f.pad("bare metal"),
            Self::Virtual(Some(kind)) => f.pad(&format!("virtual machine ({kind})")),
            Self::Virtual(None) => f.pad("virtual machine"),
            Self::Unknown => f.pad("?"),
        }
    }
}

impl fmt::Display for Iommu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::Passthrough => "passthrough",
            Self::Translating => "translating",
            Self::On => "on",
            Self::Unknown => "?",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        root
    }

    fn read(files: &[(&str, &str)]) -> Host {
        Host::read(root(files).path(), &[3, 4])
    }

    #[test]
    fn a_hypervisor_is_told_by_the_processor_and_named_by_the_firmware() {
        let guest = ("proc/cpuinfo", "flags\t\t: fpu hypervisor avx2\n");
        let vendor = ("sys/class/dmi/id/sys_vendor", "QEMU\n");
        assert_eq!(read(&[guest, vendor]).machine, Machine::Virtual(Some("QEMU".into())));
        assert_eq!(read(&[guest]).machine, Machine::Virtual(None));
        assert_eq!(read(&[("proc/cpuinfo", "flags\t\t: fpu avx2\n")]).machine, Machine::Bare);
        assert_eq!(read(&[]).machine, Machine::Unknown);
        assert_eq!(read(&[vendor]).machine, Machine::Virtual(Some("QEMU".into())), "processors of ARM have no flag");
    }

    #[test]
    fn containers_are_told_by_their_files() {
        assert_eq!(read(&[(".dockerenv", "")]).container.as_deref(), Some("Docker"));
        assert_eq!(read(&[("run/.containerenv", "engine=\"podman-5.0\"\n")]).container.as_deref(), Some("podman"));
        let pod = ("proc/self/cgroup", "0::/kubepods.slice/kubepods-pod1.slice\n");
        assert_eq!(read(&[pod]).container.as_deref(), Some("Kubernetes"));
        assert_eq!(read(&[("proc/self/cgroup", "0::/user.slice\n")]).container, None);
    }

    #[test]
    fn an_iommu_is_off_only_where_the_kernel_shows_none() {
        assert_eq!(read(&[]).iommu, Iommu::Unknown);
        let off = root(&[]);
        fs::create_dir_all(off.path().join("sys/class/iommu")).unwrap();
        assert_eq!(Host::read(off.path(), &[]).iommu, Iommu::Off);
        let unit = ("sys/class/iommu/dmar0/version", "1");
        let group =
            |kind| read(&[unit, ("sys/kernel/iommu_groups/3/type", kind), ("sys/kernel/iommu_groups/4/type", kind)]);
        assert_eq!(group("DMA-FQ\n").iommu, Iommu::Translating);
        assert_eq!(group("identity\n").iommu, Iommu::Passthrough);
        assert_eq!(read(&[unit]).iommu, Iommu::On);
    }
}
