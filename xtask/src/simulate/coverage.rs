//! Does a 95% interval hold the truth in 95% of runs, and how wide is it?

use ncclsweep::error::Result;
use ncclsweep::stats::{Looks, Pair, Plan, Tolerance, judge, judge_runs};
use rayon::prelude::*;

use super::Effort;
use super::noise::{self, Noise};
use super::world::{BASE, Truth, World};
use crate::table::Table;

const ROUNDS: [u32; 5] = [3, 4, 6, 12, 24];
const RATIO: f64 = 0.9;

/// Coverage counts of one kind of interval.
#[derive(Clone, Copy, Default)]
struct Count {
    of: u64,
    below: u64,
    above: u64,
    width: f64,
}

impl Count {
    /// Adds the interval of a quantity whose true value is `truth`.
    fn add(&mut self, (low, high): (f64, f64), truth: f64) {
        self.of += 1;
        self.below += u64::from(high < truth);
        self.above += u64::from(low > truth);
        self.width += (high / low).ln() / 2.0;
    }

    fn merge(mut self, other: Self) -> Self {
        self.of += other.of;
        self.below += other.below;
        self.above += other.above;
        self.width += other.width;
        self
    }
}

const KINDS: [&str; 4] = ["ratio", "joint_ratio", "typical", "ratio_of_runs"];
type Counts = [Count; KINDS.len()];

pub fn table(effort: &Effort) -> Result<Table> {
    let mut table =
        Table::new(&["model", "interval", "rounds", "coverage", "truth_below", "truth_above", "half_width_pct"]);
    for model in noise::like(&effort.model)? {
        for rounds in ROUNDS {
            let counts = simulate(&model, rounds, effort)?;
            for (kind, count) in KINDS.iter().zip(counts) {
                let share = |n: u64| n as f64 / count.of as f64;
                let mut row = vec![model.name.clone(), (*kind).to_owned(), rounds.to_string()];
                row.push(format!("{:.4}", 1.0 - share(count.below + count.above)));
                row.push(format!("{:.4}", share(count.above)));
                row.push(format!("{:.4}", share(count.below)));
                row.push(format!("{:.3}", 100.0 * count.width / count.of as f64));
                table.push(row);
            }
        }
    }
    Ok(table)
}

fn simulate(model: &Noise, rounds: u32, effort: &Effort) -> Result<Counts> {
    let run = |stream| one(model, rounds, effort.seed, stream);
    let merge = |one: Counts, other: Counts| Ok(std::array::from_fn(|kind| one[kind].merge(other[kind])));
    (0..effort.runs).into_par_iter().map(run).try_reduce(Counts::default, merge)
}

fn one(model: &Noise, rounds: u32, seed: u64, stream: u64) -> Result<Counts> {
    let truth = Truth::of(RATIO.ln());
    let plan = Plan { tolerance: Tolerance::new(0.05)?, looks: Looks::Once, error: Plan::ERROR };
    let cells = World::new(model, &truth, seed, stream).after(rounds)?;
    let mut counts = Counts::default();
    for (kind, cells) in [(0, &cells), (1, &cells.joint())] {
        for comparison in judge(&plan, &cells.pairs(), rounds).iter().filter_map(|judged| judged.comparison) {
            counts[kind].add(comparison.interval(0.95), RATIO);
        }
    }
    // An interval of a single run says nothing of drift, which only pairing removes.
    let still = Noise { drift: 0.0, ..model.clone() };
    let one = World::new(&still, &truth, seed, stream).after(rounds)?;
    let other = World::new(&still, &truth, seed.wrapping_add(1), stream).after(rounds)?;
    for (cell, size) in one.baseline().iter().zip(&still.of.sizes) {
        let centre = BASE * (size.first / truth.communicators as f64).exp();
        if let Some(typical) = cell.typical() {
            counts[2].add(typical.interval, centre);
        }
    }
    let other = other.pairs();
    let runs: Vec<Pair> =
        one.baseline().iter().zip(&other).map(|(before, after)| Pair { baseline: before, ..*after }).collect();
    for comparison in judge_runs(plan.tolerance, plan.error, &runs).iter().filter_map(|judged| judged.comparison) {
        counts[3].add(comparison.interval(0.95), RATIO);
    }
    Ok(counts)
}
