//! What becomes of "about N more rounds would decide".

use ncclsweep::error::Result;
use ncclsweep::stats::{Looks, Plan, Tolerance, Undecided, Verdict, judge};
use rayon::prelude::*;

use super::Effort;
use super::noise::{self, Noise};
use super::world::{Truth, World};
use crate::table::Table;

const LOOKS: [u32; 3] = [3, 6, 12];
const LAST: u32 = 40;

/// One undecided cell: the round that was forecast to decide, and the one that did.
type Fate = (Option<u32>, Option<u32>);

pub fn table(effort: &Effort) -> Result<Table> {
    let mut table = Table::new(&[
        "model",
        "tolerance",
        "true_ratio",
        "after",
        "undecided",
        "forecast_none",
        "none_was_right",
        "decided_by_forecast",
        "ratio_p10",
        "ratio_median",
        "ratio_p90",
    ]);
    for model in noise::like(&effort.model)? {
        for (tolerance, ratio) in [(0.05, 1.0), (0.03, 1.0), (0.05, 0.97), (0.03, 0.95), (0.05, 0.9)] {
            let fates = simulate(&model, tolerance, ratio, effort)?;
            for (look, fates) in LOOKS.into_iter().zip(&fates) {
                if fates.len() >= 100 {
                    let mut row = vec![model.name.clone(), tolerance.to_string(), ratio.to_string(), look.to_string()];
                    row.extend(figures(fates, look));
                    table.push(row);
                }
            }
        }
    }
    Ok(table)
}

fn figures(fates: &[Fate], look: u32) -> Vec<String> {
    let share = |part: usize, of: usize| if of == 0 { "-".into() } else { format!("{:.3}", part as f64 / of as f64) };
    let none = fates.iter().filter(|(forecast, _)| forecast.is_none());
    let never = none.clone().filter(|(_, decided)| decided.is_none()).count();
    let forecast: Vec<(u32, u32)> =
        fates.iter().filter_map(|(forecast, decided)| Some(((*forecast)?, decided.unwrap_or(u32::MAX)))).collect();
    let kept = forecast.iter().filter(|(forecast, decided)| decided <= forecast).count();
    let mut ratios: Vec<f64> =
        forecast.iter().map(|(forecast, decided)| f64::from(decided - look) / f64::from(forecast - look)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let quantile = |p: f64| match ratios.get((p * ratios.len().saturating_sub(1) as f64) as usize) {
        Some(ratio) if *ratio < 100.0 => format!("{ratio:.2}"),
        _ => "-".into(),
    };
    vec![
        fates.len().to_string(),
        share(none.clone().count(), fates.len()),
        share(never, none.count()),
        share(kept, forecast.len()),
        quantile(0.1),
        quantile(0.5),
        quantile(0.9),
    ]
}

fn simulate(model: &Noise, tolerance: f64, ratio: f64, effort: &Effort) -> Result<[Vec<Fate>; LOOKS.len()]> {
    let truth = Truth::of(ratio.ln());
    let plan = Plan { tolerance: Tolerance::new(tolerance)?, looks: Looks::Auto, error: Plan::ERROR };
    let one = |stream: u64| -> Result<[Vec<Fate>; LOOKS.len()]> {
        let cells = World::new(model, &truth, effort.seed, stream).after(LAST)?;
        let pairs = cells.pairs();
        let end = judge(&plan, &pairs, LAST);
        let fates = |look: u32| {
            let forecast = |verdict| match verdict {
                Verdict::Undecided(Undecided::More(more)) => Some(Some(look + more)),
                Verdict::Undecided(_) => Some(None),
                Verdict::Faster | Verdict::Slower | Verdict::Same => None,
            };
            let now = judge(&plan, &pairs, look);
            now.iter().zip(&end).filter_map(|(now, end)| Some((forecast(now.verdict)?, end.decided_after))).collect()
        };
        Ok(LOOKS.map(fates))
    };
    let merge = |mut one: [Vec<Fate>; LOOKS.len()], other: [Vec<Fate>; LOOKS.len()]| {
        one.iter_mut().zip(other).for_each(|(one, other)| one.extend(other));
        Ok(one)
    };
    (0..effort.runs / 4).into_par_iter().map(one).try_reduce(Default::default, merge)
}
