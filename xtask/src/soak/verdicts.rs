//! Whole programs on the emulator under a known truth, held against simulated runs of the same noise.
//!
//! The candidate sets a variable that leaves no trace, and the emulator multiplies the true time where that variable is set: so no
//! rule about what two sets used stands between what is measured and the verdict. A part of the time (that of launches) is neither
//! multiplied nor noisy, so the factor that gives the wanted ratio, the true ratio of each size, and how noisy the whole is are
//! taken from runs without noise.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use ncclsweep::error::{Error, Kind, Result};
use ncclsweep::record::run::{self, Run};
use ncclsweep::stats::{Cell, Looks, Pair, Plan, Tolerance, Undecided, Verdict, Visit};
use rayon::prelude::*;

use crate::calibrate;
use crate::simulate::whole::{self, COMMUNICATOR, Ended, PROCESS};
use crate::simulate::world::Truth;
use crate::table::Table;

const TOLERANCE: f64 = 0.05;
/// True ratios of the sizes' mean: no difference, a tenth, the tolerance.
const TRUTHS: [f64; 3] = [1.0, 0.9, 1.0 + TOLERANCE];
/// Of a visit. Fewer than a user would make, so that a run at the tolerance, which goes on to the last look, takes seconds.
const COMMUNICATORS: usize = 3;
/// NCCL pins its threads by it: of a collective it shows nothing.
const VARIABLE: &str = "NCCL_IGNORE_CPU_AFFINITY=1";
const ARGUMENTS: &str = "--emulate --gpus 2 --sizes 64x1..4 --samples 5 --chain 2 --quiet --out run";
const SIMULATED: u64 = 4000;
/// Every size of every run.
const KEPT: &str = "programs.csv";
const COLUMNS: [&str; 10] =
    ["wanted", "seed", "size", "rounds", "verdict", "ratio", "low", "high", "early_low", "early_high"];

/// What is counted of runs under one truth.
struct Counted {
    runs: usize,
    /// Shares of runs, by name.
    shares: Vec<(&'static str, f64)>,
    /// Mean and SD of the rounds to the end.
    rounds: (f64, f64),
    median: u32,
}

/// Makes `number` runs for each truth, or takes those that were kept, prints and keeps what they came to beside what the
/// simulation says.
pub fn run(program: &Path, number: u64, seed: u64, at_once: usize, kept: bool) -> Result<()> {
    let mut raw = Table::new(&COLUMNS);
    let mut table = Table::new(&["factor", "true_ratio", "figure", "programs", "simulated", "apart_in_se", "agrees"]);
    let (mut agree, begun) = (true, Instant::now());
    for (at, wanted) in TRUTHS.into_iter().enumerate() {
        let first = seed + 10_000 * at as u64;
        let multiplied = mean(&without_noise(program, 2.0, first)?) - 1.0;
        let factor = 1.0 + (wanted - 1.0) / multiplied;
        let truth = without_noise(program, factor, first)?;
        let programs = match kept {
            true => read(wanted)?,
            false => programs(program, factor, first..first + number, at_once)?,
        };
        for (seed, ended) in (first..).zip(&programs) {
            keep(&mut raw, wanted, seed, ended);
        }
        let (noise, effects) = (whole::emulated(multiplied), truth.iter().map(|ratio| ratio.ln()).collect());
        let of = Truth { communicators: COMMUNICATORS, ..Truth::by_size(effects) };
        let simulate = |stream| whole::run(&noise, &of, TOLERANCE, seed, stream);
        let simulated: Vec<Ended> = (0..SIMULATED).into_par_iter().map(simulate).collect::<Result<_>>()?;
        let head = [format!("{factor:.4}"), format!("{:.4}", mean(&truth))];
        agree &= compare(&mut table, &head, &counted(&truth, &programs), &counted(&truth, &simulated));
        eprintln!("{wanted}: {} runs, {:.0} s so far", programs.len(), begun.elapsed().as_secs_f64());
    }
    println!("shares of {number} runs of the program and of {SIMULATED} simulated ones");
    table.print();
    let command = format!("cargo xtask soak verdicts {number} --seed {seed}");
    raw.save(&calibrate::results().join(KEPT), &command)?;
    table.save(&calibrate::results().join("programs-and-simulation.csv"), &command)?;
    if agree { Ok(()) } else { Err(Error::new(Kind::Incomplete, "programs and simulation do not agree")) }
}

/// The true ratio of every size.
fn without_noise(program: &Path, factor: f64, seed: u64) -> Result<Vec<f64>> {
    Ok(one(program, factor, seed, "none")?.sizes.iter().map(|size| size.ratio).collect())
}

fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Runs of the program with these seeds, several at once, in the order of the seeds.
fn programs(program: &Path, factor: f64, seeds: std::ops::Range<u64>, at_once: usize) -> Result<Vec<Ended>> {
    let next = Mutex::new(seeds);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let seed = next.lock().expect("no thread panics").next();
                    let Some(seed) = seed else { return };
                    let ended = one(program, factor, seed, &format!("sd={COMMUNICATOR},process={PROCESS}"));
                    found.lock().expect("no thread panics").push((seed, ended));
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panics");
    found.sort_by_key(|(seed, _)| *seed);
    found.into_iter().map(|(_, ended)| ended).collect()
}

fn one(program: &Path, factor: f64, seed: u64, noise: &str) -> Result<Ended> {
    let failed = |error: std::io::Error| Error::new(Kind::Incomplete, "cannot make a run").because(error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(ARGUMENTS.split(' ')).args(["--seed", &seed.to_string(), "--set", &format!("twin:{VARIABLE}")]);
    command.args(["--communicators", &COMMUNICATORS.to_string()]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", folder.path()).env("TMPDIR", folder.path());
    command.env("NCCLSWEEP_EMULATE_SCALE", format!("{VARIABLE}:{factor}"));
    command.env("NCCLSWEEP_EMULATE_NOISE", noise);
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(failed)?;
    let text = std::fs::read(folder.path().join("run/run.json")).map_err(failed)?;
    let run = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    ended(&run).map_err(|error| error.help(format!("seed {seed} at a factor of {factor}: {status}")))
}

/// How a run ended, by its visits; the verdicts and intervals of its document must be the same.
fn ended(run: &Run) -> Result<Ended> {
    let plan = Plan { tolerance: Tolerance::new(TOLERANCE)?, looks: Looks::Auto, error: Plan::ERROR };
    let rounds = run.visits.iter().map(|visit| visit.round + 1).max().unwrap_or(0);
    let arms: Vec<_> = run.header.plan.arms().collect();
    let cell = |arm: usize, case: usize, rounds: u32| {
        let visits = run.visits.iter().filter(|visit| visit.arm == arms[arm] && visit.round < rounds);
        let values = visits.map(|visit| {
            let of_case = visit.replicates.iter().filter(|replicate| replicate.case == case);
            Visit::new(visit.round, of_case.map(|replicate| replicate.median_us))
        });
        Cell::new(values.collect::<Result<_>>()?)
    };
    let after = |rounds: u32, early: &[(f64, f64)]| -> Result<Vec<whole::Size>> {
        let cells = (0..run.header.plan.cases.len()).map(|case| Ok((cell(0, case, rounds)?, cell(1, case, rounds)?)));
        let cells: Vec<(Cell, Cell)> = cells.collect::<Result<_>>()?;
        let pairs = cells.iter().map(|(baseline, candidate)| Pair { baseline, candidate, kin: 0 });
        Ok(whole::sizes(&plan, &pairs.collect::<Vec<_>>(), rounds, early))
    };
    let early: Vec<_> = after(3, &[])?.into_iter().map(|size| size.interval).collect();
    let sizes = after(rounds, &early)?;
    let told = run.cells.iter().filter(|cell| cell.arm == arms[1]);
    for (size, cell) in sizes.iter().zip(told) {
        let same =
            run::Verdict::from(size.verdict) == cell.verdict && cell.ratio_interval == Some(size.interval.into());
        if !same {
            let message = format!("the document says {} {:?}, its visits {size:?}", cell.verdict, cell.ratio_interval);
            return Err(Error::new(Kind::Incomplete, message));
        }
    }
    Ok(Ended { rounds, sizes })
}

fn keep(raw: &mut Table, wanted: f64, seed: u64, ended: &Ended) {
    for (at, size) in ended.sizes.iter().enumerate() {
        let (low, high) = size.interval;
        let figures = [size.ratio, low, high, size.early.0, size.early.1].map(|figure| format!("{figure:.5}"));
        let verdict = run::Verdict::from(size.verdict).to_string();
        let head = [wanted.to_string(), seed.to_string(), at.to_string(), ended.rounds.to_string(), verdict];
        raw.push(head.into_iter().chain(figures).collect());
    }
}

/// The runs that were kept of a truth.
fn read(wanted: f64) -> Result<Vec<Ended>> {
    let path = calibrate::results().join(KEPT);
    let fault = |what: &str| Error::usage(format!("cannot read {}: {what}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|cause| fault("no such text").because(cause))?;
    let mut runs: BTreeMap<u64, Ended> = BTreeMap::new();
    for line in text.lines().skip(2) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells.get(at).and_then(|cell| cell.parse::<f64>().ok()).ok_or_else(|| fault(line));
        if number(0)? != wanted {
            continue;
        }
        let verdict = match cells.get(4).copied() {
            Some("faster") => Verdict::Faster,
            Some("same") => Verdict::Same,
            Some("slower") => Verdict::Slower,
            _ => Verdict::Undecided(Undecided::OutOfReach(0)),
        };
        let (interval, early) = ((number(6)?, number(7)?), (number(8)?, number(9)?));
        let size = whole::Size { verdict, ratio: number(5)?, interval, early };
        let ended = Ended { rounds: number(3)? as u32, sizes: Vec::new() };
        runs.entry(number(1)? as u64).or_insert(ended).sizes.push(size);
    }
    Ok(runs.into_values().collect())
}

fn counted(truth: &[f64], runs: &[Ended]) -> Counted {
    let share =
        |holds: &dyn Fn(&Ended) -> bool| runs.iter().filter(|run| holds(run)).count() as f64 / runs.len() as f64;
    let any = |verdict: Verdict| share(&|run| run.sizes.iter().any(|size| size.verdict == verdict));
    let covered = |interval: &dyn Fn(&whole::Size) -> (f64, f64)| {
        let sizes = runs.iter().flat_map(|run| run.sizes.iter().zip(truth));
        let covers = |(size, truth): &(&whole::Size, &f64)| (interval(size).0..=interval(size).1).contains(truth);
        sizes.clone().filter(covers).count() as f64 / sizes.count() as f64
    };
    let mut rounds: Vec<u32> = runs.iter().map(|run| run.rounds).collect();
    rounds.sort_unstable();
    let mean = rounds.iter().map(|n| f64::from(*n)).sum::<f64>() / rounds.len() as f64;
    let variance = rounds.iter().map(|n| (f64::from(*n) - mean).powi(2)).sum::<f64>() / rounds.len() as f64;
    Counted {
        runs: runs.len(),
        shares: vec![
            ("any_faster", any(Verdict::Faster)),
            ("any_same", any(Verdict::Same)),
            ("any_slower", any(Verdict::Slower)),
            ("all_decided", share(&|run| run.sizes.iter().all(|size| size.verdict.is_decided()))),
            ("covered_at_3_rounds", covered(&|size| size.early)),
            ("covered_at_the_end", covered(&|size| size.interval)),
        ],
        rounds: (mean, variance.sqrt()),
        median: rounds[rounds.len() / 2],
    }
}

/// A row for each figure; whether all lie within three standard errors of what the simulation says.
fn compare(table: &mut Table, head: &[String; 2], programs: &Counted, simulated: &Counted) -> bool {
    let mut agree = true;
    let mut row = |figure: &str, (programs_say, simulated_say): (f64, f64), error: f64, least: f64| {
        // A share of a few runs moves by whole runs: less than one apart is not apart.
        let apart = (programs_say - simulated_say).abs();
        let agrees = apart <= least || apart <= 3.0 * error;
        agree &= agrees;
        let apart_in_se = if error > 0.0 { format!("{:.1}", apart / error) } else { "-".to_owned() };
        let said = [format!("{programs_say:.4}"), format!("{simulated_say:.4}"), apart_in_se];
        let agrees = if agrees { "yes" } else { "no" };
        let row = head.iter().cloned().chain([figure.to_owned()]).chain(said).chain([agrees.to_owned()]);
        table.push(row.collect());
    };
    let of = |n: usize| 1.0 / n as f64;
    for ((figure, programs_say), (_, simulated_say)) in programs.shares.iter().zip(&simulated.shares) {
        let error = (simulated_say * (1.0 - simulated_say) * (of(programs.runs) + of(simulated.runs))).sqrt();
        row(figure, (*programs_say, *simulated_say), error, of(programs.runs));
    }
    let error = simulated.rounds.1 * (of(programs.runs) + of(simulated.runs)).sqrt();
    row("rounds_mean", (programs.rounds.0, simulated.rounds.0), error, 0.0);
    row("rounds_median", (programs.median.into(), simulated.median.into()), error * 1.25, 4.0);
    agree
}
