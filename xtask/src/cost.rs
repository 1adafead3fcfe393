//! `cargo xtask cost`: processes and seconds until one set against another is decided at every size, by three ways: a shell loop of
//! `all_reduce_perf`, this program with one communicator in each process, and this program as it is.
//!
//! What is measured: visits and communicators of a recording of one setting, their seconds phase by phase, and the seconds of
//! `all_reduce_perf` beside it (`cargo xtask versus`). What is computed: how many processes it takes, by drawing visits from the
//! recording and judging them as runs are judged, so that the error is the same by every way. A process of `all_reduce_perf` is one
//! communicator in one process, and takes as many as this program with one; its own spread is shown beside.

use std::fs::File;
use std::path::{Path, PathBuf};

use ncclsweep::error::{Error, Kind, Result};
use ncclsweep::plan::schedule::{Arm, Plan, Rounds};
use ncclsweep::record::journal::Journal;
use ncclsweep::record::summary::{Tally, judge};
use ncclsweep::record::visit::Visit;
use ncclsweep::stats::{Looks, median_of};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::table::Table;

/// What the candidate takes of the baseline's time, in the runs that are drawn.
const EFFECTS: [f64; 2] = [1.0, 0.9];
const TOLERANCES: [f64; 2] = [0.05, 0.03];
/// More processes of an arm than anybody would start.
const MOST_ROUNDS: u32 = 40;

#[derive(clap::Args)]
pub struct Args {
    /// Folder of a run of one setting under two names
    recording: PathBuf,
    /// Folder that `cargo xtask versus` made on the same GPUs, over the same transport; without it there is no shell loop
    versus: Option<PathBuf>,
    /// Runs that are drawn for each row
    #[arg(long, default_value_t = 300)]
    runs: u32,
    /// Seed of the draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the table is kept
    #[arg(long)]
    save: Option<PathBuf>,
}

/// A way to an answer.
struct Way {
    name: &'static str,
    /// Communicators of a process; as many as were recorded when none is said.
    communicators: Option<usize>,
    /// Seconds of a process, and whether they were measured so.
    seconds: f64,
    measured: bool,
}

pub fn run(args: &Args) -> Result<()> {
    let (plan, visits) = recorded(&args.recording)?;
    let mode = plan.cases[0].mode.to_string();
    let theirs = args.versus.as_deref().map(|folder| Theirs::read(folder, &mode)).transpose()?;
    let mut table = Table::new(&[
        "way",
        "ranks",
        "tolerance",
        "effect",
        "communicators",
        "processes",
        "s_per_process",
        "s_is",
        "seconds",
        "of_shell_loop",
        "decided",
    ]);
    for tolerance in TOLERANCES {
        for effect in EFFECTS {
            let mut loop_seconds = None;
            for way in ways(&plan, &visits, theirs.as_ref()) {
                let drawn = draw(args, &Plan { tolerance, ..plan.clone() }, &visits, &way, effect)?;
                let seconds = f64::from(drawn.processes) * way.seconds;
                let shell = theirs.as_ref().map(|_| *loop_seconds.get_or_insert(seconds));
                table.push(vec![
                    way.name.to_owned(),
                    plan.ranks.to_string(),
                    tolerance.to_string(),
                    effect.to_string(),
                    way.communicators.unwrap_or(plan.communicators as usize).to_string(),
                    drawn.processes.to_string(),
                    format!("{:.2}", way.seconds),
                    if way.measured { "measured" } else { "computed" }.to_owned(),
                    format!("{seconds:.1}"),
                    shell.map_or_else(|| "-".to_owned(), |shell| format!("{:.2}", seconds / shell)),
                    format!("{:.0}%", 100.0 * drawn.decided),
                ]);
            }
        }
    }
    table.print();
    println!("standard deviation of one communicator of this program: {:.2}%", 100.0 * spread(&plan, &visits));
    if let Some(theirs) = &theirs {
        let (processes, spread) = (theirs.processes, 100.0 * theirs.spread);
        println!("of {processes} processes of all_reduce_perf: {spread:.2}% (mean over sizes, too)");
    }
    let Some(path) = &args.save else { return Ok(()) };
    let versus = args.versus.iter().map(|folder| format!(" {}", folder.display())).collect::<String>();
    table.save(path, &format!("cargo xtask cost {}{versus} --runs {}", args.recording.display(), args.runs))
}

/// The plan of a recording and its visits, those of both names together: they are the same setting.
fn recorded(folder: &Path) -> Result<(Plan, Vec<Visit>)> {
    let (journal, header) = Journal::open(folder)?;
    let entries = journal.entries().iter().filter(|entry| entry.completed && !entry.untimed);
    let mut visits = entries.map(|entry| journal.read(entry)).collect::<Result<Vec<_>>>()?;
    for visit in &mut visits {
        // What a draw copies, and no verdict reads.
        (visit.read, visit.worker, visit.gpus) = (None, None, Vec::new());
        visit.used.clear();
        visit.replicates.iter_mut().for_each(|replicate| replicate.samples_us.clear());
    }
    let plan = header.plan;
    if visits.len() < 10 || plan.sets.len() != 2 || plan.modes().len() != 1 {
        return Err(Error::usage("the recording is not one setting under two names, in one mode, visited often"));
    }
    Ok((Plan { rounds: Rounds::Auto, ..plan }, visits))
}

fn ways(plan: &Plan, visits: &[Visit], theirs: Option<&Theirs>) -> Vec<Way> {
    let communicators = f64::from(plan.communicators);
    let median = |seconds: &dyn Fn(&Visit) -> f64| median_of(visits.iter().map(seconds));
    let own = median(&|visit| visit.seconds);
    // What every communicator takes again, the rest is the process's.
    let each = |visit: &Visit| {
        let of = visit.timings;
        (of.communicators + of.warm_up + of.measuring + of.checking + of.teardown) / communicators
    };
    let first = |n: u32| median(&|visit| visit.seconds - (communicators - f64::from(n)) * each(visit));
    let kept = median(&|visit| visit.seconds - visit.timings.teardown * (1.0 - 1.0 / communicators));
    let way = |name, communicators, seconds, measured| Way { name, communicators, seconds, measured };
    let looped = theirs.map(|theirs| way("all_reduce_perf in a loop", Some(1), theirs.seconds, true));
    let ours = [
        way("ncclsweep, one communicator", Some(1), first(1), false),
        way("ncclsweep, two communicators", Some(2), first(2), false),
        way("ncclsweep, three communicators", Some(3), first(3), false),
        way("ncclsweep", None, own, true),
        way("ncclsweep, if its communicators ended at once", None, kept, false),
    ];
    looped.into_iter().chain(ours).collect()
}

/// What runs drawn from the recording took.
struct Drawn {
    /// Processes of both arms, the median.
    processes: u32,
    /// Share of the runs that were decided at last.
    decided: f64,
}

fn draw(args: &Args, plan: &Plan, visits: &[Visit], way: &Way, effect: f64) -> Result<Drawn> {
    let mut generator = ChaCha8Rng::seed_from_u64(args.seed);
    let (mut took, mut decided) = (Vec::new(), 0);
    for _ in 0..args.runs {
        let mut tally = Tally::default();
        let mut rounds = 0;
        while let Some(look) = Looks::Auto.next(rounds).filter(|look| *look <= MOST_ROUNDS) {
            for round in rounds..look {
                for set in 0..2 {
                    let factor = if set == 0 { 1.0 } else { effect };
                    tally.add(&process(&mut generator, visits, way, Arm { set, ..Arm::default() }, round, factor))?;
                }
            }
            rounds = look;
            if judge(plan, &tally)?.all_decided_but(|_, _| false) {
                decided += 1;
                break;
            }
        }
        took.push(2 * rounds);
    }
    took.sort_unstable();
    Ok(Drawn { processes: took[took.len() / 2], decided: f64::from(decided) / f64::from(args.runs) })
}

/// A visit as it could have been: one of the recorded, or the first communicators of it.
fn process(generator: &mut ChaCha8Rng, visits: &[Visit], way: &Way, arm: Arm, round: u32, factor: f64) -> Visit {
    let mut visit = visits[generator.random_range(0..visits.len())].clone();
    if let Some(communicators) = way.communicators {
        visit.replicates.retain(|replicate| (replicate.communicator as usize) < communicators);
    }
    visit.replicates.iter_mut().for_each(|replicate| replicate.median_us *= factor);
    Visit { arm, round, ..visit }
}

/// Standard deviation of single communicators over all processes, relative, mean over the sizes.
fn spread(plan: &Plan, visits: &[Visit]) -> f64 {
    let of_case = |case: usize| {
        let replicates = visits.iter().flat_map(|visit| &visit.replicates).filter(|replicate| replicate.case == case);
        deviation(&replicates.map(|replicate| replicate.median_us.ln()).collect::<Vec<_>>())
    };
    (0..plan.cases.len()).map(of_case).sum::<f64>() / plan.cases.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

/// What `all_reduce_perf` took.
struct Theirs {
    processes: usize,
    seconds: f64,
    spread: f64,
}

impl Theirs {
    fn read(folder: &Path, mode: &str) -> Result<Self> {
        let path = folder.join("observations.csv");
        let failed = |what: String| Error::new(Kind::Usage, format!("cannot read {}: {what}", path.display()));
        let file = File::open(&path).map_err(|error| failed(error.to_string()))?;
        let mut rows: Vec<(u32, u64, f64, f64)> = Vec::new();
        for row in csv::Reader::from_reader(file).deserialize::<Row>() {
            let row = row.map_err(|error| failed(error.to_string()))?;
            if row.who == "nccl-tests" && row.mode == mode && row.sizes == "decode" {
                rows.push((row.turn, row.bytes, row.micros, row.seconds));
            }
        }
        let mut turns: Vec<(u32, f64)> = rows.iter().map(|row| (row.0, row.3)).collect();
        turns.dedup();
        let mut bytes: Vec<u64> = rows.iter().map(|row| row.1).collect();
        bytes.sort_unstable();
        bytes.dedup();
        if turns.len() < 3 {
            return Err(failed(format!("no three processes of all_reduce_perf in mode {mode}")));
        }
        let of_size =
            |size: &u64| deviation(&rows.iter().filter(|row| row.1 == *size).map(|row| row.2.ln()).collect::<Vec<_>>());
        Ok(Self {
            processes: turns.len(),
            seconds: median_of(turns.iter().map(|turn| turn.1)),
            spread: bytes.iter().map(of_size).sum::<f64>() / bytes.len() as f64,
        })
    }
}

#[derive(serde::Deserialize)]
struct Row {
    who: String,
    mode: String,
    sizes: String,
    turn: u32,
    bytes: u64,
    micros: f64,
    seconds: f64,
}
