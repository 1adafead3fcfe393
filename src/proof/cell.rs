//! The sum of a cell's variables, and of an arm's visits.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::variable::{State, VariableProof};

/// Whether the settings of a cell took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Applied {
    /// Every variable did, or could not matter here.
    Applied,
    /// On some ranks only.
    Partly,
    /// Ranks have different values.
    DiffersByRank,
    /// Something else decided.
    Overridden,
    /// It did not reach NCCL.
    NotApplied,
    /// It is not known.
    Unverified,
}

/// The sum of a cell: the worst state of its variables. `no effect here` never blocks, and a variable that every arm asks for
/// alike blocks only when it is known not to be in effect and was not merely inherited: else it is one of [`notes`].
#[must_use]
pub fn cell_state(proofs: &[VariableProof]) -> Applied {
    let counts = |proof: &&VariableProof| !proof.is_note();
    let worst = proofs.iter().filter(counts).map(|proof| proof.state).max_by_key(|state| weight(*state));
    match worst {
        None | Some(State::Applied | State::NoEffectHere) => Applied::Applied,
        Some(State::Unverified) => Applied::Unverified,
        Some(State::Partly) => Applied::Partly,
        Some(State::DiffersByRank) => Applied::DiffersByRank,
        Some(State::Overridden) => Applied::Overridden,
        Some(State::NotApplied) => Applied::NotApplied,
    }
}

/// Variables that cannot favour one arm, see [`VariableProof::is_note`].
pub fn notes(proofs: &[VariableProof]) -> impl Iterator<Item = &VariableProof> {
    proofs.iter().filter(|proof| proof.is_note())
}

fn weight(state: State) -> u8 {
    match state {
        State::NoEffectHere => 0,
        State::Applied => 1,
        State::Unverified => 2,
        State::Partly => 3,
        State::DiffersByRank => 4,
        State::Overridden => 5,
        State::NotApplied => 6,
    }
}

/// The proofs of one cell over all its visits: of each variable that of the worst visit, which says how many are like it.
/// A visit that lacks a variable of the others leaves it unverified.
#[must_use]
pub fn combine(visits: &[Vec<VariableProof>]) -> Vec<VariableProof> {
    let mut names: Vec<&str> = Vec::new();
    for proof in visits.iter().flatten() {
        if !names.contains(&proof.name.as_str()) {
            names.push(&proof.name);
        }
    }
    names.into_iter().filter_map(|name| over_visits(name, visits)).collect()
}

fn over_visits(name: &str, visits: &[Vec<VariableProof>]) -> Option<VariableProof> {
    let found: Vec<&VariableProof> =
        visits.iter().filter_map(|proofs| proofs.iter().find(|proof| proof.name == name)).collect();
    // The first of the worst: `max_by_key` would give the last.
    let mut worst = (*found.iter().rev().max_by_key(|proof| weight(proof.state))?).clone();
    if found.len() < visits.len() && !worst.state.blocks() {
        worst.state = State::Unverified;
        worst.why = Some("a visit told nothing of it".to_owned());
    }
    let alike = found.iter().filter(|proof| proof.state == worst.state).count();
    if worst.state.blocks() && alike < visits.len() {
        let share = format!("in {} of {} visits", alike.max(1), visits.len());
        worst.why = Some(worst.why.map_or(share.clone(), |why| format!("{why} ({share})")));
    }
    Some(worst)
}

impl Applied {
    /// Whether a setting is known not to be in effect, or not everywhere.
    #[must_use]
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Partly | Self::DiffersByRank | Self::Overridden | Self::NotApplied)
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Applied => "applied",
            Self::Partly => "partly",
            Self::DiffersByRank => "differs by rank",
            Self::Overridden => "overridden",
            Self::NotApplied => "not applied",
            Self::Unverified => "unverified",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::environment::Origin;

    fn proof(name: &str, state: State, common: bool) -> VariableProof {
        let (name, value) = (name.to_owned(), "1".to_owned());
        let (why, lacking, evidence) = (None, Vec::new(), Vec::new());
        VariableProof { name, value, origin: Origin::Set, common, state, why, lacking, evidence }
    }

    #[test]
    fn a_cell_is_as_good_as_its_worst_variable() {
        assert_eq!(cell_state(&[]), Applied::Applied, "nothing was asked for");
        let sum =
            |states: &[State]| cell_state(&states.iter().map(|state| proof("A", *state, false)).collect::<Vec<_>>());
        assert_eq!(sum(&[State::NoEffectHere, State::Applied]), Applied::Applied);
        assert_eq!(sum(&[State::Applied, State::Unverified]), Applied::Unverified);
        assert_eq!(sum(&[State::Unverified, State::Partly, State::Applied]), Applied::Partly);
        assert_eq!(sum(&[State::Partly, State::DiffersByRank]), Applied::DiffersByRank);
        assert_eq!(sum(&[State::NotApplied, State::Overridden]), Applied::NotApplied);
    }

    #[test]
    fn what_all_arms_share_is_a_note_when_nothing_shows_it_and_blocks_when_it_is_lost() {
        let shared = [proof("A", State::Unverified, true), proof("B", State::Applied, false)];
        assert_eq!(cell_state(&shared), Applied::Applied);
        assert_eq!(notes(&shared).map(|proof| proof.name.as_str()).collect::<Vec<_>>(), ["A"]);
        assert_eq!(cell_state(&[proof("A", State::NotApplied, true)]), Applied::NotApplied);
        let mut inherited = proof("A", State::Overridden, true);
        assert_eq!(cell_state(&[inherited.clone()]), Applied::Overridden, "asked for by --base");
        inherited.origin = Origin::Inherited;
        assert_eq!(cell_state(&[inherited]), Applied::Applied);
    }

    #[test]
    fn the_worst_visit_decides_and_says_how_many_are_like_it() {
        let good = vec![proof("A", State::Applied, false)];
        let bad = vec![proof("A", State::NotApplied, false)];
        let all = combine(&[good.clone(), bad.clone(), good.clone()]);
        assert_eq!((all[0].state, all[0].why.as_deref()), (State::NotApplied, Some("in 1 of 3 visits")));
        assert_eq!(combine(&[good.clone(), good.clone()])[0].why, None);
        assert_eq!(combine(&[good, Vec::new()])[0].state, State::Unverified);
        assert!(combine(&[]).is_empty());
    }
}
