//! What the program itself costs, beside CUDA and NCCL, against its goals: `cargo bench --bench cost`.

mod support;

use std::io::Read;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use ncclsweep::record::run::Run;
use ncclsweep::record::visit::Visit;

const HELP: Duration = Duration::from_millis(10);
const VISIT: Duration = Duration::from_millis(20);
const MAIN_JOB: Duration = Duration::from_secs(2);
const MEMORY_MB: f64 = 30.0;

fn main() -> ExitCode {
    let mut held = true;
    let mut against = |what: &str, times: &[Duration], goal: Duration| {
        let median = times[times.len() / 2];
        let (least, most) = (times[0].as_secs_f64() * 1e3, times[times.len() - 1].as_secs_f64() * 1e3);
        let (goal_ms, median_ms) = (goal.as_secs_f64() * 1e3, median.as_secs_f64() * 1e3);
        println!("{what:<44} median {median_ms:>8.1} ms   from {least:>7.1} to {most:>8.1}   goal {goal_ms:.0} ms");
        held &= median <= goal;
    };
    against("--help", &sorted((0..50).map(|_| help())), HELP);
    let runs: Vec<(Duration, Run)> = (0..7).map(|_| main_job()).collect();
    against("the emulated main job", &sorted(runs.iter().map(|(wall, _)| *wall)), MAIN_JOB);
    let supervised =
        runs.iter().flat_map(|(_, run)| run.visits.windows(2).map(|pair| beside_the_worker(&pair[0], &pair[1])));
    against("supervisor, of a visit", &sorted(supervised), VISIT);
    let (megabytes, cells) = peak_memory();
    println!("{:<44} {megabytes:.1} MB   goal {MEMORY_MB} MB", format!("supervisor's peak memory at {cells} cells"));
    held &= megabytes <= MEMORY_MB;
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn sorted(times: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut times: Vec<_> = times.collect();
    times.sort();
    times
}

fn help() -> Duration {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = support::program(&home, "--help");
    let begun = Instant::now();
    assert!(command.status().expect("the program starts").success());
    begun.elapsed()
}

fn main_job() -> (Duration, Run) {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = support::program(&home, support::MAIN_JOB);
    let begun = Instant::now();
    assert!(command.status().expect("the program starts").success());
    let wall = begun.elapsed();
    let text = std::fs::read(home.path().join("run/run.json")).expect("a run");
    (wall, serde_json::from_slice(&text).expect("a run"))
}

/// What a visit takes beside the phases of its worker: until the worker's first word, from its last word until it is gone,
/// and from there until the next visit begins (journal, verdicts).
fn beside_the_worker(visit: &Visit, next: &Visit) -> Duration {
    let period = next.started.duration_since(visit.started).as_secs_f64();
    let t = visit.timings;
    let worker = t.start + t.communicators + t.warm_up + t.measuring + t.checking + t.teardown;
    Duration::from_secs_f64((period - worker).max(0.0))
}

/// The supervisor's own peak resident set in 10⁶ bytes, and the number of cells.
fn peak_memory() -> (f64, usize) {
    let home = tempfile::tempdir().expect("a folder");
    let arguments = "--emulate --gpus 2 --sizes 64x1..100 --rounds 1 --communicators 1 --samples 2 --chain 2 --seed 1 --out run \
                     --quiet --vary NCCL_NTHREADS=64,96,128,160,192,224,256,288,320,352 --vary NCCL_MAX_NCHANNELS=1,2,3,4,5,6,7,8,9,10";
    let mut child = support::program(&home, arguments).stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut stdout = child.stdout.take().expect("stdout is piped");
    // The first byte comes when all is rendered, and the rest is more than a pipe holds: the program waits for us.
    stdout.read_exact(&mut [0]).expect("a table");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it waits");
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    stdout.read_to_end(&mut Vec::new()).expect("a table");
    child.wait().expect("it ends");
    let text = std::fs::read(home.path().join("run/run.json")).expect("a run");
    let run: Run = serde_json::from_slice(&text).expect("a run");
    (kib.expect("VmHWM in kB") * 1024.0 / 1e6, run.cells.len())
}
