//! The fault matrix: what goes wrong in which phase on which ranks, and what the program must make of it.
//!
//! Shared by the test suite, which makes a part of it, and by `cargo xtask soak faults`, which makes all.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ncclsweep::record::journal::Journal;
use ncclsweep::record::run::{Run, Verdict};
use ncclsweep::record::visit::{Outcome, Visit};

use super::left_over::left_over;

/// Seconds after which a phase counts as hung. A machine under load may starve a healthy phase for seconds.
const DEADLINE: u64 = 6;
/// From a deadline to the end of the visit: half a second for the answer, a second for SIGTERM, the phases before it, and slack
/// for a loaded machine. What waits for no end stays for ever.
const GRACE: f64 = 30.0;

/// What goes wrong, as the emulator names it.
pub const KINDS: [&str; 15] = [
    "hang",
    "segv",
    "kill",
    "abort",
    "exit",
    "wrong",
    "nan",
    "async-error",
    "nccl-error",
    "cuda-error",
    "gpu-lost",
    "garbage",
    "torn",
    "log-flood",
    "slow:20",
];

/// When, as the emulator names it.
pub const PHASES: [&str; 8] = ["load", "init", "first", "eager", "capture", "replay", "copy", "destroy"];

/// One field of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: &'static str,
    pub phase: &'static str,
    /// Rank 3 alone, or all.
    pub one: bool,
    /// Ranks are processes, not threads.
    pub processes: bool,
}

/// All fields in which the fault can strike and must be noticed.
pub fn all() -> Vec<Fault> {
    let fields = KINDS.into_iter().flat_map(|kind| PHASES.into_iter().map(move |phase| (kind, phase)));
    fields
        .filter(|(kind, phase)| is_meaningful(kind, phase))
        // Loading the driver is of the process, not of a rank.
        .flat_map(|(kind, phase)| [true, false].map(|one| Fault { kind, phase, one, processes: false }))
        .flat_map(|fault| [false, true].map(|processes| Fault { processes, ..fault }))
        .filter(|fault| !(fault.one && fault.phase == "load"))
        .collect()
}

fn is_meaningful(kind: &str, phase: &str) -> bool {
    match kind {
        // The emulator's copies fail, but do not hang.
        "hang" => phase != "copy",
        // Results are spoilt where there are some, and compared where they are not those of the warm-up.
        "wrong" | "nan" => matches!(phase, "first" | "replay" | "copy"),
        "async-error" => matches!(phase, "first" | "eager" | "replay"),
        "nccl-error" | "log-flood" => !matches!(phase, "load" | "copy"),
        "cuda-error" => true,
        "gpu-lost" => phase != "capture",
        "slow:20" => matches!(phase, "first" | "eager" | "replay"),
        _ => true,
    }
}

impl Fault {
    fn variable(&self) -> String {
        let rank = if self.one { "3" } else { "all" };
        format!("{}@{},rank={rank},when=NCCL_PROTO=LL", self.kind, self.phase)
    }

    /// Whether this is how the visit of the struck set must end.
    fn explains(&self, outcome: &Outcome) -> bool {
        match (self.kind, outcome) {
            ("hang", Outcome::TimedOut { seconds, .. }) => *seconds == DEADLINE as f64,
            ("segv", Outcome::Crashed { signal, .. }) => signal == "SIGSEGV",
            // Half a message tells no more than none: what counts is of what its writer died.
            ("kill" | "torn", Outcome::Crashed { signal, .. }) => signal == "SIGKILL",
            ("abort", Outcome::Crashed { signal, .. }) => signal == "SIGABRT",
            ("exit", Outcome::Exited { code, .. }) => *code == 1,
            ("wrong" | "nan", Outcome::WrongData) => true,
            ("async-error" | "nccl-error" | "cuda-error" | "gpu-lost", Outcome::Failed { .. }) => true,
            ("garbage", Outcome::BrokenWire { .. }) => true,
            ("log-flood", Outcome::Flooded { mib, .. }) => *mib >= 256,
            // On a machine that writes slowly the deadline comes first.
            ("log-flood", Outcome::TimedOut { .. }) => true,
            ("slow:20", Outcome::Completed) => true,
            _ => false,
        }
    }
}

/// Runs the program with the fault in `folder`, which is empty; says all that is not as it must be.
pub fn strike(program: &Path, fault: Fault, folder: &Path) -> Vec<String> {
    let begun = Instant::now();
    let code = match start(program, &fault, folder) {
        Ok(code) => code,
        Err(error) => return vec![error],
    };
    let seconds = begun.elapsed().as_secs_f64();
    let mut wrong = Vec::new();
    if let Some(left) = left_over(folder) {
        wrong.push(format!("a process is left: {left}"));
    }
    match visits(&folder.join("run")) {
        Ok(visits) => judge(&fault, code, seconds, &visits, &mut wrong),
        Err(error) => wrong.push(error),
    }
    match document(folder) {
        Ok(run) => judge_document(&fault, &run, &mut wrong),
        Err(error) => wrong.push(error),
    }
    wrong
}

fn start(program: &Path, fault: &Fault, folder: &Path) -> Result<Option<i32>, String> {
    let arguments =
        "--emulate --gpus 4 --sizes 7168x1 --rounds 1 --communicators 1 --samples 2 --chain 2 --seed 7 --quiet";
    let (temporary, deadline) = (folder.join("tmp"), format!("{DEADLINE}s"));
    std::fs::create_dir(&temporary).map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(arguments.split(' ')).args(["--out", "run", "--deadline", &deadline]).current_dir(folder);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", folder).env("TMPDIR", &temporary);
    command.env("NCCLSWEEP_EMULATE_FAULT", fault.variable());
    command.args(["--launch", if fault.processes { "processes" } else { "threads" }]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let limit = Instant::now() + Duration::from_secs(120);
    while Instant::now() < limit {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status.code());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    Err("the run did not end within two minutes".to_owned())
}

fn visits(run: &Path) -> Result<Vec<Visit>, String> {
    let (journal, _) = Journal::open(run).map_err(|error| error.to_string())?;
    journal.entries().iter().map(|entry| journal.read(entry).map_err(|error| error.to_string())).collect()
}

fn document(folder: &Path) -> Result<Run, String> {
    let text = std::fs::read(folder.join("run/run.json")).map_err(|error| format!("run.json: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("run.json: {error}"))
}

fn judge(fault: &Fault, code: Option<i32>, seconds: f64, visits: &[Visit], wrong: &mut Vec<String>) {
    let expected = if fault.kind == "slow:20" { [0, 5].as_slice() } else { &[4] };
    if !code.is_some_and(|code| expected.contains(&code)) {
        wrong.push(format!("exit status {code:?}"));
    }
    let of = |set: usize| visits.iter().filter(move |visit| visit.arm.set == set).collect::<Vec<_>>();
    match of(0).as_slice() {
        [default] if default.outcome == Outcome::Completed && default.replicates.len() == 1 => {}
        other => {
            wrong.push(format!("the other set: {:?}", other.iter().map(|visit| &visit.outcome).collect::<Vec<_>>()))
        }
    }
    match of(1).as_slice() {
        [struck] => {
            if !fault.explains(&struck.outcome) {
                wrong.push(format!("the struck set {}", struck.outcome));
            }
            if struck.seconds > DEADLINE as f64 + GRACE {
                wrong.push(format!("the struck visit took {:.1} s of a run of {seconds:.1} s", struck.seconds));
            }
        }
        other => wrong.push(format!("{} visits of the struck set", other.len())),
    }
}

/// A set that failed must not look good.
fn judge_document(fault: &Fault, run: &Run, wrong: &mut Vec<String>) {
    let bad = fault.kind != "slow:20";
    for cell in run.cells.iter().filter(|cell| cell.arm.set == 1) {
        if bad != (cell.verdict == Verdict::Invalid) {
            wrong.push(format!("verdict {}", cell.verdict));
        }
    }
    if run.cells.iter().any(|cell| cell.arm.set == 0 && cell.median_us.is_none()) {
        wrong.push("the other set has no figure".to_owned());
    }
}
