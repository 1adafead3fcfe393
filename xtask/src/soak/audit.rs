//! Servers under audit that are killed at random moments: every journal loads, and of a process that ended by itself every
//! count is exact.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ncclsweep::audit::{Audit, Communicator, Life, Worker};
use ncclsweep::error::{Error, Kind, Result};
use rand::{RngExt, SeedableRng};

use super::server;
use crate::table::Table;

const COMMUNICATORS: usize = 3;
const RANKS: usize = 2;
const SIZES: [usize; 2] = [64, 512];
const CAPTURED: usize = 61;

/// How many processes, collectives of each communicator, and the seed of who is killed when.
pub struct Load {
    pub processes: usize,
    pub collectives: usize,
    pub seed: u64,
}

/// A process and what is to become of it.
struct Server {
    child: Child,
    end: &'static str,
    kill_at: Option<Instant>,
    killed: bool,
}

/// Runs all processes at once and looks at what they left.
pub fn run(program: &Path, load: &Load) -> Result<()> {
    let failed = |error: std::io::Error| Error::new(Kind::Incomplete, "cannot run servers to audit").because(error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let (journals, libraries) = (folder.path().join("journals"), folder.path().join("lib"));
    fs::create_dir(&journals).and_then(|()| fs::create_dir(&libraries)).map_err(failed)?;
    let beside = |name: &str| program.with_file_name("deps").join(name);
    for name in ["libcuda.so.1", "libnccl.so.2"] {
        symlink(beside("libncclsweep_emulator.so"), libraries.join(name)).map_err(failed)?;
    }
    let begun = Instant::now();
    let mut generator = rand_chacha::ChaCha8Rng::seed_from_u64(load.seed);
    let mut servers = Vec::new();
    for at in 0..load.processes {
        let end = ["orderly", "exit", "orderly", "bare"][at % 4];
        let kill = (at % 2 == 1 && end != "bare").then(|| Duration::from_secs_f64(generator.random_range(0.05..10.0)));
        let child =
            start(&journals, &libraries, &beside("libnccl_profiler_ncclsweep.so"), end, load).map_err(failed)?;
        servers.push(Server { child, end, kill_at: kill.map(|after| Instant::now() + after), killed: false });
    }
    wait(&mut servers).map_err(failed)?;
    let seconds = begun.elapsed().as_secs_f64();
    let audit = Audit::load(&journals)?;
    for file in &audit.unread {
        eprintln!("{}: {}", file.path, file.why);
    }
    let wrong: usize = servers.iter_mut().map(|server| usize::from(!is_right(&audit, server, load))).sum();
    report(&audit, &servers, wrong, seconds, load)?;
    match wrong + audit.unread.len() {
        0 => Ok(()),
        _ => Err(Error::new(Kind::Incomplete, "a journal is not as it must be")),
    }
}

fn start(journals: &Path, libraries: &Path, plugin: &Path, end: &str, load: &Load) -> std::io::Result<Child> {
    let calls = load.collectives / SIZES.len();
    let sizes = SIZES.map(|size| size.to_string()).join(",");
    let work = format!(
        "ranks={RANKS} communicators={COMMUNICATORS} sizes={sizes} calls={calls} captured={CAPTURED} end={end}"
    );
    let mut command = Command::new(std::env::current_exe()?);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LD_LIBRARY_PATH", libraries);
    command.env(server::VARIABLE, work).env("NCCL_PROFILER_PLUGIN", plugin).env("NCCLSWEEP_PROFILER_FOLDER", journals);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Waits for all, and kills those whose moment has come.
fn wait(servers: &mut [Server]) -> std::io::Result<()> {
    loop {
        let mut running = 0;
        for server in &mut *servers {
            if server.child.try_wait()?.is_some() {
                continue;
            }
            running += 1;
            if server.kill_at.is_some_and(|at| Instant::now() >= at) {
                server.kill_at = None;
                server.killed = true;
                server.child.kill()?;
            }
        }
        if running == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a server's journal is as it must be; says what is not.
fn is_right(audit: &Audit, server: &mut Server, load: &Load) -> bool {
    let pid = server.child.id();
    let ended = server.child.try_wait().ok().flatten().is_some_and(|status| status.success());
    let worker = audit.workers.iter().find(|worker| worker.process.pid == pid);
    let found = match (worker, ended) {
        // It may have been killed before its first communicator.
        (None, false) if server.killed => Ok(()),
        (None, _) => Err("it left no journal".to_owned()),
        (Some(worker), true) => exact(worker, server.end, load),
        (Some(worker), false) if server.killed => partial(worker, load),
        (Some(_), false) => Err("it failed by itself".to_owned()),
    };
    if let Err(what) = &found {
        eprintln!("pid {pid} ({}): {what}", server.end);
    }
    found.is_ok()
}

/// Eager and captured calls of each rank's end of each communicator.
fn counts(worker: &Worker) -> Vec<(u64, u64)> {
    let of = |communicator: &Communicator| {
        let lines = &communicator.collectives;
        (lines.iter().map(|line| line.eager).sum(), lines.iter().map(|line| line.captured).sum())
    };
    worker.communicators.iter().map(of).collect()
}

fn whole(load: &Load) -> (u64, u64) {
    let calls = load.collectives / SIZES.len() * SIZES.len();
    (calls as u64, (CAPTURED * SIZES.len()) as u64)
}

fn exact(worker: &Worker, end: &str, load: &Load) -> std::result::Result<(), String> {
    let counts = counts(worker);
    // Who leaves by `_exit` tells all but the last second.
    let right = match (end, worker.life) {
        ("bare", Life::Lost) => return partial(worker, load),
        (_, Life::Exited) => counts.iter().all(|counts| *counts == whole(load)),
        _ => false,
    };
    match right && counts.len() == COMMUNICATORS * RANKS {
        true => Ok(()),
        false => Err(format!("{:?}: {counts:?}, not {:?} of each", worker.life, whole(load))),
    }
}

fn partial(worker: &Worker, load: &Load) -> std::result::Result<(), String> {
    let (eager, captured) = whole(load);
    let possible = |counts: &(u64, u64)| counts.0 <= eager && counts.1 <= captured;
    match counts(worker).iter().all(possible) {
        true => Ok(()),
        false => Err(format!("more than it did: {:?}", counts(worker))),
    }
}

fn report(audit: &Audit, servers: &[Server], wrong: usize, seconds: f64, load: &Load) -> Result<()> {
    let killed = servers.iter().filter(|server| server.killed).count();
    let lost = audit.workers.iter().filter(|worker| worker.life == Life::Lost).count();
    let exited = audit.workers.iter().filter(|worker| worker.life == Life::Exited).count();
    let calls: u64 = audit.workers.iter().flat_map(counts).map(|(eager, captured)| eager + captured).sum();
    let columns = ["processes", "killed", "journals", "unread", "exited_exact", "lost", "calls", "wrong", "seconds"];
    let mut table = Table::new(&columns);
    let numbers =
        [load.processes, killed, audit.workers.len(), audit.unread.len(), exited, lost, calls as usize, wrong];
    table.push(numbers.map(|number| number.to_string()).into_iter().chain([format!("{seconds:.0}")]).collect());
    table.print();
    let Load { processes, collectives, seed } = load;
    let command = format!("cargo xtask soak audit --processes {processes} --collectives {collectives} --seed {seed}");
    table.save(&results(), &command)
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/audit/soak.csv")
}
