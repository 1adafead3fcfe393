//! The 95% interval of p95 and p99: a t over the visits' own quantiles (about their geometric mean) against whole visits
//! resampled for the quantile of all iterations, which the product does not do because of what this table shows.

use ncclsweep::error::Result;
use ncclsweep::stats::{Cell, Sample, Visit};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, Gamma, StandardNormal};
use rayon::prelude::*;

use super::Effort;
use crate::table::Table;

const VISITS: [u32; 6] = [3, 6, 12, 18, 24, 40];
const COMMUNICATORS: usize = 6;
const ITERATIONS: usize = 100;
const QUANTILES: [f64; 2] = [0.95, 0.99];
/// Draws behind one simulated interval: enough for its coverage.
const DRAWS: usize = 1000;

type Interval = (f64, f64);

/// Lone calls: a process 1%, its communicators 3%, their iterations 2%, and now and then a call that is slower by 30% on
/// average; how often differs between processes.
fn visit(rng: &mut ChaCha8Rng) -> Result<Sample> {
    let gamma = Gamma::new(2.0, 0.01).expect("a positive shape");
    let mut normal = |sd: f64| sd * Distribution::<f64>::sample(&StandardNormal, rng);
    let (process, levels) = (normal(0.01), [(); COMMUNICATORS].map(|()| normal(0.03)));
    let often = gamma.sample(rng);
    let mut times = Vec::with_capacity(COMMUNICATORS * ITERATIONS);
    for level in levels {
        for _ in 0..ITERATIONS {
            let noise: f64 = StandardNormal.sample(rng);
            let slow: f64 = if rng.random::<f64>() < often { Exp1.sample(rng) } else { 0.0 };
            times.push(70.0 * (process + level + 0.02 * noise + 0.3 * slow).exp());
        }
    }
    Sample::new(times)
}

fn visits(count: u32, seed: u64, stream: u64) -> Result<Vec<Sample>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    (0..count).map(|_| visit(&mut rng)).collect()
}

fn over_visits(visits: &[Sample], p: f64) -> Result<Cell> {
    Cell::new((0..).zip(visits).map(|(round, visit)| Visit::new(round, [visit.quantile(p).0])).collect::<Result<_>>()?)
}

/// The percentile bootstrap of the `p` quantile of all iterations, a visit being drawn with all that it has.
fn resampled(visits: &[Sample], p: f64, stream: u64) -> Option<Interval> {
    let mut rng = ChaCha8Rng::seed_from_u64(stream);
    let mut times: Vec<(f64, usize)> = Vec::new();
    for (visit, sample) in visits.iter().enumerate() {
        times.extend(sample.sorted().iter().map(|time| (*time, visit)));
    }
    times.sort_unstable_by(|one, other| other.0.total_cmp(&one.0));
    let slower = ((1.0 - p) * times.len() as f64) as usize;
    let mut draw = || {
        let mut drawn = vec![0; visits.len()];
        (0..visits.len()).for_each(|_| drawn[rng.random_range(0..visits.len())] += 1);
        let mut passed = 0;
        let reached = times.iter().find(|(_, visit)| {
            passed += drawn[*visit];
            passed > slower
        });
        reached.map(|(time, _)| *time)
    };
    let draws = Sample::new((0..DRAWS).filter_map(|_| draw()).collect()).ok()?;
    Some((draws.quantile(0.025).0, draws.quantile(0.975).0))
}

pub fn table(effort: &Effort) -> Result<Table> {
    let mut table = Table::new(&["quantile", "method", "visits", "coverage", "half_width_pct"]);
    // The truth is what twenty thousand visits say.
    let many = visits(20_000, effort.seed.wrapping_add(1), u64::MAX)?;
    let all = Sample::pooled(&many);
    for p in QUANTILES {
        let truths = [
            all.as_ref().map_or(f64::NAN, |all| all.quantile(p).0),
            over_visits(&many, p)?.typical().map_or(f64::NAN, |typical| typical.point),
        ];
        for count in VISITS {
            let one = |stream| -> Result<[Option<Interval>; 2]> {
                let visits = visits(count, effort.seed, stream)?;
                Ok([resampled(&visits, p, stream), over_visits(&visits, p)?.typical().map(|typical| typical.interval)])
            };
            let runs: Vec<_> = (0..effort.runs / 4).into_par_iter().map(one).collect::<Result<_>>()?;
            for (method, (name, truth)) in ["resampled", "t_over_visits"].into_iter().zip(truths).enumerate() {
                let intervals: Vec<Interval> = runs.iter().filter_map(|run| run[method]).collect();
                if intervals.is_empty() {
                    continue;
                }
                let of = intervals.len() as f64;
                let holds = intervals.iter().filter(|(low, high)| (*low..=*high).contains(&truth)).count() as f64;
                let width: f64 = intervals.iter().map(|(low, high)| (high / low).ln() / 2.0).sum();
                table.push(vec![
                    p.to_string(),
                    name.to_owned(),
                    count.to_string(),
                    format!("{:.4}", holds / of),
                    format!("{:.3}", 100.0 * width / of),
                ]);
            }
        }
    }
    Ok(table)
}
