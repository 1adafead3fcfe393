//! Asked, seen and read, before anything is used.

use super::*;

/// The set on two processes of one rank each; the second's environment is `second`.
fn two_processes(set: &str, second: &str) -> Evidence {
    let mut evidence = visit("", set);
    let seen = |rank, text| Seen { ranks: vec![rank], variables: vars(text) };
    evidence.seen = vec![seen(0, set), seen(1, second)];
    evidence.using(&ring_ll())
}

#[test]
fn a_variable_that_a_wrapper_unsets_is_not_applied_even_where_the_default_satisfies_it() {
    for name in vars(PCIE_LL).iter().map(|(name, _)| name.to_owned()) {
        let mut evidence = visit(HOST_MEMORY, PCIE_LL).reading(&log_of("2.28.3-default-2ranks-hostmem.log"));
        evidence.seen[0].variables = evidence.seen[0].variables.iter().filter(|(other, _)| *other != name).collect();
        let evidence = evidence.using(&ring_ll());
        assert_eq!(evidence.state(&name), State::NotApplied, "{name}");
        assert_eq!(cell_state(&judge(&evidence, 0, &graph())), Applied::NotApplied);
    }
}

#[test]
fn one_rank_without_it_is_partly_and_named() {
    let proof = two_processes("NCCL_PROTO=LL", "").proof("NCCL_PROTO");
    assert_eq!((proof.state, proof.lacking.as_slice()), (State::Partly, [1].as_slice()));
    assert_eq!(proof.why.as_deref(), Some("rank 1 without it: it is not in the environment of the process"));
    assert!(proof.evidence.contains(&"seen: in the environment of rank 0".to_owned()));
    assert_eq!(two_processes("NCCL_PROTO=LL", "NCCL_PROTO=LL").state("NCCL_PROTO"), State::Applied);
}

#[test]
fn values_that_differ_by_rank_are_no_one_setting_and_each_is_told() {
    let proof = two_processes("NCCL_PROTO=LL", "NCCL_PROTO=Simple").proof("NCCL_PROTO");
    assert_eq!((proof.state, proof.why.as_deref()), (State::DiffersByRank, Some("LL on rank 0; Simple on rank 1")));
    assert_eq!((proof.value.as_str(), proof.lacking.as_slice()), ("LL", [].as_slice()));
    assert!(proof.evidence.contains(&"seen: NCCL_PROTO=Simple in the environment of rank 1".to_owned()), "{proof:?}");
    let mut by_rank = two_processes("NCCL_BUFFSIZE=1048576", "NCCL_BUFFSIZE=8388608");
    by_rank.asked[0].origin = Origin::Rank;
    let proof = by_rank.proof("NCCL_BUFFSIZE");
    assert_eq!((proof.state, proof.value.as_str()), (State::DiffersByRank, "1048576|8388608"));
    assert_eq!(proof.evidence[0], "asked: NCCL_BUFFSIZE=1048576|8388608 by --rank-env");
}

#[test]
fn a_rank_that_used_something_else_lacks_it() {
    let simple = Used { protocol: Protocol::Simple, ..ring_ll() };
    let evidence = two_processes("NCCL_PROTO=LL", "NCCL_PROTO=LL");
    let evidence = evidence.using_each(|rank| Some(if rank == 1 { simple.clone() } else { ring_ll() }));
    let proof = evidence.proof("NCCL_PROTO");
    assert_eq!((proof.state, proof.lacking.as_slice()), (State::Partly, [1].as_slice()));
}

#[test]
fn another_value_in_the_process_overrides() {
    let mut evidence = visit("", "NCCL_PROTO=LL").using(&ring_ll());
    evidence.seen[0].variables = vars("NCCL_PROTO=Simple");
    let proof = evidence.proof("NCCL_PROTO");
    assert_eq!(proof.state, State::Overridden);
    assert_eq!(proof.why.as_deref(), Some("the environment of the process has Simple"));
}

#[test]
fn what_a_file_sets_reaches_a_process_whose_environment_lacks_it() {
    let mut evidence = visit("", "NCCL_PROTO=LL").using(&ring_ll());
    evidence.seen[0].variables = Vars::default();
    let line =
        |place: &str, value: &str| FileLine { place: place.into(), name: "NCCL_PROTO".into(), value: value.into() };
    evidence.files = vec![line("~/.nccl.conf:2", "LL"), line("/etc/nccl.conf:1", "Simple")];
    assert_eq!(evidence.state("NCCL_PROTO"), State::Applied);
    evidence.files.reverse();
    assert_eq!(evidence.state("NCCL_PROTO"), State::Overridden, "the first line wins");
    evidence.seen[0].variables = vars("NCCL_PROTO=LL");
    assert_eq!(evidence.state("NCCL_PROTO"), State::Applied, "the environment beats the files");
}

#[test]
fn nothing_known_is_unverified_and_never_applied() {
    let mut evidence = visit(HOST_MEMORY, PCIE_LL).version("2.28.3");
    let verified =
        |evidence: &Evidence| judge(evidence, 0, &graph()).into_iter().filter(|p| p.state == State::Applied).count();
    assert_eq!(verified(&evidence), 0, "no log, no plugin");
    evidence.seen = Vec::new();
    assert_eq!(verified(&evidence), 0, "no environment either");
    assert_eq!(cell_state(&judge(&evidence, 0, &graph())), Applied::Unverified);
    evidence.devices = Vec::new();
    assert_eq!(verified(&evidence), 0, "no ranks");
}

#[test]
fn a_use_that_was_recorded_on_some_communicators_or_in_the_other_mode_only_proves_nothing() {
    let mut evidence = visit("", "NCCL_PROTO=LL").using(&ring_ll());
    evidence.communicators = 2;
    assert_eq!(evidence.state("NCCL_PROTO"), State::Unverified);
    evidence.communicators = 1;
    let evidence = evidence.using_each(|rank| Some(Used { captured: Some(rank == 0), ..ring_ll() }));
    assert_eq!(evidence.state("NCCL_PROTO"), State::Unverified, "timed as a graph, recorded eagerly");
}

#[test]
fn ranks_of_unknown_environment_are_believed_by_their_own_line_only() {
    let log = log_of("2.28.3-pcie-ll-2ranks-hostmem.log");
    let without = |mut log: Log, rank: usize| {
        log.processes[0].env.retain(|seen| seen.name != "NCCL_PROTO" || seen.rank.unwrap().1 != rank);
        log
    };
    let proof = |log: &Log| {
        let mut evidence = visit(HOST_MEMORY, PCIE_LL).reading(log).using(&ring_ll());
        evidence.seen = Vec::new();
        evidence.proof("NCCL_PROTO")
    };
    assert_eq!(proof(&log).state, State::Applied);
    let one = proof(&without(log.clone(), 1));
    assert_eq!((one.state, one.lacking), (State::Partly, vec![1]));
    assert_eq!(proof(&without(without(log, 1), 0)).state, State::Unverified);
}

#[test]
fn what_ncclsweep_must_set_itself_overrides_and_logging_never_matters() {
    let tool = vars("NCCL_DEBUG=INFO NCCL_PROFILER_PLUGIN=STATIC_PLUGIN");
    let inherited = vars("NCCL_DEBUG=WARN NCCL_PROFILER_PLUGIN=other PATH=/bin");
    let mut evidence = visit("", "").using(&ring_ll());
    evidence.asked = asked(&[(Origin::Inherited, &inherited)], &tool);
    assert_eq!(evidence.asked.len(), 2, "only NCCL's variables");
    assert_eq!(evidence.state("NCCL_DEBUG"), State::NoEffectHere);
    let plugin = evidence.proof("NCCL_PROFILER_PLUGIN");
    assert_eq!((plugin.state, plugin.origin), (State::Overridden, Origin::Inherited));
}

#[test]
fn a_variable_the_library_does_not_know_is_not_applied() {
    let evidence = visit("", "NCCL_MAX_CTAS=8 NCCL_VERSION=2.16").version("2.16.5").using(&ring_ll());
    assert_eq!(evidence.state("NCCL_MAX_CTAS"), State::NotApplied);
    assert_eq!(evidence.state("NCCL_VERSION"), State::NoEffectHere);
    assert_eq!(visit("", "NCCL_MAX_CTAS=8").version("2.17.1").using(&ring_ll()).state("NCCL_MAX_CTAS"), State::Applied);
    let unknown = visit("", "NCCL_SOMETHING_NEW=1").version("2.28.3").using(&ring_ll());
    assert_eq!(unknown.state("NCCL_SOMETHING_NEW"), State::Unverified);
}

#[test]
fn later_layers_win_and_what_all_arms_share_is_common() {
    let (base, set) = (vars("NCCL_NVLS_ENABLE=0 NCCL_PROTO=LL"), vars("NCCL_PROTO=Simple"));
    let mut arms = [
        asked(&[(Origin::Base, &base)], &Vars::default()),
        asked(&[(Origin::Base, &base), (Origin::Set, &set)], &Vars::default()),
    ];
    mark_common(&mut arms);
    let shown = |arm: &[Asked]| arm.iter().map(|a| (a.value.clone(), a.origin, a.common)).collect::<Vec<_>>();
    assert_eq!(shown(&arms[0]), [("0".into(), Origin::Base, true), ("LL".into(), Origin::Base, false)]);
    assert_eq!(shown(&arms[1]), [("0".into(), Origin::Base, true), ("Simple".into(), Origin::Set, false)]);
}
