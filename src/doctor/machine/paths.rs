//! PCIe links of GPUs and of the switches above them, access control (ACS), IOMMU.

use super::super::Status;
use super::{Check, no_gpu};
use crate::topology::{BusId, Device, Difference, Iommu, Kind, Lanes, Link, Machine, Slot, Topology};
use crate::units::plural;

pub(super) fn checks(topology: Option<&Topology>) -> Vec<Check> {
    let Some(topology) = topology.filter(|topology| !topology.gpus.is_empty()) else {
        return ["PCIe links", "P2P", "ACS", "IOMMU"].map(|name| Check::unknown(name, no_gpu(topology))).into();
    };
    let ways: Vec<Way> = topology.numa.iter().flat_map(|node| ways(&node.children)).collect();
    let mut checks = vec![links(topology, &ways)];
    checks.extend(p2p(topology));
    checks.extend([acs(topology, &ways), iommu(topology)]);
    checks.extend(differences(topology));
    checks
}

/// A GPU and the switches above it, from the root down.
struct Way<'a> {
    gpu: &'a Device,
    switches: Vec<&'a Device>,
}

fn ways(devices: &[Device]) -> Vec<Way<'_>> {
    let mut found = Vec::new();
    for device in devices {
        if matches!(device.kind, Kind::Gpu(_)) {
            found.push(Way { gpu: device, switches: Vec::new() });
        }
        for mut way in ways(&device.children) {
            if device.kind == Kind::Switch {
                way.switches.insert(0, device);
            }
            found.push(way);
        }
    }
    found
}

fn address(bus_id: Option<BusId>) -> String {
    bus_id.map_or_else(|| "?".to_owned(), |bus_id| bus_id.to_string())
}

fn links(topology: &Topology, ways: &[Way]) -> Check {
    // Links of which the same is to be said stand in one line.
    let mut said: Vec<(Status, &str, String, Vec<String>)> = Vec::new();
    let mut note = |what: &'static str, bus_id: Option<BusId>, (status, text): (Status, String)| match said
        .iter_mut()
        .find(|of| (of.0, of.1, &of.2) == (status, what, &text))
    {
        Some((.., places)) => places.push(address(bus_id)),
        None => said.push((status, what, text, vec![address(bus_id)])),
    };
    for (at, gpu) in topology.gpus.iter().enumerate() {
        note("GPU", gpu.bus_id, link(topology.link(at), topology.slot(at), topology.loaded_link(at)));
    }
    let mut seen: Vec<Option<BusId>> = Vec::new();
    for switch in ways.iter().flat_map(|way| &way.switches) {
        if !seen.contains(&switch.bus_id) {
            seen.push(switch.bus_id);
            note("switch", switch.bus_id, link(switch.link, switch.slot, None));
        }
    }
    let line = |(status, what, text, places): (_, &str, String, Vec<String>)| {
        (status, format!("{what} {}: {text}", places.join(", ")))
    };
    let check = Check::worst("PCIe links", said.into_iter().map(line).collect(), "no GPU");
    match check.status {
        Status::Fault => check.next(
            "put the card into a slot of all its lanes; else reseat it, look at riser and cable, and at the BIOS for bifurcation",
        ),
        Status::Warning => check.next("a slower slot or a BIOS limit: look for the link speed in the BIOS"),
        Status::Unknown => check.next("a virtual machine hides the links; look on its host"),
        Status::Ok => check,
    }
}

/// One link: a width below the device's own is a fault, as power saving lowers the speed alone.
fn link(link: Link, slot: Slot, loaded: Option<Lanes>) -> (Status, String) {
    let (now, max, slot) = (link.now, link.max, slot.max);
    match (now.width, max.width) {
        (Some(width), Some(most)) if width < most => {
            let why = match slot.width {
                Some(lanes) if lanes < most => format!(": its slot has {}", plural(lanes.into(), "lane")),
                Some(_) => ": its slot has all of them".to_owned(),
                None => String::new(),
            };
            (Status::Fault, format!("runs on x{width} of x{most}{why}"))
        }
        (Some(_), Some(_)) => speed(now, max, slot, loaded.unwrap_or_default()),
        _ => (Status::Unknown, format!("{now}, at most {max}")),
    }
}

/// The speed of a link of full width. Idle devices lower theirs, which is no fault; under load it is one.
fn speed(now: Lanes, max: Lanes, slot: Lanes, loaded: Lanes) -> (Status, String) {
    let possible = [max.generation, slot.generation].into_iter().flatten().min();
    match (possible, loaded.generation) {
        (Some(possible), Some(generation)) if generation < possible => {
            (Status::Fault, format!("runs at Gen{generation} under load, of Gen{possible}"))
        }
        (Some(possible), _) if max.generation > Some(possible) => {
            let most = max.generation.unwrap_or_default();
            (Status::Warning, format!("{now}: its slot allows Gen{possible} of Gen{most}"))
        }
        (_, Some(_)) => (Status::Ok, format!("{} under load", loaded.or(now))),
        (Some(possible), None) if now.generation < Some(possible) => {
            (Status::Ok, format!("{now}, up to Gen{possible} under load"))
        }
        _ => (Status::Ok, now.to_string()),
    }
}

/// What the driver allows between two GPUs: that it works is for a collective with checked data to show.
fn p2p(topology: &Topology) -> Option<Check> {
    let name = "P2P";
    let gpus = topology.gpus.len();
    if gpus < 2 {
        return None;
    }
    if !topology.knows_p2p() {
        return Some(Check::unknown(name, "the driver does not tell what it allows"));
    }
    let pairs: Vec<_> =
        (0..gpus).flat_map(|from| (0..gpus).map(move |to| (from, to))).filter(|(a, b)| a != b).collect();
    let refused: Vec<_> =
        pairs.iter().filter(|(from, to)| topology.p2p(*from, *to).is_allowed() == Some(false)).collect();
    let Some((from, to)) = refused.first() else {
        return Some(Check::ok(name, format!("the driver allows it between all {} ordered pairs", pairs.len())));
    };
    let (p2p, [a, b]) = (topology.p2p(*from, *to), [*from, *to].map(|gpu| address(topology.gpus[gpu].bus_id)));
    let check =
        Check::warning(name, format!("the driver does not allow {} of {} ordered pairs", refused.len(), pairs.len()));
    Some(check.also([format!("{a} → {b}: read {}, write {}", p2p.read, p2p.write)]).next(
        "such pairs go through host memory, whatever NCCL_P2P_LEVEL says; `ncclsweep topo` shows all, CNS is the chipset, GNS the GPU",
    ))
}

/// What kernel and driver tell differently of the box.
fn differences(topology: &Topology) -> Option<Check> {
    let shown = |of: &Difference| format!("{}: kernel {}, driver {}", of.of, of.kernel, of.driver);
    let shown: Vec<_> = topology.differences.iter().map(shown).collect();
    let (first, others) = shown.split_first()?;
    let status = match topology.differences.iter().any(|of| of.of.starts_with("presence")) {
        true => Status::Warning,
        // Virtual machines hide what the driver knows.
        false => Status::Unknown,
    };
    let check = Check::new("kernel and driver", status, first.clone()).also(others.iter().cloned());
    Some(check.next("they tell it differently: `ncclsweep topo` shows what each says"))
}

fn acs(topology: &Topology, ways: &[Way]) -> Check {
    let name = "ACS";
    let ports = ways.iter().flat_map(|way| way.switches.iter().chain([&way.gpu]));
    let ports: Vec<_> = ports.map(|device| (device.bus_id, device.slot.acs_redirect)).collect();
    let redirecting: Vec<String> =
        ports.iter().filter(|(_, redirect)| *redirect == Some(true)).map(|(bus_id, _)| address(*bus_id)).collect();
    match () {
        () if !redirecting.is_empty() && topology.gpus.len() > 1 => Check::warning(
            name,
            format!("ports above {} send peer-to-peer traffic up to the root", redirecting.join(", ")),
        )
        .next("P2P is slower so, and on some boxes hangs or corrupts: switch ACS off in the BIOS, or with setpci on each bridge"),
        () if ports.is_empty() || ports.iter().any(|(_, redirect)| redirect.is_none()) => {
            Check::unknown(name, "the ports' configuration cannot be read").next("run it as root; a virtual machine hides it")
        }
        () => Check::ok(name, "no port above a GPU redirects peer-to-peer traffic"),
    }
}

fn iommu(topology: &Topology) -> Check {
    let name = "IOMMU";
    let guest = matches!(topology.host.machine, Machine::Virtual(_));
    match topology.host.iommu {
        Iommu::Translating => Check::warning(name, "on, and it translates the GPUs' addresses").next(
            "boot with iommu=pt or switch it off in the BIOS: translated P2P is slower, and on some boxes hangs or corrupts",
        ),
        Iommu::Passthrough => Check::ok(name, "on, and lets the GPUs' addresses through"),
        Iommu::Off if guest => Check::unknown(name, "off as far as a virtual machine sees; look on its host"),
        Iommu::Off => Check::ok(name, "off"),
        Iommu::On => Check::unknown(name, "on; what it does with the GPUs is not told"),
        Iommu::Unknown => super::hidden(name, "/sys/class/iommu"),
    }
}
