//! What a launcher tells the processes that it started: how many there are, which one this is, and where the first is.

use crate::error::{Error, Kind, Result};

/// Ports that are taken by default: below those that systems give away.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// Where a process stands among those of its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which it is, counted from 0.
    pub agent: u32,
    /// How many there are.
    pub of: u32,
    /// Which it is on its host.
    pub local: u32,
    /// How many there are on its host.
    pub local_of: u32,
    /// Who told.
    pub launcher: &'static str,
}

/// Variables by which a launcher tells: rank, size, rank on the host, size on the host.
struct Told {
    launcher: &'static str,
    names: [&'static str; 4],
}

/// Tells of all nodes of a step, where the others tell of one process.
const TASKS_BY_NODE: &str = "SLURM_STEP_TASKS_PER_NODE";

/// The launchers, those that are the innermost first: `mpirun` inside an allocation of Slurm has both.
const LAUNCHERS: [Told; 6] = [
    Told {
        launcher: "Open MPI",
        names: [
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ],
    },
    Told { launcher: "MPICH", names: ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"] },
    Told { launcher: "Cray PALS", names: ["PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"] },
    Told {
        launcher: "MVAPICH",
        names: ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"],
    },
    // Of a step alone: in a batch script, which no step started, the job's own numbers would count tasks that are not there.
    Told { launcher: "srun", names: ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", TASKS_BY_NODE] },
    Told { launcher: "RANK and WORLD_SIZE", names: ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"] },
];

/// The place of this process, when a launcher started several; `get` gives a variable.
pub fn place(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<Place>> {
    let told = LAUNCHERS.iter().find(|told| told.names[..2].iter().all(|name| get(name).is_some()));
    let Some(Told { launcher, names }) = told else { return Ok(None) };
    let number = |name: &str| -> Result<Option<u32>> {
        let Some(text) = get(name) else { return Ok(None) };
        // Slurm tells of every node: `8(x2),4`. The first is taken, for the shares of a host are the same on all.
        let number = if name == TASKS_BY_NODE { text.split(['(', ',']).next().unwrap_or_default() } else { &text };
        number.parse().map(Some).map_err(|_| {
            Error::usage(format!("{name}={text} is no number"))
                .help("it is set by a launcher; `--rendezvous none` measures without other agents")
        })
    };
    let (agent, of) = (number(names[0])?.unwrap_or(0), number(names[1])?.unwrap_or(1));
    if of < 2 {
        return Ok(None);
    }
    if agent >= of {
        return Err(Error::usage(format!("{}={agent} of {}={of}", names[0], names[1]))
            .help("ranks count from 0; `--rendezvous none` measures without other agents"));
    }
    let (mut local, mut local_of) = (number(names[2])?, number(names[3])?);
    // PMI tells ranks alone; who speaks it beside words of its own tells the rest in these, where they are of the same processes.
    let others = LAUNCHERS.iter().filter(|other| other.launcher != *launcher).map(|other| other.names);
    for [rank, size, on_host, of_host] in others {
        let same = get(rank).is_some_and(|other| other == agent.to_string()) && number(size).ok().flatten() == Some(of);
        if local.is_none() && same {
            (local, local_of) = (number(on_host)?, number(of_host)?);
        }
    }
    let local = local.unwrap_or(0);
    Ok(Some(Place { agent, of, local, local_of: local_of.unwrap_or(1).max(local + 1), launcher }))
}

/// Whether a launcher told this process its number, be it the only one.
pub fn is_told(get: &dyn Fn(&str) -> Option<String>) -> bool {
    LAUNCHERS.iter().any(|told| told.names[..2].iter().all(|name| get(name).is_some()))
}

/// The address at which the agents meet, which is on the host of the first: host and port.
pub fn address(asked: Option<&str>, place: &Place, get: &dyn Fn(&str) -> Option<String>) -> Result<(String, u16)> {
    let port = default_port(get);
    if let Some(asked) = asked {
        return split(asked, port);
    }
    if let Some(master) = get("MASTER_ADDR").filter(|master| !master.is_empty()) {
        let wrong = |text: &str| {
            Error::usage(format!("MASTER_PORT={text} is no port"))
                .help("from 1 to 65535, the same for all agents; --rendezvous HOST:PORT names another")
        };
        let told = get("MASTER_PORT").filter(|port| !port.is_empty());
        let port = match told {
            Some(text) => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong(&text))?,
            None => port,
        };
        let bare = master.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(str::to_owned);
        return Ok((bare.unwrap_or(master), port));
    }
    if place.local_of == place.of {
        return Ok(("127.0.0.1".to_owned(), port));
    }
    if let Some(node) = ["SLURM_STEP_NODELIST", "SLURM_NODELIST"].iter().find_map(|name| first_node(&get(name)?)) {
        return Ok((node, port));
    }
    Err(Error::usage(format!("{} started {} agents and does not tell where the first is", place.launcher, place.of))
        .help(
            "--rendezvous HOST:PORT: an address of the first agent's host that the others reach; --rendezvous none measures on \
             this host alone",
        ))
}

/// `HOST`, `HOST:PORT`, `[ADDRESS]:PORT`.
fn split(text: &str, port: u16) -> Result<(String, u16)> {
    let wrong = || {
        Error::usage(format!("--rendezvous {text} is no address"))
            .help("HOST:PORT, e.g. node1:29400; none to measure without other agents")
    };
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, rest) = match bracketed {
        Some((host, rest)) => (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))),
        None if text.matches(':').count() > 1 => (text, Some("")),
        None => text.split_once(':').map_or((text, Some("")), |(host, port)| (host, Some(port))),
    };
    let port = match rest.ok_or_else(wrong)? {
        "" => port,
        given => given.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
    };
    if host.is_empty() { Err(wrong()) } else { Ok((host.to_owned(), port)) }
}

/// A port by the launcher's job, so that two jobs on a host do not meet.
fn default_port(get: &dyn Fn(&str) -> Option<String>) -> u16 {
    let job = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_JOBID"];
    let words = job.iter().filter_map(|name| get(name));
    // FNV-1a: the same on every host and in every build.
    let hash = words
        .flat_map(String::into_bytes)
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    PORTS.start + (hash % PORTS.len() as u64) as u16
}

/// The first host of a list of Slurm's: `node[03-04,7],login`, `gpu1`, `rack[1-2]node[5,7]-ib`.
fn first_node(list: &str) -> Option<String> {
    let (mut node, mut rest) = (String::new(), list);
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        node.push_str(&rest[..end]);
        let Some(numbers) = rest[end..].strip_prefix('[') else { break };
        let (numbers, behind) = numbers.split_once(']')?;
        node.push_str(numbers.split(['-', ',']).next()?);
        rest = behind;
    }
    (!node.is_empty()).then_some(node)
}

/// The error of what several agents cannot do.
#[must_use]
pub fn alone(what: &str) -> Error {
    Error::new(Kind::Usage, format!("{what} works on one host alone"))
        .help("start it without the launcher, or with `--rendezvous none` in one of its processes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    fn of(pairs: &[(&str, &str)]) -> Option<Place> {
        place(&with(pairs)).unwrap()
    }

    #[test]
    fn each_launcher_tells_in_its_own_words() {
        let told = |place: Option<Place>| place.map(|place| (place.agent, place.of, place.local, place.local_of));
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
        ];
        assert_eq!(told(of(&open_mpi)), Some((3, 4, 1, 2)));
        let mpich = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "0"), ("MPI_LOCALNRANKS", "1")];
        assert_eq!(told(of(&mpich)), Some((1, 2, 0, 1)));
        let srun = [
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
        ];
        assert_eq!(told(of(&srun)), Some((1, 2, 0, 1)));
        assert_eq!(told(of(&[("RANK", "1"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "1")])), Some((1, 2, 1, 2)));
        let pals = [("PMI_RANK", "5"), ("PMI_SIZE", "8"), ("PMI_LOCAL_RANK", "1"), ("PMI_LOCAL_SIZE", "4")];
        assert_eq!(told(of(&pals)), Some((5, 8, 1, 4)));
    }

    #[test]
    fn who_speaks_pmi_beside_words_of_its_own_tells_the_place_on_the_host_in_these() {
        let with = |procid: &'static str| {
            let pmi = [("PMI_RANK", "3"), ("PMI_SIZE", "4"), ("SLURM_PROCID", procid)];
            let step = [("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_LOCALID", "1"), ("SLURM_STEP_TASKS_PER_NODE", "2(x2)")];
            let place = of(&[&pmi[..], &step[..]].concat()).unwrap();
            (place.agent, place.of, place.local, place.local_of)
        };
        assert_eq!(with("3"), (3, 4, 1, 2), "srun --mpi=pmi2");
        assert_eq!(with("0"), (3, 4, 0, 1), "a step that started something else");
    }

    #[test]
    fn one_process_and_a_batch_script_are_no_agents() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "1")]), None);
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_LOCALID", "0")]), None);
    }

    #[test]
    fn numbers_that_are_none_are_refused_by_name() {
        assert!(place(&with(&[("RANK", "x"), ("WORLD_SIZE", "2")])).unwrap_err().message().contains("RANK=x"));
        assert!(place(&with(&[("RANK", "1x"), ("WORLD_SIZE", "2")])).is_err());
        assert!(place(&with(&[("RANK", "2"), ("WORLD_SIZE", "2")])).is_err());
    }

    #[test]
    fn the_first_is_found_where_somebody_tells() {
        let place = Place { agent: 1, of: 4, local: 0, local_of: 1, launcher: "x" };
        let at = |asked: Option<&str>, pairs: &[(&str, &str)]| address(asked, &place, &with(pairs));
        assert_eq!(at(Some("node1:29400"), &[("MASTER_ADDR", "m")]).unwrap(), ("node1".into(), 29400));
        assert_eq!(at(Some("[fe80::1]:7"), &[]).unwrap(), ("fe80::1".into(), 7));
        assert_eq!(at(Some("fe80::1"), &[]).unwrap().0, "fe80::1");
        assert_eq!(at(None, &[("MASTER_ADDR", "m"), ("MASTER_PORT", "5")]).unwrap(), ("m".into(), 5));
        assert_eq!(at(None, &[("MASTER_ADDR", "[::1]"), ("MASTER_PORT", "5")]).unwrap(), ("::1".into(), 5));
        for wrong in ["x", "0", "70000"] {
            let error = at(None, &[("MASTER_ADDR", "m"), ("MASTER_PORT", wrong)]).unwrap_err();
            assert!(error.message().contains(&format!("MASTER_PORT={wrong}")), "{error}");
        }
        let (node, port) = at(None, &[("SLURM_STEP_NODELIST", "gpu[03-04,9],x"), ("SLURM_JOB_ID", "77")]).unwrap();
        assert!(node == "gpu03" && PORTS.contains(&port));
        assert_eq!(first_node("login"), Some("login".into()));
        assert_eq!(first_node("rack[1-2]node[05,7]-ib,x[2-3]"), Some("rack1node05-ib".into()));
        assert_eq!((first_node("node[03"), first_node("")), (None, None));
        let one_host = Place { local_of: 4, ..place.clone() };
        assert_eq!(address(None, &one_host, &with(&[])).unwrap().0, "127.0.0.1");
        assert!(at(None, &[]).unwrap_err().next_step().unwrap().contains("--rendezvous HOST:PORT"));
        for wrong in ["", ":7", "node:x", "[fe80::1]7", "node:70000", "node:0"] {
            assert!(at(Some(wrong), &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_jobs_have_ports_of_their_own() {
        let port = |job: &str| default_port(&with(&[("PMIX_NAMESPACE", job)]));
        assert!(port("1") != port("2") && port("1") == port("1"));
    }
}
