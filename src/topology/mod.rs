//! How the GPUs of a box are wired: a [`Topology`] from sysfs and the driver, from NCCL's dump, or from `nvidia-smi topo -m`.
//!
//! A virtual machine or a container hides much of it. What a source does not tell is `None` or [`Path::Unknown`], shown as
//! `?`: never 0, and never a guess.

mod address;
mod config_space;
mod cpus;
mod draw;
mod driver;
mod graphs;
mod host;
mod link;
mod merge;
mod model;
mod nvidia_smi;
mod path;
mod probe;
mod ranks;
mod tree;
mod xml;

pub use address::BusId;
pub use cpus::CpuList;
pub use draw::{boxes, dot, matrix, p2p, svg, tree};
pub use driver::{Driver, DriverPair, GpuFacts, P2p, Peering};
pub use graphs::{Graph, Purpose, parse as parse_graphs};
pub use host::{Host, Iommu, Machine};
pub use link::{Lanes, Link, Slot};
pub use merge::merge;
pub use model::{Device, Difference, Gpu, Kind, Nic, NumaNode, Topology};
pub use nvidia_smi::parse as parse_nvidia_smi;
pub use path::Path;
pub use probe::probe;
pub use xml::parse as parse_xml;

/// Types whose texts in files are those they are printed and read as.
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
use as_text;
