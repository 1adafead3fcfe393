//! Runs that look until every cell is decided: which verdicts, which errors, how many rounds.

use ncclsweep::error::Result;
use ncclsweep::stats::{Judgement, Looks, Plan, Tolerance, Verdict, judge};
use rayon::prelude::*;

use super::Effort;
use super::noise::{self, Noise};
use super::world::{Truth, World};
use crate::table::Table;

/// The last planned look.
const LAST: u32 = 40;

/// Two processes of 2.0 s, each with communicators of 0.55 s.
fn seconds_a_round(communicators: usize) -> f64 {
    2.0 * (2.0 + 0.55 * communicators as f64)
}

/// How one run ended.
struct Ending {
    verdicts: Vec<Verdict>,
    /// The round of the last look, and the round that decided the joint verdict.
    rounds: u32,
    joint: Option<(u32, Verdict)>,
}

pub fn table(effort: &Effort) -> Result<Table> {
    let mut table = Table::new(&[
        "model",
        "tolerance",
        "true_ratio",
        "runs",
        "any_faster",
        "any_same",
        "any_slower",
        "all_decided",
        "all_right",
        "cells_right",
        "rounds_mean",
        "rounds_median",
        "rounds_p90",
        "seconds_median",
        "joint_right",
        "joint_wrong",
        "joint_seconds_median",
    ]);
    for model in noise::like(&effort.model)? {
        for tolerance in [0.05, 0.03] {
            for ratio in [1.0, 1.0 / (1.0 + tolerance), 1.0 + tolerance, 0.97, 0.95, 0.90] {
                // 0.95 and 0.97 lie a hair beyond the tolerance on the log scale: no verdict can be expected of them.
                if ratio == 1.0 - tolerance {
                    continue;
                }
                table.push(row(&model, tolerance, ratio, effort)?);
            }
        }
    }
    Ok(table)
}

/// Seconds until all four sizes are decided, by how many communicators a visit makes.
pub fn communicators(effort: &Effort) -> Result<Table> {
    let mut table =
        Table::new(&["model", "tolerance", "true_ratio", "communicators", "all_right", "rounds_mean", "seconds_mean"]);
    for model in noise::measured(&effort.model)? {
        for (tolerance, ratio) in [(0.05, 1.0), (0.05, 0.9), (0.03, 1.0)] {
            for communicators in [2, 3, 4, 6, 8, 12] {
                let truth = Truth { communicators, ..Truth::of(f64::ln(ratio)) };
                let run = |stream| one(&model, &truth, tolerance, effort.seed, stream);
                let endings: Vec<Ending> = (0..effort.runs).into_par_iter().map(run).collect::<Result<_>>()?;
                let right = right(ratio, tolerance);
                let all_right = |ending: &&Ending| ending.verdicts.iter().all(|verdict| Some(*verdict) == right);
                let rounds = endings.iter().map(|ending| f64::from(ending.rounds)).sum::<f64>() / endings.len() as f64;
                table.push(vec![
                    model.name.clone(),
                    tolerance.to_string(),
                    ratio.to_string(),
                    communicators.to_string(),
                    format!("{:.4}", endings.iter().filter(all_right).count() as f64 / endings.len() as f64),
                    format!("{rounds:.1}"),
                    format!("{:.0}", rounds * seconds_a_round(communicators)),
                ]);
            }
        }
    }
    Ok(table)
}

fn row(model: &Noise, tolerance: f64, ratio: f64, effort: &Effort) -> Result<Vec<String>> {
    let truth = Truth::of(ratio.ln());
    let run = |stream| one(model, &truth, tolerance, effort.seed, stream);
    let endings: Vec<Ending> = (0..effort.runs).into_par_iter().map(run).collect::<Result<_>>()?;
    let right = right(ratio, tolerance);
    let share = |holds: &dyn Fn(&Ending) -> bool| {
        format!("{:.4}", endings.iter().filter(|ending| holds(ending)).count() as f64 / endings.len() as f64)
    };
    let any = |verdict: Verdict| share(&|ending| ending.verdicts.contains(&verdict));
    let all = |holds: &dyn Fn(Verdict) -> bool| share(&|ending| ending.verdicts.iter().all(|verdict| holds(*verdict)));
    let cells: Vec<Verdict> = endings.iter().flat_map(|ending| ending.verdicts.iter().copied()).collect();
    let mut rounds: Vec<u32> = endings.iter().map(|ending| ending.rounds).collect();
    let mut joint: Vec<u32> = endings.iter().map(|ending| ending.joint.map_or(u32::MAX, |(round, _)| round)).collect();
    rounds.sort_unstable();
    joint.sort_unstable();
    let of = |sorted: &[u32], p: f64| sorted[(p * (sorted.len() - 1) as f64).round() as usize];
    let seconds = |rounds: u32| {
        if rounds > 40 {
            "never".into()
        } else {
            format!("{:.0}", seconds_a_round(truth.communicators) * f64::from(rounds))
        }
    };
    Ok(vec![
        model.name.clone(),
        format!("{tolerance}"),
        format!("{ratio:.4}"),
        endings.len().to_string(),
        any(Verdict::Faster),
        any(Verdict::Same),
        any(Verdict::Slower),
        all(&|verdict| verdict.is_decided()),
        all(&|verdict| Some(verdict) == right),
        format!("{:.4}", cells.iter().filter(|verdict| Some(**verdict) == right).count() as f64 / cells.len() as f64),
        format!("{:.1}", rounds.iter().sum::<u32>() as f64 / rounds.len() as f64),
        of(&rounds, 0.5).to_string(),
        of(&rounds, 0.9).to_string(),
        seconds(of(&rounds, 0.5)),
        share(&|ending| ending.joint.is_some_and(|(_, verdict)| Some(verdict) == right)),
        share(&|ending| ending.joint.is_some_and(|(_, verdict)| Some(verdict) != right)),
        seconds(of(&joint, 0.5)),
    ])
}

/// The verdict that is true; none at the tolerance itself.
fn right(ratio: f64, tolerance: f64) -> Option<Verdict> {
    let (log, limit) = (ratio.ln(), tolerance.ln_1p());
    match () {
        () if (log.abs() - limit).abs() < 1e-9 => None,
        () if log < -limit => Some(Verdict::Faster),
        () if log > limit => Some(Verdict::Slower),
        () => Some(Verdict::Same),
    }
}

fn one(model: &Noise, truth: &Truth, tolerance: f64, seed: u64, stream: u64) -> Result<Ending> {
    let plan = Plan { tolerance: Tolerance::new(tolerance)?, looks: Looks::Auto, error: Plan::ERROR };
    let mut world = World::new(model, truth, seed, stream);
    // A decided cell stays decided, so the whole history is read off a later state: a few are tried, the last is complete.
    let mut ending = None;
    for rounds in [6, 15, LAST] {
        let cells = world.after(rounds)?;
        let judged = judge(&plan, &cells.pairs(), rounds);
        let joint = judge(&plan, &cells.joint().pairs(), rounds)[0];
        let decided = |judged: &Judgement| judged.verdict.is_decided();
        let last = judged.iter().map(|judged| judged.decided_after.unwrap_or(LAST)).max().unwrap_or(LAST);
        let verdicts = judged.iter().map(|judged| judged.verdict).collect();
        let all = judged.iter().all(decided) && decided(&joint);
        ending = Some(Ending { verdicts, rounds: last, joint: joint.decided_after.map(|look| (look, joint.verdict)) });
        if all {
            break;
        }
    }
    Ok(ending.expect("at least one state was tried"))
}
