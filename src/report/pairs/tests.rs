use super::*;
use crate::pairs::fixture::four;
use crate::pairs::judge;

fn shown(of: &Pairs) -> String {
    render(of, Style::default())
}

/// The box with something done to one pair on a way, and judged.
fn struck(pair: (usize, usize), way: Way, what: impl Fn(&mut Pair)) -> Pairs {
    let mut of = four();
    for (gpu, device) in of.topology.gpus.iter_mut().zip(&of.gpus) {
        gpu.bus_id = device.bus_id();
    }
    of.pairs.iter_mut().filter(|p| (p.a, p.b) == pair && p.way == way).for_each(what);
    of.findings = judge(&of);
    of
}

#[test]
fn a_box_that_is_well_says_so() {
    insta::assert_snapshot!(shown(&four()));
}

#[test]
fn a_slow_pair_is_marked_in_its_half_and_named() {
    let of = struck((0, 3), Way::HostMemory, |pair| {
        pair.send_recv.bandwidth_gbps = Some(5.0);
    });
    insta::assert_snapshot!(shown(&of));
}

#[test]
fn a_pair_that_failed_has_no_figure_and_p2p_that_was_not_used_is_marked() {
    let of = struck((1, 2), Way::P2p, |pair| {
        pair.outcome = Outcome::TimedOut { at: None, seconds: 30.0, ranks: Vec::new() };
    });
    let text = shown(&of);
    assert_eq!(text.matches("hang  ").count() + text.matches("hang\n").count(), 5, "four matrices and a line: {text}");
    assert!(text.contains("over P2P nothing comes back between GPU 1"), "{text}");
    let of = struck((0, 1), Way::P2p, |pair| pair.transport = Some("SHM/direct".into()));
    let words = shown(&of).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("*: NCCL did not use P2P though it might"), "{words}");
    let of = struck((0, 1), Way::P2p, |pair| pair.outcome = Outcome::NotRun { why: "CNS".into() });
    let words = shown(&of).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no: the driver does not allow P2P"), "{words}");
}

#[test]
fn a_pair_without_its_like_is_told_of_and_no_all_clear_is_given_for_it() {
    let mut of = four();
    of.pairs.retain(|pair| (pair.a, pair.b) == (0, 1) && pair.way == Way::P2p);
    let words = shown(&of).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("alone GPUs 0 and 1 over P2P: no other pair is alike"), "{words}");
    assert!(words.contains("verdict no pair hangs, no data is wrong") && !words.contains("slower"), "{words}");
    assert!(!shown(&four()).contains("alone"));
}

#[test]
fn a_run_that_was_stopped_gives_no_all_clear() {
    let of = Pairs { stopped: Some("GPU 0000:11:00.0 is gone".into()), ..four() };
    let text = shown(&of);
    assert!(text.contains("stopped") && text.contains("is gone") && !text.contains("verdict"), "{text}");
}
