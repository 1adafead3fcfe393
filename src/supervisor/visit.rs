//! One visit: a worker with its environment, or one for each rank, listened to from the first word to the end.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::agents::Hosts;
use super::agents::first::{Others, Remains};
use super::crew::{self, Channel, Crew};
pub use super::deadlines::Deadlines;
use super::deadlines::Pace;
use super::diagnose::diagnose;
use super::health::Before;
use super::prepare::lead_to_libraries;
use super::private::Private;
use super::process::{LINK_FD, MEMORY_FD, Spec, WIRE_FD};
use super::watch::Watch;
use super::{nccl_log, provenance};
use crate::plan::environment::{Environment, Origin};
use crate::plan::schedule::{Arm, Launch, Measure, Plan};
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

/// By which NCCL tells hosts apart, where they do not tell themselves apart.
pub(super) const HOST_ID: &str = "NCCL_HOSTID";

/// What a worker's environment needs beside the plan.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(Default))]
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
    /// Which of several agents this is, and who the others are.
    pub hosts: Hosts,
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
            // Streams of a process that share a hardware queue wait for each other, and so do the ranks behind them. MPS has too
            // few of them for many processes that ask for more (docs/measuring.md).
            if arm.launch == Launch::Threads && environment.get(CONNECTIONS).is_none() {
                environment.set(CONNECTIONS, "32", Origin::Tool);
            }
        }
        // The executable itself is the plugin. One that is merely inherited gives way, since what it records is not ours to
        // time; one that the plan asks for stays, and what it costs can be measured.
        if environment.origin("NCCL_PROFILER_PLUGIN").is_none_or(|origin| origin == Origin::Inherited) {
            environment.set("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN", Origin::Tool);
        }
        if let (Some(id), None) = (&self.hosts.id, environment.get(HOST_ID)) {
            environment.set(HOST_ID, id, Origin::Tool);
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
        // Lists of CPUs are those of a host's ranks, the same on each.
        let on_host = |rank: u32| rank - plan.ranks_of(plan.agent_of(rank)).start;
        (0..plan.ranks).map(|rank| plan.cpu_affinity.of_rank(on_host(rank), near(rank))).collect()
    }
}

/// One visit to make.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Planned {
    /// Position in the run.
    pub index: u32,
    /// Round.
    pub round: u32,
    /// What to measure.
    pub arm: Arm,
    /// Made for the proof only, of a library that does not tell a profiler of all calls: NCCL logs every choice, and nothing is
    /// timed.
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
    let output = private.file("visit.out");
    let workers = workers(plan, setup, private, planned);
    let others = setup.hosts.others.as_ref();
    let flooded = || written(&workers, &output).or_else(|| others.and_then(|others| others.flooded()));
    let interrupted = || interrupted() || others.is_some_and(|others| others.interrupted());
    let outcome = match start_everywhere(plan, setup, planned, &workers, &output, &interrupted) {
        Err(outcome) => outcome,
        Ok(mut crew) => watch.follow(&mut crew, &flooded, &interrupted, progress),
    };
    let mut visit = watch.finish(outcome);
    let gone = Instant::now();
    let remains = others.map(|others| others.take_remains()).unwrap_or_default();
    let mut logs: Vec<PathBuf> = workers.iter().map(|worker| worker.log.clone()).collect();
    logs.extend(keep(&remains, private));
    add_evidence(&mut visit, &output, &logs, &remains);
    let log = logs.iter().map(|log| end_of(log)).collect::<String>();
    visit.diagnosis = diagnose(plan, &visit, &log, &setup.hosts.apart);
    let pid = |rank| visit.worker.as_ref().and_then(|facts| facts.pid_of(rank));
    workers.iter().for_each(|worker| worker.grant(pid(worker.job.ranks.start)));
    for file in logs.into_iter().chain([output]) {
        let _ = std::fs::remove_file(file);
    }
    visit.timings.reading = gone.elapsed().as_secs_f64();
    visit
}

/// A worker to start.
pub(super) struct Worker {
    pub(super) job: Job,
    environment: Environment,
    pub(super) log: PathBuf,
    wish: nccl_log::Wish,
}

impl Worker {
    /// Hands NCCL's log on to the file that the user asked for; `pid` is the worker's. The file is a favour: a visit is not
    /// lost because it cannot be written.
    pub(super) fn grant(&self, pid: Option<u32>) {
        if let Some(pid) = pid.filter(|_| self.log.exists()) {
            let _ = self.wish.grant(&self.log, pid, &provenance::host());
        }
    }
}

/// The workers of this agent: one with all its ranks, or one for each.
pub(super) fn workers(plan: &Plan, setup: &Setup, private: &Private, planned: Planned) -> Vec<Worker> {
    let seed = visit_seed(plan.seed, planned.index);
    let host = plan.ranks_of(setup.hosts.agent);
    let job = Job { host: host.clone(), ..job(plan, setup, planned, seed) };
    // The first host is connected to each of the others, these to it alone.
    let links = if setup.hosts.agent == 0 { plan.agents.len().saturating_sub(1) } else { 1 };
    let subsystems = if planned.untimed { UNTIMED_SUBSYSTEMS } else { TIMED_SUBSYSTEMS };
    let worker = |ranks: std::ops::Range<u32>| {
        let mut environment = match planned.arm.is_processes() {
            true => setup.rank_environment(plan, planned.arm, ranks.start),
            false => setup.environment(plan, planned.arm),
        };
        if setup.emulation.is_some() {
            environment.set("NCCLSWEEP_EMULATE_SEED", &seed.to_string(), Origin::Tool);
        }
        let log = private.file(&format!("visit.nccl.{}", ranks.start));
        let wish = nccl_log::direct(&mut environment, subsystems, &log);
        let links = if ranks.start == host.start { (LINK_FD..).take(links).collect() } else { Vec::new() };
        let memory = planned.arm.is_processes().then_some(MEMORY_FD);
        Worker { job: Job { ranks, memory, links, ..job.clone() }, environment, log, wish }
    };
    plan.workers(planned.arm).into_iter().filter(|ranks| host.contains(&ranks.start)).map(worker).collect()
}

/// Starts the workers of all agents.
fn start_everywhere(
    plan: &Plan,
    setup: &Setup,
    planned: Planned,
    workers: &[Worker],
    output: &Path,
    interrupted: &dyn Fn() -> bool,
) -> Result<Crew<wire::Event>, Outcome> {
    let channel = mpsc::channel();
    let Some(others) = &setup.hosts.others else {
        return start(plan, planned, workers, output, channel, Vec::new());
    };
    let started = others
        .begin(plan, planned, &channel.0, setup.deadlines.setup, interrupted)
        .and_then(|links| start(plan, planned, workers, output, channel, links));
    match started {
        Ok(mut crew) => {
            crew.join(Arc::clone(others), plan.workers(planned.arm).len() - workers.len());
            Ok(crew)
        }
        Err(outcome) => {
            Others::end(others);
            if !others.wait_for_all(setup.deadlines.phase, &|| false) {
                others.give_up_unended();
            }
            Err(outcome)
        }
    }
}

/// Starts the workers of this agent; the first gets the connections to other hosts.
pub(super) fn start(
    plan: &Plan,
    planned: Planned,
    workers: &[Worker],
    output: &Path,
    channel: Channel<wire::Event>,
    links: Vec<TcpStream>,
) -> Result<Crew<wire::Event>, Outcome> {
    let arguments = [WORKER.to_owned(), WIRE_FD.to_string()];
    let mut specs = Vec::with_capacity(workers.len());
    for Worker { environment, job, .. } in workers {
        specs.push((Spec { wrap: &plan.wrap, arguments: &arguments, environment, output }, Some(job)));
    }
    let memory = planned.arm.is_processes().then(crew::memory).transpose();
    let links = links.into_iter().map(OwnedFd::from).collect();
    memory
        .and_then(|memory| Crew::start_on(channel, &specs, memory.as_ref(), links))
        .map_err(|error| Outcome::SpawnFailed { message: spawn_message(plan, &error) })
}

/// MiB that the workers of this agent have written, when they are too many.
pub(super) fn written(workers: &[Worker], output: &Path) -> Option<u64> {
    let bytes = size(output) + workers.iter().map(|worker| size(&worker.log)).sum::<u64>();
    (bytes > MOST_OUTPUT).then_some(bytes >> 20)
}

/// Keeps the logs that other agents sent, to be read with our own.
fn keep(remains: &[Remains], private: &Private) -> Vec<PathBuf> {
    let lefts = remains.iter().flat_map(|remains| &remains.workers);
    let kept = lefts.filter_map(|left| {
        let file = private.file(&format!("visit.nccl.{}", left.rank));
        std::fs::write(&file, &left.log).ok().map(|()| file)
    });
    kept.collect()
}

/// What NCCL's log tells and, of a visit that failed, the last words of its worker and what they mean.
fn add_evidence(visit: &mut Visit, output: &Path, logs: &[PathBuf], remains: &[Remains]) {
    if !visit.outcome.is_completed() && logs.iter().any(|log| size(log) > MOST_READ_OF_FAILED) {
        // Which lines those are says all; reading a flood to its end would take minutes.
        let largest = logs.iter().max_by_key(|log| size(log));
        let files = [output].into_iter().chain(largest.map(PathBuf::as_path));
        visit.evidence = files.flat_map(last_lines).collect();
        return;
    }
    let paths: Vec<&Path> = logs.iter().map(PathBuf::as_path).collect();
    let log = crate::nccl::log::read_files(&paths).ok();
    if !visit.outcome.is_completed() {
        visit.evidence = last_lines(output);
        let elsewhere = |of: &Remains| of.output.iter().map(|line| format!("{}: {line}", of.name)).collect::<Vec<_>>();
        visit.evidence.extend(remains.iter().flat_map(elsewhere));
        let warnings = log.iter().flat_map(|log| &log.warnings).map(|warning| shorten(&warning.message));
        visit.evidence.extend(warnings.take(EVIDENCE_LINES));
    }
    visit.read = log.as_ref().map(Read::of);
}

/// Bytes of a file, none when it is not there.
pub(super) fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}

fn spawn_message(plan: &Plan, error: &std::io::Error) -> String {
    match plan.wrap.first() {
        Some(wrap) => format!("`{wrap}` of --wrap: {error}"),
        None => error.to_string(),
    }
}

fn job(plan: &Plan, setup: &Setup, planned: Planned, salt: u64) -> Job {
    let least = Measure {
        graph_length: 1,
        replays: 1,
        launches: 1,
        batches: 1,
        calls: 1,
        checks: 1,
        passes: 1,
        rotate: false,
        keep: false,
    };
    let (communicators, measure) =
        if planned.untimed { (1, least) } else { (plan.communicators, plan.measure.clone()) };
    let devices: Vec<u32> = (0..plan.ranks as usize).map(|rank| plan.devices[rank % plan.devices.len()]).collect();
    let (version, cases, in_turn) = (wire::VERSION, plan.cases.clone(), planned.arm.in_turn());
    let register = planned.arm.register;
    let cpus = if plan.cpu_affinity.is_none() { Vec::new() } else { setup.cpus(plan) };
    let (ranks, host, links, memory) = (0..plan.ranks, 0..plan.ranks, Vec::new(), None);
    Job { version, cases, devices, ranks, host, links, cpus, memory, communicators, in_turn, register, measure, salt }
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
pub(super) fn last_lines(file: &Path) -> Vec<String> {
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
