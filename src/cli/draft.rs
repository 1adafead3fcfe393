//! From arguments to a plan: default < configuration file < flag, then what the box has.

use super::args::Sweep;
use super::buffers;
use super::devices::Devices;
use super::ranks;
use super::sizes_from::{self, FromAudit};
use crate::collective::sizes::SizeList;
use crate::collective::{Case, Cases, Dtype, Mode, Op, Placement};
use crate::error::{Error, Kind, Result};
use crate::gpu::cuda::Device;
use crate::nccl::register::Register;
use crate::nccl::version::NcclVersion;
use crate::plan::affinity::CpuAffinity;
use crate::plan::config::{Config, STANDARD};
use crate::plan::env_set::{self, EnvSet, PCIE_LL, RankEnv, Vars};
use crate::plan::schedule::{Launch, Library, Measure, Plan, Rounds};
use crate::record::journal;
use crate::regular;
use crate::supervisor::agents::launcher;
use crate::units::{self, plural};

/// Communicators of a visit: simulated as the best number (`docs/statistics.md`).
const COMMUNICATORS: u32 = 6;
const TOLERANCE: f64 = 0.05;
const THOROUGH: f64 = 0.03;

/// A soak looks at data: few samples, each of them looked at, many chains, and sizes that follow each other in every order.
const SOAK_SAMPLES: u32 = 4;
const SOAK_CHECKS: u32 = 10;
const SOAK_PASSES: u32 = 3;

/// The first release that lets several ranks share a GPU.
const MULTI_RANK: NcclVersion = NcclVersion::new(2, 30, 0);

/// A plan without the box: everything that the arguments alone decide, checked.
#[derive(Debug)]
pub struct Draft {
    cases: Vec<Case>,
    sets: Vec<EnvSet>,
    expect: Vec<String>,
    base: Vars,
    clean_env: bool,
    devices: Devices,
    /// Which of how many agents on this host has them, where a launcher started several.
    share: Option<(u32, u32)>,
    ranks: Option<u32>,
    launches: Vec<Launch>,
    alive: Vec<u32>,
    registers: Vec<Register>,
    rank_env: Vec<RankEnv>,
    cpu_affinity: CpuAffinity,
    wrap: Vec<String>,
    rounds: Rounds,
    communicators: u32,
    measure: Measure,
    tolerance: f64,
    time_limit_s: Option<f64>,
    soak_s: Option<f64>,
    seed: u64,
    /// Sets of the named configuration that do not run, because flags name sets.
    left_out: Vec<String>,
}

impl Draft {
    /// Merges defaults, the configuration and the flags.
    pub fn new(args: &Sweep) -> Result<Self> {
        let config = match &args.config {
            Some(path) => Config::load(path)?,
            None => Config::builtin(STANDARD)?,
        };
        Self::of(args, &config)
    }

    /// Merges defaults, `config` and the flags.
    pub fn of(args: &Sweep, config: &Config) -> Result<Self> {
        let mut base = config.base.clone();
        for (name, value) in env_set::base_from_flags(&args.base)?.iter() {
            base.set(name, value);
        }
        let from_audit = args.sizes_from.as_deref().map(sizes_from::load).transpose()?;
        let sets = sets(args, config, &base)?;
        let left_out = left_out(args, config, &sets);
        let expect = expect(args, config, &sets)?;
        let launches = ranks::launches(args, config)?;
        let cases = cases(args, config, from_audit.as_ref())?;
        let communicators = args.communicators.or(config.communicators).unwrap_or(COMMUNICATORS);
        let measure = measure(args);
        check_samples(&cases, communicators, &measure)?;
        Ok(Self {
            cases,
            sets,
            expect,
            base,
            clean_env: args.clean_env || config.clean_env.unwrap_or(false),
            devices: devices(args, config, from_audit.as_ref())?,
            share: None,
            ranks: positive("--ranks", args.ranks.or(config.ranks))?,
            alive: ranks::alive(args, config)?,
            registers: args.buffers.registers(config)?,
            rank_env: ranks::rank_env(&args.rank_env, &launches)?,
            launches,
            cpu_affinity: args.cpu_affinity.clone().or_else(|| config.cpu_affinity.clone()).unwrap_or_default(),
            wrap: wrap(args)?,
            rounds: if args.soak.is_some() {
                Rounds::Auto
            } else {
                args.rounds.or(config.rounds).unwrap_or(Rounds::Auto)
            },
            communicators,
            measure,
            tolerance: match (args.tolerance.or(config.tolerance), args.thorough) {
                (_, true) => THOROUGH,
                (Some(percent), false) => percent.fraction(),
                (None, false) => TOLERANCE,
            },
            time_limit_s: args.time_limit.or(config.time_limit).map(|limit| limit.as_secs_f64()),
            soak_s: args.soak.map(|time| time.as_secs_f64()),
            seed: args.seed.or(config.seed).unwrap_or_else(seed_from_clock),
            left_out,
        })
    }

    /// What a person should know of these arguments before anything starts.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        if self.left_out.is_empty() {
            return Vec::new();
        }
        let out = units::sets(&self.left_out);
        vec![format!(
            "beside --set and --vary the configuration's own sets do not run ({out}); --sets NAME,… picks from both"
        )]
    }

    /// The plan of one of several agents, for its own ranks; `share` is which of how many on its host.
    pub fn of_agent(self, share: (u32, u32)) -> Result<Self> {
        if self.ranks.is_some() {
            return Err(launcher::alone("--ranks"));
        }
        Ok(Self { share: Some(share), ..self })
    }

    /// The whole plan for a box with these GPUs and libraries.
    pub fn plan(self, gpus: &[Device], libraries: Vec<Library>) -> Result<Plan> {
        let devices = match self.share {
            None => self.devices.on(gpus)?,
            Some(share) => self.devices.share(gpus, share)?,
        };
        let ranks = self.ranks.unwrap_or(devices.len() as u32);
        self.check(&devices, ranks, &libraries)?;
        Ok(self.assemble(devices, ranks, libraries))
    }

    /// The plan as far as it is known without looking at the box: all GPUs are none, for they are not counted.
    pub fn unseen_plan(self, libraries: Vec<Library>) -> Result<Plan> {
        let devices = self.devices.unseen();
        let ranks = self.ranks.unwrap_or(devices.len() as u32);
        if ranks > 0 {
            self.check(&devices, ranks, &libraries)?;
        }
        Ok(self.assemble(devices, ranks, libraries))
    }

    /// Refuses what cannot be with so many ranks on these GPUs, as far as GPUs and versions are known.
    fn check(&self, devices: &[u32], ranks: u32, libraries: &[Library]) -> Result<()> {
        if ranks < devices.len() as u32 {
            let message = format!("{ranks} ranks leave some of {} GPUs without one", devices.len());
            return Err(Error::usage(message).help(format!("--gpus {ranks}, or at least {} ranks", devices.len())));
        }
        // Of several agents the first knows how many ranks there are.
        if self.share.is_none() {
            ranks::check(&self.rank_env, ranks)?;
        }
        self.cpu_affinity.check(ranks)?;
        for library in libraries.iter().filter(|library| library.version != NcclVersion::UNKNOWN) {
            let gpus = if devices.is_empty() { ranks as usize } else { devices.len() };
            check_version(library, ranks, gpus, &self.cases)?;
            buffers::check(library, &self.registers)?;
        }
        Ok(())
    }

    fn assemble(self, devices: Vec<u32>, ranks: u32, libraries: Vec<Library>) -> Plan {
        Plan {
            sets: self.sets,
            expect: self.expect,
            base: self.base,
            clean_env: self.clean_env,
            libraries,
            cases: self.cases,
            devices,
            ranks,
            agents: Vec::new(),
            launches: self.launches,
            alive: self.alive,
            registers: self.registers,
            rank_env: self.rank_env,
            cpu_affinity: self.cpu_affinity,
            wrap: self.wrap,
            rounds: self.rounds,
            communicators: self.communicators,
            measure: self.measure,
            tolerance: self.tolerance,
            time_limit_s: self.time_limit_s,
            soak_s: self.soak_s,
            seed: self.seed,
        }
    }
}

fn cases(args: &Sweep, config: &Config, from_audit: Option<&FromAudit>) -> Result<Vec<Case>> {
    let sizes = if args.sizes.is_empty() {
        config.sizes.clone().or(Config::builtin(STANDARD)?.sizes)
    } else {
        Some(SizeList::parse("--sizes", &args.sizes.join(","))?)
    };
    let placements = match args.in_place.as_deref() {
        Some("true") => vec![Placement::InPlace],
        Some("both") => vec![Placement::OutOfPlace, Placement::InPlace],
        Some(_) => vec![Placement::OutOfPlace],
        None => config.placement.clone().unwrap_or_else(|| vec![Placement::OutOfPlace]),
    };
    let cases = Cases {
        sizes: sizes.ok_or_else(|| Error::usage("no sizes to measure").help("--sizes 7168x1..4"))?,
        dtypes: pick(&args.dtype, config.dtype.as_ref(), Dtype::Bfloat16),
        ops: pick(&args.op, config.op.as_ref(), Op::Sum),
        placements,
        modes: pick(&args.modes, config.modes.as_ref(), from_audit.map_or(Mode::Graph, FromAudit::mode)),
    };
    from_audit.map_or_else(|| cases.product(), |from_audit| from_audit.cases(&cases))
}

fn pick<T: Clone>(flags: &[T], file: Option<&Vec<T>>, standard: T) -> Vec<T> {
    if flags.is_empty() { file.cloned().unwrap_or_else(|| vec![standard]) } else { flags.to_vec() }
}

/// The sets of the flags when there are any, else those of the configuration; of these the selected. Beside sets of flags those
/// of the configuration run when they are selected by name.
fn sets(args: &Sweep, config: &Config, base: &Vars) -> Result<Vec<EnvSet>> {
    if !names_sets(args) {
        env_set::check_distinct(base, &config.sets)?;
        return args
            .sets
            .as_ref()
            .map_or_else(|| Ok(config.sets.clone()), |names| env_set::select(&config.sets, names));
    }
    let mut all = env_set::from_flags(base, &args.set, &args.vary)?;
    let Some(names) = &args.sets else { return Ok(all) };
    let more: Vec<EnvSet> =
        config.sets.iter().filter(|set| all.iter().all(|own| own.name != set.name)).cloned().collect();
    all.extend(more);
    let selected = env_set::select(&all, names)?;
    env_set::check_distinct(base, &selected)?;
    Ok(selected)
}

/// Whether flags name sets.
fn names_sets(args: &Sweep) -> bool {
    !args.set.is_empty() || !args.vary.is_empty()
}

/// Sets of the configuration that was asked for by name and that do not run, although nobody selected any.
fn left_out(args: &Sweep, config: &Config, sets: &[EnvSet]) -> Vec<String> {
    if args.config.is_none() || args.sets.is_some() || !names_sets(args) {
        return Vec::new();
    }
    let out = config.sets.iter().filter(|set| sets.iter().all(|own| own.name != set.name));
    out.map(|set| set.name.clone()).collect()
}

/// The sets that gate the run: those of the flag, else of the configuration as far as they run, else `pcie-ll`.
fn expect(args: &Sweep, config: &Config, sets: &[EnvSet]) -> Result<Vec<String>> {
    let runs = |name: &String| sets.iter().any(|set| set.name == *name);
    if let Some(unknown) = args.expect.iter().find(|name| !runs(name)) {
        let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
        let message = format!("--expect names `{unknown}`, which does not run");
        return Err(Error::usage(message).help(format!("sets of this run: {}", names.join(", "))));
    }
    let wanted = match (&args.expect, &config.expect) {
        (flags, _) if !flags.is_empty() => flags.clone(),
        (_, Some(file)) => file.clone(),
        _ => vec![PCIE_LL.to_owned()],
    };
    Ok(wanted.into_iter().filter(runs).collect())
}

fn devices(args: &Sweep, config: &Config, from_audit: Option<&FromAudit>) -> Result<Devices> {
    let first = positive("--gpus", args.gpus.or(config.gpus))?;
    // As many as the server's communicators had ranks, unless the ranks are given.
    let servers = from_audit.and_then(|from_audit| from_audit.mix.ranks);
    let servers =
        servers.filter(|_| first.is_none() && args.devices.is_empty() && args.ranks.or(config.ranks).is_none());
    Devices::of(&args.devices, first.or(positive("of the audit's communicators, the number of ranks", servers)?))
}

/// NCCL itself sets no limit near this; beyond it the box is not the one this tool is for.
const MOST: u32 = 1024;

pub(super) fn positive(flag: &str, value: Option<u32>) -> Result<Option<u32>> {
    match value {
        Some(n) if n == 0 || n > MOST => {
            Err(Error::usage(format!("{flag} {n} is out of range")).help(format!("from 1 to {MOST}")))
        }
        value => Ok(value),
    }
}

fn wrap(args: &Sweep) -> Result<Vec<String>> {
    let Some(text) = &args.wrap else { return Ok(Vec::new()) };
    let words = shell_words::split(text).map_err(|error| {
        Error::usage(format!("cannot read --wrap `{text}`"))
            .because(error)
            .help("quote as in a shell, e.g. 'numactl -N 0'")
    })?;
    match words.first().filter(|first| !first.is_empty()) {
        None => Err(Error::usage("--wrap names no command").help("e.g. --wrap 'numactl -N 0'")),
        Some(first) if regular::program(first.as_ref()).is_none() => {
            Err(Error::usage(format!("there is no command `{first}` for --wrap"))
                .help("is it installed, and on the PATH?"))
        }
        Some(_) => Ok(words),
    }
}

fn measure(args: &Sweep) -> Measure {
    let standard = match args.soak {
        Some(_) => Measure { replays: SOAK_SAMPLES, checks: SOAK_CHECKS, passes: SOAK_PASSES, ..Measure::default() },
        None => Measure::default(),
    };
    let chain = args.chain.unwrap_or(standard.graph_length);
    let samples = args.samples.unwrap_or(standard.replays);
    Measure {
        graph_length: chain,
        replays: samples,
        launches: chain,
        batches: samples.div_ceil(2),
        calls: samples * 10,
        checks: args.checks.unwrap_or(standard.checks),
        passes: standard.passes,
        rotate: args.buffers.rotate_buffers,
        keep: args.cost.keep_communicators,
    }
}

/// Refuses visits that would be stored and could not be read again.
fn check_samples(cases: &[Case], communicators: u32, measure: &Measure) -> Result<()> {
    let times = u64::from(communicators) * u64::from(measure.passes);
    let replicates = (cases.len() as u64).saturating_mul(times);
    let samples = cases.iter().map(|case| measure.samples(case.mode) as u64).sum::<u64>().saturating_mul(times);
    if journal::holds(replicates, samples) {
        return Ok(());
    }
    let message = format!("a visit with {} is more than a run can keep", plural(samples as usize, "sample"));
    Err(Error::usage(message).help("lower --samples or --communicators, or measure fewer sizes or modes in one run"))
}

pub(super) fn seed_from_clock() -> u64 {
    // Fewer digits than a clock has: a seed is read aloud and typed again.
    u64::from(jiff::Timestamp::now().subsec_nanosecond().unsigned_abs() / 100 % 1_000_000)
}

fn check_version(library: &Library, ranks: u32, gpus: usize, cases: &[Case]) -> Result<()> {
    let version = library.version;
    if ranks as usize > gpus && version < MULTI_RANK {
        let message = format!("{ranks} ranks on {gpus} GPUs need NCCL {}.{}; this is {version}", 2, 30);
        return Err(Error::new(Kind::Environment, message)
            .help(format!("--nccl takes the path of a newer library; this one is {}", library.path)));
    }
    for case in cases {
        let needed = case.dtype.min_version().max(case.op.min_version());
        if !version.at_least(needed.0 as u16, needed.1 as u16) {
            let message = format!("`{case}` needs NCCL {}.{}; this is {version}", needed.0, needed.1);
            return Err(Error::new(Kind::Environment, message).help("--nccl takes the path of a newer library"));
        }
    }
    Ok(())
}
