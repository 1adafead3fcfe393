//! How the GPUs of a box are wired: a [`Topology`] from NCCL's dump, from `nvidia-smi topo -m`, or from sysfs.
//!
//! A virtual machine or a container hides much of it. What a source does not tell is `None` or [`Path::Unknown`], shown as
//! `?`: never 0, and never a guess.

mod config_space;
mod draw;
mod model;
mod nvidia_smi;
mod probe;
mod tree;
mod xml;

pub use draw::{matrix, tree};
pub use model::{BusId, Device, Gpu, Kind, Lanes, Link, Nic, NumaNode, Path, Slot, Topology};
pub use nvidia_smi::parse as parse_nvidia_smi;
pub use probe::probe;
pub use xml::parse as parse_xml;
