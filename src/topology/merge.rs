//! [`merge`]: one [`Topology`] from what the kernel and the driver tell of the same box.

use super::driver::{Driver, DriverPair};
use super::model::{Difference, Gpu, Topology};
use super::path::Path;

/// The box as `kernel` (sysfs) shows it, with what the driver adds. Either may be all there is.
///
/// GPUs get the driver's numbers. Paths over PCIe are the kernel's where it tells them, NVLinks the driver's; what the two
/// tell differently is noted, not settled.
#[must_use]
pub fn merge(kernel: Topology, driver: &Driver) -> Topology {
    let mut gpus: Vec<Merged> =
        driver.gpus.iter().enumerate().map(|(at, _)| Merged::of_driver(&kernel, driver, at)).collect();
    for (at, gpu) in kernel.gpus.iter().enumerate() {
        // Bound to another driver, handed through to a guest, or off the bus for the driver only.
        if !gpus.iter().any(|known| known.kernel == Some(at)) {
            let index = gpus.len() as u32;
            gpus.push(Merged { gpu: Gpu { index, ..gpu.clone() }, kernel: Some(at), driver: None });
        }
    }
    let mut differences: Vec<Difference> = gpus.iter().flat_map(|gpu| gpu.differences(&kernel, driver)).collect();
    let pair = |a: usize, b: usize| {
        let (from, to) = (gpus.get(a)?.driver?, gpus.get(b)?.driver?);
        driver.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to))
    };
    let gpu_count = gpus.len();
    let of_kernel = |at: usize| match gpus.get(at) {
        Some(gpu) => gpu.kernel,
        None => Some(kernel.gpus.len() + (at - gpu_count)),
    };
    let kernels = |a: usize, b: usize| match (of_kernel(a), of_kernel(b)) {
        (Some(a), Some(b)) => kernel.cell(a, b),
        _ => Path::Unknown,
    };
    for (a, b) in (0..gpu_count).flat_map(|b| (0..b).map(move |a| (a, b))) {
        let told = pair(a, b).map_or(Path::Unknown, |pair| pair.path);
        let (kernel, driver) = (kernels(a, b), told);
        let both = kernel.distance().is_some() && driver.distance().is_some();
        if both && kernel != driver && !matches!(driver, Path::Nvl(_)) {
            let of = format!("path {} – {}", gpus[a].name(), gpus[b].name());
            differences.push(Difference { of, kernel: kernel.to_string(), driver: driver.to_string() });
        }
    }
    let path = |a: usize, b: usize| {
        let told = pair(a, b).map_or(Path::Unknown, |pair| pair.path);
        match (kernels(a, b), told) {
            (_, nvlink @ Path::Nvl(_)) => nvlink,
            (Path::Unknown, told) => told,
            (kernel, _) => kernel,
        }
    };
    let nodes = gpus.iter().map(|merged| merged.gpu.clone()).collect();
    let mut merged = Topology::new(nodes, kernel.nics.clone(), kernel.numa.clone(), path);
    let place = |was: usize| gpus.iter().position(|gpu| gpu.kernel == Some(was)).unwrap_or(was);
    merged.numa.iter_mut().flat_map(|node| &mut node.children).for_each(|device| device.renumber(&place));
    if !driver.pairs.is_empty() || driver.gpus.len() == 1 {
        merged.set_p2p(|a, b| pair(a, b).map(|pair: &DriverPair| pair.p2p).unwrap_or_default());
    }
    merged.host = kernel.host.clone();
    merged.differences = differences;
    merged
}

/// A GPU and its positions in both sources.
struct Merged {
    gpu: Gpu,
    kernel: Option<usize>,
    driver: Option<usize>,
}

impl Merged {
    fn of_driver(kernel: &Topology, driver: &Driver, at: usize) -> Self {
        let (bus_id, facts) = &driver.gpus[at];
        let place = kernel.gpu_at(*bus_id);
        let seen = place.and_then(|place| kernel.gpus.get(place)).cloned().unwrap_or_default();
        let gpu = Gpu {
            index: at as u32,
            bus_id: Some(*bus_id),
            numa: seen.numa.or(facts.numa),
            cpus: seen.cpus.or_else(|| facts.cpus.clone()),
            driver: Some(facts.clone()),
            ..Gpu::default()
        };
        Self { gpu, kernel: place, driver: Some(at) }
    }

    fn name(&self) -> String {
        self.gpu.bus_id.map_or_else(|| format!("GPU{}", self.gpu.index), |bus_id| bus_id.to_string())
    }

    /// What the sources tell differently of this GPU.
    fn differences(&self, kernel: &Topology, driver: &Driver) -> Vec<Difference> {
        let seen = self.kernel.and_then(|at| kernel.gpus.get(at));
        let facts = self.driver.map(|at| &driver.gpus[at].1);
        let name = self.name();
        let number = |number: Option<u32>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        let mut differences = Vec::new();
        let mut note = |what: &str, kernel: String, driver: String| {
            let of = format!("{what} of {name}");
            differences.push(Difference { of, kernel, driver });
        };
        match (seen, facts) {
            (Some(seen), Some(facts)) => {
                if facts.numa.is_some() && seen.numa != facts.numa {
                    note("NUMA node", number(seen.numa), number(facts.numa));
                }
                let width = self.kernel.and_then(|at| kernel.link(at).now.width);
                let told = facts.link.now.width;
                if width.is_some() && told.is_some() && width != told {
                    note("link width", number(width.map(u32::from)), number(told.map(u32::from)));
                }
            }
            (Some(_), None) => note("presence", "there".to_owned(), "not one of its GPUs".to_owned()),
            // Containers often show no sysfs entries at all; then nothing is missing.
            (None, Some(_)) if !kernel.gpus.is_empty() => {
                note("presence", "no such device".to_owned(), "there".to_owned())
            }
            (None, _) => {}
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{BusId, GpuFacts, Lanes, Link, P2p, Peering};

    fn bus(bus: u8) -> BusId {
        BusId { domain: 0, bus, device: 0, function: 0 }
    }

    fn kernel(buses: &[u8], path: Path) -> Topology {
        let gpu = |(index, at): (usize, &u8)| Gpu {
            index: index as u32,
            bus_id: Some(bus(*at)),
            numa: Some(0),
            ..Gpu::default()
        };
        Topology::new(buses.iter().enumerate().map(gpu).collect(), vec![], vec![], |_, _| path)
    }

    fn driver(buses: &[u8], path: Path) -> Driver {
        let facts = GpuFacts { name: Some("GPU".into()), numa: Some(0), ..GpuFacts::default() };
        let p2p = P2p { read: Peering::Supported, write: Peering::Supported, ..P2p::default() };
        let ordered = (0..buses.len()).flat_map(|from| (0..buses.len()).map(move |to| (from, to)));
        let pairs =
            ordered.filter(|(from, to)| from != to).map(|(from, to)| DriverPair { from, to, path, p2p }).collect();
        Driver { gpus: buses.iter().map(|at| (bus(*at), facts.clone())).collect(), pairs }
    }

    #[test]
    fn a_box_both_know_has_the_kernels_paths_and_the_drivers_facts() {
        let merged = merge(kernel(&[1, 2], Path::Phb), &driver(&[1, 2], Path::Phb));
        assert_eq!((merged.path(0, 1), merged.p2p(0, 1).is_allowed()), (Path::Phb, Some(true)));
        assert_eq!(merged.gpus[1].driver.as_ref().unwrap().name.as_deref(), Some("GPU"));
        assert!(merged.differences.is_empty(), "{:?}", merged.differences);
    }

    #[test]
    fn nvlinks_are_the_drivers_and_no_difference() {
        let merged = merge(kernel(&[1, 2], Path::Node), &driver(&[1, 2], Path::Nvl(Some(18))));
        assert_eq!((merged.path(0, 1), merged.differences.len()), (Path::Nvl(Some(18)), 0));
    }

    #[test]
    fn without_sysfs_the_driver_alone_tells() {
        let merged = merge(Topology::default(), &driver(&[1, 2], Path::Sys));
        assert_eq!((merged.gpus.len(), merged.path(0, 1), merged.differences.len()), (2, Path::Sys, 0));
        assert_eq!(merged.gpus[0].numa, Some(0));
    }

    #[test]
    fn without_a_driver_the_kernel_alone_tells() {
        let merged = merge(kernel(&[1, 2], Path::Pix), &Driver::default());
        assert_eq!((merged.gpus.len(), merged.path(0, 1), merged.knows_p2p()), (2, Path::Pix, false));
        assert_eq!(merged.p2p(0, 1).is_allowed(), None);
    }

    #[test]
    fn what_the_two_tell_differently_is_noted_by_address() {
        let mut told = driver(&[1, 2], Path::Sys);
        told.gpus[1].1.numa = Some(1);
        told.gpus[1].1.link.now.width = Some(8);
        let mut seen = kernel(&[1, 2, 3], Path::Phb);
        let lanes = Lanes { generation: None, width: Some(16) };
        let device = crate::topology::Device {
            kind: crate::topology::Kind::Gpu(1),
            bus_id: Some(bus(2)),
            link: Link { now: lanes, max: lanes },
            slot: Default::default(),
            iommu_group: None,
            children: vec![],
        };
        seen.numa.push(crate::topology::NumaNode { children: vec![device], ..Default::default() });
        let merged = merge(seen, &told);
        let shown: Vec<_> =
            merged.differences.iter().map(|d| format!("{}: {} / {}", d.of, d.kernel, d.driver)).collect();
        assert_eq!(
            shown,
            [
                "NUMA node of 0000:02:00.0: 0 / 1",
                "link width of 0000:02:00.0: 16 / 8",
                "presence of 0000:03:00.0: there / not one of its GPUs",
                "path 0000:01:00.0 – 0000:02:00.0: PHB / SYS",
            ]
        );
        assert_eq!((merged.gpus.len(), merged.gpus[2].index, merged.path(0, 2)), (3, 2, Path::Phb));
    }
}
