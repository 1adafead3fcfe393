//! Variables that spoil each other.

use super::{Context, Fault, Finding, Setting};
use crate::nccl::lists::Allowed;
use crate::nccl::number::strtoll;
use crate::nccl::words::{Algorithm, Function, Protocol};

/// The settings at hand.
struct Set<'a>(&'a [&'a Setting]);

impl Set<'_> {
    fn get(&self, name: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| setting.name == name && !setting.value.is_empty()).copied()
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name).map(|setting| strtoll(&setting.value).value)
    }

    fn is(&self, name: &str, value: i64) -> bool {
        self.number(name) == Some(value)
    }
}

/// What is wrong with `settings` taken together; each is known to the version.
pub fn check(settings: &[&Setting], context: &Context) -> Vec<Finding> {
    let set = Set(settings);
    let mut findings = choice(&set, context);
    findings.extend(channels(&set));
    findings.extend(paths(&set));
    findings.extend(process(&set));
    findings
}

/// Algorithms, protocols, and what acts on them, for all-reduce.
fn choice(set: &Set, context: &Context) -> Vec<Finding> {
    // `get` leaves empty values out; for these two they count up to 2.23.
    let raw = |name: &str| set.0.iter().find(|setting| setting.name == name).copied();
    let (algo, proto) = (raw("NCCL_ALGO"), raw("NCCL_PROTO"));
    let value = |setting: Option<&'_ Setting>| setting.map(|setting| setting.value.clone());
    let (algo_value, proto_value) = (value(algo), value(proto));
    let collnet = set.is("NCCL_COLLNET_ENABLE", 1);
    let mut allowed =
        Allowed::resolve(algo_value.as_deref(), proto_value.as_deref(), &Function::AllReduce, context.version, collnet);
    if set.is("NCCL_NVLS_ENABLE", 0) {
        allowed.pairs.retain(|(algorithm, _)| *algorithm != Algorithm::Nvls);
    }
    let mut findings = Vec::new();
    let refused = |value: &Option<String>, algorithms: bool| {
        value.as_deref().is_some_and(|value| match algorithms {
            true => crate::nccl::lists::algorithms(value, context.version).refused,
            false => crate::nccl::lists::protocols(value, context.version).refused,
        })
    };
    if refused(&algo_value, true) || refused(&proto_value, false) {
        return findings;
    }
    if let Some(setting) = algo.or(proto).filter(|_| allowed.pairs.is_empty()) {
        let fault = Fault::error("leaves no algorithm with a protocol for all-reduce on one node: the first one fails");
        findings.push(fault.help(why_empty(algo_value.as_deref())).of(setting));
        return findings;
    }
    if let Some(setting) = algo.or(proto).filter(|_| allowed.ignored) {
        let left: Vec<_> = allowed.algorithms().iter().map(ToString::to_string).collect();
        findings.push(
            Fault::error(format!("leaves nothing usable: NCCL takes {} instead", left.join(" and "))).of(setting),
        );
    }
    if let Some(setting) = proto.filter(|_| allowed.ll128_forced && context.facts.nvlink() != Some(true)) {
        let message = match context.facts.nvlink() {
            Some(_) => "forces LL128 on without NVLink, which can corrupt data in silence",
            None => "forces LL128 on, which can corrupt data in silence where no NVLink connects the GPUs",
        };
        findings.push(Fault::warning(message).help("exclude it: ^LL128, or name LL,Simple").of(setting));
    }
    findings.extend(no_effect(set, &allowed));
    findings
}

fn why_empty(algo: Option<&str>) -> &'static str {
    let named = |name: &str| algo.is_some_and(|algo| algo.to_ascii_lowercase().contains(name));
    match () {
        () if named("collnet") => "CollNet needs NCCL_COLLNET_ENABLE=1 and a network that reduces",
        () if named("pat") => "PAT serves all-gather and reduce-scatter only",
        () if named("nvlstree") => "NVLSTree serves several nodes only",
        () if named("nvls") => "NVLS carries Simple only, and not with NCCL_NVLS_ENABLE=0",
        () => "name an algorithm and a protocol that go together, as Ring and LL",
    }
}

/// Sizes and threads of protocols that cannot be chosen.
fn no_effect(set: &Set, allowed: &Allowed) -> Vec<Finding> {
    let on = |protocol: &Protocol| allowed.protocols().contains(&protocol);
    let low = |(algorithm, protocol): &(Algorithm, Protocol)| match protocol {
        Protocol::Ll => true,
        Protocol::Simple => *algorithm == Algorithm::Ring,
        _ => false,
    };
    let low = allowed.pairs.iter().any(low);
    let dead = [
        ("NCCL_BUFFSIZE", on(&Protocol::Simple), "acts on Simple only"),
        ("NCCL_LL_BUFFSIZE", on(&Protocol::Ll), "acts on LL only"),
        ("NCCL_LL128_BUFFSIZE", on(&Protocol::Ll128), "acts on LL128 only"),
        ("NCCL_LL128_NTHREADS", on(&Protocol::Ll128), "acts on LL128 only"),
        ("NCCL_NTHREADS", low, "acts on LL and on ring Simple only"),
    ];
    let dead = dead.iter().filter(|(_, alive, _)| !alive);
    dead.filter_map(|(name, _, why)| {
        let message = format!("has no effect: it {why}, which the other settings turn off");
        Some(Fault::warning(message).of(set.get(name)?))
    })
    .collect()
}

fn channels(set: &Set) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pairs = [
        ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
        ("NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"),
        ("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS"),
    ];
    for (min, max) in pairs {
        if let (Some(least), Some(most), Some(setting)) = (set.number(min), set.number(max), set.get(min))
            && most > 0
            && least > most
        {
            // `copyChannels` of `connect.cc` goes up to the minimum, `envConfigOverride` of `init.cc` down to the maximum.
            let wins = if min.ends_with("_CTAS") { most } else { least };
            findings.push(Fault::error(format!("is {least}, above {max}={most}: NCCL makes both {wins}")).of(setting));
        }
    }
    let twice = [
        ("NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS", "the higher wins"),
        ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "the lower wins"),
        ("NCCL_MIN_NRINGS", "NCCL_MIN_NCHANNELS", "NCCL_MIN_NCHANNELS wins"),
        ("NCCL_MAX_NRINGS", "NCCL_MAX_NCHANNELS", "NCCL_MAX_NCHANNELS wins"),
    ];
    for (old, new, which) in twice {
        if let (Some(setting), Some(_)) = (set.get(old), set.get(new)) {
            findings.push(Fault::warning(format!("stands beside {new}, which means the same: {which}")).of(setting));
        }
    }
    findings
}

fn paths(set: &Set) -> Vec<Finding> {
    let mut findings = Vec::new();
    let off = set.is("NCCL_P2P_DISABLE", 1);
    if let Some(setting) = set.get("NCCL_P2P_LEVEL").filter(|_| off) {
        findings.push(Fault::warning("is never read beside NCCL_P2P_DISABLE=1").of(setting));
    }
    for name in ["NCCL_P2P_READ_ENABLE", "NCCL_P2P_DIRECT_DISABLE", "NCCL_P2P_USE_CUDA_MEMCPY"] {
        if let Some(setting) = set.get(name).filter(|_| off) {
            findings.push(Fault::warning("has no effect beside NCCL_P2P_DISABLE=1").of(setting));
        }
    }
    let loc = set.get("NCCL_P2P_LEVEL").is_some_and(|setting| setting.value == "LOC");
    if let Some(setting) = set.get("NCCL_SHM_DISABLE").filter(|_| set.is("NCCL_SHM_DISABLE", 1) && (off || loc)) {
        let message = "leaves only the network between the GPUs of this box, as peer access is off too";
        findings.push(Fault::warning(message).of(setting));
    }
    if let Some(setting) = set.get("NCCL_NVLS_ENABLE").filter(|_| set.is("NCCL_NVLS_ENABLE", 1))
        && set.is("NCCL_MULTI_RANK_GPU_ENABLE", 1)
    {
        let message = "fails the initialisation when ranks share a GPU (NCCL_MULTI_RANK_GPU_ENABLE=1)";
        findings.push(Fault::warning(message).help("0 or 2 go together with it").of(setting));
    }
    findings
}

fn process(set: &Set) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(setting) = set.get("NCCL_COMM_BLOCKING").filter(|_| set.is("NCCL_COMM_BLOCKING", 0)) {
        let message = "starts a host thread for every launch, which changes what is measured";
        findings.push(Fault::warning(message).of(setting));
    }
    let logs = set.get("NCCL_DEBUG").is_some_and(|setting| !setting.value.eq_ignore_ascii_case("VERSION"));
    if let Some(setting) = set.get("NCCL_DEBUG_FILE").filter(|_| !logs) {
        findings.push(Fault::warning("has no effect without NCCL_DEBUG at WARN or above").of(setting));
    }
    if let Some(setting) = set.get("NCCL_DEBUG_SUBSYS").filter(|_| !logs) {
        findings.push(Fault::warning("has no effect without NCCL_DEBUG").of(setting));
    }
    findings
}
