//! How the ranks of a communicator come together, in one process or several.

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use super::comm::{Key, UniqueId};
use super::lists::Complaint;
use super::plan::Plan;
use super::{INTERNAL, INVALID_USAGE, Nccl, SYSTEM, env, log, story};
use crate::engine::{self, Group};
use crate::remote::{Home, Link, hub};
use crate::settings;

/// GPU and home of a rank.
type Place = (usize, Home);

/// A communicator that is being joined.
struct Joining {
    /// Where each rank that has come is. In a process that did not make the id only its own ranks are known, until all have come.
    places: Vec<Option<Place>>,
    /// The hub's connections to other processes.
    others: Vec<UnixStream>,
    /// To the hub, where ranks are in several processes.
    link: Option<Arc<Link>>,
    /// Which of the processes this is.
    process: usize,
    complete: bool,
    group: Option<usize>,
    plan: Option<Result<Arc<Plan>, Arc<Complaint>>>,
    /// Ranks of this process that have yet to go on.
    left: usize,
}

impl Joining {
    fn new(ranks: usize) -> Joining {
        Joining {
            places: vec![None; ranks],
            others: Vec::new(),
            link: None,
            process: 0,
            complete: false,
            group: None,
            plan: None,
            left: 0,
        }
    }

    /// A rank has come; `Err` when it does not fit.
    fn add(&mut self, ranks: usize, rank: usize, place: Place) -> Nccl<()> {
        if self.places.len() != ranks || self.places.get(rank).is_none_or(Option::is_some) {
            log::warn(
                "bootstrap.cc:412",
                &format!("rank {rank} of {ranks} does not fit the communicator being joined"),
            );
            return Err(INVALID_USAGE);
        }
        self.places[rank] = Some(place);
        Ok(())
    }

    /// All places are known.
    fn settle(&mut self) {
        self.complete = true;
        self.left = self.places.iter().flatten().filter(|(_, home)| home.process == self.process).count();
        CHANGED.notify_all();
    }

    /// In the process that made the id: opens the hub once all have come, when some are in other processes.
    fn open_when_complete(&mut self, number: u64) {
        let all: Option<Vec<Place>> = self.places.iter().copied().collect();
        let Some(all) = all else { return };
        if !self.others.is_empty()
            && let Ok((hub_end, own_end)) = UnixStream::pair()
        {
            let link = Arc::new(Link::new(own_end));
            hub::open(number, &all, hub_end, std::mem::take(&mut self.others));
            let follower = Arc::clone(&link);
            // The first message says what is known here.
            std::thread::spawn(move || follower.ready().and_then(|_| follower.follow()));
            self.link = Some(link);
        }
        self.settle();
    }
}

static JOINING: LazyLock<Mutex<HashMap<Key, Joining>>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

fn joining() -> MutexGuard<'static, HashMap<Key, Joining>> {
    JOINING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A rank of another process joins a communicator whose id was made here; tells which of its processes that one is.
pub(crate) fn join_remote(
    number: u64,
    ranks: usize,
    rank: usize,
    gpu: usize,
    host: u64,
    stream: &UnixStream,
    process: Option<usize>,
) -> Option<usize> {
    let key = (std::process::id().into(), hub::nonce(), number);
    let mut all = joining();
    let joining = all.entry(key).or_insert_with(|| Joining::new(ranks));
    let process = match process {
        Some(process) => process,
        None => {
            joining.others.push(stream.try_clone().ok()?);
            joining.others.len()
        }
    };
    joining.add(ranks, rank, (gpu, Home { process, host })).ok()?;
    joining.open_when_complete(number);
    Some(process)
}

/// Tells hosts apart: what NCCL_HOSTID says, else all are one.
fn host() -> u64 {
    static HOST: OnceLock<u64> = OnceLock::new();
    *HOST.get_or_init(|| {
        let Some(id) = env::get("NCCL_HOSTID").filter(|id| !id.is_empty()) else { return 0 };
        log::info(log::ENV, &format!("NCCL_HOSTID set by environment to {id}"));
        id.bytes().fold(1, |hash, byte| crate::noise::mix(hash ^ u64::from(byte)))
    })
}

/// A rank of this process joins.
pub(super) fn add(id: &UniqueId, ranks: usize, rank: usize, gpu: usize) -> Nccl<()> {
    let mut all = joining();
    let joining = all.entry(id.key()).or_insert_with(|| Joining::new(ranks));
    joining.add(ranks, rank, (gpu, Home { process: 0, host: host() }))?;
    if id.is_own() {
        joining.open_when_complete(id.number);
        return Ok(());
    }
    join_elsewhere(joining, id, ranks, rank, gpu).map_err(|error| {
        log::warn("misc/socket.cc:460", &format!("the process that made the id cannot be reached: {error}"));
        SYSTEM
    })
}

/// Tells the process that made the id; the first rank of this process makes the connection, and a thread waits until all have
/// joined.
fn join_elsewhere(joining: &mut Joining, id: &UniqueId, ranks: usize, rank: usize, gpu: usize) -> std::io::Result<()> {
    let link = match &joining.link {
        Some(link) => Arc::clone(link),
        None => {
            let link = Arc::new(Link::to(id.process, id.nonce)?);
            let (follower, key) = (Arc::clone(&link), id.key());
            std::thread::spawn(move || {
                let (process, places) = follower.ready()?;
                if let Some(joining) = self::joining().get_mut(&key) {
                    joining.process = process;
                    joining.places = places.into_iter().map(Some).collect();
                    joining.settle();
                }
                follower.follow()
            });
            joining.link = Some(Arc::clone(&link));
            link
        }
    };
    link.join(id.number, ranks, rank, gpu, host())
}

/// Waits for all ranks, and decides for this process.
pub(super) fn meet(id: &UniqueId) -> Nccl<(Arc<Plan>, usize)> {
    let key = id.key();
    let mut all = joining();
    loop {
        if all.get_mut(&key).ok_or(INTERNAL)?.complete {
            break;
        }
        all = CHANGED.wait(all).unwrap_or_else(PoisonError::into_inner);
    }
    let joining = all.get_mut(&key).ok_or(INTERNAL)?;
    let (gpus, homes): (Vec<usize>, Vec<Home>) = joining.places.iter().flatten().copied().unzip();
    if joining.plan.is_none() {
        joining.plan = Some(make_plan(gpus.clone(), homes));
    }
    let group = *joining.group.get_or_insert_with(|| {
        let own = joining.places.iter().flatten().map(|(_, home)| home.process == joining.process).collect();
        let group = engine::lock().groups.insert(Group::new(id.number, &gpus, own, joining.link.clone()));
        if let Some(link) = &joining.link {
            link.group.get_or_init(|| group);
        }
        group
    });
    let plan = joining.plan.clone().ok_or(INTERNAL)?;
    joining.left -= 1;
    if joining.left == 0 {
        all.remove(&key);
    }
    match plan {
        Ok(plan) => Ok((plan, group)),
        Err(complaint) => {
            story::on_refused();
            log::warn(complaint.place, &complaint.message);
            Err(INVALID_USAGE)
        }
    }
}

/// Decides for a communicator, or says why it cannot be.
fn make_plan(gpus: Vec<usize>, homes: Vec<Home>) -> Result<Arc<Plan>, Arc<Complaint>> {
    let settings = settings::get();
    let same = |rank: usize, other: usize| gpus[rank] == gpus[other] && homes[rank].host == homes[other].host;
    let twice = (0..gpus.len()).find_map(|rank| Some((rank, (0..rank).find(|other| same(rank, *other))?)));
    if let Some((rank, other)) = twice {
        let bus = format!("{:x}", settings.machine.slots[gpus[rank]].address);
        if !settings.nccl.since(30) {
            let message = format!("Duplicate GPU detected : rank {other} and rank {rank} both on CUDA device {bus}");
            return Err(Arc::new(Complaint { place: "init.cc:808", message }));
        }
        if env::parameter("NCCL_MULTI_RANK_GPU_ENABLE") != Some(1) {
            let message = format!("Multiple Ranks are using the same GPU {bus}: set NCCL_MULTI_RANK_GPU_ENABLE=1");
            return Err(Arc::new(Complaint { place: "init.cc:1102", message }));
        }
    }
    Plan::new(settings, gpus, homes).map(Arc::new).map_err(Arc::new)
}
