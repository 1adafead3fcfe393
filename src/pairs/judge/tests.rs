use super::*;
use crate::pairs::Figures;
use crate::pairs::fixture::four;
use crate::record::visit::{At, Phase};

/// The box with something done to these pairs on a way.
fn struck(way: Way, pairs: &[(usize, usize)], what: impl Fn(&mut Pair)) -> Vec<Finding> {
    let mut of = with_addresses();
    of.pairs.iter_mut().filter(|p| p.way == way && pairs.contains(&(p.a, p.b))).for_each(&what);
    judge(&of)
}

/// GPUs of a matrix have no addresses; here they get those of the fixture.
fn with_addresses() -> Pairs {
    let mut of = four();
    for (gpu, device) in of.topology.gpus.iter_mut().zip(&of.gpus) {
        gpu.bus_id = device.bus_id();
    }
    of
}

fn slow(pair: &mut Pair) {
    pair.all_reduce.bandwidth_gbps = pair.all_reduce.bandwidth_gbps.map(|bandwidth| bandwidth / 2.0);
}

fn hung(pair: &mut Pair) {
    let at = At { phase: Phase::First, communicator: 0, case: None, rank: None };
    pair.outcome = Outcome::TimedOut { at: Some(at), seconds: 20.0, ranks: Vec::new() };
}

fn wrong(pair: &mut Pair) {
    (pair.outcome, pair.wrong_outputs) = (Outcome::WrongData, 3);
}

#[test]
fn a_box_whose_pairs_are_alike_has_no_finding() {
    assert_eq!(judge(&with_addresses()), []);
}

#[test]
fn one_slow_pair_is_named_by_its_addresses() {
    let findings = struck(Way::P2p, &[(0, 3)], slow);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((finding.trouble, finding.way, finding.gpu), (Trouble::Slow, Way::P2p, None));
    assert_eq!(finding.pairs, [(0, 3)]);
    assert!(finding.text.contains("0000:11:00.0") && finding.text.contains("0000:41:00.0"), "{}", finding.text);
    assert!(finding.text.contains("2.0 times slower"), "{}", finding.text);
    let mut of = with_addresses();
    of.pairs.iter_mut().filter(|p| p.way == Way::P2p && (p.a, p.b) == (0, 3)).for_each(slow);
    assert_eq!(
        is_far(&of, of.get(0, 3, Way::P2p).unwrap()),
        [false, false, true, false],
        "only the figure that is slow"
    );
}

#[test]
fn of_two_pairs_alike_the_slower_is_named_and_held_against_the_other() {
    // Only two pairs are below one switch.
    let findings = struck(Way::P2p, &[(0, 1)], slow);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((finding.trouble, finding.pairs.as_slice()), (Trouble::Slow, [(0, 1)].as_slice()));
    // Half as fast; the other is 6% slower than this one was.
    assert!(finding.text.ends_with("up to 1.9 times slower than the only other alike"), "{}", finding.text);
    let a_little = |pair: &mut Pair| pair.all_reduce.latency_us = pair.all_reduce.latency_us.map(|time| time * 1.2);
    assert_eq!(struck(Way::P2p, &[(0, 1)], a_little), []);
}

#[test]
fn a_pair_without_its_like_is_called_nothing_and_told_of() {
    let mut of = with_addresses();
    assert_eq!(without_like(&of).count(), 0);
    of.pairs.retain(|pair| (pair.a, pair.b) == (0, 1));
    of.pairs.iter_mut().filter(|pair| pair.way == Way::P2p).for_each(slow);
    assert_eq!((judge(&of), without_like(&of).count()), (Vec::new(), 2));
    of.pairs.iter_mut().for_each(hung);
    assert_eq!(without_like(&of).count(), 0, "of what did not complete nothing is expected");
}

#[test]
fn a_gpu_that_all_its_pairs_suffer_from_is_named() {
    let findings = struck(Way::HostMemory, &[(0, 1), (1, 2), (1, 3)], wrong);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert_eq!((finding.trouble, finding.gpu), (Trouble::WrongData, Some(1)));
    assert!(finding.text.contains("every pair of GPU 1 (0000:21:00.0)"), "{}", finding.text);
    assert!(finding.next.contains("its slot"), "{}", finding.next);
}

#[test]
fn p2p_that_hangs_everywhere_while_host_memory_works_is_broken_p2p() {
    let all = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    let findings = struck(Way::P2p, &all, hung);
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    assert!(finding.text.contains("every pair"), "{}", finding.text);
    assert!(finding.next.contains("NCCL_P2P_DISABLE=1"), "{}", finding.next);
}

#[test]
fn hangs_come_before_wrong_data_and_that_before_what_is_slow() {
    let mut of = with_addresses();
    let mut strike = |pair: (usize, usize), way: Way, what: &dyn Fn(&mut Pair)| {
        of.pairs.iter_mut().filter(|p| (p.a, p.b) == pair && p.way == way).for_each(what);
    };
    strike((0, 2), Way::P2p, &slow);
    strike((0, 3), Way::P2p, &wrong);
    strike((1, 2), Way::HostMemory, &hung);
    let troubles: Vec<_> = judge(&of).iter().map(|finding| finding.trouble).collect();
    assert_eq!(troubles, [Trouble::Hang, Trouble::WrongData, Trouble::Slow]);
    assert_eq!(worst(&judge(&of)), Some(Trouble::Hang));
}

#[test]
fn figures_that_are_missing_or_no_numbers_call_nothing_slow() {
    let none = struck(Way::P2p, &[(0, 2), (0, 3), (1, 2), (1, 3)], |pair| {
        (pair.all_reduce, pair.send_recv) =
            (Figures::default(), Figures { latency_us: Some(f64::NAN), bandwidth_gbps: Some(0.0) });
    });
    assert_eq!(none, []);
}
