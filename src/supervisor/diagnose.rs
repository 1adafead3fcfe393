//! From the signs of a failed visit to what they mean and what helps: one table, the first row that holds.
//!
//! A row is matched against how the visit ended, the codes of errors, and lines of the worker and of NCCL's log. Where no row
//! holds nothing is said: a guess would send people to the wrong place.

use std::fmt::Write;

use crate::gpu::GpuError;
use crate::nccl::words::Protocol;
use crate::plan::schedule::Plan;
use crate::record::visit::{At, Diagnosis, Outcome, Phase, Visit};

mod table;

/// What a visit showed, as the rows of the table look at it.
struct Signs<'a> {
    outcome: &'a Outcome,
    /// The outcome and all lines of evidence, in lower case.
    text: String,
    /// NCCL's log told of a connection through the peer's memory.
    p2p: bool,
    /// A case used LL128.
    ll128: bool,
    /// Several ranks share a GPU.
    oversubscribed: bool,
    /// Ranks are processes.
    processes: bool,
    /// Ranks have different variables: single ones of their own, or those of hosts what each inherits.
    mismatched: bool,
    /// A variable in the worker's environment and its value.
    variables: Vec<(&'a str, &'a str)>,
}

/// One row.
struct Row {
    /// What is seen, in a few words.
    sign: &'static str,
    holds: fn(&Signs) -> bool,
    meaning: &'static str,
    next: &'static str,
}

/// What the failure of `visit` means; nothing for one that completed or whose signs are not known. `log` is the end of NCCL's
/// log: some signs are no warnings. `apart` are variables that hosts inherit differently.
#[must_use]
pub fn diagnose(plan: &Plan, visit: &Visit, log: &str, apart: &[String]) -> Option<Diagnosis> {
    if matches!(visit.outcome, Outcome::Completed | Outcome::Interrupted | Outcome::NotRun { .. }) {
        return None;
    }
    let signs = Signs::of(plan, visit, log, apart);
    told(table::ROWS.iter(), &signs)
}

/// What a line means by itself, whatever log it stands in, and whether it tells of something and not why anything failed.
#[must_use]
pub fn of_line(line: &str) -> Option<(Diagnosis, bool)> {
    let signs = Signs {
        outcome: &Outcome::Completed,
        text: line.to_lowercase(),
        p2p: false,
        ll128: false,
        oversubscribed: false,
        processes: false,
        mismatched: false,
        variables: Vec::new(),
    };
    let fault = told(table::ROWS.iter(), &signs).map(|known| (known, false));
    fault.or_else(|| told(table::MILD.iter(), &signs).map(|known| (known, true)))
}

/// What the first row that holds says.
fn told(mut rows: impl Iterator<Item = &'static Row>, signs: &Signs) -> Option<Diagnosis> {
    let row = rows.find(|row| (row.holds)(signs))?;
    let [sign, meaning, next] = [row.sign, row.meaning, row.next].map(str::to_owned);
    Some(Diagnosis { sign, meaning, next })
}

impl<'a> Signs<'a> {
    fn of(plan: &Plan, visit: &'a Visit, log: &str, apart: &[String]) -> Self {
        let mut text = visit.outcome.to_string();
        for line in visit.evidence.iter().map(String::as_str).chain([log]) {
            let _ = write!(text, "\n{line}");
        }
        let worker = visit.worker.iter();
        // What lies over the inherited ones all ranks have alike.
        let over = plan.sets[visit.arm.set].vars.over(&plan.base);
        let differs = |name: &String| over.get(name).is_none();
        Self {
            outcome: &visit.outcome,
            text: text.to_lowercase(),
            p2p: uses_p2p(visit),
            ll128: visit.used.iter().any(|by| by.used.protocol == Protocol::Ll128),
            oversubscribed: plan.oversubscribed(),
            processes: visit.arm.is_processes(),
            mismatched: !plan.rank_env.is_empty() || apart.iter().any(differs),
            variables: worker.flat_map(|worker| worker.variables.iter()).collect(),
        }
    }

    /// Whether one line of evidence holds all these words, which are in lower case.
    fn says(&self, words: &[&str]) -> bool {
        self.text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    }

    fn cuda(&self, codes: &[i32]) -> bool {
        matches!(self.outcome, Outcome::Failed { error: GpuError::Cuda { code, .. }, .. } if codes.contains(code))
    }

    fn signal(&self, name: &str) -> bool {
        matches!(self.outcome, Outcome::Crashed { signal, .. } if signal == name)
    }

    fn hung(&self) -> bool {
        matches!(self.outcome, Outcome::TimedOut { .. })
    }

    /// Whether a collective hung: NCCL was up, data had to flow.
    fn hung_in_a_collective(&self) -> bool {
        let flowing =
            |at: &At| matches!(at.phase, Phase::First | Phase::WarmUp | Phase::Timing | Phase::Check | Phase::Capture);
        matches!(self.outcome, Outcome::TimedOut { at: Some(at), .. } if flowing(at))
    }

    fn hung_in(&self, phase: Phase) -> bool {
        matches!(self.outcome, Outcome::TimedOut { at: Some(at), .. } if at.phase == phase)
    }

    fn wrong(&self) -> bool {
        matches!(self.outcome, Outcome::WrongData)
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Whether NCCL's log told that ranks reach into each other's GPU memory.
pub(super) fn uses_p2p(visit: &Visit) -> bool {
    let hops = visit.read.iter().flat_map(|read| &read.communicators).flat_map(|of| &of.ranks).flat_map(|r| &r.sends);
    hops.flat_map(|hop| &hop.via).any(|transport| transport.family() == "P2P")
}

#[cfg(test)]
mod tests;
