//! NCCL's API: communicators, all-reduce, sends and receives, groups.

mod comm;
mod dump;
mod env;
mod joining;
mod launch;
mod lists;
mod log;
mod plan;
mod profiler;
mod story;
mod transports;
mod trees;
mod tuning;

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::cuda::Handle;
use crate::{abi, settings};

pub(crate) use comm::graphs_changed;
pub(crate) use joining::join_remote;
pub(crate) use log::flood as flood_log;

/// An error of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NcclError(pub u32);

pub(crate) const UNHANDLED_CUDA: NcclError = NcclError(1);
pub(crate) const SYSTEM: NcclError = NcclError(2);
pub(crate) const INTERNAL: NcclError = NcclError(3);
pub(crate) const INVALID_ARGUMENT: NcclError = NcclError(4);
pub(crate) const INVALID_USAGE: NcclError = NcclError(5);

pub(crate) type Nccl<T> = Result<T, NcclError>;

fn code(result: Nccl<()>) -> u32 {
    result.map_or_else(|error| error.0, |()| 0)
}

fn give<T>(to: *mut T, value: Nccl<T>) -> u32 {
    code(value.and_then(|value| if abi::put(to, value) { Ok(()) } else { Err(INVALID_ARGUMENT) }))
}

/// What waits for the end of a group.
enum Queued {
    AllReduce(launch::AllReduce),
    P2p(launch::P2p),
    Init(comm::Joined, *mut Handle),
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static QUEUED: RefCell<Vec<Queued>> = const { RefCell::new(Vec::new()) };
    /// The first error inside a group is what its end returns.
    static GROUP_ERROR: Cell<Option<NcclError>> = const { Cell::new(None) };
}

/// Does it now, or at the end of the group that is open.
fn submit(what: Nccl<Queued>) -> u32 {
    let result = what.and_then(|what| {
        if DEPTH.get() == 0 {
            return run(vec![what]);
        }
        QUEUED.with_borrow_mut(|queued| queued.push(what));
        Ok(())
    });
    if let (Err(error), 1..) = (result, DEPTH.get()) {
        GROUP_ERROR.set(GROUP_ERROR.get().or(Some(error)));
    }
    code(result)
}

fn run(queued: Vec<Queued>) -> Nccl<()> {
    let mut p2p = Vec::new();
    for what in queued {
        match what {
            Queued::AllReduce(call) => launch::all_reduce(&call)?,
            Queued::P2p(call) => p2p.push(call),
            Queued::Init(joined, to) => {
                let handle = joined.finish()?;
                if !abi::put(to, handle) {
                    return Err(INVALID_ARGUMENT);
                }
            }
        }
    }
    launch::p2p(p2p)
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetVersion(version: *mut c_int) -> u32 {
    give(version, Ok(settings::get().nccl.code()))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetUniqueId(id: *mut comm::UniqueId) -> u32 {
    story::on_unique_id();
    give(id, Ok(comm::UniqueId::new()))
}

/// By value, as in C: the id is 128 bytes and passed in memory.
#[unsafe(no_mangle)]
extern "C" fn ncclCommInitRank(to: *mut Handle, ranks: c_int, id: comm::UniqueId, rank: c_int) -> u32 {
    init(to, ranks, &id, rank)
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommInitRankConfig(
    to: *mut Handle,
    ranks: c_int,
    id: comm::UniqueId,
    rank: c_int,
    _config: *mut c_void,
) -> u32 {
    init(to, ranks, &id, rank)
}

fn init(to: *mut Handle, ranks: c_int, id: &comm::UniqueId, rank: c_int) -> u32 {
    if to.is_null() {
        return INVALID_ARGUMENT.0;
    }
    submit(comm::join(ranks, id, rank).map(|joined| Queued::Init(joined, to)))
}

#[unsafe(no_mangle)]
extern "C" fn ncclAllReduce(
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    dtype: u32,
    operation: u32,
    comm: Handle,
    stream: Handle,
) -> u32 {
    submit(
        launch::AllReduce::new(send as u64, receive as u64, count, dtype, operation, comm, stream)
            .map(Queued::AllReduce),
    )
}

#[unsafe(no_mangle)]
extern "C" fn ncclSend(
    buffer: *const c_void,
    count: usize,
    dtype: u32,
    peer: c_int,
    comm: Handle,
    stream: Handle,
) -> u32 {
    submit(launch::P2p::new(true, buffer as u64, count, dtype, peer, comm, stream).map(Queued::P2p))
}

#[unsafe(no_mangle)]
extern "C" fn ncclRecv(
    buffer: *mut c_void,
    count: usize,
    dtype: u32,
    peer: c_int,
    comm: Handle,
    stream: Handle,
) -> u32 {
    submit(launch::P2p::new(false, buffer as u64, count, dtype, peer, comm, stream).map(Queued::P2p))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupStart() -> u32 {
    DEPTH.set(DEPTH.get() + 1);
    0
}

#[unsafe(no_mangle)]
extern "C" fn ncclGroupEnd() -> u32 {
    match DEPTH.get() {
        0 => {
            log::warn("group.cc:129", "ncclGroupEnd: not in a group call.");
            INVALID_USAGE.0
        }
        1 => {
            DEPTH.set(0);
            let queued = QUEUED.take();
            match GROUP_ERROR.take() {
                Some(error) => error.0,
                None => code(run(queued)),
            }
        }
        deeper => {
            DEPTH.set(deeper - 1);
            0
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommFinalize(comm: Handle) -> u32 {
    code(comm::find(comm).and_then(|comm| comm.finalize()))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDestroy(comm: Handle) -> u32 {
    if comm.is_null() { 0 } else { code(comm::destroy(comm)) }
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommAbort(comm: Handle) -> u32 {
    if comm.is_null() { 0 } else { code(comm::abort(comm)) }
}

/// Memory as the driver gives it, but for that peers can map it.
#[unsafe(no_mangle)]
extern "C" fn ncclMemAlloc(memory: *mut *mut c_void, len: usize) -> u32 {
    match crate::cuda::allocate(len) {
        Ok(address) => {
            crate::engine::lock().memory.share(address);
            give(memory, Ok(address as *mut c_void))
        }
        Err(_) => UNHANDLED_CUDA.0,
    }
}

/// A handle for buffers that kernels would use without a copy. None of it changes a time here.
#[unsafe(no_mangle)]
extern "C" fn ncclCommRegister(comm: Handle, memory: *mut c_void, len: usize, handle: *mut Handle) -> u32 {
    let known =
        comm::find(comm).and_then(|_| if memory.is_null() || len == 0 { Err(INVALID_ARGUMENT) } else { Ok(()) });
    give(handle, known.map(|()| memory))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommDeregister(comm: Handle, _handle: Handle) -> u32 {
    code(comm::find(comm).map(|_| ()))
}

/// Symmetric memory needs direct access between all GPUs; without it the handle stays what it was, and that is no error.
#[unsafe(no_mangle)]
extern "C" fn ncclCommWindowRegister(
    comm: Handle,
    memory: *mut c_void,
    len: usize,
    window: *mut Handle,
    _flags: c_int,
) -> u32 {
    match comm::find(comm) {
        Ok(comm) if memory.is_null() || len == 0 || !comm.plan.is_direct() => 0,
        Ok(_) => give(window, Ok(memory)),
        Err(error) => error.0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommWindowDeregister(comm: Handle, _window: Handle) -> u32 {
    code(comm::find(comm).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommGetAsyncError(comm: Handle, error: *mut u32) -> u32 {
    give(error, comm::find(comm).map(|comm| comm.async_error()))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommCount(comm: Handle, count: *mut c_int) -> u32 {
    give(count, comm::find(comm).map(|comm| comm.plan.ranks() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommUserRank(comm: Handle, rank: *mut c_int) -> u32 {
    give(rank, comm::find(comm).map(|comm| comm.rank as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn ncclCommCuDevice(comm: Handle, device: *mut c_int) -> u32 {
    give(device, comm::find(comm).map(|comm| comm.device as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetErrorString(error: u32) -> *const c_char {
    let text: &CStr = match error {
        0 => c"no error",
        1 => c"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        2 => c"unhandled system error (run with NCCL_DEBUG=INFO for details)",
        3 => c"internal error - please report this issue to the NCCL developers",
        4 => c"invalid argument (run with NCCL_DEBUG=WARN for details)",
        5 => c"invalid usage (run with NCCL_DEBUG=WARN for details)",
        6 => c"remote process exited or there was a network error",
        7 => c"NCCL operation in progress",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ncclGetLastError(_comm: Handle) -> *const c_char {
    log::last_error()
}
