//! The loop over pairs of GPUs: each visited on both ways by workers of its own, everything kept as it ends.

use super::bench::Bench;
use super::deadlines::{Deadlines, Pace};
use super::health;
use super::private::Private;
use super::provenance;
use super::visit::{Planned, Setup, visit};
use crate::collective::{Case, Dtype, Function, Mode, Op, Placement, Size};
use crate::error::{Error, Result};
use crate::pairs::{self, Figures, Pair, Pairs, SCHEMA, Way};
use crate::plan::env_set::{EnvSet, Vars};
use crate::plan::schedule::{Arm, Launch, Measure, Plan, Rounds};
use crate::proof::Read;
use crate::record::run::Backend;
use crate::record::visit::{Outcome, Visit};
use crate::stats::median_of;
use crate::units::Micros;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// CUDA's numbers of the GPUs.
    pub devices: Vec<u32>,
    /// Ways to try.
    pub ways: Vec<Way>,
    /// Bytes of the small message, and of the large one.
    pub bytes: [u64; 2],
    /// Communicators of each visit.
    pub communicators: u32,
    /// Leave inherited `NCCL_*` variables out.
    pub clean_env: bool,
    /// How long each phase of a visit may take.
    pub deadlines: Deadlines,
    /// Seed of everything random.
    pub seed: u64,
}

/// Who is told of each pair: before it is visited, and after.
pub trait Observer {
    /// A pair will be visited: its place, from 0, and how many there are.
    fn begins(&mut self, of: &Pairs, pair: (usize, usize), way: Way, place: usize, all: usize);
    /// It was.
    fn ended(&mut self, of: &Pairs, pair: &Pair);
}

/// Visits every pair; what was measured before an interruption or a sick box is kept.
pub fn run(
    wanted: &Wanted,
    bench: &Bench,
    private: &Private,
    interrupted: &dyn Fn() -> bool,
    observer: &mut dyn Observer,
) -> Result<Pairs> {
    if wanted.devices.len() < 2 {
        return Err(Error::usage("a pair needs two GPUs").help("--gpus or --devices name at least two"));
    }
    let plan = plan(wanted, bench)?;
    let setup = bench.setup(wanted.deadlines);
    let mut all = document(wanted, bench, &plan);
    let count = wanted.devices.len();
    let pairs: Vec<(usize, usize)> = (0..count).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
    let due: Vec<((usize, usize), usize)> =
        (0..wanted.ways.len()).flat_map(|set| pairs.iter().map(move |&pair| (pair, set))).collect();
    let mut pace = Pace::new(wanted.deadlines);
    for (place, &((a, b), set)) in due.iter().enumerate() {
        let way = wanted.ways[set];
        observer.begins(&all, (a, b), way, place, due.len());
        let of_pair = Plan { devices: vec![wanted.devices[a], wanted.devices[b]], ..plan.clone() };
        let planned = Planned { index: place as u32, round: 0, arm: Arm { set, ..Arm::default() }, untimed: false };
        let visit = match not_allowed(&all, a, b, way) {
            Some(why) => super::sweep::not_run(planned, why),
            None => visit(&of_pair, &setup, private, planned, &mut pace, interrupted, &mut |_| {}),
        };
        if visit.outcome == Outcome::Interrupted {
            all.stopped = Some("interrupted".to_owned());
            break;
        }
        let may_leave_traces = visit.outcome.may_leave_traces();
        let pair = pair(&of_pair, a, b, way, visit);
        observer.ended(&all, &pair);
        all.pairs.push(pair);
        if may_leave_traces && let Some(sick) = look(&of_pair, &setup, private, interrupted) {
            all.stopped = Some(sick);
            break;
        }
    }
    all.findings = pairs::judge(&all);
    Ok(all)
}

/// What is the matter with the box after a pair failed.
fn look(plan: &Plan, setup: &Setup, private: &Private, interrupted: &dyn Fn() -> bool) -> Option<String> {
    health::look(plan, setup, private, None, interrupted).map(|sick| format!("{}; {}", sick.what, sick.help))
}

/// Why P2P need not be tried: the driver says itself that the two cannot reach each other.
fn not_allowed(all: &Pairs, a: usize, b: usize, way: Way) -> Option<String> {
    let at = |gpu: usize| all.topology.gpu_at(all.gpus.get(gpu)?.bus_id()?);
    let (from, to) = (at(a)?, at(b)?);
    let p2p = all.topology.p2p(from, to);
    let refused = way == Way::P2p && p2p.is_allowed() == Some(false);
    refused.then(|| format!("the driver allows no P2P between them (read {}, write {})", p2p.read, p2p.write))
}

/// The plan of every visit, but for its two GPUs.
fn plan(wanted: &Wanted, bench: &Bench) -> Result<Plan> {
    let sets = wanted.ways.iter().map(|way| EnvSet { name: format!("{way}"), vars: way.vars(), note: None }).collect();
    let dtype = Dtype::Bfloat16;
    let case = |function: Function, (bytes, mode): (u64, Mode)| {
        let elements = bytes / dtype.bytes();
        if elements == 0 {
            return Err(Error::usage(format!("a message of {bytes} B holds no element")).help("at least 2 B"));
        }
        Ok(Case {
            function,
            dtype,
            op: Op::Sum,
            placement: Placement::OutOfPlace,
            mode,
            size: Size::elements(elements),
        })
    };
    // The small message as decode steps call it, the large one back to back.
    let sizes = [(wanted.bytes[0], Mode::Graph), (wanted.bytes[1], Mode::Stream)];
    let functions = [Function::AllReduce, Function::SendRecv];
    let cases: Result<Vec<Case>> =
        functions.into_iter().flat_map(|function| sizes.map(|size| case(function, size))).collect();
    Ok(Plan {
        sets,
        expect: Vec::new(),
        base: Vars::default(),
        clean_env: wanted.clean_env,
        libraries: bench.libraries(),
        cases: cases?,
        devices: Vec::new(),
        ranks: 2,
        agents: Vec::new(),
        launches: vec![Launch::Threads],
        alive: vec![0],
        registers: vec![Default::default()],
        rank_env: Vec::new(),
        cpu_affinity: Default::default(),
        wrap: Vec::new(),
        rounds: Rounds::Fixed(1),
        communicators: wanted.communicators,
        measure: Measure { graph_length: 20, replays: 10, launches: 5, batches: 4, calls: 1, ..Measure::default() },
        tolerance: 0.05,
        time_limit_s: None,
        soak_s: None,
        seed: wanted.seed,
    })
}

fn document(wanted: &Wanted, bench: &Bench, plan: &Plan) -> Pairs {
    let header =
        bench.header(Plan { devices: wanted.devices.clone(), ranks: wanted.devices.len() as u32, ..plan.clone() });
    let provenance = header.provenance;
    Pairs {
        schema: SCHEMA,
        version: header.version,
        backend: if provenance.emulated.is_some() { Backend::Emulated } else { Backend::Cuda },
        created: header.created,
        host: provenance.host,
        emulated: provenance.emulated,
        driver: provenance.driver,
        library: plan.libraries[0].clone(),
        inherited: if wanted.clean_env { Vars::default() } else { provenance::inherited() },
        gpus: provenance.gpus,
        topology: provenance.topology.unwrap_or_default(),
        latency_bytes: wanted.bytes[0],
        bandwidth_bytes: wanted.bytes[1],
        communicators: wanted.communicators,
        seed: wanted.seed,
        pairs: Vec::new(),
        stopped: None,
        findings: Vec::new(),
    }
}

/// What a visit tells of its pair.
fn pair(plan: &Plan, a: usize, b: usize, way: Way, visit: Visit) -> Pair {
    let median = |function: Function, mode: Mode| {
        let at = plan.cases.iter().position(|case| case.function == function && case.mode == mode)?;
        let medians: Vec<f64> = visit
            .replicates
            .iter()
            .filter(|replicate| replicate.case == at)
            .map(|replicate| replicate.median_us)
            .collect();
        (!medians.is_empty()).then(|| (&plan.cases[at], median_of(medians)))
    };
    let figures = |function| Figures {
        latency_us: median(function, Mode::Graph).map(|(_, micros)| micros),
        bandwidth_gbps: median(function, Mode::Stream).map(|(case, micros)| case.busbw(Micros(micros), 2).0),
    };
    let checks = || visit.replicates.iter().map(|replicate| &replicate.checks);
    Pair {
        a,
        b,
        way,
        all_reduce: figures(Function::AllReduce),
        send_recv: figures(Function::SendRecv),
        checked_outputs: checks().map(|checks| checks.outputs).sum(),
        wrong_outputs: checks().map(|checks| checks.wrong).sum(),
        first_wrong: checks().find_map(|checks| checks.first_wrong.clone()),
        transport: visit.read.as_ref().and_then(transport),
        diagnosis: visit.diagnosis,
        evidence: visit.evidence,
        seconds: visit.seconds,
        outcome: visit.outcome,
    }
}

/// The transport that NCCL's log told of.
fn transport(read: &Read) -> Option<String> {
    let sends = read.communicators.iter().flat_map(|of| &of.ranks).flat_map(|rank| &rank.sends);
    sends.flat_map(|hop| &hop.via).next().map(ToString::to_string)
}
