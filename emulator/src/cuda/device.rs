//! Initialisation and what there is to know about devices.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::Ordering;

use super::{CuError, INITIALISED, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, code, device_of, give, initialised};
use crate::engine::lock;
use crate::fault::{self, Kind, Moment, Phase};
use crate::{abi, settings};

/// 13.0, as the recorded logs show.
pub(crate) const DRIVER_VERSION: c_int = 13_000;

#[unsafe(no_mangle)]
extern "C" fn cuInit(flags: c_uint) -> u32 {
    if flags != 0 || !settings::sound() {
        return INVALID_VALUE.0;
    }
    if let Err(error) = strike_load() {
        return error.0;
    }
    if lock().devices.is_empty() {
        return NO_DEVICE.0;
    }
    INITIALISED.store(true, Ordering::Release);
    0
}

fn strike_load() -> Result<(), CuError> {
    let settings = settings::get();
    let moment = Moment { phase: Phase::Load, rank: 0, bytes: 0, gpus: 0, communicator: 0, nth: 1 };
    for hit in settings.faults.iter().filter(|fault| fault.strikes(&moment, settings.seed)) {
        match hit.kind {
            Kind::Hang => fault::hang(),
            Kind::CudaError | Kind::AsyncError => return Err(CuError(802)),
            Kind::GpuLost => {
                crate::nvml::lose(0);
                return Err(NO_DEVICE);
            }
            Kind::Busy => crate::nvml::note_hang(true),
            kind => fault::end_process(kind),
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    give(version, Ok(DRIVER_VERSION))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    give(count, initialised().map(|()| lock().devices.len() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> u32 {
    give(device, device_of(ordinal, lock().devices.len()).map(|device| device as c_int))
}

/// The GPU of the box that a device is.
fn gpu_of(device: c_int) -> Result<usize, CuError> {
    let engine = lock();
    device_of(device, engine.devices.len()).map(|device| engine.devices[device].gpu)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> u32 {
    code(gpu_of(device).and_then(|_| {
        let text = settings::get().machine.gpu.name;
        let room = usize::try_from(len).unwrap_or(0);
        let cut = &text[..text.len().min(room.saturating_sub(1))];
        if abi::put_text(name, room, cut) { Ok(()) } else { Err(INVALID_VALUE) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) -> u32 {
    give(uuid, gpu_of(device).map(|gpu| settings::get().machine.uuid(gpu)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid(uuid: *mut [u8; 16], device: c_int) -> u32 {
    cuDeviceGetUuid_v2(uuid, device)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetPCIBusId(id: *mut c_char, len: c_int, device: c_int) -> u32 {
    code(gpu_of(device).and_then(|gpu| {
        let text = settings::get().machine.pci_bus_id(gpu);
        if abi::put_text(id, usize::try_from(len).unwrap_or(0), &text) { Ok(()) } else { Err(INVALID_VALUE) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> u32 {
    give(bytes, gpu_of(device).map(|_| settings::get().machine.gpu.memory as usize))
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) -> u32 {
    give(value, gpu_of(device).and_then(|gpu| attribute_of(attribute, gpu)))
}

fn attribute_of(attribute: c_uint, gpu: usize) -> Result<c_int, CuError> {
    let machine = settings::get().machine;
    Ok(match attribute {
        1 => 1024,
        2..=4 => [1024, 1024, 64][attribute as usize - 2],
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => 49152,
        10 => 32,
        12 => 65536,
        13 => machine.gpu.sm_clock_mhz as c_int * 1000,
        16 => machine.gpu.multiprocessors as c_int,
        // Integrated, compute mode: no, default.
        18 | 20 => 0,
        // Can map host memory, concurrent kernels, unified addressing.
        19 | 31 | 41 => 1,
        32 => c_int::from(machine.gpu.ecc),
        33 => (machine.slots[gpu].address >> 12) as c_int,
        34 => (machine.slots[gpu].address >> 4 & 0xFF) as c_int,
        36 => machine.gpu.memory_clock_mhz as c_int * 1000,
        39 => 2048,
        40 => 3,
        75 => (machine.gpu.capability / 10) as c_int,
        76 => (machine.gpu.capability % 10) as c_int,
        // Managed memory, cooperative launch. (No memory pools: there is no stream-ordered allocation here.)
        83 | 95 => 1,
        97 => 101_376,
        // Every attribute up to the last known one has a value; those nobody asked for are 0.
        0 | 150.. => return Err(INVALID_VALUE),
        _ => 0,
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> u32 {
    give(can, peer_access(device, peer).map(c_int::from))
}

fn peer_access(device: c_int, peer: c_int) -> Result<bool, CuError> {
    Ok(settings::get().machine.peer_access(gpu_of(device)?, gpu_of(peer)?))
}

/// Attributes: 1 performance rank, 2 access supported, 3 native atomics, 4 array access.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetP2PAttribute(value: *mut c_int, attribute: c_uint, device: c_int, peer: c_int) -> u32 {
    let answer = || {
        let (a, b) = (gpu_of(device)?, gpu_of(peer)?);
        if a == b {
            return Err(INVALID_DEVICE);
        }
        let machine = settings::get().machine;
        let access = machine.peer_access(a, b);
        match attribute {
            1 => Ok(c_int::from(!machine.nvlink)),
            2 => Ok(c_int::from(access)),
            3 | 4 => Ok(c_int::from(access && machine.nvlink)),
            _ => Err(INVALID_VALUE),
        }
    };
    give(value, answer())
}

const ERRORS: [(u32, &CStr, &CStr); 24] = [
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"peer access is not supported between these two devices"),
    (218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (401, c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state"),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (802, c"CUDA_ERROR_SYSTEM_NOT_READY", c"system not yet initialized"),
    (900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing"),
    (901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture"),
    (907, c"CUDA_ERROR_CAPTURED_EVENT", c"operation not permitted on an event last recorded in a capturing stream"),
    (
        908,
        c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        c"attempt to terminate a thread-local capture sequence from another thread",
    ),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

fn describe(
    error: u32,
    text: *mut *const c_char,
    pick: impl Fn(&(u32, &'static CStr, &'static CStr)) -> &'static CStr,
) -> u32 {
    let found = ERRORS.iter().find(|entry| entry.0 == error);
    let known = abi::put(text, found.map_or(std::ptr::null(), |entry| pick(entry).as_ptr()));
    if known && found.is_some() { 0 } else { INVALID_VALUE.0 }
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(error: u32, name: *mut *const c_char) -> u32 {
    describe(error, name, |entry| entry.1)
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(error: u32, text: *mut *const c_char) -> u32 {
    describe(error, text, |entry| entry.2)
}
