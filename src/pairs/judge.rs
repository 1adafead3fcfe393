//! What the pairs of a box tell: which two are slow, wrong or hang, and whether it is one GPU, or P2P as such.
//!
//! "Slow" is relative: pairs whose data travels the same way over the same kind of path do the same work, so one that is
//! far from the middle of its like has something in its way. Of two alike the slower is held against the other: which of them is
//! as it should be nobody tells, but nothing makes one faster than its path. A pair without its like is held against nothing.

use serde::{Deserialize, Serialize};

use super::{Pair, Pairs, Way};
use crate::record::visit::Outcome;
use crate::stats::median_of;
use crate::topology::Path;

/// How far from the middle of its like a pair is slow: many times the 2–5% by which communicators of one set differ
/// (docs/statistics.md), and less than half the lanes take.
const FAR: f64 = 1.3;
/// Pairs alike of which one can be called slow.
const ALIKE: usize = 2;

/// What is the matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// It did not end.
    Hang,
    /// A process died, or a library reported an error.
    Failure,
    /// Elements were wrong.
    WrongData,
    /// Much slower than its like.
    Slow,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Hang => "hang",
            Self::Failure => "failure",
            Self::WrongData => "wrong data",
            Self::Slow => "slow",
        })
    }
}

/// One trouble, the pairs that have it, and what it points to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What is the matter.
    pub trouble: Trouble,
    /// On which way.
    pub way: Way,
    /// The pairs, by positions in [`Pairs::gpus`].
    pub pairs: Vec<(usize, usize)>,
    /// The GPU that all of them have in common, when every pair of it is concerned.
    pub gpu: Option<usize>,
    /// What was seen, naming GPUs by number and address.
    pub text: String,
    /// The next step.
    pub next: String,
}

/// All that is the matter, the worst first.
#[must_use]
pub fn judge(of: &Pairs) -> Vec<Finding> {
    let mut findings = Vec::new();
    for way in Way::ALL {
        for trouble in [Trouble::Hang, Trouble::Failure, Trouble::WrongData, Trouble::Slow] {
            let struck: Vec<&Pair> =
                of.pairs.iter().filter(|p| p.way == way && trouble_of(of, p) == Some(trouble)).collect();
            if !struck.is_empty() {
                findings.push(finding(of, trouble, way, &struck));
            }
        }
    }
    findings.sort_by_key(|finding| finding.trouble);
    findings
}

/// The worst trouble of all.
#[must_use]
pub fn worst(findings: &[Finding]) -> Option<Trouble> {
    findings.iter().map(|finding| finding.trouble).min()
}

/// What is the matter with one pair on its way.
#[must_use]
pub fn trouble_of(of: &Pairs, pair: &Pair) -> Option<Trouble> {
    match &pair.outcome {
        Outcome::Completed => (slowdown(of, pair)? > FAR).then_some(Trouble::Slow),
        Outcome::WrongData => Some(Trouble::WrongData),
        Outcome::TimedOut { .. } => Some(Trouble::Hang),
        Outcome::NotRun { .. } | Outcome::Interrupted | Outcome::HostLost { .. } => None,
        Outcome::Failed { .. }
        | Outcome::WorkerError { .. }
        | Outcome::Crashed { .. }
        | Outcome::Exited { .. }
        | Outcome::Flooded { .. }
        | Outcome::SpawnFailed { .. }
        | Outcome::BrokenWire { .. } => Some(Trouble::Failure),
    }
}

/// A figure of a pair, as a time: the larger, the slower.
type Time = fn(&Pair) -> Option<f64>;

/// The figures of a pair: latencies, then bandwidths, each of all-reduce and of send/recv.
const TIMES: [Time; 4] = [
    |pair| pair.all_reduce.latency_us,
    |pair| pair.send_recv.latency_us,
    |pair| pair.all_reduce.bandwidth_gbps.map(f64::recip),
    |pair| pair.send_recv.bandwidth_gbps.map(f64::recip),
];

/// Which figures of a pair are far from those of its like: its latencies of all-reduce and send/recv, then its bandwidths.
#[must_use]
pub fn is_far(of: &Pairs, pair: &Pair) -> [bool; 4] {
    slowdowns(of, pair).map(|slowdown| slowdown.is_some_and(|slowdown| slowdown > FAR))
}

/// How many times slower a pair is than the middle of its like, in the figure in which it is slowest.
fn slowdown(of: &Pairs, pair: &Pair) -> Option<f64> {
    slowdowns(of, pair).into_iter().flatten().reduce(f64::max)
}

/// The same for each figure; `None` where no other is alike.
fn slowdowns(of: &Pairs, pair: &Pair) -> [Option<f64>; 4] {
    let alike = alike(of, pair);
    TIMES.map(|time| {
        let all: Vec<f64> = alike.iter().filter_map(|other| time(other)).collect();
        let own = time(pair).filter(|_| all.len() >= ALIKE)?;
        // The middle of two would be half way to the slow one.
        let usual = if let [one, other] = all[..] { one.min(other) } else { median_of(all) };
        Some(own / usual).filter(|slowdown| slowdown.is_finite())
    })
}

/// Pairs that completed and whose data went the same way over the same kind of path, this one among them.
fn alike<'a>(of: &'a Pairs, pair: &Pair) -> Vec<&'a Pair> {
    let (path, used) = (path(of, pair), pair.used_p2p());
    let alike = |other: &&Pair| {
        let same = other.way == pair.way && other.used_p2p() == used && self::path(of, other) == path;
        same && other.outcome.is_completed()
    };
    of.pairs.iter().filter(alike).collect()
}

/// Pairs that were measured and of which none is alike, so that nothing tells whether they are slow.
pub fn without_like(of: &Pairs) -> impl Iterator<Item = &Pair> {
    of.pairs.iter().filter(|pair| pair.outcome.is_completed() && alike(of, pair).len() < ALIKE)
}

/// What lies between the GPUs of a pair.
pub(super) fn path(of: &Pairs, pair: &Pair) -> Path {
    let at = |gpu: usize| of.topology.gpu_at(of.gpus.get(gpu)?.bus_id()?);
    match (at(pair.a), at(pair.b)) {
        (Some(a), Some(b)) => of.topology.path(a, b),
        _ => Path::Unknown,
    }
}

fn finding(of: &Pairs, trouble: Trouble, way: Way, struck: &[&Pair]) -> Finding {
    let pairs: Vec<(usize, usize)> = struck.iter().map(|pair| (pair.a, pair.b)).collect();
    let gpu = common_gpu(of, way, &pairs);
    let shown: Vec<String> = pairs.iter().map(|(a, b)| format!("{} – {}", of.name(*a), of.name(*b))).collect();
    let who = match gpu {
        Some(gpu) => format!("every pair of {}", of.name(gpu)),
        None if is_all(of, way, &pairs) && pairs.len() > 1 => "every pair".to_owned(),
        None => shown.join(", "),
    };
    let what = match trouble {
        Trouble::Hang => format!("over {way} nothing comes back between {who}"),
        Trouble::Failure => format!("over {way} {who} cannot talk: {}", struck[0].outcome),
        Trouble::WrongData => format!("over {way} data arrives wrong between {who}{}", example(struck[0])),
        Trouble::Slow => {
            let most = struck.iter().filter_map(|pair| slowdown(of, pair)).fold(1.0, f64::max);
            let others = if struck.iter().all(|pair| alike(of, pair).len() == 2) { "the only other" } else { "others" };
            format!(
                "over {way} {who} {} up to {most:.1} times slower than {others} alike",
                if pairs.len() > 1 { "are" } else { "is" }
            )
        }
    };
    let next = match struck.iter().find_map(|pair| pair.diagnosis.as_ref()) {
        Some(diagnosis) if trouble != Trouble::Slow => format!("{}; {}", diagnosis.meaning, diagnosis.next),
        _ => next(of, trouble, way, gpu, &pairs),
    };
    Finding { trouble, way, pairs, gpu, text: what, next }
}

fn example(pair: &Pair) -> String {
    pair.first_wrong.as_ref().map_or_else(String::new, |wrong| {
        format!(
            " ({} outputs of {}, e.g. {} for {})",
            pair.wrong_outputs, pair.checked_outputs, wrong.found, wrong.expected
        )
    })
}

/// The GPU that all these pairs have in common, when it has others too and none of them is well.
fn common_gpu(of: &Pairs, way: Way, pairs: &[(usize, usize)]) -> Option<usize> {
    let &(a, b) = pairs.first()?;
    let has = |gpu: usize| move |(a, b): &(usize, usize)| *a == gpu || *b == gpu;
    let tried =
        |gpu: usize| of.pairs.iter().filter(move |p| p.way == way && is_tried(p) && has(gpu)(&(p.a, p.b))).count();
    let mut guilty = [a, b].into_iter().filter(|&gpu| pairs.iter().all(has(gpu)) && tried(gpu) == pairs.len());
    let one = guilty.next().filter(|_| pairs.len() > 1)?;
    guilty.next().is_none().then_some(one)
}

fn is_tried(pair: &Pair) -> bool {
    !matches!(pair.outcome, Outcome::NotRun { .. } | Outcome::Interrupted)
}

fn is_all(of: &Pairs, way: Way, pairs: &[(usize, usize)]) -> bool {
    of.pairs.iter().filter(|pair| pair.way == way && is_tried(pair)).count() == pairs.len()
}

fn next(of: &Pairs, trouble: Trouble, way: Way, gpu: Option<usize>, pairs: &[(usize, usize)]) -> String {
    let well_through_host =
        of.pairs.iter().filter(|pair| pair.way == Way::HostMemory).all(|p| p.outcome.is_completed());
    let pci = |gpu: usize| of.gpus.get(gpu).map_or("?", |gpu| gpu.pci.as_str());
    match (trouble, way, gpu) {
        (_, _, Some(gpu)) => format!(
            "that GPU, its slot or its riser: `ncclsweep topo` shows its link, `dmesg | grep -i {}` its errors; swap it with another",
            pci(gpu)
        ),
        (Trouble::Hang | Trouble::WrongData, Way::P2p, None) if well_through_host => {
            "peer-to-peer is broken there, host memory is not: ACS or an IOMMU that translates; switch them off, or keep \
             NCCL_P2P_DISABLE=1"
                .to_owned()
        }
        (Trouble::Slow, _, None) if pairs.len() == 1 => {
            "what only these two share: a switch, a bridge, a cable; `ncclsweep topo --load` shows the links".to_owned()
        }
        _ => "`ncclsweep topo --load` shows the links, `dmesg` their errors".to_owned(),
    }
}

#[cfg(test)]
mod tests;
