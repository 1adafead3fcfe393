//! [`judge`]: the state of each variable in one case of one visit, with the evidence for it.
//!
//! The way of a variable is asked → seen → read → used, and each step can end it: what never reached the process, what
//! NCCL understood otherwise, what acts on nothing here. Only then do the rules look at what was used.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::evidence::{Asked, Evidence};
use super::ranks::{Finding, Outcome, named};
use super::read::Read;
use super::rules::{self, Look};
use super::sentences::sentences;
use crate::collective::Case;
use crate::nccl::bystander::is_bystander;
use crate::nccl::catalogue::{self, Kind};
use crate::nccl::is_variable;
use crate::nccl::levels::PathLevel;
use crate::nccl::number::strtoll;
use crate::nccl::unset;
use crate::nccl::version::NcclVersion;
use crate::plan::environment::Origin;

/// What is known of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// What NCCL used satisfies it, also where the default would have.
    Applied,
    /// It acts on nothing here.
    NoEffectHere,
    /// On some ranks only.
    Partly,
    /// Ranks have different values, so none of them is the setting.
    DiffersByRank,
    /// It reached NCCL, and something else decided.
    Overridden,
    /// It did not reach NCCL.
    NotApplied,
    /// Nothing shows whether it took effect.
    Unverified,
}

/// What is known of one variable in one case, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct VariableProof {
    /// Its name.
    pub name: String,
    /// The value asked for.
    pub value: String,
    /// The layer that asks for it.
    pub origin: Origin,
    /// Every arm asks for the same.
    pub common: bool,
    /// What is known.
    pub state: State,
    /// Why, where the state does not say it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Ranks without it, when some have it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<u32>,
    /// What shows it: `asked: …`, `seen: …`, `read: …`, `used: …`.
    pub evidence: Vec<String>,
}

impl VariableProof {
    /// Whether it favours no arm and is told beside the verdicts: all arms have it alike, and nothing shows whether it is in effect, or it
    /// was inherited and gave way to what this program or NCCL itself takes.
    #[must_use]
    pub fn is_note(&self) -> bool {
        let gave_way = self.state == State::Overridden && self.origin == Origin::Inherited;
        self.common && (self.state == State::Unverified || gave_way)
    }
}

/// The state of each variable the arm asks for, in case `index` of the plan.
#[must_use]
pub fn judge(evidence: &Evidence, index: usize, case: &Case) -> Vec<VariableProof> {
    let prove = |asked: &Asked| {
        let look = Look { evidence, index, case, asked };
        let Outcome { state, why, lacking } = outcome(&look);
        let Asked { name, mut value, origin, common, .. } = asked.clone();
        if state == State::DiffersByRank && origin == Origin::Rank {
            // No layer asks for one value.
            value = arrivals(&look).values().collect::<Vec<_>>().join("|");
        }
        let evidence = sentences(&look, &value);
        VariableProof { name, value, origin, common, state, why, lacking, evidence }
    };
    evidence.asked.iter().map(prove).collect()
}

fn outcome(look: &Look) -> Outcome {
    by_name(look)
        .or_else(|| seen(look))
        .or_else(|| refused(look))
        .or_else(|| no_setting(look))
        .or_else(|| alone(look))
        .unwrap_or_else(|| rules::rule(look))
}

/// What the name alone decides.
fn by_name(look: &Look) -> Option<Outcome> {
    let name = look.asked.name.as_str();
    if !is_variable(name) {
        // Only variables of NCCL's are looked for in a process.
        return Some(Outcome::new(
            State::Unverified,
            "NCCL does not read it, and nothing that is recorded shows what does",
        ));
    }
    if is_bystander(name) {
        return Some(Outcome::new(State::NoEffectHere, "it changes nothing of a collective"));
    }
    if let Some(who) = catalogue::foreign(name) {
        return Some(Outcome::new(State::NoEffectHere, format!("NCCL does not read it: {who}")));
    }
    if let Some(instead) = &look.asked.instead {
        return Some(Outcome::new(State::Overridden, format!("ncclsweep itself must set {instead}")));
    }
    let version = look.evidence.version?;
    let known = catalogue::get(name)?.known_in(version);
    (!known).then(|| Outcome::new(State::NotApplied, format!("NCCL {version} does not read it")))
}

/// How far a variable came to a rank's process.
enum Arrival<'a> {
    /// The process did not tell.
    Unknown,
    /// It is there.
    Has,
    /// It is not there.
    Absent,
    /// There is this value, and where.
    Other(&'a str, String),
}

/// How far it came to each rank's process.
struct Arrivals<'a> {
    asked: &'a str,
    of: Vec<(u32, Arrival<'a>)>,
}

fn arrivals<'a>(look: &Look<'a>) -> Arrivals<'a> {
    Arrivals { asked: &look.asked.value, of: look.ranks().map(|rank| (rank, arrived(look, rank))).collect() }
}

impl<'a> Arrivals<'a> {
    /// Ranks by the value that their processes are known to have, in the order of the ranks.
    fn by_value(&self) -> IndexMap<&'a str, Vec<u32>> {
        let mut values: IndexMap<&str, Vec<u32>> = IndexMap::new();
        for (rank, arrival) in &self.of {
            match arrival {
                Arrival::Has => values.entry(self.asked).or_default().push(*rank),
                Arrival::Other(value, _) => values.entry(value).or_default().push(*rank),
                Arrival::Absent | Arrival::Unknown => {}
            }
        }
        values
    }

    fn values(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.by_value().into_keys()
    }

    /// That ranks have different values, and which.
    fn differing(&self) -> Option<Outcome> {
        let values = self.by_value();
        if values.len() < 2 {
            return None;
        }
        let absent = self.of.iter().filter(|(_, arrival)| matches!(arrival, Arrival::Absent));
        let lacking: Vec<u32> = absent.map(|(rank, _)| *rank).collect();
        let mut told: Vec<String> =
            values.iter().map(|(value, ranks)| format!("{value} on {}", named(ranks))).collect();
        told.extend((!lacking.is_empty()).then(|| format!("nothing on {}", named(&lacking))));
        Some(Outcome { state: State::DiffersByRank, why: Some(told.join("; ")), lacking })
    }
}

/// Whether the variable reached each process; nothing when none is known to lack it.
fn seen(look: &Look) -> Option<Outcome> {
    let arrivals = arrivals(look);
    if let Some(differing) = arrivals.differing() {
        return Some(differing);
    }
    let overridden = arrivals.of.iter().all(|(_, arrival)| matches!(arrival, Arrival::Other(..)));
    let finding = |(_, arrival): (u32, Arrival)| match arrival {
        Arrival::Has | Arrival::Unknown => Finding::Holds,
        Arrival::Absent => Finding::Lacks("it is not in the environment of the process".to_owned()),
        Arrival::Other(_, place) => Finding::Lacks(place),
    };
    let findings: Vec<Finding> = arrivals.of.into_iter().map(finding).collect();
    let lost = findings.iter().any(|finding| *finding != Finding::Holds);
    lost.then(|| Outcome::sum(&findings, overridden))
}

fn arrived<'a>(look: &Look<'a>, rank: u32) -> Arrival<'a> {
    let Asked { name, value, .. } = look.asked;
    let Some(variables) = look.evidence.seen(rank) else { return Arrival::Unknown };
    // What NCCL read with the right value came to it somehow, through an environment plugin for example.
    if look.was_read(rank) {
        return Arrival::Has;
    }
    match variables.get(name) {
        Some(own) if own == value => Arrival::Has,
        Some(own) => Arrival::Other(own, format!("the environment of the process has {own}")),
        // NCCL takes from its files what the environment lacks, and of its files the first line that sets it.
        None => match look.evidence.files.iter().find(|line| line.name == *name) {
            Some(line) if line.value == *value => Arrival::Has,
            Some(line) => {
                let place = format!("{} sets {}, and the process's environment nothing", line.place, line.value);
                Arrival::Other(&line.value, place)
            }
            None => Arrival::Absent,
        },
    }
}

/// What NCCL read otherwise, or said it cannot use.
fn refused(look: &Look) -> Option<Outcome> {
    let Asked { name, value, .. } = look.asked;
    let reads: Vec<_> = look.reads().collect();
    if reads.iter().any(|read| read.refused) {
        return Some(Outcome::new(State::Overridden, format!("NCCL says that it cannot use {value}")));
    }
    let wrong: Vec<_> = reads.iter().filter(|read| !look.understands(read)).collect();
    let first = wrong.first()?;
    let plugin = look.evidence.read.as_ref().and_then(Read::env_plugin);
    let why = match plugin {
        Some(line) => format!("NCCL read {}, and says: {line}", first.value),
        None => format!("NCCL read {}", first.value),
    };
    // A line of nobody known may be anybody's.
    let touched = |rank: u32| wrong.iter().any(|read| read.ranks.contains(&rank) || read.ranks.is_empty());
    let finding = |rank: u32| if touched(rank) { Finding::Lacks(why.clone()) } else { Finding::Holds };
    let findings: Vec<_> = look.ranks().map(finding).collect();
    // A number that NCCL reads otherwise was spoilt by what stands behind it; a word came from elsewhere.
    Some(Outcome::sum(&findings, plugin.is_some() || !is_number(name)))
}

fn is_number(name: &str) -> bool {
    let kind = catalogue::get(name).map(|variable| &variable.kind);
    matches!(kind, Some(Kind::Integer { .. } | Kind::Switch(_) | Kind::Exact1))
}

/// A value that stands for no setting: nothing, or what NCCL takes anyway.
fn no_setting(look: &Look) -> Option<Outcome> {
    let Asked { name, value, .. } = look.asked;
    if let Some(why) = unset::why(name, value, look.version()) {
        return Some(Outcome::new(State::NoEffectHere, why));
    }
    let variable = catalogue::get(name)?;
    let default = variable.default.as_deref().filter(|_| is_number(name)).map(strtoll)?;
    // A default in words depends on something.
    let same = default.digits && default.rest.is_empty() && default.value == strtoll(value).value;
    same.then(|| Outcome::new(State::NoEffectHere, "it is what NCCL takes when nothing is set"))
}

/// NCCL copies where a communicator has one rank (`taskAppend`, 2.14 to 2.28): no algorithm, protocol, channel or transport.
fn alone(look: &Look) -> Option<Outcome> {
    let why = "with one rank NCCL runs no algorithm: it only copies";
    look.evidence.alone.then(|| Outcome::new(State::NoEffectHere, why))
}

/// Whether a value in the log is the one asked for, as NCCL writes it.
pub(super) fn same_value(name: &str, asked: &str, read: &str, version: Option<NcclVersion>) -> bool {
    let kind = catalogue::get(name).map(|variable| &variable.kind);
    let number = |text: &str| {
        let number = strtoll(text);
        (number.digits && number.rest.is_empty()).then_some(number.value)
    };
    match kind {
        Some(Kind::Level) => {
            PathLevel::read(read, version).is_some_and(|level| PathLevel::read(asked, version) == Some(level))
        }
        Some(Kind::Words { ignore_case: true, .. }) => asked.eq_ignore_ascii_case(read),
        // `4M` is read as 4: what is left over must count.
        _ if number(asked).is_some() => number(asked) == number(read),
        _ => asked == read || read.strip_suffix('.') == Some(asked),
    }
}

impl State {
    /// Whether the state stands in the way of a verdict.
    #[must_use]
    pub fn blocks(self) -> bool {
        !matches!(self, Self::Applied | Self::NoEffectHere)
    }

    /// Whether it is known not to be in effect, or not everywhere.
    #[must_use]
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Partly | Self::DiffersByRank | Self::Overridden | Self::NotApplied)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Applied => "applied",
            Self::NoEffectHere => "no effect here",
            Self::Partly => "partly",
            Self::DiffersByRank => "differs by rank",
            Self::Overridden => "overridden",
            Self::NotApplied => "not applied",
            Self::Unverified => "unverified",
        })
    }
}
