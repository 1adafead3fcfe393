//! `cargo xtask versus`: this program and nccl-tests' `all_reduce_perf` by turns, on the same GPUs, library, sizes and counts, and
//! the ratio of their times with its interval.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::ValueEnum;
use ncclsweep::error::{Error, Kind, Result};
use ncclsweep::import;
use ncclsweep::record::journal::Journal;
use ncclsweep::stats::{self, Cell, Comparison, Looks, Pair, Plan, Tolerance, judge};
use serde::{Deserialize, Serialize};

use crate::table::Table;

/// All-reduces in a chain, and chains, of both programs.
const CHAIN: usize = 50;
const REPLAYS: usize = 20;
const BATCHES: usize = 10;
const LONE_CALLS: usize = 200;

#[derive(clap::Args)]
pub struct Args {
    /// nccl-tests' all_reduce_perf, built with the NCCL that `--nccl` names or one of its major version
    #[arg(long)]
    all_reduce_perf: PathBuf,
    /// This program
    #[arg(long)]
    program: PathBuf,
    /// libnccl.so of both
    #[arg(long)]
    nccl: PathBuf,
    /// Ranks; on one GPU all of them share it, which all_reduce_perf must have been built for
    #[arg(long)]
    ranks: u32,
    /// GPUs
    #[arg(long)]
    gpus: u32,
    /// Times that each program measures
    #[arg(long, default_value_t = 10)]
    times: u32,
    /// How calls are issued
    #[arg(long, value_delimiter = ',', default_value = "graph,stream,sync")]
    modes: Vec<Mode>,
    /// Message sizes
    #[arg(long, value_delimiter = ',', default_value = "decode,doubling")]
    sizes: Vec<Sizes>,
    /// Variables for both, as NAME=VALUE
    #[arg(long, value_delimiter = ',')]
    base: Vec<String>,
    /// Folder for the observations and the tables
    #[arg(long)]
    save: PathBuf,
}

#[derive(Clone, Copy, ValueEnum, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Graph,
    Stream,
    Sync,
}

#[derive(Clone, Copy, ValueEnum, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Sizes {
    /// 7168x1..4
    Decode,
    /// 8K..64M*2
    Doubling,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Who {
    Ncclsweep,
    NcclTests,
}

/// One size in one process of one of the two.
#[derive(Serialize)]
struct Observation {
    who: Who,
    mode: Mode,
    sizes: Sizes,
    turn: u32,
    bytes: u64,
    micros: f64,
    /// Wall time of the whole process.
    seconds: f64,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Stream => "stream",
            Self::Sync => "sync",
        }
    }

    /// What makes all_reduce_perf issue as many calls in the same way.
    fn of_nccl_tests(self) -> Vec<String> {
        let options = match self {
            Self::Graph => format!("-n {CHAIN} -G {REPLAYS}"),
            Self::Stream => format!("-n {}", CHAIN * BATCHES),
            Self::Sync => format!("-n {LONE_CALLS} -z 3"),
        };
        options.split(' ').map(str::to_owned).collect()
    }
}

impl Sizes {
    fn name(self) -> &'static str {
        match self {
            Self::Decode => "7168x1..4",
            Self::Doubling => "8K..64M*2",
        }
    }

    fn of_nccl_tests(self) -> &'static [&'static str] {
        match self {
            Self::Decode => &["-b", "14336", "-e", "57344", "-i", "14336"],
            Self::Doubling => &["-b", "8K", "-e", "64M", "-f", "2"],
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.save).map_err(|error| failed("make", &args.save, error))?;
    let raw = args.save.join("observations.csv");
    let mut raw = csv::Writer::from_writer(File::create(&raw).map_err(|error| failed("make", &raw, error))?);
    let mut observed = Vec::new();
    for sizes in &args.sizes {
        for mode in &args.modes {
            for turn in 0..args.times {
                // Who begins changes from turn to turn, so that a drift favours neither.
                let mut order = [Who::Ncclsweep, Who::NcclTests];
                order.rotate_left(turn as usize % 2);
                for who in order {
                    // One that fails leaves a gap: what is compared are the turns that both have.
                    let new = observe(args, who, *mode, *sizes, turn).unwrap_or_else(|error| {
                        eprintln!("{error}");
                        Vec::new()
                    });
                    for observation in &new {
                        raw.serialize(observation).map_err(|error| failed("write", &args.save, error))?;
                    }
                    raw.flush().map_err(|error| failed("write", &args.save, error))?;
                    observed.extend(new);
                }
            }
        }
    }
    let table = table(&observed)?;
    table.print();
    table
        .save(&args.save.join("ratios.csv"), &format!("cargo xtask versus --ranks {} --gpus {}", args.ranks, args.gpus))
}

fn observe(args: &Args, who: Who, mode: Mode, sizes: Sizes, turn: u32) -> Result<Vec<Observation>> {
    let start = Instant::now();
    let times = match who {
        Who::Ncclsweep => ours(args, mode, sizes)?,
        Who::NcclTests => theirs(args, mode, sizes)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let of = |(bytes, micros)| Observation { who, mode, sizes, turn, bytes, micros, seconds };
    Ok(times.into_iter().map(of).collect())
}

/// Mean time by size of one communicator of a fresh process, in memory as nccl-tests takes it: of `ncclMemAlloc` since NCCL 2.19, and
/// where sizes differ much, another part of it for each call of a chain.
fn ours(args: &Args, mode: Mode, sizes: Sizes) -> Result<Vec<(u64, f64)>> {
    let folder = args.save.join("run");
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = Command::new(&args.program);
    command.args(["--rounds", "1", "--communicators", "1", "--sets", "default", "-q", "--modes", mode.name()]);
    command.args(["--sizes", sizes.name(), "--gpus", &args.gpus.to_string(), "--ranks", &args.ranks.to_string()]);
    command.arg("--nccl").arg(&args.nccl).arg("--out").arg(&folder);
    command.args(["--register", "capture"]);
    if sizes == Sizes::Doubling {
        command.arg("--rotate-buffers");
    }
    if !args.base.is_empty() {
        command.arg("--base").arg(args.base.join(","));
    }
    output(&mut command)?;
    let (journal, header) = Journal::open(&folder)?;
    let mut times = Vec::new();
    for entry in journal.entries().iter().filter(|entry| entry.completed && !entry.untimed) {
        for replicate in journal.read(entry)?.replicates {
            times.push((header.plan.cases[replicate.case].bytes().0, replicate.mean_us));
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    if times.is_empty() {
        return Err(Error::new(Kind::Incomplete, "ncclsweep measured nothing"));
    }
    Ok(times)
}

/// What all_reduce_perf prints out of place: the maximum over ranks of their means.
fn theirs(args: &Args, mode: Mode, sizes: Sizes) -> Result<Vec<(u64, f64)>> {
    let mut command = Command::new(&args.all_reduce_perf);
    command.args(["-t", &args.ranks.to_string(), "-g", "1", "-d", "bfloat16", "-w", "100", "-c", "0", "-a", "3"]);
    command.args(sizes.of_nccl_tests()).args(mode.of_nccl_tests());
    for variable in &args.base {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        command.env(name, value);
    }
    if args.ranks > args.gpus {
        command.env("NCCL_MULTI_RANK_GPU_ENABLE", "1").env("CUDA_DEVICE_MAX_CONNECTIONS", "32");
    }
    let folder = args.save.join("library");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| failed("make", &folder, error))?;
    let nccl = args.nccl.canonicalize().map_err(|error| failed("find", &args.nccl, error))?;
    std::os::unix::fs::symlink(nccl, folder.join("libnccl.so.2")).map_err(|error| failed("link", &folder, error))?;
    command.env("LD_LIBRARY_PATH", &folder);
    let text = output(&mut command)?;
    let _ = std::fs::remove_dir_all(&folder);
    let tables = import::parse("all_reduce_perf", &text)?;
    let rows = tables.into_iter().flat_map(|table| table.rows);
    Ok(rows.filter_map(|row| Some((row.count * 2, row.halves[0].as_ref()?.time_us))).collect())
}

/// Standard output of a command; exit status 5 of this program (undecided) is what one round must give.
fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| failed("start", command.get_program().as_ref(), error))?;
    match output.status.code() {
        Some(0 | 5) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
            let from = said.char_indices().rev().nth(2000).map_or(0, |(at, _)| at);
            Err(Error::new(Kind::Incomplete, format!("{:?} ended with {}", command, output.status))
                .because(std::io::Error::other(said[from..].to_owned())))
        }
    }
}

fn table(observed: &[Observation]) -> Result<Table> {
    let mut table =
        Table::new(&["sizes", "mode", "bytes", "times", "ncclsweep_us", "nccl_tests_us", "ratio", "low", "high"]);
    let mut kinds: Vec<(Sizes, Mode)> = Vec::new();
    for one in observed {
        if !kinds.contains(&(one.sizes, one.mode)) {
            kinds.push((one.sizes, one.mode));
        }
    }
    for (sizes, mode) in kinds {
        let of: Vec<&Observation> = observed.iter().filter(|one| one.sizes == sizes && one.mode == mode).collect();
        let mut bytes: Vec<u64> = of.iter().map(|one| one.bytes).collect();
        bytes.sort_unstable();
        bytes.dedup();
        let cells = |who: Who| bytes.iter().map(|bytes| cell(&of, who, *bytes)).collect::<Result<Vec<Cell>>>();
        let (ours, theirs) = (cells(Who::Ncclsweep)?, cells(Who::NcclTests)?);
        for (i, bytes) in bytes.iter().enumerate() {
            table.push(row(sizes, mode, &bytes.to_string(), &ours[i], &theirs[i])?);
        }
        let all = |cells: &[Cell]| Cell::joint(&cells.iter().collect::<Vec<_>>());
        table.push(row(sizes, mode, "all", &all(&ours), &all(&theirs))?);
    }
    Ok(table)
}

fn cell(observed: &[&Observation], who: Who, bytes: u64) -> Result<Cell> {
    let of = observed.iter().filter(|one| one.who == who && one.bytes == bytes);
    Cell::new(of.map(|one| stats::Visit::new(one.turn, [one.micros])).collect::<Result<_>>()?)
}

fn row(sizes: Sizes, mode: Mode, bytes: &str, ours: &Cell, theirs: &Cell) -> Result<Vec<String>> {
    let plan = Plan { tolerance: Tolerance::new(0.03)?, looks: Looks::Once, error: Plan::ERROR };
    let rounds = ours.visits().min(theirs.visits()) as u32;
    let judged = judge(&plan, &[Pair { baseline: theirs, candidate: ours, kin: 0 }], rounds);
    let ratio = |of: &Comparison| {
        let (low, high) = of.interval(0.95);
        [of.ratio(), low, high].map(|value| format!("{value:.4}"))
    };
    let [ratio, low, high] = judged[0].comparison.as_ref().map_or_else(|| ["-", "-", "-"].map(str::to_owned), ratio);
    let typical = |cell: &Cell| cell.typical().map_or_else(|| "-".into(), |typical| format!("{:.2}", typical.point));
    Ok(vec![
        sizes.name().into(),
        mode.name().into(),
        bytes.into(),
        rounds.to_string(),
        typical(ours),
        typical(theirs),
        ratio,
        low,
        high,
    ])
}

fn failed(what: &str, path: &Path, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Kind::Incomplete, format!("cannot {what} {}", path.display())).because(cause)
}
