//! Findings per rank and their sum, and ranks in words.

use std::collections::BTreeSet;

use super::variable::State;

/// What is found of a variable on one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// What was used satisfies it.
    Holds,
    /// It is not in effect, and why.
    Lacks(String),
    /// Not known, and why.
    Unknown(String),
}

impl Finding {
    /// This, or `other` where that weighs more: a lack beats what is unknown, which beats what holds.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Lacks(why), _) | (Self::Unknown(_) | Self::Holds, Self::Lacks(why)) => Self::Lacks(why),
            (Self::Unknown(why), _) | (Self::Holds, Self::Unknown(why)) => Self::Unknown(why),
            (Self::Holds, Self::Holds) => Self::Holds,
        }
    }
}

/// What is known of one variable in one case of one visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub state: State,
    pub why: Option<String>,
    pub lacking: Vec<u32>,
}

impl Outcome {
    pub(super) fn new(state: State, why: impl Into<String>) -> Self {
        Self { state, why: Some(why.into()), lacking: Vec::new() }
    }

    /// The sum of all ranks' findings. `read` says whether NCCL read the value on every rank: then something overrode what
    /// was asked for, else it never took effect.
    pub(super) fn sum(findings: &[Finding], read: bool) -> Self {
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let lacking: Vec<u32> =
            (0..findings.len()).filter(|at| matches!(findings[*at], Finding::Lacks(_))).map(number).collect();
        let first = |lacks: bool| {
            findings.iter().find_map(|finding| match finding {
                Finding::Lacks(why) if lacks => Some(why.clone()),
                Finding::Unknown(why) if !lacks => Some(why.clone()),
                _ => None,
            })
        };
        if findings.is_empty() {
            return Self::new(State::Unverified, "no rank is known");
        }
        if let Some(why) = first(true) {
            let state = match (lacking.len() == findings.len(), read) {
                (false, _) => State::Partly,
                (true, true) => State::Overridden,
                (true, false) => State::NotApplied,
            };
            let why = if state == State::Partly { format!("{} without it: {why}", named(&lacking)) } else { why };
            return Self { state, why: Some(why), lacking };
        }
        match first(false) {
            Some(why) => Self::new(State::Unverified, why),
            None => Self { state: State::Applied, why: None, lacking },
        }
    }
}

/// `rank 3`, `ranks 0–3 and 6`.
pub(super) fn named<'a>(ranks: impl IntoIterator<Item = &'a u32>) -> String {
    let ranks: BTreeSet<u32> = ranks.into_iter().copied().collect();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in &ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let shown = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}–{last}"),
    };
    let shown: Vec<_> = runs.iter().map(shown).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, shown.join(", "))
}

/// `all 8 ranks`, else [`named`].
pub(super) fn named_of(ranks: &BTreeSet<u32>, all: u32) -> String {
    if all > 1 && ranks.iter().copied().eq(0..all) { format!("all {all} ranks") } else { named(ranks) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_in_runs() {
        assert_eq!(named(&[3]), "rank 3");
        assert_eq!(named(&[0, 1, 2, 3, 6]), "ranks 0–3, 6");
        assert_eq!(named(&[4, 5]), "ranks 4, 5");
        assert_eq!(named_of(&(0..8).collect(), 8), "all 8 ranks");
        assert_eq!(named_of(&(0..7).collect(), 8), "ranks 0–6");
    }

    #[test]
    fn one_rank_without_it_is_partly_and_one_unknown_is_unverified() {
        let (holds, lacks, unknown) = (Finding::Holds, Finding::Lacks("l".into()), Finding::Unknown("u".into()));
        let sum = |findings: &[Finding], read| Outcome::sum(findings, read).state;
        assert_eq!(sum(&[holds.clone(), holds.clone()], false), State::Applied);
        assert_eq!(sum(&[holds.clone(), unknown.clone()], true), State::Unverified);
        assert_eq!(sum(&[holds.clone(), lacks.clone(), unknown.clone()], true), State::Partly);
        assert_eq!(sum(&[lacks.clone(), lacks.clone()], true), State::Overridden);
        assert_eq!(sum(std::slice::from_ref(&lacks), false), State::NotApplied);
        assert_eq!(sum(&[], true), State::Unverified);
        assert_eq!(Outcome::sum(&[holds.clone(), lacks.clone()], true).lacking, [1]);
        assert_eq!(holds.and(unknown.clone()).and(lacks.clone()), lacks);
    }
}
