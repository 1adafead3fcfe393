//! `cargo xtask replay RUN…`: recorded rounds cut into disjoint runs, each judged as if it had been measured alone. On a recording
//! of one setting under two names every `faster` or `slower` is false, and what a naive rule says of the same visits stands beside.

use std::path::{Path, PathBuf};

use ncclsweep::error::{Error, Kind, Result};
use ncclsweep::plan::schedule::{Arm, Plan, Rounds};
use ncclsweep::record::journal::Journal;
use ncclsweep::record::summary::{Tally, judge};
use ncclsweep::record::visit::Visit;
use ncclsweep::stats::{Looks, Verdict};

use crate::table::Table;

/// Two visits that differ by more than this are called different by the naive rule.
const NAIVE: f64 = 0.03;

#[derive(clap::Args)]
pub struct Args {
    /// Folders of runs; every set is judged against the baseline by itself
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Where the table is kept
    #[arg(long)]
    save: Option<PathBuf>,
}

/// A pair of visits of one round: the baseline's and the candidate's.
type Round = (Visit, Visit);

/// What became of the runs that one recording was cut into.
#[derive(Default)]
struct Counts {
    runs: u32,
    any_faster: u32,
    any_slower: u32,
    all_same: u32,
    all_slower: u32,
    unfinished: u32,
    rounds: Vec<u32>,
}

pub fn run(args: &Args) -> Result<()> {
    let mut table = Table::new(&[
        "recording",
        "set",
        "ranks",
        "mode",
        "cells",
        "rounds",
        "tolerance",
        "runs",
        "any_faster",
        "any_slower",
        "all_same",
        "all_slower",
        "unfinished",
        "rounds_median",
        "rounds_max",
        "naive_visit",
        "naive_communicator",
    ]);
    for folder in &args.runs {
        let (journal, header) = Journal::open(folder)?;
        for set in 1..header.plan.sets.len() {
            for mode in header.plan.modes() {
                let plan = alone(&header.plan, set, mode);
                let rounds = rounds(&journal, &header.plan, &plan, set)?;
                for tolerance in [0.05, 0.03] {
                    let plan = Plan { tolerance, ..plan.clone() };
                    table.push(row(folder, &plan, &rounds)?);
                }
            }
        }
    }
    table.print();
    match &args.save {
        Some(path) => {
            let names = args.runs.iter().map(|run| format!(" {}", run.display()));
            table.save(path, &format!("cargo xtask replay{}", names.collect::<String>()))
        }
        None => Ok(()),
    }
}

/// The plan of a run of the baseline and one set, as `--rounds auto` makes it.
fn alone(plan: &Plan, set: usize, mode: ncclsweep::collective::Mode) -> Plan {
    let sets = vec![plan.sets[0].clone(), plan.sets[set].clone()];
    let cases = plan.cases.iter().filter(|case| case.mode == mode).cloned().collect();
    Plan { sets, cases, libraries: plan.libraries[..1].to_vec(), rounds: Rounds::Auto, ..plan.clone() }
}

/// The rounds in which both arms completed, their visits renamed to the arms and cases of `alone`.
fn rounds(journal: &Journal, plan: &Plan, alone: &Plan, set: usize) -> Result<Vec<Round>> {
    let of = |set: usize| -> Result<Vec<Visit>> {
        let entries = journal
            .entries()
            .iter()
            .filter(|entry| entry.arm == Arm { set, ..Arm::default() } && !entry.untimed && entry.completed);
        entries.map(|entry| journal.read(entry)).collect()
    };
    let case = |old: usize| alone.cases.iter().position(|case| *case == plan.cases[old]);
    let renamed = |mut visit: Visit, set: usize| {
        visit.arm = Arm { set, ..Arm::default() };
        visit.replicates.retain_mut(|replicate| case(replicate.case).map(|new| replicate.case = new).is_some());
        visit
    };
    let candidates = of(set)?;
    let both = |base: Visit| {
        let candidate = candidates.iter().find(|visit| visit.round == base.round)?.clone();
        Some((renamed(base, 0), renamed(candidate, 1)))
    };
    let rounds: Vec<Round> = of(0)?.into_iter().filter_map(both).collect();
    if rounds.is_empty() {
        return Err(Error::new(Kind::Usage, format!("no complete round of `{}`", plan.sets[set].name)));
    }
    Ok(rounds)
}

fn row(folder: &Path, plan: &Plan, rounds: &[Round]) -> Result<Vec<String>> {
    let counts = cut(plan, rounds)?;
    // The machine's folder and the run's: runs of several machines have the same names.
    let parts: Vec<_> = folder.components().rev().take(2).map(|part| part.as_os_str().to_string_lossy()).collect();
    let name = parts.into_iter().rev().collect::<Vec<_>>().join("/");
    let mut sorted = counts.rounds.clone();
    sorted.sort_unstable();
    let number = |value: Option<&u32>| value.map_or_else(|| "-".into(), u32::to_string);
    let differing = |communicators: usize| rounds.iter().filter(|round| naive(plan, round, communicators)).count();
    Ok(vec![
        name,
        plan.sets[1].name.to_string(),
        plan.ranks.to_string(),
        plan.cases[0].mode.to_string(),
        plan.cases.len().to_string(),
        rounds.len().to_string(),
        plan.tolerance.to_string(),
        counts.runs.to_string(),
        counts.any_faster.to_string(),
        counts.any_slower.to_string(),
        counts.all_same.to_string(),
        counts.all_slower.to_string(),
        counts.unfinished.to_string(),
        number(sorted.get(sorted.len() / 2)),
        number(sorted.last()),
        format!("{}/{}", differing(usize::MAX), rounds.len()),
        format!("{}/{}", differing(1), rounds.len()),
    ])
}

/// Cuts the rounds into runs: each takes rounds until all its cells have a verdict, the next begins after them.
fn cut(plan: &Plan, rounds: &[Round]) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut rest = rounds;
    while let Some((verdicts, used)) = one(plan, rest)? {
        let any = |wanted| u32::from(verdicts.contains(&wanted));
        let all = |wanted| u32::from(verdicts.iter().all(|verdict| *verdict == wanted));
        counts.runs += 1;
        counts.any_faster += any(Verdict::Faster);
        counts.any_slower += any(Verdict::Slower);
        counts.all_same += all(Verdict::Same);
        counts.all_slower += all(Verdict::Slower);
        counts.rounds.push(used);
        rest = &rest[used as usize..];
    }
    // What the recording's end cut off: a run of its own that nobody can judge.
    counts.unfinished = u32::from(!rest.is_empty());
    Ok(counts)
}

/// The verdicts of the run that begins here and the rounds it took; nothing when the recording ends first.
fn one(plan: &Plan, rounds: &[Round]) -> Result<Option<(Vec<Verdict>, u32)>> {
    let mut tally = Tally::default();
    let mut taken = 0;
    while let Some(look) = Looks::Auto.next(taken) {
        let Some(new) = rounds.get(taken as usize..look as usize) else { return Ok(None) };
        for (index, (base, candidate)) in (taken..).zip(new) {
            for visit in [base, candidate] {
                tally.add(&Visit { round: index, ..visit.clone() })?;
            }
        }
        taken = look;
        let judged = judge(plan, &tally)?;
        if judged.all_decided_but(|_, _| false) || Looks::Auto.next(taken).is_none() {
            let arm = Arm { set: 1, ..Arm::default() };
            let verdicts = (0..plan.cases.len()).filter_map(|case| judged.verdict(arm, case));
            return Ok(Some((verdicts.collect(), taken)));
        }
    }
    Ok(None)
}

/// Whether two visits differ at any size by more than the naive rule allows, judged by their first communicators alone.
fn naive(plan: &Plan, (base, candidate): &Round, communicators: usize) -> bool {
    let mean = |visit: &Visit, case: usize| {
        let logs: Vec<f64> = visit
            .replicates
            .iter()
            .filter(|replicate| replicate.case == case)
            .take(communicators)
            .map(|replicate| replicate.median_us.ln())
            .collect();
        logs.iter().sum::<f64>() / logs.len() as f64
    };
    (0..plan.cases.len()).any(|case| (mean(candidate, case) - mean(base, case)).abs() > NAIVE.ln_1p())
}
