//! From visits to cells: [`Tally`] keeps what verdicts need of each visit; [`Summary`] makes the cells of a run.

use std::collections::BTreeMap;

use super::drift::Conditions;
use super::journal::Journal;
use super::proofs::ArmProofs;
use super::registration;
use super::run::{Applied, Cell, Joint, Verdict};
use super::visit::{Checks, Outcome, Visit};
use crate::collective::Mode;
use crate::error::Result;
use crate::plan::schedule::{Arm, Plan, Rounds};
use crate::stats::{self, Judgement, Looks, Pair, Sample, Tolerance};
use crate::units::{Micros, duration};

/// What verdicts need of the visits made so far: a value per communicator, and what went wrong.
#[derive(Debug, Default)]
pub struct Tally {
    cells: BTreeMap<(Arm, usize), stats::Cell>,
    arms: BTreeMap<Arm, ArmTally>,
}

#[derive(Debug, Default)]
struct ArmTally {
    visits: u32,
    failed: Vec<String>,
    /// Of these, visits that did not get to their end.
    broken: u32,
    checks: BTreeMap<usize, Checks>,
    conditions: Conditions,
}

impl Tally {
    /// The tally of a journal's visits.
    pub fn of(journal: &Journal) -> Result<Self> {
        let mut tally = Self::default();
        for entry in journal.entries() {
            tally.add(&journal.read(entry)?)?;
        }
        Ok(tally)
    }

    /// Takes one more visit into account.
    pub fn add(&mut self, visit: &Visit) -> Result<()> {
        if visit.untimed || visit.outcome == Outcome::Interrupted {
            return Ok(());
        }
        let arm = self.arms.entry(visit.arm).or_default();
        arm.visits += 1;
        for replicate in &visit.replicates {
            arm.checks.entry(replicate.case).or_default().add(replicate.checks.clone());
        }
        if !visit.outcome.is_completed() {
            arm.failed.push(visit.outcome.to_string());
            arm.broken += u32::from(visit.outcome != Outcome::WrongData);
            return Ok(());
        }
        arm.conditions.add(visit);
        let mut values: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for replicate in &visit.replicates {
            values.entry(replicate.case).or_default().push(replicate.median_us);
        }
        for (case, values) in values {
            self.cells.entry((visit.arm, case)).or_default().add(stats::Visit::new(visit.round, values)?)?;
        }
        Ok(())
    }

    /// Rounds in which every arm of the plan that has not failed was visited.
    #[must_use]
    pub fn complete_rounds(&self, plan: &Plan) -> u32 {
        let visits = |arm: Arm| self.arms.get(&arm).map_or(0, |arm| arm.visits);
        plan.arms().filter(|arm| !self.has_failed(*arm)).map(visits).min().unwrap_or(0)
    }

    /// Whether all rounds of a plan that has a number of them were made.
    #[must_use]
    pub fn has_planned_rounds(&self, plan: &Plan) -> bool {
        matches!(plan.rounds, Rounds::Fixed(rounds) if self.complete_rounds(plan) >= rounds)
    }

    /// Whether rounds that go on until all is decided are at a look, the only places where they end.
    #[must_use]
    pub fn is_at_look(&self, plan: &Plan) -> bool {
        let rounds = self.complete_rounds(plan);
        plan.rounds == Rounds::Auto && Looks::Auto.taken(rounds).last() == Some(&rounds)
    }

    /// Whether a visit of this arm did not complete with right data.
    #[must_use]
    pub fn has_failed(&self, arm: Arm) -> bool {
        self.arms.get(&arm).is_some_and(|arm| !arm.failed.is_empty())
    }

    /// Whether a visit of this arm failed otherwise than by wrong data.
    #[must_use]
    pub fn has_broken(&self, arm: Arm) -> bool {
        self.arms.get(&arm).is_some_and(|arm| arm.broken > 0)
    }

    /// The visits of one cell.
    #[must_use]
    pub fn cell(&self, arm: Arm, case: usize) -> &stats::Cell {
        static NONE: stats::Cell = stats::Cell::none();
        self.cells.get(&(arm, case)).unwrap_or(&NONE)
    }

    /// Under which clocks this arm was measured, and what else NVML said; nothing when no visit completed.
    #[must_use]
    pub fn conditions(&self, arm: Arm) -> Option<&Conditions> {
        self.arms.get(&arm).map(|arm| &arm.conditions)
    }

    /// What the data checks of one cell found.
    #[must_use]
    pub fn checks(&self, arm: Arm, case: usize) -> Checks {
        self.arms.get(&arm).and_then(|arm| arm.checks.get(&case)).cloned().unwrap_or_default()
    }

    /// How many visits of this arm failed and how the first of them did, when one did.
    #[must_use]
    pub fn failures(&self, arm: Arm) -> Option<String> {
        let arm = self.arms.get(&arm)?;
        let first = arm.failed.first()?;
        if arm.visits == 1 && first.starts_with("not run") {
            return Some(first.clone());
        }
        Some(format!("{} of {} visits failed: {first}", arm.failed.len(), arm.visits))
    }
}

/// The judged family of a run: every case of every arm but the baseline, then the joint comparisons by arm and mode.
pub struct Judged {
    cells: BTreeMap<(Arm, usize), Judgement>,
    joint: BTreeMap<(Arm, Mode), Judgement>,
}

impl Judged {
    /// Whether every cell has its verdict, those that are `out` left aside.
    #[must_use]
    pub fn all_decided_but(&self, out: impl Fn(Arm, usize) -> bool) -> bool {
        self.cells.iter().all(|((arm, case), judgement)| out(*arm, *case) || judgement.verdict.is_decided())
    }

    /// How many cells have their verdict, and how many there are.
    #[must_use]
    pub fn decided(&self) -> (usize, usize) {
        let decided = self.cells.values().filter(|judgement| judgement.verdict.is_decided()).count();
        (decided, self.cells.len())
    }

    /// The verdict of one cell of an arm that is not the baseline's.
    #[must_use]
    pub fn verdict(&self, arm: Arm, case: usize) -> Option<stats::Verdict> {
        Some(self.cells.get(&(arm, case))?.verdict)
    }

    /// The ratio of one cell with its 95% interval, when there are rounds enough.
    #[must_use]
    pub fn ratio(&self, arm: Arm, case: usize) -> Option<(f64, [f64; 2])> {
        let comparison = self.cells.get(&(arm, case))?.comparison?;
        let (low, high) = comparison.interval(0.95);
        Some((comparison.ratio(), [low, high]))
    }
}

/// Judges all that was measured so far.
pub fn judge(plan: &Plan, tally: &Tally) -> Result<Judged> {
    let rounds = tally.complete_rounds(plan);
    let how = stats::Plan {
        tolerance: Tolerance::new(plan.tolerance)?,
        looks: if plan.rounds == Rounds::Auto { Looks::Auto } else { Looks::Once },
        error: stats::Plan::ERROR,
    };
    let Some(baseline) = plan.arms().next() else { return Ok(Judged { cells: [].into(), joint: [].into() }) };
    let modes = plan.modes();
    let others = plan.arms().filter(|arm| *arm != baseline);
    let keys: Vec<_> = others.flat_map(|arm| (0..plan.cases.len()).map(move |case| (arm, case))).collect();
    let pair = |(arm, case): &(Arm, usize)| Pair {
        baseline: tally.cell(baseline, *case),
        candidate: tally.cell(*arm, *case),
        kin: modes.iter().position(|mode| *mode == plan.cases[*case].mode).unwrap_or(0) as u32,
    };
    let pairs: Vec<_> = keys.iter().map(pair).collect();
    let cells = keys.iter().copied().zip(stats::judge(&how, &pairs, rounds)).collect();

    let joint_of = |arm: Arm, mode: Mode| {
        let cases = (0..plan.cases.len()).filter(|case| plan.cases[*case].mode == mode);
        stats::Cell::joint(&cases.map(|case| tally.cell(arm, case)).collect::<Vec<_>>())
    };
    let mut joint = BTreeMap::new();
    for mode in modes {
        let base = joint_of(baseline, mode);
        let arms: Vec<_> = plan.arms().filter(|arm| *arm != baseline).collect();
        let candidates: Vec<_> = arms.iter().map(|arm| joint_of(*arm, mode)).collect();
        let pairs: Vec<_> = candidates.iter().map(|candidate| Pair { baseline: &base, candidate, kin: 0 }).collect();
        let judged = stats::judge(&how, &pairs, rounds);
        joint.extend(arms.into_iter().map(|arm| (arm, mode)).zip(judged));
    }
    Ok(Judged { cells, joint })
}

/// What the cells of a run are made of.
pub struct Summary<'a> {
    plan: &'a Plan,
    tally: &'a Tally,
    judged: Judged,
    seconds_per_round: Option<f64>,
}

impl<'a> Summary<'a> {
    /// Of a run whose visits the journal lists.
    pub fn of(plan: &'a Plan, journal: &Journal, tally: &'a Tally) -> Result<Self> {
        Ok(Self { plan, tally, judged: judge(plan, tally)?, seconds_per_round: seconds_per_round(journal) })
    }

    /// The cells of an arm that made these visits, by case.
    pub fn cells(&self, arm: Arm, visits: &[Visit], proof: Option<&ArmProofs>) -> Result<Vec<Cell>> {
        let (plan, tally) = (self.plan, self.tally);
        let mut samples: Vec<Vec<f64>> = vec![Vec::new(); plan.cases.len()];
        let mut replicates = vec![0; plan.cases.len()];
        for replicate in visits.iter().filter(|visit| visit.is_measured()).flat_map(|visit| &visit.replicates) {
            samples[replicate.case].extend(&replicate.samples_us);
            replicates[replicate.case] += 1;
        }
        let cell = |(case, (samples, replicates)): (usize, (Vec<f64>, u32))| {
            let sample = if samples.is_empty() { None } else { Some(Sample::new(samples)?) };
            let mut cell = measured(plan, tally, arm, case, sample.as_ref())?;
            cell.replicates = replicates;
            cell.applied = proof.map_or(Applied::Unverified, |proof| proof.applied(case));
            give_verdict(&mut cell, plan, tally, &self.judged, self.seconds_per_round);
            withhold_verdict(&mut cell, proof);
            withhold_drift(&mut cell, plan, tally);
            registration::withhold(&mut cell, visits);
            Ok(cell)
        };
        samples.into_iter().zip(replicates).enumerate().map(cell).collect()
    }

    /// The joint verdicts, by arm, then mode.
    #[must_use]
    pub fn joint(&self, proofs: &[ArmProofs]) -> Vec<Joint> {
        let (plan, tally) = (self.plan, self.tally);
        let of = |holds: fn(&ArmProofs, &Plan) -> bool| -> Vec<Arm> {
            proofs.iter().filter(|proof| holds(proof, plan)).map(|proof| proof.arm).collect()
        };
        let (lost, identical) = (of(lost), of(|proof, _| proof.identical_to_baseline));
        let no_baseline = plan.arms().next().is_some_and(|baseline| tally.failures(baseline).is_some());
        let joint = |((arm, mode), judgement): (&(Arm, Mode), &Judgement)| {
            let comparison = judgement.comparison.filter(|_| plan.soak_s.is_none());
            let interval = comparison.map(|c| c.interval(0.95));
            Joint {
                arm: *arm,
                set: plan.sets[arm.set].name.clone(),
                mode: *mode,
                ratio: comparison.map(|c| c.ratio()),
                ratio_interval: interval.map(<[f64; 2]>::from),
                verdict: match judgement.verdict.into() {
                    _ if no_baseline || tally.failures(*arm).is_some() => Verdict::Invalid,
                    _ if plan.soak_s.is_some() || lost.contains(arm) || drifted(*arm, plan, tally).is_some() => {
                        Verdict::Undecided
                    }
                    Verdict::Faster | Verdict::Slower if identical.contains(arm) => Verdict::Undecided,
                    verdict => verdict,
                },
            }
        };
        self.judged.joint.iter().map(joint).collect()
    }
}

/// Whether the settings of an arm are known not to be in effect in some case.
fn lost(proof: &ArmProofs, plan: &Plan) -> bool {
    (0..plan.cases.len()).any(|case| proof.applied(case).is_lost())
}

fn seconds_per_round(journal: &Journal) -> Option<f64> {
    let rounds = journal.entries().iter().map(|entry| entry.round + 1).max()?;
    Some(journal.entries().iter().map(|entry| entry.seconds).sum::<f64>() / f64::from(rounds))
}

fn measured(plan: &Plan, tally: &Tally, arm: Arm, case: usize, sample: Option<&Sample>) -> Result<Cell> {
    let of = &plan.cases[case];
    let visits = tally.cell(arm, case);
    let typical = visits.typical();
    let summary = sample.map(Sample::summary);
    let median = typical.map(|typical| typical.point).or(summary.map(|summary| summary.median.0));
    let Checks { outputs: checked_outputs, wrong: wrong_outputs, first_wrong } = tally.checks(arm, case);
    Ok(Cell {
        arm,
        set: plan.sets[arm.set].name.clone(),
        nccl: plan.libraries[arm.library].version,
        launch: arm.launch,
        alive: arm.alive,
        ranks: plan.ranks,
        case,
        dtype: of.dtype,
        op: of.op,
        in_place: of.placement == crate::collective::Placement::InPlace,
        size_bytes: of.bytes().0,
        mode: of.mode,
        visits: visits.visits() as u32,
        replicates: 0,
        median_us: median,
        interval_us: typical.map(|typical| typical.interval.into()),
        mean_us: summary.map(|summary| summary.mean.0),
        p95_us: summary.map(|summary| summary.p95.0),
        p99_us: summary.map(|summary| summary.p99.0),
        min_us: summary.map(|summary| summary.min.0),
        algbw_gbps: median.map(|median| of.algbw(Micros(median)).0),
        busbw_gbps: median.map(|median| of.busbw(Micros(median), plan.ranks as usize).0),
        ratio: None,
        ratio_interval: None,
        verdict: Verdict::Undecided,
        verdict_reason: None,
        applied: Applied::Unverified,
        first_wrong,
        checked_outputs,
        wrong_outputs,
        floor: None,
    })
}

fn give_verdict(cell: &mut Cell, plan: &Plan, tally: &Tally, judged: &Judged, seconds_per_round: Option<f64>) {
    let baseline = plan.arms().next();
    let judgement = judged.cells.get(&(cell.arm, cell.case));
    let soak = plan.soak_s.is_some();
    if let (false, Some((ratio, interval))) = (soak, judged.ratio(cell.arm, cell.case)) {
        cell.ratio = Some(ratio);
        cell.ratio_interval = Some(interval);
    }
    (cell.verdict, cell.verdict_reason) = match judgement {
        _ if cell.wrong_outputs > 0 => {
            let reason = format!("{} of {} outputs are wrong", cell.wrong_outputs, cell.checked_outputs);
            (Verdict::Invalid, Some(reason))
        }
        _ if tally.failures(cell.arm).is_some() => (Verdict::Invalid, tally.failures(cell.arm)),
        // Nothing failed: the run ended before its turn.
        _ if cell.median_us.is_none() => (Verdict::Undecided, Some("not measured: the run ended before".to_owned())),
        None => (Verdict::Baseline, None),
        Some(_) if soak => (Verdict::Undecided, Some("a soak looks at data, not at times".to_owned())),
        Some(_) if baseline.and_then(|arm| tally.failures(arm)).is_some() => {
            (Verdict::Invalid, Some("the baseline failed".to_owned()))
        }
        Some(judgement) => {
            let reason = match judgement.verdict {
                stats::Verdict::Undecided(why) => Some(forecast(why, seconds_per_round)),
                _ => None,
            };
            (judgement.verdict.into(), reason)
        }
    };
}

/// Takes a verdict back that would say what was not measured: of settings that did not take effect, or of a set that used
/// exactly what the baseline used.
fn withhold_verdict(cell: &mut Cell, proof: Option<&ArmProofs>) {
    let lost = cell.applied.is_lost();
    match cell.verdict {
        Verdict::Faster | Verdict::Slower | Verdict::Same => {}
        // More rounds would decide nothing of settings that are not there.
        Verdict::Undecided if lost => {}
        _ => return,
    }
    let identical = proof.is_some_and(|proof| proof.identical_to_baseline);
    let reason = match cell.verdict {
        _ if lost => {
            let blocking = proof.into_iter().flat_map(|proof| proof.blocking(cell.case));
            let named: Vec<String> = blocking.map(|proof| format!("{} {}", proof.name, proof.state)).collect();
            format!("the settings are not in effect: {}", named.join(", "))
        }
        Verdict::Same if identical => {
            cell.verdict_reason = Some("NCCL does exactly what it does by default".to_owned());
            return;
        }
        _ if identical => format!("measured {}, but NCCL does exactly what it does by default", cell.verdict),
        _ => return,
    };
    cell.verdict = Verdict::Undecided;
    cell.verdict_reason = Some(reason);
}

/// Takes a verdict back that may be one on clocks, cooling or a faulty link.
fn withhold_drift(cell: &mut Cell, plan: &Plan, tally: &Tally) {
    if !matches!(cell.verdict, Verdict::Faster | Verdict::Slower | Verdict::Same) {
        return;
    }
    if let Some(reason) = drifted(cell.arm, plan, tally) {
        cell.verdict_reason = Some(format!("measured {}, but {reason}", cell.verdict));
        cell.verdict = Verdict::Undecided;
    }
}

/// Why an arm and the baseline were not measured under the same conditions, when they were not.
fn drifted(arm: Arm, plan: &Plan, tally: &Tally) -> Option<String> {
    let baseline = plan.arms().next()?;
    let names = (plan.arm_name(arm), plan.arm_name(baseline));
    tally.conditions(arm)?.unlike((&names.0, &names.1), tally.conditions(baseline)?)
}

/// Why a cell is undecided, with the time that would decide it.
fn forecast(why: stats::Undecided, seconds_per_round: Option<f64>) -> String {
    match (why, seconds_per_round) {
        (stats::Undecided::More(rounds), Some(seconds)) => {
            // A figure this rough is never nothing.
            format!("{why} ({})", duration((f64::from(rounds) * seconds).max(0.1)))
        }
        _ => why.to_string(),
    }
}

impl From<stats::Verdict> for Verdict {
    fn from(verdict: stats::Verdict) -> Self {
        match verdict {
            stats::Verdict::Faster => Self::Faster,
            stats::Verdict::Slower => Self::Slower,
            stats::Verdict::Same => Self::Same,
            stats::Verdict::Undecided(_) => Self::Undecided,
        }
    }
}

#[cfg(test)]
mod tests;
