//! [`Look`]: one variable in one case, and the questions rules ask of the evidence.

use std::collections::{BTreeMap, BTreeSet};

use crate::collective::Case;
use crate::nccl::number::strtoll;
use crate::nccl::version::NcclVersion;
use crate::nccl::words::Transport;
use crate::proof::evidence::{Asked, Evidence};
use crate::proof::ranks::{Finding, Outcome};
use crate::proof::read::{EnvRead, RankRead, Read};
use crate::proof::used::Used;
use crate::proof::variable::{State, same_value};

/// Connections of every pair of ranks.
pub(in crate::proof) type Pairs<'a> = BTreeMap<(u32, u32), BTreeSet<&'a Transport>>;

/// One variable in one case.
#[derive(Clone, Copy)]
pub(in crate::proof) struct Look<'a> {
    pub evidence: &'a Evidence,
    pub index: usize,
    pub case: &'a Case,
    pub asked: &'a Asked,
}

impl<'a> Look<'a> {
    pub fn ranks(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.evidence.ranks()
    }

    pub fn version(&self) -> Option<NcclVersion> {
        self.evidence.version
    }

    /// The value as NCCL reads a number.
    pub fn number(&self) -> i64 {
        strtoll(&self.asked.value).value
    }

    /// Another variable as a number, where something sets it.
    pub fn other(&self, name: &str) -> Option<i64> {
        self.evidence.effective(name).filter(|value| !value.is_empty()).map(|value| strtoll(value).value)
    }

    /// Lines of the log about the variable.
    pub fn reads(&self) -> impl Iterator<Item = &'a EnvRead> + use<'a> {
        let name = self.asked.name.as_str();
        let disabled = self.peer_access_off();
        // Up to 2.22, NCCL_P2P_DISABLE=1 is logged as the level it becomes.
        let is = move |read: &&EnvRead| match name {
            "NCCL_P2P_LEVEL" if disabled => false,
            "NCCL_P2P_DISABLE" if disabled && read.name == "NCCL_P2P_LEVEL" => read.value == "LOC",
            _ => read.name == name,
        };
        self.evidence.read.iter().flat_map(|read| &read.env).filter(is)
    }

    /// Whether a line tells the value asked for.
    pub fn understands(&self, read: &EnvRead) -> bool {
        let Asked { name, value, .. } = self.asked;
        read.name != *name || same_value(name, value, &read.value, self.version())
    }

    /// Whether the process of `rank` said that it read the value asked for, and no other.
    pub fn was_read(&self, rank: u32) -> bool {
        let mut lines = self.reads().filter(|read| read.ranks.contains(&rank)).peekable();
        lines.peek().is_some() && lines.all(|read| !read.refused && self.understands(read))
    }

    /// Whether every rank's process read it.
    pub fn was_read_by_all(&self) -> bool {
        self.evidence.ranks() > 0 && self.ranks().all(|rank| self.was_read(rank))
    }

    /// Whether P2P is off for all pairs by `NCCL_P2P_DISABLE`: then the level is never read.
    pub fn peer_access_off(&self) -> bool {
        const NAME: &str = "NCCL_P2P_DISABLE";
        let one = |value: &str| strtoll(value).value == 1;
        let asked = self.evidence.effective(NAME).is_some_and(one);
        let told = self.evidence.read.iter().flat_map(|read| read.env(NAME)).any(|read| one(&read.value));
        let seen = self.evidence.seen.iter().any(|seen| seen.variables.get(NAME).is_some_and(one));
        // Asked for and not there is not off.
        told || seen || (asked && self.evidence.seen.is_empty())
    }

    /// Whether all ranks are on one host, as far as that is known.
    pub fn on_one_host(&self) -> bool {
        self.ranks().all(|rank| self.evidence.on_one_host(0, rank))
    }

    /// What `rank` used, on every communicator.
    pub fn used(&self, rank: u32) -> Option<Vec<&'a Used>> {
        self.evidence.used(self.index, self.case, rank)
    }

    /// What all ranks used; nothing when it is not known of one.
    pub fn all_used(&self) -> Option<Vec<&'a Used>> {
        let each: Option<Vec<_>> = self.ranks().map(|rank| self.used(rank)).collect();
        each.map(|each| each.concat()).filter(|used| !used.is_empty())
    }

    /// Whether it is known that no rank's use is like this.
    pub fn none_used(&self, like: impl Fn(&Used) -> bool) -> bool {
        self.all_used().is_some_and(|used| !used.iter().any(|used| like(used)))
    }

    /// The sum of what `find` makes of every use on every rank.
    pub fn each_use(&self, find: impl Fn(u32, &Used) -> Finding) -> Outcome {
        let unknown =
            || Finding::Unknown("what was used in this case was not recorded on every communicator".to_owned());
        let of_rank = |rank| match self.used(rank) {
            Some(used) => used.into_iter().map(|used| find(rank, used)).fold(Finding::Holds, Finding::and),
            None => unknown(),
        };
        self.each_rank(of_rank)
    }

    /// The sum of what `find` makes of every rank.
    pub fn each_rank(&self, find: impl Fn(u32) -> Finding) -> Outcome {
        let findings: Vec<Finding> = self.ranks().map(find).collect();
        Outcome::sum(&findings, self.was_read_by_all())
    }

    /// How all pairs are connected, where known; those of ranks that share a GPU too.
    pub fn all_pairs(&self) -> Option<Pairs<'a>> {
        self.evidence.read.as_ref()?.transports(self.evidence.ranks(), self.evidence.communicators)
    }

    /// How pairs on different GPUs of one host are connected: ranks on one GPU, and those on different hosts, reach each other
    /// whatever is set.
    pub fn pairs(&self) -> Option<Pairs<'a>> {
        let device = |rank: u32| self.evidence.devices.get(rank as usize);
        let mut pairs = self.all_pairs()?;
        pairs.retain(|(from, to), _| device(*from) != device(*to) && self.evidence.on_one_host(*from, *to));
        Some(pairs)
    }

    /// The sum of what `find` makes of every connection in `pairs`, told at the sending rank.
    pub fn each_pair(&self, pairs: Option<Pairs>, find: impl Fn((u32, u32), &Transport) -> Finding) -> Outcome {
        let Some(pairs) = pairs else {
            return Outcome::new(State::Unverified, "the log does not tell how every pair is connected");
        };
        if let Some(none) = self.no_pair(&pairs) {
            return none;
        }
        let of_rank = |rank: u32| {
            let sends = pairs.iter().filter(|((from, _), _)| *from == rank);
            let found = sends.flat_map(|(pair, via)| via.iter().map(|transport| find(*pair, transport)));
            found.fold(Finding::Holds, Finding::and)
        };
        self.each_rank(of_rank)
    }

    /// What that means when there is no pair of GPUs.
    pub fn no_pair(&self, pairs: &Pairs) -> Option<Outcome> {
        let why = if self.on_one_host() { "all ranks share one GPU" } else { "no two GPUs are in one host" };
        pairs.is_empty().then(|| Outcome::new(State::NoEffectHere, why))
    }

    /// What the log tells of `rank` on every communicator; nothing when it does not tell of one.
    pub fn logged(&self, rank: u32) -> Option<Vec<&'a RankRead>> {
        let read: &Read = self.evidence.read.as_ref()?;
        let each = read.communicators.iter().map(|of| of.ranks.iter().find(|of| of.rank == rank));
        let all: Option<Vec<_>> = each.collect();
        all.filter(|all| !all.is_empty() && all.len() == self.evidence.communicators as usize)
    }

    /// `used: Ring LL, 1 channel, 512 threads (profiler plugin v4)`.
    pub fn used_in_words(&self) -> String {
        let mut told: Vec<String> = Vec::new();
        for used in self.ranks().filter_map(|rank| self.used(rank)).flatten() {
            let words = format!("{used} ({})", used.source);
            if !told.contains(&words) {
                told.push(words);
            }
        }
        if told.is_empty() { "used: not recorded".to_owned() } else { format!("used: {}", told.join("; ")) }
    }
}
