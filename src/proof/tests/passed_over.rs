//! Values and settings that NCCL passes over, and what is not to be taken for their effect.

use std::sync::Arc;

use super::rules::{connected, state};
use super::*;
use crate::topology::Path;

#[test]
fn minus_two_and_bounds_below_one_set_nothing() {
    let log = connected("P2P/CUMEM", 8, &[]);
    for set in
        ["NCCL_NTHREADS=-2", "NCCL_MAX_NCHANNELS=-2", "NCCL_MIN_NCHANNELS=0", "NCCL_MIN_CTAS=0", "NCCL_MAX_CTAS=0"]
    {
        assert_eq!(state(set, &log, &ring_ll()), State::NoEffectHere, "{set}");
    }
    assert_eq!(state("NCCL_MAX_NCHANNELS=0", &log, &ring_ll()), State::NotApplied, "this one NCCL takes for 1");
}

#[test]
fn an_empty_list_names_nothing_up_to_2_23_and_is_no_setting_since() {
    let of = |version: &str| visit("", "NCCL_PROTO=").version(version).using(&ring_ll()).proof("NCCL_PROTO");
    assert_eq!(of("2.28.3").state, State::NoEffectHere);
    let old = of("2.21.5");
    assert_eq!(old.state, State::Overridden);
    assert_eq!(old.why.as_deref(), Some("it leaves nothing usable: NCCL takes any protocol instead"));
}

#[test]
fn of_what_old_releases_do_not_hold_to_only_that_is_overridden() {
    let of = |version: &str, set: &str, name: &str| visit("", set).version(version).using(&ring_ll()).state(name);
    let both = "NCCL_ALGO=NVLS NCCL_PROTO=LL";
    assert_eq!(["NCCL_ALGO", "NCCL_PROTO"].map(|name| of("2.21.5", both, name)), [State::Overridden; 2]);
    assert_eq!(of("2.23.4", both, "NCCL_ALGO"), State::Overridden);
    assert_eq!(of("2.23.4", both, "NCCL_PROTO"), State::Applied, "ring is taken with what is asked for");
    let ring = "NCCL_ALGO=Ring NCCL_PROTO=foo";
    assert_eq!(of("2.21.5", ring, "NCCL_ALGO"), State::Applied, "ring is what is taken");
    assert_eq!(of("2.21.5", ring, "NCCL_PROTO"), State::Overridden);
}

#[test]
fn a_tuner_that_was_not_found_is_not_applied_though_another_is_at_work() {
    let env = [
        "NCCL_TUNER_PLUGIN set by environment to mine",
        "TUNER/Plugin: Could not find: mine libnccl-tuner-mine.so.",
        "TUNER/Plugin: Using the network's (v4)",
    ];
    assert_eq!(state("NCCL_TUNER_PLUGIN=mine", &connected("SHM/direct", 2, &env), &ring_ll()), State::NotApplied);
}

#[test]
fn a_level_that_takes_peer_access_away_is_in_effect() {
    let read = ["NCCL_P2P_LEVEL set by environment to NVL"];
    let mut evidence = visit("", "NCCL_P2P_LEVEL=NVL").reading(&connected("SHM/direct", 2, &read)).using(&ring_ll());
    evidence.paths = Arc::new([((0, 1), Path::Pix), ((1, 0), Path::Pix)].into());
    assert_eq!(evidence.state("NCCL_P2P_LEVEL"), State::Applied);
}

#[test]
fn a_transport_that_nobody_knows_shows_nothing() {
    let log = connected("WARP/drive", 2, &[]);
    assert_eq!(state("NCCL_P2P_DISABLE=1", &log, &ring_ll()), State::Unverified);
    assert_eq!(state("NCCL_SHM_DISABLE=1", &log, &ring_ll()), State::Unverified);
}

#[test]
fn a_small_size_on_fewer_channels_of_nvls_shows_nothing_and_more_show_the_contrary() {
    let of = |channels| {
        let nvls = used(Algorithm::Nvls, Protocol::Simple, channels, 20);
        visit("", "NCCL_NVLS_NCHANNELS=16").version("2.28.3").using(&nvls).state("NCCL_NVLS_NCHANNELS")
    };
    assert_eq!([of(7), of(16), of(24)], [State::Unverified, State::Applied, State::NotApplied]);
}

#[test]
fn what_bounds_links_between_hosts_has_no_effect_on_one() {
    let ll128 = used(Algorithm::Ring, Protocol::Ll128, 2, 20);
    for value in [0, 1] {
        let set = format!("NCCL_LL128_C2C={value}");
        assert_eq!(state(&set, &connected("SHM/direct", 2, &[]), &ll128), State::NoEffectHere);
    }
}

#[test]
fn a_variable_that_is_not_nccls_is_never_shown_to_be_in_effect() {
    let evidence = visit("", "CUDA_DEVICE_MAX_CONNECTIONS=1").version("2.28.3").using(&ring_ll());
    let proof = evidence.proof("CUDA_DEVICE_MAX_CONNECTIONS");
    assert_eq!(proof.state, State::Unverified);
    assert_eq!(cell_state(&judge(&evidence, 0, &graph())), Applied::Unverified);
    let inherited = asked(&[(Origin::Inherited, &vars("HOME=/root NCCL_PROTO=LL"))], &Vars::default());
    assert_eq!(inherited.iter().map(|asked| asked.name.as_str()).collect::<Vec<_>>(), ["NCCL_PROTO"]);
}

#[test]
fn what_a_file_sets_counts_beside_what_was_asked_for() {
    let mut evidence = visit("", "NCCL_BUFFSIZE=1048576");
    let line =
        |value: &str| FileLine { place: "nccl.conf:1".into(), name: "NCCL_LL_BUFFSIZE".into(), value: value.into() };
    evidence.files = vec![line("1048576"), line("2097152")];
    assert_eq!(evidence.effective("NCCL_LL_BUFFSIZE"), Some("1048576"), "the first line wins");
    evidence.seen[0].variables = vars("NCCL_LL_BUFFSIZE=4096");
    assert_eq!(evidence.effective("NCCL_LL_BUFFSIZE"), Some("4096"), "the environment wins over files");
    assert_eq!(evidence.effective("NCCL_BUFFSIZE"), Some("1048576"));
}

#[test]
fn where_captured_calls_are_not_told_of_the_log_of_another_process_tells() {
    let eager = Used { captured: Some(false), ..ring_ll() };
    let tuning = Read::of(&log_of("2.21.5-pcie-ll-2ranks-hostmem.log"));
    let with = |tuning: Option<Read>, used: &Used| {
        let evidence = Evidence { tuning, ..visit("", "NCCL_PROTO=LL").version("2.24.3").using(used) };
        evidence.state("NCCL_PROTO")
    };
    assert_eq!(with(Some(tuning.clone()), &eager), State::Applied);
    assert_eq!(with(None, &eager), State::Unverified, "eager calls say nothing of captured ones");
    let simple = used(Algorithm::Ring, Protocol::Simple, 1, 9);
    assert_eq!(with(Some(tuning), &simple), State::NotApplied, "what was told counts");
}

#[test]
fn what_is_no_variable_of_nccl_is_not_said_to_be_missing() {
    let evidence = visit("", "CUDA_DEVICE_MAX_CONNECTIONS=1").version("2.28.3").using(&ring_ll());
    let proof = evidence.proof("CUDA_DEVICE_MAX_CONNECTIONS");
    assert!(proof.evidence.contains(&"seen: not told, only variables of NCCL are".to_owned()), "{:?}", proof.evidence);
}
