use super::*;
use crate::collective::{Dtype, Mode};
use crate::impact::Weight;
use crate::record::fixture::{case, run};

fn shown(step: &Step) -> String {
    let run = run(&["default", "pcie-ll"], &[1, 4].map(|tokens| case(tokens, Mode::Graph)));
    render(&run, step, Style::default()).replace('\u{a0}', " ")
}

#[test]
fn a_step_that_became_faster_is_explained_in_part() {
    insta::assert_snapshot!(shown(&Step::new(Some("kimi-k2.5"), None, &[29.5, 19.0], None).unwrap()), @r"
    per decode step · 122 all-reduces (kimi-k2.5: 61 layers × 2) · 29.5 ms under
    default, became 19.0 ms
        size  set          ms  95%        share of  saves      tokens/s    explains
                       a step  interval   the step  ms
      7168x1  default    5.88  5.73–6.05  19–20%
              pcie-ll    3.53  3.44–3.63    12%     2.22–2.49  +2.76–3.12  21–24%

      7168x4  default    6.41  6.25–6.59  21–22%
              pcie-ll    3.98  3.88–4.09  13–14%    2.29–2.58  +2.86–3.25  22–25%

    at 7168x4 graph, pcie-ll saves 2.29–2.58 ms of the 10.5 ms by which the step
    became faster: all-reduces explain 22–25% of it
    to explain all of it, every all-reduce would have to save 86.1 µs. What is left
    has other causes, or comes from all-reduces that are slower in the server than
    here: ranks that arrive late, other transports, eager launches
    ");
}

#[test]
fn a_step_shorter_than_its_all_reduces_is_doubted() {
    let doubted = |time| {
        shown(&Step::new(Some("kimi-k2.5"), None, &[time], None).unwrap()).contains("take longer than a step of")
    };
    assert!(doubted(1.0) && !doubted(29.5));
}

#[test]
fn without_a_step_time_there_are_milliseconds_only() {
    insta::assert_snapshot!(shown(&Step::new(None, Some(100), &[], None).unwrap()), @r"
    per decode step · 100 all-reduces
        size  set          ms  95%        saves
                       a step  interval   ms
      7168x1  default    4.82  4.70–4.95
              pcie-ll    2.89  2.82–2.97  1.82–2.04

      7168x4  default    5.26  5.13–5.40
              pcie-ll    3.26  3.18–3.35  1.88–2.12
    ");
}

#[test]
fn sizes_of_another_model_are_not_its_step() {
    let text = shown(&Step::new(Some("llama-3.3-70b"), None, &[20.0], None).unwrap());
    assert!(text.contains("no size of this run is a whole number of tokens of 8192 elements"), "{text}");
}

#[test]
fn a_mix_of_an_audit_is_one_step_of_all_its_sizes() {
    let weights = [(7168, 100), (4 * 7168, 22)];
    let mix = weights.map(|(elements, calls)| Weight { dtype: Dtype::Bfloat16, elements, calls }).to_vec();
    insta::assert_snapshot!(shown(&Step::of_mix(mix.clone(), None, &[], None).unwrap()), @r"
    what the audit counted · 122 all-reduces of a rank
          size  set          ms  95%        saves
                         in all  interval   ms
      together  default    5.98  5.83–6.14
                pcie-ll    3.61  3.52–3.71  2.23–2.50
    ");
    let text = shown(&Step::of_mix(mix, Some(61), &[29.5], None).unwrap());
    assert!(text.starts_with("per decode step · 61 all-reduces in the proportions of the audit · 29.5 ms"), "{text}");
}
