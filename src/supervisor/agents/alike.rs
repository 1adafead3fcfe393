//! Whether hosts are alike enough for their figures to be of one thing.

use super::message::Facts;
use crate::error::{Error, Kind, Result};
use crate::record::run::Provenance;

/// Refuses hosts that have other drivers or NCCL than the first, unless `mixed` is allowed, and agents that share a GPU; gives
/// what is to be said of those that go on. The first agent's facts come first.
pub fn check(all: &[&Facts], mixed: bool) -> Result<Vec<String>> {
    let Some((first, others)) = all.split_first() else { return Ok(Vec::new()) };
    if let Some((one, other, uuid)) = shared_gpu(all) {
        let message = format!("agents {one} and {other} are on one machine and would use the same GPU, {uuid}");
        return Err(Error::new(Kind::Usage, message)
            .help("--gpus N gives each agent on a host N GPUs of its own; or name them with --devices, or CUDA_VISIBLE_DEVICES"));
    }
    let mut differences = Vec::new();
    for (number, other) in (1..).zip(others) {
        for (what, [here, there]) in differing(&first.provenance, &other.provenance) {
            let (host, first) = (&other.provenance.host, &first.provenance.host);
            differences.push(format!("host {host} (agent {number}) has {what} {there}, {first} has {here}"));
        }
    }
    match differences.first() {
        Some(first) if !mixed => Err(Error::new(Kind::Environment, first.clone())
            .help("figures of such a run are of no one driver or NCCL; --allow-mixed measures nevertheless")),
        _ => Ok(differences),
    }
}

/// Variables whose values are names of a host: its interfaces, adapters, files.
const OF_A_HOST: [&str; 9] = [
    "NCCL_SOCKET_IFNAME",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_HOSTID",
    "NCCL_TOPO_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_CONF_FILE",
    "NCCL_DEBUG_FILE",
];

/// Inherited variables that the hosts of `first` do not have alike, other than those that name parts of a host.
#[must_use]
pub fn inherited_apart(first: &Provenance) -> Vec<String> {
    let (_, apart) = first.inherited_alike();
    apart.into_iter().filter(|name| !OF_A_HOST.contains(name)).map(str::to_owned).collect()
}

/// What is to be said of one of them.
#[must_use]
pub fn told_apart(first: &Provenance, name: &str) -> String {
    format!(
        "the hosts inherit {name} differently: {}. Ranks that disagree may hang, and no figure is of one setting; --base \
         {name}=… gives all the same, --clean-env drops what they inherit",
        first.inherited_by_host(name)
    )
}

/// What must be the same, where it is not.
fn differing(one: &Provenance, other: &Provenance) -> Vec<(&'static str, [String; 2])> {
    let libraries = |of: &Provenance| {
        let versions =
            of.libraries.iter().map(|library| library.version.map_or("unknown".to_owned(), |v| v.to_string()));
        versions.collect::<Vec<_>>().join(", ")
    };
    let told = |of: &Option<String>| of.clone().unwrap_or_else(|| "unknown".to_owned());
    let all = [
        ("driver", [told(&one.driver), told(&other.driver)]),
        ("CUDA", [one.cuda.clone(), other.cuda.clone()]),
        ("NCCL", [libraries(one), libraries(other)]),
        ("the emulated box", [told(&one.emulated), told(&other.emulated)]),
    ];
    all.into_iter().filter(|(_, [here, there])| here != there).collect()
}

/// Two agents of one machine with the same GPU; emulated boxes are each agent's own.
fn shared_gpu<'a>(all: &[&'a Facts]) -> Option<(usize, usize, &'a str)> {
    let real: Vec<_> = all.iter().enumerate().filter(|(_, facts)| facts.provenance.emulated.is_none()).collect();
    real.iter().enumerate().find_map(|(at, (one, facts))| {
        let beside = real[at + 1..].iter().filter(|(_, other)| other.machine == facts.machine);
        beside.into_iter().find_map(|(other, theirs)| {
            let uuids = || facts.provenance.gpus.iter().map(|gpu| gpu.uuid.as_str());
            let shared = uuids().find(|uuid| theirs.provenance.gpus.iter().any(|gpu| gpu.uuid == **uuid))?;
            Some((*one, *other, shared))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::version::NcclVersion;
    use crate::plan::env_set::Vars;
    use crate::record::fixture;

    fn facts(machine: &str, gpus: std::ops::Range<usize>) -> Facts {
        let mut provenance = fixture::two_sets().header.provenance;
        provenance.gpus = provenance.gpus[gpus].to_vec();
        Facts { provenance, devices: Vec::new(), machine: machine.to_owned() }
    }

    #[test]
    fn the_same_software_passes_and_every_difference_is_named() {
        let (first, mut other) = (facts("a", 0..8), facts("b", 0..8));
        assert_eq!(check(&[&first, &other], false).unwrap(), [] as [String; 0]);
        other.provenance.driver = Some("570.1".into());
        other.provenance.libraries[0].version = Some(NcclVersion::new(2, 27, 3));
        let error = check(&[&first, &other], false).unwrap_err();
        assert!(error.message().contains("agent 1") && error.message().contains("570.1"), "{error}");
        assert!(error.next_step().unwrap().contains("--allow-mixed"));
        let told = check(&[&first, &other], true).unwrap();
        assert!(told.len() == 2 && told[1].contains("NCCL 2.27.3"), "{told:?}");
    }

    #[test]
    fn settings_that_hosts_inherit_differently_are_told_but_for_names_of_their_own() {
        let mut first = facts("a", 0..8).provenance;
        first.inherited = Vars::from_iter([("NCCL_ALGO", "Ring"), ("NCCL_IB_HCA", "mlx5_0")]);
        let mut other = first.clone();
        other.host = "box-2".into();
        other.inherited = Vars::from_iter([("NCCL_ALGO", "Ring"), ("NCCL_IB_HCA", "mlx5_1"), ("NCCL_PROTO", "LL")]);
        first.others = vec![other];
        assert_eq!(inherited_apart(&first), ["NCCL_PROTO"]);
        let told = told_apart(&first, "NCCL_PROTO");
        assert!(
            told.contains("inherit NCCL_PROTO differently: not set on box-1 (agent 0), LL on box-2 (agent 1)"),
            "{told}"
        );
    }

    #[test]
    fn agents_on_one_machine_need_gpus_of_their_own() {
        let (first, beside, same) = (facts("a", 0..4), facts("a", 4..8), facts("a", 3..5));
        assert!(check(&[&first, &beside], false).is_ok());
        let error = check(&[&first, &beside, &same], true).unwrap_err();
        assert!(error.message().contains("agents 0 and 2"), "{error}");
        assert!(check(&[&first, &facts("b", 0..4)], false).is_ok(), "elsewhere the same names are other GPUs");
    }
}
