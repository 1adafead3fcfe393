//! What kind of machine it is, CPU governor, NUMA.

use std::collections::BTreeMap;

use super::super::files::{Root, field};
use super::{Check, hidden};
use crate::topology::{CpuList, Machine, Topology};
use crate::units::plural;

/// Bare metal, a virtual machine, a container.
pub(super) fn machine(root: Root, topology: Option<&Topology>) -> Check {
    let name = "machine";
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let model = field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "Processor")).unwrap_or("CPU not told");
    let kernel = root.text("proc/sys/kernel/osrelease").unwrap_or_else(|| "not told".to_owned());
    let product = ["sys_vendor", "product_name"].map(|file| root.text(&format!("sys/class/dmi/id/{file}")));
    let product = product.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut evidence = vec![format!("kernel {kernel}"), model.to_owned()];
    if !product.is_empty() {
        evidence.insert(0, product);
    }
    let mut check = Check::ok(name, evidence.join(" · "));
    let Some(host) = topology.map(|topology| &topology.host) else { return check };
    match &host.machine {
        Machine::Unknown => {}
        Machine::Bare => check.evidence.push("bare metal".to_owned()),
        guest => check.evidence.push(format!("{guest}: PCIe tree, ACS and IOMMU are the hypervisor's to tell")),
    }
    let container = host.container.as_ref();
    check
        .evidence
        .extend(container.map(|of| format!("container ({of}): /dev/shm, limits and visible GPUs are its own")));
    check
}

pub(super) fn checks(root: Root, topology: Option<&Topology>) -> Vec<Check> {
    let mut checks = vec![governor(root), numa(root, topology)];
    checks.extend(balancing(root));
    checks
}

fn governor(root: Root) -> Check {
    let name = "CPU governor";
    let folder = "sys/devices/system/cpu";
    let cpus = root.names(folder).unwrap_or_default().into_iter().filter(|name| {
        name.strip_prefix("cpu").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    });
    let read = |cpu: String| root.text(&format!("{folder}/{cpu}/cpufreq/scaling_governor"));
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for governor in cpus.filter_map(read) {
        match kinds.iter_mut().find(|(known, _)| *known == governor) {
            Some((_, count)) => *count += 1,
            None => kinds.push((governor, 1)),
        }
    }
    if kinds.is_empty() {
        return hidden(name, "scaling_governor");
    }
    let shown: Vec<_> =
        kinds.iter().map(|(governor, count)| format!("{governor} on {}", plural(*count, "CPU"))).collect();
    let shown = shown.join(", ");
    if kinds.iter().all(|(governor, _)| governor == "performance") {
        return Check::ok(name, shown);
    }
    Check::warning(name, shown)
        .next("launches are the CPU's work, and small collectives wait for it: `cpupower frequency-set -g performance`")
}

/// Whether this process, and so what it starts, may run on the CPUs near every GPU.
fn numa(root: Root, topology: Option<&Topology>) -> Check {
    let name = "NUMA binding";
    let Some(nodes) = root.text("sys/devices/system/node/online").and_then(|text| list(&text)) else {
        return hidden(name, "/sys/devices/system/node");
    };
    let status = root.text("proc/self/status").unwrap_or_default();
    let (cpus, memory) = (field(&status, "Cpus_allowed_list"), field(&status, "Mems_allowed_list"));
    let shown = format!(
        "{}; this process may use CPUs {} and the memory of {}",
        plural(nodes.iter().count(), "node"),
        cpus.unwrap_or("?"),
        memory.unwrap_or("?")
    );
    let allowed = cpus.and_then(list);
    let gpus = topology.map(|topology| topology.gpus.as_slice()).unwrap_or_default();
    let (mut far, mut nodes_of) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for gpu in gpus {
        let address = gpu.bus_id.map_or_else(|| gpu.index.to_string(), |bus_id| bus_id.to_string());
        let near = gpu.cpus.as_deref().and_then(list);
        if let (Some(near), Some(allowed)) = (near, &allowed)
            && !near.iter().any(|cpu| allowed.contains(cpu))
        {
            far.push(address.clone());
        }
        let node = gpu.numa.map_or_else(|| "?".to_owned(), |node| node.to_string());
        nodes_of.entry(node).or_default().push(address);
    }
    let placed = nodes_of.iter().map(|(node, gpus)| format!("node {node}: GPU {}", gpus.join(", ")));
    let placed: Vec<_> = placed.collect();
    match () {
        () if !far.is_empty() => {
            Check::warning(name, shown).also(placed).also([format!("no CPU near GPU {} may be used", far.join(", "))]).next(
                "a binding of the shell, service or container keeps this process away: taskset, numactl, CPUAffinity=, --cpuset-cpus",
            )
        }
        () if gpus.iter().any(|gpu| gpu.numa.is_none()) && nodes.iter().count() > 1 => {
            Check::unknown(name, shown).also(placed).next("sysfs does not tell the node of a GPU: look in the BIOS or on the VM's host")
        }
        () => Check::ok(name, shown).also(placed),
    }
}

fn list(text: &str) -> Option<CpuList> {
    text.parse().ok()
}

/// Automatic NUMA balancing moves pages that a transfer is using.
fn balancing(root: Root) -> Option<Check> {
    let name = "NUMA balancing";
    let nodes = root.text("sys/devices/system/node/online").and_then(|text| list(&text))?;
    match root.text("proc/sys/kernel/numa_balancing")?.as_str() {
        "0" => Some(Check::ok(name, "off")),
        _ if nodes.iter().count() < 2 => None,
        on => Some(
            Check::warning(
                name,
                format!("kernel.numa_balancing={on}: the kernel moves pages between nodes as it goes"),
            )
            .next("`sysctl kernel.numa_balancing=0` takes its pauses out of the tail"),
        ),
    }
}
