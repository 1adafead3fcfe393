//! What is learnt of a visit while its workers run, and how it ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use super::agents::first::Others;
use super::awake::Awake;
use super::child::{signal_behind, signal_of};
use super::crew::{Crew, Heard};
use super::deadlines::Pace;
use super::visit::{Planned, Progress};
use crate::gpu::nvml::GpuState;
use crate::plan::schedule::Plan;
use crate::record::visit::{At, Outcome, Phase, RankFacts, RanksDoing, UsedBy, Visit, WorkerFacts};
use crate::wire::{Event, Question, Received};

/// How long a worker whose deadline has passed may take to tell what its ranks are doing.
const ANSWER: Duration = Duration::from_millis(500);

/// The same where workers are on several hosts.
const ANSWER_OVER_NETWORK: Duration = Duration::from_secs(3);
/// How long after an interruption the loss of a host may be seen that was the cause of it.
const SETTLE: Duration = Duration::from_millis(100);

/// How long after a rank was told of another's end that end may be seen.
const NEWS: Duration = Duration::from_millis(500);

/// What is learnt of a visit while it runs.
pub(super) struct Watch<'a> {
    plan: &'a Plan,
    pace: &'a mut Pace,
    visit: Visit,
    spawned: Instant,
    /// Since the current phase began.
    since: Awake,
    at: Option<At>,
    /// The ranks of each worker.
    workers: Vec<Range<u32>>,
    /// What each host's first worker told of its GPUs, before and after.
    states: BTreeMap<usize, Vec<Vec<GpuState>>>,
    /// The last word on how it ended, and the worker that said it or fell silent.
    verdict: Option<Outcome>,
    from: usize,
    /// What each worker said of itself.
    facts: BTreeMap<usize, WorkerFacts>,
    /// Workers that have done all that was asked.
    done: BTreeSet<usize>,
    /// What the ranks of each agent are doing, asked for at the deadline of the current phase.
    doing: BTreeMap<usize, Vec<RanksDoing>>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(plan: &'a Plan, planned: Planned, pace: &'a mut Pace) -> Self {
        let visit = planned.visit();
        Self {
            plan,
            pace,
            visit,
            spawned: Instant::now(),
            since: Awake::start(),
            at: None,
            workers: plan.workers(planned.arm),
            states: BTreeMap::new(),
            verdict: None,
            from: 0,
            facts: BTreeMap::new(),
            done: BTreeSet::new(),
            doing: BTreeMap::new(),
        }
    }

    /// What is wrong when the worker loaded another library than its arm's: a command of `--wrap` can change the way to it,
    /// and an update the file.
    fn other_library(&self, facts: &WorkerFacts) -> Option<String> {
        let wanted = &self.plan.libraries[self.visit.arm.library];
        let same_file =
            |loaded: &String| Path::new(loaded).canonicalize().is_ok_and(|to| to == Path::new(&wanted.path));
        match &facts.nccl_path {
            Some(loaded) if !same_file(loaded) => {
                Some(format!("it loaded NCCL from {loaded}, not from {}", wanted.path))
            }
            _ if facts.nccl != wanted.version => {
                Some(format!("it loaded NCCL {}, not {}: {} was replaced", facts.nccl, wanted.version, wanted.path))
            }
            _ => None,
        }
    }

    /// Listens until all workers have said their last word, one has failed or died, a deadline has passed, or the visit must
    /// end for another reason. Then none of them is left.
    pub(super) fn follow(
        &mut self,
        crew: &mut Crew<Event>,
        flooded: &dyn Fn() -> Option<u64>,
        interrupted: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Outcome {
        let mut asked = false;
        while self.verdict.is_none() {
            let limit = self.pace.limit(self.at, self.plan);
            let answer = if crew.others().is_some() { ANSWER_OVER_NETWORK } else { ANSWER };
            let allowed = limit + if asked { answer } else { Duration::ZERO };
            let enough = || interrupted() || flooded().is_some() || lost(crew).is_some();
            let (from, heard) = crew.hear(&self.since, allowed, enough);
            match heard {
                // No worker: who said it miscounts.
                Heard::Received(_) if from >= self.workers.len() => continue,
                // A worker that has done its part may go before the others.
                Heard::Received(Received::End) if self.done.contains(&from) => continue,
                Heard::Received(_) => self.from = from,
                Heard::Silence | Heard::Interrupted => {}
            }
            match heard {
                Heard::Received(Received::Message(Event::Stuck { ranks })) if asked => {
                    self.doing.insert(self.agent_of(from), ranks);
                    if self.doing.len() == self.plan.agents.len().max(1) {
                        self.verdict = Some(self.timed_out(limit));
                    }
                }
                Heard::Received(Received::Message(event)) => {
                    asked &= !matches!(event, Event::Phase { .. });
                    self.note(event, from, crew.size(), progress);
                }
                Heard::Received(Received::Garbage(message)) => self.verdict = Some(Outcome::BrokenWire { message }),
                Heard::Received(Received::End) => break,
                Heard::Silence if !asked => {
                    self.doing.clear();
                    crew.ask(Question::Doing);
                    asked = true;
                }
                Heard::Silence => {
                    crew.others().into_iter().for_each(Others::give_up_deaf);
                    self.verdict = Some(self.timed_out(limit));
                }
                Heard::Interrupted => {
                    if crew.others().is_some() {
                        // A launcher that has seen a process die interrupts the others: which came first is known soon.
                        std::thread::sleep(SETTLE);
                    }
                    let flood = flooded().filter(|_| !interrupted());
                    self.verdict =
                        Some(flood.map_or(Outcome::Interrupted, |mib| Outcome::Flooded { mib, at: self.at }));
                }
            }
        }
        if matches!(&self.verdict, Some(Outcome::Failed { error, .. }) if error.is_of_a_peer()) {
            self.look_behind(crew);
        }
        let ended = self.ended(crew, flooded, interrupted);
        let lost = match ended {
            // What its host kept is a part of it.
            Outcome::Completed => crew.others().and_then(Others::lost_before_its_end),
            Outcome::WrongData => None,
            // Whatever its workers seem to have done: a host that is gone explains it.
            _ => lost(crew),
        };
        lost.unwrap_or(ended)
    }

    /// A rank that NCCL told of another's end did not fail by itself: what is told of that one meanwhile decides.
    fn look_behind(&mut self, crew: &Crew<Event>) {
        let (waiting, news) = (Awake::start(), if crew.others().is_some() { ANSWER_OVER_NETWORK } else { NEWS });
        let mut told = BTreeSet::from([self.from]);
        loop {
            let verdict = match crew.hear(&waiting, news, || lost(crew).is_some()) {
                (from, Heard::Received(_)) if from >= self.workers.len() => continue,
                (from, Heard::Received(Received::Message(Event::Failed { at, error }))) => {
                    told.insert(from);
                    if error.is_of_a_peer() {
                        continue;
                    }
                    (from, Some(Outcome::Failed { at, error }))
                }
                (from, Heard::Received(Received::Message(Event::WorkerError { message }))) => {
                    (from, Some(Outcome::WorkerError { message }))
                }
                (from, Heard::Received(Received::End)) if !told.contains(&from) && !self.done.contains(&from) => {
                    (from, None)
                }
                (_, Heard::Received(_)) => continue,
                (_, Heard::Silence | Heard::Interrupted) => return,
            };
            (self.from, self.verdict) = verdict;
            return;
        }
    }

    fn agent_of(&self, worker: usize) -> usize {
        self.workers.get(worker).map_or(0, |ranks| self.plan.agent_of(ranks.start))
    }

    /// The end of a visit of which nothing was heard, with what its ranks answered.
    fn timed_out(&mut self, limit: Duration) -> Outcome {
        let groups: Vec<RanksDoing> = std::mem::take(&mut self.doing).into_values().flatten().collect();
        let ranks = RanksDoing::of(RanksDoing::each(&groups));
        Outcome::TimedOut { at: self.at, seconds: limit.as_secs_f64(), ranks }
    }

    fn note(&mut self, event: Event, from: usize, workers: usize, progress: &mut dyn FnMut(Progress)) {
        match event {
            Event::Hello { facts, loading, .. } => {
                self.visit.timings.exec += self.lap();
                self.visit.timings.loaded(loading);
                // Of files elsewhere their agent knows.
                if self.agent_of(from) == 0
                    && let Some(message) = self.other_library(&facts)
                {
                    self.verdict = Some(Outcome::WorkerError { message });
                }
                self.facts.insert(from, facts);
            }
            Event::Phase { at } => {
                // A warm-up begins with one call that is looked at: how long that takes says nothing of the hundreds after it.
                if self.at != Some(at) {
                    self.learn();
                }
                self.account();
                self.at = Some(at);
                progress(Progress::Phase(at));
            }
            Event::Replicate { replicate } if replicate.samples_us.iter().any(|micros| *micros <= 0.0) => {
                // Stored, it would make the whole run unreadable.
                let message =
                    "a sample took no time that the clock can tell; --chain puts more calls into one".to_owned();
                self.verdict = Some(Outcome::WorkerError { message });
            }
            Event::Replicate { replicate } => {
                progress(Progress::Replicate(&replicate));
                self.visit.replicates.push(replicate);
            }
            Event::Used { used } => self.note_used(used),
            Event::Registered { of } => self.visit.registration.get_or_insert_default().add(of),
            Event::Gpus { states } => self.states.entry(from).or_default().push(states),
            // The phase asked about has ended meanwhile.
            Event::Stuck { .. } => {}
            Event::Failed { at, error } => self.verdict = Some(Outcome::Failed { at, error }),
            Event::WorkerError { message } => self.verdict = Some(Outcome::WorkerError { message }),
            Event::Done => {
                self.done.insert(from);
                if self.done.len() < workers {
                    return;
                }
                self.learn();
                self.account();
                let wrong = self.visit.replicates.iter().any(|replicate| replicate.checks.wrong > 0);
                self.verdict = Some(if wrong { Outcome::WrongData } else { Outcome::Completed });
            }
        }
    }

    /// Until the end there is an entry for each communicator: workers tell of their own ranks.
    fn note_used(&mut self, used: UsedBy) {
        let same = |known: &&mut UsedBy| {
            known.case == used.case && known.used == used.used && known.communicators == used.communicators
        };
        match self.visit.used.iter_mut().find(same) {
            Some(known) => {
                known.ranks.extend(used.ranks);
                known.ranks.sort_unstable();
            }
            None => self.visit.used.push(used),
        }
    }

    /// The end of the worker that fell silent decides where nothing was said.
    fn ended(
        &mut self,
        crew: &mut Crew<Event>,
        flooded: &dyn Fn() -> Option<u64>,
        interrupted: &dyn Fn() -> bool,
    ) -> Outcome {
        let last_word = self.verdict.take();
        let limit = self.pace.exit();
        let enough = || interrupted() || flooded().is_some();
        let gone = match &last_word {
            Some(Outcome::Completed | Outcome::WrongData) => crew.wait_for_all(limit, enough),
            // Others may wait for the one that failed, so they are not waited for.
            None | Some(Outcome::Failed { .. } | Outcome::WorkerError { .. }) => {
                crew.wait(self.from, limit, enough).map(|status| status.is_some())
            }
            Some(_) => Ok(false),
        };
        let ours = !gone.unwrap_or(false);
        let all_gone = crew.wait_for_all(Duration::ZERO, || false).unwrap_or(false);
        let ended = if all_gone { Ok(()) } else { crew.end() };
        let status = ended.and_then(|()| crew.wait(self.from, Duration::ZERO, || false));
        self.visit.timings.exit += self.lap();
        let rank = (crew.size() > 1).then(|| self.workers[self.from].start);
        // One of several may end before any has begun a phase.
        let begun = self.at.or(rank.map(|_| At { phase: Phase::Start, communicator: 0, case: None, rank }));
        let at = begun.map(|at| At { rank, ..at });
        match (last_word, status) {
            (Some(word), _) => word,
            // Our own kill says nothing of the worker: what counts is why it had to be.
            (None, _) if ours && interrupted() => Outcome::Interrupted,
            (None, _) if ours => match flooded() {
                Some(mib) => Outcome::Flooded { mib, at: self.at },
                None => Outcome::TimedOut { at, seconds: limit.as_secs_f64(), ranks: Vec::new() },
            },
            (None, Err(error)) => {
                Outcome::WorkerError { message: format!("cannot tell how the worker ended: {error}") }
            }
            (None, Ok(status)) => {
                let signal =
                    status.and_then(|status| signal_of(status).or_else(|| signal_behind(status, &self.plan.wrap)));
                match signal {
                    Some(signal) => Outcome::Crashed { signal, at },
                    None => Outcome::Exited { code: status.and_then(|status| status.code()).unwrap_or(-1), at },
                }
            }
        }
    }

    /// Lets later phases of the kind that ends now have time by what this one took.
    fn learn(&mut self) {
        self.pace.note(self.at, self.since.elapsed());
    }

    /// Adds the time since the last event to the phase that ended.
    fn account(&mut self) {
        let took = self.lap();
        self.visit.timings.add(self.at.map(|at| at.phase), took);
    }

    /// Seconds since the last event, which now is the last.
    fn lap(&mut self) -> f64 {
        std::mem::replace(&mut self.since, Awake::start()).elapsed().as_secs_f64()
    }

    pub(super) fn finish(mut self, outcome: Outcome) -> Visit {
        self.visit.seconds = self.spawned.elapsed().as_secs_f64();
        self.visit.outcome = outcome;
        self.visit.worker = one_of(self.facts, &self.workers, self.plan);
        let pairs = self.states.into_values().filter_map(|told| <[_; 2]>::try_from(told).ok());
        self.visit.gpus = pairs.flat_map(|[before, after]| before.into_iter().zip(after)).collect();
        self.visit.used = gathered(std::mem::take(&mut self.visit.used));
        self.visit
    }
}

/// A host that is gone.
fn lost(crew: &Crew<Event>) -> Option<Outcome> {
    crew.others().and_then(Others::lost)
}

/// The facts of rank 0's process, and of the others what can differ.
fn one_of(facts: BTreeMap<usize, WorkerFacts>, workers: &[Range<u32>], plan: &Plan) -> Option<WorkerFacts> {
    let mut all = facts.first_key_value().filter(|(place, _)| **place == 0)?.1.clone();
    if workers.len() == 1 {
        return Some(all);
    }
    let of = |(place, facts): (&usize, &WorkerFacts)| {
        let rank = |rank| RankFacts { rank, pid: facts.pid, variables: facts.variables.clone() };
        workers.get(*place).cloned().unwrap_or_default().map(rank).collect::<Vec<_>>()
    };
    all.others = facts.iter().flat_map(of).filter(|of| of.rank > 0).collect();
    for agent in 1..plan.agents.len() {
        let ranks = plan.ranks_of(agent);
        let place = workers.iter().position(|worker| worker.start == ranks.start)?;
        if let Some(own) = facts.get(&place) {
            all.devices.extend(own.devices.iter().cloned());
            let here = ranks.start as usize..ranks.end as usize;
            if let (Some(to), Some(from)) = (all.cpus.get_mut(here.clone()), own.cpus.get(here)) {
                to.clone_from_slice(from);
            }
        }
    }
    Some(all)
}

/// Communicators that used the same on the same ranks share one entry.
fn gathered(used: Vec<UsedBy>) -> Vec<UsedBy> {
    let mut all: Vec<UsedBy> = Vec::new();
    for one in used {
        let same = |known: &&mut UsedBy| known.case == one.case && known.used == one.used && known.ranks == one.ranks;
        match all.iter_mut().find(same) {
            Some(known) => known.communicators.extend(one.communicators),
            None => all.push(one),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::child::Spec;
    use super::super::deadlines::Deadlines;
    use super::*;
    use crate::collective::Size;
    use crate::gpu::GpuError;
    use crate::plan::environment::Environment;
    use crate::plan::schedule::{Arm, Launch};
    use crate::record::fixture;

    fn planned() -> Planned {
        Planned { index: 0, round: 0, arm: Arm::default(), untimed: false }
    }

    #[test]
    fn a_sample_without_length_fails_its_visit_and_is_not_kept() {
        let run = fixture::two_sets();
        let mut replicate = run.visits[0].replicates[0].clone();
        replicate.samples_us = vec![48.2, 0.0];
        let mut pace = Pace::new(Deadlines::default());
        let mut watch = Watch::new(&run.header.plan, planned(), &mut pace);
        watch.note(Event::Replicate { replicate }, 0, 1, &mut |_| {});
        assert!(matches!(watch.verdict, Some(Outcome::WorkerError { .. })), "{:?}", watch.verdict);
        assert_eq!(watch.visit.replicates, []);
    }

    /// How a visit ends whose ranks are shells that run these scripts, with `$failed` to say that another is gone.
    fn of_shells(scripts: [&str; 2]) -> Outcome {
        let text = "remote process exited or there was a network error".to_owned();
        let error = GpuError::Nccl { call: "ncclAllReduce".into(), code: 6, text, last_error: None };
        let at = At { phase: Phase::First, communicator: 0, case: Some(0), rank: Some(1) };
        let failed = serde_json::to_string(&Event::Failed { at, error }).unwrap();
        let environment = Environment::default();
        let output = tempfile::NamedTempFile::new().unwrap();
        let wraps = scripts.map(|script| ["/bin/sh".into(), "-c".into(), format!("failed='{failed}'; {script}")]);
        let spec = |wrap| Spec { wrap, arguments: &[], environment: &environment, output: output.path() };
        let specs: Vec<_> = wraps.iter().map(|wrap| (spec(wrap.as_slice()), Some("a job"))).collect();
        let mut plan = fixture::two_sets().header.plan;
        (plan.ranks, plan.devices, plan.wrap) = (2, vec![0, 1], Vec::new());
        let planned = Planned { arm: Arm { launch: Launch::Processes, ..Arm::default() }, ..planned() };
        let mut pace = Pace::new(Deadlines::default());
        let mut crew = Crew::start(&specs, None).unwrap();
        Watch::new(&plan, planned, &mut pace).follow(&mut crew, &|| None, &|| false, &mut |_| {})
    }

    #[test]
    fn a_rank_that_is_told_of_anothers_end_is_not_blamed_for_it() {
        let told = "echo \"$failed\" >&3; exit 1";
        let killed = of_shells(["sleep 0.1; kill -KILL $$", told]);
        assert_eq!(killed.to_string(), "crashed with SIGKILL during start on rank 0");
        let went = of_shells(["sleep 0.1; exit 3", told]);
        assert!(matches!(&went, Outcome::Exited { code: 3, .. }), "{went}");
        let own = r#"sleep 0.1; echo '{"event":"worker-error","message":"its own"}' >&3; exit 1"#;
        assert!(matches!(of_shells([own, told]), Outcome::WorkerError { message } if message == "its own"));
    }

    #[test]
    fn where_all_are_told_of_an_end_and_none_ends_by_itself_the_first_that_says_so_counts() {
        let told = "echo \"$failed\" >&3; exit 1";
        let ended = of_shells([told, told]);
        assert!(matches!(&ended, Outcome::Failed { error: GpuError::Nccl { code: 6, .. }, .. }), "{ended}");
    }

    #[test]
    fn a_first_call_does_not_shorten_the_deadline_of_the_warm_up_that_follows_it() {
        let mut plan = fixture::two_sets().header.plan;
        plan.cases[1].size = Size::elements(1 << 29);
        let at = |phase| At { phase, communicator: 0, case: Some(1), rank: None };
        let mut pace = Pace::new(Deadlines::default());
        let mut watch = Watch::new(&plan, planned(), &mut pace);
        for phase in [Phase::WarmUp, Phase::WarmUp] {
            watch.note(Event::Phase { at: at(phase) }, 0, 1, &mut |_| {});
        }
        // 600 calls of 0.1 s each: what eight GPUs behind host memory may take for a gigabyte until times have settled.
        assert!(watch.pace.limit(watch.at, &plan) > Duration::from_secs(60));
        watch.note(Event::Phase { at: at(Phase::Capture) }, 0, 1, &mut |_| {});
        assert_eq!(watch.pace.limit(Some(at(Phase::WarmUp)), &plan), Duration::from_secs(20), "now it is known");
    }
}
