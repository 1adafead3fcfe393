//! Pairs of GPUs tried alone after a set failed, and which GPU or pair is to suspect by them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::visit::Outcome;
use crate::plan::schedule::Arm;

/// One pair of GPUs under a set that failed on all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PairTried {
    /// The set and its library.
    pub arm: Arm,
    /// CUDA ordinals of the two, in the order of the plan.
    pub gpus: [u32; 2],
    /// UTC time of the start.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started: jiff::Timestamp,
    /// Wall time, seconds.
    pub seconds: f64,
    /// How it ended.
    pub outcome: Outcome,
}

impl PairTried {
    fn passed(&self) -> bool {
        self.outcome.is_completed()
    }
}

/// What the pairs of one arm say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suspect {
    /// No two GPUs fail alone.
    Nothing,
    /// All that was tried fails: the set itself, on this box.
    Everything,
    /// These GPUs: pairs with one of them fail, others pass.
    Gpus(Vec<u32>),
    /// What lies between these groups: every pair across them fails, every pair within one passes.
    Between(Vec<Vec<u32>>),
    /// These pairs, in which no GPU stands out.
    Pairs(Vec<[u32; 2]>),
}

impl Suspect {
    /// What `tried`, pairs of one arm, says.
    #[must_use]
    pub fn of(tried: &[&PairTried]) -> Self {
        let failed: Vec<[u32; 2]> = tried.iter().filter(|pair| !pair.passed()).map(|pair| pair.gpus).collect();
        let passed: Vec<[u32; 2]> = tried.iter().filter(|pair| pair.passed()).map(|pair| pair.gpus).collect();
        if failed.is_empty() {
            return Self::Nothing;
        }
        if passed.is_empty() {
            return Self::Everything;
        }
        if failed.len() == 1 {
            return Self::Pairs(failed);
        }
        by_one_gpu(&failed).or_else(|| by_groups(&failed, &passed)).unwrap_or(Self::Pairs(failed))
    }
}

/// One GPU that all failing pairs have in common.
fn by_one_gpu(failed: &[[u32; 2]]) -> Option<Suspect> {
    let [first, others @ ..] = failed else { return None };
    let common = first.iter().find(|gpu| others.iter().all(|pair| pair.contains(gpu)))?;
    Some(Suspect::Gpus(vec![*common]))
}

/// GPUs that pass with each other form groups. When pairs fail exactly across them, the groups tell: one that stands against
/// lone GPUs makes those the suspects, else what lies between the groups is.
fn by_groups(failed: &[[u32; 2]], passed: &[[u32; 2]]) -> Option<Suspect> {
    let mut groups: Vec<BTreeSet<u32>> =
        failed.iter().chain(passed).flatten().map(|gpu| BTreeSet::from([*gpu])).collect();
    groups.sort();
    groups.dedup();
    for [one, other] in passed {
        let (mut joined, apart): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.contains(one) || group.contains(other));
        groups = apart;
        groups.push(joined.drain(..).flatten().collect());
    }
    let within = |pair: &[u32; 2]| groups.iter().any(|group| pair.iter().all(|gpu| group.contains(gpu)));
    if failed.iter().any(within) {
        return None;
    }
    groups.sort();
    let (alone, large): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.len() == 1);
    if large.len() == 1 && !alone.is_empty() {
        return Some(Suspect::Gpus(alone.into_iter().flatten().copied().collect()));
    }
    Some(Suspect::Between(groups.iter().map(|group| group.iter().copied().collect()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What pairs of `gpus` GPUs say, of which those fail that `fails` says.
    fn suspect(gpus: u32, fails: impl Fn(u32, u32) -> bool) -> Suspect {
        let pairs = (0..gpus).flat_map(|one| (one + 1..gpus).map(move |other| [one, other]));
        let tried: Vec<PairTried> = pairs
            .map(|gpus| PairTried {
                arm: Arm { set: 1, ..Arm::default() },
                gpus,
                started: jiff::Timestamp::UNIX_EPOCH,
                seconds: 1.0,
                outcome: if fails(gpus[0], gpus[1]) { Outcome::WrongData } else { Outcome::Completed },
            })
            .collect();
        Suspect::of(&tried.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_gpu_with_which_every_pair_fails_is_the_suspect() {
        assert_eq!(suspect(8, |one, other| one == 5 || other == 5), Suspect::Gpus(vec![5]));
        assert_eq!(suspect(3, |one, other| one == 0 || other == 0), Suspect::Gpus(vec![0]));
        let some = |one, other| (one, other) == (2, 5) || (one, other) == (5, 7);
        assert_eq!(suspect(8, some), Suspect::Gpus(vec![5]), "also when some of its pairs passed");
    }

    #[test]
    fn two_bad_gpus_are_both_named() {
        let bad = |gpu: u32| gpu == 1 || gpu == 6;
        assert_eq!(suspect(8, |one, other| bad(one) || bad(other)), Suspect::Gpus(vec![1, 6]));
    }

    #[test]
    fn one_pair_alone_is_the_suspect_and_no_gpu() {
        assert_eq!(suspect(8, |one, other| [one, other] == [2, 7]), Suspect::Pairs(vec![[2, 7]]));
    }

    #[test]
    fn pairs_that_fail_across_two_sockets_point_between_them() {
        let groups = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        assert_eq!(suspect(8, |one, other| (one < 4) != (other < 4)), Suspect::Between(groups));
        let switches = vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
        assert_eq!(suspect(8, |one, other| one / 2 != other / 2), Suspect::Between(switches));
    }

    #[test]
    fn pairs_without_a_pattern_are_listed() {
        let pairs = [[0, 1], [2, 3]];
        assert_eq!(suspect(8, |one, other| pairs.contains(&[one, other])), Suspect::Pairs(pairs.to_vec()));
    }

    #[test]
    fn all_or_none_points_at_no_gpu() {
        assert_eq!(suspect(4, |_, _| true), Suspect::Everything);
        assert_eq!(suspect(4, |_, _| false), Suspect::Nothing);
    }
}
