//! Arguments as they are written. [`super::draft`] turns them into settings.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::buffers::Buffers;
use super::cost::Cost;
use super::devices::Name;
use super::hosts::Hosts;
use super::impact::Impact;
use crate::collective::{Dtype, Mode, Op};
use crate::error::Error;
use crate::plan::affinity::CpuAffinity;
use crate::plan::schedule::{Launch, Rounds};
use crate::plan::settings::{Percent, duration};

/// Reads a value for clap, which shows a message and knows nothing of a next step.
pub(super) fn read<T: FromStr<Err = Error>>(text: &str) -> Result<T, String> {
    text.parse().map_err(told)
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text).map_err(told)
}

/// A number that is more than nothing: a time, tokens.
pub(super) fn amount(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "not a number above 0, e.g. 29.5".to_owned())
}

fn told(error: Error) -> String {
    match error.next_step() {
        Some(help) => format!("{error}; {help}"),
        None => error.to_string(),
    }
}

/// How fast is NCCL all-reduce on this box, and which settings make it faster?
#[derive(Debug, Parser)]
#[command(name = "ncclsweep", version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// A command; `sweep` when none is named.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Arguments of `sweep`.
    #[command(flatten)]
    pub sweep: Sweep,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure env sets against the default settings (what `ncclsweep` alone does)
    Sweep(Box<Sweep>),
    /// Show a run again, from its files alone
    Report(super::report::Report),
    /// Compare two runs: what changed between them, and which cells are faster, slower or the same since
    Compare(Compare),
    /// Hold a box against the requirements of a plan: GPUs, links, latencies, right data, an earlier run
    Accept(Box<Accept>),
    /// Try every two GPUs together, with P2P and through host memory: which are slow, wrong or hang
    Pairs(Pairs),
    /// Write an env set as what servers read: nccl.conf, systemd, docker, a wrapper, …; with the evidence for it
    Export(super::export::Export),
    /// Check this machine; or a configuration file, running processes, a server's log, a Python environment
    Doctor(super::doctor::Doctor),
    /// Read the output of nccl-tests' all_reduce_perf into a run that `report` and `compare` take
    Import(super::import::Import),
    /// Show how the GPUs are wired: paths, switches, links, NUMA nodes, and what the driver allows
    Topo(Topo),
    /// Run a command and tell what NCCL did in each of its processes: settings, algorithm and protocol for each size
    Audit(Audit),
    /// Start a command with the settings of an env set in the environment of all its processes
    Exec(Exec),
    /// Tell what an NCCL variable does, takes and when it is read; all of them without a name
    Explain {
        /// Name of a variable, with or without NCCL_, or a part of names: p2p
        name: Option<String>,
    },
    /// Write a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual page of a command, or all pages into a folder
    Man {
        /// The command [default: ncclsweep itself]
        #[arg(value_name = "COMMAND")]
        of: Option<String>,
        /// Write all pages into this folder
        #[arg(long, value_name = "DIR", conflicts_with = "of")]
        out: Option<PathBuf>,
    },
    /// Write the JSON Schema of run.json
    #[command(hide = true)]
    Schema,
}

/// A box that is not there.
#[derive(Clone, Debug, Default, Args)]
pub struct Emulate {
    /// An emulated box instead of this one, in virtual time
    #[arg(
        long,
        value_name = "BOX",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = crate::supervisor::emulator::STANDARD
    )]
    pub emulate: Option<String>,
}

/// Two runs, and what counts as the same.
#[derive(Debug, Args)]
pub struct Compare {
    /// The earlier run: its folder, or its run.json
    pub old: PathBuf,
    /// The later run
    pub new: PathBuf,
    /// Relative difference that matters [default: that of the later run]
    #[arg(long, value_name = "P%", value_parser = read::<Percent>)]
    pub tolerance: Option<Percent>,
    /// What to print: table, html, json, csv, markdown
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = read::<crate::report::Format>)]
    pub format: crate::report::Format,
}

/// Which GPUs, how much, and what to print.
#[derive(Debug, Args)]
pub struct Pairs {
    /// Use the first N GPUs [default: all]
    #[arg(long, value_name = "N", conflicts_with = "devices")]
    pub gpus: Option<u32>,
    /// Use these GPUs: CUDA's numbers, PCI addresses or UUIDs
    #[arg(long, value_name = "2,0,…", value_delimiter = ',', value_parser = read::<Name>)]
    pub devices: Vec<Name>,
    /// Try P2P (on), host memory (off), or both
    #[arg(long, value_name = "on|off|both", default_value = "both", value_parser = ["on", "off", "both"])]
    pub p2p: String,
    /// Another box than this one.
    #[command(flatten)]
    pub emulation: Emulate,
    /// NCCL library: a file or its folder [default: the one the loader finds]
    #[arg(long, value_name = "PATH", conflicts_with = "emulate")]
    pub nccl: Option<PathBuf>,
    /// Measure although other processes use the GPUs
    #[arg(long)]
    pub allow_busy: bool,
    /// Drop inherited NCCL_* variables
    #[arg(long)]
    pub clean_env: bool,
    /// The small message, for latencies, and the large one, for bandwidths
    #[arg(long, value_name = "SMALL,LARGE", default_value = "1K,16M")]
    pub sizes: String,
    /// Communicators for each pair and way
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub communicators: u32,
    /// How long each phase of a pair may take before it counts as hung
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub deadline: Duration,
    /// Seed of everything random [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Replace host name, UUIDs and paths
    #[arg(long)]
    pub redact: bool,
    /// What to print: table, json
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = ["table", "json"])]
    pub format: String,
    /// Write the JSON document to this file too
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// No progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

/// Which box, and what to print.
#[derive(Debug, Args)]
pub struct Topo {
    /// Read a file instead of this box: `nvidia-smi topo -m`, or NCCL's dump of its topology or graphs; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["emulate", "devices", "load"])]
    pub from: Option<PathBuf>,
    /// Another box than this one.
    #[command(flatten)]
    pub emulation: Emulate,
    /// GPUs that ranks would run on, in this rank order [default: all, in CUDA's order]
    #[arg(long, value_name = "2,0,…", value_delimiter = ',', value_parser = read::<Name>)]
    pub devices: Vec<Name>,
    /// Look at the links while data moves, too: an idle card lowers its link's speed. Takes a context on each GPU
    #[arg(long)]
    pub load: bool,
    /// What to print: table, json, dot, svg
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = read::<crate::report::topology::Form>)]
    pub format: crate::report::topology::Form,
    /// Replace host name, UUIDs and paths
    #[arg(long)]
    pub redact: bool,
}

/// What to watch, and what is expected of it.
#[derive(Debug, Args)]
pub struct Audit {
    /// Watch an audit that runs, or show one again: its folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "command"])]
    pub watch: Option<PathBuf>,
    /// Fail (exit 1) unless every all-reduce ran as this env set says: its name, or NAME:K=V,…
    #[arg(long, value_name = "SET")]
    pub expect: Option<String>,
    /// The configuration that has the set [default: pcie-tp8]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the audit [default: results/audit-TIME-HOST]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to print: table, json
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = read::<crate::report::Form>)]
    pub format: crate::report::Form,
    /// The command, as you start it
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required_unless_present = "watch")]
    pub command: Vec<OsString>,
}

/// Which settings, for which command.
#[derive(Debug, Args)]
pub struct Exec {
    /// The env set: its name, or NAME:K=V,…; with --from one of the run's
    #[arg(long, value_name = "SET", required_unless_present = "from")]
    pub set: Option<String>,
    /// The fastest set of this run: its folder, or its run.json
    #[arg(long, value_name = "RUN")]
    pub from: Option<PathBuf>,
    /// The configuration that has the set [default: pcie-tp8]
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub config: Option<PathBuf>,
    /// Audit the command, and fail (exit 1) unless every all-reduce ran as the set says
    #[arg(long)]
    pub audit: bool,
    /// Folder of the audit [default: results/audit-TIME-HOST]
    #[arg(long, value_name = "DIR", requires = "audit")]
    pub out: Option<PathBuf>,
    /// What the audit prints: table, json
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = read::<crate::report::Form>)]
    pub format: crate::report::Form,
    /// Start it although NCCL would ignore or misread a setting, or the run does not carry the set
    #[arg(long)]
    pub force: bool,
    /// The command, as you start it
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required = true)]
    pub command: Vec<OsString>,
}

/// Which plan, which run, and what to print.
#[derive(Debug, Args)]
pub struct Accept {
    /// The plan: a TOML file
    pub plan: Option<PathBuf>,
    /// Print a plan to begin with, for a box of eight PCIe GPUs, and measure nothing
    #[arg(long, conflicts_with_all = ["plan", "run"])]
    pub example: bool,
    /// Judge this run instead of making one: its folder, or its run.json
    #[arg(long, value_name = "DIR", conflicts_with_all = ["emulate", "nccl", "out", "allow_busy", "redact"])]
    pub run: Option<PathBuf>,
    /// Another box than this one.
    #[command(flatten)]
    pub emulation: Emulate,
    /// NCCL library: a file or its folder [default: the one the loader finds]
    #[arg(long, value_name = "PATH")]
    pub nccl: Vec<PathBuf>,
    /// Measure although other processes use the GPUs; the results say so
    #[arg(long)]
    pub allow_busy: bool,
    /// Folder of the run [default: results/TIME-HOST-GPUS]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace host name, UUIDs and paths in everything that is stored
    #[arg(long)]
    pub redact: bool,
    /// What to print: table, json, junit
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: crate::report::accept::Form,
    /// Write JUnit XML to this file too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// No progress and no notes on stderr
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Tell on stderr what each visit measured
    #[arg(long, short)]
    pub verbose: bool,
}

/// What to measure, on what, how long, and where results go.
#[derive(Debug, Default, Args)]
pub struct Sweep {
    /// Use the first N GPUs [default: all]
    #[arg(long, value_name = "N", conflicts_with = "devices", help_heading = "GPUs")]
    pub gpus: Option<u32>,
    /// Use these GPUs, in this rank order: CUDA's numbers, PCI addresses or UUIDs
    #[arg(long, value_name = "2,0,…", value_delimiter = ',', value_parser = read::<Name>, help_heading = "GPUs")]
    pub devices: Vec<Name>,
    /// Bind the thread of each rank: near (the CPUs near its GPU), none, or lists of CPUs, 0-15/16-31 [default: none]
    #[arg(long, value_name = "near|none|LIST", value_parser = read::<CpuAffinity>, help_heading = "GPUs")]
    pub cpu_affinity: Option<CpuAffinity>,
    /// Number of ranks; more than GPUs puts several on each (NCCL 2.30 or later) [default: one per GPU]
    #[arg(long, value_name = "N", help_heading = "GPUs")]
    pub ranks: Option<u32>,
    /// How ranks are started: threads of one process, processes, or both as a factor [default: threads]
    #[arg(long, value_name = "HOW,…", value_delimiter = ',', value_parser = read::<Launch>, help_heading = "GPUs")]
    pub launch: Vec<Launch>,
    /// Use so many further communicators in turn with the first; several numbers are a factor [default: 0]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=16), help_heading = "GPUs")]
    pub alive: Vec<u32>,
    /// Measure although other processes use the GPUs; the results say so
    #[arg(long, help_heading = "GPUs")]
    pub allow_busy: bool,
    /// Another box than this one.
    #[command(flatten, next_help_heading = "GPUs")]
    pub emulation: Emulate,
    /// NCCL library: a file or its folder. Repeat to compare libraries [default: the one the loader finds]
    #[arg(long, value_name = "PATH", conflicts_with = "emulate", help_heading = "GPUs")]
    pub nccl: Vec<PathBuf>,

    /// Several hosts.
    #[command(flatten)]
    pub hosts: Hosts,

    /// Message sizes: 7168x1..4 (hidden × tokens), 14336B, 8K..1M*2, kimi-k2.5x1/4 [default: 7168x1..4]
    #[arg(long, value_name = "LIST", help_heading = "Cases")]
    pub sizes: Vec<String>,
    /// The sizes and data types of a server's all-reduces, as `audit` counted them, by their share of the calls
    #[arg(long, value_name = "AUDIT", conflicts_with_all = ["sizes", "dtype", "model"], help_heading = "Cases")]
    pub sizes_from: Option<PathBuf>,
    /// Data types [default: bf16]
    #[arg(long, value_name = "TYPE,…", value_delimiter = ',', value_parser = read::<Dtype>, help_heading = "Cases")]
    pub dtype: Vec<Dtype>,
    /// Operations: sum, prod, min, max, avg [default: sum]
    #[arg(long, value_name = "OP,…", value_delimiter = ',', value_parser = read::<Op>, help_heading = "Cases")]
    pub op: Vec<Op>,
    /// Reduce in place: true, false or both [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = ["true", "false", "both"],
        help_heading = "Cases"
    )]
    pub in_place: Option<String>,
    /// How calls are issued and timed: graph, stream, sync [default: graph]
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', value_parser = read::<Mode>, help_heading = "Cases")]
    pub modes: Vec<Mode>,
    /// Which buffers.
    #[command(flatten)]
    pub buffers: Buffers,

    /// An env set: NAME:VARIABLE=VALUE,…. Repeat for more; `default` always runs, sets of --config when --sets names them
    #[arg(long, value_name = "NAME:K=V,…", help_heading = "Env sets")]
    pub set: Vec<String>,
    /// Vary a variable; repeat for a product
    #[arg(long, value_name = "K=V1,V2", help_heading = "Env sets")]
    pub vary: Vec<String>,
    /// A configuration: a TOML file, or a built-in one (pcie-tp8, proto-algo-grid, channels, …)
    #[arg(long, value_name = "FILE", help_heading = "Env sets")]
    pub config: Option<PathBuf>,
    /// Run only these sets: of the configuration, and of --set and --vary
    #[arg(long, value_name = "NAME,…", help_heading = "Env sets")]
    pub sets: Option<String>,
    /// Variables under every set, the default's too
    #[arg(long, value_name = "K=V,…", help_heading = "Env sets")]
    pub base: Vec<String>,
    /// Variables of one rank's process alone; an empty value takes one away. Repeat for more (with --launch processes)
    #[arg(long, value_name = "RANK:K=V,…", help_heading = "Env sets")]
    pub rank_env: Vec<String>,
    /// Drop inherited NCCL_* variables
    #[arg(long, help_heading = "Env sets")]
    pub clean_env: bool,
    /// Start workers through this command, as your server is
    #[arg(long, value_name = "CMD", help_heading = "Env sets")]
    pub wrap: Option<String>,
    /// Fail (exit 1) when this set is slower or not applied [default: pcie-ll when it runs]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Env sets")]
    pub expect: Vec<String>,

    /// Accept NCCL_* variables that the catalogue does not know
    #[arg(long, help_heading = "Env sets")]
    pub allow_unknown: bool,
    /// Run settings that NCCL would ignore or misread
    #[arg(long, help_heading = "Env sets")]
    pub force: bool,

    /// Rounds: a number, or auto: until every cell is decided [default: auto]
    #[arg(long, value_name = "N", value_parser = read::<Rounds>, help_heading = "Effort")]
    pub rounds: Option<Rounds>,
    /// Communicators of each visit [default: 6]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Effort")]
    pub communicators: Option<u32>,
    /// Relative difference that matters [default: 5%]
    #[arg(long, value_name = "P%", value_parser = read::<Percent>, conflicts_with = "thorough", help_heading = "Effort")]
    pub tolerance: Option<Percent>,
    /// A tolerance of 3%
    #[arg(long, help_heading = "Effort")]
    pub thorough: bool,
    /// Begin no round that would end later
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Effort")]
    pub time_limit: Option<Duration>,
    /// All-reduces in one graph, launches in one stream batch [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Effort")]
    pub chain: Option<u32>,
    /// Samples of one communicator: graph replays, half as many stream batches, ten times as many lone calls [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000), help_heading = "Effort")]
    pub samples: Option<u32>,
    /// Check data for so long instead of comparing times: sets and sizes in turn, round after round
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["rounds", "time_limit"], help_heading = "Effort")]
    pub soak: Option<Duration>,
    /// How often the data of each communicator is checked: chains of calls of its own, and looks between the timed ones [default: 1; 10 in a soak]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Effort")]
    pub checks: Option<u32>,
    /// Try a set that failed on each pair of GPUs alone, to find the GPU or pair to suspect; with --resume also afterwards
    #[arg(long, help_heading = "Effort")]
    pub isolate: bool,
    /// How long each phase of a worker may take before it counts as hung [default: from what they took, 20s at least]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Effort")]
    pub deadline: Option<Duration>,
    /// Seed of everything random [default: from the clock]
    #[arg(long, value_name = "N", help_heading = "Effort")]
    pub seed: Option<u64>,

    /// Folder of the run [default: results/TIME-HOST-GPUS]
    #[arg(long, value_name = "DIR", conflicts_with = "resume", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// Continue the run in this folder, by its own plan
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = [
            "gpus", "devices", "cpu_affinity", "ranks", "launch", "alive", "rank_env", "nccl", "sizes", "sizes_from", "dtype",
            "op", "in_place", "modes", "register", "rotate_buffers", "set", "vary",
            "config", "sets", "base", "clean_env", "wrap", "expect", "rounds", "communicators", "tolerance", "thorough",
            "time_limit", "keep_communicators", "chain", "samples", "checks", "soak", "seed", "dry_run",
        ],
        help_heading = "Results"
    )]
    pub resume: Option<PathBuf>,
    /// Compare with this earlier run when done; fail (exit 1) when a cell is slower than it was
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub baseline: Option<PathBuf>,
    /// Replace host name, UUIDs and paths in everything that is stored
    #[arg(long, help_heading = "Results")]
    pub redact: bool,
    /// What to print: table, html, markdown, json, csv (each observation), csv-cells, nccl-tests, nccl-tests-json
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = read::<crate::report::Format>, help_heading = "Results")]
    pub format: crate::report::Format,
    /// Tell for each size what NCCL chose, and what is known of each variable
    #[arg(long, help_heading = "Results")]
    pub why: bool,
    /// What it is worth to a decode step.
    #[command(flatten)]
    pub impact: Impact,
    /// What it costs.
    #[command(flatten)]
    pub cost: Cost,
    /// Show the plan and start nothing
    #[arg(long, help_heading = "Results")]
    pub dry_run: bool,
    /// No progress and no notes on stderr
    #[arg(long, short, conflicts_with = "verbose", help_heading = "Results")]
    pub quiet: bool,
    /// Tell on stderr what each visit measured
    #[arg(long, short, help_heading = "Results")]
    pub verbose: bool,
}
