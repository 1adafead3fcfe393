//! Communicators: joined by all ranks together, ended only after the graphs that hold their collectives.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};

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
use crate::settings;

/// `ncclUniqueId`: 128 bytes that only their library reads.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId {
    magic: u64,
    /// Counted within the process: it numbers the communicators.
    number: u64,
    process: u64,
    rest: [u64; 13],
}

const MAGIC: u64 = 0x6E63_636C_7377_6565;

impl UniqueId {
    pub(crate) fn new() -> UniqueId {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        UniqueId { magic: MAGIC, number, process: std::process::id().into(), rest: [0; 13] }
    }

    fn hash(&self) -> u64 {
        crate::noise::mix(settings::get().seed ^ self.number ^ self.process)
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

/// A communicator that is being joined.
struct Joining {
    ranks: usize,
    /// Device and GPU of each rank that has come.
    places: Vec<Option<(usize, usize)>>,
    group: Option<usize>,
    plan: Option<Result<Arc<Plan>, Arc<Complaint>>>,
    left: usize,
}

static JOINING: LazyLock<Mutex<HashMap<u64, Joining>>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

fn joining() -> MutexGuard<'static, HashMap<u64, Joining>> {
    JOINING.lock().unwrap_or_else(PoisonError::into_inner)
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
    if id.process != u64::from(std::process::id()) {
        log::warn("bootstrap.cc:1", "The emulator joins ranks of one process only.");
        return Err(SYSTEM);
    }
    let device = cuda::current().map_err(|_| UNHANDLED_CUDA)?;
    let gpu = engine::lock().devices[device].gpu;
    let (gpus, communicator) = (1 << gpu, id.number + 1);
    strike(&Moment { phase: Phase::Init, rank, bytes: 0, gpus, communicator, nth: 1 })?;
    story::on_init_start();
    let (index, handle) = {
        let mut comms = COMMS.write().unwrap_or_else(PoisonError::into_inner);
        let index = comms.reserve();
        (index, comms.handle(index))
    };
    let who = story::Who { rank, ranks, device, gpu, hash: id.hash(), comm: handle };
    story::on_join(&who);
    let mut all = joining();
    let joining = all.entry(id.number).or_insert_with(|| Joining {
        ranks,
        places: vec![None; ranks],
        group: None,
        plan: None,
        left: ranks,
    });
    if joining.ranks != ranks || joining.places[rank].is_some() {
        log::warn("bootstrap.cc:412", &format!("rank {rank} of {ranks} does not fit the communicator being joined"));
        return Err(INVALID_USAGE);
    }
    joining.places[rank] = Some((device, gpu));
    CHANGED.notify_all();
    Ok(Joined { id: *id, who, index, handle })
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
        let mut all = joining();
        loop {
            let joining = all.get_mut(&self.id.number).ok_or(INTERNAL)?;
            if joining.places.iter().all(Option::is_some) {
                break;
            }
            all = CHANGED.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        let joining = all.get_mut(&self.id.number).ok_or(INTERNAL)?;
        let gpus: Vec<usize> = joining.places.iter().flatten().map(|place| place.1).collect();
        let group =
            *joining.group.get_or_insert_with(|| engine::lock().groups.insert(Group::new(self.id.number, &gpus)));
        if joining.plan.is_none() {
            joining.plan = Some(make_plan(gpus));
        }
        let plan = joining.plan.clone().ok_or(INTERNAL)?;
        joining.left -= 1;
        if joining.left == 0 {
            all.remove(&self.id.number);
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
fn make_plan(gpus: Vec<usize>) -> Result<Arc<Plan>, Arc<Complaint>> {
    let settings = settings::get();
    let twice =
        gpus.iter().enumerate().find_map(|(rank, gpu)| Some((rank, gpus[..rank].iter().position(|g| g == gpu)?)));
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
    Plan::new(settings, gpus).map(Arc::new).map_err(Arc::new)
}

/// Faults that strike in a call of the communicator's life.
fn strike(moment: &Moment) -> Nccl<()> {
    let settings = settings::get();
    for hit in settings.faults.iter().filter(|fault| fault.strikes(moment, settings.seed)) {
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
    let moment = engine::lock().groups.get(comm.group).map(|group| group.last_moment(comm.rank));
    moment.as_ref().map_or(Ok(()), strike)?;
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
    if let Some(context) = &comm.profiler {
        context.finalize();
    }
}
