//! [`Matching`]: which cell of the new run is which cell of the old one.

use std::collections::HashMap;

use super::Wanted;
use crate::collective::Case;
use crate::nccl::register::Register;
use crate::plan::schedule::{Arm, Launch, Plan};

/// An arm and the index of a case.
pub(super) type Key = (Arm, usize);

/// An arm of the old and of the new run, and the cases that both have of it.
pub(super) type Common = ((Arm, Arm), Vec<(usize, usize)>);

/// Cells of two plans by the name of their set, their case, launch and, where a run has several libraries, the version of NCCL.
#[derive(Debug)]
pub(super) struct Matching {
    /// Old and new, in the order of the new plan.
    pub both: Vec<(Key, Key)>,
    pub only_old: Vec<Key>,
    pub only_new: Vec<Key>,
}

impl Matching {
    pub(super) fn of(old: &Plan, new: &Plan) -> Self {
        // One library in each: then it is the library that changed, not the arm.
        let by_version = old.libraries.len() > 1 || new.libraries.len() > 1;
        let mut known: HashMap<(Name, Case), Key> = cells(old, by_version).collect();
        let (mut both, mut only_new) = (Vec::new(), Vec::new());
        for (name, key) in cells(new, by_version) {
            match known.remove(&name) {
                Some(before) => both.push((before, key)),
                None => only_new.push(key),
            }
        }
        let mut only_old: Vec<Key> = known.into_values().collect();
        only_old.sort_unstable();
        Self { both, only_old, only_new }
    }

    /// Of all that the `wanted` cells alone.
    pub(super) fn only(mut self, wanted: Wanted, old: &Plan, new: &Plan) -> Self {
        self.both.retain(|(_, (arm, case))| wanted(new, *arm, *case));
        self.only_old.retain(|(arm, case)| wanted(old, *arm, *case));
        self.only_new.retain(|(arm, case)| wanted(new, *arm, *case));
        self
    }

    /// The arms that have cells in common, in the order of the new plan, with their cells.
    pub(super) fn arms(&self) -> Vec<Common> {
        let mut arms: Vec<Common> = Vec::new();
        for ((old, before), (new, after)) in &self.both {
            match arms.last_mut() {
                Some((pair, cases)) if *pair == (*old, *new) => cases.push((*before, *after)),
                _ => arms.push(((*old, *new), vec![(*before, *after)])),
            }
        }
        arms
    }
}

/// A set, the library (by its version, and its place among those of that version), launch, further communicators, and how
/// buffers are registered.
type Name = (String, Option<(String, usize)>, Launch, u32, Register);

fn cells(plan: &Plan, by_version: bool) -> impl Iterator<Item = ((Name, Case), Key)> + '_ {
    plan.arms().flat_map(move |arm| {
        let libraries = &plan.libraries[..=arm.library];
        let version = libraries[arm.library].version;
        let same = libraries.iter().filter(|library| library.version == version).count();
        let library = by_version.then(|| (version.to_string(), same));
        let name: Name = (plan.sets[arm.set].name.clone(), library, arm.launch, arm.alive, arm.register);
        plan.cases.iter().enumerate().map(move |(at, case)| ((name.clone(), *case), (arm, at)))
    })
}
