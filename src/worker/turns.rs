//! What comes when, the same on all ranks: the order of the cases, and where timed calls pause so that data can be looked at.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::collective::{Case, Placement};
use crate::plan::schedule::Measure;

/// The cases of one communicator, in their order the first time, then in orders that the seed chooses: a size that follows
/// another finds what that left behind.
pub(super) fn order(cases: usize, passes: u32, seed: u64) -> Vec<usize> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut all: Vec<usize> = (0..cases).collect();
    for _ in 1..passes {
        let mut pass: Vec<usize> = (0..cases).collect();
        pass.shuffle(&mut generator);
        all.extend(pass);
    }
    all
}

/// The lengths of the stretches in which the samples of a case are taken. In place there is nothing to compare between them.
pub(super) fn stretches(measure: &Measure, case: &Case, seed: u64) -> Vec<usize> {
    let samples = measure.samples(case.mode);
    let between = samples.saturating_sub(1);
    let looks = match case.placement {
        Placement::OutOfPlace => between.min(Measure::LOOKS.saturating_mul(measure.checks) as usize),
        Placement::InPlace => 0,
    };
    let mut ends = rand::seq::index::sample(&mut ChaCha8Rng::seed_from_u64(seed), between, looks).into_vec();
    ends.sort_unstable();
    let mut begun = 0;
    let lengths =
        ends.into_iter().map(|end| end + 1).chain([samples]).map(|end| end - std::mem::replace(&mut begun, end));
    lengths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Dtype, Function, Mode, Op, Size};

    fn case(placement: Placement) -> Case {
        Case {
            size: Size::elements(8),
            dtype: Dtype::Bfloat16,
            op: Op::Sum,
            placement,
            mode: Mode::Graph,
            function: Function::AllReduce,
        }
    }

    fn measure(replays: u32, checks: u32) -> Measure {
        Measure { replays, checks, ..Measure::default() }
    }

    #[test]
    fn every_pass_has_every_case_once_and_the_first_in_order() {
        let order = order(5, 3, 7);
        assert_eq!(order[..5], [0, 1, 2, 3, 4]);
        for pass in order.chunks(5) {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4]);
        }
        assert_ne!(order[5..10], order[10..], "another order each time");
        assert_eq!(super::order(5, 1, 7), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn every_sample_is_in_one_stretch_and_no_stretch_is_empty() {
        for (replays, checks, pauses) in [(20, 1, 3), (20, 2, 6), (4, 1, 3), (4, 9, 3), (2, 1, 1), (1, 1, 0)] {
            for seed in 0..50 {
                let lengths = stretches(&measure(replays, checks), &case(Placement::OutOfPlace), seed);
                assert_eq!(lengths.iter().sum::<usize>(), replays as usize);
                assert_eq!(lengths.len(), pauses + 1);
                assert!(lengths.iter().all(|length| *length > 0), "{lengths:?}");
            }
        }
    }

    #[test]
    fn over_some_seeds_every_place_but_the_last_is_looked_at_as_often() {
        let mut looked = [0; 19];
        for seed in 0..4000 {
            let mut end = 0;
            for length in stretches(&measure(20, 1), &case(Placement::OutOfPlace), seed) {
                end += length;
                if end < 20 {
                    looked[end - 1] += 1;
                }
            }
        }
        let expected = 4000 * 3 / 19;
        assert!(looked.iter().all(|count| (expected - 120..expected + 120).contains(count)), "{looked:?}");
    }

    #[test]
    fn in_place_the_timed_calls_do_not_pause() {
        assert_eq!(stretches(&measure(20, 5), &case(Placement::InPlace), 1), [20]);
    }
}
