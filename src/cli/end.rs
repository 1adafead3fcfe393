//! The last line of a sweep that is not done: how far it got, and how it goes on.

use super::sweep::Measured;
use crate::plan::schedule::Rounds;
use crate::record::run::Run;
use crate::supervisor::sweep::Ended;
use crate::units::{count, plural};

/// Whether a run stopped early and can be continued: a `redacted` one cannot, nor one of agents.
pub(super) fn goes_on(measured: &Measured, redacted: bool) -> bool {
    let early = matches!(measured.ended, Ended::Interrupted | Ended::TimeLimit);
    early && !redacted && measured.run.header.plan.agents.is_empty()
}

/// What is to be said of how a sweep ended, when there is something.
pub(super) fn note(measured: &Measured, redacted: bool) -> Option<String> {
    let for_good = !goes_on(measured, redacted);
    let resume = || format!("`{}`", resume(&measured.folder.display().to_string()));
    match measured.ended {
        Ended::Interrupted if for_good => Some(format!("interrupted after {}", so_far(&measured.run))),
        Ended::Interrupted => Some(format!("interrupted after {}; {} goes on", so_far(&measured.run), resume())),
        Ended::TimeLimit if for_good => None,
        Ended::TimeLimit => Some(format!("--time-limit ended the run; {} goes on for as long again", resume())),
        Ended::Complete | Ended::LastLook | Ended::NothingToCompare if measured.unchanged => {
            Some(format!("nothing was left to do: this run was finished with its {}", so_far(&measured.run)))
        }
        Ended::Complete | Ended::LastLook | Ended::NothingToCompare | Ended::Sick(_) => None,
    }
}

/// The command that continues the run in this folder.
fn resume(folder: &str) -> String {
    format!("ncclsweep --resume {}", shell_words::quote(folder))
}

/// `4 of 120 visits`; without a total where the plan has none, or sets that failed are visited no more.
fn so_far(run: &Run) -> String {
    let (plan, made) = (&run.header.plan, run.visits.iter().filter(|visit| !visit.untimed).count());
    let failed = run.visits.iter().any(|visit| !visit.outcome.is_completed());
    match plan.rounds {
        Rounds::Fixed(rounds) if plan.soak_s.is_none() && !failed => {
            let all = plan.arms().count() as u64 * u64::from(rounds);
            if made as u64 == all {
                return plural(made, "visit");
            }
            format!("{} of {} visits", count(made as u64), count(all))
        }
        _ => plural(made, "visit"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::record::fixture;

    fn measured(ended: Ended, rounds: Rounds, keep: usize) -> Measured {
        let mut run = fixture::two_sets();
        run.visits.truncate(keep);
        run.header.plan.rounds = rounds;
        Measured { folder: PathBuf::from("results/a b"), run, ended, unchanged: false, agents: None }
    }

    #[test]
    fn an_interrupted_run_tells_how_far_it_got_and_the_command_that_goes_on() {
        let of = |rounds| note(&measured(Ended::Interrupted, rounds, 3), false).unwrap();
        let on = "`ncclsweep --resume 'results/a b'` goes on";
        assert_eq!(of(Rounds::Fixed(60)), format!("interrupted after 3 of 120 visits; {on}"));
        assert_eq!(
            of(Rounds::Auto),
            format!("interrupted after 3 visits; {on}"),
            "nobody knows how many there will be"
        );
    }

    #[test]
    fn a_run_of_several_hosts_is_not_said_to_go_on() {
        let mut run = measured(Ended::TimeLimit, Rounds::Auto, 3);
        run.run.header.plan.agents = vec![1, 1];
        assert_eq!(note(&run, false), None);
        run.ended = Ended::Interrupted;
        assert_eq!(note(&run, false).unwrap(), "interrupted after 3 visits");
    }

    #[test]
    fn a_redacted_run_is_not_said_to_go_on() {
        let of = |ended| note(&measured(ended, Rounds::Fixed(60), 3), true);
        assert_eq!(of(Ended::Interrupted).unwrap(), "interrupted after 3 of 120 visits");
        assert_eq!(of(Ended::TimeLimit), None);
    }

    #[test]
    fn a_finished_run_that_is_continued_says_that_nothing_is_left() {
        let mut finished = measured(Ended::Complete, Rounds::Fixed(2), 4);
        assert_eq!(note(&finished, false), None, "it was finished just now");
        finished.unchanged = true;
        let said = note(&finished, false).unwrap();
        assert_eq!(said, "nothing was left to do: this run was finished with its 4 visits");
    }
}
