//! Whether every worker's every all-reduce ran as an env set says.

use nccl_profiler_ncclsweep::journal::Tallied;
use serde::Serialize;

use super::usage::{dtype, used};
use super::{Audit, Communicator, Worker, is_all_reduce};
use crate::collective::{Case, Dtype, Mode, Op, Placement, Size};
use crate::plan::env_set::EnvSet;
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

/// A variable whose effect the plugin cannot see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// The variable.
    pub name: String,
    /// Why.
    pub why: String,
}

impl Expectation {
    /// Whether every all-reduce that was seen ran as the set says, and there was one.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.broken.is_empty() && self.all_reduces > 0
    }
}

/// Holds `set` against every all-reduce among several ranks.
#[must_use]
pub fn hold(audit: &Audit, set: &EnvSet) -> Expectation {
    let mut expectation = Expectation { set: set.clone(), all_reduces: 0, broken: Vec::new(), unseen: Vec::new() };
    for (at, worker) in audit.workers.iter().enumerate() {
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

/// Whether what is lacking stood in the environment when the communicator began, which was too late.
fn came_too_late(communicator: &Communicator, proof: &VariableProof) -> bool {
    let set = |(name, value): &(String, Option<String>)| *name == proof.name && value.as_ref() == Some(&proof.value);
    proof.state == State::NotApplied && communicator.changes.iter().any(set)
}

impl Expectation {
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
            State::Partly | State::Overridden | State::NotApplied => {
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
    Case { dtype, op: Op::Sum, placement: Placement::OutOfPlace, mode, size: Size::elements(tallied.count) }
}

/// The worker's end of one communicator, as if all ranks were like this one: each is judged for itself, and on a rank that is
/// alone nothing has an effect.
fn evidence(worker: &Worker, index: usize, communicator: &Communicator, of: &Tallied, set: &EnvSet) -> Evidence {
    let asked = |(name, value): (&str, &str)| Asked {
        name: name.to_owned(),
        value: value.to_owned(),
        origin: Origin::Set,
        common: false,
        instead: None,
    };
    let ranks = [0, 1];
    let observation = |rank| Observation { communicator: 0, case: 0, rank, used: used(of, communicator.told.api) };
    Evidence {
        version: worker.version,
        devices: ranks.to_vec(),
        communicators: 1,
        asked: set.vars.iter().map(asked).collect(),
        seen: vec![Seen { ranks: ranks.to_vec(), variables: worker.in_force(index) }],
        // What the files set is among what is in force.
        files: Vec::<FileLine>::new(),
        used: ranks.map(observation).into_iter().collect(),
        ..Evidence::default()
    }
}
