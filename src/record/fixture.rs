//! A made-up run for the tests of whatever reads one. Its figures are invented.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::run::{Applied, Backend, Cell, Header, Joint, LibraryFacts, Provenance, Run, SCHEMA, Verdict};
use super::stored::Stored;
use super::summary::Tally;
use super::visit::{Checks, Outcome, Replicate, Visit, WorkerFacts};
use crate::collective::{Case, Dtype, Function, Mode, Op, Placement, Size};
use crate::gpu::cuda::Device;
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::{EnvSet, Vars};
use crate::plan::schedule::{Arm, Launch, Library, Measure, Plan, Rounds};
use crate::units::Micros;

const NCCL: NcclVersion = NcclVersion::new(2, 28, 9);
const RANKS: u32 = 8;
const ROUNDS: u32 = 6;

/// A case of the fixture: hidden 7168, bf16, sum, out of place.
pub fn case(tokens: u64, mode: Mode) -> Case {
    let size = Size::tokens(7168, tokens).expect("small");
    let function = Function::AllReduce;
    Case { size, dtype: Dtype::Bfloat16, op: Op::Sum, placement: Placement::OutOfPlace, mode, function }
}

/// `default` against `pcie-ll` at four sizes in graph mode, all decided.
pub fn two_sets() -> Run {
    run(&["default", "pcie-ll"], &[1, 2, 3, 4].map(|tokens| case(tokens, Mode::Graph)))
}

/// A run of these env sets and cases. The first set is the baseline.
pub fn run(sets: &[&str], cases: &[Case]) -> Run {
    let header = header(sets, cases);
    let arms: Vec<Arm> = header.plan.arms().collect();
    let pairs = arms.iter().flat_map(|&arm| (0..cases.len()).map(move |at| (arm, at)));
    let cells = pairs.map(|(arm, at)| cell(&header.plan, arm, at)).collect();
    let modes = header.plan.modes();
    let joint = arms.iter().flat_map(|&arm| modes.iter().map(move |&mode| (arm, mode)));
    let joint = joint.map(|(arm, mode)| together(&header.plan, arm, mode)).collect();
    let orders = (0..ROUNDS).flat_map(|round| header.plan.round(round).into_iter().map(move |arm| (round, arm)));
    let visits = orders.enumerate().map(|(index, (round, arm))| visit(&header, index as u32, round, arm)).collect();
    let finished = "2026-03-14T09:27:24Z".parse().expect("a time");
    Run {
        header,
        finished,
        complete: true,
        visits,
        pairs: Vec::new(),
        floor: None,
        cells,
        joint,
        proofs: Vec::new(),
        warnings: Vec::new(),
    }
}

/// `run` with noise in the value of every communicator (2%, and 1% between visits, drawn from `seed`), each cell's times being
/// `factor` times those of the plain fixture.
pub fn stored(mut run: Run, seed: u64, factor: impl Fn(&str, usize) -> f64) -> Stored {
    run.header.created += jiff::SignedDuration::from_millis(seed as i64);
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    // A sum of twelve uniform numbers is as good as normal.
    let mut normal = || (0..12).map(|_| generator.random::<f64>()).sum::<f64>() - 6.0;
    let plan = &run.header.plan;
    for visit in &mut run.visits {
        let of_visit = 0.01 * normal();
        for replicate in &mut visit.replicates {
            let plain = (48.2 + 4.37 * replicate.case as f64) * ratio(visit.arm, replicate.case);
            let level = plain * factor(&plan.sets[visit.arm.set].name, replicate.case);
            replicate.median_us = level * (of_visit + 0.02 * normal()).exp();
        }
    }
    let mut tally = Tally::default();
    run.visits.iter().for_each(|visit| tally.add(visit).expect("positive times"));
    for cell in &mut run.cells {
        let typical = tally.cell(cell.arm, cell.case).typical();
        cell.visits = run.visits.iter().filter(|visit| visit.arm == cell.arm).count() as u32;
        cell.median_us = typical.map(|typical| typical.point).or(cell.median_us);
        cell.interval_us = typical.map(|typical| typical.interval.into());
    }
    Stored { place: format!("results/run-{seed}"), folder: None, run }
}

fn header(sets: &[&str], cases: &[Case]) -> Header {
    let library = "/opt/nccl/lib/libnccl.so.2.28.9";
    let sets = sets.iter().map(|name| EnvSet { name: (*name).into(), vars: variables(name), note: None }).collect();
    let plan = Plan {
        sets,
        expect: Vec::new(),
        base: Vars::default(),
        clean_env: false,
        libraries: vec![Library { path: library.into(), version: NCCL }],
        cases: cases.to_vec(),
        devices: (0..RANKS).collect(),
        ranks: RANKS,
        agents: Vec::new(),
        launches: vec![Launch::Threads],
        alive: vec![0],
        registers: vec![Default::default()],
        rank_env: Vec::new(),
        cpu_affinity: Default::default(),
        wrap: Vec::new(),
        rounds: Rounds::Auto,
        communicators: 6,
        measure: Measure::default(),
        tolerance: 0.05,
        time_limit_s: None,
        soak_s: None,
        seed: 42,
    };
    let facts = |path: &str| LibraryFacts {
        path: path.into(),
        found_by: "the loader's path".into(),
        version: Some(NCCL),
        build_id: None,
    };
    let provenance = Provenance {
        host: "box-1".into(),
        kernel: "6.8.0-60-generic".into(),
        cpu: "AMD EPYC 9375F 32-Core Processor".into(),
        cpus: 128,
        driver: Some("580.159.04".into()),
        cuda: "13.0".into(),
        gpus: (0..RANKS).map(device).collect(),
        busy: Vec::new(),
        libraries: vec![facts(library)],
        other_libraries: Vec::new(),
        inherited: Vars::default(),
        conf_files: Vec::new(),
        arguments: vec!["ncclsweep".into(), "--gpus".into(), "8".into()],
        emulated: None,
        imported: None,
        visible_devices: None,
        topology: None,
        others: Vec::new(),
    };
    let created = "2026-03-14T09:26:26Z".parse().expect("a time");
    Header { schema: SCHEMA, version: "0.1.0".into(), backend: Backend::Cuda, created, provenance, plan }
}

fn variables(set: &str) -> Vars {
    match set {
        "default" => Vars::default(),
        _ => Vars::from_iter([
            ("NCCL_PROTO", "LL"),
            ("NCCL_ALGO", "Ring"),
            ("NCCL_P2P_LEVEL", "SYS"),
            ("NCCL_MAX_NCHANNELS", "16"),
            ("NCCL_BUFFSIZE", "16777216"),
            ("NCCL_NTHREADS", "512"),
        ]),
    }
}

fn device(ordinal: u32) -> Device {
    Device {
        ordinal,
        name: "NVIDIA RTX PRO 6000 Blackwell Server Edition".into(),
        uuid: format!("GPU-4f3a2b1c-0d9e-8f70-a1b2-c3d4e5f6070{ordinal}"),
        pci: format!("0000:{:02x}:00.0", 0x11 + 0x10 * ordinal),
    }
}

/// Time of a cell relative to the baseline: from 0.60 to 1.14 by set, a little more at larger sizes.
fn ratio(arm: Arm, case: usize) -> f64 {
    match arm.set {
        0 => 1.0,
        set => 0.6 + 0.03 * ((set - 1) * 7 % 19) as f64 + 0.02 * case as f64,
    }
}

/// What an interval of the ratio says at a tolerance of 5%.
fn judge([low, high]: [f64; 2]) -> Verdict {
    match () {
        () if high < 1.0 / 1.05 => Verdict::Faster,
        () if low > 1.05 => Verdict::Slower,
        () if low > 1.0 / 1.05 && high < 1.05 => Verdict::Same,
        () => Verdict::Undecided,
    }
}

fn cell(plan: &Plan, arm: Arm, at: usize) -> Cell {
    let case = plan.cases[at];
    let ratio = ratio(arm, at);
    let median = (48.2 + 4.37 * at as f64) * ratio;
    let interval = [ratio * 0.981, ratio * 1.021];
    let baseline = arm.set == 0;
    Cell {
        first_wrong: None,
        arm,
        set: plan.sets[arm.set].name.clone(),
        nccl: plan.libraries[arm.library].version,
        launch: arm.launch,
        alive: arm.alive,
        ranks: plan.ranks,
        case: at,
        dtype: case.dtype,
        op: case.op,
        in_place: case.placement == Placement::InPlace,
        size_bytes: case.bytes().0,
        mode: case.mode,
        visits: ROUNDS,
        replicates: ROUNDS * plan.communicators,
        median_us: Some(median),
        interval_us: Some([median * 0.975, median * 1.028]),
        mean_us: Some(median * 1.004),
        p95_us: Some(median * 1.06),
        p99_us: Some(median * 1.11),
        min_us: Some(median * 0.95),
        algbw_gbps: Some(case.algbw(Micros(median)).0),
        busbw_gbps: Some(case.busbw(Micros(median), plan.ranks as usize).0),
        ratio: (!baseline).then_some(ratio),
        ratio_interval: (!baseline).then_some(interval),
        verdict: if baseline { Verdict::Baseline } else { judge(interval) },
        verdict_reason: None,
        applied: Applied::Applied,
        checked_outputs: u64::from(ROUNDS * plan.communicators * RANKS) * 50,
        wrong_outputs: 0,
        floor: None,
    }
}

fn together(plan: &Plan, arm: Arm, mode: Mode) -> Joint {
    let baseline = arm.set == 0;
    let ratio = ratio(arm, 1);
    let interval = [ratio * 0.99, ratio * 1.012];
    Joint {
        arm,
        set: plan.sets[arm.set].name.clone(),
        mode,
        ratio: (!baseline).then_some(ratio),
        ratio_interval: (!baseline).then_some(interval),
        verdict: if baseline { Verdict::Baseline } else { judge(interval) },
    }
}

fn visit(header: &Header, index: u32, round: u32, arm: Arm) -> Visit {
    let plan = &header.plan;
    let worker = WorkerFacts {
        others: Vec::new(),
        pid: 20_114 + index,
        nccl: plan.libraries[arm.library].version,
        nccl_path: Some(plan.libraries[arm.library].path.clone()),
        variables: plan.sets[arm.set].vars.clone(),
        devices: header.provenance.gpus.clone(),
        cpus: Vec::new(),
    };
    let replicates = (0..plan.communicators).flat_map(|communicator| {
        (0..plan.cases.len()).map(move |case| Replicate {
            communicator,
            case,
            mean_us: 48.4,
            median_us: 48.2,
            warm_up_calls: 60,
            checks: Checks { outputs: 50 * u64::from(RANKS), wrong: 0, first_wrong: None },
            samples_us: Vec::new(),
        })
    });
    Visit {
        seconds: 4.7,
        outcome: Outcome::Completed,
        worker: Some(worker),
        replicates: replicates.collect(),
        ..Visit::begun(index, round, arm, header.created)
    }
}
