//! `ncclsweep doctor`: a look at what surrounds a measurement.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;

use super::answer::answer;
use super::args::Emulate;
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::terminal;
use crate::doctor::log::Meaning;
use crate::doctor::{self, Checkup, Details, Status, conf, machine, process};
use crate::error::{Error, Kind, Result};
use crate::nccl::version::NcclVersion;
use crate::record::redact::Redactor;
use crate::record::visit::Diagnosis;
use crate::report;
use crate::supervisor::deadlines::Deadlines;
use crate::supervisor::private::Private;
use crate::supervisor::visit::Emulation;
use crate::supervisor::{diagnose, emulator, library, prepare, provenance, python, wiring};
use crate::wire::Probe;

/// What to look at: this machine, when nothing else is named.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Lint NCCL's configuration: this file [default: those that NCCL reads here]
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["pid", "pattern", "log", "python", "emulate"])]
    conf: Option<Option<PathBuf>>,
    /// A running process and its descendants: which NCCL, which variables, how they differ
    #[arg(long, value_name = "N", conflicts_with_all = ["log", "python", "emulate"])]
    pid: Option<u32>,
    /// Processes whose command holds NAME, and their descendants; with --pid, of its descendants those alone
    #[arg(long = "match", value_name = "NAME", conflicts_with_all = ["log", "python", "emulate"])]
    pattern: Option<String>,
    /// A server's log: variables, transports, choices, warnings and what they mean (`-`: stdin)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["python", "emulate"])]
    log: Option<PathBuf>,
    /// A Python environment: what it runs at its start, which NCCL it and a spawned child load
    #[arg(long, value_name = "PATH", conflicts_with = "emulate")]
    python: Option<PathBuf>,
    /// The library by whose rules to read: a file, its folder, or a version [default: the one the loader finds]
    #[arg(long, value_name = "PATH|VERSION", conflicts_with_all = ["pid", "pattern", "log", "python", "emulate"])]
    nccl: Option<String>,
    /// Another box than this machine.
    #[command(flatten)]
    emulation: Emulate,
    /// Look at the GPUs' links while data moves, too
    #[arg(long, conflicts_with_all = ["conf", "pid", "pattern", "log", "python"])]
    load: bool,
    /// Replace host name, ids and paths in what is printed
    #[arg(long)]
    redact: bool,
    /// What to print: table, json
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = super::args::read::<report::Form>)]
    format: report::Form,
}

/// Runs the command.
pub fn run(args: &Doctor) -> Result<Exit> {
    let version = |path: &Path| library::version_in_file(path);
    let checkup = match (&args.conf, &args.log, &args.python) {
        (Some(file), ..) => of_conf(args, file.as_deref())?,
        (_, Some(file), _) => of_log(file)?,
        (.., Some(path)) => of_python(path)?,
        _ if args.pid.is_some() || args.pattern.is_some() => {
            let request = process::Request { pid: args.pid, pattern: args.pattern.as_deref() };
            process::look(Path::new("/"), &request, &version)?
        }
        _ => machine::look(Path::new("/"), of_machine(args)?),
    };
    let redactor = args.redact.then(|| redactor(&checkup));
    answer(exit(&checkup), |out| {
        report::doctor::write(&checkup, args.format, terminal::style(), redactor.as_ref(), out)
    })
}

/// Knows the names of this host and of those that a log is from.
fn redactor(checkup: &Checkup) -> Redactor {
    let mut redactor = Redactor::default();
    redactor.learn_host(&provenance::host());
    if let Details::Log(facts) = &checkup.details {
        facts.processes.iter().for_each(|process| redactor.learn_host(&process.host));
    }
    redactor
}

fn exit(checkup: &Checkup) -> Exit {
    match () {
        () if checkup.saw_no_gpu() => Exit::Environment,
        () if checkup.count(Status::Fault) > 0 => Exit::Failed,
        () => Exit::Held,
    }
}

/// The libraries that are installed, or the one that `--nccl` names.
fn libraries(nccl: Option<&str>) -> Result<Vec<machine::Library>> {
    let found = match nccl {
        Some(path) => library::named(&[PathBuf::from(path)])?,
        None => library::installed(|name| std::env::var(name).ok()),
    };
    let shown = |found: library::Found| machine::Library {
        version: library::version_in_file(&found.path),
        path: found.path.display().to_string(),
        by: found.by,
    };
    Ok(found.into_iter().map(shown).collect())
}

/// The version to go by: of the library named or found, or the version itself.
fn version(nccl: Option<&str>) -> Result<Option<NcclVersion>> {
    match nccl {
        Some(text) if !Path::new(text).exists() && text.starts_with(|c: char| c.is_ascii_digit()) => {
            text.parse().map(Some)
        }
        nccl => Ok(libraries(nccl)?.first().and_then(|library| library.version)),
    }
}

fn passwd_home() -> Option<PathBuf> {
    nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|user| user.dir)
}

fn of_conf(args: &Doctor, file: Option<&Path>) -> Result<Checkup> {
    let environment: Vec<_> = provenance::environment().collect();
    let home = passwd_home();
    conf::look(&conf::Request {
        file,
        version: version(args.nccl.as_deref())?,
        environment: &environment,
        passwd: home.as_deref(),
    })
}

fn of_log(path: &Path) -> Result<Checkup> {
    let (name, input): (String, Box<dyn Read>) = if path == Path::new("-") {
        ("stdin".to_owned(), Box::new(std::io::stdin().lock()))
    } else {
        let file = File::open(path)
            .map_err(|error| Error::usage(format!("cannot open the log {}", path.display())).because(error))?;
        if path.is_dir() {
            return Err(Error::usage(format!("the log {} is a folder", path.display())).help("name a file in it"));
        }
        (path.display().to_string(), Box::new(file))
    };
    let known = |line: &str| {
        let (Diagnosis { sign, meaning, next }, mild) = diagnose::of_line(line)?;
        Some(Meaning { sign, meaning, next, mild })
    };
    Ok(doctor::log::look(&name, input, &known))
}

fn of_python(path: &Path) -> Result<Checkup> {
    let interrupt = Interrupt::install()?;
    let interpreter = python::interpreter(path)?;
    let answer = python::ask(&interpreter, &|| interrupt.asked())?;
    let environment: Vec<_> = provenance::environment().collect();
    Ok(doctor::python::look(answer, &environment, &|path| library::version_in_file(path)))
}

/// What a probe process, the kernel and the discovery of libraries tell of this machine, or of an emulated box.
fn of_machine(args: &Doctor) -> Result<machine::Facts> {
    if let Some(name) = &args.emulation.emulate {
        emulator::known_box(name)?;
    }
    let emulated = args.emulation.emulate.is_some();
    let libraries = libraries(args.nccl.as_deref())?;
    let private = Private::create()?;
    let root = wiring::root(&private, emulated);
    let mut facts = machine::Facts {
        places: library::places(|name| std::env::var(name).ok()),
        environment: provenance::environment().collect(),
        home: passwd_home(),
        emulated: args.emulation.emulate.clone(),
        ..machine::Facts::default()
    };
    match probe(args, &libraries, &private) {
        Ok(probe) => {
            facts.topology = Some(wiring::topology(&root, &probe));
            take(&mut facts, probe);
        }
        Err(error) if error.kind() == Kind::Interrupted => return Err(error),
        Err(error) => {
            facts.topology = Some(wiring::kernel(&root));
            facts.cuda = machine::Answer::Refused(error.to_string());
            facts.management = machine::Answer::Refused(error.to_string());
        }
    }
    facts.libraries = libraries;
    Ok(facts)
}

/// What the driver said.
fn take(facts: &mut machine::Facts, probe: Probe) {
    let loads = probe.loads.into_iter().chain(std::iter::repeat(None));
    let gpu =
        |(gpu, load): (crate::gpu::cuda::Device, Option<u32>)| machine::Gpu { name: gpu.name, pci: gpu.pci, load };
    let cuda = probe
        .cuda
        .map(|(version, gpus)| machine::Cuda { version, gpus: gpus.into_iter().zip(loads).map(gpu).collect() });
    let management = probe.management.map(|(driver, processes)| machine::Management {
        driver,
        processes: processes.into_iter().map(|process| (process.pid, process.name)).collect(),
    });
    facts.cuda = cuda.map_err(|error| error.to_string()).into();
    facts.management = management.map_err(|error| error.to_string()).into();
}

/// Asks the driver in a process of its own, which may die of it.
fn probe(args: &Doctor, libraries: &[machine::Library], private: &Private) -> Result<Probe> {
    let interrupt = Interrupt::install()?;
    let inherited: Vec<_> = provenance::environment().collect();
    let emulation = args.emulation.emulate.clone().map(|topology| Emulation { topology });
    let folder = match libraries.first() {
        _ if emulation.is_some() => private.library_folder(0, &emulator::find()?, true)?,
        Some(library) => private.library_folder(0, Path::new(&library.path), false)?,
        None => private.file("no-library"),
    };
    let limit = Deadlines::default().setup;
    prepare::probe(&inherited, &folder, emulation.as_ref(), limit, private, args.load, &|| interrupt.asked())
}
