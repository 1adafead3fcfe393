//! Communicators: joined by all ranks together, ended only after the graphs that hold their collectives.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, RwLock};

use super::plan::{Choice, Plan};
use super::profiler::{self, Context};
use super::{INVALID_ARGUMENT, Nccl, NcclError, SYSTEM, UNHANDLED_CUDA, joining, log, story, transports};
use crate::clock;
use crate::cuda::{self, Handle};
use crate::engine::{self, Collective, Kind, Slab};
use crate::fault::{self, Kind as Fault, Moment, Phase};
use crate::remote::hub;
use crate::settings;

/// Process, its nonce, and the number of a communicator.
pub(super) type Key = (u64, u64, u64);

/// `ncclUniqueId`: 128 bytes that only their library reads.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId {
    magic: u64,
    /// Counted within the process: it numbers the communicators.
    pub(super) number: u64,
    pub(super) process: u64,
    /// Names the socket of the process, together with its id.
    pub(super) nonce: u64,
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
    pub(super) fn is_own(&self) -> bool {
        self.process == u64::from(std::process::id())
    }

    pub(super) fn key(&self) -> Key {
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
    joining::add(id, ranks, rank, gpu)?;
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
        let (plan, group) = joining::meet(id)?;
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
    engine::lock().leave(comm.group);
    if let Some(context) = &comm.profiler {
        context.finalize();
    }
}
