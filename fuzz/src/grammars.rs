//! What people write: size lists, lists of algorithms and protocols, configurations, acceptance plans.

use std::collections::HashSet;

use ncclsweep::accept::{AcceptPlan, Requirement};
use ncclsweep::collective::sizes::{MAX_BYTES, MAX_SIZES};
use ncclsweep::collective::{Dtype, SizeList};
use ncclsweep::nccl::check::{Context, Setting, UnknownBox, check};
use ncclsweep::nccl::lists::{Allowed, algorithms, protocols};
use ncclsweep::nccl::version::NcclVersion;
use ncclsweep::nccl::words::{Algorithm, Function};
use ncclsweep::plan::config::Config;
use ncclsweep::plan::env_set::{EnvSet, MAX_SETS, Vars, base_from_flags, from_flags};

use super::{refused, text};

/// Versions with different grammars.
const VERSIONS: [Option<NcclVersion>; 5] = [
    Some(NcclVersion::new(2, 8, 4)),
    Some(NcclVersion::new(2, 21, 5)),
    Some(NcclVersion::new(2, 28, 3)),
    Some(NcclVersion::new(2, 32, 3)),
    None,
];

/// `--sizes`: what is read prints as itself, within the limits; what is refused has its place.
pub fn sizes(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match SizeList::parse("--sizes", text) {
        Ok(list) => size_list(&list),
        Err(error) => refused(&error, text),
    }
}

fn size_list(list: &SizeList) {
    let printed = list.to_string();
    let again = SizeList::parse("--sizes", &printed).expect("what is printed is read");
    assert!(again == *list, "{printed} is another list");
    assert_eq!(again.to_string(), printed);
    for dtype in Dtype::ALL {
        let Ok(sizes) = list.sizes(dtype) else { continue };
        assert!(!sizes.is_empty() && sizes.len() <= MAX_SIZES);
        assert!(sizes.iter().all(|size| (1..=MAX_BYTES).contains(&size.bytes(dtype).0)));
        assert_eq!(sizes.iter().collect::<HashSet<_>>().len(), sizes.len(), "a size stands twice");
    }
}

/// A configuration: its sets can be asked for by flags as well, and are checked without panic against every version.
pub fn config(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match Config::parse("fuzz.toml", text) {
        Ok(config) => settled(&config),
        Err(error) => refused(&error, text),
    }
}

fn settled(config: &Config) {
    config.sizes.iter().for_each(size_list);
    assert!((1..=MAX_SETS).contains(&config.sets.len()), "{} sets", config.sets.len());
    assert!(config.sets[0].is_baseline());
    let names: HashSet<&str> = config.sets.iter().map(|set| set.name.as_str()).collect();
    assert_eq!(names.len(), config.sets.len(), "a name stands twice");
    if !config.base.is_empty() {
        let again = base_from_flags(&[config.base.to_string()]).expect("what is printed is read");
        assert_eq!(again, config.base);
    }
    // The sets of a product have names that `--set` does not take.
    let named: Vec<&EnvSet> = config.sets[1..].iter().filter(|set| !set.name.contains('=')).collect();
    let flags: Vec<String> = named.iter().map(|set| format!("{}:{}", set.name, set.vars)).collect();
    let again = from_flags(&config.base, &flags, &[]).expect("what is printed is read");
    assert!(again[1..].iter().zip(named).all(|(again, set)| (&again.name, &again.vars) == (&set.name, &set.vars)));
    for set in config.sets.iter().take(4) {
        checked(&set.vars.over(&config.base));
    }
}

fn checked(vars: &Vars) {
    let setting =
        |(name, value): (&str, &str)| Setting { name: name.into(), value: value.into(), origin: "set".into() };
    let settings: Vec<Setting> = vars.iter().map(setting).collect();
    for version in VERSIONS {
        for allow_unknown in [false, true] {
            let findings = check(&settings, &Context { version, allow_unknown, facts: &UnknownBox });
            assert!(
                findings.iter().all(|finding| vars.get(&finding.variable).is_some() && !finding.message.is_empty())
            );
        }
    }
}

/// `NCCL_ALGO` and `NCCL_PROTO`: a refused value leaves nothing on, and what is on can be asked for by name.
pub fn lists(input: &[u8]) {
    let Some(value) = text(input) else { return };
    for version in VERSIONS {
        let (algo, proto) = (algorithms(value, version), protocols(value, version));
        let old = version.is_some_and(|version| !version.at_least(2, 24));
        for function in Function::ALL {
            let (a, p) = (algo.on(function), proto.on(function));
            assert!(!algo.refused || a.is_empty());
            assert!(!proto.refused || p.is_empty());
            let named = |words: Vec<String>| words.join(",");
            // The names up to 2.13 differ from those of today.
            if !a.is_empty() && version.is_none_or(|version| version.at_least(2, 14)) {
                let again = algorithms(&named(a.iter().map(ToString::to_string).collect()), version);
                assert!(again.faults.is_empty() && again.on(function) == a, "{value}: {a:?}");
            }
            if !p.is_empty() {
                let again = protocols(&named(p.iter().map(ToString::to_string).collect()), version);
                assert!(again.faults.is_empty() && again.on(function) == p, "{value}: {p:?}");
            }
            for collnet in [false, true] {
                let allowed = Allowed::resolve(Some(value), Some(value), function, version, collnet);
                assert!(allowed.pairs.iter().all(|(algorithm, protocol)| algorithm.can(function, protocol)));
                assert!(!algo.refused || allowed.algorithms().iter().all(|on| **on != Algorithm::NvlsTree));
                assert!(allowed.pairs.is_empty() || !(algo.refused || proto.refused) || old, "{value} is refused");
            }
        }
        assert!(!(algorithms(&value.to_ascii_lowercase(), version).refused && old), "2.23 refuses nothing");
    }
}

/// An acceptance plan: its sizes print as they were read, and it requires something.
pub fn accept_plan(input: &[u8]) {
    let Some(text) = text(input) else { return };
    match AcceptPlan::parse("fuzz.toml", text) {
        Ok(plan) => {
            settled(&plan.config);
            assert!(!plan.requirements.is_empty(), "a plan that requires nothing passes always");
            for requirement in &plan.requirements {
                match requirement {
                    Requirement::Latency(latency) => {
                        assert!(!latency.bounds.is_empty());
                        assert!(latency.bounds.iter().all(|(_, bound)| *bound > 0.0 && bound.is_finite()));
                    }
                    Requirement::Speedup(speedup) => assert!(speedup.at_least > 0.0 && speedup.at_least.is_finite()),
                    _ => {}
                }
            }
        }
        Err(error) => refused(&error, text),
    }
}
