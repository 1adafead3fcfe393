//! SIGKILL of the supervisor at random moments: no worker stays, the journal loads, and a resumed run ends as a whole one.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use ncclsweep::error::{Error, Kind, Result};
use ncclsweep::record::journal::{self, Journal};
use ncclsweep::record::run::Run;
use rand::{RngExt, SeedableRng};

use super::left_over::left_over;
use super::results;
use crate::table::Table;

const ARGUMENTS: &str = "--emulate --gpus 4 --sizes 7168x1/4 --rounds 4 --communicators 2 --seed 11 --quiet";

/// What was found over all kills.
#[derive(Default)]
struct Found {
    before_the_run: u32,
    after_the_end: u32,
    torn: u32,
    resumed: u32,
    visits_kept: usize,
    wrong: u32,
}

/// Kills `number` runs.
pub fn run(program: &Path, number: u32, seed: u64) -> Result<()> {
    let failed = |error: std::io::Error| Error::new(Kind::Incomplete, "cannot make a run to kill").because(error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let begun = Instant::now();
    let status = start(program, folder.path(), &["--out", "run"]).and_then(|mut child| child.wait()).map_err(failed)?;
    let length = begun.elapsed();
    let whole = End::of(status, folder.path()).map_err(|error| Error::new(Kind::Incomplete, error))?;
    let mut generator = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut found = Found::default();
    for kill in 0..number {
        let moment = length.mul_f64(generator.random_range(0.0..1.1));
        let folder = tempfile::tempdir().map_err(failed)?;
        if let Err(what) = one(program, folder.path(), moment, &whole, &mut found) {
            found.wrong += 1;
            let moment = moment.as_secs_f64();
            eprintln!("kill {kill} after {moment:.3} s, kept in {}: {what}", folder.keep().display());
        }
    }
    let mut table =
        Table::new(&["kills", "before_the_run", "after_the_end", "torn", "resumed", "visits_kept", "wrong"]);
    let counts = [number, found.before_the_run, found.after_the_end, found.torn, found.resumed];
    let counts = counts.into_iter().map(|count| count.to_string());
    table.push(counts.chain([found.visits_kept.to_string(), found.wrong.to_string()]).collect());
    table.print();
    table.save(&results("kills.csv"), &format!("cargo xtask soak kills {number} --seed {seed}"))?;
    if found.wrong == 0 { Ok(()) } else { Err(Error::new(Kind::Incomplete, "a kill cost something")) }
}

fn one(
    program: &Path,
    folder: &Path,
    moment: Duration,
    whole: &End,
    found: &mut Found,
) -> std::result::Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut child = start(program, folder, &["--out", "run"]).map_err(text)?;
    std::thread::sleep(moment);
    let ended = child.try_wait().map_err(text)?;
    child.kill().and_then(|()| child.wait()).map_err(text)?;
    if let Some(left) = left_over(folder) {
        return Err(format!("a process is left: {left}"));
    }
    if let Some(status) = ended {
        found.after_the_end += 1;
        return whole.same("the run that had ended by itself", &End::of(status, folder)?);
    }
    let run = folder.join("run");
    // A run that has no visit yet may have no journal, or one whose header never reached it: its folder is free for another.
    let begun = std::fs::read(run.join(journal::FILE)).is_ok_and(|journal| journal.contains(&b'\n'));
    if !begun {
        found.before_the_run += 1;
        let status = start(program, folder, &["--out", "run"]).and_then(|mut child| child.wait()).map_err(text)?;
        return whole.same("the run started anew", &End::of(status, folder)?);
    }
    let (journal, _) = Journal::open(&run).map_err(|error| format!("the journal does not load: {error}"))?;
    found.visits_kept += journal.entries().len();
    drop(journal);
    let bytes = std::fs::read(run.join(journal::FILE)).map_err(text)?;
    found.torn += u32::from(bytes.last() != Some(&b'\n'));
    let status = start(program, folder, &["--resume", "run"]).and_then(|mut child| child.wait()).map_err(text)?;
    found.resumed += 1;
    whole.same("the resumed run", &End::of(status, folder)?)
}

/// How a run ended: what two runs of one seed have in common, and what tells why they have not.
struct End {
    code: Option<i32>,
    /// Cells, joint verdicts and the order of visits, but no times of day.
    figures: String,
    /// Visits that failed, and how.
    failed: Vec<String>,
}

impl End {
    fn of(status: ExitStatus, folder: &Path) -> std::result::Result<Self, String> {
        let text = std::fs::read(folder.join("run/run.json"))
            .map_err(|error| format!("ended with {status} without a run.json: {error}"))?;
        let mut run: Run = serde_json::from_slice(&text).map_err(|error| format!("run.json: {error}"))?;
        run.cells.iter_mut().for_each(|cell| cell.verdict_reason = None);
        let visits: Vec<_> =
            run.visits.iter().map(|visit| (visit.index, visit.round, visit.arm, &visit.outcome)).collect();
        let figures = format!("{:?}\n{:?}\n{visits:?}\n{}", run.cells, run.joint, run.complete);
        let failed = run.visits.iter().filter(|visit| !visit.outcome.is_completed());
        let failed = failed.map(|visit| format!("visit {} {} ({:?})", visit.index, visit.outcome, visit.evidence));
        Ok(Self { code: status.code(), figures, failed: failed.collect() })
    }

    /// Fails when `other`, called `what`, ended otherwise than this whole run.
    fn same(&self, what: &str, other: &Self) -> std::result::Result<(), String> {
        if self.code == other.code && self.figures == other.figures {
            return Ok(());
        }
        let differ = apart(&self.figures, &other.figures);
        let failed = if other.failed.is_empty() { "no visit failed".to_owned() } else { other.failed.join("; ") };
        Err(format!("{what} ends with {:?}, the whole one with {:?}; {failed}; {differ}", other.code, self.code))
    }
}

/// Where two texts begin to differ.
fn apart(one: &str, other: &str) -> String {
    let at = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(160);
    let shown = |text: &str| String::from_utf8_lossy(&text.as_bytes()[at..text.len().min(at + 240)]).into_owned();
    format!("`{}` is not `{}`", shown(other), shown(one))
}

fn start(program: &Path, folder: &Path, more: &[&str]) -> std::io::Result<Child> {
    let temporary = folder.join("tmp");
    std::fs::create_dir_all(&temporary)?;
    let mut command = Command::new(program);
    // A resumed run takes its plan from its journal.
    let arguments = if more[0] == "--resume" { "--quiet" } else { ARGUMENTS };
    command.args(arguments.split(' ')).args(more).current_dir(folder);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", folder).env("TMPDIR", temporary);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
