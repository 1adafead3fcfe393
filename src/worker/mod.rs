//! The worker: one process that measures one arm once, a thread per rank; or one of several processes that do, each with one
//! rank.
//!
//! It reads its [`Job`] from stdin, ends when its stdin does, and reports [`Event`]s over a pipe of its own. When a rank fails, the error goes out and
//! the whole process ends at once, without exit handlers: other ranks may be inside NCCL, where an orderly exit was seen to
//! end in SIGSEGV, and a rank that waits for the failed one would wait for ever.

mod affinity;
mod barrier;
mod buffers;
mod check;
mod data;
pub mod floor;
mod hosts;
pub mod probe;
mod rank;
mod shared;
mod team;
mod timing;
mod turns;
mod watchdog;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use crate::gpu::cuda::{self, Context, Device};
use crate::gpu::nvml::Management;
use crate::gpu::{GpuError, communicator};
use crate::nccl::is_variable;
use crate::plan::env_set::Vars;
use crate::record::visit::{Loading, WorkerFacts};
use crate::wire::{self, Event, Job, Received};
use shared::Shared;
use team::{Team, Wire};

/// Runs the job on stdin, reporting to the pipe at `fd`; ends the process.
pub fn run(fd: RawFd) -> ! {
    // SAFETY: the supervisor opened this descriptor for this process alone; nothing else in it knows the number.
    let wire = Wire::new(File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
    report_panics(&wire);
    let mut stdin = BufReader::new(std::io::stdin());
    let job = match receive_job(&mut stdin) {
        Ok(job) => job,
        Err(message) => wire.refuse(message),
    };
    let shared = match job.memory {
        None => Shared::here(&job),
        // SAFETY: as above; the job is the only place that names it.
        Some(fd) => match Shared::mapped(&job, unsafe { OwnedFd::from_raw_fd(fd) }) {
            Ok(shared) => shared,
            Err(error) => wire.end(&Event::WorkerError { message: format!("cannot map the ranks' memory: {error}") }),
        },
    };
    // SAFETY: as above.
    let links = job.links.iter().map(|fd| TcpStream::from(unsafe { OwnedFd::from_raw_fd(*fd) })).collect();
    let team = Arc::new(Team::new(wire.clone(), job, shared, links));
    watchdog::start(stdin, Arc::clone(&team));
    match measure(&team) {
        Ok(()) => wire.end(&Event::Done),
        Err(failed) => wire.end(&failed),
    }
}

/// A panic anywhere ends the process like any other failure; its message goes out on the wire.
fn report_panics(wire: &Wire) {
    let wire = wire.clone();
    std::panic::set_hook(Box::new(move |panic| wire.end(&Event::WorkerError { message: panic.to_string() })));
}

fn receive_job(stdin: &mut impl BufRead) -> Result<Job, String> {
    match wire::receive::<Job>(stdin) {
        Ok(Received::Message(job)) if job.version == wire::VERSION => Ok(job),
        Ok(Received::Message(job)) => Err(format!("the job speaks version {}, not {}", job.version, wire::VERSION)),
        Ok(Received::End) => Err("no job on stdin; workers are started by `ncclsweep` itself".to_owned()),
        Ok(Received::Garbage(what)) => Err(format!("the job on stdin is {what}")),
        Err(error) => Err(format!("cannot read the job from stdin: {error}")),
    }
}

fn measure(team: &Team) -> Result<(), Box<Event>> {
    let starting = |error: GpuError| Box::new(Event::Failed { at: team.at(None), error });
    let mut since = Instant::now();
    let mut lap = || std::mem::replace(&mut since, Instant::now()).elapsed().as_secs_f64();
    let (_, devices) = cuda::devices().map_err(starting)?;
    let devices = ranks_devices(&team.job, &devices)?;
    let driver = lap();
    let nccl = communicator::version().map_err(starting)?;
    let library = lap();
    let own = &team.job.devices[team.job.ranks.start as usize..team.job.ranks.end as usize];
    let contexts = contexts(own).map_err(starting)?;
    let loading = Loading { driver, library, contexts: lap() };
    let cpus: Vec<_> = team.job.cpus.iter().map(|wanted| affinity::possible(wanted.as_ref())).collect();
    let variables = std::env::vars().filter(|(name, _)| is_variable(name));
    team.wire.send(&Event::Hello {
        version: wire::VERSION,
        loading,
        facts: WorkerFacts {
            pid: std::process::id(),
            nccl,
            nccl_path: communicator::loaded_from(),
            variables: Vars::from_iter(variables),
            devices: devices.clone(),
            cpus: cpus.clone(),
            others: Vec::new(),
        },
    });
    let management = Management::load().ok();
    let report_gpus = || {
        let states = management.iter().flat_map(|m| devices.iter().map(|d| m.state(&d.uuid))).collect();
        team.wire.send(&Event::Gpus { states });
    };
    if team.job.ranks.start == team.job.host.start {
        report_gpus();
    }
    std::thread::scope(|scope| {
        let report_gpus = &report_gpus;
        for (rank, context) in team.job.ranks.clone().zip(contexts) {
            let cpus = cpus.get(rank as usize).cloned().flatten();
            let run = move || {
                if let Some(Err(message)) = cpus.as_ref().map(affinity::bind) {
                    team.wire.end(&Event::WorkerError { message });
                }
                rank::run(team, rank, context, report_gpus);
            };
            std::thread::Builder::new()
                .name(format!("rank {rank}"))
                .spawn_scoped(scope, run)
                .expect("the system starts a thread per rank");
        }
    });
    Ok(())
}

/// The GPUs of this host's ranks.
fn ranks_devices(job: &Job, devices: &[Device]) -> Result<Vec<Device>, Box<Event>> {
    let find = |ordinal: &u32| devices.iter().find(|device| device.ordinal == *ordinal).cloned();
    let missing = |ordinal: &u32| {
        let message = format!("no GPU {ordinal}: the driver shows {} to this process", devices.len());
        Box::new(Event::WorkerError { message })
    };
    let (ranks, host) = (&job.ranks, &job.host);
    let inside = host.start <= ranks.start && ranks.end <= host.end && host.end as usize <= job.devices.len();
    if ranks.is_empty() || !inside {
        let message = format!("the job names ranks {ranks:?} of {host:?} of {}", job.devices.len());
        return Err(Box::new(Event::WorkerError { message }));
    }
    job.devices[host.start as usize..host.end as usize]
        .iter()
        .map(|ordinal| find(ordinal).ok_or_else(|| missing(ordinal)))
        .collect()
}

/// The context of each rank; those of different GPUs are created in parallel, since each takes some 0.3 s.
fn contexts(ordinals: &[u32]) -> Result<Vec<Context>, GpuError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = ordinals.iter().map(|ordinal| scope.spawn(|| Context::retain(*ordinal))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a panic ends the process")).collect()
    })
}
