//! Which rank runs on which GPU of a [`Topology`].

use super::address::BusId;
use super::model::{Gpu, Topology};

impl Topology {
    /// Notes the numbers CUDA gives the GPUs: position in the list, at these addresses.
    #[must_use]
    pub fn with_ordinals(mut self, cuda: impl IntoIterator<Item = (u32, BusId)>) -> Self {
        for (ordinal, bus_id) in cuda {
            match self.gpu_at(bus_id) {
                Some(at) => self.gpus[at].ordinal = Some(ordinal),
                None => {
                    self = self.with_unknown(Gpu { bus_id: Some(bus_id), ordinal: Some(ordinal), ..Gpu::default() })
                }
            }
        }
        self
    }

    /// Puts the GPUs with these CUDA numbers first, in this order, and lets `ranks` ranks run on them in turn.
    #[must_use]
    pub fn with_ranks(mut self, ordinals: &[u32], ranks: u32) -> Self {
        let at = |ordinal: &u32| self.gpus.iter().position(|gpu| gpu.ordinal == Some(*ordinal));
        let used: Vec<usize> = ordinals.iter().filter_map(at).collect();
        let others = (0..self.gpus.len()).filter(|at| !used.contains(at));
        let order: Vec<usize> = used.iter().copied().chain(others).collect();
        self = self.reordered(&order);
        for gpu in &mut self.gpus {
            gpu.ranks.clear();
        }
        for rank in 0..ranks {
            let ordinal = ordinals.get(rank as usize % ordinals.len().max(1));
            let gpu = self.gpus.iter_mut().find(|gpu| ordinal.is_some() && gpu.ordinal.as_ref() == ordinal);
            gpu.into_iter().for_each(|gpu| gpu.ranks.push(rank));
        }
        self
    }

    /// The box with a GPU of which nothing else is known.
    fn with_unknown(self, gpu: Gpu) -> Self {
        let (old, count) = (self.gpus.len(), self.gpus.len() + 1);
        let gpu = Gpu { index: old as u32, ..gpu };
        let place = |at: usize| if at < old { Some(at) } else { at.checked_sub(count).map(|nic| old + nic) };
        let path = |a: usize, b: usize| match (place(a), place(b)) {
            (Some(a), Some(b)) => self.cell(a, b),
            _ => super::path::Path::Unknown,
        };
        let gpus = self.gpus.iter().cloned().chain([gpu]).collect();
        let mut new = Self::new(gpus, self.nics.clone(), self.numa.clone(), path);
        if self.knows_p2p() {
            new.set_p2p(|a, b| self.p2p(a, b));
        }
        new.host = self.host;
        new.differences = self.differences;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Path, parse_xml};

    fn switches() -> Topology {
        parse_xml("switches.xml", include_str!("../../tests/data/topology/switches.xml")).unwrap()
    }

    fn ordinals(topology: &Topology) -> Vec<(u32, BusId)> {
        (0..).zip(topology.gpus.iter().filter_map(|gpu| gpu.bus_id)).collect()
    }

    #[test]
    fn gpus_of_a_run_come_first_in_the_order_of_their_ranks() {
        let topology = switches();
        let cuda = ordinals(&topology);
        let ranked = topology.clone().with_ordinals(cuda).with_ranks(&[4, 1], 4);
        assert_eq!(ranked.gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [4, 1, 0, 2, 3]);
        assert_eq!((ranked.gpus[0].ranks.clone(), ranked.gpus[1].ranks.clone()), (vec![0, 2], vec![1, 3]));
        assert!(ranked.gpus[2..].iter().all(|gpu| gpu.ranks.is_empty()));
        assert_eq!((ranked.path(1, 2), ranked.path(0, 1)), (topology.path(1, 0), topology.path(4, 1)));
        assert_eq!(ranked.path_to_nic(3, 0), topology.path_to_nic(2, 0));
        assert_eq!(ranked.device(0).unwrap().bus_id, topology.gpus[4].bus_id);
    }

    #[test]
    fn a_gpu_that_only_cuda_knows_is_there_with_unknown_paths() {
        let nowhere = BusId { domain: 9, bus: 9, device: 0, function: 0 };
        let topology = switches().with_ordinals([(0, nowhere)]).with_ranks(&[0], 1);
        assert_eq!((topology.gpus.len(), topology.gpus[0].bus_id), (6, Some(nowhere)));
        assert_eq!((topology.path(0, 1), topology.path_to_nic(0, 0)), (Path::Unknown, Path::Unknown));
        assert_eq!(topology.path_to_nic(3, 0), switches().path_to_nic(2, 0));
        let alone = Topology::default().with_ordinals([(0, nowhere)]);
        assert_eq!(alone.gpus.len(), 1);
    }
}
