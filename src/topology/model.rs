//! The wiring as data: [`Topology`], its GPUs, the [`Path`] between any two of them and, where known, the PCIe tree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Address of a PCI function. Written `0000:3b:00.0`; `nvidia-smi`'s long domain and a missing domain are read as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BusId {
    /// PCI domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device on the bus, below 32.
    pub device: u8,
    /// Function of the device, below 8.
    pub function: u8,
}

/// What lies between two devices, in the words of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Path {
    /// The same device.
    Loc,
    /// NVLinks, direct or through NVSwitch, and how many.
    Nvl(Option<u32>),
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches, no host bridge.
    Pxb,
    /// One PCIe host bridge. NCCL says PHB also where `nvidia-smi` says NODE.
    Phb,
    /// Several host bridges of one NUMA node.
    Node,
    /// The interconnect between NUMA nodes.
    Sys,
    /// Not told.
    Unknown,
}

/// Speed and width of a PCIe link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// PCIe generation, by the transfer rate.
    pub generation: Option<u8>,
    /// Lanes.
    pub width: Option<u8>,
}

/// A device's end of its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// What it runs at. An idle device lowers its speed, never its width.
    pub now: Lanes,
    /// What the device can.
    pub max: Lanes,
}

/// The port above a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// What the port can.
    pub max: Lanes,
    /// Whether access control (ACS) of the port sends peer-to-peer traffic up to the root instead of across the switch.
    pub acs_redirect: Option<bool>,
}

/// What a device of the PCIe tree is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A root complex.
    HostBridge,
    /// A PCIe switch; its address is that of its upstream port.
    Switch,
    /// A GPU, by its position in [`Topology::gpus`].
    Gpu(usize),
    /// A network adapter, by its positions in [`Topology::nics`].
    Nic(Vec<usize>),
    /// Something else.
    Other,
}

/// A node of the PCIe tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// What it is.
    pub kind: Kind,
    /// Its address.
    pub bus_id: Option<BusId>,
    /// Its link upwards.
    pub link: Link,
    /// The port above it.
    pub slot: Slot,
    /// Devices of one IOMMU group cannot be told apart by the IOMMU.
    pub iommu_group: Option<u32>,
    /// What hangs below.
    pub children: Vec<Device>,
}

/// A NUMA node, or what stands in for it where the platform names none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// Its number.
    pub id: Option<u32>,
    /// Its processor: architecture and vendor.
    pub cpu: Option<String>,
    /// What hangs below.
    pub children: Vec<Device>,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Number the driver gives it (in the order of the bus addresses).
    pub index: u32,
    /// Its address.
    pub bus_id: Option<BusId>,
    /// NUMA node it is near to.
    pub numa: Option<u32>,
    /// CPUs it is near to, as a list of ranges.
    pub cpus: Option<String>,
}

/// A network adapter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Its name.
    pub name: String,
}

/// How GPUs and network adapters of one box are wired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The GPUs, in ascending order of their number.
    pub gpus: Vec<Gpu>,
    /// The network adapters.
    pub nics: Vec<Nic>,
    /// The PCIe tree; empty where the source has none.
    pub numa: Vec<NumaNode>,
    /// Square and symmetric, row by row over GPUs, then NICs.
    paths: Vec<Path>,
}

impl Topology {
    /// A topology; `path(a, b)` is asked for positions `a < b` among the GPUs followed by the NICs.
    pub(super) fn new(
        gpus: Vec<Gpu>,
        nics: Vec<Nic>,
        numa: Vec<NumaNode>,
        path: impl Fn(usize, usize) -> Path,
    ) -> Self {
        let size = gpus.len() + nics.len();
        let cell = |row: usize, column: usize| match row.cmp(&column) {
            std::cmp::Ordering::Less => path(row, column),
            std::cmp::Ordering::Equal => Path::Loc,
            std::cmp::Ordering::Greater => path(column, row),
        };
        let paths = (0..size).flat_map(|row| (0..size).map(move |column| (row, column)));
        let paths = paths.map(|(row, column)| cell(row, column)).collect();
        Self { gpus, nics, numa, paths }
    }

    /// The path between two GPUs, by their positions in `gpus`; unknown where there is no such GPU.
    #[must_use]
    pub fn path(&self, a: usize, b: usize) -> Path {
        if a < self.gpus.len() && b < self.gpus.len() { self.cell(a, b) } else { Path::Unknown }
    }

    /// The path between a GPU and a NIC, by their positions in `gpus` and `nics`.
    #[must_use]
    pub fn path_to_nic(&self, gpu: usize, nic: usize) -> Path {
        if gpu < self.gpus.len() && nic < self.nics.len() {
            self.cell(gpu, self.gpus.len() + nic)
        } else {
            Path::Unknown
        }
    }

    /// The longest path between two of the GPUs; unknown as soon as one is. `None` for less than two GPUs.
    #[must_use]
    pub fn longest_path(&self) -> Option<Path> {
        let pairs = (0..self.gpus.len()).flat_map(|a| (0..a).map(move |b| self.path(a, b)));
        pairs.max_by_key(|path| path.distance().unwrap_or(u8::MAX))
    }

    /// Notes that NVLinks join two GPUs, by their positions in `gpus`: sysfs does not know of them, the driver does.
    pub fn set_nvlinks(&mut self, a: usize, b: usize, links: u32) {
        let size = self.gpus.len() + self.nics.len();
        if a != b && a < self.gpus.len() && b < self.gpus.len() {
            self.paths[a * size + b] = Path::Nvl(Some(links));
            self.paths[b * size + a] = Path::Nvl(Some(links));
        }
    }

    /// Position of the GPU at a bus address.
    #[must_use]
    pub fn gpu_at(&self, bus_id: BusId) -> Option<usize> {
        self.gpus.iter().position(|gpu| gpu.bus_id == Some(bus_id))
    }

    /// A cell of the square over GPUs, then NICs.
    pub(super) fn cell(&self, row: usize, column: usize) -> Path {
        let size = self.gpus.len() + self.nics.len();
        self.paths.get(row * size + column).copied().unwrap_or(Path::Unknown)
    }
}

impl Path {
    /// Rank among the paths, nearest first.
    #[must_use]
    pub fn distance(self) -> Option<u8> {
        Some(match self {
            Self::Loc => 0,
            Self::Nvl(_) => 1,
            Self::Pix => 2,
            Self::Pxb => 3,
            Self::Phb => 4,
            Self::Node => 5,
            Self::Sys => 6,
            Self::Unknown => return None,
        })
    }
}

impl Link {
    /// The widest link both ends allow; `None` while one end is unknown.
    #[must_use]
    pub fn width_possible(&self, slot: &Slot) -> Option<u8> {
        Some(self.max.width?.min(slot.max.width?))
    }

    /// The fastest generation both ends allow; `None` while one end is unknown.
    #[must_use]
    pub fn generation_possible(&self, slot: &Slot) -> Option<u8> {
        Some(self.max.generation?.min(slot.max.generation?))
    }

    /// Whether the link runs on fewer lanes than both ends allow: power saving never does that, dirt and bad risers do.
    #[must_use]
    pub fn is_narrow(&self, slot: &Slot) -> Option<bool> {
        Some(self.now.width? < self.width_possible(slot)?)
    }
}

impl Lanes {
    /// From sysfs's or NCCL's texts: a speed such as `16.0 GT/s PCIe`, a width such as `16`. Both may be unknown there.
    pub(super) fn read(speed: Option<&str>, width: Option<&str>) -> Self {
        let rate = speed.and_then(|speed| speed.split_whitespace().next()?.parse::<f64>().ok());
        let rates = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0];
        let generation = rate.and_then(|rate| rates.iter().position(|&known| known == rate)).map(|at| at as u8 + 1);
        // 0 and 255 are what hypervisors and failed reads leave; PCIe has no link wider than 32 lanes.
        let width = width.and_then(|width| width.trim().parse().ok()).filter(|width| (1..=32).contains(width));
        Self { generation, width }
    }
}

impl fmt::Display for Lanes {
    /// `Gen4 x16`, with `?` for what is unknown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |value: Option<u8>| value.map_or_else(|| "?".into(), |value| value.to_string());
        f.pad(&format!("Gen{} x{}", known(self.generation), known(self.width)))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loc => f.pad("X"),
            Self::Nvl(Some(links)) => f.pad(&format!("NV{links}")),
            Self::Nvl(None) => f.pad("NVL"),
            Self::Pix => f.pad("PIX"),
            Self::Pxb => f.pad("PXB"),
            Self::Phb => f.pad("PHB"),
            Self::Node => f.pad("NODE"),
            Self::Sys => f.pad("SYS"),
            Self::Unknown => f.pad("?"),
        }
    }
}

impl FromStr for Path {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "X" | "LOC" => Self::Loc,
            "NVL" => Self::Nvl(None),
            "PIX" => Self::Pix,
            "PXB" => Self::Pxb,
            "PHB" => Self::Phb,
            "NODE" => Self::Node,
            // `SOC` is what drivers before 375 wrote.
            "SYS" | "SOC" => Self::Sys,
            "?" | "N/A" => Self::Unknown,
            _ => match word.strip_prefix("NV").map(str::parse) {
                Some(Ok(links)) => Self::Nvl(Some(links)),
                _ => return Err(format!("`{word}` is no kind of path")),
            },
        })
    }
}

impl fmt::Display for BusId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function))
    }
}

impl FromStr for BusId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
            let hex = |digits: &str, limit: u32| {
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                u32::from_str_radix(digits, 16).ok().filter(|&value| plain && value <= limit)
            };
            Some(Self {
                domain: hex(domain, u32::MAX)?,
                bus: hex(bus, 0xff)? as u8,
                device: hex(device, 0x1f)? as u8,
                function: hex(function, 7)? as u8,
            })
        };
        parse().ok_or_else(|| format!("`{text}` is no PCI address"))
    }
}

/// Texts in files, by the forms above.
macro_rules! as_text {
    ($type:ty) => {
        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
    };
}

as_text!(Path);
as_text!(BusId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_the_forms_of_sysfs_and_nvidia_smi() {
        let expected = BusId { domain: 0, bus: 0x3b, device: 0, function: 0 };
        for text in ["0000:3b:00.0", "00000000:3B:00.0", "3b:00.0"] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert_eq!(expected.to_string(), "0000:3b:00.0");
        for text in ["fffffff:ff:ff.0", "0000:3b:00", "0000:+3b:00.0", "", "0000:3b:00.8"] {
            assert!(text.parse::<BusId>().is_err(), "{text}");
        }
    }

    #[test]
    fn lanes_nobody_can_have_are_unknown() {
        let lanes = |speed, width| Lanes::read(Some(speed), Some(width)).to_string();
        assert_eq!(lanes("16.0 GT/s PCIe", "16"), "Gen4 x16");
        assert_eq!(lanes("32 GT/s", "8\n"), "Gen5 x8");
        assert_eq!(lanes("Unknown speed", "255"), "Gen? x?");
        assert_eq!(lanes("", "0"), "Gen? x?");
        assert_eq!(Lanes::read(None, None), Lanes::default());
    }

    #[test]
    fn a_link_is_narrow_only_when_both_ends_allow_more() {
        let lanes = |width| Lanes { generation: Some(4), width: Some(width) };
        let link = Link { now: lanes(8), max: lanes(16) };
        let slot = |max| Slot { max, acs_redirect: None };
        assert_eq!(link.is_narrow(&slot(lanes(16))), Some(true));
        assert_eq!(link.is_narrow(&slot(lanes(8))), Some(false));
        assert_eq!(link.is_narrow(&slot(Lanes::default())), None);
    }

    #[test]
    fn nvlinks_are_noted_both_ways_and_between_gpus_only() {
        let nic = Nic { name: "mlx5_0".into() };
        let mut topology = Topology::new(vec![Gpu::default(); 2], vec![nic], vec![], |_, _| Path::Sys);
        for (a, b) in [(0, 1), (1, 1), (0, 2)] {
            topology.set_nvlinks(a, b, 18);
        }
        assert_eq!((topology.path(0, 1), topology.path(1, 0)), (Path::Nvl(Some(18)), Path::Nvl(Some(18))));
        assert_eq!((topology.path(1, 1), topology.path_to_nic(0, 0)), (Path::Loc, Path::Sys));
    }

    #[test]
    fn a_topology_survives_its_file() {
        let gpu = |index| Gpu { index, bus_id: format!("0000:0{index}:00.0").parse().ok(), ..Gpu::default() };
        let topology = Topology::new(vec![gpu(1), gpu(2), gpu(3)], vec![], vec![], |a, b| match (a, b) {
            (0, 1) => Path::Nvl(Some(4)),
            (0, 2) => Path::Unknown,
            _ => Path::Node,
        });
        let text = serde_json::to_string(&topology).unwrap();
        assert_eq!(serde_json::from_str::<Topology>(&text).unwrap(), topology);
        assert_eq!(
            (topology.path(2, 1), topology.path(1, 0), topology.path(0, 0)),
            (Path::Node, Path::Nvl(Some(4)), Path::Loc)
        );
        assert_eq!(topology.longest_path(), Some(Path::Unknown));
        assert_eq!(topology.path(0, 3), Path::Unknown);
    }
}
