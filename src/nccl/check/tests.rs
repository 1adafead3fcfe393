//! Findings on real and made-up sets.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A box with these files and interfaces.
#[derive(Default)]
struct Box {
    files: Vec<&'static str>,
    nvlink: Option<bool>,
}

impl BoxFacts for Box {
    fn exists(&self, path: &Path) -> Option<bool> {
        Some(self.files.iter().any(|file| Path::new(file) == path))
    }

    fn interfaces(&self) -> Option<Vec<String>> {
        Some(vec!["lo".into(), "eth0".into()])
    }

    fn adapters(&self) -> Option<Vec<String>> {
        Some(vec!["mlx5_0".into()])
    }

    fn nvlink(&self) -> Option<bool> {
        self.nvlink
    }
}

fn settings(text: &str) -> Vec<Setting> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        Setting { name: name.to_owned(), value: value.to_owned(), origin: "a test".to_owned() }
    };
    text.split_terminator('|').map(pair).collect()
}

fn on_box(text: &str, version: &str, facts: &dyn BoxFacts) -> Vec<String> {
    let context = Context { version: version.parse().ok(), allow_unknown: false, facts };
    let shown = |finding: Finding| {
        let help = finding.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{:?} {finding}{help}", finding.severity)
    };
    check(&settings(text), &context).into_iter().inspect(reads_on).map(shown).collect()
}

/// A message goes on where the variable's name stops.
#[track_caller]
fn reads_on(finding: &Finding) {
    let first = finding.message.split(' ').next().unwrap();
    assert!(first.ends_with('s') && first.chars().all(|c| c.is_ascii_lowercase()), "{finding}");
}

fn found(text: &str, version: &str) -> Vec<String> {
    on_box(text, version, &Box { nvlink: Some(true), ..Box::default() })
}

/// The one finding.
fn one(text: &str, version: &str) -> String {
    let found = found(text, version);
    assert_eq!(found.len(), 1, "{text}: {found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn the_built_in_set_is_legal_and_its_buffer_size_useless() {
    let set = "NCCL_PROTO=LL|NCCL_ALGO=Ring|NCCL_P2P_LEVEL=SYS|NCCL_MAX_NCHANNELS=16|NCCL_BUFFSIZE=16777216|NCCL_NTHREADS=512";
    for version in ["2.8.4", "2.21.5", "2.28.3", "2.32.3", ""] {
        let message = "Warning NCCL_BUFFSIZE has no effect: it acts on Simple only, which the other settings turn off";
        assert_eq!(one(set, version), message);
    }
}

#[test]
fn every_recorded_bad_value_is_caught_unless_its_version_takes_it() {
    for version in ["2.21.5", "2.28.3"] {
        let path = format!("{}/tests/data/nccl-log/{version}-bad.log", env!("CARGO_MANIFEST_DIR"));
        let log = std::fs::read_to_string(path).unwrap();
        let cases: Vec<_> = log.lines().filter_map(|line| line.strip_prefix(&format!("== {version} "))).collect();
        assert_eq!(cases.len(), 9);
        for case in cases {
            let legal = case == "NCCL_ALGO=allreduce:ring" && version == "2.28.3";
            assert_eq!(found(case, version).is_empty(), legal, "{case} on {version}: {:?}", found(case, version));
        }
    }
}

#[test]
fn numbers_with_units_are_errors_that_name_the_number() {
    assert_eq!(
        one("NCCL_BUFFSIZE=4M", "2.28.3"),
        "Error NCCL_BUFFSIZE is read as 4, not `4M`: NCCL knows no units (write 4194304)"
    );
    assert!(
        one("NCCL_BUFFSIZE=abc", "2.28.3").starts_with("Error NCCL_BUFFSIZE is `abc`, no number: NCCL reads it as 0")
    );
    assert!(one("NCCL_BUFFSIZE=4", "2.21.5").contains("may crash"));
    assert!(one("NCCL_BUFFSIZE=99999999999999999999", "2.28.3").contains("keeps its default"));
    assert!(
        one("NCCL_BUFFSIZE=0100000000", "2.28.3")
            .starts_with("Warning NCCL_BUFFSIZE is read as 16777216: a leading zero")
    );
    assert!(one("NCCL_BUFFSIZE=8388608 # big", "2.28.3").starts_with("Warning"));
    assert_eq!(found("NCCL_BUFFSIZE=0x800000", "2.28.3"), [""; 0]);
    assert_eq!(
        one("NCCL_NTHREADS=100", "2.28.3"),
        "Error NCCL_NTHREADS is 100, no multiple of 32: NCCL takes its maximum, 512"
    );
    assert!(one("NCCL_NTHREADS=1024", "2.28.3").starts_with("Warning"));
    assert!(one("NCCL_NTHREADS=", "2.28.3").contains("not set"));
}

#[test]
fn switches_and_levels_take_what_nccl_takes() {
    assert!(
        one("NCCL_P2P_DISABLE=true", "2.28.3")
            .starts_with("Error NCCL_P2P_DISABLE counts as set when it is the number 1 alone")
    );
    assert_eq!(found("NCCL_P2P_DISABLE=1|NCCL_SHM_DISABLE=0", "2.28.3"), [""; 0]);
    assert_eq!(
        one("NCCL_CUMEM_ENABLE=yes", "2.28.3"),
        "Error NCCL_CUMEM_ENABLE is `yes`, no number: NCCL reads it as 0 (write 1)"
    );
    assert!(one("NCCL_CUMEM_ENABLE=7", "2.28.3").starts_with("Warning"));
    assert!(one("NCCL_P2P_LEVEL=sys", "2.28.3").ends_with("(write SYS)"));
    assert!(one("NCCL_P2P_LEVEL=NODE", "2.28.3").contains("nvidia-smi's NODE is PHB here"));
    assert!(one("NCCL_P2P_LEVEL=3", "2.28.3").ends_with("as old scripts have it: PHB"));
    assert!(one("NCCL_P2P_LEVEL=C2C", "2.21.5").starts_with("Error"));
    assert_eq!(found("NCCL_P2P_LEVEL=C2C", "2.28.3"), [""; 0]);
    assert_eq!(found("NCCL_SET_THREAD_NAME=true", "2.30.7"), [""; 0]);
    assert!(one("NCCL_SET_THREAD_NAME=true", "2.28.3").starts_with("Error"));
}

#[test]
fn lists_are_checked_by_version() {
    let early = found("NCCL_ALGO=allreduce:ring", "2.23.4");
    assert!(early[0].contains("names a collective, which it can since 2.24: NCCL drops it in silence"));
    assert_eq!(early[1..], ["Error NCCL_ALGO leaves nothing usable: NCCL takes Tree and Ring instead"]);
    assert_eq!(found("NCCL_ALGO=allreduce:ring", "2.24.3"), [""; 0]);
    assert_eq!(
        one("NCCL_ALGO=ring;tree", "2.28.3"),
        "Error NCCL_ALGO has `tree` without a collective, as only the first entry may: the communicator's \
         initialisation fails (separate words by commas, collectives by semicolons: ring,tree;broadcast:ring)"
    );
    assert!(one("NCCL_PROTO=LL, Simple", "2.28.3").contains("without blanks"));
    assert!(one("NCCL_ALGO=NVLS|NCCL_PROTO=LL", "2.28.3").contains("NVLS carries Simple only"));
    assert!(one("NCCL_ALGO=NVLS|NCCL_NVLS_ENABLE=0", "2.28.3").contains("leaves no algorithm"));
    assert!(one("NCCL_ALGO=CollNetDirect", "2.28.3").contains("NCCL_COLLNET_ENABLE=1"));
    assert_eq!(found("NCCL_ALGO=CollNetDirect|NCCL_COLLNET_ENABLE=1", "2.28.3"), [""; 0]);
}

#[test]
fn ll128_without_nvlink_is_a_warning_also_by_exclusion() {
    let without = Box { nvlink: Some(false), ..Box::default() };
    for value in ["LL128", "^LL", "LL,LL128", "^Simple"] {
        let found = on_box(&format!("NCCL_PROTO={value}"), "2.28.3", &without);
        assert!(found.len() == 1 && found[0].contains("can corrupt data in silence"), "{value}: {found:?}");
        assert_eq!(self::found(&format!("NCCL_PROTO={value}"), "2.28.3"), [""; 0], "NVLink");
    }
    assert_eq!(on_box("NCCL_PROTO=^LL128", "2.28.3", &without), [""; 0]);
    assert_eq!(on_box("NCCL_PROTO=LL128", "2.28.3", &UnknownBox).len(), 1, "not known: said");
}

#[test]
fn variables_that_spoil_each_other_are_told() {
    assert!(one("NCCL_P2P_DISABLE=1|NCCL_P2P_LEVEL=SYS", "2.28.3").starts_with("Warning NCCL_P2P_LEVEL is never read"));
    assert!(one("NCCL_MAX_NCHANNELS=8|NCCL_MAX_CTAS=4", "2.28.3").contains("the lower wins"));
    assert!(
        one("NCCL_MIN_NCHANNELS=8|NCCL_MAX_NCHANNELS=4", "2.28.3").starts_with("Error NCCL_MIN_NCHANNELS is 8, above")
    );
    assert!(one("NCCL_MIN_NCHANNELS=8|NCCL_MAX_NCHANNELS=4", "2.28.3").contains("makes both 8"), "the minimum wins");
    assert!(one("NCCL_MIN_CTAS=8|NCCL_MAX_CTAS=4", "2.28.3").contains("makes both 4"), "the maximum wins");
    assert!(one("NCCL_MAX_NCHANNELS=128", "2.28.3").contains("is taken as 64"));
    assert!(one("NCCL_MAX_CTAS=64", "2.24.3").contains("is taken as 32"));
    assert!(one("NCCL_P2P_DISABLE=1|NCCL_SHM_DISABLE=1", "2.28.3").contains("only the network"));
    assert!(one("NCCL_LL128_NTHREADS=320|NCCL_PROTO=LL", "2.28.3").contains("acts on LL128 only"));
    assert!(one("NCCL_NTHREADS=256|NCCL_ALGO=Tree|NCCL_PROTO=Simple", "2.28.3").contains("ring Simple only"));
    assert!(one("NCCL_COMM_BLOCKING=0", "2.28.3").contains("host thread"));
}

#[test]
fn names_and_versions_are_checked() {
    assert!(one("NCCL_BUFSIZE=4194304", "2.28.3").ends_with("(did you mean NCCL_BUFFSIZE?)"));
    assert!(one("nccl_proto=LL", "2.28.3").contains("names are upper case"));
    assert!(one("NCCL_VERSION=2.28.3", "2.28.3").starts_with("Warning NCCL_VERSION is not read by NCCL"));
    assert!(one("NCCL_MAX_CTAS=8", "2.16.5").contains("it came with 2.17.0"));
    assert!(one("NCCL_SHM_USE_CUDA_MEMCPY=1", "2.32.3").contains("2.30.4 was the last that did"));
    assert!(one("NCCL_MULTI_RANK_GPU_ENABLE=1", "2.28.3").starts_with("Warning"));
    assert!(
        one("NCCL_PAT_NDIMS=1", "2.32.3").starts_with("Warning")
            && one("NCCL_PAT_NDIMS=1", "2.28.3").starts_with("Error")
    );
    assert_eq!(found("CUDA_VISIBLE_DEVICES=0|PATH=/bin", "2.28.3"), [""; 0]);
    assert_eq!(one("PROTO=LL", "2.28.3"), "Error PROTO is no variable of NCCL (did you mean NCCL_PROTO?)");
    assert!(one("NCCL_CTA_POLICY=EFFICIENCY", "2.28.3").starts_with("Error"), "words came with 2.29");
    assert_eq!(found("NCCL_CTA_POLICY=EFFICIENCY|NCCL_DEBUG=WARN", "2.29.2"), [""; 0]);
    let context = Context { version: None, allow_unknown: true, facts: &UnknownBox };
    assert_eq!(check(&settings("NCCL_NEW_THING=1"), &context)[0].severity, Severity::Warning);
    let strict = Context { allow_unknown: false, ..context };
    assert_eq!(check(&settings("NCCL_NEW_THING=1"), &strict)[0].severity, Severity::Error);
}

#[test]
fn what_the_box_lacks_is_an_error() {
    let facts = Box { files: vec!["/etc/topo.xml", "/tmp"], nvlink: None };
    let on = |text: &str| on_box(text, "2.28.3", &facts);
    assert_eq!(on("NCCL_TOPO_FILE=/etc/topo.xml|NCCL_GRAPH_DUMP_FILE=/tmp/graph.xml"), [""; 0]);
    assert_eq!(on("NCCL_GRAPH_FILE=/no.xml"), ["Error NCCL_GRAPH_FILE names /no.xml, which is not there"]);
    assert_eq!(
        on("NCCL_TOPO_DUMP_FILE=/nowhere/t.xml"),
        ["Error NCCL_TOPO_DUMP_FILE names /nowhere, which is not there"]
    );
    assert!(on("NCCL_TOPO_FILE=~/topo.xml")[0].contains("does not expand"));
    assert_eq!(
        on("NCCL_SOCKET_IFNAME=eth9"),
        ["Error NCCL_SOCKET_IFNAME leaves no interface of this box (this box has lo, eth0)"]
    );
    for value in ["eth", "=eth0", "^lo", "eth0,eth1", "^=docker0"] {
        assert_eq!(on(&format!("NCCL_SOCKET_IFNAME={value}")), [""; 0], "{value}");
    }
    for value in ["=eth", "^lo,eth", "eth0, eth1"] {
        assert_eq!(on(&format!("NCCL_SOCKET_IFNAME={value}")).len(), 1, "{value}");
    }
    assert_eq!(on("NCCL_IB_HCA==mlx5_0:1"), [""; 0]);
    assert_eq!(on_box("NCCL_TOPO_FILE=/no.xml", "2.28.3", &UnknownBox), [""; 0], "not known: not said");
}

#[test]
fn words_and_flags_are_checked_by_version() {
    assert_eq!(found("NCCL_DEBUG=info|NCCL_DEBUG_SUBSYS=INIT,ENV", "2.28.3"), [""; 0]);
    assert!(one("NCCL_DEBUG=verbose", "2.28.3").contains("values are VERSION, WARN, INFO"));
    assert!(one("NCCL_DEBUG=INFO|NCCL_DEBUG_SUBSYS=^INIT,FOO", "2.28.3").contains("ignores the word"));
    assert!(one("NCCL_DEBUG=INFO|NCCL_DEBUG_SUBSYS=FOO", "2.30.7").contains("ignores the whole value"));
    assert!(one("NCCL_DEBUG=INFO|NCCL_DEBUG_SUBSYS=RAS", "2.21.5").starts_with("Error"));
    assert_eq!(on_box("NCCL_CTA_POLICY=efficiency", "2.29.2", &UnknownBox), [""; 0]);
    let several = Setting { name: "NCCL_CTA_POLICY".into(), value: "EFFICIENCY|FAST".into(), origin: String::new() };
    let context = Context { version: None, allow_unknown: false, facts: &UnknownBox };
    assert!(check(&[several], &context)[0].message.contains("names `FAST`, which is unknown"));
    assert!(on_box("NCCL_DEBUG_FILE=/dev/stderr", "2.28.3", &UnknownBox)[0].contains("no effect without NCCL_DEBUG"));
}

/// Every name with a value of its own kind is found legal.
#[test]
fn documented_defaults_are_legal() {
    let mut bad = BTreeMap::new();
    for variable in catalogue::all() {
        let Some(default) = variable.default.as_deref().filter(|default| !default.contains([' ', '~'])) else {
            continue;
        };
        let setting = Setting { name: variable.name.clone(), value: default.to_owned(), origin: String::new() };
        let version = variable.until.or(Some(NcclVersion::new(2, 30, 7)));
        let findings = check(&[setting], &Context { version, allow_unknown: false, facts: &UnknownBox });
        let errors: Vec<_> = findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
        if !errors.is_empty() {
            bad.insert(variable.name.clone(), errors);
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

proptest! {
    #[test]
    fn any_value_of_any_variable_is_checked(at in 0usize..10_000, value in "\\PC{0,12}|[-+0-9xXKMG# ]{0,8}|[;:,^=LlRing]{0,10}", minor in 4u16..40) {
        let all = catalogue::all();
        let name = all[at % all.len()].name.clone();
        let setting = Setting { name, value, origin: String::new() };
        for version in [None, Some(NcclVersion::minor(2, minor))] {
            let context = Context { version, allow_unknown: false, facts: &Box::default() };
            for finding in check(std::slice::from_ref(&setting), &context) {
                prop_assert!(!finding.message.is_empty());
            }
        }
    }
}
