//! NVML, as far as a look at the box needs it: what the GPUs are, how they are plugged in, who uses them, how they feel.

mod device;
mod sensors;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::topology::Machine;
use crate::{abi, settings};

/// A device handle.
pub(crate) type Handle = *mut c_void;

const SUCCESS: u32 = 0;
const UNINITIALIZED: u32 = 1;
const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
const GPU_IS_LOST: u32 = 15;

static INITIALISED: AtomicBool = AtomicBool::new(false);
/// A bit for each GPU that fell off the bus.
static LOST: AtomicU64 = AtomicU64::new(0);
/// After a hang the GPUs show full load without a process.
static WEDGED: AtomicBool = AtomicBool::new(false);

/// A GPU is gone.
pub(crate) fn lose(gpu: usize) {
    LOST.fetch_or(1 << gpu, Ordering::AcqRel);
}

/// Something hung; `wedged` leaves the GPUs busy with nothing.
pub(crate) fn note_hang(wedged: bool) {
    WEDGED.fetch_or(wedged, Ordering::AcqRel);
}

fn wedged() -> bool {
    WEDGED.load(Ordering::Acquire)
}

fn machine() -> &'static Machine {
    settings::get().machine
}

type Nvml<T> = Result<T, u32>;

fn code(result: Nvml<()>) -> u32 {
    result.map_or_else(|error| error, |()| SUCCESS)
}

fn give<T>(to: *mut T, value: Nvml<T>) -> u32 {
    code(value.and_then(|value| if abi::put(to, value) { Ok(()) } else { Err(INVALID_ARGUMENT) }))
}

fn give_text(to: *mut c_char, size: c_uint, text: Nvml<String>) -> u32 {
    code(text.and_then(|text| match (to.is_null(), abi::put_text(to, size as usize, &text)) {
        (true, _) => Err(INVALID_ARGUMENT),
        (_, true) => Ok(()),
        (_, false) => Err(INSUFFICIENT_SIZE),
    }))
}

fn initialised() -> Nvml<()> {
    if INITIALISED.load(Ordering::Acquire) { Ok(()) } else { Err(UNINITIALIZED) }
}

/// Handles are told apart by their address alone.
const HANDLES: usize = 0x0D00_0000_0000;

fn handle(gpu: usize) -> Handle {
    (HANDLES + (gpu + 1) * 16) as Handle
}

/// The GPU of a handle, unless it is lost.
fn gpu(of: Handle) -> Nvml<usize> {
    initialised()?;
    let number = (of as usize).wrapping_sub(HANDLES) / 16;
    let gpu = number.checked_sub(1).filter(|&gpu| gpu < machine().slots.len()).ok_or(INVALID_ARGUMENT)?;
    if LOST.load(Ordering::Acquire) >> gpu & 1 == 1 { Err(GPU_IS_LOST) } else { Ok(gpu) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> u32 {
    nvmlInitWithFlags(0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> u32 {
    if !settings::sound() {
        return INVALID_ARGUMENT;
    }
    let settings = settings::get();
    if let Some(root) = &settings.root
        && let Err(error) = crate::topology::sysfs::write(root, settings.machine, &settings.ailments)
    {
        eprintln!("ncclsweep emulator: cannot write {}: {error}", root.display());
        return INVALID_ARGUMENT;
    }
    INITIALISED.store(true, Ordering::Release);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> u32 {
    code(initialised())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, size: c_uint) -> u32 {
    give_text(to, size, initialised().map(|()| "580.159.04".to_owned()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetNVMLVersion(to: *mut c_char, size: c_uint) -> u32 {
    give_text(to, size, initialised().map(|()| "13.580.159.04".to_owned()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> u32 {
    give(version, initialised().map(|()| 13_000))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> u32 {
    nvmlSystemGetCudaDriverVersion_v2(version)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetProcessName(pid: c_uint, to: *mut c_char, size: c_uint) -> u32 {
    let shown = settings::get().busy.iter().any(|(_, busy)| *busy == pid);
    let name = initialised().and_then(|()| if shown { Ok("/usr/bin/python3".to_owned()) } else { Err(NOT_FOUND) });
    give_text(to, size, name)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(error: u32) -> *const c_char {
    let text: &CStr = match error {
        SUCCESS => c"Success",
        UNINITIALIZED => c"Uninitialized",
        INVALID_ARGUMENT => c"Invalid Argument",
        NOT_SUPPORTED => c"Not Supported",
        NOT_FOUND => c"Not Found",
        INSUFFICIENT_SIZE => c"Insufficient Size",
        GPU_IS_LOST => c"GPU is lost",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}
