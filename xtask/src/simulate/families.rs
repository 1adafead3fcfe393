//! Families that are harder than "all sizes alike": effects that differ, many env sets, visits that fail.

use ncclsweep::error::Result;
use ncclsweep::stats::{Judgement, Looks, Plan, Tolerance, Verdict, judge};
use rayon::prelude::*;

use super::Effort;
use super::noise::{self, Noise, SIZES};
use super::world::{Truth, World};
use crate::table::Table;

/// The last planned look.
const LAST: u32 = 40;
/// Tolerance of all families, and its log.
const TOLERANCE: f64 = 0.05;

/// One family: its name, its truth, and after how many rounds it is judged (0: looks until all is decided).
type Family = (&'static str, Truth, u32);

fn families() -> Vec<Family> {
    let limit = TOLERANCE.ln_1p();
    let sizes = |shares: [f64; SIZES]| Truth::by_size(shares.map(|share| share * limit).to_vec());
    let sets = |share: f64| Truth { effects: vec![vec![share * limit; SIZES]; 25], ..Truth::of(0.0) };
    let failing = |truth: Truth| Truth { failing: 0.3, ..truth };
    vec![
        ("one_size_at_the_tolerance", sizes([1.0, 0.0, 0.0, 0.0]), 0),
        ("two_sizes_at_the_tolerance", sizes([1.0, 1.0, 0.0, 0.0]), 0),
        ("three_sizes_at_the_tolerance", sizes([1.0, 1.0, 1.0, 0.0]), 0),
        ("both_ends_of_the_tolerance", sizes([-1.0, 1.0, -1.0, 1.0]), 0),
        ("just_inside", sizes([0.9; SIZES]), 0),
        ("just_outside", sizes([1.1; SIZES]), 0),
        ("mixed", sizes([-2.0, -1.0, 0.0, 1.0]), 0),
        ("100_cells_no_difference", sets(0.0), 0),
        ("100_cells_at_the_tolerance", sets(1.0), 12),
        ("no_difference_30pct_fail", failing(sizes([0.0; SIZES])), 0),
        ("at_the_tolerance_30pct_fail", failing(sizes([1.0; SIZES])), 0),
        ("fixed_6_rounds_no_difference", sizes([0.0; SIZES]), 6),
        ("fixed_6_rounds_at_the_tolerance", sizes([1.0; SIZES]), 6),
        ("fixed_12_rounds_at_the_tolerance", sizes([1.0; SIZES]), 12),
    ]
}

/// What one run of a family came to.
struct Ending {
    wrong_same: bool,
    wrong_beyond: bool,
    decided: bool,
    rounds: u32,
}

pub fn table(effort: &Effort) -> Result<Table> {
    let mut table =
        Table::new(&["model", "family", "any_wrong_same", "any_wrong_beyond", "all_decided", "rounds_mean"]);
    for model in noise::measured(&effort.model)? {
        for family in &families() {
            // A family of a hundred cells costs as much as 25 of four.
            let runs = if family.1.effects.len() > 1 { effort.runs / 4 } else { effort.runs };
            let run = |stream| one(&model, family, effort.seed, stream);
            let endings: Vec<Ending> = (0..runs).into_par_iter().map(run).collect::<Result<_>>()?;
            let share = |of: &dyn Fn(&Ending) -> f64| endings.iter().map(of).sum::<f64>() / endings.len() as f64;
            table.push(vec![
                model.name.clone(),
                family.0.to_owned(),
                format!("{:.4}", share(&|ending| f64::from(ending.wrong_same))),
                format!("{:.4}", share(&|ending| f64::from(ending.wrong_beyond))),
                format!("{:.4}", share(&|ending| f64::from(ending.decided))),
                format!("{:.1}", share(&|ending| f64::from(ending.rounds))),
            ]);
        }
    }
    Ok(table)
}

fn one(model: &Noise, (_, truth, fixed): &Family, seed: u64, stream: u64) -> Result<Ending> {
    let looks = if *fixed > 0 { Looks::Once } else { Looks::Auto };
    let plan = Plan { tolerance: Tolerance::new(TOLERANCE)?, looks, error: Plan::ERROR };
    let mut world = World::new(model, truth, seed, stream);
    let mut rounds = *fixed;
    let judged = if rounds > 0 {
        judge(&plan, &world.after(rounds)?.pairs(), rounds)
    } else {
        let judged = judge(&plan, &world.after(LAST)?.pairs(), LAST);
        rounds = judged.iter().map(|judged| judged.decided_after.unwrap_or(LAST)).max().unwrap_or(LAST);
        judged
    };
    let effects: Vec<f64> = truth.effects.concat();
    // At the tolerance itself any verdict is counted as wrong.
    let any =
        |wrong: &dyn Fn(f64, &Judgement) -> bool| judged.iter().zip(&effects).any(|(of, effect)| wrong(*effect, of));
    let (near, limit) = (1e-9, TOLERANCE.ln_1p());
    Ok(Ending {
        wrong_same: any(&|effect, of| of.verdict == Verdict::Same && effect.abs() > limit - near),
        wrong_beyond: any(&|effect, of| match of.verdict {
            Verdict::Faster => effect > -limit - near,
            Verdict::Slower => effect < limit + near,
            Verdict::Same | Verdict::Undecided(_) => false,
        }),
        decided: judged.iter().all(|judged| judged.verdict.is_decided()),
        rounds,
    })
}
