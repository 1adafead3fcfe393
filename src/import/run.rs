//! From tables to a run: its header, and a visit for each table.

use indexmap::IndexSet;
use jiff::Timestamp;

use super::{Check, Half, Options, Rank, Table};
use crate::collective::{Case, Function, Mode, Placement, Size};
use crate::error::{Error, Result};
use crate::gpu::cuda::Device;
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::{EnvSet, Vars};
use crate::plan::schedule::{Arm, Launch, Library, Measure, Plan, Rounds};
use crate::record::outcome::Outcome;
use crate::record::run::{Backend, Header, Imported, LibraryFacts, Provenance, SCHEMA, UNKNOWN};
use crate::record::visit::{Checks, Replicate, Visit};
use crate::stats::median_of;

/// Most ranks of a process that are believed.
pub(super) const MOST_RANKS: u32 = 1024;

/// What the tables do not tell.
#[derive(Clone, Debug)]
pub struct Given {
    /// Name of the env set; those of several tables are named by their files.
    pub set: String,
    /// Variables under which all of them were measured.
    pub base: Vars,
    /// Whether several tables are repetitions of one command, or each is a set of its own.
    pub repeats: bool,
    /// When the run was started, where no table tells.
    pub created: Timestamp,
}

/// The header and the visits of a run of `tables`, each with the name of its file.
pub fn run(tables: &[(String, Table)], given: &Given) -> Result<(Header, Vec<Visit>)> {
    let all: Vec<Measured> = tables.iter().map(|(file, table)| Measured::new(file, table)).collect::<Result<_>>()?;
    let Some(first) = all.first() else { return Err(Error::usage("nothing to import")) };
    for other in &all[1..] {
        first.like(other, given.repeats)?;
    }
    let mut cases = IndexSet::new();
    for placement in Placement::ALL {
        all.iter().for_each(|one| cases.extend(one.cases(placement).map(|(case, _)| case)));
    }
    let common = all.iter().all(|one| one.table.head.variables == first.table.head.variables);
    let plan = plan(&all, &cases, given, common);
    let visits: Vec<Visit> = (0..).zip(&all).map(|(index, one)| one.visit(index, &plan, given)).collect();
    let created = first.table.head.started.unwrap_or(given.created);
    let mut provenance = first.provenance(&all);
    if common {
        provenance.inherited = first.table.head.variables.clone();
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok((Header { schema: SCHEMA, version, backend: Backend::Cuda, created, provenance, plan }, visits))
}

fn plan(all: &[Measured], cases: &IndexSet<Case>, given: &Given, common: bool) -> Plan {
    let first = &all[0];
    let variables = |one: &Measured| if common { Vars::default() } else { one.table.head.variables.clone() };
    let sets: Vec<EnvSet> = match all {
        _ if given.repeats => vec![EnvSet { name: given.set.clone(), vars: Vars::default(), note: None }],
        [_] => vec![EnvSet { name: given.set.clone(), vars: Vars::default(), note: None }],
        many => {
            let names = names(many.iter().map(|one| one.file));
            many.iter().zip(names).map(|(one, name)| EnvSet { name, vars: variables(one), note: None }).collect()
        }
    };
    let rounds = if given.repeats { all.len() as u32 } else { 1 };
    Plan {
        sets,
        expect: Vec::new(),
        base: given.base.clone(),
        clean_env: false,
        libraries: vec![Library { path: UNKNOWN.to_owned(), version: first.nccl() }],
        cases: cases.iter().copied().collect(),
        devices: first.ranks.iter().map(|rank| rank.device).collect(),
        ranks: first.ranks.len() as u32,
        agents: Vec::new(),
        launches: vec![first.launch()],
        alive: vec![0],
        registers: vec![Default::default()],
        rank_env: Vec::new(),
        cpu_affinity: Default::default(),
        wrap: Vec::new(),
        rounds: Rounds::Fixed(rounds),
        communicators: 1,
        measure: first.measure(),
        tolerance: 0.05,
        time_limit_s: None,
        soak_s: None,
        // Nothing here is random; it tells runs apart, as the seed of a measured one does.
        seed: fingerprint(all),
    }
}

/// Longest name that is made; a number may follow.
const NAME: usize = 56;

/// Names of sets after their files, each once, as sets may be called.
fn names<'a>(files: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for file in files {
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let fit = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        let mut stem: String = stem.chars().map(fit).take(NAME).collect();
        if !stem.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            stem.insert_str(0, "file");
        }
        let numbered = (2..).map(|number| format!("{stem}-{number}"));
        let free = std::iter::once(stem.clone()).chain(numbered).find(|name| !names.contains(name));
        names.extend(free);
    }
    names
}

/// FNV-1a over all figures, in the 32 bits that every reader of JSON keeps.
fn fingerprint(all: &[Measured]) -> u64 {
    let figures = all.iter().flat_map(|one| &one.table.rows).flat_map(|row| row.halves.iter().flatten());
    let bytes = figures.flat_map(|half| half.time_us.to_bits().to_le_bytes());
    u64::from(bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)))
}

/// A table that tells all that a run needs.
struct Measured<'a> {
    file: &'a str,
    table: &'a Table,
    options: Options,
    ranks: &'a [Rank],
}

impl<'a> Measured<'a> {
    fn new(file: &'a str, table: &'a Table) -> Result<Self> {
        let fault = |what: &str| Error::usage(format!("cannot import {file}, table of line {}: {what}", table.line));
        let whole = "pass the output whole: from `# nccl-tests version` or `# nThread` on";
        let options =
            table.head.options.ok_or_else(|| fault("no line `# nThread …` tells how was measured").help(whole))?;
        let ranks = &table.head.ranks;
        if ranks.is_empty() {
            return Err(fault("no line `# Rank …` tells the ranks").help(whole));
        }
        if !(0..).zip(ranks).all(|(number, rank): (u32, _)| rank.rank == number) || ranks.len() > MOST_RANKS as usize {
            return Err(fault("the lines `# Rank …` are not those of one run: outputs are mixed").help(whole));
        }
        if let Some(other) = ranks.iter().find(|rank| rank.host != ranks[0].host) {
            let what = format!("its ranks are on {} and {}", ranks[0].host, other.host);
            return Err(fault(&what).help("this program is for one box"));
        }
        let devices: IndexSet<u32> = ranks.iter().map(|rank| rank.device).collect();
        if devices.len() < ranks.len() {
            return Err(fault("two ranks are on one device").help("only a rank on each GPU is imported"));
        }
        Ok(Self { file, table, options, ranks })
    }

    /// Refuses tables that do not belong into one run.
    fn like(&self, other: &Self, repeats: bool) -> Result<()> {
        let devices = |one: &Self| one.ranks.iter().map(|rank| (rank.device, rank.name.clone())).collect::<Vec<_>>();
        let options = |one: &Self| Options { validation: 0, ..one.options };
        let what = match () {
            () if devices(self) != devices(other) => "GPUs",
            () if options(self) != options(other) => "options",
            () if self.table.head.nccl != other.table.head.nccl => "NCCL libraries",
            () if self.calls() != other.calls() => "options",
            () if repeats && self.table.head.variables != other.table.head.variables => "NCCL_* variables",
            () => return Ok(()),
        };
        let message = format!(
            "the tables {} (line {}) and {} (line {}) are of other {what}",
            self.file, self.table.line, other.file, other.table.line
        );
        Err(Error::usage(message).help("import each alone, then `ncclsweep compare` them"))
    }

    fn nccl(&self) -> NcclVersion {
        self.table.head.nccl.unwrap_or(NcclVersion::UNKNOWN)
    }

    fn mode(&self) -> Mode {
        match self.options {
            Options { graph: 1.., .. } => Mode::Graph,
            Options { blocking: 1.., .. } => Mode::Sync,
            _ => Mode::Stream,
        }
    }

    fn launch(&self) -> Launch {
        let several = self.ranks.iter().any(|rank| rank.pid != self.ranks[0].pid);
        if several { Launch::Processes } else { Launch::Threads }
    }

    /// Whether the times of the calls are known one by one.
    fn calls(&self) -> usize {
        let halves = self.table.rows.iter().flat_map(|row| row.halves.iter().flatten());
        halves.map(|half| half.calls_us.len()).min().unwrap_or(0)
    }

    /// What one sample is. A mean of all calls is one sample.
    fn measure(&self) -> Measure {
        let Options { iterations, aggregated, .. } = self.options;
        let (samples, calls) = match self.calls() as u32 {
            0 => (1, iterations.saturating_mul(aggregated)),
            samples => (samples, 1),
        };
        let measure = Measure::default();
        match self.mode() {
            Mode::Graph => Measure { graph_length: calls, replays: samples, ..measure },
            Mode::Stream => Measure { launches: calls, batches: samples, ..measure },
            Mode::Sync => Measure { calls: samples, ..measure },
        }
    }

    /// The cases of one placement, each with what was measured.
    fn cases(&self, placement: Placement) -> impl Iterator<Item = (Case, &'a Half)> {
        let mode = self.mode();
        self.table.rows.iter().filter_map(move |row| {
            let half = row.halves[usize::from(placement == Placement::InPlace)].as_ref()?;
            let size = Size::elements(row.count);
            Some((Case { dtype: row.dtype, op: row.op, placement, mode, size, function: Function::AllReduce }, half))
        })
    }

    fn visit(&self, index: u32, plan: &Plan, given: &Given) -> Visit {
        let halves: Vec<(Case, &Half)> =
            Placement::ALL.into_iter().flat_map(|placement| self.cases(placement)).collect();
        let of_case = |(at, case): (usize, &Case)| {
            let of_case: Vec<&Half> = halves.iter().filter(|(of, _)| of == case).map(|(_, half)| *half).collect();
            (!of_case.is_empty()).then(|| self.replicate(at, case, &of_case))
        };
        let replicates: Vec<Replicate> = plan.cases.iter().enumerate().filter_map(of_case).collect();
        let wrong = self.table.out_of_bounds.is_some_and(|checks| checks > 0)
            || replicates.iter().any(|replicate| replicate.checks.wrong > 0);
        let (set, round) = if given.repeats { (0, index) } else { (index as usize, 0) };
        let arm = Arm { set, ..plan.baseline() };
        let started = self.table.head.started.unwrap_or(given.created);
        Visit {
            seconds: self.table.head.seconds.unwrap_or(0.0),
            outcome: if wrong { Outcome::WrongData } else { Outcome::Completed },
            replicates,
            ..Visit::begun(index, round, arm, started)
        }
    }

    /// What the one communicator measured of a case: once, or once in each cycle (`-N`).
    fn replicate(&self, at: usize, case: &Case, halves: &[&Half]) -> Replicate {
        let samples: Vec<f64> = halves
            .iter()
            .flat_map(|half| if half.calls_us.is_empty() { vec![half.time_us] } else { half.calls_us.clone() })
            .collect();
        let mut checks = Checks::default();
        halves.iter().for_each(|half| checks.add(self.checks(half, case.size.elements)));
        Replicate {
            communicator: 0,
            case: at,
            mean_us: samples.iter().sum::<f64>() / samples.len() as f64,
            median_us: median_of(samples.iter().copied()),
            warm_up_calls: 0,
            checks,
            samples_us: samples,
        }
    }

    /// Outputs that were compared. nccl-tests counts wrong elements; they are in so many outputs at least.
    fn checks(&self, half: &Half, elements: u64) -> Checks {
        let outputs = u64::from(self.options.validation.max(1)) * self.ranks.len() as u64;
        match (half.check, self.table.out_of_bounds) {
            (Check::None, _) | (Check::Deviation(_), None | Some(1..)) => Checks::default(),
            (Check::Deviation(_), Some(0)) => Checks { outputs, ..Checks::default() },
            (Check::Wrong(wrong), _) => {
                Checks { outputs, wrong: wrong.div_ceil(elements.max(1)).min(outputs), first_wrong: None }
            }
        }
    }

    fn provenance(&self, all: &[Self]) -> Provenance {
        let device = |rank: &Rank| Device {
            ordinal: rank.device,
            name: rank.name.clone(),
            uuid: String::new(),
            pci: match rank.bus.matches(':').count() {
                _ if rank.bus.is_empty() => UNKNOWN.to_owned(),
                2 => format!("{}.0", rank.bus),
                _ => rank.bus.clone(),
            },
        };
        let library = LibraryFacts {
            path: UNKNOWN.into(),
            found_by: "nccl-tests".into(),
            version: self.table.head.nccl,
            build_id: None,
        };
        Provenance {
            host: self.ranks[0].host.clone(),
            kernel: UNKNOWN.to_owned(),
            cpu: UNKNOWN.to_owned(),
            cpus: 0,
            driver: None,
            cuda: UNKNOWN.to_owned(),
            gpus: self.ranks.iter().map(device).collect(),
            busy: Vec::new(),
            libraries: vec![library],
            other_libraries: Vec::new(),
            inherited: Vars::default(),
            conf_files: Vec::new(),
            arguments: self.table.head.arguments.clone(),
            emulated: None,
            imported: Some(Imported {
                files: all.iter().map(|one| one.file.to_owned()).collect::<IndexSet<_>>().into_iter().collect(),
                program: match &self.table.head.version {
                    Some(version) => format!("nccl-tests {version}"),
                    None => "nccl-tests".to_owned(),
                },
                notes: self.notes(all),
            }),
            visible_devices: None,
            topology: None,
            others: Vec::new(),
        }
    }

    /// What a reader must know before trusting the figures.
    fn notes(&self, all: &[Self]) -> Vec<String> {
        let mut notes = vec![match self.calls() {
            0 => format!(
                "imported: each time is nccl-tests' mean of {} calls, over the ranks too, where ncclsweep takes the slowest rank of each sample",
                self.options.iterations.saturating_mul(self.options.aggregated)
            ),
            calls => {
                format!("imported: times of {calls} calls one by one, between events on the GPUs of the first thread")
            }
        }];
        if self.mode() == Mode::Graph {
            notes.push(
                "imported: NCCL may register nccl-tests' buffers in graphs, and each call has its own; measure with --register capture --rotate-buffers beside it"
                    .to_owned(),
            );
        }
        if all.iter().any(|one| one.table.head.cpu_time) {
            notes.push("imported: measured with -C, so times follow from algbw and its digits".to_owned());
        }
        match self.options {
            Options { blocking: 1 | 2, graph: 0, .. } => {
                notes.push("imported: times of lone calls (-z), with the wait of the host for each in them".to_owned());
            }
            Options { gpus: 2.., .. } => {
                notes.push("imported: one thread issued the calls of several GPUs as a group (-g)".to_owned());
            }
            _ => {}
        }
        for one in all {
            let told = one.table.notes.iter().map(|note| format!("imported: {}: {note}", one.file));
            notes.extend(told);
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_any_name_give_names_that_sets_may_have() {
        let long = format!("{}.txt", "a".repeat(200));
        let made = names(["ok.txt", ".txt", "-x.txt", "ok.json", &long, "\u{e9}t\u{e9}.txt"].into_iter());
        assert_eq!(made[..4], ["ok", "file", "file-x", "ok-2"]);
        assert_eq!((made[4].len(), made[5].as_str()), (NAME, "file-t-"));
    }
}
