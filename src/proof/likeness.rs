//! [`likeness`]: whether an arm did just what the baseline did, so that no winner may be declared between them.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::Evidence;
use super::used::{Channels, Used};
use super::variable::{State, VariableProof};
use crate::collective::Case;
use crate::nccl::catalogue;
use crate::nccl::words::{Algorithm, Protocol, Transport};

/// One arm: its visits, and its proofs per case over all visits.
#[derive(Clone, Copy, Debug)]
pub struct ArmProof<'a> {
    /// What its visits showed.
    pub visits: &'a [Evidence],
    /// What [`combine`](super::combine) made of them, per case of the plan.
    pub cases: &'a [Vec<VariableProof>],
}

/// How an arm compares with the baseline in what was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// Algorithm, protocol, channels and warps on all ranks and sizes, and the transport of every pair, are the baseline's, and
    /// no variable that leaves no trace differs.
    Identical,
    /// They differ, and in what.
    Different(String),
    /// It cannot be told, and why.
    Unknown(String),
}

impl Likeness {
    /// Whether no winner may be declared.
    #[must_use]
    pub fn is_identical(&self) -> bool {
        *self == Self::Identical
    }
}

/// What one rank used for one case: exact, or it is no proof of likeness.
type Print = (Algorithm, Protocol, u32, u8);

/// Connections of every pair.
type Pairs = BTreeMap<(u32, u32), BTreeSet<Transport>>;

/// Compares what `arm` used with what `baseline` used, over all `cases`.
#[must_use]
pub fn likeness(arm: &ArmProof, baseline: &ArmProof, cases: &[Case]) -> Likeness {
    compare(arm, baseline, cases).unwrap_or_else(|early| early)
}

fn compare(arm: &ArmProof, baseline: &ArmProof, cases: &[Case]) -> Result<Likeness, Likeness> {
    if cases.is_empty() || arm.visits.is_empty() || baseline.visits.is_empty() {
        return Err(Likeness::Unknown("nothing was measured".to_owned()));
    }
    let libraries = |of: &ArmProof| of.visits.iter().map(|visit| visit.version).collect::<BTreeSet<_>>();
    if libraries(arm) != libraries(baseline) {
        return Err(Likeness::Different("the library".to_owned()));
    }
    if arm.visits.iter().chain(baseline.visits).all(|visit| visit.ranks() == 1) {
        // NCCL copies, whatever is set.
        return Ok(Likeness::Identical);
    }
    for (index, case) in cases.iter().enumerate() {
        let (own, other) = (prints(arm.visits, index, case)?, prints(baseline.visits, index, case)?);
        if own.len() != other.len() {
            return Err(Likeness::Different("the number of ranks".to_owned()));
        }
        if let Some(rank) = (0..own.len()).find(|rank| own[*rank] != other[*rank]) {
            return Err(Likeness::Different(format!("what rank {rank} used for {case}")));
        }
    }
    if pairs(arm.visits)? != pairs(baseline.visits)? {
        return Err(Likeness::Different("the transports".to_owned()));
    }
    match hidden(arm, baseline) {
        Some(name) => Ok(Likeness::Unknown(format!("{name} leaves no trace in what is recorded"))),
        None => Ok(Likeness::Identical),
    }
}

/// What each rank used for a case, the same in every visit and communicator.
fn prints(visits: &[Evidence], index: usize, case: &Case) -> Result<Vec<Print>, Likeness> {
    let ranks = visits.iter().map(Evidence::ranks).max().unwrap_or(0);
    let of_rank = |rank: u32| {
        let mut prints = BTreeSet::new();
        for visit in visits {
            let used = visit.used(index, case, rank);
            let used =
                used.ok_or_else(|| Likeness::Unknown(format!("what rank {rank} used for {case} is not known")))?;
            for used in used {
                prints.insert(
                    print(used)
                        .ok_or_else(|| Likeness::Unknown(format!("channels or warps for {case} are not exact")))?,
                );
            }
        }
        match (prints.pop_first(), prints.is_empty()) {
            (Some(print), true) => Ok(print),
            _ => Err(Likeness::Unknown(format!("what rank {rank} used for {case} varies"))),
        }
    };
    (0..ranks).map(of_rank).collect()
}

fn print(used: &Used) -> Option<Print> {
    match (used.channels, used.warps) {
        (Some(Channels::Exactly(channels)), Some(warps)) => {
            Some((used.algorithm.clone(), used.protocol.clone(), channels, warps))
        }
        _ => None,
    }
}

fn pairs(visits: &[Evidence]) -> Result<Pairs, Likeness> {
    let mut all: Option<Pairs> = None;
    for visit in visits {
        let read = visit.read.as_ref().and_then(|read| read.transports(visit.ranks(), visit.communicators));
        let read = read.ok_or_else(|| Likeness::Unknown("the transport of every pair is not known".to_owned()))?;
        let pairs: Pairs = read.into_iter().map(|(pair, via)| (pair, via.into_iter().cloned().collect())).collect();
        if all.get_or_insert_with(|| pairs.clone()) != &pairs {
            return Err(Likeness::Unknown("the transports vary".to_owned()));
        }
    }
    Ok(all.unwrap_or_default())
}

/// A variable that differs between the arms, has an effect in some case of either, and leaves no trace, or left none.
fn hidden(arm: &ArmProof, baseline: &ArmProof) -> Option<String> {
    let value = |of: &ArmProof, name: &str| -> Option<String> {
        let proofs = of.cases.iter().flatten();
        proofs.filter(|proof| proof.name == name).map(|proof| proof.value.clone()).next()
    };
    let acts = |of: &ArmProof, name: &str| {
        of.cases.iter().flatten().any(|proof| proof.name == name && proof.state != State::NoEffectHere)
    };
    // What could leave a trace and left none.
    let open = |of: &ArmProof, name: &str| {
        of.cases.iter().flatten().any(|proof| proof.name == name && proof.state == State::Unverified)
    };
    let names = arm.cases.iter().chain(baseline.cases).flatten().map(|proof| &proof.name);
    let names: BTreeSet<&String> = names.collect();
    let hidden = names.into_iter().find(|name| {
        let traced = catalogue::get(name).is_some_and(|variable| !variable.trace.is_empty());
        let shown = traced && !open(arm, name) && !open(baseline, name);
        !shown && value(arm, name) != value(baseline, name) && (acts(arm, name) || acts(baseline, name))
    });
    hidden.cloned()
}
