//! How long a phase of a worker may take before it counts as hung: learnt from the run itself, or asked for.

use std::collections::HashMap;
use std::time::Duration;

use crate::plan::schedule::Plan;
use crate::record::visit::{At, Phase};

/// A phase that took this many times its longest so far is hung.
const PATIENCE: u32 = 50;

/// Until a phase was seen, its calls may be so slow: worse than any box worth measuring, PCIe 1.0 on one lane.
const SLOWEST_CALL: Duration = Duration::from_micros(200);
const SLOWEST_BYTES_PER_SECOND: f64 = 0.25e9;

/// A warm-up that never settles ends after about so many calls.
const LONGEST_WARM_UP: u64 = 600;
/// A check compares about so many bytes at most, or one output.
const CHECKED_BYTES: u64 = 64 << 20;

/// The least a worker may stay silent.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Until it has started, and for each communicator's init and first collective: driver and NCCL set up every GPU.
    pub setup: Duration,
    /// In every other phase.
    pub phase: Duration,
    /// Whether both are exactly what was asked for, whatever the run shows.
    fixed: bool,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { setup: Duration::from_secs(120), phase: Duration::from_secs(20), fixed: false }
    }
}

impl Deadlines {
    /// The same for every phase.
    #[must_use]
    pub fn all(deadline: Duration) -> Self {
        Self { setup: deadline, phase: deadline, fixed: true }
    }

    fn of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Start | Phase::Init | Phase::First => self.setup,
            Phase::WarmUp | Phase::Capture | Phase::Timing | Phase::Check | Phase::Teardown => self.phase,
        }
    }
}

/// What the phases of a run took so far, and how long they may take therefore.
#[derive(Debug)]
pub struct Pace {
    deadlines: Deadlines,
    longest: HashMap<(Phase, Option<usize>), Duration>,
}

impl Pace {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new(deadlines: Deadlines) -> Self {
        Self { deadlines, longest: HashMap::new() }
    }

    /// A phase ended.
    pub(super) fn note(&mut self, at: Option<At>, took: Duration) {
        let longest = self.longest.entry(key(at)).or_default();
        *longest = took.max(*longest);
    }

    /// How long a worker that has said its last word may take to end.
    pub(super) fn exit(&self) -> Duration {
        self.deadlines.of(Phase::Teardown)
    }

    /// How long a worker may be there.
    pub(super) fn limit(&self, at: Option<At>, plan: &Plan) -> Duration {
        let (phase, case) = key(at);
        let least = self.deadlines.of(phase);
        match self.longest.get(&(phase, case)) {
            _ if self.deadlines.fixed => least,
            Some(longest) => least.max(*longest * PATIENCE),
            None => least + slowest(phase, case, plan),
        }
    }
}

fn key(at: Option<At>) -> (Phase, Option<usize>) {
    at.map_or((Phase::Start, None), |at| (at.phase, at.case))
}

/// The time of a phase's calls on the slowest box.
fn slowest(phase: Phase, case: Option<usize>, plan: &Plan) -> Duration {
    let of_case = case.and_then(|case| plan.cases.get(case));
    let bytes = of_case.map_or(0, |case| case.bytes().0);
    let calls = of_case.map_or(0, |case| plan.measure.samples(case.mode) * plan.measure.calls_per_sample(case.mode));
    let all_inputs = plan.cases.iter().map(|case| case.bytes().0).sum::<u64>().saturating_mul(plan.ranks.into());
    let (calls, bytes) = match phase {
        Phase::Start => (0, all_inputs),
        Phase::WarmUp => (LONGEST_WARM_UP, bytes.saturating_mul(LONGEST_WARM_UP)),
        // The replay before the first mark is not timed, but made.
        Phase::Timing => (2 * calls as u64, bytes.saturating_mul(2 * calls as u64)),
        Phase::Check => {
            let checks = u64::from(plan.ranks).saturating_mul(plan.measure.checks.into());
            (0, bytes.max(CHECKED_BYTES).saturating_mul(checks))
        }
        Phase::Init | Phase::First | Phase::Capture | Phase::Teardown => (0, bytes),
    };
    SLOWEST_CALL.saturating_mul(calls.try_into().unwrap_or(u32::MAX))
        + Duration::from_secs_f64(bytes as f64 / SLOWEST_BYTES_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Size;
    use crate::record::fixture;

    fn at(phase: Phase, case: usize) -> Option<At> {
        Some(At { phase, communicator: 0, case: Some(case), rank: None })
    }

    #[test]
    fn small_messages_get_little_more_than_the_least() {
        let (plan, pace) = (fixture::two_sets().header.plan, Pace::new(Deadlines::default()));
        for phase in [Phase::WarmUp, Phase::Capture, Phase::Timing, Phase::Check] {
            let limit = pace.limit(at(phase, 3), &plan).as_secs_f64();
            assert!((20.0..25.0).contains(&limit), "{phase}: {limit} s");
        }
        assert!((120.0..121.0).contains(&pace.limit(None, &plan).as_secs_f64()));
    }

    #[test]
    fn a_gigabyte_has_time_enough_before_anything_was_measured() {
        let mut plan = fixture::two_sets().header.plan;
        plan.cases[0].size = Size::elements(1 << 29);
        // 1000 calls at 0.1 s each were seen on eight GPUs behind host memory.
        assert!(Pace::new(Deadlines::default()).limit(at(Phase::Timing, 0), &plan) > Duration::from_secs(1000));
    }

    #[test]
    fn what_a_phase_took_decides_for_the_next_of_its_kind_only() {
        let (plan, mut pace) = (fixture::two_sets().header.plan, Pace::new(Deadlines::default()));
        pace.note(at(Phase::Timing, 1), Duration::from_secs(3));
        pace.note(at(Phase::Timing, 1), Duration::from_secs(2));
        assert_eq!(pace.limit(at(Phase::Timing, 1), &plan), Duration::from_secs(150));
        assert!(pace.limit(at(Phase::Timing, 0), &plan) < Duration::from_secs(25));
        pace.note(at(Phase::Timing, 0), Duration::from_millis(1));
        assert_eq!(pace.limit(at(Phase::Timing, 0), &plan), Duration::from_secs(20));
    }

    #[test]
    fn a_deadline_that_is_asked_for_holds_whatever_was_measured() {
        let (plan, mut pace) = (fixture::two_sets().header.plan, Pace::new(Deadlines::all(Duration::from_secs(2))));
        pace.note(at(Phase::Timing, 1), Duration::from_secs(3));
        for phase in [Phase::Start, Phase::First, Phase::Timing] {
            assert_eq!(pace.limit(at(phase, 1), &plan), Duration::from_secs(2));
        }
    }
}
