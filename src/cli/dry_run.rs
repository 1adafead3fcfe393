//! `--dry-run`: the plan, the processes, each set's environment and how long it will take. Starts nothing.

use std::io::Write;
use std::path::Path;

use super::answer::{answer, unwritten};
use super::args::Sweep as Args;
use super::draft::Draft;
use super::exit::Exit;
use super::{ranks, settings, terminal};
use crate::error::Result;
use crate::nccl::register::Register;
use crate::nccl::version::NcclVersion;
use crate::plan::environment::Origin;
use crate::plan::schedule::{Launch, Library, Plan, Rounds};
use crate::stats::Looks;
use crate::supervisor::bench::{Wanted, choose};
use crate::supervisor::{emulator, library};

/// Seconds of a process and of each communicator in it, measured on 2 GPUs (`docs/statistics.md`).
const PROCESS_S: f64 = 2.0;
const COMMUNICATOR_S: f64 = 0.55;

/// Prints the plan.
pub fn show(args: &Args, draft: Draft) -> Result<Exit> {
    let wanted = Wanted { emulate: args.emulation.emulate.clone(), nccl: args.nccl.clone(), ..Wanted::default() };
    let libraries = choose(&wanted).map(|(chosen, _)| chosen).unwrap_or_default();
    let emulated = args.emulation.emulate.is_some().then(emulator::version).flatten();
    let version = |path: &Path| emulated.or_else(|| library::version_in_file(path)).unwrap_or(NcclVersion::UNKNOWN);
    let libraries: Vec<Library> = libraries
        .iter()
        .map(|found| Library { path: found.path.display().to_string(), version: version(&found.path) })
        .collect();
    let notes = draft.notes();
    let plan = draft.unseen_plan(libraries)?;
    let mut warnings = settings::check(args, &plan, None)?;
    warnings.extend(ranks::warnings(&plan, false));
    if !args.quiet {
        notes.iter().for_each(terminal::note);
        warnings.iter().for_each(|warning| terminal::note(format!("warning: {warning}")));
    }
    answer(Exit::Held, |out| write(&plan, out).map_err(unwritten))
}

fn write(plan: &Plan, out: &mut impl Write) -> std::io::Result<()> {
    let gpus = match plan.devices.len() {
        0 => "all GPUs of the box".to_owned(),
        _ => format!("GPUs {}", plan.devices.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    let ranks = if plan.ranks == 0 { "a rank on each".to_owned() } else { format!("{} ranks", plan.ranks) };
    writeln!(out, "Plan (nothing was started)")?;
    let launches: Vec<&str> = plan.launches.iter().map(|launch| started(*launch)).collect();
    writeln!(out, "  {gpus} · {ranks} · {}", launches.join("; then "))?;
    if plan.alive != [0] {
        let numbers: Vec<String> = plan.alive.iter().map(|alive| (alive + 1).to_string()).collect();
        writeln!(out, "  calls go round {} communicators", numbers.join("; then "))?;
    }
    if plan.registers != [Register::None] {
        let ways: Vec<String> = plan.registers.iter().map(ToString::to_string).collect();
        writeln!(out, "  buffers registered: {}", ways.join("; then "))?;
    }
    match plan.libraries.as_slice() {
        [] => writeln!(out, "  NCCL   none was found: name one with --nccl PATH")?,
        all => all.iter().try_for_each(|library| writeln!(out, "  NCCL   {}", describe(library)))?,
    }
    writeln!(out, "  cases  {}", plan.cases.len())?;
    for case in &plan.cases {
        writeln!(out, "         {case} ({} B)", case.bytes().0)?;
    }
    let visits =
        plan.sets.len() * plan.libraries.len().max(1) * plan.launches.len() * plan.alive.len() * plan.registers.len();
    let order: Vec<String> = plan.round(0).iter().map(|arm| plan.arm_name(*arm)).collect();
    writeln!(out, "  rounds {}, each of {visits} visits of {} communicators", plan.rounds, plan.communicators)?;
    // Without a library there is no arm yet.
    let order =
        if order.is_empty() { String::new() } else { format!("; order of the first round: {}", order.join(", ")) };
    writeln!(out, "  seed   {}{order}", plan.seed)?;
    writeln!(out, "  time   {}", estimate(plan, visits))?;
    writeln!(out)?;
    let workers = match plan.launches.as_slice() {
        [Launch::Threads] => "one worker for each visit",
        [Launch::Processes] => "a worker for each rank of each visit",
        _ => "one worker for each visit of threads, one for each rank of each visit of processes",
    };
    writeln!(out, "Processes: one probe for each library, then {workers}")?;
    let wrap: String = plan.wrap.iter().map(|word| format!("{} ", shell_words::quote(word))).collect();
    writeln!(
        out,
        "  {wrap}ncclsweep {} FD   (job on stdin, events on descriptor FD)",
        crate::supervisor::visit::WORKER
    )?;
    writeln!(out)?;
    writeln!(out, "NCCL variables of each set")?;
    for (index, set) in plan.sets.iter().enumerate() {
        writeln!(out, "  {}", set.name)?;
        let environment = settings::asked(plan, index);
        let mut variables = environment.nccl().peekable();
        if variables.peek().is_none() {
            writeln!(out, "    none")?;
        }
        for (name, value, origin) in variables {
            writeln!(out, "    {name}={value}   ({})", from(origin))?;
        }
        for own in &plan.rank_env {
            for (name, value) in own.vars.iter() {
                let value = if value.is_empty() { "is not set".to_owned() } else { format!("= {value}") };
                writeln!(out, "    rank {}: {name} {value}   ({})", own.rank, from(Origin::Rank))?;
            }
        }
    }
    Ok(())
}

fn describe(library: &Library) -> String {
    if library.version == NcclVersion::UNKNOWN {
        format!("{} (version told when loaded)", library.path)
    } else {
        format!("{} {}", library.version, library.path)
    }
}

fn started(launch: Launch) -> &'static str {
    match launch {
        Launch::Threads => "threads of one process",
        Launch::Processes => "a process for each",
    }
}

fn from(origin: Origin) -> &'static str {
    match origin {
        Origin::Inherited => "inherited",
        Origin::Base => "base",
        Origin::Set => "this set",
        Origin::Rank => "this rank",
        Origin::Tool => "ncclsweep",
    }
}

fn estimate(plan: &Plan, visits: usize) -> String {
    let in_turn: u32 = plan.alive.iter().map(|alive| alive + 1).sum();
    let made = f64::from(plan.communicators * in_turn) / plan.alive.len() as f64;
    let round = visits as f64 * (PROCESS_S + COMMUNICATOR_S * made);
    if let Some(asked) = plan.soak_s {
        return format!("a soak of {}, {:.0} s each round on real GPUs", crate::units::duration(asked), round);
    }
    match plan.rounds {
        Rounds::Fixed(rounds) => format!("about {:.0} s on real GPUs", round * f64::from(rounds)),
        Rounds::Auto => {
            let first = Looks::Auto.next(0).unwrap_or(3);
            format!(
                "at least {:.0} s on real GPUs, {:.0} s more for each further round",
                round * f64::from(first),
                round
            )
        }
    }
}
