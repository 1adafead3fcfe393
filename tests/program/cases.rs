//! What is measured: modes, data types, operations, placements, GPUs and ranks.

use std::collections::BTreeSet;

use ncclsweep::collective::Mode;
use ncclsweep::record::run::Run;

use crate::support::{OUT, Program};

#[track_caller]
fn all_measured_and_right(run: &Run) {
    for cell in &run.cells {
        assert!(cell.median_us.is_some_and(|median| median > 0.0), "{cell:?}");
        assert!(cell.checked_outputs > 0 && cell.wrong_outputs == 0, "{cell:?}");
    }
}

#[test]
fn every_mode_is_measured_in_both_placements() {
    let run = Program::least("--modes graph,stream,sync --in-place=both").keeping(OUT).run().exits(5).document();
    all_measured_and_right(&run);
    let kinds: BTreeSet<_> = run.cells.iter().map(|cell| (cell.set.clone(), cell.mode, cell.in_place)).collect();
    assert_eq!(kinds.len(), 2 * 3 * 2);
    for (mode, samples) in [(Mode::Graph, 20), (Mode::Stream, 10), (Mode::Sync, 200)] {
        assert_eq!(run.header.plan.measure.samples(mode), samples);
    }
}

#[test]
fn every_data_type_is_reduced_right_by_every_operation() {
    let types = "i8,u8,i32,u32,i64,u64,f16,f32,f64,bf16,f8e4m3,f8e5m2";
    let arguments = format!("--dtype {types} --op sum,prod,min,max,avg --samples 2 --chain 3 --sets default");
    let run = Program::least(&arguments).env("NCCLSWEEP_EMULATE_NCCL", "2.30.4").keeping(OUT).run().exits(0).document();
    all_measured_and_right(&run);
    let kinds: BTreeSet<_> = run.cells.iter().map(|cell| (cell.dtype.name(), cell.op.name())).collect();
    assert_eq!(kinds.len(), 12 * 5);
}

#[test]
fn gpus_serve_in_the_order_they_are_named() {
    let arguments = "--devices 5,2 --sizes 7168x1 --rounds 1 --communicators 1 --seed 7";
    let run = Program::emulated(arguments).keeping(OUT).run().exits(5).document();
    let ordinals = |gpus: &[ncclsweep::gpu::cuda::Device]| gpus.iter().map(|gpu| gpu.ordinal).collect::<Vec<_>>();
    assert_eq!(ordinals(&run.header.provenance.gpus), [5, 2]);
    for visit in &run.visits {
        assert_eq!(ordinals(&visit.worker.as_ref().unwrap().devices), [5, 2]);
    }
}

#[test]
fn more_ranks_than_gpus_share_them_and_every_form_of_the_results_says_so() {
    let program = Program::least("--ranks 8").env("NCCLSWEEP_EMULATE_NCCL", "2.30.4").keeping(OUT);
    let ran = program.run().exits(5);
    let run = ran.document();
    all_measured_and_right(&run);
    assert!(run.cells.iter().all(|cell| cell.ranks == 8));
    for visit in &run.visits {
        let worker = visit.worker.as_ref().unwrap();
        assert_eq!(worker.devices.iter().map(|gpu| gpu.ordinal).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(worker.variables.get("NCCL_MULTI_RANK_GPU_ENABLE"), Some("1"));
    }
    assert!(ran.stdout.contains("oversubscribed"), "{}", ran.stdout);
}
