//! The topology file that NCCL writes when `NCCL_TOPO_DUMP_FILE` names one.

use std::fmt::Write;

use super::plan::Plan;
use super::{env, log};
use crate::topology::Slot;

/// Writes the file, as the rank of `NCCL_TOPO_DUMP_FILE_RANK` (0 by default).
pub(crate) fn topology(rank: usize, plan: &Plan) {
    let Some(path) = env::get("NCCL_TOPO_DUMP_FILE").filter(|path| !path.is_empty()) else { return };
    if env::parameter("NCCL_TOPO_DUMP_FILE_RANK").unwrap_or(0) != rank as i64 {
        return;
    }
    log::info(log::ENV, &format!("NCCL_TOPO_DUMP_FILE set by environment to {path}"));
    if let Err(error) = std::fs::write(&path, xml(plan)) {
        log::warn("graph/xml.cc:238", &format!("Unable to open {path}, not dumping topology: {error}"));
    }
}

/// Sockets, below them the switches that hold more than one GPU, below those the GPUs.
fn xml(plan: &Plan) -> String {
    let slots = plan.machine.slots;
    let mut gpus: Vec<usize> = plan.gpus.clone();
    gpus.sort_unstable();
    gpus.dedup();
    let mut text = String::from("<system version=\"1\">\n");
    for socket in distinct(&gpus, |gpu| slots[gpu].socket) {
        let (vendor, family, model) =
            if plan.machine.amd { ("AuthenticAMD", 191, 2) } else { ("GenuineIntel", 6, 207) };
        let _ = writeln!(
            text,
            "  <cpu host_hash=\"0x{:x}\" numaid=\"{socket}\" affinity=\"{:08x}\" arch=\"x86_64\" vendor=\"{vendor}\" \
             familyid=\"{family}\" modelid=\"{model}\">",
            crate::noise::mix(1),
            0xFFFF_u32 << (16 * socket)
        );
        let here: Vec<usize> = gpus.iter().copied().filter(|&gpu| slots[gpu].socket == socket).collect();
        for switch in distinct(&here, |gpu| slots[gpu].switch) {
            let below: Vec<usize> = here.iter().copied().filter(|&gpu| slots[gpu].switch == switch).collect();
            let shared = slots.iter().filter(|slot| slot.switch == switch).count() > 1;
            if shared {
                pci(&mut text, plan, 4, &bridge(&slots[below[0]]), "0x060400", "0x1000", "0xc030");
                text.push('\n');
            }
            below.iter().for_each(|&gpu| write_gpu(&mut text, if shared { 6 } else { 4 }, plan, gpu));
            if shared {
                text.push_str("    </pci>\n");
            }
        }
        text.push_str("  </cpu>\n");
    }
    text.push_str("</system>\n");
    text
}

fn distinct(gpus: &[usize], of: impl Fn(usize) -> u32) -> Vec<u32> {
    let mut values: Vec<u32> = gpus.iter().map(|&gpu| of(gpu)).collect();
    values.dedup();
    values
}

/// The bus id of the switch above a slot: two buses before the first GPU below it.
fn bridge(slot: &Slot) -> String {
    format!("0000:{:02x}:00.0", (slot.address >> 12).saturating_sub(2))
}

fn pci(text: &mut String, plan: &Plan, indent: usize, bus: &str, class: &str, vendor: &str, device: &str) {
    let speed = if plan.machine.pcie_generation() == 4 { "16.0" } else { "32.0" };
    let _ = write!(
        text,
        "{:indent$}<pci busid=\"{bus}\" class=\"{class}\" vendor=\"{vendor}\" device=\"{device}\" \
         link_speed=\"{speed} GT/s PCIe\" link_width=\"16\">",
        ""
    );
}

fn write_gpu(text: &mut String, indent: usize, plan: &Plan, gpu: usize) {
    let machine = plan.machine;
    let device = format!("0x{:04x}", machine.gpu.pci_device >> 16);
    pci(text, plan, indent, &machine.pci_bus_id(gpu).to_lowercase(), "0x030200", "0x10de", &device);
    text.push('\n');
    let rank = plan.gpus.iter().position(|&other| other == gpu).unwrap_or(0);
    let sm = machine.gpu.capability;
    let _ = write!(text, "{:1$}<gpu dev=\"{gpu}\" sm=\"{sm}\" rank=\"{rank}\" gdr=\"1\"", "", indent + 2);
    if machine.nvlink {
        let target = "<nvlink target=\"fffffff:ff:ff.0\" count=\"18\" tclass=\"0x068000\"/>";
        let _ = write!(text, ">\n{0:1$}{target}\n{0:2$}</gpu>\n", "", indent + 4, indent + 2);
    } else {
        text.push_str("/>\n");
    }
    let _ = writeln!(text, "{:indent$}</pci>", "");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_sockets_of_the_gpus_in_use_are_written() {
        let plan = Plan::new(crate::settings::get(), vec![0, 1, 2, 4], crate::remote::Home::one(4)).unwrap();
        let text = xml(&plan);
        let count = |what: &str| text.matches(what).count();
        assert_eq!((count("<cpu "), count("0x060400"), count("<gpu ")), (2, 3, 4));
        assert_eq!((count("<pci "), count("</pci>")), (7, 7));
        assert!(text.contains("<gpu dev=\"4\" sm=\"120\" rank=\"3\" gdr=\"1\"/>"));
    }
}
