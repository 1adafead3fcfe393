//! Proof of a whole run: from what each visit showed to what is known of every variable of every arm.

use serde::{Deserialize, Serialize};

use super::journal::Journal;
use super::run::Header;
use super::visit::{UsedBy, Visit, WorkerFacts};
use crate::error::Result;
use crate::plan::env_set::Vars;
use crate::plan::environment::{Origin, TOOL_VARIABLES};
use crate::plan::schedule::Arm;
use crate::proof::{
    self, Applied, ArmProof, Asked, Evidence, FileLine, Likeness, Observation, Read, Seen, State, VariableProof, why,
};

/// What is known of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmProofs {
    /// The arm.
    pub arm: Arm,
    /// Name of its set.
    pub set: String,
    /// Whether it used exactly what the baseline used, on all ranks and sizes.
    pub identical_to_baseline: bool,
    /// In what it differs, or why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// Its variables, each with the cases of which the same is known.
    pub variables: Vec<OfCases<VariableProof>>,
    /// What NCCL chose, with the cases for which it chose the same.
    pub chosen: Vec<OfCases<why::Chosen>>,
}

/// Something that is so for several cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfCases<T> {
    /// Indices into the plan's cases.
    pub cases: Vec<usize>,
    /// What is so.
    #[serde(flatten)]
    pub what: T,
}

impl ArmProofs {
    /// Whether the settings of a case took effect.
    #[must_use]
    pub fn applied(&self, case: usize) -> Applied {
        let of_case = self.variables.iter().filter(|of| of.cases.contains(&case));
        proof::cell_state(&of_case.map(|of| of.what.clone()).collect::<Vec<_>>())
    }

    /// The variables that keep a case from being applied.
    pub fn blocking(&self, case: usize) -> impl Iterator<Item = &VariableProof> {
        let of_case = self.variables.iter().filter(move |of| of.cases.contains(&case));
        of_case.map(|of| &of.what).filter(|proof| blocks(proof))
    }

    /// Whether a variable keeps a case from being applied.
    #[must_use]
    pub fn blocks(&self, case: usize, proof: &VariableProof) -> bool {
        self.blocking(case).any(|blocking| blocking == proof)
    }
}

fn blocks(proof: &VariableProof) -> bool {
    match proof.state {
        State::Applied | State::NoEffectHere => false,
        State::Unverified => !proof.common,
        State::Partly | State::Overridden | State::NotApplied => true,
    }
}

/// Proves every arm that completed a visit; visits are read from the journal arm by arm.
pub fn prove(header: &Header, journal: &Journal) -> Result<Vec<ArmProofs>> {
    let plan = &header.plan;
    let mut asked: Vec<Vec<Asked>> = plan.arms().map(|arm| asked(header, arm, &Vars::default())).collect();
    proof::mark_common(&mut asked);
    let mut baseline: Option<(Vec<Evidence>, Vec<Vec<VariableProof>>)> = None;
    let mut all = Vec::new();
    for (arm, asked) in plan.arms().zip(asked) {
        let untimed = journal.entries().iter().find(|entry| entry.arm == arm && entry.untimed);
        let choices = untimed.map(|entry| journal.read(entry)).transpose()?.and_then(|visit| visit.read);
        let mut visits = Vec::new();
        for entry in journal.measured(arm) {
            visits.push(evidence(header, &journal.read(entry)?, &asked, choices.as_ref()));
        }
        if visits.is_empty() {
            continue;
        }
        let of_case = |(index, case)| {
            let judged: Vec<_> = visits.iter().map(|visit| proof::judge(visit, index, case)).collect();
            proof::combine(&judged)
        };
        let cases: Vec<Vec<VariableProof>> = plan.cases.iter().enumerate().map(of_case).collect();
        let first = baseline.is_none() && plan.baseline() == arm;
        let likeness = match &baseline {
            _ if first => None,
            None => Some(Likeness::Unknown("the baseline completed no visit".to_owned())),
            Some(_) if arm.launch != plan.baseline().launch => {
                Some(Likeness::Different("how ranks are started".to_owned()))
            }
            Some(_) if arm.alive != plan.baseline().alive => {
                Some(Likeness::Different("how many communicators take turns".to_owned()))
            }
            Some((base, base_cases)) => Some(proof::likeness(
                &ArmProof { visits: &visits, cases: &cases },
                &ArmProof { visits: base, cases: base_cases },
                &plan.cases,
            )),
        };
        let chosen = plan.cases.iter().enumerate().map(|(index, case)| why::chosen(&visits, index, case));
        all.push(ArmProofs {
            arm,
            set: plan.sets[arm.set].name.clone(),
            identical_to_baseline: likeness.as_ref().is_some_and(Likeness::is_identical),
            difference: likeness.and_then(|likeness| match likeness {
                Likeness::Identical => None,
                Likeness::Different(what) | Likeness::Unknown(what) => Some(what),
            }),
            chosen: by_cases(chosen.enumerate(), |a, b| a == b),
            variables: by_cases(
                cases
                    .iter()
                    .enumerate()
                    .flat_map(|(case, proofs)| proofs.iter().map(move |proof| (case, proof.clone()))),
                |a, b| (&a.name, a.state, &a.why, &a.lacking) == (&b.name, b.state, &b.why, &b.lacking),
            ),
        });
        if first {
            baseline = Some((visits, cases));
        }
    }
    Ok(all)
}

/// Joins what is the same for several cases; the first case's evidence stands for all of them.
fn by_cases<T>(items: impl Iterator<Item = (usize, T)>, same: impl Fn(&T, &T) -> bool) -> Vec<OfCases<T>> {
    let mut all: Vec<OfCases<T>> = Vec::new();
    for (case, what) in items {
        match all.iter_mut().find(|known| same(&known.what, &what)) {
            Some(known) => known.cases.push(case),
            None => all.push(OfCases { cases: vec![case], what }),
        }
    }
    all
}

/// The variables an arm asks for; `tool` holds what workers were given instead.
fn asked(header: &Header, arm: Arm, tool: &Vars) -> Vec<Asked> {
    let plan = &header.plan;
    let none = Vars::default();
    let inherited = if plan.clean_env { &none } else { &header.provenance.inherited };
    let set = &plan.sets[arm.set].vars;
    // What single ranks have of their own is asked for of all where nothing else is: the others lack it.
    let elsewhere = |name: &str| [inherited, &plan.base, set].iter().any(|vars| vars.get(name).is_some());
    let own = plan.rank_env.iter().flat_map(|own| own.vars.iter());
    let own = Vars::from_iter(own.filter(|(name, value)| !value.is_empty() && !elsewhere(name)));
    let layers = [(Origin::Inherited, inherited), (Origin::Base, &plan.base), (Origin::Set, set), (Origin::Rank, &own)];
    proof::asked(&layers, tool)
}

/// The environments of the processes: of one with all ranks, or of one for each.
fn seen(worker: &WorkerFacts, ranks: u32) -> Vec<Seen> {
    let others = worker.others.iter().map(|other| Seen { ranks: vec![other.rank], variables: other.variables.clone() });
    let first = if worker.others.is_empty() { (0..ranks).collect() } else { vec![0] };
    [Seen { ranks: first, variables: worker.variables.clone() }].into_iter().chain(others).collect()
}

/// What one visit showed. Where the library has no profiler, `choices` is the log of a visit that was not timed.
fn evidence(header: &Header, visit: &Visit, common: &[Asked], choices: Option<&Read>) -> Evidence {
    let plan = &header.plan;
    let worker = visit.worker.as_ref();
    let tool = worker.map(|worker| {
        let set_by_us = worker.variables.iter().filter(|(name, _)| TOOL_VARIABLES.contains(name));
        Vars::from_iter(set_by_us)
    });
    let mut asked = asked(header, visit.arm, &tool.unwrap_or_default());
    for (asked, common) in asked.iter_mut().zip(common) {
        asked.common = common.common;
    }
    let lines = header.provenance.conf_files.iter().flat_map(|file| {
        let line = |text: &String| {
            let (name, value) = text.split_once('=')?;
            Some(FileLine { place: file.path.clone(), name: name.to_owned(), value: value.to_owned() })
        };
        file.lines.iter().filter_map(line).collect::<Vec<_>>()
    });
    Evidence {
        version: worker.map(|worker| worker.nccl),
        devices: worker.map(|worker| worker.devices.iter().map(|device| device.ordinal).collect()).unwrap_or_default(),
        communicators: plan.communicators * visit.arm.in_turn(),
        asked,
        seen: worker.map(|worker| seen(worker, plan.ranks)).unwrap_or_default(),
        files: lines.collect(),
        read: visit.read.clone(),
        used: visit.used.iter().flat_map(observations).collect(),
        tuning: choices.cloned(),
        paths: [].into(),
    }
}

fn observations(by: &UsedBy) -> impl Iterator<Item = Observation> + '_ {
    by.communicators.iter().flat_map(move |communicator| {
        by.ranks.iter().map(move |rank| Observation {
            communicator: *communicator,
            case: by.case,
            rank: *rank,
            used: by.used.clone(),
        })
    })
}
