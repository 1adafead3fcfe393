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
    fn agents_on_one_machine_need_gpus_of_their_own() {
        let (first, beside, same) = (facts("a", 0..4), facts("a", 4..8), facts("a", 3..5));
        assert!(check(&[&first, &beside], false).is_ok());
        let error = check(&[&first, &beside, &same], true).unwrap_err();
        assert!(error.message().contains("agents 0 and 2"), "{error}");
        assert!(check(&[&first, &facts("b", 0..4)], false).is_ok(), "elsewhere the same names are other GPUs");
    }
}
