//! The [`Path`] between devices of a PCIe tree: what the lowest node above both of them is.

use super::model::{Device, Kind, NumaNode};
use super::path::Path;

/// Where the GPUs and NICs of a tree hang.
pub(super) struct Places {
    gpus: Vec<Option<Place>>,
    nics: Vec<Option<Place>>,
}

/// The nodes above a device, from the NUMA node down.
#[derive(Clone)]
struct Place(Vec<Above>);

#[derive(Clone, PartialEq)]
struct Above {
    number: usize,
    layer: Layer,
}

#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Numa(Option<u32>),
    HostBridge,
    Switch,
}

impl Places {
    /// Places in the tree `numa` of so many GPUs and NICs.
    pub(super) fn of(numa: &[NumaNode], gpus: usize, nics: usize) -> Self {
        let mut places = Self { gpus: vec![None; gpus], nics: vec![None; nics] };
        let mut next = 0..;
        let mut number = || next.next().unwrap_or_default();
        for node in numa {
            let above = Place(vec![Above { number: number(), layer: Layer::Numa(node.id) }]);
            node.children.iter().for_each(|child| places.enter(child, &above, &mut number));
        }
        places
    }

    fn enter(&mut self, device: &Device, above: &Place, number: &mut impl FnMut() -> usize) {
        let layer = match &device.kind {
            Kind::HostBridge => Layer::HostBridge,
            Kind::Switch | Kind::Other => Layer::Switch,
            Kind::Gpu(gpu) => return set(&mut self.gpus, *gpu, above),
            Kind::Nic(nics) => return nics.iter().for_each(|nic| set(&mut self.nics, *nic, above)),
        };
        let mut below = above.clone();
        below.0.push(Above { number: number(), layer });
        device.children.iter().for_each(|child| self.enter(child, &below, number));
    }

    /// The path over PCIe between two positions among the GPUs followed by the NICs.
    pub(super) fn path(&self, a: usize, b: usize) -> Path {
        let place = |at: usize| match at.checked_sub(self.gpus.len()) {
            None => self.gpus.get(at),
            Some(nic) => self.nics.get(nic),
        };
        match (place(a).and_then(Option::as_ref), place(b).and_then(Option::as_ref)) {
            (Some(a), Some(b)) => a.path(b),
            _ => Path::Unknown,
        }
    }
}

fn set(places: &mut [Option<Place>], at: usize, above: &Place) {
    if let Some(place) = places.get_mut(at) {
        *place = Some(above.clone());
    }
}

impl Place {
    fn path(&self, other: &Self) -> Path {
        let common = self.0.iter().zip(&other.0).take_while(|(a, b)| a == b).count();
        let Some(meeting) = common.checked_sub(1).and_then(|last| self.0.get(last)) else {
            return if self.numa().and(other.numa()).is_some() { Path::Sys } else { Path::Unknown };
        };
        let direct = self.0.len() == common && other.0.len() == common;
        let below_host_bridges = [self, other].iter().any(|place| place.0.iter().any(|a| a.layer == Layer::HostBridge));
        match meeting.layer {
            Layer::Switch if direct => Path::Pix,
            Layer::Switch => Path::Pxb,
            Layer::HostBridge => Path::Phb,
            // NCCL's dump has no host bridges; NCCL takes all of a node for one.
            Layer::Numa(_) if !below_host_bridges => Path::Phb,
            Layer::Numa(Some(_)) => Path::Node,
            Layer::Numa(None) => Path::Unknown,
        }
    }

    fn numa(&self) -> Option<u32> {
        match self.0.first()?.layer {
            Layer::Numa(id) => id,
            Layer::HostBridge | Layer::Switch => None,
        }
    }
}
