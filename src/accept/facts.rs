//! Requirements that a run meets or not, without any spread: what the box has, and what must never happen.

use std::collections::{BTreeMap, BTreeSet};

use super::own::Own;
use super::{Judged, Outcome};
use crate::gpu::nvml::GpuState;
use crate::record::drift::{self, Conditions};
use crate::record::run::{Applied, Cell};
use crate::units::{count, plural};

fn pass_if(holds: bool) -> Outcome {
    if holds { Outcome::Pass } else { Outcome::Fail }
}

/// Every visit ended as it should: required of every box.
pub(super) fn visits(run: &Own) -> Judged {
    let visits: Vec<_> = run.visits().collect();
    let failed: Vec<_> = visits.iter().filter(|visit| !visit.outcome.is_completed()).collect();
    let outcome = match failed.is_empty() {
        false => Outcome::Fail,
        // What was not made did not pass.
        true if visits.is_empty() || !run.run.complete => Outcome::NotMeasured,
        true => Outcome::Pass,
    };
    let completed = format!("{} of {}", visits.len() - failed.len(), visits.len());
    let judged = Judged::new("visits", "visits that completed", "all", outcome).found(completed);
    match failed.first() {
        Some(visit) => judged.because(format!("{}: {}", run.plan().arm_name(visit.arm), visit.outcome)),
        None if visits.is_empty() => judged.because("the run has no visit"),
        None if !run.run.complete => judged.because("the run stopped early: not every planned visit was made"),
        None => judged,
    }
}

pub(super) fn gpus(run: &Own, wanted: u32) -> Judged {
    let have = run.run.header.provenance.gpus.len();
    let judged = Judged::new("gpus", "GPUs", wanted.to_string(), pass_if(have == wanted as usize)).counted(have as u64);
    if judged.outcome == Outcome::Pass { judged } else { judged.because(format!("{} took part", plural(have, "GPU"))) }
}

pub(super) fn gpu_name(run: &Own, wanted: &str) -> Judged {
    /// Cards named one by one.
    const NAMED: usize = 3;
    let gpus = &run.run.header.provenance.gpus;
    let others: Vec<String> =
        gpus.iter().filter(|gpu| !gpu.name.contains(wanted)).map(|gpu| format!("{} ({})", gpu.name, gpu.pci)).collect();
    let outcome = if gpus.is_empty() { Outcome::NotMeasured } else { pass_if(others.is_empty()) };
    let judged = Judged::new("gpus", "name of every GPU", format!("has {wanted}"), outcome);
    let judged = judged.found(format!("{} of {}", gpus.len() - others.len(), gpus.len()));
    let more = others.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let named = others.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if others.is_empty() { judged } else { judged.because(format!("another: {named}{more}")) }
}

/// By GPU, all states that NVML gave before and after visits.
fn states<'a>(run: &'a Own) -> BTreeMap<usize, Vec<&'a GpuState>> {
    let mut states: BTreeMap<usize, Vec<&GpuState>> = BTreeMap::new();
    for visit in run.visits() {
        for (gpu, (before, after)) in drift::states(visit) {
            states.entry(gpu).or_default().extend([before, after]);
        }
    }
    states
}

/// An idle link runs at a lower generation to save power, so the highest counts.
pub(super) fn link_generation(run: &Own, least: u32) -> Judged {
    link(run, ("PCIe generation of links", format!("≥ {least}")), least, |states| {
        states.iter().filter_map(|state| state.link_generation).max()
    })
}

/// A width is not lowered to save power, so the narrowest counts.
pub(super) fn link_width(run: &Own, least: u32) -> Judged {
    link(run, ("PCIe lanes of links", format!("≥ {least}")), least, |states| {
        states.iter().filter_map(|state| state.link_width).min()
    })
}

fn link(run: &Own, (what, bound): (&str, String), least: u32, of: fn(&[&GpuState]) -> Option<u32>) -> Judged {
    let gpus = run.run.header.provenance.gpus.len();
    let known: BTreeMap<usize, u32> =
        states(run).into_iter().filter_map(|(gpu, states)| Some((gpu, of(&states)?))).collect();
    let Some(lowest) = known.values().min() else {
        return Judged::new("link", what, bound, Outcome::NotMeasured).because("NVML told no PCIe link in any visit");
    };
    let judged = |outcome| Judged::new("link", what, bound, outcome).counted((*lowest).into());
    let below: Vec<String> =
        known.iter().filter(|(_, value)| **value < least).map(|(gpu, value)| format!("GPU {gpu}: {value}")).collect();
    match () {
        () if !below.is_empty() => judged(Outcome::Fail).because(below.join(", ")),
        () if known.len() < gpus => judged(Outcome::NotMeasured).because(format!(
            "NVML told that of {} of {}",
            known.len(),
            plural(gpus, "GPU")
        )),
        () => judged(Outcome::Pass),
    }
}

pub(super) fn checked_outputs(run: &Own, least: u64) -> Judged {
    let (checked, wrong) =
        run.cells().fold((0, 0), |(checked, wrong), cell| (checked + cell.checked_outputs, wrong + cell.wrong_outputs));
    let outcome = match (checked, wrong) {
        (_, 1..) => Outcome::Fail,
        (checked, 0) if checked < least => Outcome::NotMeasured,
        _ => Outcome::Pass,
    };
    let bound = format!("0 of {}", count(least));
    let judged = Judged::new("data", "wrong outputs", bound, outcome).counted(wrong);
    let judged = judged.found(format!("{} of {}", count(wrong), count(checked)));
    match outcome {
        Outcome::NotMeasured => {
            judged.because(format!("only {} outputs were checked: more rounds check more", count(checked)))
        }
        Outcome::Fail => judged.because(first_wrong(run).unwrap_or_default()),
        Outcome::Pass | Outcome::Undecided => judged,
    }
}

fn first_wrong(run: &Own) -> Option<String> {
    let cell = run.cells().find(|cell| cell.wrong_outputs > 0)?;
    let case = &run.plan().cases[cell.case];
    let place = format!("{} at {case}", run.plan().arm_name(cell.arm));
    let Some(wrong) = &cell.first_wrong else { return Some(place) };
    let (rank, element) = (wrong.rank, wrong.element);
    Some(format!("{place}: rank {rank}, element {element} is {}, not {}", wrong.found, wrong.expected))
}

pub(super) fn applied(run: &Own, set: &str) -> Judged {
    let cells: Vec<&Cell> = run.cells().filter(|cell| cell.set == set).collect();
    let held = cells.iter().filter(|cell| cell.applied == Applied::Applied).count();
    let lost = |cell: &&&Cell| cell.applied.is_lost();
    if cells.is_empty() {
        let judged = Judged::new("settings", format!("settings of {set}"), "applied", Outcome::NotMeasured);
        return judged.because("the run has no such set");
    }
    let outcome = match () {
        () if cells.iter().any(|cell| lost(&cell)) => Outcome::Fail,
        () if held < cells.len() => Outcome::NotMeasured,
        () => Outcome::Pass,
    };
    let judged = Judged::new("settings", format!("settings of {set}"), "applied", outcome);
    let judged = judged.found(format!("in {held} of {}", plural(cells.len(), "cell")));
    match outcome {
        Outcome::Fail => judged.because(blocking(run, set)),
        Outcome::NotMeasured => judged.because("nothing shows whether they took effect"),
        Outcome::Pass | Outcome::Undecided => judged,
    }
}

/// `NCCL_PROTO not applied, NCCL_ALGO partly`.
fn blocking(run: &Own, set: &str) -> String {
    let cells = run.cells().filter(|cell| cell.set == set);
    let proven = |cell: &Cell| run.run.proofs.iter().find(|proofs| proofs.arm == cell.arm).map(|of| (of, cell.case));
    let blocking = cells.filter_map(proven).flat_map(|(proofs, case)| proofs.blocking(case));
    let named: BTreeSet<String> = blocking.map(|proof| format!("{} {}", proof.name, proof.state)).collect();
    named.into_iter().collect::<Vec<_>>().join(", ")
}

/// What NVML said during all visits, by arm; nothing when it said nothing of some GPU.
fn conditions<'a>(run: &'a Own) -> Option<Vec<&'a Conditions>> {
    let told = states(run).len();
    let arms = run.arms().filter_map(|arm| run.tally.conditions(arm));
    (told > 0 && told == run.run.header.provenance.gpus.len()).then(|| arms.collect())
}

pub(super) fn no_throttling(run: &Own) -> Judged {
    let judged = |outcome| Judged::new("throttling", "GPUs throttled", "none", outcome);
    let Some(arms) = conditions(run) else {
        return judged(Outcome::NotMeasured).because("NVML did not tell the state of every GPU");
    };
    let gpus: BTreeSet<usize> =
        arms.iter().flat_map(|arm| arm.throttled()).flat_map(|seen| &seen.gpus).copied().collect();
    let reasons: BTreeSet<&str> =
        arms.iter().flat_map(|arm| arm.throttled()).flat_map(|seen| &seen.reasons).map(String::as_str).collect();
    let found = judged(pass_if(gpus.is_empty())).counted(gpus.len() as u64);
    let numbers: Vec<String> = gpus.iter().map(usize::to_string).collect();
    if gpus.is_empty() {
        return found;
    }
    found.because(format!("GPU {}: {}", numbers.join(", "), reasons.into_iter().collect::<Vec<_>>().join(", ")))
}

pub(super) fn no_replays(run: &Own) -> Judged {
    let judged = |outcome| Judged::new("link", "PCIe packets repeated", "0", outcome);
    let told = states(run).values().all(|states| states.iter().all(|state| state.pcie_replays.is_some()));
    let Some(arms) = conditions(run).filter(|_| told) else {
        return judged(Outcome::NotMeasured).because("NVML did not tell the replay counter of every GPU");
    };
    let mut replays: BTreeMap<usize, u64> = BTreeMap::new();
    for (gpu, more) in arms.iter().flat_map(|arm| arm.replays()) {
        *replays.entry(*gpu).or_default() += u64::from(*more);
    }
    let found = judged(pass_if(replays.is_empty())).counted(replays.values().sum());
    let named: Vec<String> = replays.iter().map(|(gpu, replays)| format!("GPU {gpu}: {replays}")).collect();
    if named.is_empty() { found } else { found.because(named.join(", ")) }
}
