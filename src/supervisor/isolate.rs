//! `--isolate`: a set that failed on all GPUs is tried on every pair of them, one pair after the other, to find what to
//! suspect. What pairs measure counts for nothing: only whether they pass.

use std::time::Duration;

use super::deadlines::{Deadlines, Pace};
use super::risk;
use super::sweep::{Ended, Observer, Sweep};
use super::visit::{Planned, visit};
use crate::error::Result;
use crate::plan::schedule::{Arm, Measure, Plan};
use crate::record::pairs::PairTried;
use crate::record::visit::Outcome;

/// GPUs of which a pair can be told from the whole.
pub const FEWEST: usize = 3;
/// How long a phase of a pair may take: two GPUs that work take a second or two.
const LIMIT: Duration = Duration::from_secs(30);
/// Communicators of a pair: what fails in some only has a second chance to.
const COMMUNICATORS: u32 = 2;
/// Indexes of visits have gaps nowhere near it, so that the seed of a pair is that of no visit.
const INDEX: u32 = u32::MAX / 4;

impl Sweep<'_> {
    /// Tries the pairs of every set that failed; pairs that the journal has are not tried again. Of sets that reach the GPUs
    /// the same way and failed alike, one stands for all.
    pub fn isolate(&mut self, observer: &mut dyn Observer) -> Result<Option<Ended>> {
        // Two GPUs are one pair, which has failed already.
        let arms = if self.plan.devices.len() < FEWEST { Vec::new() } else { self.to_isolate()? };
        for arm in arms {
            if let Some(ended) = self.isolate_arm(arm, observer)? {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    fn to_isolate(&self) -> Result<Vec<Arm>> {
        let mut chosen: Vec<(Arm, Outcome)> = Vec::new();
        for entry in self.journal.entries().iter().filter(|entry| !entry.completed) {
            let outcome = self.journal.read(entry)?.outcome;
            let alike = |(known, other): &(Arm, Outcome)| {
                *known == entry.arm
                    || (risk::same_way(self.plan, self.setup, *known, entry.arm) && risk::failed_alike(other, &outcome))
            };
            if can_be_of_a_pair(&outcome) && !chosen.iter().any(alike) {
                chosen.push((entry.arm, outcome));
            }
        }
        Ok(chosen.into_iter().map(|(arm, _)| arm).collect())
    }

    fn isolate_arm(&mut self, arm: Arm, observer: &mut dyn Observer) -> Result<Option<Ended>> {
        let pairs = nearest_first(&self.plan.devices);
        let neighbours = self.plan.devices.len() - 1;
        for (place, gpus) in pairs.iter().copied().enumerate() {
            let of_arm = || self.journal.pairs().iter().filter(|pair| pair.arm == arm);
            if of_arm().any(|pair| pair.gpus == gpus) {
                continue;
            }
            // No GPU and no pair can be told from the others any more.
            if of_arm().count() >= neighbours && !of_arm().any(|pair| pair.outcome.is_completed()) {
                break;
            }
            observer.pair_begins(arm, gpus, place, pairs.len());
            let pair = self.try_pair(arm, gpus, place as u32);
            if pair.outcome == Outcome::Interrupted {
                return Ok(Some(Ended::Interrupted));
            }
            let may_leave_traces = pair.outcome.may_leave_traces();
            observer.pair_ended(&pair);
            self.journal.append_pair(pair)?;
            if may_leave_traces && let Some(sick) = self.look_at_health() {
                return Ok(Some(Ended::Sick(sick)));
            }
        }
        Ok(None)
    }

    fn try_pair(&mut self, arm: Arm, gpus: [u32; 2], place: u32) -> PairTried {
        let measure = Measure {
            graph_length: 10,
            replays: 4,
            launches: 10,
            batches: 4,
            calls: 10,
            checks: 1,
            passes: 1,
            rotate: false,
            keep: false,
        };
        let plan = Plan {
            devices: gpus.to_vec(),
            ranks: gpus.len() as u32,
            communicators: COMMUNICATORS,
            measure,
            // Ranks of a pair are others than those of the run.
            rank_env: Vec::new(),
            ..self.plan.clone()
        };
        let planned = Planned { index: INDEX + place, round: 0, arm, untimed: false };
        let mut pace = Pace::new(Deadlines::all(LIMIT.min(self.setup.deadlines.setup)));
        let made = visit(&plan, self.setup, self.private, planned, &mut pace, self.interrupted, &mut |_| {});
        PairTried { arm, gpus, started: made.started, seconds: made.seconds, outcome: made.outcome }
    }
}

/// Whether fewer GPUs can tell more of it.
fn can_be_of_a_pair(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::WrongData | Outcome::Failed { .. } | Outcome::Crashed { .. } | Outcome::Exited { .. } => true,
        Outcome::TimedOut { .. } => true,
        Outcome::Completed | Outcome::WorkerError { .. } | Outcome::Flooded { .. } | Outcome::NotRun { .. } => false,
        Outcome::SpawnFailed { .. } | Outcome::BrokenWire { .. } | Outcome::Interrupted => false,
        Outcome::HostLost { .. } => false,
    }
}

/// All pairs, neighbours in rank order first.
fn nearest_first(devices: &[u32]) -> Vec<[u32; 2]> {
    let apart = 1..devices.len();
    apart.flat_map(|apart| devices.iter().zip(&devices[apart..]).map(|(one, other)| [*one, *other])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_comes_once_and_neighbours_come_first() {
        let pairs = nearest_first(&[4, 0, 7, 2]);
        assert_eq!(pairs, [[4, 0], [0, 7], [7, 2], [4, 7], [0, 2], [4, 2]]);
        assert_eq!(nearest_first(&[3]), [] as [[u32; 2]; 0]);
    }
}
