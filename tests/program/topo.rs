//! `ncclsweep topo`: the emulated boxes as they are drawn, files of others, and a machine that shows nothing.

use ncclsweep::record::look::Look;
use ncclsweep::topology::{Machine, Path};

use crate::support::{Program, Ran};

fn topo(arguments: &str) -> Program {
    Program::new(["topo"].into_iter().chain(arguments.split_whitespace()))
}

/// What is printed, without the line that has the time in it.
fn drawing(ran: &Ran) -> String {
    ran.stdout.lines().skip(1).map(|line| format!("{line}\n")).collect()
}

fn look(ran: &Ran) -> Look {
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_emulated_boxes_are_drawn_in_the_terminal() {
    for name in ["8xrtxpro6000-switch", "8xpcie-flat", "4x4090-phb", "2xh200-nvlink"] {
        let ran = topo(&format!("--emulate={name}")).env("COLUMNS", "120").run().exits(0);
        insta::assert_snapshot!(format!("terminal-{name}"), drawing(&ran));
    }
}

#[test]
fn the_emulated_boxes_are_drawn_as_svg() {
    for name in ["8xrtxpro6000-switch", "8xpcie-flat", "4x4090-phb", "2xh200-nvlink"] {
        let ran = topo(&format!("--emulate={name} --format svg")).run().exits(0);
        insta::assert_snapshot!(format!("svg-{name}"), ran.stdout);
    }
}

#[test]
fn devices_decide_the_order_of_ranks_and_hidden_gpus_stay_in_the_picture() {
    let ran = topo("--emulate --devices 1,0 --format json").env("CUDA_VISIBLE_DEVICES", "6,2").run().exits(0);
    let look = look(&ran);
    let first: Vec<_> =
        look.topology.gpus.iter().take(3).map(|gpu| (gpu.index, gpu.ordinal, gpu.ranks.clone())).collect();
    assert_eq!(first, [(2, Some(1), vec![0]), (6, Some(0), vec![1]), (0, None, vec![])]);
    assert_eq!((look.topology.gpus.len(), look.topology.path(0, 1)), (8, Path::Sys));
    assert_eq!(look.visible_devices.as_deref(), Some("6,2"));
    topo("--emulate --devices 2").env("CUDA_VISIBLE_DEVICES", "6,2").run().exits(3).tells("but the driver shows 2");
}

#[test]
fn an_idle_link_is_slow_and_under_load_it_is_not() {
    let idle = look(&topo("--emulate --format json").run().exits(0));
    assert_eq!((idle.topology.link(0).now.generation, idle.topology.loaded_link(0)), (Some(1), None));
    let loaded = look(&topo("--emulate --load --format json").run().exits(0));
    assert_eq!(loaded.topology.loaded_link(7).unwrap().to_string(), "Gen5 x16");
}

#[test]
fn a_narrow_link_and_access_control_are_told() {
    let ran = topo("--emulate").env("NCCLSWEEP_EMULATE_AILMENT", "narrow:4@2;acs@all").run().exits(0);
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("fault 0000:23:00.0 runs on x4 of x16"), "{}", ran.stdout);
    assert!(words.contains("ACS redirects above 8 GPUs"), "{}", ran.stdout);
}

#[test]
fn a_machine_that_shows_nothing_has_an_answer() {
    let ran = topo("").run();
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert!(ran.stdout.contains("IOMMU") && ran.stdout.contains("machine"), "{}", ran.stdout);
    let ran = topo("--emulate --format json").env("NCCLSWEEP_EMULATE_FAULT", "segv@load").run();
    let look = look(&ran);
    assert!(look.unasked[0].contains("the probe process died"), "{:?}", look.unasked);
    assert_ne!(look.topology.host.machine, Machine::Virtual(Some("QEMU".into())));
}

#[test]
fn files_of_others_are_read() {
    let matrix = include_str!("../data/topology/nvidia-smi-topo-2xh200.txt");
    let ran = topo("--from topo.txt --format json").file("topo.txt", matrix).run().exits(0);
    assert_eq!(look(&ran).topology.path(0, 1), Path::Nvl(Some(18)));
    let xml = include_str!("../data/topology/switches.xml");
    let ran = topo("--from topo.xml --format dot").file("topo.xml", xml).run().exits(0);
    assert!(ran.stdout.starts_with("graph topology {") && ran.stdout.contains("NV4"), "{}", ran.stdout);
    let graphs = include_str!("../data/topology/graph-2xh200.xml");
    let ran = topo("--from graph.xml").file("graph.xml", graphs).run().exits(0);
    assert!(ran.stdout.contains("ring"), "{}", ran.stdout);
    let ran = topo("--from topo.txt").file("topo.txt", "GPU0 X SYS\n").run().exits(2);
    ran.tells("cannot read the topology topo.txt");
    topo("--from nowhere.txt").run().exits(2).tells("cannot read nowhere.txt");
}

#[test]
fn redaction_leaves_no_host_name_and_no_uuid() {
    let ran = topo("--emulate --redact --format json").run().exits(0);
    let host = nix::unistd::gethostname().unwrap().into_string().unwrap();
    assert!(ran.stdout.contains("GPU-redacted-7") && ran.stdout.contains("\"host-1\""), "{}", ran.stdout);
    assert!(host.len() < 4 || !ran.stdout.contains(&host), "{}", ran.stdout);
}
