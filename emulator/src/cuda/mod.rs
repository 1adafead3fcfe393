//! The CUDA driver API, as far as the worker and NVML-free diagnosis use it.

mod context;
mod device;
mod event;
mod graph;
mod kernel;
mod memory;
mod stream;

pub(crate) use memory::allocate;

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::Engine;

/// An opaque handle of the C API.
pub(crate) type Handle = *mut std::ffi::c_void;

/// An error of the driver API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CuError(pub u32);

pub(crate) const INVALID_VALUE: CuError = CuError(1);
pub(crate) const OUT_OF_MEMORY: CuError = CuError(2);
pub(crate) const NOT_INITIALIZED: CuError = CuError(3);
pub(crate) const NO_DEVICE: CuError = CuError(100);
pub(crate) const INVALID_DEVICE: CuError = CuError(101);
pub(crate) const INVALID_CONTEXT: CuError = CuError(201);
pub(crate) const INVALID_PTX: CuError = CuError(218);
pub(crate) const PEER_ACCESS_UNSUPPORTED: CuError = CuError(217);
pub(crate) const NOT_FOUND: CuError = CuError(500);
pub(crate) const PEER_ACCESS_ALREADY_ENABLED: CuError = CuError(704);
pub(crate) const INVALID_HANDLE: CuError = CuError(400);
pub(crate) const NOT_READY: CuError = CuError(600);
pub(crate) const CAPTURE_UNSUPPORTED: CuError = CuError(900);
pub(crate) const CAPTURE_INVALIDATED: CuError = CuError(901);
pub(crate) const ILLEGAL_STATE: CuError = CuError(401);
pub(crate) const CAPTURE_WRONG_THREAD: CuError = CuError(908);
pub(crate) const UNKNOWN: CuError = CuError(999);

pub(crate) type Cu<T> = Result<T, CuError>;

/// The C result of a call.
pub(crate) fn code(result: Cu<()>) -> u32 {
    result.map_or_else(|error| error.0, |()| 0)
}

/// The value for an out-pointer.
pub(crate) fn give<T>(to: *mut T, value: Cu<T>) -> u32 {
    code(value.and_then(|value| if crate::abi::put(to, value) { Ok(()) } else { Err(INVALID_VALUE) }))
}

static INITIALISED: AtomicBool = AtomicBool::new(false);

pub(crate) fn initialised() -> Cu<()> {
    if INITIALISED.load(Ordering::Acquire) { Ok(()) } else { Err(NOT_INITIALIZED) }
}

thread_local! {
    /// The device whose primary context is current in this thread.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
    /// Captures this thread has begun in a mode that forbids unsafe calls.
    static STRICT_CAPTURES: Cell<u32> = const { Cell::new(0) };
}

/// The current device, or the error of a call that needs a context.
pub(crate) fn current() -> Cu<usize> {
    initialised()?;
    CURRENT.get().ok_or(INVALID_CONTEXT)
}

/// The device number that NCCL's log shows.
pub(crate) fn current_for_log() -> usize {
    CURRENT.get().unwrap_or(0)
}

/// The current device, if it still answers.
fn healthy(engine: &Engine) -> Cu<usize> {
    let device = current()?;
    if engine.devices[device].lost { Err(UNKNOWN) } else { Ok(device) }
}

/// The stream a handle names; 0 (and the two special handles) are the default stream of the current device.
pub(crate) fn stream(engine: &mut Engine, handle: Handle) -> Cu<usize> {
    let device = healthy(engine)?;
    match handle as u64 {
        0..=2 => Ok(engine.default_stream(device)),
        handle => engine.streams.index(handle).ok_or(INVALID_HANDLE),
    }
}

/// Refuses a call that may synchronise while this thread captures, and spoils the captures as CUDA does.
fn forbid_while_capturing(engine: &mut Engine) -> Cu<()> {
    if STRICT_CAPTURES.get() == 0 {
        return Ok(());
    }
    let me = std::thread::current().id();
    let spoilt: Vec<usize> = engine
        .streams
        .iter()
        .filter(|(_, stream)| stream.capture.as_ref().is_some_and(|capture| capture.thread == me))
        .map(|(index, _)| index)
        .collect();
    for index in spoilt {
        if let Some(capture) = &mut engine.streams[index].capture {
            capture.broken = true;
        }
    }
    Err(CAPTURE_UNSUPPORTED)
}

/// Waits for the work that a call on the default stream waits for: all blocking streams of the device.
fn drain_blocking(device: usize) -> Cu<()> {
    let streams: Vec<usize> = crate::engine::lock()
        .streams
        .iter()
        .filter(|(_, stream)| stream.device == device && stream.blocking && !stream.idle())
        .map(|(index, _)| index)
        .collect();
    streams.into_iter().try_for_each(wait_for)
}

/// Waits for a stream and brings the thread to the time at which its work was done.
fn wait_for(stream: usize) -> Cu<()> {
    let (end, error) = crate::engine::drain(stream);
    let wake = crate::settings::get().machine.host.wake;
    crate::clock::wait_until(end, (wake * 1e3) as u64);
    error.map_or(Ok(()), |error| Err(CuError(error)))
}

fn device_of(ordinal: c_int, count: usize) -> Cu<usize> {
    initialised()?;
    usize::try_from(ordinal).ok().filter(|&device| device < count).ok_or(INVALID_DEVICE)
}
