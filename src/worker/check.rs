//! The data check: untimed all-reduces from fresh inputs into poisoned outputs, every element compared.

use rayon::prelude::*;

use super::data::{CaseData, decode};
use crate::record::visit::{Among, Checks, WrongElement};

/// Outputs of more bytes than this are compared on all cores.
const PARALLEL_BYTES: usize = 4 << 20;

/// Compares `outputs`, a sequence of whole outputs of `rank`, with what the reduction must give.
pub(super) fn compare(data: &CaseData, rank: u32, outputs: &[u8]) -> Checks {
    let one = |(call, output): (usize, &[u8])| -> Checks {
        let first_wrong = first_wrong(data, rank, output).map(|element| {
            let bytes = element * data.dtype.bytes() as usize..(element + 1) * data.dtype.bytes() as usize;
            let text = |of: &[u8]| decode(data.dtype, &of[bytes.clone()]).to_string();
            Box::new(WrongElement {
                rank,
                among: Among::Chain,
                call: call as u32,
                element: element as u64,
                found: text(output),
                expected: text(data.expected(rank)),
            })
        });
        Checks { outputs: 1, wrong: u64::from(first_wrong.is_some()), first_wrong }
    };
    let sum = |mut all: Checks, next: Checks| {
        all.add(next);
        all
    };
    if outputs.len() > PARALLEL_BYTES {
        // `reduce` keeps the order, so the first wrong element is the same on any number of threads.
        outputs.par_chunks_exact(data.bytes()).enumerate().map(one).reduce(Checks::default, sum)
    } else {
        outputs.chunks_exact(data.bytes()).enumerate().map(one).fold(Checks::default(), sum)
    }
}

/// Index of the first element that is wrong. NaN equals nothing: expected values are never NaN.
fn first_wrong(data: &CaseData, rank: u32, output: &[u8]) -> Option<usize> {
    let expected = data.expected(rank);
    if output == expected {
        return None;
    }
    let width = data.dtype.bytes() as usize;
    let tolerance = data.tolerance();
    output.chunks_exact(width).zip(expected.chunks_exact(width)).position(|(found, expected)| {
        let (found, expected) = (decode(data.dtype, found), decode(data.dtype, expected));
        let close = (found - expected).abs() <= tolerance * expected.abs();
        !close
    })
}

#[cfg(test)]
mod tests {
    use super::super::data::{POISON, for_cases};
    use super::*;
    use crate::collective::{Case, Dtype, Function, Mode, Op, Placement, Size};

    fn data(dtype: Dtype, op: Op, ranks: u32) -> CaseData {
        let size = Size::elements(1000);
        let (placement, mode, function) = (Placement::OutOfPlace, Mode::Graph, Function::AllReduce);
        let case = Case { size, dtype, op, placement, mode, function };
        for_cases(&[case], ranks, 1).remove(0)
    }

    #[test]
    fn right_outputs_pass_and_are_counted() {
        let data = data(Dtype::Bfloat16, Op::Sum, 8);
        let outputs = data.expected(0).repeat(5);
        assert_eq!(compare(&data, 3, &outputs), Checks { outputs: 5, wrong: 0, first_wrong: None });
    }

    #[test]
    fn one_wrong_element_is_found_and_named() {
        let data = data(Dtype::Bfloat16, Op::Sum, 8);
        let mut outputs = data.expected(0).repeat(3);
        let at = data.bytes() + 2 * 77;
        outputs[at..at + 2].copy_from_slice(&half::bf16::from_f32(-1.0).to_le_bytes());
        let checks = compare(&data, 3, &outputs);
        assert_eq!((checks.outputs, checks.wrong), (3, 1));
        let wrong = checks.first_wrong.unwrap();
        assert_eq!((wrong.rank, wrong.call, wrong.element, wrong.found.as_str()), (3, 1, 77, "-1"));
    }

    #[test]
    fn an_output_nobody_wrote_is_wrong_in_every_type() {
        for dtype in Dtype::ALL {
            let data = data(dtype, Op::Max, 4);
            let checks = compare(&data, 0, &vec![POISON; data.bytes()]);
            assert_eq!(checks.wrong, 1, "{dtype}");
        }
    }

    #[test]
    fn nan_is_wrong_also_where_rounding_is_tolerated() {
        let data = data(Dtype::Float32, Op::Avg, 3);
        let mut output = data.expected(0).to_vec();
        output[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        assert_eq!(compare(&data, 0, &output).first_wrong.unwrap().found, "NaN");
    }

    #[test]
    fn large_outputs_give_the_same_answer_as_small_ones() {
        let data = data(Dtype::Float32, Op::Sum, 2);
        let mut outputs = data.expected(0).repeat(2000);
        let at = 1500 * data.bytes();
        outputs[at..at + 4].copy_from_slice(&1e9_f32.to_le_bytes());
        let checks = compare(&data, 1, &outputs);
        assert_eq!((checks.outputs, checks.wrong, checks.first_wrong.unwrap().call), (2000, 1, 1500));
    }
}
