//! Which GPUs, in which order, and on which CPUs: by numbers, addresses and UUIDs, as it was asked for and as it was.

use crate::support::{OUT, Program};

#[test]
fn ranks_keep_the_order_of_devices_by_address_and_hidden_gpus_are_recorded() {
    let program = Program::emulated("--seed 7 --devices 0000:a4:00.0,0 --sizes 7168x1 --rounds 1 --communicators 1");
    let ran = program.env("CUDA_VISIBLE_DEVICES", "2,7").keeping(OUT).run();
    let run = ran.document();
    let provenance = &run.header.provenance;
    assert_eq!(
        provenance.gpus.iter().map(|gpu| gpu.pci.as_str()).collect::<Vec<_>>(),
        ["0000:a4:00.0", "0000:23:00.0"]
    );
    assert_eq!(provenance.visible_devices.as_deref(), Some("2,7"));
    let topology = provenance.topology.as_ref().unwrap();
    let ranks: Vec<_> = topology.gpus.iter().take(3).map(|gpu| (gpu.index, gpu.ranks.clone())).collect();
    assert_eq!(ranks, [(7, vec![0]), (2, vec![1]), (0, vec![])]);
    assert!(ran.stdout.contains("SYS between all") && ran.stdout.contains("links"), "{}", ran.stdout);
    for visit in &run.visits {
        let devices = &visit.worker.as_ref().unwrap().devices;
        assert_eq!(
            devices.iter().map(|gpu| &gpu.uuid).collect::<Vec<_>>(),
            provenance.gpus.iter().map(|gpu| &gpu.uuid).collect::<Vec<_>>()
        );
    }
}

#[test]
fn ranks_are_bound_to_the_cpus_near_their_gpus_as_far_as_there_are_any() {
    let program =
        Program::emulated("--seed 7 --devices 0,4 --cpu-affinity near --sizes 7168x1 --rounds 1 --communicators 1");
    let ran = program.keeping(OUT).run();
    let run = ran.document();
    assert_eq!(run.header.plan.cpu_affinity.to_string(), "near");
    let bound = &run.visits[0].worker.as_ref().unwrap().cpus;
    assert_eq!(bound.len(), 2);
    for (rank, (cpus, near)) in bound.iter().zip(["0-31,64-95", "32-63,96-127"]).enumerate() {
        let near: ncclsweep::topology::CpuList = near.parse().unwrap();
        match cpus {
            Some(cpus) => assert!(cpus.iter().all(|cpu| near.contains(cpu)), "rank {rank}: {cpus}"),
            None => assert!(run.warnings.iter().any(|warning| warning.contains("not bound")), "{:?}", run.warnings),
        }
    }
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("bound to the CPUs near them"), "{words}");
}

#[test]
fn lists_of_cpus_are_one_for_all_or_one_for_each_rank() {
    let run = Program::least("--cpu-affinity 0").keeping(OUT).run().document();
    let bound = &run.visits[0].worker.as_ref().unwrap().cpus;
    assert!(bound.iter().all(|cpus| cpus.as_ref().is_some_and(|cpus| cpus.to_string() == "0")), "{bound:?}");
    Program::least("--cpu-affinity 0/0/0").run().exits(2).tells("3 lists for 2 ranks");
    Program::least("--cpu-affinity far").run().exits(2).tells("is no list of CPUs");
}

#[test]
fn ranks_that_are_processes_are_bound_as_threads_are() {
    let both = Program::least("--launch threads,processes --cpu-affinity 0").keeping(OUT).run().document();
    for visit in &both.visits {
        let bound = &visit.worker.as_ref().unwrap().cpus;
        let bound: Vec<_> = bound.iter().map(|cpus| cpus.as_ref().map(ToString::to_string)).collect();
        assert_eq!(bound, [Some("0".to_owned()), Some("0".to_owned())], "{:?}", visit.arm);
    }
}
