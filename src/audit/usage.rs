//! What was used for which size, over all workers: [`usage`] for people, [`mix`] for measuring the same again.

use std::collections::BTreeMap;

use nccl_profiler_ncclsweep::journal::Tallied;
use nccl_profiler_ncclsweep::recorder::{self, Api};
use serde::Serialize;

use super::{Audit, is_all_reduce};
use crate::collective::{Dtype, Size};
use crate::proof::{Channels, Source, Used};

/// Collectives of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// `AllReduce`, …
    pub function: String,
    /// The data type: `bf16`, or NCCL's name where this program has none.
    pub datatype: String,
    /// Elements of a call.
    pub count: u64,
    /// Bytes of a call, where the element's size is known.
    pub bytes: Option<u64>,
    /// What was used.
    pub used: Used,
    /// Calls of a rank, on all of its communicators.
    pub calls: Calls,
    /// Workers that made them, as indices.
    pub workers: Vec<usize>,
}

/// Numbers of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// That ran.
    pub eager: u64,
    /// That were captured into a graph, once each however often it is replayed; once for each replay where a proxy works
    /// for them.
    pub captured: u64,
    /// Of which NCCL did not tell which they were.
    pub untold: u64,
}

impl Calls {
    fn of(tallied: &Tallied) -> Self {
        Self { eager: tallied.eager, captured: tallied.captured, untold: tallied.untold }
    }

    /// All of them.
    #[must_use]
    pub fn all(self) -> u64 {
        self.eager + self.captured + self.untold
    }

    /// Ranks of one communicator make the same calls: the one that told most is nearest to the truth.
    fn most(self, other: Self) -> Self {
        if other.all() > self.all() { other } else { self }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            eager: self.eager + other.eager,
            captured: self.captured + other.captured,
            untold: self.untold + other.untold,
        }
    }
}

/// Our short name of NCCL's data type, or NCCL's own.
fn datatype(name: &str) -> String {
    dtype(name).map_or_else(|| name.trim_start_matches("nccl").to_owned(), |dtype| dtype.short().to_owned())
}

/// The data type that NCCL calls so: `ncclBfloat16`.
pub(super) fn dtype(name: &str) -> Option<Dtype> {
    name.strip_prefix("nccl")?.to_ascii_lowercase().parse().ok()
}

/// What a line of a journal tells of one call.
pub(super) fn used(tallied: &Tallied, api: Api) -> Used {
    Used {
        source: Source::Plugin(api),
        algorithm: tallied.algorithm.to_string().into(),
        protocol: tallied.protocol.to_string().into(),
        channels: tallied.channels.map(|channels| match channels {
            recorder::Channels::Used(count) => Channels::Exactly(count.into()),
            recorder::Channels::AtMost(count) => Channels::AtMost(count.into()),
        }),
        warps: Some(tallied.warps),
        captured: None,
    }
}

/// All kinds, by number of calls.
#[must_use]
pub fn usage(audit: &Audit) -> Vec<Usage> {
    // By kind, then by communicator.
    let mut kinds: Vec<(Usage, BTreeMap<u64, Calls>)> = Vec::new();
    for (at, worker) in audit.workers.iter().enumerate() {
        for communicator in &worker.communicators {
            for tallied in &communicator.collectives {
                let kind = kind(tallied, communicator.told.api);
                let index = kinds.iter().position(|(known, _)| same(known, &kind)).unwrap_or_else(|| {
                    kinds.push((kind, BTreeMap::new()));
                    kinds.len() - 1
                });
                let (kind, calls) = &mut kinds[index];
                if !kind.workers.contains(&at) {
                    kind.workers.push(at);
                }
                let calls = calls.entry(communicator.told.hash).or_default();
                *calls = calls.most(Calls::of(tallied));
            }
        }
    }
    let sum = |(kind, calls): (Usage, BTreeMap<u64, Calls>)| {
        let calls = calls.into_values().fold(Calls::default(), Calls::plus);
        Usage { calls, ..kind }
    };
    let mut usage: Vec<Usage> = kinds.into_iter().map(sum).collect();
    usage.sort_by_key(|kind| std::cmp::Reverse((kind.calls.all(), kind.count)));
    usage
}

fn kind(tallied: &Tallied, api: Api) -> Usage {
    Usage {
        function: tallied.function.to_string(),
        datatype: datatype(tallied.datatype.as_str()),
        count: tallied.count,
        bytes: tallied.bytes,
        used: used(tallied, api),
        calls: Calls::default(),
        workers: Vec::new(),
    }
}

/// Whether two are of one kind, whoever made them and told of them.
fn same(one: &Usage, other: &Usage) -> bool {
    let seen = |of: &Usage| Used { source: Source::Log, ..of.used.clone() };
    (&one.function, &one.datatype, one.count) == (&other.function, &other.datatype, other.count)
        && seen(one) == seen(other)
}

/// The all-reduces of an audit, as sizes to measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mix {
    /// Ranks of the communicators that made them; nothing where NCCL did not tell (before 2.27).
    pub ranks: Option<u32>,
    /// Sizes by their share of the calls, the largest first.
    pub shares: Vec<Share>,
    /// All-reduces of a rank that are in none of the sizes: on communicators of another number of ranks, or of a type that
    /// has no name.
    pub left_out: u64,
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The data type.
    pub dtype: Dtype,
    /// The message.
    pub size: Size,
    /// Calls of a rank.
    pub calls: u64,
    /// Of these, calls that were captured into a graph.
    pub captured: u64,
}

impl Mix {
    /// Calls of a rank, of all sizes.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shares.iter().map(|share| share.calls).sum()
    }
}

/// The mix of the communicators that made most all-reduces: a server's communicators of another number of ranks do another job.
/// Nothing when there was no all-reduce among several ranks.
#[must_use]
pub fn mix(audit: &Audit) -> Option<Mix> {
    // By number of ranks, then by size, then by communicator.
    type Sizes = BTreeMap<(Dtype, u64), BTreeMap<u64, Calls>>;
    let mut by_ranks: BTreeMap<Option<u32>, Sizes> = BTreeMap::new();
    let mut nameless = 0;
    for communicator in audit.workers.iter().flat_map(|worker| &worker.communicators) {
        // Algorithms may differ from call to call of one size: the size counts here.
        let mut own: BTreeMap<(Dtype, u64), Calls> = BTreeMap::new();
        for tallied in communicator.collectives.iter().filter(|tallied| is_all_reduce(tallied)) {
            match dtype(tallied.datatype.as_str()).filter(|_| tallied.count > 0) {
                Some(dtype) => {
                    let calls = own.entry((dtype, tallied.count)).or_default();
                    *calls = calls.plus(Calls::of(tallied));
                }
                None => nameless += tallied.calls(),
            }
        }
        for (size, calls) in own {
            let sizes = by_ranks.entry(communicator.told.ranks).or_default().entry(size).or_default();
            let known = sizes.entry(communicator.told.hash).or_default();
            *known = known.most(calls);
        }
    }
    let shares = |sizes: &Sizes| {
        let share = |(&(dtype, count), calls): (&(Dtype, u64), &BTreeMap<u64, Calls>)| {
            let calls = calls.values().copied().fold(Calls::default(), Calls::plus);
            Share { dtype, size: Size::elements(count), calls: calls.all(), captured: calls.captured }
        };
        let mut shares: Vec<Share> = sizes.iter().map(share).collect();
        shares.sort_by_key(|share| std::cmp::Reverse((share.calls, share.size)));
        shares
    };
    let all: Vec<Mix> = by_ranks
        .iter()
        .map(|(ranks, sizes)| Mix { ranks: *ranks, shares: shares(sizes), left_out: nameless })
        .collect();
    let total: u64 = all.iter().map(Mix::calls).sum();
    let most = all.into_iter().max_by_key(Mix::calls)?;
    Some(Mix { left_out: nameless + total - most.calls(), ..most })
}
