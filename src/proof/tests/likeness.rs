//! Arms that did just what the baseline did.

use super::*;

/// An arm that used the same in all `cases`.
struct Arm {
    visits: Vec<Evidence>,
    cases: Vec<Vec<VariableProof>>,
}

impl Arm {
    fn new(visit: Evidence, cases: &[Case]) -> Self {
        let visits = vec![visit.clone(), visit];
        let prove = |(index, case)| combine(&visits.iter().map(|visit| judge(visit, index, case)).collect::<Vec<_>>());
        let cases = cases.iter().enumerate().map(prove).collect();
        Self { visits, cases }
    }

    fn like(&self, baseline: &Self, cases: &[Case]) -> Likeness {
        likeness(&self.proof(), &baseline.proof(), cases)
    }

    fn proof(&self) -> ArmProof<'_> {
        ArmProof { visits: &self.visits, cases: &self.cases }
    }
}

/// A visit through host memory under `set`.
fn through_host(set: &str, used: &Used) -> Evidence {
    let name = if set == PCIE_LL { "2.28.3-pcie-ll-2ranks-hostmem.log" } else { "2.28.3-default-2ranks-hostmem.log" };
    visit(HOST_MEMORY, set).reading(&log_of(name)).using(used)
}

#[test]
fn pcie_ll_through_host_memory_is_the_baseline_by_another_name() {
    let cases = [graph()];
    let baseline = Arm::new(through_host("", &ring_ll()), &cases);
    assert_eq!(Arm::new(through_host(PCIE_LL, &ring_ll()), &cases).like(&baseline, &cases), Likeness::Identical);
}

#[test]
fn another_choice_channel_warp_or_transport_is_a_difference() {
    let cases = [graph()];
    let baseline = Arm::new(through_host("", &ring_ll()), &cases);
    for used in [
        used(Algorithm::Tree, Protocol::Ll, 1, 16),
        used(Algorithm::Ring, Protocol::Simple, 1, 16),
        used(Algorithm::Ring, Protocol::Ll, 2, 16),
        used(Algorithm::Ring, Protocol::Ll, 1, 8),
    ] {
        let arm = Arm::new(through_host("", &used), &cases);
        assert!(matches!(arm.like(&baseline, &cases), Likeness::Different(_)), "{used}");
    }
    let linked = visit("", "").reading(&log_of("2.28.3-default-2ranks-nvlink.log")).using(&ring_ll());
    assert_eq!(Arm::new(linked, &cases).like(&baseline, &cases), Likeness::Different("the transports".into()));
    let one_rank = through_host("", &ring_ll());
    let one_rank = one_rank.using_each(|rank| Some(Used { warps: Some(if rank == 1 { 8 } else { 16 }), ..ring_ll() }));
    assert!(matches!(Arm::new(one_rank, &cases).like(&baseline, &cases), Likeness::Different(_)));
    let mut later = through_host("", &ring_ll());
    later.version = Some("2.28.9".parse().unwrap());
    assert_eq!(Arm::new(later, &cases).like(&baseline, &cases), Likeness::Different("the library".into()));
}

#[test]
fn a_variable_without_trace_that_may_act_keeps_arms_apart() {
    let cases = [graph()];
    let simple = used(Algorithm::Ring, Protocol::Simple, 1, 9);
    for set in ["NCCL_CUMEM_ENABLE=0", "NCCL_IGNORE_CPU_AFFINITY=1", "NCCL_BUFFSIZE=8388608", "NCCL_CTA_POLICY=1"] {
        let baseline = Arm::new(through_host("", &simple), &cases);
        let arm = Arm::new(through_host(set, &simple), &cases);
        assert!(matches!(arm.like(&baseline, &cases), Likeness::Unknown(_)), "{set}");
    }
    let low = Arm::new(through_host("", &ring_ll()), &cases);
    let idle = Arm::new(through_host("NCCL_BUFFSIZE=8388608", &ring_ll()), &cases);
    assert_eq!(idle.like(&low, &cases), Likeness::Identical, "it has no effect under LL");
    // The same in both arms is no difference.
    let both = Arm::new(through_host("NCCL_CUMEM_ENABLE=0", &ring_ll()), &cases);
    assert_eq!(both.like(&both, &cases), Likeness::Identical);
}

#[test]
fn likeness_needs_exact_figures_of_every_rank_and_case() {
    let cases = [graph()];
    let baseline = Arm::new(through_host("", &ring_ll()), &cases);
    let bound = Used { channels: Some(Channels::AtMost(1)), ..ring_ll() };
    let like = |evidence: Evidence| Arm::new(evidence, &cases).like(&baseline, &cases);
    assert!(matches!(like(through_host("", &bound)), Likeness::Unknown(_)), "an upper bound");
    assert!(matches!(like(visit("", "").version("2.28.3").using(&ring_ll())), Likeness::Unknown(_)), "no log");
    let missing = through_host("", &ring_ll()).using_each(|rank| (rank == 0).then(ring_ll));
    assert!(matches!(like(missing), Likeness::Unknown(_)), "one rank is not recorded");
    let two = [graph(), case(SIZES[1], Mode::Graph)];
    assert!(matches!(baseline.like(&baseline, &two), Likeness::Unknown(_)), "the second case is not recorded");
    assert!(matches!(baseline.like(&baseline, &[]), Likeness::Unknown(_)));
}
