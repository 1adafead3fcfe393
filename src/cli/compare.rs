//! `ncclsweep compare`: what changed between two runs, and what is slower since.

use super::answer::answer;
use super::args::Compare as Args;
use super::exit::Exit;
use super::terminal;
use crate::compare::{self, Comparison};
use crate::error::Result;
use crate::record::run::Verdict;
use crate::record::stored::Stored;
use crate::report;

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit> {
    let (old, new) = std::thread::scope(|scope| {
        let old = scope.spawn(|| Stored::load(&args.old));
        let new = Stored::load(&args.new);
        (old.join().expect("reading a run does not panic"), new)
    });
    let (old, new) = (old?, new?);
    let comparison = compare::compare(&old, &new, args.tolerance.map(|tolerance| tolerance.fraction()))?;
    answer(exit(&comparison), |out| {
        report::compare::write(&comparison, [&old, &new], args.format, terminal::style(), out)
    })
}

/// The exit code: the first that holds, from the top.
pub fn exit(comparison: &Comparison) -> Exit {
    let any = |verdict: Verdict| comparison.cells.iter().any(|cell| cell.verdict == verdict);
    match () {
        () if any(Verdict::Invalid) => Exit::Incomplete,
        () if any(Verdict::Slower) => Exit::Failed,
        () if any(Verdict::Undecided) => Exit::Undecided,
        () => Exit::Held,
    }
}
