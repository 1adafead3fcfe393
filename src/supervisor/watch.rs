//! What is learnt of a visit while its worker runs, and how it ended.

use std::path::Path;
use std::time::{Duration, Instant};

use super::child::{Child, Heard, signal_behind, signal_of};
use super::deadlines::Pace;
use super::visit::{Planned, Progress};
use crate::gpu::nvml::GpuState;
use crate::plan::schedule::Plan;
use crate::record::visit::{At, Outcome, Phase, RanksDoing, Timings, UsedBy, Visit, WorkerFacts};
use crate::wire::{Event, Question, Received};

/// How long a worker whose deadline has passed may take to tell what its ranks are doing.
const ANSWER: Duration = Duration::from_millis(500);

/// What is learnt of a visit while it runs.
pub(super) struct Watch<'a> {
    plan: &'a Plan,
    pace: &'a mut Pace,
    visit: Visit,
    spawned: Instant,
    /// When the current phase began.
    since: Instant,
    at: Option<At>,
    first_states: Option<Vec<GpuState>>,
    /// The worker's own last word on how it ended.
    verdict: Option<Outcome>,
    /// What the ranks are doing, asked for at the deadline of the current phase.
    doing: Option<Vec<RanksDoing>>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(plan: &'a Plan, planned: Planned, pace: &'a mut Pace) -> Self {
        let visit = planned.visit();
        let now = Instant::now();
        Self { plan, pace, visit, spawned: now, since: now, at: None, first_states: None, verdict: None, doing: None }
    }

    /// What is wrong when the worker loaded another library than its arm's: a command of `--wrap` can change the way to it.
    fn other_library(&self, facts: &WorkerFacts) -> Option<String> {
        let (wanted, loaded) = (&self.plan.libraries[self.visit.arm.library].path, facts.nccl_path.as_ref()?);
        let same = Path::new(loaded).canonicalize().is_ok_and(|loaded| loaded == Path::new(wanted));
        (!same).then(|| format!("it loaded NCCL from {loaded}, not from {wanted}"))
    }

    /// Listens until the worker has said its last word, its deadline has passed, or it must end for another reason.
    pub(super) fn follow(
        &mut self,
        child: &mut Child<Event>,
        flooded: &dyn Fn() -> Option<u64>,
        interrupted: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Outcome {
        let mut asked = false;
        while self.verdict.is_none() {
            let limit = self.pace.limit(self.at, self.plan);
            let until = self.since + limit + if asked { ANSWER } else { Duration::ZERO };
            match child.hear(until, || interrupted() || flooded().is_some()) {
                Heard::Received(Received::Message(Event::Stuck { ranks })) if asked => self.doing = Some(ranks),
                Heard::Received(Received::Message(event)) => {
                    asked &= !matches!(event, Event::Phase { .. });
                    self.note(event, progress);
                }
                Heard::Received(Received::Garbage(message)) => self.verdict = Some(Outcome::BrokenWire { message }),
                Heard::Received(Received::End) => break,
                Heard::Silence if !asked => {
                    child.tell(&Question::Doing);
                    asked = true;
                }
                Heard::Silence => self.doing = Some(Vec::new()),
                Heard::Interrupted => {
                    let flood = flooded().filter(|_| !interrupted());
                    self.verdict =
                        Some(flood.map_or(Outcome::Interrupted, |mib| Outcome::Flooded { mib, at: self.at }));
                }
            }
            if let Some(ranks) = self.doing.take() {
                self.verdict = Some(Outcome::TimedOut { at: self.at, seconds: limit.as_secs_f64(), ranks });
            }
        }
        self.ended(child, flooded, interrupted)
    }

    fn note(&mut self, event: Event, progress: &mut dyn FnMut(Progress)) {
        match event {
            Event::Hello { facts, .. } => {
                self.clock(|timings| &mut timings.exec);
                if let Some(message) = self.other_library(&facts) {
                    self.verdict = Some(Outcome::WorkerError { message });
                }
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
            // The phase asked about has ended meanwhile.
            Event::Stuck { .. } => {}
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
    fn ended(
        &mut self,
        child: &mut Child<Event>,
        flooded: &dyn Fn() -> Option<u64>,
        interrupted: &dyn Fn() -> bool,
    ) -> Outcome {
        let last_word = self.verdict.take();
        let goes_by_itself = matches!(
            last_word,
            None | Some(Outcome::Completed | Outcome::WrongData | Outcome::Failed { .. } | Outcome::WorkerError { .. })
        );
        let limit = if goes_by_itself { self.pace.exit() } else { Duration::ZERO };
        let (status, ours) = match child.wait(limit, || interrupted() || flooded().is_some()) {
            Ok(Some(status)) => (Ok(status), false),
            Ok(None) | Err(_) => (child.end(), true),
        };
        self.clock(|timings| &mut timings.exit);
        match (last_word, status) {
            (Some(word), _) => word,
            // Our own kill says nothing of the worker: what counts is why it had to be.
            (None, _) if ours && interrupted() => Outcome::Interrupted,
            (None, _) if ours => match flooded() {
                Some(mib) => Outcome::Flooded { mib, at: self.at },
                None => Outcome::TimedOut { at: self.at, seconds: limit.as_secs_f64(), ranks: Vec::new() },
            },
            (None, Err(error)) => {
                Outcome::WorkerError { message: format!("cannot tell how the worker ended: {error}") }
            }
            (None, Ok(status)) => match signal_of(status).or_else(|| signal_behind(status, &self.plan.wrap)) {
                Some(signal) => Outcome::Crashed { signal, at: self.at },
                None => Outcome::Exited { code: status.code().unwrap_or(-1), at: self.at },
            },
        }
    }

    /// Adds the time since the last event to the phase that ended.
    fn account(&mut self) {
        self.pace.note(self.at, self.since.elapsed());
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

    pub(super) fn finish(mut self, outcome: Outcome) -> Visit {
        self.visit.seconds = self.spawned.elapsed().as_secs_f64();
        self.visit.outcome = outcome;
        self.visit
    }
}
