//! One visit: a worker with its environment, or one for each rank, listened to from the first word to the end.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::crew::{self, Crew};
pub use super::deadlines::Deadlines;
use super::deadlines::Pace;
use super::diagnose::diagnose;
use super::health::Before;
use super::prepare::lead_to_libraries;
use super::private::Private;
use super::process::{MEMORY_FD, Spec, WIRE_FD};
use super::watch::Watch;
use super::{nccl_log, provenance};
use crate::plan::environment::{Environment, Origin};
use crate::plan::schedule::{Arm, Measure, Plan};
use crate::proof::{Read, TIMED_SUBSYSTEMS, UNTIMED_SUBSYSTEMS};
use crate::record::visit::{At, Outcome, Visit};
use crate::topology::CpuList;
use crate::wire::{self, Job};

/// The hidden command that makes the executable a worker.
pub const WORKER: &str = "__worker";

/// How many hardware queues CUDA spreads the streams of a GPU over.
const CONNECTIONS: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// Tells the profiler plugin to keep a journal, with its mask always on: never in a process that is timed.
const JOURNAL_FOLDER: &str = "NCCLSWEEP_PROFILER_FOLDER";

/// What a worker's environment needs beside the plan.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Environment that `ncclsweep` was started in.
    pub inherited: Vec<(String, String)>,
    /// Folder of links for each library of the plan, first on the loader's path.
    pub library_folders: Vec<std::path::PathBuf>,
    /// Set when the libraries are the emulator.
    pub emulation: Option<Emulation>,
    /// How long each phase may take.
    pub deadlines: Deadlines,
    /// The GPUs when the run began.
    pub before: Before,
    /// CPUs near each GPU, by CUDA's number, where they are known.
    pub near: Vec<(u32, CpuList)>,
}

/// Settings of the emulator.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// Name of the emulated box.
    pub topology: String,
}

impl Setup {
    /// The whole environment of the workers of an arm: inherited, base, the set, and what must be set for them to run.
    #[must_use]
    pub fn environment(&self, plan: &Plan, arm: Arm) -> Environment {
        self.complete(plan, arm, self.layers(plan, arm))
    }

    /// The whole environment of one rank's process.
    #[must_use]
    pub fn rank_environment(&self, plan: &Plan, arm: Arm, rank: u32) -> Environment {
        let layers = self.layers(plan, arm);
        let own = plan.env_of(rank).map(|vars| layers.clone().layer_of_rank(vars));
        self.complete(plan, arm, own.unwrap_or(layers))
    }

    /// What was asked for.
    fn layers(&self, plan: &Plan, arm: Arm) -> Environment {
        Environment::inherit(self.inherited.iter().cloned(), plan.clean_env)
            .layer(&plan.base, Origin::Base)
            .layer(&plan.sets[arm.set].vars, Origin::Set)
    }

    fn complete(&self, plan: &Plan, arm: Arm, mut environment: Environment) -> Environment {
        lead_to_libraries(&mut environment, &self.library_folders[arm.library], self.emulation.as_ref());
        if plan.oversubscribed() {
            environment.set("NCCL_MULTI_RANK_GPU_ENABLE", "1", Origin::Tool);
            // Streams that share a hardware queue wait for each other, and so do the ranks behind them (docs/measuring.md).
            if environment.get(CONNECTIONS).is_none() {
                environment.set(CONNECTIONS, "32", Origin::Tool);
            }
        }
        // The executable itself is the plugin. One that is merely inherited gives way, since what it records is not ours to
        // time; one that the plan asks for stays, and what it costs can be measured.
        if environment.origin("NCCL_PROFILER_PLUGIN").is_none_or(|origin| origin == Origin::Inherited) {
            environment.set("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", Origin::Tool);
        }
        environment.remove(JOURNAL_FOLDER);
        environment
    }
}

impl Setup {
    /// The CPUs of each rank; none where it cannot be bound, since those near its GPU are not known.
    #[must_use]
    pub fn cpus(&self, plan: &Plan) -> Vec<Option<CpuList>> {
        let near = |rank: u32| {
            let ordinal = plan.devices.get(rank as usize % plan.devices.len().max(1));
            self.near.iter().find(|(known, _)| Some(known) == ordinal).map(|(_, cpus)| cpus)
        };
        (0..plan.ranks).map(|rank| plan.cpu_affinity.of_rank(rank, near(rank))).collect()
    }
}

/// One visit to make.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Position in the run.
    pub index: u32,
    /// Round.
    pub round: u32,
    /// What to measure.
    pub arm: Arm,
    /// Made for the proof only, of a library without a profiler: NCCL logs every choice, and nothing is timed.
    pub untimed: bool,
}

impl Planned {
    /// Its record before anything is known.
    pub(super) fn visit(self) -> Visit {
        let Self { index, round, arm, untimed } = self;
        Visit { untimed, ..Visit::begun(index, round, arm, jiff::Timestamp::now()) }
    }
}

/// What happens while a visit is under way.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The worker entered a phase.
    Phase(At),
    /// A replicate was measured.
    Replicate(&'a crate::record::visit::Replicate),
}

/// Makes one visit: starts its workers, listens until they are done or a deadline passes, and says how it ended.
pub fn visit(
    plan: &Plan,
    setup: &Setup,
    private: &Private,
    planned: Planned,
    pace: &mut Pace,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Visit {
    let mut watch = Watch::new(plan, planned, pace);
    let seed = visit_seed(plan.seed, planned.index);
    let output = private.file("visit.out");
    let workers = workers(plan, setup, private, planned, seed);
    let written = || size(&output) + workers.iter().map(|worker| size(&worker.log)).sum::<u64>();
    let flooded = || Some(written()).filter(|bytes| *bytes > MOST_OUTPUT).map(|bytes| bytes >> 20);
    let outcome = match start(plan, planned, &workers, &output) {
        Err(error) => Outcome::SpawnFailed { message: spawn_message(plan, &error) },
        Ok(mut crew) => watch.follow(&mut crew, &flooded, interrupted, progress),
    };
    let mut visit = watch.finish(outcome);
    let logs: Vec<&Path> = workers.iter().map(|worker| worker.log.as_path()).collect();
    add_evidence(&mut visit, &output, &logs);
    visit.diagnosis = diagnose(plan, &visit, &logs.iter().map(|log| end_of(log)).collect::<String>());
    for worker in &workers {
        let pid = visit.worker.as_ref().and_then(|facts| facts.pid_of(worker.job.ranks.start));
        if let Some(pid) = pid.filter(|_| worker.log.exists()) {
            // The user's file is a favour: a visit is not lost because it cannot be written.
            let _ = worker.wish.grant(&worker.log, pid, &provenance::host());
        }
    }
    for file in logs.into_iter().chain([output.as_path()]) {
        let _ = std::fs::remove_file(file);
    }
    visit
}

/// A worker to start.
struct Worker {
    job: Job,
    environment: Environment,
    log: PathBuf,
    wish: nccl_log::Wish,
}

/// One worker with all ranks, or one for each.
fn workers(plan: &Plan, setup: &Setup, private: &Private, planned: Planned, seed: u64) -> Vec<Worker> {
    let job = job(plan, setup, planned, seed);
    let subsystems = if planned.untimed { UNTIMED_SUBSYSTEMS } else { TIMED_SUBSYSTEMS };
    let worker = |job: Job, mut environment: Environment, log: PathBuf| {
        if setup.emulation.is_some() {
            environment.set("NCCLSWEEP_EMULATE_SEED", &seed.to_string(), Origin::Tool);
        }
        let wish = nccl_log::direct(&mut environment, subsystems, &log);
        Worker { job, environment, log, wish }
    };
    if !planned.arm.is_processes() {
        return vec![worker(job, setup.environment(plan, planned.arm), private.file("visit.nccl"))];
    }
    let of_rank = |rank: u32| {
        let job = Job { ranks: rank..rank + 1, memory: Some(MEMORY_FD), ..job.clone() };
        worker(job, setup.rank_environment(plan, planned.arm, rank), private.file(&format!("visit.nccl.{rank}")))
    };
    (0..plan.ranks).map(of_rank).collect()
}

fn start(plan: &Plan, planned: Planned, workers: &[Worker], output: &Path) -> std::io::Result<Crew<wire::Event>> {
    let arguments = [WORKER.to_owned(), WIRE_FD.to_string()];
    let mut specs = Vec::with_capacity(workers.len());
    for Worker { environment, job, .. } in workers {
        specs.push((Spec { wrap: &plan.wrap, arguments: &arguments, environment, output }, Some(job)));
    }
    let memory: Option<OwnedFd> = planned.arm.is_processes().then(crew::memory).transpose()?;
    Crew::start(&specs, memory.as_ref())
}

/// What NCCL's log tells and, of a visit that failed, the last words of its worker and what they mean.
fn add_evidence(visit: &mut Visit, output: &Path, logs: &[&Path]) {
    if !visit.outcome.is_completed() && logs.iter().any(|log| size(log) > MOST_READ_OF_FAILED) {
        // Which lines those are says all; reading a flood to its end would take minutes.
        let largest = logs.iter().max_by_key(|log| size(log));
        visit.evidence = largest.into_iter().chain([&output]).rev().flat_map(|file| last_lines(file)).collect();
        return;
    }
    let log = crate::nccl::log::read_files(logs).ok();
    if !visit.outcome.is_completed() {
        visit.evidence = last_lines(output);
        let warnings = log.iter().flat_map(|log| &log.warnings).map(|warning| shorten(&warning.message));
        visit.evidence.extend(warnings.take(EVIDENCE_LINES));
    }
    visit.read = log.as_ref().map(Read::of);
}

/// Bytes of a file, none when it is not there.
fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}

fn spawn_message(plan: &Plan, error: &std::io::Error) -> String {
    match plan.wrap.first() {
        Some(wrap) => format!("`{wrap}` of --wrap: {error}"),
        None => error.to_string(),
    }
}

fn job(plan: &Plan, setup: &Setup, planned: Planned, salt: u64) -> Job {
    let least = Measure { graph_length: 1, replays: 1, launches: 1, batches: 1, calls: 1, checks: 1, passes: 1 };
    let (communicators, measure) =
        if planned.untimed { (1, least) } else { (plan.communicators, plan.measure.clone()) };
    let devices: Vec<u32> = (0..plan.ranks as usize).map(|rank| plan.devices[rank % plan.devices.len()]).collect();
    let (version, cases, in_turn) = (wire::VERSION, plan.cases.clone(), planned.arm.in_turn());
    let cpus = if plan.cpu_affinity.is_none() { Vec::new() } else { setup.cpus(plan) };
    Job { version, cases, devices, ranks: 0..plan.ranks, cpus, memory: None, communicators, in_turn, measure, salt }
}

/// A seed for one visit, so that visits differ and a run repeats.
fn visit_seed(seed: u64, index: u32) -> u64 {
    use rand::{RngExt, SeedableRng};
    let mut generator = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(u64::MAX - u64::from(index));
    generator.random()
}

/// Output and log of one worker beyond which it is killed: an INFO log of a visit is below 1 MiB.
const MOST_OUTPUT: u64 = 256 << 20;

/// Log of a failed visit beyond which nothing but its last lines is read.
const MOST_READ_OF_FAILED: u64 = 16 << 20;

/// How many lines of a failed worker's output are kept, and how long each.
const EVIDENCE_LINES: usize = 12;
const EVIDENCE_WIDTH: usize = 400;

/// The end of a file as text, empty when it cannot be read.
fn end_of(file: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(64 << 10)))?;
        let mut bytes = Vec::new();
        file.take(64 << 10).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// The last lines of a file, each at most so long.
fn last_lines(file: &Path) -> Vec<String> {
    let text = end_of(file);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(EVIDENCE_LINES)..];
    last.iter().map(|line| shorten(line)).collect()
}

fn shorten(line: &str) -> String {
    line.chars().take(EVIDENCE_WIDTH).collect()
}

#[cfg(test)]
mod tests;
