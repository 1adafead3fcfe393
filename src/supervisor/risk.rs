//! Sets that may hurt the box: visited last in the first round, and skipped once others that reach GPUs the same way have
//! failed alike.

use std::mem::discriminant;

use super::visit::Setup;
use crate::error::Result;
use crate::nccl::levels::PathLevel;
use crate::plan::schedule::{Arm, Launch, Plan};
use crate::record::journal::Journal;
use crate::record::visit::{At, Outcome, Phase};

/// Variables that decide by which way ranks reach each other.
const WAYS: [&str; 9] = [
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_READ_ENABLE",
    "NCCL_P2P_USE_CUDA_MEMCPY",
    "NCCL_SHM_DISABLE",
    "NCCL_SHM_USE_CUDA_MEMCPY",
    "NCCL_CUMEM_ENABLE",
    "NCCL_NVLS_ENABLE",
];

/// Failures alike after which sets of the same way are skipped.
const ENOUGH: usize = 2;

/// The arms in their order, those last whose sets allow P2P farther than NCCL does by itself, or name LL128.
pub(super) fn risky_last(plan: &Plan, order: Vec<Arm>) -> Vec<Arm> {
    let (risky, others): (Vec<_>, Vec<_>) = order.into_iter().partition(|arm| is_risky(plan, *arm));
    others.into_iter().chain(risky).collect()
}

fn is_risky(plan: &Plan, arm: Arm) -> bool {
    let vars = &plan.sets[arm.set].vars;
    let version = plan.libraries[arm.library].version;
    let far = vars.get("NCCL_P2P_LEVEL").and_then(|level| PathLevel::read(level, Some(version)));
    let names_ll128 = vars.get("NCCL_PROTO").is_some_and(|names| names.to_ascii_uppercase().contains("LL128"));
    far.is_some_and(|level| level > PathLevel::Pxb) || names_ll128
}

/// The values of the variables that decide the way of an arm, its library, and whether ranks share a process.
fn way(plan: &Plan, setup: &Setup, arm: Arm) -> ((usize, Launch), Vec<String>) {
    let environment = setup.environment(plan, arm);
    let value = |name: &&str| environment.get(name).map(|value| format!("{name}={value}"));
    ((arm.library, arm.launch), WAYS.iter().filter_map(value).collect())
}

/// Why `arm`, which was never visited, is not: other sets of its way hung or crashed alike, and none passed.
pub(super) fn why_skip(plan: &Plan, setup: &Setup, journal: &Journal, arm: Arm) -> Result<Option<String>> {
    let baseline = plan.arms().next();
    if Some(arm) == baseline || journal.entries().iter().any(|entry| entry.arm == arm) {
        return Ok(None);
    }
    let ours = way(plan, setup, arm);
    let mut failures: Vec<(Arm, Outcome)> = Vec::new();
    for entry in journal.entries() {
        if way(plan, setup, entry.arm) != ours {
            continue;
        }
        if entry.completed {
            return Ok(None);
        }
        let outcome = journal.read(entry)?.outcome;
        if is_of_the_way(&outcome) && !failures.iter().any(|(known, _)| *known == entry.arm) {
            failures.push((entry.arm, outcome));
        }
    }
    let alike = |one: &(Arm, Outcome)| failures.iter().filter(|other| failed_alike(&other.1, &one.1)).count() >= ENOUGH;
    Ok(failures.iter().find(|one| alike(one)).map(|(_, outcome)| {
        let how = if matches!(outcome, Outcome::TimedOut { .. }) { "hung" } else { "crashed" };
        let way = if ours.1.is_empty() { "by default".to_owned() } else { format!("with {}", ours.1.join(" ")) };
        let during = place(outcome).map(|phase| format!(" during {phase}")).unwrap_or_default();
        format!("{ENOUGH} sets that reach the GPUs the same way ({way}) {how}{during}, and none passed")
    }))
}

/// Hangs and crashes once data flows. What fails before has nothing to do with the way of the data.
fn is_of_the_way(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::TimedOut { .. } | Outcome::Crashed { .. })
        && place(outcome).is_some_and(|phase| !matches!(phase, Phase::Start | Phase::Init))
}

/// Whether two arms reach the GPUs the same way.
pub(super) fn same_way(plan: &Plan, setup: &Setup, one: Arm, other: Arm) -> bool {
    way(plan, setup, one) == way(plan, setup, other)
}

/// Whether two failures are of one kind, in the same phase.
pub(super) fn failed_alike(one: &Outcome, other: &Outcome) -> bool {
    kind(one) == kind(other)
}

fn kind(outcome: &Outcome) -> (std::mem::Discriminant<Outcome>, Option<Phase>) {
    (discriminant(outcome), place(outcome))
}

fn place(outcome: &Outcome) -> Option<Phase> {
    match outcome {
        Outcome::TimedOut { at, .. } | Outcome::Crashed { at, .. } => at.map(|At { phase, .. }| phase),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::env_set::{EnvSet, Vars};
    use crate::record::fixture;
    use crate::record::run::Run;

    fn setup() -> Setup {
        Setup { library_folders: vec!["/private/library-0".into()], ..Setup::default() }
    }

    /// `default`, then sets with these variables.
    fn run(sets: &[&[(&str, &str)]]) -> Run {
        let mut run = fixture::two_sets();
        run.header.plan.sets.truncate(1);
        for (number, vars) in (1..).zip(sets) {
            let vars = Vars::from_iter(vars.iter().copied());
            run.header.plan.sets.push(EnvSet { name: format!("set-{number}"), vars, note: None });
        }
        run
    }

    fn arm(set: usize) -> Arm {
        Arm { set, ..Arm::default() }
    }

    fn hung(phase: Phase) -> Outcome {
        let at = At { phase, communicator: 0, case: None, rank: None };
        Outcome::TimedOut { at: Some(at), seconds: 20.0, ranks: Vec::new() }
    }

    /// Why set 3 is skipped after sets 1 and 2 ended so.
    fn skip_after(run: &Run, outcomes: [Outcome; 2]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path(), &run.header).unwrap();
        for (set, outcome) in (1..).zip(outcomes) {
            let mut visit = run.visits[0].clone();
            (visit.arm, visit.outcome) = (arm(set), outcome);
            journal.append(&visit).unwrap();
        }
        why_skip(&run.header.plan, &setup(), &journal, arm(3)).unwrap()
    }

    const SYS: &[(&str, &str)] = &[("NCCL_P2P_LEVEL", "SYS")];

    #[test]
    fn a_third_set_of_a_way_on_which_two_hung_is_skipped_by_name() {
        let why = skip_after(&run(&[SYS, SYS, SYS]), [hung(Phase::First), hung(Phase::First)]).unwrap();
        assert!(why.contains("NCCL_P2P_LEVEL=SYS") && why.contains("hung during first collective"), "{why}");
    }

    #[test]
    fn other_ways_other_failures_and_a_pass_are_no_reason_to_skip() {
        let same = run(&[SYS, SYS, SYS]);
        let crash = |phase| match hung(phase) {
            Outcome::TimedOut { at, .. } => Outcome::Crashed { signal: "SIGSEGV".into(), at },
            other => other,
        };
        assert_eq!(skip_after(&same, [hung(Phase::First), crash(Phase::First)]), None);
        assert_eq!(skip_after(&same, [hung(Phase::First), hung(Phase::Timing)]), None);
        assert_eq!(skip_after(&same, [hung(Phase::Init), hung(Phase::Init)]), None);
        assert_eq!(skip_after(&same, [hung(Phase::First), Outcome::Completed]), None);
        let apart = run(&[SYS, SYS, &[("NCCL_P2P_DISABLE", "1")]]);
        assert_eq!(skip_after(&apart, [hung(Phase::First), hung(Phase::First)]), None);
    }

    #[test]
    fn sets_that_reach_far_or_name_ll128_come_last_and_the_others_keep_their_order() {
        let of = run(&[SYS, &[("NCCL_PROTO", "LL")], &[("NCCL_PROTO", "LL128")], &[("NCCL_P2P_LEVEL", "PIX")]]);
        let order = [3, 4, 1, 0, 2].map(arm).to_vec();
        assert_eq!(risky_last(&of.header.plan, order), [4, 0, 2, 3, 1].map(arm));
    }
}
