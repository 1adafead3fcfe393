//! Whether every worker's every all-reduce ran as an env set says.

use std::collections::{BTreeMap, BTreeSet};

use nccl_profiler_ncclsweep::journal::Tallied;
use serde::Serialize;

use super::usage::{dtype, used};
use super::{Audit, Communicator, Worker, is_all_reduce};
use crate::collective::{Case, Dtype, Function, Mode, Op, Placement, Size};
use crate::nccl::is_variable;
use crate::plan::env_set::{EnvSet, Vars};
use crate::plan::environment::Origin;
use crate::proof::{Asked, Evidence, FileLine, Observation, Seen, State, VariableProof, judge};

/// What an audit says of an env set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expectation {
    /// The set.
    pub set: EnvSet,
    /// All-reduces that were looked at, of all ranks.
    pub all_reduces: u64,
    /// Where it does not hold.
    pub broken: Vec<Broken>,
    /// Journals that could not be read: of their processes nothing is known.
    pub unread: usize,
    /// Collectives and communicators that processes counted and listed nowhere, having too many kinds.
    pub unlisted: u64,
    /// Ranks of communicators that no process told of, with those they have in all: a process that does not get its parent's
    /// environment, where the plugin stands too, tells nothing.
    pub absent: Option<Absent>,
    /// What reached the workers, and of which nothing that is recorded shows whether it took effect.
    pub unseen: Vec<Unseen>,
}

/// A variable that is not in effect in a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Index of the worker.
    pub worker: usize,
    /// The variable.
    pub name: String,
    /// The value that the set gives it.
    pub value: String,
    /// What is the case instead.
    pub why: String,
    /// Sizes of the all-reduces, in bytes where known.
    pub bytes: Vec<Option<u64>>,
    /// How many all-reduces.
    pub all_reduces: u64,
}

/// Ranks that were not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Absent {
    /// Of the communicator that lacks most: ranks that told nothing.
    pub ranks: u32,
    /// The ranks it has.
    pub of: u32,
    /// Communicators that lack any.
    pub communicators: usize,
}

/// A variable whose effect the plugin cannot see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// The variable.
    pub name: String,
    /// Why.
    pub why: String,
}

impl Expectation {
    /// Whether every all-reduce ran as the set says, there was one, and all were seen.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.broken.is_empty() && !self.is_incomplete()
    }

    /// Whether too little was seen to say that it holds.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.all_reduces == 0 || self.unread > 0 || self.unlisted > 0 || self.absent.is_some()
    }
}

/// Holds `set` against every all-reduce among several ranks, and against the variables of workers that told of none: one that was
/// killed early may have made some.
#[must_use]
pub fn hold(audit: &Audit, set: &EnvSet) -> Expectation {
    let mut expectation = Expectation {
        set: set.clone(),
        all_reduces: 0,
        broken: Vec::new(),
        unread: audit.unread.len(),
        unlisted: unlisted(audit),
        absent: absent(audit),
        unseen: Vec::new(),
    };
    let others = set.vars.iter().filter(|(name, _)| !is_variable(name));
    expectation.unseen.extend(others.map(|(name, _)| Unseen {
        name: name.to_owned(),
        why: "of a process's environment only NCCL_* is recorded".to_owned(),
    }));
    for (at, worker) in audit.workers.iter().enumerate() {
        if let Some(last) = silent(worker) {
            expectation.add_lacking(at, &worker.in_force(last));
        }
        for (index, communicator) in worker.communicators.iter().enumerate() {
            for tallied in communicator.collectives.iter().filter(|tallied| is_all_reduce(tallied)) {
                let case = case(tallied);
                let evidence = evidence(worker, index, communicator, tallied, set);
                expectation.all_reduces += tallied.calls();
                for mut proof in judge(&evidence, 0, &case) {
                    if came_too_late(communicator, &proof) {
                        proof.why = Some("it was set after NCCL had read it in this process".to_owned());
                    }
                    expectation.add(at, tallied, proof);
                }
            }
        }
    }
    expectation
}

fn unlisted(audit: &Audit) -> u64 {
    let of = |worker: &Worker| {
        let calls: u64 = worker.communicators.iter().map(|communicator| communicator.told.unlisted).sum();
        calls + worker.end.unlisted_communicators
    };
    audit.workers.iter().map(of).sum()
}

/// Ranks that nobody told of, where communicators tell how many they have (plugin interfaces from version 4 on).
fn absent(audit: &Audit) -> Option<Absent> {
    let mut seen: BTreeMap<(u64, u32), BTreeSet<i32>> = BTreeMap::new();
    for told in audit.workers.iter().flat_map(|worker| &worker.communicators).map(|communicator| &communicator.told) {
        if let (Some(rank), Some(ranks), 1..) = (told.rank, told.ranks, told.hash) {
            seen.entry((told.hash, ranks)).or_default().insert(rank);
        }
    }
    let lacking = seen.into_iter().map(|((_, ranks), seen)| (ranks.saturating_sub(seen.len() as u32), ranks));
    let lacking: Vec<(u32, u32)> = lacking.filter(|(absent, _)| *absent > 0).collect();
    let (ranks, of) = *lacking.iter().max()?;
    Some(Absent { ranks, of, communicators: lacking.len() })
}

/// Whether what is lacking stood in the environment when the communicator began, which was too late.
fn came_too_late(communicator: &Communicator, proof: &VariableProof) -> bool {
    let set = |(name, value): &(String, Option<String>)| *name == proof.name && value.as_ref() == Some(&proof.value);
    proof.state == State::NotApplied && communicator.changes.iter().any(set)
}

/// The last communicator of several ranks of a worker that told of no all-reduce at all.
fn silent(worker: &Worker) -> Option<usize> {
    let told = worker.communicators.iter().any(|communicator| communicator.collectives.iter().any(is_all_reduce));
    let last = worker.communicators.iter().rposition(|communicator| communicator.told.ranks != Some(1));
    last.filter(|_| !told)
}

impl Expectation {
    /// What a worker that told of no all-reduce lacks.
    fn add_lacking(&mut self, worker: usize, in_force: &Vars) {
        for (name, value) in self.set.vars.iter().filter(|(name, value)| is_variable(name) && !value.is_empty()) {
            let why = match in_force.get(name) {
                Some(has) if has == value => continue,
                Some(has) => format!("it is {has} in the process, which told of no all-reduce"),
                None => "it is not in the environment of the process, which told of no all-reduce".to_owned(),
            };
            let known = |broken: &Broken| broken.worker == worker && broken.name == name;
            if !self.broken.iter().any(known) {
                let (name, value) = (name.to_owned(), value.to_owned());
                self.broken.push(Broken { worker, name, value, why, bytes: Vec::new(), all_reduces: 0 });
            }
        }
    }

    fn add(&mut self, worker: usize, tallied: &Tallied, proof: VariableProof) {
        let VariableProof { name, value, state, why, .. } = proof;
        let why = why.unwrap_or_else(|| state.to_string());
        match state {
            State::Applied | State::NoEffectHere => {}
            State::Unverified => {
                if !self.unseen.iter().any(|unseen| unseen.name == name) {
                    self.unseen.push(Unseen { name, why });
                }
            }
            State::Partly | State::DiffersByRank | State::Overridden | State::NotApplied => {
                let like = |known: &&mut Broken| (known.worker, &known.name, &known.why) == (worker, &name, &why);
                match self.broken.iter_mut().find(like) {
                    Some(known) => {
                        known.all_reduces += tallied.calls();
                        if !known.bytes.contains(&tallied.bytes) {
                            known.bytes.push(tallied.bytes);
                        }
                    }
                    None => self.broken.push(Broken {
                        worker,
                        name,
                        value,
                        why,
                        bytes: vec![tallied.bytes],
                        all_reduces: tallied.calls(),
                    }),
                }
            }
        }
    }
}

/// The case that a line is of. Whether its data type is known matters to no rule: what was used is told by the plugin.
fn case(tallied: &Tallied) -> Case {
    let dtype = dtype(tallied.datatype.as_str()).unwrap_or(Dtype::Uint8);
    let mode = if tallied.captured > 0 && tallied.eager == 0 { Mode::Graph } else { Mode::Stream };
    Case {
        dtype,
        op: Op::Sum,
        placement: Placement::OutOfPlace,
        mode,
        size: Size::elements(tallied.count),
        function: Function::AllReduce,
    }
}

/// The worker's end of one communicator, as if it were a communicator of one rank: each is judged for itself.
fn evidence(worker: &Worker, index: usize, communicator: &Communicator, of: &Tallied, set: &EnvSet) -> Evidence {
    let asked = |(name, value): (&str, &str)| Asked {
        name: name.to_owned(),
        value: value.to_owned(),
        origin: Origin::Set,
        common: false,
        instead: None,
    };
    let observation = Observation { communicator: 0, case: 0, rank: 0, used: used(of, communicator.told.api) };
    Evidence {
        version: worker.version,
        devices: vec![0],
        alone: communicator.told.ranks == Some(1),
        communicators: 1,
        asked: set.vars.iter().filter(|(name, _)| is_variable(name)).map(asked).collect(),
        seen: vec![Seen { ranks: vec![0], variables: worker.in_force(index) }],
        // What the files set is among what is in force.
        files: Vec::<FileLine>::new(),
        used: [observation].into_iter().collect(),
        ..Evidence::default()
    }
}
