//! How the box is wired: what the kernel shows, with what the probe heard from the driver.

use std::path::{Path, PathBuf};

use super::private::Private;
use crate::topology::{self, Host, Topology};
use crate::wire::Probe;

/// Where the kernel shows the box.
#[must_use]
pub fn root(private: &Private, emulated: bool) -> PathBuf {
    if emulated { private.root() } else { PathBuf::from("/") }
}

/// The box below `root`, with what `probe` heard. There is always an answer: what neither tells is unknown.
#[must_use]
pub fn topology(root: &Path, probe: &Probe) -> Topology {
    let gpus = probe.cuda.as_ref().map(|(_, gpus)| gpus.as_slice()).unwrap_or_default();
    let cuda = gpus.iter().filter_map(|gpu| Some((gpu.ordinal, gpu.bus_id()?)));
    topology::merge(kernel(root), &probe.wiring).with_ordinals(cuda)
}

/// What the kernel alone shows; a container without `/sys` shows little.
#[must_use]
pub fn kernel(root: &Path) -> Topology {
    topology::probe(root).unwrap_or_else(|_| {
        let mut nothing = Topology::default();
        nothing.host = Host::read(root, &[]);
        nothing
    })
}
