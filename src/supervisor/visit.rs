//! One visit: a worker with its environment, listened to from its first word to its end.

use std::path::Path;
use std::time::{Duration, Instant};

use super::child::{Child, Heard, Spec, WIRE_FD, signal_of};
use super::prepare::lead_to_libraries;
use super::private::Private;
use super::{nccl_log, provenance};
use crate::plan::environment::{Environment, Origin};
use crate::plan::schedule::{Arm, Measure, Plan};
use crate::proof::{Read, TIMED_SUBSYSTEMS, UNTIMED_SUBSYSTEMS};
use crate::record::visit::{At, Outcome, Phase, Timings, UsedBy, Visit};
use crate::wire::{self, Event, Job, Received};

/// The hidden command that makes the executable a worker.
pub const WORKER: &str = "__worker";

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
}

/// Settings of the emulator.
#[derive(Clone, Debug)]
pub struct Emulation {
    /// Its shared object, which stands in for the host's raw clock too.
    pub library: std::path::PathBuf,
    /// Name of the emulated box.
    pub topology: String,
}

/// How long a worker may stay silent.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Until it has started, and for each communicator's init: driver and NCCL set up every GPU.
    pub setup: Duration,
    /// In every other phase.
    pub phase: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { setup: Duration::from_secs(180), phase: Duration::from_secs(60) }
    }
}

impl Deadlines {
    /// The same for every phase.
    #[must_use]
    pub fn all(deadline: Duration) -> Self {
        Self { setup: deadline, phase: deadline }
    }

    fn of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Start | Phase::Init | Phase::First => self.setup,
            Phase::WarmUp | Phase::Capture | Phase::Timing | Phase::Check | Phase::Teardown => self.phase,
        }
    }
}

impl Setup {
    /// The whole environment of the workers of an arm: inherited, base, the set, and what must be set for them to run.
    #[must_use]
    pub fn environment(&self, plan: &Plan, arm: Arm) -> Environment {
        let mut environment = Environment::inherit(self.inherited.iter().cloned(), plan.clean_env)
            .layer(&plan.base, Origin::Base)
            .layer(&plan.sets[arm.set].vars, Origin::Set);
        lead_to_libraries(&mut environment, &self.library_folders[arm.library], self.emulation.as_ref());
        if plan.oversubscribed() {
            environment.set("NCCL_MULTI_RANK_GPU_ENABLE", "1", Origin::Tool);
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

/// What happens while a visit is under way.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The worker entered a phase.
    Phase(At),
    /// A replicate was measured.
    Replicate(&'a crate::record::visit::Replicate),
}

/// Makes one visit: starts a worker, listens until it is done or its deadline passes, and says how it ended.
pub fn visit(
    plan: &Plan,
    setup: &Setup,
    private: &Private,
    planned: Planned,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Visit {
    let mut watch = Watch::new(planned);
    let mut environment = setup.environment(plan, planned.arm);
    let seed = visit_seed(plan.seed, planned.index);
    if setup.emulation.is_some() {
        environment.set("NCCLSWEEP_EMULATE_SEED", &seed.to_string(), Origin::Tool);
    }
    let (output, log) = (private.file("visit.out"), private.file("visit.nccl"));
    let subsystems = if planned.untimed { UNTIMED_SUBSYSTEMS } else { TIMED_SUBSYSTEMS };
    let wish = nccl_log::direct(&mut environment, subsystems, &log);
    let arguments = [WORKER.to_owned(), WIRE_FD.to_string()];
    let spec = Spec { wrap: &plan.wrap, arguments: &arguments, environment: &environment, output: &output };
    let outcome = match Child::spawn(&spec, Some(&job(plan, planned, seed))) {
        Err(error) => Outcome::SpawnFailed { message: spawn_message(plan, &error) },
        Ok(mut child) => watch.follow(&mut child, setup.deadlines, interrupted, progress),
    };
    let visit = watch.finish(outcome, &output, &log);
    if let (Some(worker), true) = (&visit.worker, log.exists()) {
        // The user's file is a favour: a visit is not lost because it cannot be written.
        let _ = wish.grant(&log, worker.pid, &provenance::host());
    }
    for file in [output, log] {
        let _ = std::fs::remove_file(file);
    }
    visit
}

fn spawn_message(plan: &Plan, error: &std::io::Error) -> String {
    match plan.wrap.first() {
        Some(wrap) => format!("`{wrap}` of --wrap: {error}"),
        None => error.to_string(),
    }
}

fn job(plan: &Plan, planned: Planned, salt: u64) -> Job {
    let least = Measure { graph_length: 1, replays: 1, launches: 1, batches: 1, calls: 1 };
    let (communicators, measure) =
        if planned.untimed { (1, least) } else { (plan.communicators, plan.measure.clone()) };
    let devices = (0..plan.ranks as usize).map(|rank| plan.devices[rank % plan.devices.len()]).collect();
    Job { version: wire::VERSION, cases: plan.cases.clone(), devices, communicators, measure, salt }
}

/// A seed for one visit, so that visits differ and a run repeats.
fn visit_seed(seed: u64, index: u32) -> u64 {
    use rand::{RngExt, SeedableRng};
    let mut generator = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(u64::MAX - u64::from(index));
    generator.random()
}

/// What is learnt of a visit while it runs.
struct Watch {
    visit: Visit,
    spawned: Instant,
    /// When the current phase began.
    since: Instant,
    at: Option<At>,
    first_states: Option<Vec<crate::gpu::nvml::GpuState>>,
    /// The worker's own last word on how it ended.
    verdict: Option<Outcome>,
}

impl Watch {
    fn new(planned: Planned) -> Self {
        let Planned { index, round, arm, untimed } = planned;
        let visit = Visit {
            index,
            round,
            arm,
            untimed,
            started: jiff::Timestamp::now(),
            seconds: 0.0,
            outcome: Outcome::Interrupted,
            worker: None,
            gpus: Vec::new(),
            timings: Timings::default(),
            evidence: Vec::new(),
            used: Vec::new(),
            read: None,
            replicates: Vec::new(),
        };
        let now = Instant::now();
        Self { visit, spawned: now, since: now, at: None, first_states: None, verdict: None }
    }

    fn follow(
        &mut self,
        child: &mut Child<Event>,
        deadlines: Deadlines,
        interrupted: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Outcome {
        while self.verdict.is_none() {
            let limit = deadlines.of(self.at.map_or(Phase::Start, |at| at.phase));
            match child.hear(self.since + limit, interrupted) {
                Heard::Received(Received::Message(event)) => self.note(event, progress),
                Heard::Received(Received::Garbage(message)) => self.verdict = Some(Outcome::BrokenWire { message }),
                Heard::Received(Received::End) => break,
                Heard::Silence => {
                    self.verdict = Some(Outcome::TimedOut { at: self.at, seconds: limit.as_secs() });
                }
                Heard::Interrupted => self.verdict = Some(Outcome::Interrupted),
            }
        }
        self.ended(child, deadlines)
    }

    fn note(&mut self, event: Event, progress: &mut dyn FnMut(Progress)) {
        match event {
            Event::Hello { facts, .. } => {
                self.clock(|timings| &mut timings.exec);
                self.visit.worker = Some(facts);
            }
            Event::Phase { at } => {
                self.account();
                self.at = Some(at);
                progress(Progress::Phase(at));
            }
            Event::Replicate { replicate } => {
                progress(Progress::Replicate(&replicate));
                self.visit.replicates.push(replicate);
            }
            Event::Used { used } => self.note_used(used),
            Event::Gpus { states } => match self.first_states.take() {
                None => self.first_states = Some(states),
                Some(before) => self.visit.gpus = before.into_iter().zip(states).collect(),
            },
            Event::Failed { at, error } => self.verdict = Some(Outcome::Failed { at, error }),
            Event::WorkerError { message } => self.verdict = Some(Outcome::WorkerError { message }),
            Event::Done => {
                self.account();
                let wrong = self.visit.replicates.iter().any(|replicate| replicate.checks.wrong > 0);
                self.verdict = Some(if wrong { Outcome::WrongData } else { Outcome::Completed });
            }
        }
    }

    /// Communicators that used the same on the same ranks share one entry.
    fn note_used(&mut self, used: UsedBy) {
        let same =
            |known: &&mut UsedBy| known.case == used.case && known.used == used.used && known.ranks == used.ranks;
        match self.visit.used.iter_mut().find(same) {
            Some(known) => known.communicators.extend(used.communicators),
            None => self.visit.used.push(used),
        }
    }

    /// The child's end decides where it left no word of its own.
    fn ended(&mut self, child: &mut Child<Event>, deadlines: Deadlines) -> Outcome {
        let last_word = self.verdict.take();
        let goes_by_itself = matches!(
            last_word,
            None | Some(Outcome::Completed | Outcome::WrongData | Outcome::Failed { .. } | Outcome::WorkerError { .. })
        );
        let limit = if goes_by_itself { deadlines.phase } else { Duration::ZERO };
        let status = match child.wait(limit) {
            Ok(Some(status)) => Ok(status),
            Ok(None) | Err(_) => child.end(),
        };
        self.clock(|timings| &mut timings.exit);
        match (last_word, status) {
            (Some(word), _) => word,
            (None, Err(error)) => {
                Outcome::WorkerError { message: format!("cannot tell how the worker ended: {error}") }
            }
            (None, Ok(status)) => match signal_of(status) {
                Some(signal) => Outcome::Crashed { signal, at: self.at },
                None => Outcome::Exited { code: status.code().unwrap_or(-1), at: self.at },
            },
        }
    }

    /// Adds the time since the last event to the phase that ended.
    fn account(&mut self) {
        match self.at.map(|at| at.phase) {
            None | Some(Phase::Start) => self.clock(|timings| &mut timings.start),
            Some(Phase::Init | Phase::First) => self.clock(|timings| &mut timings.communicators),
            Some(Phase::WarmUp) => self.clock(|timings| &mut timings.warm_up),
            Some(Phase::Capture | Phase::Timing) => self.clock(|timings| &mut timings.measuring),
            Some(Phase::Check) => self.clock(|timings| &mut timings.checking),
            Some(Phase::Teardown) => self.clock(|timings| &mut timings.teardown),
        }
    }

    fn clock(&mut self, field: impl Fn(&mut Timings) -> &mut f64) {
        let now = Instant::now();
        *field(&mut self.visit.timings) += (now - self.since).as_secs_f64();
        self.since = now;
    }

    fn finish(mut self, outcome: Outcome, output: &Path, log: &Path) -> Visit {
        self.visit.seconds = self.spawned.elapsed().as_secs_f64();
        let log = crate::nccl::log::read_file(log).ok();
        if !outcome.is_completed() {
            self.visit.evidence = last_lines(output);
            let warnings = log.iter().flat_map(|log| &log.warnings).map(|warning| shorten(&warning.message));
            self.visit.evidence.extend(warnings.take(EVIDENCE_LINES));
        }
        self.visit.read = log.as_ref().map(Read::of);
        self.visit.outcome = outcome;
        self.visit
    }
}

/// How many lines of a failed worker's output are kept, and how long each.
const EVIDENCE_LINES: usize = 12;
const EVIDENCE_WIDTH: usize = 400;

/// The last lines of a file; reads its end only.
fn last_lines(file: &Path) -> Vec<String> {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(file)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(64 << 10)))?;
        let mut bytes = Vec::new();
        file.take(64 << 10).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(EVIDENCE_LINES)..];
    last.iter().map(|line| shorten(line)).collect()
}

fn shorten(line: &str) -> String {
    line.chars().take(EVIDENCE_WIDTH).collect()
}

#[cfg(test)]
mod tests;
