//! The loop over rounds: all arms in random order, each visit recorded as it ends, until the plan says that it is enough.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::deadlines::Pace;
use super::health::{self, Sick};
use super::private::Private;
use super::risk;
use super::visit::{Planned, Progress, Setup, visit};
use crate::collective::Mode;
use crate::error::Result;
use crate::nccl::profiler::Told;
use crate::plan::schedule::{Arm, Plan, Rounds};
use crate::record::document;
use crate::record::journal::{Entry, Journal};
use crate::record::pairs::PairTried;
use crate::record::run::Header;
use crate::record::summary::{Judged, Tally, judge};
use crate::record::visit::{Outcome, Visit};
use crate::stats::Looks;

/// Why a sweep ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The planned rounds were made, or every cell is decided.
    Complete,
    /// The time limit would have been passed.
    TimeLimit,
    /// The last planned look was taken and some cells are still undecided.
    LastLook,
    /// Nothing is left that could be compared: the baseline failed, or every other arm did. Of a soak: every arm.
    NothingToCompare,
    /// A GPU wedged, or is gone: nothing measured from here on would count.
    Sick(Sick),
    /// The user interrupted.
    Interrupted,
}

/// Who is told of a sweep's progress.
pub trait Observer {
    /// A visit begins: its place in the round (from 0) and the visits of this round.
    fn visit_begins(&mut self, planned: Planned, place: usize, of: usize);
    /// A pair of GPUs is tried alone: its place among the pairs (from 0) and their number.
    fn pair_begins(&mut self, arm: Arm, gpus: [u32; 2], place: usize, of: usize);
    /// A pair was tried.
    fn pair_ended(&mut self, pair: &PairTried);
    /// Something happened in the visit under way.
    fn progress(&mut self, progress: Progress);
    /// A visit ended and is recorded.
    fn visit_ended(&mut self, visit: &Visit);
    /// All arms were visited `rounds` times and judged.
    fn round_ended(&mut self, rounds: u32, judged: &Judged);
}

/// A sweep under way.
pub struct Sweep<'a> {
    /// What to measure.
    pub plan: &'a Plan,
    /// What the run began with, of which its plan is.
    pub header: &'a Header,
    /// What workers need.
    pub setup: &'a Setup,
    /// Folder for links and logs.
    pub private: &'a Private,
    /// Where visits are recorded.
    pub journal: &'a mut Journal,
    /// What was measured so far; of a resumed journal when the run is continued.
    pub tally: &'a mut Tally,
    /// How long phases took, which decides how long they may take.
    pub pace: Pace,
    /// Whether the user has interrupted.
    pub interrupted: &'a dyn Fn() -> bool,
}

/// The part of a run that is made at one go: rounds that a journal brought along took none of its time.
struct Session {
    begun: Instant,
    visits_before: usize,
    /// Cells whose settings the first round showed not to be in effect: no more rounds would change that.
    lost: BTreeSet<(Arm, usize)>,
}

impl Sweep<'_> {
    /// Makes the visits that are not in the journal yet.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Ended> {
        let begun = Instant::now();
        if let Some(ended) = self.make_untimed(observer)? {
            return Ok(ended);
        }
        let (visits_before, lost) = (self.journal.entries().len(), BTreeSet::new());
        let mut session = Session { begun, visits_before, lost };
        let mut round = 0;
        loop {
            if let Some(ended) = self.enough(round, &session)? {
                return Ok(ended);
            }
            if let Some(ended) = self.make_round(round, observer)? {
                return Ok(ended);
            }
            round += 1;
            if round == 1 && self.plan.rounds == Rounds::Auto {
                session.lost = document::lost(self.header, self.journal)?;
            }
            observer.round_ended(round, &judge(self.plan, self.tally)?);
        }
    }

    /// Visits each arm once for the proof alone where its library does not tell a profiler of all calls: the log tells what is
    /// chosen, but with a line for every call, which must not be timed.
    fn make_untimed(&mut self, observer: &mut dyn Observer) -> Result<Option<Ended>> {
        let captured = self.plan.modes().contains(&Mode::Graph);
        let lacks = |arm: &Arm| match Told::by(self.plan.libraries[arm.library].version) {
            Told::Nothing => true,
            Told::Eager => captured,
            Told::All => false,
        };
        let made = |arm: &Arm| self.journal.entries().iter().any(|entry| entry.untimed && entry.arm == *arm);
        let due: Vec<Arm> = self.plan.arms().filter(|arm| lacks(arm) && !made(arm)).collect();
        self.make_visits(0, &due, true, observer)
    }

    /// Visits every arm that has not failed and was not yet visited in this round. In the first round those that may hurt
    /// the box come last, so that its harmless part is known by then.
    fn make_round(&mut self, round: u32, observer: &mut dyn Observer) -> Result<Option<Ended>> {
        let order = self.plan.round(round);
        let order = if round == 0 { risk::risky_last(self.plan, order) } else { order };
        let due: Vec<Arm> = order.into_iter().filter(|arm| self.is_due(*arm, round)).collect();
        self.make_visits(round, &due, false, observer)
    }

    /// Makes visits until all are made or the sweep must end.
    fn make_visits(
        &mut self,
        round: u32,
        due: &[Arm],
        untimed: bool,
        observer: &mut dyn Observer,
    ) -> Result<Option<Ended>> {
        for (place, arm) in due.iter().enumerate() {
            if self.soaked_enough(round) {
                return Ok(Some(Ended::Complete));
            }
            let index = self.journal.entries().last().map_or(0, |entry| entry.index + 1);
            let planned = Planned { index, round, arm: *arm, untimed };
            observer.visit_begins(planned, place, due.len());
            let visit = match risk::why_skip(self.plan, self.setup, self.journal, *arm)? {
                Some(why) => not_run(planned, why),
                None => {
                    let mut progress = |progress: Progress| observer.progress(progress);
                    let (plan, setup, asked) = (self.plan, self.setup, self.interrupted);
                    visit(plan, setup, self.private, planned, &mut self.pace, asked, &mut progress)
                }
            };
            match &visit.outcome {
                Outcome::Interrupted => return Ok(Some(Ended::Interrupted)),
                Outcome::HostLost { .. } => return Ok(Some(Ended::Sick(health::lost_host(&visit.outcome)))),
                _ => {}
            }
            self.journal.append(&visit)?;
            self.tally.add(&visit)?;
            observer.visit_ended(&visit);
            if visit.outcome.may_leave_traces()
                && let Some(sick) = self.look_at_health()
            {
                return Ok(Some(Ended::Sick(sick)));
            }
        }
        Ok(None)
    }

    /// What is the matter with the box after a failure, tried under the last arm that passed and never failed.
    pub(super) fn look_at_health(&self) -> Option<Sick> {
        let passed = |entry: &&Entry| entry.completed && !entry.untimed && !self.tally.has_failed(entry.arm);
        let good = self.journal.entries().iter().rev().find(passed).map(|entry| entry.arm);
        health::look(self.plan, self.setup, self.private, good, self.interrupted)
    }

    fn is_due(&self, arm: Arm, round: u32) -> bool {
        let made =
            self.journal.entries().iter().any(|entry| !entry.untimed && entry.arm == arm && entry.round == round);
        !made && !self.is_out(arm)
    }

    /// Whether an arm is visited no more. A soak counts how often data is wrong.
    fn is_out(&self, arm: Arm) -> bool {
        if self.plan.soak_s.is_some() { self.tally.has_broken(arm) } else { self.tally.has_failed(arm) }
    }

    /// Whether a soak has lasted as long as was asked for, over all its sessions. It visits every arm once, however short it is: an
    /// arm that nobody looked at would count as failed.
    fn soaked_enough(&self, round: u32) -> bool {
        let soaked = || self.journal.entries().iter().map(|entry| entry.seconds).sum::<f64>();
        round > 0 && self.plan.soak_s.is_some_and(|asked| soaked() >= asked)
    }

    /// Whether to stop before `round`.
    fn enough(&self, round: u32, session: &Session) -> Result<Option<Ended>> {
        if self.plan.soak_s.is_some() {
            let enough = self.soaked_enough(round);
            let ended = if enough { Ended::Complete } else { Ended::NothingToCompare };
            let over = enough || self.plan.arms().all(|arm| self.is_out(arm));
            return Ok(over.then_some(ended));
        }
        Ok(match self.plan.rounds {
            Rounds::Fixed(rounds) if round >= rounds => Some(Ended::Complete),
            Rounds::Auto if round >= 1 && self.nothing_to_compare() => Some(Ended::NothingToCompare),
            Rounds::Auto if round >= 1 && self.all_decided(&session.lost)? => Some(Ended::Complete),
            Rounds::Auto if round >= 1 && Looks::Auto.next(round).is_none() => Some(Ended::LastLook),
            _ if self.next_would_end_late(session) => Some(Ended::TimeLimit),
            _ => None,
        })
    }

    fn all_decided(&self, lost: &BTreeSet<(Arm, usize)>) -> Result<bool> {
        let failed = self.failed();
        let out = |arm, case| failed.contains(&arm) || lost.contains(&(arm, case));
        Ok(judge(self.plan, self.tally)?.all_decided_but(out))
    }

    fn next_would_end_late(&self, session: &Session) -> bool {
        let made = self.journal.entries().len() - session.visits_before;
        let next = self.plan.arms().filter(|arm| !self.is_out(*arm)).count();
        let limit = self.plan.time_limit_s.map(Duration::from_secs_f64);
        limit.is_some_and(|limit| would_end_late(session.begun.elapsed(), made, next, limit))
    }

    fn failed(&self) -> Vec<Arm> {
        self.plan.arms().filter(|arm| self.tally.has_failed(*arm)).collect()
    }

    fn nothing_to_compare(&self) -> bool {
        let (failed, mut arms) = (self.failed(), self.plan.arms());
        let Some(baseline) = arms.next() else { return true };
        failed.contains(&baseline) || arms.all(|arm| failed.contains(&arm))
    }
}

/// Whether `next` visits, as long as the `made` ones of this session were, would end after the limit. Until one is made nothing
/// tells, so that a resumed run goes on by a round at least.
fn would_end_late(elapsed: Duration, made: usize, next: usize, limit: Duration) -> bool {
    made > 0 && elapsed.as_secs_f64() * (made + next) as f64 / made as f64 > limit.as_secs_f64()
}

/// The record of a visit that is not made.
pub(super) fn not_run(planned: Planned, why: String) -> Visit {
    let mut visit = planned.visit();
    visit.outcome = Outcome::NotRun { why };
    visit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_begins_only_when_it_would_end_within_the_limit() {
        let late =
            |elapsed, made, next| would_end_late(Duration::from_secs(elapsed), made, next, Duration::from_secs(60));
        assert!(!late(40, 4, 2), "two more visits of ten seconds end with the limit");
        assert!(late(41, 4, 2));
        assert!(!late(41, 4, 1), "sets that failed take no more time");
    }

    #[test]
    fn visits_of_an_earlier_session_tell_nothing_of_this_one() {
        assert!(!would_end_late(Duration::from_secs(2), 0, 2, Duration::from_millis(1)));
    }
}
