//! `ncclsweep sweep`: measures env sets against the defaults.

use std::path::{Path, PathBuf};

use super::args::Sweep as Args;
use super::draft::Draft;
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::progress::Live;
use crate::error::{Error, Kind, Result};
use crate::plan::schedule::{Library, Plan};
use crate::record::document;
use crate::record::journal::Journal;
use crate::record::run::{Applied, Backend, Header, LibraryFacts, Provenance, Run, SCHEMA, Verdict};
use crate::record::summary::Tally;
use crate::report;
use crate::supervisor::library::{self, Found};
use crate::supervisor::prepare::probe;
use crate::supervisor::private::Private;
use crate::supervisor::sweep::{Ended, Sweep};
use crate::supervisor::visit::{Deadlines, Emulation, Setup};
use crate::supervisor::{emulator, provenance};
use crate::wire::Probe;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let draft = Draft::new(args)?;
    let interrupt = Interrupt::install()?;
    let asked = || interrupt.asked();
    let private = Private::create()?;
    let bench = Bench::find(args, &private, &asked)?;
    let plan = draft.plan(&bench.gpus, bench.libraries())?;
    bench.check_busy(args, &plan)?;
    let setup = bench.setup(args);
    let (folder, mut journal, header) = start(args, plan, &bench)?;
    let plan = &header.plan;
    let mut tally = Tally::of(&journal)?;
    let mut live = Live::new(plan, args.quiet);
    let mut sweep =
        Sweep { plan, setup: &setup, private: &private, journal: &mut journal, tally: &mut tally, interrupted: &asked };
    let ended = sweep.run(&mut live);
    live.finish();
    let ended = ended?;
    let run = document::make(&header, &journal, &tally, ended != Ended::Interrupted)?;
    document::write(&folder, &run, &journal)?;
    report::write(&run, args.format, style(), &mut std::io::stdout().lock())
        .map_err(|error| Error::new(Kind::Incomplete, "cannot write the report to stdout").because(error))?;
    if !args.quiet {
        eprintln!("results in {}", folder.display());
    }
    Ok(exit(&run, ended))
}

/// Libraries and GPUs as the probe sees them.
struct Bench {
    found: Vec<(Found, Library)>,
    others: Vec<LibraryFacts>,
    folders: Vec<PathBuf>,
    gpus: Vec<crate::gpu::cuda::Device>,
    probe: Probe,
    emulation: Option<Emulation>,
}

impl Bench {
    fn find(args: &Args, private: &Private, asked: &dyn Fn() -> bool) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let emulation = args.emulate.as_ref().map(|name| emulation(name)).transpose()?;
        let installed = library::installed(variable);
        let chosen = match &emulation {
            Some(emulation) => vec![Found { path: emulation.library.clone(), by: "--emulate".to_owned() }],
            None if !args.nccl.is_empty() => library::named(&args.nccl)?,
            None => installed.iter().take(1).cloned().collect(),
        };
        if chosen.is_empty() {
            return Err(Error::new(Kind::Environment, "no NCCL library was found").help(format!(
                "looked in {}; name one with --nccl PATH, or rehearse with --emulate",
                library::places(variable)
            )));
        }
        let inherited: Vec<_> = provenance::environment().collect();
        let mut folders = Vec::new();
        let mut found = Vec::new();
        let mut first = None;
        for (index, library) in chosen.into_iter().enumerate() {
            let folder = private.library_folder(index, &library.path, emulation.is_some())?;
            let probe = probe(&inherited, Some(&folder), emulation.as_ref(), private, asked)?;
            let version = probe.nccl.clone().map_err(|error| unusable(&library, &error))?.0;
            found.push((library.clone(), Library { path: library.path.display().to_string(), version }));
            folders.push(folder);
            first.get_or_insert(probe);
        }
        let probe = first.expect("at least one library was chosen");
        let (_, gpus) = probe.cuda.clone().map_err(|error| {
            Error::new(Kind::Environment, "no usable GPU driver").because(error).help(
                "the driver's libcuda.so.1 comes with the NVIDIA driver; in a container, start it with GPU access \
                 (e.g. --gpus all); `--emulate` rehearses without GPUs",
            )
        })?;
        let others = installed.into_iter().filter(|other| !found.iter().any(|(taken, _)| taken.path == other.path));
        Ok(Self { others: others.map(|other| facts(&other, None)).collect(), found, folders, gpus, probe, emulation })
    }

    fn libraries(&self) -> Vec<Library> {
        self.found.iter().map(|(_, library)| library.clone()).collect()
    }

    fn setup(&self, args: &Args) -> Setup {
        let mut deadlines = Deadlines::default();
        if let Some(deadline) = args.deadline {
            deadlines = Deadlines { setup: deadline, phase: deadline };
        }
        Setup {
            inherited: provenance::environment().collect(),
            library_folders: self.folders.clone(),
            emulation: self.emulation.clone(),
            deadlines,
        }
    }

    fn busy(&self, plan: &Plan) -> Vec<crate::gpu::nvml::Process> {
        let ours: Vec<&str> = plan.devices.iter().map(|ordinal| self.gpus[*ordinal as usize].uuid.as_str()).collect();
        let processes = self.probe.management.iter().flat_map(|(_, processes)| processes);
        processes.filter(|process| ours.contains(&process.gpu.as_str())).cloned().collect()
    }

    fn check_busy(&self, args: &Args, plan: &Plan) -> Result<()> {
        let busy = self.busy(plan);
        if busy.is_empty() || args.allow_busy {
            return Ok(());
        }
        let named: Vec<String> = busy
            .iter()
            .map(|process| format!("{} ({})", process.pid, process.name.as_deref().unwrap_or("name not visible here")))
            .collect();
        Err(Error::new(Kind::Environment, format!("the GPUs are in use by process {}", named.join(", ")))
            .help("end them, or measure beside them with --allow-busy: the results will say so"))
    }

    fn header(&self, plan: Plan) -> Header {
        let backend = if self.emulation.is_some() { Backend::Emulated } else { Backend::Cuda };
        let provenance = Provenance {
            host: provenance::host(),
            kernel: provenance::kernel(),
            cpu: provenance::cpu(),
            cpus: provenance::cpus(),
            driver: self.probe.management.as_ref().ok().map(|(driver, _)| driver.clone()),
            cuda: self.probe.cuda.as_ref().map(|(cuda, _)| cuda.clone()).unwrap_or_default(),
            gpus: plan.devices.iter().map(|ordinal| self.gpus[*ordinal as usize].clone()).collect(),
            busy: self.busy(&plan),
            libraries: self.found.iter().map(|(found, library)| facts(found, Some(library))).collect(),
            other_libraries: self.others.clone(),
            inherited: provenance::inherited(),
            conf_files: provenance::conf_files(|name| std::env::var(name).ok()),
            arguments: std::env::args().collect(),
            emulated: self.emulation.as_ref().map(|emulation| emulation.topology.clone()),
        };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Header { schema: SCHEMA, version, backend, created: jiff::Timestamp::now(), provenance, plan }
    }
}

fn emulation(name: &str) -> Result<Emulation> {
    emulator::known_box(name)?;
    Ok(Emulation { library: emulator::find()?, topology: name.to_owned() })
}

fn unusable(library: &Found, error: &crate::gpu::GpuError) -> Error {
    Error::new(Kind::Environment, format!("the NCCL library {} cannot be used", library.path.display()))
        .because(error.clone())
        .help(format!("found by {}; name another with --nccl PATH", library.by))
}

fn facts(found: &Found, library: Option<&Library>) -> LibraryFacts {
    LibraryFacts {
        path: found.path.display().to_string(),
        found_by: found.by.clone(),
        version: library
            .map(|library| library.version)
            .or_else(|| crate::nccl::version::NcclVersion::find(&found.path.file_name()?.to_string_lossy())),
        build_id: library::build_id(&found.path),
    }
}

/// The folder and journal of a new run, or of the one to be continued.
fn start(args: &Args, plan: Plan, bench: &Bench) -> Result<(PathBuf, Journal, Header)> {
    let header = bench.header(plan);
    let folder = args.out.clone().unwrap_or_else(|| default_folder(&header));
    std::fs::create_dir_all(&folder)
        .map_err(|error| Error::usage(format!("cannot make the folder {}", folder.display())).because(error))?;
    let journal = Journal::create(&folder, &header)?;
    Ok((folder, journal, header))
}

fn default_folder(header: &Header) -> PathBuf {
    let time = header.created.strftime("%Y%m%dT%H%M%SZ").to_string();
    let gpus = header.provenance.gpus.first().map_or("gpu", |gpu| gpu.name.as_str());
    let gpus: String = gpus.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let name = format!("{time}-{}-{}x{gpus}", header.provenance.host, header.plan.devices.len());
    Path::new("results").join(name)
}

fn style() -> report::Style {
    use std::io::IsTerminal;
    let terminal = std::io::stdout().is_terminal();
    let color = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    report::Style { width: width.unwrap_or(80), color, unicode: true }
}

/// The exit code: the first that holds, from the top.
fn exit(run: &Run, ended: Ended) -> Exit {
    let expected = |set: &String| run.header.plan.expect.contains(set);
    let cells = || run.cells.iter();
    match () {
        () if ended == Ended::Interrupted => Exit::Interrupted,
        () if cells().any(|cell| cell.verdict == Verdict::Invalid) => Exit::Incomplete,
        () if cells().any(|cell| {
            let lost = matches!(cell.applied, Applied::NotApplied | Applied::Partly | Applied::Overridden);
            expected(&cell.set) && (cell.verdict == Verdict::Slower || lost)
        }) =>
        {
            Exit::Failed
        }
        () if cells().any(|cell| cell.verdict == Verdict::Undecided) => Exit::Undecided,
        () => Exit::Held,
    }
}
