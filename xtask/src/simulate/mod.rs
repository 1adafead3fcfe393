//! Simulated runs with a known truth. Every run has its own random stream, so a table is the same on any number of threads.

mod coverage;
mod families;
mod forecast;
mod noise;
mod priors;
mod tails;
mod verdicts;
pub mod whole;
pub mod world;

use std::path::PathBuf;
use std::time::Instant;

use clap::ValueEnum;
use ncclsweep::error::Result;

use crate::calibrate;
use crate::table::Table;

/// What to simulate.
#[derive(clap::Args)]
pub struct Args {
    /// Which tables; all when none is named
    tables: Vec<Which>,
    /// Simulated runs behind each row
    #[arg(long, default_value_t = 4000)]
    runs: u64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the noise models whose name begins so
    #[arg(long, default_value = "")]
    model: String,
    /// Folder of the CSV files (default: results/statistics)
    #[arg(long)]
    out: Option<PathBuf>,
}

/// One table.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// Coverage and width of the intervals
    Coverage,
    /// How much prior the variance of a difference should have
    Priors,
    /// Verdicts, errors and time of runs that look until all is decided
    Verdicts,
    /// Verdicts of families with mixed effects, many env sets, failed visits
    Families,
    /// What becomes of the rounds forecast for undecided cells
    Forecast,
    /// Time to the verdicts by communicators a visit
    Communicators,
    /// Coverage of the intervals of p95 and p99
    Tails,
}

/// How many runs, and their seed.
#[derive(Clone)]
struct Effort {
    runs: u64,
    seed: u64,
    model: String,
}

/// Makes the tables.
pub fn run(args: &Args) -> Result<()> {
    let effort = Effort { runs: args.runs, seed: args.seed, model: args.model.clone() };
    let tables = if args.tables.is_empty() { Which::value_variants() } else { &args.tables };
    for which in tables {
        let name = which.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let start = Instant::now();
        let table: Table = match which {
            Which::Coverage => coverage::table(&effort)?,
            Which::Priors => priors::table(&effort)?,
            Which::Verdicts => verdicts::table(&effort)?,
            Which::Families => families::table(&effort)?,
            Which::Forecast => forecast::table(&effort)?,
            Which::Communicators => verdicts::communicators(&effort)?,
            Which::Tails => tails::table(&effort)?,
        };
        println!("\n{name}");
        table.print();
        println!("{:.1} s", start.elapsed().as_secs_f64());
        let folder = args.out.clone().unwrap_or_else(calibrate::results);
        let command = format!("cargo xtask simulate {name} --runs {} --seed {}", args.runs, args.seed);
        table.save(&folder.join(format!("{name}.csv")), &command)?;
    }
    Ok(())
}
