//! Algorithms and protocols, and what switches them on and off.

use std::fmt::Display;

use super::general;
use super::look::Look;
use crate::nccl::lists::{self, Allowed};
use crate::nccl::words::{Algorithm, Function};
use crate::proof::ranks::{Finding, Outcome};
use crate::proof::used::Used;
use crate::proof::variable::State;

/// `NCCL_ALGO`.
pub(super) fn algorithms(look: &Look) -> Outcome {
    let list = lists::algorithms(&look.asked.value, look.version());
    let on = list.on(&Function::AllReduce);
    let instead = ignored(look).filter(|instead| !instead.iter().any(|taken| on.contains(taken)));
    let instead = instead.map(|taken| taken.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "));
    listed(look, on, instead, |used| &used.algorithm)
}

/// `NCCL_PROTO`.
pub(super) fn protocols(look: &Look) -> Outcome {
    let list = lists::protocols(&look.asked.value, look.version());
    // From 2.22 on the protocols hold also where the algorithms do not.
    let any =
        look.version().is_some_and(|version| !version.at_least(2, 22)) && ignored(look) == Some(vec![Algorithm::Ring]);
    listed(look, list.on(&Function::AllReduce), any.then(|| "any protocol".to_owned()), |used| &used.protocol)
}

/// A list, which NCCL holds to unless it took something `instead`.
fn listed<T: PartialEq + Display>(
    look: &Look,
    on: &[T],
    instead: Option<String>,
    word: impl Fn(&Used) -> &T,
) -> Outcome {
    if for_others_only(look) {
        return Outcome::new(State::NoEffectHere, "it names other collectives only");
    }
    if let Some(instead) = instead {
        return Outcome::new(State::Overridden, format!("it leaves nothing usable: NCCL takes {instead} instead"));
    }
    look.each_use(|rank, used| match word(used) {
        word if !on.contains(word) => Finding::Lacks(format!("{word} was used{}", tuned(look))),
        _ => told_by_log(look, rank),
    })
}

/// What the log tells of a rank whose process did not tell its environment: every rank reads these two at its initialisation
/// and says so. A log with gaps may lack its line.
fn told_by_log(look: &Look, rank: u32) -> Finding {
    let Some(read) = look.evidence.read.as_ref().filter(|_| look.evidence.seen(rank).is_none()) else {
        return Finding::Holds;
    };
    let lines: Vec<_> = look.reads().collect();
    if lines.iter().any(|line| line.said_by.contains(&rank)) {
        return Finding::Holds;
    }
    let whole = read.gaps.is_empty() && read.communicators.iter().all(|of| of.is_whole(look.evidence.ranks()));
    match whole && !lines.is_empty() && !lines.iter().any(|line| line.unplaced) {
        true => Finding::Lacks("others read it there, this one did not".to_owned()),
        false => Finding::Unknown("no line of the log says that it read it".to_owned()),
    }
}

/// Whether every entry of a list (form of 2.24) names a collective, none of them all-reduce.
fn for_others_only(look: &Look) -> bool {
    let with_functions = look.version().is_none_or(|version| version.at_least(2, 24));
    let others = |entry: &str| entry.split_once(':').and_then(|(head, _)| Function::known(head));
    let entries = look.asked.value.split(';').filter(|entry| !entry.is_empty());
    with_functions && entries.map(others).all(|function| function.is_some_and(|other| other != Function::AllReduce))
}

/// The algorithms that up to 2.23 run when nothing of what was asked for can.
fn ignored(look: &Look) -> Option<Vec<Algorithm>> {
    // What is usable between hosts is another matter.
    if !look.on_one_host() {
        return None;
    }
    let value = |name| look.evidence.effective(name);
    let (algo, proto) = (value("NCCL_ALGO"), value("NCCL_PROTO"));
    let collnet = look.other("NCCL_COLLNET_ENABLE") == Some(1);
    let allowed = Allowed::resolve(algo, proto, &Function::AllReduce, look.version(), collnet);
    allowed.ignored.then(|| allowed.algorithms().into_iter().cloned().collect())
}

fn tuned(look: &Look) -> String {
    let tuner = look.evidence.read.as_ref().and_then(|read| read.tuner());
    tuner.map(|line| format!("; a tuner plugin is at work: {line}")).unwrap_or_default()
}

/// `NCCL_NVLS_ENABLE`.
pub(super) fn nvls(look: &Look) -> Outcome {
    permission(look, Used::nvls, "reduction in the NVLink switches")
}

/// `NCCL_COLLNET_ENABLE`.
pub(super) fn collnet(look: &Look) -> Outcome {
    let of_network = |used: &Used| matches!(used.algorithm, Algorithm::CollNetDirect | Algorithm::CollNetChain);
    permission(look, of_network, "reduction in the network")
}

/// `NCCL_LL128_C2C`, which bounds over what links between hosts LL128 goes (`ncclTopoTuneModel` of `tuning.cc`).
pub(super) fn ll128(look: &Look) -> Outcome {
    match look.on_one_host() {
        true => Outcome::new(State::NoEffectHere, "it acts on links between hosts, and all ranks are on one"),
        false => general::traceless(look),
    }
}

/// `NCCL_PAT_ENABLE`.
pub(super) fn pat(_: &Look) -> Outcome {
    Outcome::new(State::NoEffectHere, "PAT serves other collectives than all-reduce")
}

/// A switch that forbids (0) or permits something. Forbidden and not used: satisfied. Permitted and not used: NCCL was free,
/// which has no effect once it is known that it read the permission.
fn permission(look: &Look, is_used: impl Fn(&Used) -> bool, what: &str) -> Outcome {
    if look.number() == 0 {
        return look.each_use(|_, used| match is_used(used) {
            false => Finding::Holds,
            true => Finding::Lacks(format!("{} was used", used.algorithm)),
        });
    }
    if look.none_used(&is_used) {
        return match look.was_read_by_all() {
            true => Outcome::new(State::NoEffectHere, format!("NCCL may use {what} and does not")),
            false => Outcome::new(State::Unverified, format!("{what} is not used, and no line says that NCCL may")),
        };
    }
    look.each_use(|_, used| match is_used(used) {
        true => Finding::Holds,
        false => Finding::Unknown(format!("{what} is used in some calls only")),
    })
}

/// `NCCL_TUNER_PLUGIN`.
pub(super) fn tuner(look: &Look) -> Outcome {
    let Some(read) = &look.evidence.read else {
        return Outcome::new(State::Unverified, "there is no log that says which tuner is loaded");
    };
    let missing = |line: &&String| line.starts_with("TUNER/Plugin") && line.contains("Could not find");
    match (read.tuner(), read.plugins.iter().find(missing)) {
        (Some(line), _) if look.asked.value.eq_ignore_ascii_case("none") => Outcome::new(State::Overridden, line),
        // What is at work then is the tuner of a network plugin.
        (_, Some(line)) => Outcome::new(State::NotApplied, line),
        (Some(_), None) if look.was_read_by_all() => Outcome { why: None, ..Outcome::new(State::Applied, "") },
        _ => Outcome::new(State::Unverified, "the log does not say which tuner is loaded"),
    }
}
