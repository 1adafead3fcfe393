//! How much prior the variance of a paired difference should have: coverage where the prior is wrong against width where it
//! is right. The moderated variance is written out a second time here, with its constants as variables; the row
//! `product` is the library's own, and must agree with the row of its constants.

use ncclsweep::error::Result;
use ncclsweep::stats::{Looks, Plan, Tolerance, judge};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::Effort;
use super::noise::{self, Noise};
use super::world::{Raw, Truth, World};
use crate::table::Table;

const ROUNDS: [u32; 4] = [3, 4, 6, 12];
/// About what one look spends in a family of four cells: .002 on each side.
const VERDICT_LEVEL: f64 = 0.996;

/// Degrees of freedom of the prior variance, its ratio to what communicators cause, degrees of freedom of that ratio.
#[derive(Clone, Copy)]
struct Prior(f64, f64, f64);

#[derive(Clone, Copy)]
enum Method {
    Plain,
    /// Percentile bootstrap of the rounds.
    Bootstrap,
    Moderated(Prior),
    Product,
}

fn methods() -> Vec<(String, Method)> {
    let mut all = vec![
        ("plain_t".to_owned(), Method::Plain),
        ("bootstrap".to_owned(), Method::Bootstrap),
        ("product".to_owned(), Method::Product),
    ];
    for freedom in [1.0, 1.5, 2.0, 4.0] {
        for ratio in [1.0, 4.0, 6.0] {
            let weight = if ratio > 1.0 { 4.0 } else { 0.0 };
            all.push((format!("{freedom}/{ratio}/{weight}"), Method::Moderated(Prior(freedom, ratio, weight))));
        }
    }
    all
}

/// One size of one run: mean difference, variance of a round's difference, what communicators cause of it.
struct Difference {
    by_round: Vec<f64>,
    mean: f64,
    between: f64,
    within: f64,
}

pub fn table(effort: &Effort) -> Result<Table> {
    let mut table =
        Table::new(&["model", "rounds", "method", "miss_95", "miss_996", "half_width_996", "variance_ratio"]);
    for model in noise::like(&effort.model)? {
        for rounds in ROUNDS {
            for row in rows(&model, rounds, effort)? {
                table.push(row);
            }
        }
    }
    Ok(table)
}

/// Misses at both levels, and the half width at the second.
type Tally = [f64; 3];

/// One run: a tally for every method, the mean variance, and its mean ratio to what communicators cause.
struct Run {
    tallies: Vec<Tally>,
    variance: f64,
    ratio: f64,
}

fn rows(model: &Noise, rounds: u32, effort: &Effort) -> Result<Vec<Vec<String>>> {
    let truth = Truth::of(0.0);
    let methods = methods();
    let one = |stream: u64| -> Result<Run> {
        let mut world = World::new(model, &truth, effort.seed, stream);
        world.run(rounds);
        let differences = differences(&world, truth.communicators);
        let mut tallies = Vec::new();
        for (_, method) in &methods {
            tallies.push(match method {
                Method::Product => product(&mut world, rounds)?,
                Method::Bootstrap => bootstrap(&differences, stream),
                Method::Plain => tally(&differences, rounds, None),
                Method::Moderated(prior) => tally(&differences, rounds, Some(*prior)),
            });
        }
        let mean = |of: &dyn Fn(&Difference) -> f64| differences.iter().map(of).sum::<f64>() / differences.len() as f64;
        Ok(Run { tallies, variance: mean(&|d| d.between), ratio: mean(&|d| d.between / d.within) })
    };
    let all: Vec<Run> = (0..effort.runs).into_par_iter().map(one).collect::<Result<_>>()?;
    let mean = |of: &dyn Fn(&Run) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    let known = Normal::standard().inverse_cdf((1.0 + VERDICT_LEVEL) / 2.0)
        * (mean(&|run| run.variance) / f64::from(rounds)).sqrt();
    let row = |(at, (name, _)): (usize, &(String, Method))| {
        let figure = |column: usize| mean(&|run| run.tallies[at][column]);
        let mut row = vec![model.name.clone(), rounds.to_string(), name.clone()];
        row.push(format!("{:.4}", figure(0)));
        row.push(format!("{:.5}", figure(1)));
        row.push(format!("{:.3}", figure(2) / known));
        row.push(format!("{:.2}", mean(&|run| run.ratio)));
        row
    };
    Ok(methods.iter().enumerate().map(row).collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sum of squares about the mean, per degree of freedom.
fn variance(values: &[f64]) -> f64 {
    let middle = mean(values);
    values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

fn differences(world: &World, communicators: usize) -> Vec<Difference> {
    let [baseline, candidate] = world.raw() else { panic!("one candidate") };
    let of_size = |(baseline, candidate): (&Vec<Raw>, &Vec<Raw>)| {
        let pairs = baseline.iter().zip(candidate);
        let by_round: Vec<f64> = pairs.map(|(base, other)| mean(&other.logs) - mean(&base.logs)).collect();
        let within = within(baseline, communicators) + within(candidate, communicators);
        Difference { mean: mean(&by_round), between: variance(&by_round), by_round, within }
    };
    baseline.iter().zip(candidate).map(of_size).collect()
}

/// The variance of a visit's mean that its communicators cause, positions removed.
fn within(visits: &[Raw], communicators: usize) -> f64 {
    let position = |k: usize| mean(&visits.iter().map(|raw| raw.logs[k]).collect::<Vec<_>>());
    let positions: Vec<f64> = (0..communicators).map(position).collect();
    let residuals = |raw: &Raw| {
        let rest: Vec<f64> = raw.logs.iter().zip(&positions).map(|(log, position)| log - position).collect();
        variance(&rest) * (communicators - 1) as f64
    };
    let squares: f64 = visits.iter().map(residuals).sum();
    squares / ((visits.len() - 1) * (communicators - 1)) as f64 / communicators as f64
}

fn tally(differences: &[Difference], rounds: u32, prior: Option<Prior>) -> Tally {
    let of_rounds = f64::from(rounds) - 1.0;
    let Prior(of_prior, ratio, weight) = prior.unwrap_or(Prior(0.0, 1.0, 0.0));
    let sum: f64 = differences.iter().map(|d| d.between / d.within).sum();
    let ratio = (ratio * weight + sum * of_rounds) / (weight + of_rounds * differences.len() as f64);
    let freedom = of_prior + of_rounds;
    let t = StudentsT::new(0.0, 1.0, freedom).expect("positive degrees of freedom");
    let [usual, strict] = [0.95, VERDICT_LEVEL].map(|level| t.inverse_cdf((1.0 + level) / 2.0));
    let mut tally = Tally::default();
    for d in differences {
        let variance = (of_prior * ratio.max(1.0) * d.within + of_rounds * d.between) / freedom;
        let error = (variance / f64::from(rounds)).sqrt();
        tally[0] += f64::from(d.mean.abs() > usual * error);
        tally[1] += f64::from(d.mean.abs() > strict * error);
        tally[2] += strict * error;
    }
    tally.map(|sum| sum / differences.len() as f64)
}

/// The interval between quantiles of the mean of rounds drawn with replacement.
fn bootstrap(differences: &[Difference], seed: u64) -> Tally {
    const DRAWS: usize = 400;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut tally = Tally::default();
    for Difference { by_round, .. } in differences {
        let rounds = by_round.len();
        let mut draw = || (0..rounds).map(|_| by_round[rng.random_range(0..rounds)]).sum::<f64>() / rounds as f64;
        let mut draws: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
        draws.sort_unstable_by(f64::total_cmp);
        let at = |level: f64| ((1.0 - level) / 2.0 * DRAWS as f64) as usize;
        let between = |level| (draws[at(level)], draws[DRAWS - 1 - at(level)]);
        let misses = |(low, high): (f64, f64)| f64::from(low > 0.0 || high < 0.0);
        let (low, high) = between(VERDICT_LEVEL);
        tally[0] += misses(between(0.95));
        tally[1] += misses((low, high));
        tally[2] += (high - low) / 2.0;
    }
    tally.map(|sum| sum / differences.len() as f64)
}

fn product(world: &mut World, rounds: u32) -> Result<Tally> {
    let plan = Plan { tolerance: Tolerance::new(0.05)?, looks: Looks::Once, error: Plan::ERROR };
    let cells = world.after(rounds)?;
    let judged = judge(&plan, &cells.pairs(), rounds);
    let mut tally = Tally::default();
    for comparison in judged.iter().filter_map(|judged| judged.comparison) {
        let [usual, strict] = [0.95, VERDICT_LEVEL].map(|level| comparison.interval(level));
        let misses = |(low, high): (f64, f64)| f64::from(low > 1.0 || high < 1.0);
        tally[0] += misses(usual);
        tally[1] += misses(strict);
        tally[2] += (strict.1 / strict.0).ln() / 2.0;
    }
    Ok(tally.map(|sum| sum / judged.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_and_the_formula_written_out_here_agree() {
        let truth = Truth::of(0.0);
        for model in noise::measured("").unwrap() {
            let mut world = World::new(&model, &truth, 7, 0);
            world.run(5);
            let written_out = tally(&differences(&world, truth.communicators), 5, Some(Prior(1.5, 6.0, 4.0)));
            let library = product(&mut world, 5).unwrap();
            for (one, other) in written_out.iter().zip(library) {
                assert!((one - other).abs() < 1e-9, "{}: {written_out:?} {library:?}", model.name);
            }
        }
    }
}
