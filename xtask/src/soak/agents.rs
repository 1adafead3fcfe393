//! SIGKILL of one of several agents at random moments: no process stays, the journal loads, and the right one is named.

use std::path::Path;
use std::time::{Duration, Instant};

use ncclsweep::error::{Error, Kind, Result};
use nix::sys::signal::Signal;
use rand::{RngExt, SeedableRng};

use super::launched::{Agents, Ended};
use super::left_over::left_over;
use super::results;
use crate::table::Table;

/// Agents, each with as many ranks.
const AGENTS: usize = 3;
const ARGUMENTS: &str = "--emulate --gpus 4 --sizes 7168x1/4 --rounds 3 --communicators 2 --seed 11 --quiet";

/// What was found over all kills.
#[derive(Default)]
struct Found {
    of_the_first: u32,
    before_the_run: u32,
    after_the_end: u32,
    named: u32,
    visits_kept: usize,
    wrong: u32,
}

/// Kills an agent in each of `number` runs.
pub fn run(program: &Path, number: u32, seed: u64) -> Result<()> {
    let begun = Instant::now();
    let whole = Agents::start(program, AGENTS, ARGUMENTS, &[]).all();
    if !matches!(whole[0].code, Some(0 | 1 | 5)) {
        return Err(Error::new(Kind::Incomplete, format!("an undisturbed run fails: {whole:?}")));
    }
    let length = begun.elapsed();
    let mut generator = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut found = Found::default();
    for kill in 0..number {
        let moment = length.mul_f64(generator.random_range(0.0..1.1));
        let victim = generator.random_range(0..AGENTS);
        if let Err(what) = one(program, victim, moment, &mut found) {
            eprintln!("kill {kill} of agent {victim} after {:.3} s: {what}", moment.as_secs_f64());
            found.wrong += 1;
        }
    }
    let mut table =
        Table::new(&["kills", "of_the_first", "before_the_run", "after_the_end", "named", "visits_kept", "wrong"]);
    let counts = [number, found.of_the_first, found.before_the_run, found.after_the_end, found.named];
    let counts = counts.into_iter().map(|count| count.to_string());
    table.push(counts.chain([found.visits_kept.to_string(), found.wrong.to_string()]).collect());
    table.print();
    table.save(&results("agents.csv"), &format!("cargo xtask soak agents {number} --seed {seed}"))?;
    if found.wrong == 0 { Ok(()) } else { Err(Error::new(Kind::Incomplete, "a kill cost something")) }
}

fn one(program: &Path, victim: usize, moment: Duration, found: &mut Found) -> std::result::Result<(), String> {
    let mut agents = Agents::start(program, AGENTS, ARGUMENTS, &[]);
    std::thread::sleep(moment);
    let ended = !agents.is_running(victim);
    agents.signal(victim, Signal::SIGKILL);
    // Before all have met the first waits for one that may yet come, until it is interrupted.
    let journal = agents.folder().join("run/journal.jsonl");
    if !ended && !journal.exists() {
        found.before_the_run += 1;
        (0..AGENTS).for_each(|agent| agents.signal(agent, Signal::SIGTERM));
    }
    let all = agents.all();
    if let Some(left) = left_over(agents.folder()) {
        return Err(format!("a process is left: {left}"));
    }
    if std::fs::metadata(&journal).map_or(true, |file| file.len() == 0) {
        return Ok(());
    }
    found.visits_kept += agents.visits()?;
    match (ended, victim) {
        (true, _) => found.after_the_end += 1,
        (false, 0) => {
            found.of_the_first += 1;
            return others_tell(&all);
        }
        (false, _) => return first_tells(&all[0], victim, found),
    }
    Ok(())
}

/// Without the first the others end by themselves, with its address.
fn others_tell(all: &[Ended]) -> std::result::Result<(), String> {
    // One that had just been told that the run is over knows no better.
    let told = |other: &Ended| other.code == Some(0) || other.stderr.contains("the first agent at 127.0.0.1");
    match all[1..].iter().find(|other| !told(other)) {
        Some(other) => Err(format!("an agent does not tell that the first is gone: {other:?}")),
        None => Ok(()),
    }
}

/// The first names the agent that is gone, unless it had all it needed of it.
fn first_tells(first: &Ended, victim: usize, found: &mut Found) -> std::result::Result<(), String> {
    let name = format!("(agent {victim}, ");
    if [&first.stdout, &first.stderr].iter().all(|said| said.contains(&name)) && first.code == Some(4) {
        found.named += 1;
        return Ok(());
    }
    match first.code {
        Some(0 | 1 | 5) => {
            found.after_the_end += 1;
            Ok(())
        }
        // Interrupted before the run, as above.
        Some(130) => Ok(()),
        _ => Err(format!("the first does not name the agent that is gone: {first:?}")),
    }
}
