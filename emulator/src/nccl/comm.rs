//! Communicators: joined by all ranks together, ended only after the graphs that hold their collectives.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use super::lists::Complaint;
use super::plan::{Choice, Plan};
use super::profiler::{self, Context};
use super::{
    INTERNAL, INVALID_ARGUMENT, INVALID_USAGE, Nccl, NcclError, SYSTEM, UNHANDLED_CUDA, env, log, story, transports,
};
use crate::clock;
use crate::cuda::{self, Handle};
use crate::engine::{self, Collective, Group, Kind, Slab};
use crate::fault::{self, Kind as Fault, Moment, Phase};
use crate::remote::{Home, Link, hub};
use crate::settings;

/// `ncclUniqueId`: 128 bytes that only their library reads.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId {
    magic: u64,
    /// Counted within the process: it numbers the communicators.
    number: u64,
    process: u64,
    /// Names the socket of the process, together with its id.
    nonce: u64,
    rest: [u64; 12],
}

const MAGIC: u64 = 0x6E63_636C_7377_6565;

impl UniqueId {
    pub(crate) fn new() -> UniqueId {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id().into();
        UniqueId { magic: MAGIC, number, process, nonce: hub::nonce(), rest: [0; 12] }
    }

    fn hash(&self) -> u64 {
        crate::noise::mix(settings::get().seed ^ self.number ^ self.process)
    }

    /// Whether this process made it.
    fn is_own(&self) -> bool {
        self.process == u64::from(std::process::id())
    }

    fn key(&self) -> Key {
        (self.process, self.nonce, self.number)
    }
}

/// One rank of a communicator.
pub(crate) struct Comm {
    pub rank: usize,
    pub device: usize,
    /// Of the engine's groups.
    pub group: usize,
    pub hash: u64,
    pub plan: Arc<Plan>,
    pub profiler: Option<Context>,
    /// Collectives of this rank so far.
    pub calls: AtomicU64,
    pub memory: Mutex<Remembered>,
}

/// What the last calls worked out.
#[derive(Default)]
pub(crate) struct Remembered {
    choices: HashMap<usize, Option<Choice>>,
    pub last: Option<Arc<Collective>>,
    /// Algorithms (and peers of sends) whose connections have been made.
    pub connected: HashSet<usize>,
}

static COMMS: LazyLock<RwLock<Slab<Arc<Comm>>>> = LazyLock::new(|| RwLock::new(Slab::new(Kind::Communicator)));

/// The communicator of a handle.
pub(crate) fn find(handle: Handle) -> Nccl<Arc<Comm>> {
    let comms = COMMS.read().unwrap_or_else(PoisonError::into_inner);
    let found = comms.index(handle as u64).map(|index| Arc::clone(&comms[index]));
    found.ok_or_else(|| {
        log::warn("misc/argcheck.cc:49", "comm argument is NULL or not a communicator");
        INVALID_ARGUMENT
    })
}

/// Process, its nonce, and the number of a communicator.
type Key = (u64, u64, u64);

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

/// A rank that has said it is there, and has yet to wait for the others.
pub(crate) struct Joined {
    id: UniqueId,
    who: story::Who,
    index: usize,
    handle: u64,
}

/// A virtual half second: what making a communicator costs.
const INIT_COST: u64 = 500_000_000;

/// Says that a rank is there.
pub(crate) fn join(ranks: c_int, id: &UniqueId, rank: c_int) -> Nccl<Joined> {
    let sound = |value: c_int| usize::try_from(value).ok();
    let (Some(ranks @ 1..), Some(rank)) = (sound(ranks), sound(rank)) else { return Err(bad_rank(ranks, rank)) };
    if rank >= ranks || id.magic != MAGIC {
        return Err(bad_rank(ranks as c_int, rank as c_int));
    }
    let device = cuda::current().map_err(|_| UNHANDLED_CUDA)?;
    let gpu = engine::lock().devices[device].gpu;
    strike(Phase::Init, rank, id.number + 1)?;
    story::on_init_start();
    let (index, handle) = {
        let mut comms = COMMS.write().unwrap_or_else(PoisonError::into_inner);
        let index = comms.reserve();
        (index, comms.handle(index))
    };
    let who = story::Who { rank, ranks, device, gpu, hash: id.hash(), comm: handle };
    story::on_join(&who);
    let mut all = joining();
    let joining = all.entry(id.key()).or_insert_with(|| Joining::new(ranks));
    joining.add(ranks, rank, (gpu, Home { process: 0, host: host() }))?;
    if id.is_own() {
        joining.open_when_complete(id.number);
    } else {
        join_elsewhere(joining, id, ranks, rank, gpu).map_err(|error| {
            log::warn("misc/socket.cc:460", &format!("the process that made the id cannot be reached: {error}"));
            SYSTEM
        })?;
    }
    Ok(Joined { id: *id, who, index, handle })
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

fn bad_rank(ranks: c_int, rank: c_int) -> NcclError {
    log::warn("init.cc:1898", &format!("Invalid rank requested : {rank}/{ranks}"));
    INVALID_ARGUMENT
}

impl Joined {
    /// Waits for the others and makes this rank's communicator.
    pub(crate) fn finish(self) -> Nccl<Handle> {
        let (Joined { id, who, index, handle }, rank, ranks) = (&self, self.who.rank, self.who.ranks);
        let device = who.device;
        let (plan, group) = self.meet()?;
        story::on_plan(who, &plan);
        let profiler = profiler::attach(id.hash(), ranks, rank);
        story::on_tuned(who, &plan);
        clock::wait_until(0, INIT_COST);
        let comm = Arc::new(Comm {
            rank,
            device,
            group,
            hash: id.hash(),
            plan,
            profiler,
            calls: AtomicU64::new(0),
            memory: Mutex::default(),
        });
        if !settings::get().nccl.since(22) {
            transports::connect_all(&comm);
        }
        COMMS.write().unwrap_or_else(PoisonError::into_inner).fill(*index, comm);
        story::on_complete(who);
        Ok(*handle as Handle)
    }

    fn meet(&self) -> Nccl<(Arc<Plan>, usize)> {
        let key = self.id.key();
        let mut all = joining();
        loop {
            if all.get_mut(&key).ok_or(INTERNAL)?.complete {
                break;
            }
            all = CHANGED.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        let joining = all.get_mut(&key).ok_or(INTERNAL)?;
        let places = || joining.places.iter().flatten().copied();
        if joining.plan.is_none() {
            joining.plan = Some(make_plan(places().unzip()));
        }
        let group = *joining.group.get_or_insert_with(|| {
            let own = joining.places.iter().flatten().map(|(_, home)| home.process == joining.process).collect();
            let group = engine::lock().groups.insert(Group::new(self.id.number, own, joining.link.clone()));
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
}

/// Decides for a communicator, or says why it cannot be.
fn make_plan((gpus, homes): (Vec<usize>, Vec<Home>)) -> Result<Arc<Plan>, Arc<Complaint>> {
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

/// Faults that strike in a call of the communicator's life.
fn strike(phase: Phase, rank: usize, communicator: u64) -> Nccl<()> {
    let settings = settings::get();
    let moment = Moment { phase, rank, bytes: 0, communicator, nth: 1 };
    for hit in settings.faults.iter().filter(|fault| fault.strikes(&moment, settings.seed)) {
        match hit.kind {
            Fault::Hang | Fault::Busy => {
                crate::nvml::note_hang(hit.kind == Fault::Busy);
                fault::hang();
            }
            Fault::NcclError | Fault::AsyncError => {
                log::warn("misc/socket.cc:499", "socketProgress: Connection closed by remote peer");
                return Err(SYSTEM);
            }
            Fault::CudaError | Fault::GpuLost => {
                log::warn("init.cc:434", "Cuda failure 999 'unknown error'");
                return Err(UNHANDLED_CUDA);
            }
            Fault::LogFlood => log::flood(),
            kind => fault::end_process(kind),
        }
    }
    Ok(())
}

impl Comm {
    /// What NCCL does for this size, worked out once.
    pub(crate) fn choice(&self, bytes: usize) -> Option<Choice> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        *memory.choices.entry(bytes).or_insert_with(|| self.plan.choose(bytes))
    }

    pub(crate) fn async_error(&self) -> u32 {
        engine::lock().groups.get(self.group).map_or(0, |group| group.async_error)
    }

    pub(crate) fn finalize(&self) -> Nccl<()> {
        match self.async_error() {
            0 => Ok(()),
            error => Err(NcclError(error)),
        }
    }
}

/// Destructions that wait for graphs sleep here, on the engine's lock.
static GRAPHS: Condvar = Condvar::new();

/// Wakes them; called with the engine locked.
pub(crate) fn graphs_changed() {
    GRAPHS.notify_all();
}

/// Ends a communicator once no graph holds a collective of it.
pub(crate) fn destroy(handle: Handle) -> Nccl<()> {
    let comm = find(handle)?;
    let number = engine::lock().groups.get(comm.group).map_or(0, |group| group.number);
    strike(Phase::Destroy, comm.rank, number + 1)?;
    let mut engine = engine::lock();
    while engine.groups.get(comm.group).is_some_and(|group| group.graphs > 0) {
        engine = GRAPHS.wait(engine).unwrap_or_else(PoisonError::into_inner);
    }
    drop(engine);
    end(handle, &comm);
    story::on_destroy(&comm, handle as u64, "Destroy COMPLETE");
    Ok(())
}

/// Gives up a communicator: what is enqueued on it never runs.
pub(crate) fn abort(handle: Handle) -> Nccl<()> {
    let comm = find(handle)?;
    let mut engine = engine::lock();
    if let Some(group) = engine.groups.get_mut(comm.group) {
        group.aborted = true;
    }
    let streams: Vec<usize> = engine.streams.iter().map(|(index, _)| index).collect();
    for stream in streams {
        engine.advance(stream);
    }
    drop(engine);
    end(handle, &comm);
    story::on_destroy(&comm, handle as u64, "Abort COMPLETE");
    Ok(())
}

fn end(handle: Handle, comm: &Comm) {
    let mut comms = COMMS.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = comms.index(handle as u64) {
        comms.remove(index);
    }
    drop(comms);
    engine::lock().leave(comm.group);
    if let Some(context) = &comm.profiler {
        context.finalize();
    }
}
