//! The driver, and the GPUs it gives.

use super::super::files::Root;
use super::{Answer, Check, Cuda, Facts, Gpu};
use crate::topology::Topology;
use crate::units::plural;

const START: &str =
    "in a container start it with the GPUs (`--gpus all`); else `nvidia-smi` and `dmesg | grep -i nvrm` tell more";

/// Where the driver shows instances of GPUs.
const CAPABILITIES: &str = "/proc/driver/nvidia/capabilities";
/// From this load on, in percent, a GPU without a process is wedged.
const BUSY: u32 = 95;

pub(super) fn checks(root: Root, facts: &Facts, topology: Option<&Topology>) -> Vec<Check> {
    let on_bus = topology.map_or(0, |topology| topology.gpus.len());
    // The module of this machine says nothing of an emulated box.
    let module = if facts.emulated.is_some() { None } else { module(root) };
    let expected = module.is_some() || on_bus > 0;
    let mut checks = vec![driver(module.as_deref(), facts, on_bus), cuda(facts, expected), uvm(root, on_bus)];
    if let Answer::Told(cuda) = &facts.cuda {
        checks.extend([gpus(cuda, facts, on_bus), order(cuda, facts)]);
    }
    checks.extend(busy(facts));
    checks.push(mig(root, topology));
    checks
}

/// Version of the kernel module that is loaded.
fn module(root: Root) -> Option<String> {
    let own = root.text("sys/module/nvidia/version");
    own.or_else(|| {
        let text = root.text("proc/driver/nvidia/version")?;
        let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
        let version = |word: &&str| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        line.split_whitespace().find(version).map(str::to_owned)
    })
}

fn driver(module: Option<&str>, facts: &Facts, on_bus: usize) -> Check {
    let name = "driver";
    match (module, &facts.management) {
        (Some(module), Answer::Told(of)) if of.driver != module => {
            Check::fault(name, format!("the kernel module is {module}, its libraries are {}", of.driver))
                .next("reboot, or unload the module and load the new one; in a container restart it")
        }
        (Some(module), Answer::Refused(why)) => {
            Check::fault(name, format!("{module} is loaded, but {why}")).next(START)
        }
        (Some(module), _) => Check::ok(name, module),
        (None, Answer::Told(of)) => Check::ok(name, of.driver.clone()),
        (None, _) if on_bus > 0 => {
            Check::fault(name, format!("{} on the bus, but no NVIDIA driver is loaded", plural(on_bus, "GPU")))
                .next("`modprobe nvidia`; after a kernel update the module may have to be built again (`dkms status`)")
        }
        (None, _) => Check::unknown(name, "no NVIDIA driver is loaded"),
    }
}

fn cuda(facts: &Facts, expected: bool) -> Check {
    let name = "CUDA";
    match &facts.cuda {
        Answer::NotAsked => Check::unknown(name, "the driver was not asked"),
        Answer::Refused(why) if expected => Check::fault(name, why.clone()).next(START),
        Answer::Refused(why) => Check::unknown(name, why.clone()),
        Answer::Told(cuda) if cuda.gpus.is_empty() => Check::fault(name, "the driver gives no GPU").next(START),
        Answer::Told(cuda) => Check::ok(name, format!("the driver supports {}", cuda.version)),
    }
}

fn gpus(cuda: &Cuda, facts: &Facts, on_bus: usize) -> Check {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for gpu in &cuda.gpus {
        match kinds.iter_mut().find(|(name, _)| *name == gpu.name) {
            Some((_, count)) => *count += 1,
            None => kinds.push((&gpu.name, 1)),
        }
    }
    let shown: Vec<_> = kinds.iter().map(|(name, count)| format!("{count} × {name}")).collect();
    let shown = shown.join(", ");
    let visible = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"];
    let visible = visible.iter().find_map(|name| facts.variable(name).map(|value| format!("{name}={value}")));
    match () {
        () if kinds.len() > 1 => Check::warning("GPUs", shown)
            .also(visible)
            .next("a collective runs at the pace of the slowest; `--devices` takes like ones"),
        () if cuda.gpus.len() < on_bus && visible.is_none() => {
            Check::warning("GPUs", format!("{shown}; {on_bus} are on the bus")).next(
                "`nvidia-smi` and `dmesg | grep Xid` tell whether one is lost; a container may have been given fewer",
            )
        }
        () => Check::ok("GPUs", shown).also(visible),
    }
}

/// Whether CUDA counts the GPUs as `nvidia-smi` does.
fn order(cuda: &Cuda, facts: &Facts) -> Check {
    let name = "GPU order";
    let by_bus = cuda.gpus.is_sorted_by_key(|gpu| &gpu.pci);
    let chosen = ["CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"]
        .iter()
        .find_map(|name| facts.variable(name).map(|value| format!("{name}={value}")));
    if by_bus {
        return Check::ok(name, "CUDA counts the GPUs by their PCI address, as nvidia-smi does").also(chosen);
    }
    let shown: Vec<_> = cuda.gpus.iter().enumerate().map(|(at, gpu)| format!("{at} {}", gpu.pci)).collect();
    Check::warning(name, "CUDA counts the GPUs otherwise than nvidia-smi")
        .also(chosen)
        .also([shown.join(", ")])
        .next("CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same; name GPUs by PCI address or UUID")
}

fn busy(facts: &Facts) -> Option<Check> {
    let Answer::Told(of) = &facts.management else { return None };
    if of.processes.is_empty() {
        return Some(idle(facts));
    }
    let shown = |(pid, name): &(u32, Option<String>)| match name {
        Some(name) => format!("pid {pid} ({name})"),
        None => format!("pid {pid} (not visible from here)"),
    };
    let mut shown: Vec<_> = of.processes.iter().map(shown).collect();
    shown.dedup();
    Some(
        Check::warning("GPU processes", shown.join(", "))
            .next("end them before measuring: figures beside them are not the box's"),
    )
}

/// GPUs without a process, of which none should be busy.
fn idle(facts: &Facts) -> Check {
    let name = "GPU processes";
    let gpus = if let Answer::Told(cuda) = &facts.cuda { cuda.gpus.as_slice() } else { &[] };
    let busy = |gpu: &&Gpu| gpu.load.is_some_and(|load| load >= BUSY);
    let wedged: Vec<_> = gpus.iter().filter(busy).map(|gpu| gpu.pci.as_str()).collect();
    if wedged.is_empty() {
        return Check::ok(name, "none");
    }
    Check::fault(name, format!("none is seen, but GPU {} is fully busy", wedged.join(", "))).next(
        "wedged by a process that was killed, or busy with one that is hidden here: `nvidia-smi --gpu-reset`, or reboot; nothing \
         measured so counts",
    )
}

/// Options of the module for unified memory. Heterogeneous memory management is what CUDA's release notes advise to switch off
/// (`uvm_disable_hmm=1`) where initialisation fails or stalls.
fn uvm(root: Root, on_bus: usize) -> Check {
    let name = "nvidia_uvm options";
    let folder = "sys/module/nvidia_uvm/parameters";
    if !root.exists("sys/module/nvidia_uvm") {
        return Check::unknown(name, "the module is not loaded");
    }
    let options = ["uvm_disable_hmm", "uvm_ats_mode", "uvm_global_oversubscription"];
    let read = |option| Some((option, root.text(&format!("{folder}/{option}"))?));
    let found: Vec<(&str, String)> = options.into_iter().filter_map(read).collect();
    let shown: Vec<_> = found.iter().map(|(option, value)| format!("{option}={value}")).collect();
    let hmm = found.iter().find(|(option, _)| *option == "uvm_disable_hmm").map(|(_, value)| value.as_str());
    match hmm {
        None => super::hidden(name, folder),
        Some("N" | "0") if on_bus > 1 => Check::warning(name, format!("{}: HMM may be on", shown.join(" ")))
            .next("where CUDA fails or stalls at its start on several GPUs: `options nvidia_uvm uvm_disable_hmm=1` in /etc/modprobe.d"),
        Some(_) => Check::ok(name, shown.join(" ")),
    }
}

fn mig(root: Root, topology: Option<&Topology>) -> Check {
    let gpus = topology.map(|topology| topology.gpus.as_slice()).unwrap_or_default();
    let told: Vec<_> =
        gpus.iter().filter_map(|gpu| Some((gpu.bus_id?.to_string(), gpu.driver.as_ref()?.mig?))).collect();
    if told.is_empty() {
        return sliced(mig_of_files(root));
    }
    sliced(Some(told.into_iter().filter(|(_, sliced)| *sliced).map(|(gpu, _)| gpu).collect()))
}

fn sliced(sliced: Option<Vec<String>>) -> Check {
    let Some(sliced) = sliced else { return super::hidden("MIG", CAPABILITIES) };
    if sliced.is_empty() {
        return Check::ok("MIG", "no GPU is sliced");
    }
    Check::warning("MIG", format!("sliced: {}", sliced.join(", ")))
        .next("slices have no P2P, and two of one GPU cannot talk over NCCL: `nvidia-smi -mig 0` takes it back")
}

/// GPUs that have instances, by the driver's files.
fn mig_of_files(root: Root) -> Option<Vec<String>> {
    let instances = |name: &String| {
        let slices = root.names(&format!("{CAPABILITIES}/{name}/mig")).unwrap_or_default();
        slices.iter().any(|slice| slice.starts_with("gi"))
    };
    let gpus = root.names(CAPABILITIES)?.into_iter().filter(|name| name.starts_with("gpu"));
    Some(gpus.filter(instances).collect())
}
