//! Proof of a whole run: from what each visit showed to what is known of every variable of every arm.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;
use super::run::Header;
use super::visit::{UsedBy, Visit, WorkerFacts};
use crate::gpu::cuda::Device;
use crate::nccl::conf;
use crate::plan::env_set::Vars;
use crate::plan::environment::{Origin, TOOL_VARIABLES};
use crate::plan::schedule::{Arm, Plan};
use crate::proof::{
    self, Applied, ArmProof, Asked, Evidence, FileLine, Likeness, Observation, Paths, Read, Seen, State, VariableProof,
    why,
};

/// What is known of one arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    !matches!(proof.state, State::Applied | State::NoEffectHere) && !proof.is_note()
}

/// Proves arm after arm, each held against the baseline.
pub struct Prover<'a> {
    header: &'a Header,
    /// What each arm asks for, in the order of the plan's arms.
    asked: Vec<(Arm, Vec<Asked>)>,
    /// What lies between the GPUs of two ranks, where the run tells; the same in every visit.
    paths: Arc<Paths>,
    baseline: Option<Proven>,
}

/// What the visits of an arm showed, and what is known by it of each variable in each case.
struct Proven {
    /// Whether a visit made everything that was asked for.
    whole: bool,
    visits: Vec<Evidence>,
    cases: Vec<Vec<VariableProof>>,
}

impl<'a> Prover<'a> {
    /// For a run with this header, whose baseline made these visits.
    #[must_use]
    pub fn new(header: &'a Header, baseline: &[Visit]) -> Self {
        let arms: Vec<Arm> = header.plan.arms().collect();
        let mut asked: Vec<Vec<Asked>> = arms.iter().map(|arm| asked(header, *arm, &Vars::default())).collect();
        proof::mark_common(&mut asked);
        let asked = arms.iter().copied().zip(asked).collect();
        let mut prover = Self { header, asked, paths: Arc::new(paths(header)), baseline: None };
        prover.baseline = arms.first().and_then(|arm| prover.look(*arm, baseline));
        prover
    }

    /// What is known of an arm that made these visits, also by what failed ones showed until then; nothing when none has a worker.
    #[must_use]
    pub fn prove(&self, arm: Arm, visits: &[Visit]) -> Option<ArmProofs> {
        let first = self.header.plan.baseline();
        if first == arm {
            return self.baseline.as_ref().map(|baseline| self.tell(arm, baseline, None));
        }
        let proven = self.look(arm, visits)?;
        let likeness = match &self.baseline {
            None => Likeness::Unknown("the baseline completed no visit".to_owned()),
            Some(base) if !base.whole => Likeness::Unknown("the baseline completed no visit".to_owned()),
            Some(_) if !proven.whole => Likeness::Unknown("it completed no visit".to_owned()),
            Some(_) if arm.launch != first.launch => Likeness::Different("how ranks are started".to_owned()),
            Some(_) if arm.alive != first.alive => Likeness::Different("how many communicators take turns".to_owned()),
            Some(_) if arm.register != first.register => Likeness::Different("how buffers are registered".to_owned()),
            Some(base) => proof::likeness(
                &ArmProof { visits: &proven.visits, cases: &proven.cases },
                &ArmProof { visits: &base.visits, cases: &base.cases },
                &self.header.plan.cases,
            ),
        };
        Some(self.tell(arm, &proven, Some(likeness)))
    }

    fn look(&self, arm: Arm, visits: &[Visit]) -> Option<Proven> {
        if self.header.provenance.imported.is_some() {
            // Nobody looked, so nothing is known, not even that the defaults ran.
            return None;
        }
        let (_, asked) = self.asked.iter().find(|(of, _)| *of == arm)?;
        let choices = visits.iter().find(|visit| visit.untimed).and_then(|visit| visit.read.as_ref());
        let files = file_lines(self.header, arm);
        let timed = visits.iter().filter(|visit| !visit.untimed);
        // Wrong data is found when all else is done.
        let (whole, failed): (Vec<&Visit>, Vec<&Visit>) =
            timed.partition(|visit| matches!(visit.outcome, Outcome::Completed | Outcome::WrongData));
        let shown = if whole.is_empty() { failed } else { whole.clone() };
        let shown = shown.into_iter().filter(|visit| visit.worker.is_some());
        let evidence =
            |visit| Evidence { paths: self.paths.clone(), ..evidence(self.header, visit, asked, &files, choices) };
        let visits: Vec<_> = shown.map(evidence).collect();
        let of_case = |(index, case)| {
            let judged: Vec<_> = visits.iter().map(|visit| proof::judge(visit, index, case)).collect();
            proof::combine(&judged)
        };
        let cases = self.header.plan.cases.iter().enumerate().map(of_case).collect();
        (!visits.is_empty()).then_some(Proven { whole: !whole.is_empty(), visits, cases })
    }

    fn tell(&self, arm: Arm, proven: &Proven, likeness: Option<Likeness>) -> ArmProofs {
        let Proven { visits, cases, .. } = proven;
        let plan = &self.header.plan;
        let chosen = plan.cases.iter().enumerate().map(|(index, case)| why::chosen(visits, index, case));
        let proofs = cases.iter().enumerate();
        let proofs = proofs.flat_map(|(case, proofs)| proofs.iter().map(move |proof| (case, proof.clone())));
        ArmProofs {
            arm,
            set: plan.sets[arm.set].name.clone(),
            identical_to_baseline: likeness.as_ref().is_some_and(Likeness::is_identical),
            difference: likeness.and_then(|likeness| match likeness {
                Likeness::Identical => None,
                Likeness::Different(what) | Likeness::Unknown(what) => Some(what),
            }),
            chosen: by_cases(chosen.enumerate(), |a, b| a == b, |_, _| ()),
            variables: by_cases(
                proofs,
                |a, b| (&a.name, a.state, &a.why, &a.lacking) == (&b.name, b.state, &b.why, &b.lacking),
                |known, more| {
                    let new: Vec<_> =
                        more.evidence.into_iter().filter(|sentence| !known.evidence.contains(sentence)).collect();
                    known.evidence.extend(new);
                },
            ),
        }
    }
}

/// Joins what is the same for several cases; `join` takes over what another case adds.
fn by_cases<T>(
    items: impl Iterator<Item = (usize, T)>,
    same: impl Fn(&T, &T) -> bool,
    join: impl Fn(&mut T, T),
) -> Vec<OfCases<T>> {
    let mut all: Vec<OfCases<T>> = Vec::new();
    for (case, what) in items {
        match all.iter_mut().find(|known| same(&known.what, &what)) {
            Some(known) => {
                known.cases.push(case);
                join(&mut known.what, what);
            }
            None => all.push(OfCases { cases: vec![case], what }),
        }
    }
    all
}

/// The variables an arm asks for; `tool` holds what workers were given instead.
fn asked(header: &Header, arm: Arm, tool: &Vars) -> Vec<Asked> {
    let plan = &header.plan;
    let none = Vars::default();
    let inherited = if plan.clean_env { none } else { inherited_by_all(header) };
    let inherited = &inherited;
    let set = &plan.sets[arm.set].vars;
    // What single ranks have of their own is asked for of all where nothing else is: the others lack it.
    let elsewhere = |name: &str| [inherited, &plan.base, set].iter().any(|vars| vars.get(name).is_some());
    let own = plan.rank_env.iter().flat_map(|own| own.vars.iter());
    let own = Vars::from_iter(own.filter(|(name, value)| !value.is_empty() && !elsewhere(name)));
    let layers = [(Origin::Inherited, inherited), (Origin::Base, &plan.base), (Origin::Set, set), (Origin::Rank, &own)];
    proof::asked(&layers, tool)
}

/// The inherited variables, without those that are a host's own: its name for NCCL, or what differs between hosts.
fn inherited_by_all(header: &Header) -> Vars {
    let provenance = &header.provenance;
    let same = |(name, value): &(&str, &str)| {
        let elsewhere = provenance.others.iter().all(|other| other.inherited.get(name) == Some(value));
        provenance.others.is_empty() || (elsewhere && *name != "NCCL_HOSTID")
    };
    Vars::from_iter(provenance.inherited.iter().filter(same))
}

/// The environments of the processes: of one with all ranks, or of one for each.
fn seen(worker: &WorkerFacts, ranks: u32) -> Vec<Seen> {
    let others = worker.others.iter().map(|other| Seen { ranks: vec![other.rank], variables: other.variables.clone() });
    let first = if worker.others.is_empty() { (0..ranks).collect() } else { vec![0] };
    [Seen { ranks: first, variables: worker.variables.clone() }].into_iter().chain(others).collect()
}

/// What NCCL's configuration files set for an arm.
fn file_lines(header: &Header, arm: Arm) -> Vec<FileLine> {
    let version = header.plan.libraries[arm.library].version;
    let files = header.provenance.conf_files.iter().filter(|file| file.is_read_by(arm));
    let lines = files.flat_map(|file| {
        let line = |entry: conf::Entry| {
            let place = format!("{}:{}", file.path, entry.line);
            FileLine { place, name: entry.name, value: entry.value }
        };
        file.settings(Some(version)).into_iter().map(line)
    });
    lines.collect()
}

/// What the kernel and the driver tell of the wiring between ranks.
fn paths(header: &Header) -> Paths {
    let Some(topology) = &header.provenance.topology else { return Paths::new() };
    proof::paths(topology, header.plan.ranks, |rank| topology.gpus.iter().position(|gpu| gpu.ranks.contains(&rank)))
}

/// What one visit showed. Where the library does not tell a profiler of all calls, `choices` is the log of a visit that was not timed.
fn evidence(header: &Header, visit: &Visit, common: &[Asked], files: &[FileLine], choices: Option<&Read>) -> Evidence {
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
    Evidence {
        version: worker.map(|worker| worker.nccl),
        devices: worker.map(|worker| places(plan, worker)).unwrap_or_default(),
        alone: plan.ranks == 1,
        communicators: plan.communicators * visit.arm.in_turn(),
        asked,
        seen: worker.map(|worker| seen(worker, plan.ranks)).unwrap_or_default(),
        files: files.to_vec(),
        read: visit.read.clone(),
        used: visit.used.iter().flat_map(observations).collect(),
        tuning: choices.cloned(),
        register: header.provenance.imported.is_none().then_some(visit.arm.register),
        paths: Arc::default(),
    }
}

/// A number for each rank's GPU, other for those of other hosts.
fn places(plan: &Plan, worker: &WorkerFacts) -> Vec<u32> {
    let place = |(rank, device): (u32, &Device)| proof::device(plan.agent_of(rank), device.ordinal);
    (0..).zip(&worker.devices).map(place).collect()
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
