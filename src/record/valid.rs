//! What must hold of a journal or document that anybody may have written, before anything counts or indexes by it.

use std::collections::{BTreeMap, BTreeSet};

use super::floor::Floor;
use super::pairs::PairTried;
use super::run::{Cell, Header, Run, Verdict};
use super::visit::{Replicate, Visit};
use crate::collective::sizes::MAX_BYTES;
use crate::collective::{Case, Mode, Placement};
use crate::plan::env_set::are_sound;
use crate::plan::schedule::{Arm, Measure};
use crate::stats::median_of;

/// Most ranks of a plan that is read.
const MOST_RANKS: u32 = 1024;
/// Most communicators of a visit, and most that are alive beside one: their product is counted.
const MOST_COMMUNICATORS: u32 = 100_000;
const MOST_ALIVE: u32 = 1000;
/// Most of anything that is counted and added up: more than a box can do in a life, and far from where sums end.
const MOST_COUNTED: u64 = 1 << 48;
/// Most visits and rounds of a run, and most of anything that a communicator does: far more than fit into thirty years.
const MOST_REPEATED: u32 = 1 << 30;
/// Longest time that is read, in seconds: some thirty years.
const LONGEST: f64 = 1e9;

/// What is wrong with a header.
pub(super) fn header(header: &Header) -> Result<(), &'static str> {
    let plan = &header.plan;
    let sound = |limit: f64| limit > 0.0 && limit < LONGEST;
    let mut vars = plan.sets.iter().map(|set| &set.vars).chain([&plan.base]);
    let limit = plan.time_limit_s.is_none_or(sound) && plan.soak_s.is_none_or(sound);
    match () {
        () if plan.sets.is_empty() || plan.libraries.is_empty() => Err("the plan has no env set or no library"),
        () if plan.cases.is_empty() => Err("the plan has no case"),
        () if plan.launches.is_empty() || plan.alive.is_empty() || plan.registers.is_empty() => {
            Err("the plan has no way to start ranks, no communicator or no kind of buffers")
        }
        () if plan.cases.iter().any(|case| case.size.elements == 0) => Err("the plan has a size of nothing"),
        () if plan.cases.iter().any(|case| !is_measured(&plan.measure, case.mode)) => {
            Err("the plan measures a mode without a sample or a call")
        }
        () if plan.devices.is_empty() => Err("the plan has no GPU"),
        () if plan.cases.iter().any(|case| case.bytes().0 > MAX_BYTES) => Err("the plan has a size that no GPU holds"),
        () if !repeated(&plan.measure) => Err("the plan repeats something more often than anybody can wait for"),
        () if plan.ranks == 0 || plan.ranks > MOST_RANKS => Err("the plan has no rank or too many"),
        () if !plan.agents.is_empty() && !adds_up(&plan.agents, plan.ranks) => {
            Err("the ranks of the agents are not those of the plan")
        }
        () if plan.sets.iter().any(|set| set.name.chars().any(char::is_control)) => {
            Err("the name of an env set has control characters")
        }
        () if !vars.all(are_sound) => Err("the plan has a variable whose name or value no process can be given"),
        () if plan.communicators == 0 || plan.communicators > MOST_COMMUNICATORS => {
            Err("the plan has no communicator or too many")
        }
        () if plan.alive.iter().any(|alive| *alive > MOST_ALIVE) => Err("the plan has too many communicators"),
        () if !limit => Err("the time limit is no length of time"),
        () if !(plan.tolerance > 0.0 && plan.tolerance < 1.0) => Err("the tolerance is not between 0 and 1"),
        () => Ok(()),
    }
}

/// Whether a communicator can do all of this.
fn repeated(measure: &Measure) -> bool {
    let Measure { graph_length, replays, launches, batches, calls, checks, passes, .. } = *measure;
    [graph_length, replays, launches, batches, calls, checks, passes].iter().all(|times| *times <= MOST_REPEATED)
}

/// Whether there is a sample of a mode, and a call in it.
fn is_measured(measure: &Measure, mode: Mode) -> bool {
    measure.samples(mode) > 0 && measure.calls_per_sample(mode) > 0
}

/// Whether every agent has ranks, and all of them together these.
fn adds_up(agents: &[u32], ranks: u32) -> bool {
    let sum = agents.iter().try_fold(0_u32, |sum, own| sum.checked_add(*own));
    agents.iter().all(|own| *own > 0) && sum == Some(ranks)
}

/// What is wrong with a visit under this header.
pub(super) fn visit(header: &Header, visit: &Visit) -> Result<(), &'static str> {
    let plan = &header.plan;
    let case = |case: usize| case < plan.cases.len();
    match () {
        () if visit.arm.set >= plan.sets.len() => Err("a visit of an env set that the plan does not have"),
        () if visit.arm.library >= plan.libraries.len() => Err("a visit of a library that the plan does not have"),
        () if visit.index.max(visit.round) > MOST_REPEATED => Err("a visit after more than anybody can have made"),
        () if visit.arm.alive > MOST_ALIVE => Err("a visit with too many communicators"),
        () if !visit.replicates.iter().all(|of| counted([of.checks.outputs, of.checks.wrong])) => {
            Err("more outputs than anybody can have compared")
        }
        () if !visit.registration.iter().all(|of| counted([of.taken, of.left])) => {
            Err("more buffers than anybody can have registered")
        }
        () if !is_length(visit.seconds) => Err("a visit took no length of time"),
        () if !visit.replicates.iter().all(|replicate| case(replicate.case)) => {
            Err("a case that the plan does not have")
        }
        () if !visit.used.iter().all(|used| case(used.case)) => Err("a case that the plan does not have"),
        () if !visit.replicates.iter().all(|replicate| is_time(replicate.median_us) && is_time(replicate.mean_us)) => {
            Err("a time that no call can take")
        }
        () if !visit.replicates.iter().flat_map(|replicate| &replicate.samples_us).all(|sample| is_time(*sample)) => {
            Err("a sample that no call can take")
        }
        () if !visit.replicates.iter().all(sums_up) => Err("a median or mean that is not that of its samples"),
        () => Ok(()),
    }
}

/// Whether median and mean are those of the samples, where those are there.
fn sums_up(replicate: &Replicate) -> bool {
    let samples = || replicate.samples_us.iter().copied();
    let alike = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
    let mean = samples().sum::<f64>() / replicate.samples_us.len() as f64;
    replicate.samples_us.is_empty()
        || (alike(replicate.mean_us, mean) && alike(replicate.median_us, median_of(samples())))
}

/// A time of a call, in microseconds.
fn is_time(micros: f64) -> bool {
    micros > 0.0 && micros < LONGEST * 1e6
}

/// What something took, in seconds.
fn is_length(seconds: f64) -> bool {
    (0.0..LONGEST).contains(&seconds)
}

fn counted<const N: usize>(counts: [u64; N]) -> bool {
    counts.iter().all(|count| *count <= MOST_COUNTED)
}

/// What is wrong with a pair under this header.
pub(super) fn pair(header: &Header, pair: &PairTried) -> Result<(), &'static str> {
    let plan = &header.plan;
    match () {
        () if pair.arm.set >= plan.sets.len() || pair.arm.library >= plan.libraries.len() => {
            Err("a pair under what the plan does not have")
        }
        () if !pair.gpus.iter().all(|gpu| plan.devices.contains(gpu)) => {
            Err("a pair of GPUs that the plan does not have")
        }
        () if !is_length(pair.seconds) => Err("a pair took no length of time"),
        () => Ok(()),
    }
}

/// What is wrong with a floor under this header.
pub(super) fn floor(header: &Header, floor: &Floor) -> Result<(), &'static str> {
    let known = |gpu: &u32| header.plan.devices.contains(gpu);
    let kernels = || floor.kernels.iter().all(|kernel| known(&kernel.gpu));
    let times = floor.kernels.iter().flat_map(|kernel| [kernel.graph_us, kernel.stream_us, kernel.sync_us]);
    match () {
        () if !kernels() || !floor.hops.iter().flat_map(|hop| &hop.gpus).all(known) => {
            Err("a floor of GPUs that the plan does not have")
        }
        () if !times.chain(floor.hops.iter().flat_map(|hop| hop.runs_us.iter().copied())).all(is_time) => {
            Err("a floor that no call can take")
        }
        () if !is_length(floor.seconds) => Err("a floor took no length of time"),
        () => Ok(()),
    }
}

/// Visits as they follow each other: they are counted, and each arm is visited once in a round.
#[derive(Default)]
pub(super) struct Order {
    last: Option<u32>,
    seen: BTreeSet<(Arm, u32, bool)>,
}

impl Order {
    /// What is wrong with a visit after those before it.
    pub(super) fn follow(&mut self, visit: &Visit) -> Result<(), &'static str> {
        let follows = self.last.is_none_or(|last| visit.index > last);
        self.last = Some(visit.index);
        match self.seen.insert((visit.arm, visit.round, visit.untimed)) {
            _ if !follows => Err("the visits do not follow each other"),
            false => Err("the same visit stands twice"),
            true => Ok(()),
        }
    }
}

/// What is wrong with a document.
pub(super) fn document(run: &Run) -> Result<(), &'static str> {
    let plan = &run.header.plan;
    let arm = |arm: Arm| arm.set < plan.sets.len() && arm.library < plan.libraries.len();
    let named = |arm: Arm, name: &str| plan.sets[arm.set].name == name;
    let cases = |cases: &[usize]| cases.iter().all(|case| *case < plan.cases.len());
    header(&run.header)?;
    let mut order = Order::default();
    run.visits.iter().try_for_each(|made| visit(&run.header, made).and_then(|()| order.follow(made)))?;
    run.pairs.iter().try_for_each(|tried| pair(&run.header, tried))?;
    run.floor.iter().try_for_each(|measured| floor(&run.header, measured))?;
    let of_proofs = |proofs: &super::proofs::ArmProofs| {
        let variables = proofs.variables.iter().map(|of| of.cases.as_slice());
        arm(proofs.arm)
            && named(proofs.arm, &proofs.set)
            && variables.chain(proofs.chosen.iter().map(|of| of.cases.as_slice())).all(cases)
    };
    let mut made: BTreeMap<Arm, u32> = BTreeMap::new();
    run.visits.iter().for_each(|visit| *made.entry(visit.arm).or_default() += 1);
    match () {
        () if !run.cells.iter().all(|cell| arm(cell.arm) && cases(&[cell.case])) => {
            Err("a cell that the plan does not have")
        }
        () if !run.cells.iter().all(|cell| counted([cell.checked_outputs, cell.wrong_outputs])) => {
            Err("more outputs than anybody can have compared")
        }
        () if run.cells.len() != plan.arms().count() * plan.cases.len() || !each_once(run) => {
            Err("not one cell of each arm and case")
        }
        () if !run.cells.iter().all(|cell| is_of(cell, &plan.cases[cell.case])) => {
            Err("a cell whose size, mode or type is not its case's")
        }
        () if !run.cells.iter().all(has_figures) => Err("figures of a cell that no visits can give"),
        () if !run
            .cells
            .iter()
            .all(|cell| made.get(&cell.arm).is_some_and(|made| *made >= cell.visits) || cell.visits == 0) =>
        {
            Err("a cell of more visits than were made")
        }
        () if !run.joint.iter().all(|joint| arm(joint.arm)) => Err("an env set that the plan does not have"),
        // Names of the plan have no control characters; those beside an arm are printed as they are.
        () if !run.cells.iter().all(|cell| named(cell.arm, &cell.set)) => {
            Err("a cell under the name of another env set")
        }
        () if !run.joint.iter().all(|joint| named(joint.arm, &joint.set)) => Err("a verdict on another env set"),
        () if !run.proofs.iter().all(of_proofs) => Err("a proof of what the plan does not have"),
        () => Ok(()),
    }
}

fn each_once(run: &Run) -> bool {
    let cells: BTreeSet<(Arm, usize)> = run.cells.iter().map(|cell| (cell.arm, cell.case)).collect();
    cells.len() == run.cells.len()
}

fn is_of(cell: &Cell, case: &Case) -> bool {
    let size = (cell.size_bytes, cell.mode, cell.dtype, cell.op);
    size == (case.bytes().0, case.mode, case.dtype, case.op) && cell.in_place == (case.placement == Placement::InPlace)
}

/// Whether times are times, intervals lie around what they are of, and no verdict stands beside wrong data.
fn has_figures(cell: &Cell) -> bool {
    let times = [cell.median_us, cell.mean_us, cell.p95_us, cell.p99_us, cell.min_us].into_iter().flatten();
    let times = times.chain(cell.interval_us.into_iter().flatten());
    let ratios = cell.ratio.into_iter().chain(cell.ratio_interval.into_iter().flatten());
    let around = |of: Option<f64>, interval: Option<[f64; 2]>| match (of, interval) {
        (Some(of), Some([low, high])) => low <= of && of <= high,
        (_, None) => true,
        (None, Some(_)) => false,
    };
    let ordered = around(cell.median_us, cell.interval_us) && around(cell.ratio, cell.ratio_interval);
    let spoilt = cell.wrong_outputs > cell.checked_outputs
        || cell.wrong_outputs > 0 && matches!(cell.verdict, Verdict::Faster | Verdict::Slower | Verdict::Same);
    let contrary = match (cell.verdict, cell.ratio) {
        (Verdict::Faster, ratio) => ratio.is_none_or(|ratio| ratio >= 1.0),
        (Verdict::Slower, ratio) => ratio.is_none_or(|ratio| ratio <= 1.0),
        _ => false,
    };
    times.map(is_time).chain(ratios.map(|ratio| ratio > 0.0 && ratio < LONGEST)).all(|holds| holds)
        && ordered
        && !spoilt
        && !contrary
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::collective::Size;

    #[test]
    fn what_a_run_writes_is_valid() {
        let run = fixture::two_sets();
        assert_eq!(header(&run.header), Ok(()));
        assert!(run.visits.iter().all(|made| visit(&run.header, made) == Ok(())));
        assert_eq!(document(&run), Ok(()));
    }

    #[test]
    fn what_would_be_indexed_or_counted_by_is_refused() {
        let run = fixture::two_sets();
        let wrong = |change: &dyn Fn(&mut Visit)| {
            let mut made = run.visits[0].clone();
            change(&mut made);
            visit(&run.header, &made)
        };
        assert!(wrong(&|made| made.arm.set = 9).is_err());
        assert!(wrong(&|made| made.arm.library = 9).is_err());
        assert!(wrong(&|made| made.arm.alive = u32::MAX).is_err());
        assert!(wrong(&|made| made.round = u32::MAX).is_err());
        assert!(wrong(&|made| made.index = u32::MAX).is_err());
        assert!(wrong(&|made| made.replicates[0].checks.outputs = u64::MAX).is_err());
        assert!(wrong(&|made| made.seconds = -1e308).is_err());
        assert!(wrong(&|made| made.seconds = f64::NAN).is_err());
        assert!(wrong(&|made| made.replicates[0].case = 999).is_err());
        assert!(wrong(&|made| made.replicates[0].median_us = 0.0).is_err());
        assert!(wrong(&|made| made.replicates[0].samples_us = vec![f64::INFINITY]).is_err());
        let mut head = run.header.clone();
        head.plan.ranks = u32::MAX;
        assert!(header(&head).is_err());
        (head.plan.ranks, head.plan.time_limit_s) = (8, Some(1e300));
        assert!(header(&head).is_err());
        let emptied: [fn(&mut Header); 4] = [
            |head| head.plan.alive.clear(),
            |head| head.plan.measure.replays = 0,
            |head| head.plan.measure.graph_length = 0,
            |head| head.plan.cases[0].size = Size::elements(0),
        ];
        for empty in emptied {
            let mut head = run.header.clone();
            empty(&mut head);
            assert!(header(&head).is_err());
        }
        let mut head = run.header.clone();
        head.plan.measure.replays = u32::MAX;
        assert!(header(&head).is_err());
        head = run.header.clone();
        head.plan.cases[0].size = Size::elements(u64::MAX);
        assert!(header(&head).is_err());
        for (name, value) in [("NCCL PROTO", "LL"), ("NCCL_PROTO", "LL\nLD_PRELOAD=/tmp/x.so")] {
            let mut head = run.header.clone();
            head.plan.sets[1].vars.set(name, value);
            assert!(header(&head).is_err(), "{name}");
        }
    }

    #[test]
    fn figures_that_do_not_go_together_are_refused() {
        let wrong = |change: &dyn Fn(&mut Run)| {
            let mut run = fixture::two_sets();
            change(&mut run);
            document(&run)
        };
        assert_eq!(wrong(&|_| ()), Ok(()));
        assert!(wrong(&|run| run.cells[5].median_us = Some(-5.0)).is_err());
        assert!(wrong(&|run| run.cells[5].ratio = Some(1e308)).is_err());
        assert!(wrong(&|run| run.cells[5].ratio = Some(1.01)).is_err(), "outside of its interval");
        assert!(wrong(&|run| run.cells[5].wrong_outputs = 1).is_err(), "and yet it is faster");
        assert!(wrong(&|run| run.cells[5].verdict = Verdict::Slower).is_err(), "at half the time");
        assert!(wrong(&|run| run.cells[5].mode = crate::collective::Mode::Sync).is_err());
        assert!(wrong(&|run| run.cells[5].size_bytes += 2).is_err());
        assert!(wrong(&|run| drop(run.cells.pop())).is_err());
        assert!(wrong(&|run| run.cells[5] = run.cells[4].clone()).is_err());
        assert!(wrong(&|run| run.visits.clear()).is_err(), "cells of no visits");
        let mut visit = fixture::two_sets().visits[0].clone();
        visit.replicates[0].samples_us = vec![visit.replicates[0].median_us * 10.0];
        assert!(super::visit(&fixture::two_sets().header, &visit).is_err(), "a median of other samples");
    }

    #[test]
    fn a_document_that_names_what_its_plan_does_not_have_is_refused() {
        let wrong = |change: &dyn Fn(&mut Run)| {
            let mut run = fixture::two_sets();
            change(&mut run);
            document(&run)
        };
        assert!(wrong(&|run| run.cells[0].arm.set = 9).is_err());
        assert!(wrong(&|run| run.cells[0].case = 9).is_err());
        assert!(wrong(&|run| run.joint[0].arm.library = 9).is_err());
        assert!(wrong(&|run| run.visits[1] = run.visits[0].clone()).is_err());
        assert!(wrong(&|run| run.visits.swap(0, 1)).is_err());
        assert!(wrong(&|run| run.cells[1].set = "\u{1b}[31m".into()).is_err());
        assert!(wrong(&|run| run.joint[0].set = "another".into()).is_err());
        assert!(wrong(&|run| run.header.plan.sets[1].name = "a\u{1b}[2J".into()).is_err());
    }
}
