//! The bench: GPUs and libraries that a run will use, as a probe process sees them.

use std::path::{Path, PathBuf};

use super::agents::Hosts;
use super::emulator;
use super::health::Before;
use super::library::{self, Found};
use super::prepare::probe;
use super::private::Private;
use super::provenance;
use super::visit::{Deadlines, Emulation, Setup};
use super::wiring;
use crate::collective::Case;
use crate::error::{Error, Kind, Result};
use crate::gpu::GpuError;
use crate::gpu::cuda::Device;
use crate::gpu::nvml::Process;
use crate::nccl::version::NcclVersion;
use crate::plan::schedule::{Arm, Library, Plan};
use crate::record::redact;
use crate::record::run::{Backend, ConfFile, Header, LibraryFacts, Provenance, SCHEMA};
use crate::topology::{CpuList, Topology};
use crate::wire::Probe;

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Name of an emulated box; none for the real one.
    pub emulate: Option<String>,
    /// Files or folders of libraries; none for the one the loader finds.
    pub nccl: Vec<PathBuf>,
    /// How long each phase may take.
    pub deadlines: Deadlines,
    /// Look at the links while data moves, too.
    pub load: bool,
}

/// GPUs and libraries, each library tried once.
#[derive(Debug)]
pub struct Bench {
    taken: Vec<Taken>,
    others: Vec<LibraryFacts>,
    /// GPUs by CUDA ordinal.
    pub gpus: Vec<Device>,
    /// How all GPUs of the box are wired, with CUDA's numbers of those above.
    pub topology: Topology,
    cuda: String,
    driver: Option<String>,
    processes: Vec<Process>,
    loads: Vec<Option<u32>>,
    emulation: Option<Emulation>,
}

#[derive(Debug)]
struct Taken {
    found: Found,
    version: NcclVersion,
    folder: PathBuf,
}

impl Bench {
    /// Finds what is wanted and looks at it through a probe process for each library.
    pub fn find(wanted: &Wanted, private: &Private, interrupted: &dyn Fn() -> bool) -> Result<Self> {
        let emulation = wanted.emulate.as_deref().map(emulation).transpose()?;
        let (chosen, others) = choose(wanted)?;
        let inherited: Vec<_> = provenance::environment().collect();
        let mut taken = Vec::new();
        let mut seen: Option<Probe> = None;
        for (index, found) in chosen.into_iter().enumerate() {
            let folder = private.library_folder(index, &found.path, emulation.is_some())?;
            let limit = wanted.deadlines.setup;
            let probe = probe(&inherited, &folder, emulation.as_ref(), limit, private, wanted.load, interrupted)?;
            let (version, loaded) = probe.nccl.clone().map_err(|error| unusable(&found, error))?;
            check_loaded(&found, loaded.as_deref())?;
            taken.push(Taken { found, version, folder });
            seen.get_or_insert(probe);
        }
        let probe = seen.expect("at least one library was chosen");
        let topology = wiring::topology(&wiring::root(private, emulation.is_some()), &probe);
        let loads = probe.loads;
        let (cuda, gpus) = probe.cuda.map_err(no_driver)?;
        let (driver, processes) = probe.management.map_or((None, Vec::new()), |(driver, all)| (Some(driver), all));
        let others = others.iter().map(|other| facts(other, None)).collect();
        Ok(Self { taken, others, gpus, topology, cuda, driver, processes, loads, emulation })
    }

    /// The libraries in the order they were asked for.
    #[must_use]
    pub fn libraries(&self) -> Vec<Library> {
        let library = |taken: &Taken| Library { path: taken.found.path.display().to_string(), version: taken.version };
        self.taken.iter().map(library).collect()
    }

    /// Other processes on these GPUs, by CUDA's numbers.
    #[must_use]
    pub fn busy(&self, devices: &[u32]) -> Vec<Process> {
        let ours: Vec<&str> = devices.iter().map(|ordinal| self.gpus[*ordinal as usize].uuid.as_str()).collect();
        self.processes.iter().filter(|process| ours.contains(&process.gpu.as_str())).cloned().collect()
    }

    /// Whether processes share these GPUs, by CUDA's numbers, through MPS: its server is then on them, started by our own look.
    #[must_use]
    pub fn serves_many(&self, devices: &[u32]) -> bool {
        self.busy(devices).iter().any(is_mps)
    }

    /// Fails when other processes use these GPUs, by CUDA's numbers.
    pub fn check_idle(&self, devices: &[u32]) -> Result<()> {
        let busy = self.busy(devices);
        if busy.is_empty() {
            return Ok(());
        }
        if busy.iter().all(is_mps) {
            let message = "the GPUs are shared through MPS, which does not tell who else uses them";
            return Err(Error::new(Kind::Environment, message)
                .help("end MPS, or measure with --allow-busy when nothing else runs: the results will say so"));
        }
        let name = |process: &Process| match &process.name {
            Some(name) => format!("{} ({name})", process.pid),
            None => format!("{} (not visible from here)", process.pid),
        };
        let mut named: Vec<String> = busy.iter().map(name).collect();
        named.dedup();
        let message = format!("the GPUs are in use by process {}", named.join(", "));
        Err(Error::new(Kind::Environment, message)
            .help("end it, or measure beside it with --allow-busy: the results will say so"))
    }

    /// Fails when NCCL reduces a data type of `plan` on newer GPUs only: every visit would.
    pub fn check_types(&self, plan: &Plan) -> Result<()> {
        let of = |ordinal: &u32| self.topology.gpus.iter().find(|gpu| gpu.ordinal == Some(*ordinal));
        let capabilities = plan.devices.iter().filter_map(|ordinal| {
            let capability = of(ordinal)?.driver.as_ref()?.capability.as_ref()?;
            let (major, minor) = capability.split_once('.')?;
            Some((*ordinal, (major.parse().ok()?, minor.parse().ok()?)))
        });
        for (ordinal, has) in capabilities {
            let lacks = |case: &&Case| case.dtype.min_capability().is_some_and(|needed: (u32, u32)| has < needed);
            let Some(case) = plan.cases.iter().find(lacks) else { continue };
            let needed = case.dtype.min_capability().unwrap_or(has);
            let message = format!(
                "NCCL reduces {} from compute capability {}.{} on; GPU {ordinal} has {}.{}",
                case.dtype, needed.0, needed.1, has.0, has.1
            );
            return Err(Error::new(Kind::Environment, message).help("another --dtype, as the default bf16"));
        }
        Ok(())
    }

    /// Whether NVLink joins every two GPUs of `plan`; nothing where the driver does not tell.
    #[must_use]
    pub fn nvlink(&self, plan: &Plan) -> Option<bool> {
        let at = |ordinal: &u32| self.topology.gpus.iter().position(|gpu| gpu.ordinal == Some(*ordinal));
        let gpus: Vec<usize> = plan.devices.iter().map(at).collect::<Option<_>>()?;
        self.topology.all_nvlink(&gpus)
    }

    /// What workers need.
    #[must_use]
    pub fn setup(&self, deadlines: Deadlines) -> Setup {
        Setup {
            inherited: provenance::environment().collect(),
            library_folders: self.taken.iter().map(|taken| taken.folder.clone()).collect(),
            emulation: self.emulation.clone(),
            deadlines,
            before: Before::of(self, &self.loads),
            near: self.near(),
            hosts: Hosts::default(),
        }
    }

    /// CPUs near each GPU that CUDA shows, where they are known.
    fn near(&self) -> Vec<(u32, CpuList)> {
        let gpus = self.topology.gpus.iter();
        gpus.filter_map(|gpu| Some((gpu.ordinal?, gpu.cpus.as_ref()?.parse().ok()?))).collect()
    }

    /// The header of a new run of `plan`.
    #[must_use]
    pub fn header(&self, plan: Plan) -> Header {
        let provenance = Provenance {
            host: provenance::host(),
            kernel: provenance::kernel(),
            cpu: provenance::cpu(),
            cpus: provenance::cpus(),
            driver: self.driver.clone(),
            cuda: self.cuda.clone(),
            gpus: plan.devices.iter().map(|ordinal| self.gpus[*ordinal as usize].clone()).collect(),
            busy: self.busy(&plan.devices),
            libraries: self.taken.iter().map(|taken| facts(&taken.found, Some(taken.version))).collect(),
            other_libraries: self.others.clone(),
            inherited: provenance::inherited(),
            conf_files: self.conf_files(&plan),
            arguments: std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            emulated: self.emulation.as_ref().map(|emulation| emulation.topology.clone()),
            imported: None,
            visible_devices: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
            topology: Some(self.topology.clone().with_ranks(&plan.devices, plan.ranks)),
            others: Vec::new(),
        };
        let backend = if self.emulation.is_some() { Backend::Emulated } else { Backend::Cuda };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Header { schema: SCHEMA, version, backend, created: jiff::Timestamp::now(), provenance, plan }
    }

    /// NCCL's configuration files, as the workers of this plan read them.
    fn conf_files(&self, plan: &Plan) -> Vec<ConfFile> {
        let setup = self.setup(Deadlines::default());
        let environment = |arm: Arm| (arm, plan.libraries[arm.library].version, setup.environment(plan, arm));
        let arms: Vec<_> = plan.arms().map(environment).collect();
        provenance::conf_files(arms.iter().map(|(arm, version, environment)| (*arm, *version, environment)))
    }

    /// Refuses to continue a run on a bench that is not the one it was begun on.
    pub fn check_same(&self, header: &Header) -> Result<()> {
        let before = &header.provenance;
        if redact::is_redacted(header) {
            return Err(Error::usage(
                "cannot continue the run: it is redacted, so that nothing tells whether it was made here",
            )
            .help("`ncclsweep report` shows it; begin a new one"));
        }
        let gpus: Vec<_> = header.plan.devices.iter().map(|ordinal| self.gpus.get(*ordinal as usize)).collect();
        let changed = match () {
            () if header.version != env!("CARGO_PKG_VERSION") => "ncclsweep's own version",
            () if gpus != before.gpus.iter().map(Some).collect::<Vec<_>>() => "the GPUs",
            () if self.driver != before.driver => "the driver",
            () if self.libraries() != header.plan.libraries => "the NCCL library",
            () if provenance::inherited() != before.inherited && !header.plan.clean_env => {
                "the inherited NCCL_* variables"
            }
            () => return Ok(()),
        };
        Err(Error::usage(format!("cannot continue the run: {changed} changed since it was begun"))
            .help("what was measured before and after would not be one run; begin a new one"))
    }
}

/// The libraries to take, and those that were only seen. Looks at files, starts nothing.
pub fn choose(wanted: &Wanted) -> Result<(Vec<Found>, Vec<Found>)> {
    let variable = |name: &str| std::env::var(name).ok();
    let installed = library::installed(variable);
    let chosen = match &wanted.emulate {
        Some(_) => vec![Found { path: emulator::find()?, by: "--emulate".to_owned() }],
        None if !wanted.nccl.is_empty() => library::named(&wanted.nccl)?,
        None => installed.iter().take(1).cloned().collect(),
    };
    if chosen.is_empty() {
        let places = library::places(variable);
        return Err(Error::new(Kind::Environment, "no NCCL library was found")
            .help(format!("name one with --nccl PATH, or rehearse with --emulate; looked in {places}")));
    }
    let others = installed.into_iter().filter(|other| !chosen.iter().any(|taken| taken.path == other.path));
    Ok((chosen.clone(), others.collect()))
}

fn emulation(name: &str) -> Result<Emulation> {
    emulator::known_box(name)?;
    Ok(Emulation { topology: name.to_owned() })
}

/// Whether a process is the server of CUDA's Multi-Process Service, by its name as the kernel cuts it off.
fn is_mps(process: &Process) -> bool {
    process.name.as_deref().is_some_and(|name| name.starts_with("nvidia-cuda-mps"))
}

/// Fails when the loader took another file: it passes over one that is not for this machine, without a word.
fn check_loaded(found: &Found, loaded: Option<&str>) -> Result<()> {
    let Some(loaded) = loaded.map(Path::new) else { return Ok(()) };
    if loaded.canonicalize().is_ok_and(|loaded| loaded == found.path) {
        return Ok(());
    }
    let message = format!("the NCCL library {} cannot be used", found.path.display());
    let other = format!("the loader took {} instead: the file is not for this machine, or damaged", loaded.display());
    Err(Error::new(Kind::Environment, message).because(other).help("name another with --nccl PATH"))
}

fn unusable(library: &Found, error: GpuError) -> Error {
    Error::new(Kind::Environment, format!("the NCCL library {} cannot be used", library.path.display()))
        .because(error)
        .help(format!("found by {}; name another with --nccl PATH", library.by))
}

fn no_driver(error: GpuError) -> Error {
    let fault = Error::new(Kind::Environment, "no usable GPU driver").because(error);
    if let Ok(visible) = std::env::var("CUDA_VISIBLE_DEVICES") {
        return fault.help(format!(
            "CUDA_VISIBLE_DEVICES=`{visible}` decides which GPUs a process sees: unset it, or name some that are there"
        ));
    }
    fault.help(
        "libcuda.so.1 comes with the NVIDIA driver (`nvidia-smi` tells whether it works); a container needs access to the \
         GPUs (--gpus all); `--emulate` rehearses without GPUs",
    )
}

fn facts(found: &Found, version: Option<NcclVersion>) -> LibraryFacts {
    LibraryFacts {
        path: found.path.display().to_string(),
        found_by: found.by.clone(),
        version: version.or_else(|| library::version_in_file(&found.path)),
        build_id: library::build_id(&found.path),
    }
}
