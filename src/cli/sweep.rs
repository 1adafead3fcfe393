//! `ncclsweep sweep`: measures env sets against the defaults.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::answer::{answer, unwritten};
use super::args::Sweep as Args;
use super::draft::Draft;
use super::dry_run;
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::progress::Live;
use super::{end, folder, hosts, ranks, settings, sizes_from, terminal};
use crate::compare;
use crate::error::{Error, Kind, Result};
use crate::impact::Step;
use crate::plan::schedule::{Plan, Rounds};
use crate::record::document;
use crate::record::journal::Journal;
use crate::record::redact::Redactor;
use crate::record::run::{Header, Run, Verdict};
use crate::record::stored::Stored;
use crate::record::summary::Tally;
use crate::report::{self, Format};
use crate::supervisor::agents::first::Others;
use crate::supervisor::bench::{Bench, Wanted};
use crate::supervisor::deadlines::Pace;
use crate::supervisor::floor;
use crate::supervisor::isolate::FEWEST;
use crate::supervisor::private::Private;
use crate::supervisor::provenance;
use crate::supervisor::sweep::{Ended, Sweep};
use crate::supervisor::visit::{Deadlines, Setup};
use crate::topology::CpuList;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let draft = || if args.resume.is_some() { Ok(None) } else { Draft::new(args).map(Some) };
    match args.hosts.place()? {
        Some(place) if place.agent > 0 && args.dry_run => return Ok(Exit::Held),
        Some(place) if place.agent > 0 => return hosts::serve(args, &place),
        _ if args.dry_run => return dry_run::show(args, Draft::new(args)?),
        _ => {}
    }
    let from_audit = args.sizes_from.as_deref().map(sizes_from::load).transpose()?;
    if let (Some(from_audit), false) = (&from_audit, args.quiet) {
        terminal::note(&from_audit.note);
    }
    let step = args.impact.step(from_audit.as_ref().map(|from_audit| &from_audit.mix))?;
    let baseline = args.baseline.as_deref().map(Stored::load).transpose()?;
    let comparable = |header: &Header| match &baseline {
        Some(baseline) => compare::check(baseline, header),
        None => Ok(()),
    };
    let draft = draft()?;
    if let (Some(draft), false) = (&draft, args.quiet) {
        draft.notes().iter().for_each(terminal::note);
    }
    let mut measured = measure(args, draft, &comparable)?;
    // Until the end of this function: a launcher that ends a run kills all processes as soon as one is gone.
    let _agents = measured.agents.take();
    let (exit, interrupted) = (exit(&measured.run, &measured.ended), measured.ended == Ended::Interrupted);
    let last = end::note(&measured, args.redact);
    let stored = measured.stored();
    let exit = answer(exit, |out| show(args, &stored, step.as_ref(), out))?;
    if !args.quiet {
        terminal::note(format!("results in {}", stored.place));
        last.iter().for_each(terminal::note);
    }
    match baseline {
        Some(baseline) if !interrupted => Ok(exit.min(since(args, &baseline, &stored)?)),
        _ => Ok(exit),
    }
}

/// What `--baseline` asks for: under the report where that is for people, else on stderr, beside the document on stdout.
fn since(args: &Args, baseline: &Stored, new: &Stored) -> Result<Exit> {
    let comparison = compare::compare(baseline, new, None)?;
    let exit = super::compare::exit(&comparison);
    if args.format != Format::Table {
        terminal::note(report::compare::render(&comparison, report::Style::default()).trim_end());
        return Ok(exit);
    }
    answer(exit, |out| {
        writeln!(out).map_err(unwritten)?;
        report::compare::write(&comparison, [baseline, new], Format::Table, terminal::style(), out)
    })
}

/// A run that was made and stored.
pub struct Measured {
    /// Where it lies.
    pub folder: PathBuf,
    /// Its document.
    pub run: Run,
    /// Why it ended.
    pub ended: Ended,
    /// Whether it was there as it is before: a run that was continued and had nothing left to do.
    pub unchanged: bool,
    /// The other agents, who go when this is dropped.
    pub agents: Option<Arc<Others>>,
}

impl Measured {
    /// As it would be read back.
    pub fn stored(self) -> Stored {
        let place = self.folder.display().to_string();
        Stored { place, folder: Some(self.folder), run: self.run }
    }
}

/// Makes a new run of `draft`, or continues the one that `args` name, and stores it. `fit` may refuse it before it starts.
pub fn measure(args: &Args, draft: Option<Draft>, fit: &dyn Fn(&Header) -> Result<()>) -> Result<Measured> {
    if args.hosts.place()?.is_some() {
        hosts::check(args)?;
    }
    let interrupt = Interrupt::install()?;
    let asked = || interrupt.asked();
    let private = Private::create()?;
    let Begun { folder, setup, mut journal, header, warnings } = match (&args.resume, draft) {
        (Some(folder), _) => resume(folder, args, &private, fit, &asked)?,
        (None, draft) => begin(args, draft.map_or_else(|| Draft::new(args), Ok)?, &private, fit, &asked)?,
    };
    let plan = &header.plan;
    let redactor = args.redact.then(|| Redactor::new(&header));
    let plain = |text: &str| redactor.as_ref().map_or_else(|| text.to_owned(), |redactor| redactor.text(text));
    let warnings: Vec<String> = warnings.iter().map(|warning| plain(warning)).collect();
    if !args.quiet {
        warnings.iter().for_each(|warning| terminal::note(format!("warning: {warning}")));
    }
    if args.verbose {
        plan.libraries
            .iter()
            .for_each(|library| terminal::note(plain(&format!("NCCL {} is {}", library.version, library.path))));
        terminal::note(format!("seed {}, results in {}", plan.seed, folder.display()));
    }
    let held = |journal: &Journal| (journal.entries().len(), journal.pairs().len(), journal.floor().cloned());
    let before = held(&journal);
    let mut tally = Tally::of(&journal)?;
    let mut live = Live::new(plan, args.quiet, args.verbose);
    let mut sweep = Sweep {
        plan,
        header: &header,
        setup: &setup,
        private: &private,
        journal: &mut journal,
        tally: &mut tally,
        pace: Pace::new(setup.deadlines),
        interrupted: &asked,
    };
    let ended = make(&mut sweep, args.isolate, &mut live);
    live.finish();
    let ended = ended?;
    if args.cost.floor && !plan.agents.is_empty() {
        terminal::note("warning: --floor looks at the GPUs of one host; between hosts nothing is measured");
    } else if args.cost.floor {
        look_for_floor(plan, &setup, &private, &mut journal, &ended, &asked)?;
    }
    let unchanged = args.resume.is_some() && held(&journal) == before;
    let complete = is_complete(plan, &ended, &tally);
    let (journal, header) = if args.redact { journal.redact(&header)? } else { (journal, header) };
    let mut run = document::make(&header, &journal, &tally, complete)?;
    // What follows needs the values no more, and memory of its own.
    drop(tally);
    run.warnings.splice(0..0, warnings);
    if let Ended::Sick(sick) = &ended {
        terminal::note(plain(&format!("the sweep stopped: {}", sick.what)));
        run.warnings.insert(0, plain(&format!("{}; the sweep stopped there. {}", sick.what, sick.help)));
    }
    document::write(&folder, &run, &journal)?;
    super::report::page(&folder, &run, &journal)?;
    Ok(Measured { folder, run, ended, unchanged, agents: setup.hosts.others.clone() })
}

/// Whether every planned visit was made; without a number of rounds the time is the plan.
fn is_complete(plan: &Plan, ended: &Ended, tally: &Tally) -> bool {
    match ended {
        Ended::Interrupted | Ended::Sick(_) => false,
        Ended::TimeLimit => plan.rounds == Rounds::Auto || tally.has_planned_rounds(plan),
        Ended::Complete | Ended::LastLook | Ended::NothingToCompare => true,
    }
}

/// Makes the visits, and when that is asked for tries the pairs of sets that failed.
fn make(sweep: &mut Sweep, isolate: bool, live: &mut Live) -> Result<Ended> {
    let ended = sweep.run(live)?;
    let goes_on = isolate && !matches!(ended, Ended::Interrupted | Ended::Sick(_));
    if goes_on && sweep.plan.devices.len() < FEWEST {
        terminal::note(format!("warning: --isolate tells nothing with fewer than {FEWEST} GPUs"));
    }
    let cut_short = if goes_on { sweep.isolate(live)? } else { None };
    Ok(cut_short.unwrap_or(ended))
}

/// Measures what an all-reduce costs at least, once a run and on a box that is well.
fn look_for_floor(
    plan: &Plan,
    setup: &Setup,
    private: &Private,
    journal: &mut Journal,
    ended: &Ended,
    asked: &dyn Fn() -> bool,
) -> Result<()> {
    let known = journal.floor().is_some_and(|floor| floor.failed.is_none());
    if known || matches!(ended, Ended::Interrupted | Ended::Sick(_)) {
        return Ok(());
    }
    match floor::measure(plan, setup, private, journal, asked)? {
        Some(floor) => journal.append_floor(floor),
        None => Ok(()),
    }
}

/// Prints the results.
fn show(args: &Args, stored: &Stored, step: Option<&Step>, out: &mut impl Write) -> Result<()> {
    let (run, folder) = (&stored.run, Path::new(&stored.place));
    match args.format {
        // The document itself: the run in memory has no replicates.
        Format::Json => {
            let path = folder.join(document::FILE);
            let unread = |error| Error::new(Kind::Incomplete, format!("cannot read {}", path.display())).because(error);
            let mut document = std::fs::File::open(&path).map_err(unread)?;
            std::io::copy(&mut document, out).map_err(unwritten)?;
        }
        format => report::write(std::slice::from_ref(stored), format, terminal::style(), out)?,
    }
    if args.why && args.format == Format::Table {
        write!(out, "\n{}", report::why::render(run, terminal::style())).map_err(unwritten)?;
    }
    if args.format == Format::Table {
        super::cost::write(run, args.cost.timings, out).map_err(unwritten)?;
    }
    if let (Some(step), Format::Table) = (step, args.format) {
        write!(out, "\n{}", report::impact::render(run, step, terminal::style())).map_err(unwritten)?;
    }
    Ok(())
}

/// A run ready for its next visit.
struct Begun {
    folder: PathBuf,
    setup: Setup,
    journal: Journal,
    header: Header,
    warnings: Vec<String>,
}

/// A new run: everything is checked before its folder is made.
fn begin(
    args: &Args,
    draft: Draft,
    private: &Private,
    fit: &dyn Fn(&Header) -> Result<()>,
    asked: &dyn Fn() -> bool,
) -> Result<Begun> {
    let place = args.hosts.place()?;
    let draft = match &place {
        Some(place) => hosts::share(draft, place, args.emulation.emulate.is_some())?,
        None => draft,
    };
    let bench = Bench::find(&wanted(args), private, asked)?;
    let plan = draft.plan(&bench.gpus, bench.libraries())?;
    bench.check_types(&plan)?;
    if !args.allow_busy {
        bench.check_idle(&plan.devices)?;
    }
    let mut setup = bench.setup(deadlines(args));
    let mut warnings = settings::check(args, &plan, bench.nvlink(&plan))?;
    warnings.extend(ranks::warnings(&plan, bench.serves_many(&plan.devices)));
    warnings.extend(unbound(&plan, &setup));
    let mut header = bench.header(plan);
    if let Some(place) = &place {
        warnings.extend(hosts::gather(args, place, &mut header, &mut setup, asked)?);
    }
    fit(&header)?;
    let folder = folder::of_run(args.out.as_deref(), &header, args.redact)?;
    let journal = Journal::create(&folder, &header)?;
    Ok(Begun { folder, setup, journal, header, warnings })
}

/// The run in `folder`, continued with its own plan on the same bench.
fn resume(
    folder: &Path,
    args: &Args,
    private: &Private,
    fit: &dyn Fn(&Header) -> Result<()>,
    asked: &dyn Fn() -> bool,
) -> Result<Begun> {
    let reopened = Journal::reopen(folder)?;
    if let Some(repaired) = &reopened.repaired {
        terminal::note(repaired);
    }
    let header = reopened.header;
    hosts::refuse_continued(folder, &header)?;
    fit(&header)?;
    let deadlines = deadlines(args);
    let wanted = Wanted {
        deadlines,
        emulate: header.provenance.emulated.clone(),
        nccl: header.plan.libraries.iter().map(|library| PathBuf::from(&library.path)).collect(),
        load: false,
    };
    let bench = Bench::find(&wanted, private, asked)?;
    bench.check_same(&header)?;
    if !args.allow_busy {
        bench.check_idle(&header.plan.devices)?;
    }
    let setup = bench.setup(deadlines);
    let mut warnings = settings::check(args, &header.plan, bench.nvlink(&header.plan))?;
    warnings.extend(ranks::warnings(&header.plan, bench.serves_many(&header.plan.devices)));
    Ok(Begun { folder: folder.to_owned(), setup, journal: reopened.journal, header, warnings })
}

/// What a new run needs of the box.
pub(super) fn wanted(args: &Args) -> Wanted {
    let emulate = args.emulation.emulate.clone();
    Wanted { emulate, nccl: args.nccl.clone(), deadlines: deadlines(args), load: false }
}

pub(super) fn deadlines(args: &Args) -> Deadlines {
    args.deadline.map_or_else(Deadlines::default, Deadlines::all)
}

/// Says which ranks cannot be bound to CPUs as asked.
fn unbound(plan: &Plan, setup: &Setup) -> Option<String> {
    if plan.cpu_affinity.is_none() {
        return None;
    }
    let possible = |cpus: &Option<CpuList>| cpus.as_ref().is_some_and(|cpus| cpus.iter().any(provenance::may_use));
    let ranks = setup.cpus(plan);
    let unbound: Vec<String> =
        (0..).zip(&ranks).filter(|(_, cpus)| !possible(cpus)).map(|(rank, _): (u32, _)| rank.to_string()).collect();
    (!unbound.is_empty()).then(|| {
        format!(
            "--cpu-affinity {}: not bound are ranks {}: their CPUs are not known, or not this process's",
            plan.cpu_affinity,
            unbound.join(", ")
        )
    })
}

/// The exit code: the first that holds, from the top.
fn exit(run: &Run, ended: &Ended) -> Exit {
    let expected = |set: &String| run.header.plan.expect.contains(set);
    let cells = || run.cells.iter();
    match () {
        () if *ended == Ended::Interrupted => Exit::Interrupted,
        () if matches!(ended, Ended::Sick(_)) => Exit::Incomplete,
        () if cells().any(|cell| cell.verdict == Verdict::Invalid) => Exit::Incomplete,
        () if cells()
            .any(|cell| expected(&cell.set) && (cell.verdict == Verdict::Slower || cell.applied.is_lost())) =>
        {
            Exit::Failed
        }
        () if run.header.plan.soak_s.is_some() => Exit::Held,
        () if cells().any(|cell| cell.verdict == Verdict::Undecided) => Exit::Undecided,
        () => Exit::Held,
    }
}
