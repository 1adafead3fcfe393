//! Device memory, pinned host memory and copies.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::{c_uchar, c_uint, c_ushort, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::{
    Cu, Handle, INVALID_VALUE, OUT_OF_MEMORY, code, drain_blocking, forbid_while_capturing, give, healthy, stream,
};
use crate::abi::{self, HostBuffer};
use crate::clock;
use crate::engine::{View, Work, lock, over_bus};

#[unsafe(no_mangle)]
extern "C" fn cuMemAlloc_v2(address: *mut u64, len: usize) -> u32 {
    give(address, allocate(len))
}

/// Memory of the current device.
pub(crate) fn allocate(len: usize) -> Cu<u64> {
    let mut engine = lock();
    let device = healthy(&engine)?;
    forbid_while_capturing(&mut engine)?;
    if len == 0 {
        return Err(INVALID_VALUE);
    }
    if engine.devices[device].used.saturating_add(len as u64) > engine.settings.machine.gpu.memory {
        return Err(OUT_OF_MEMORY);
    }
    engine.devices[device].used += len as u64;
    Ok(engine.memory.allocate(device, len))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    let free = || {
        let device = {
            let mut engine = lock();
            let device = healthy(&engine)?;
            forbid_while_capturing(&mut engine)?;
            device
        };
        if address == 0 {
            return Ok(());
        }
        drain_blocking(device)?;
        let mut engine = lock();
        let (device, len) = engine.memory.free(address).ok_or(INVALID_VALUE)?;
        engine.devices[device].used -= len as u64;
        Ok(())
    };
    code(free())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    let engine = lock();
    let memory = engine.settings.machine.gpu.memory;
    match give(free, healthy(&engine).map(|device| (memory - engine.devices[device].used) as usize)) {
        0 => give(total, Ok(memory as usize)),
        error => error,
    }
}

/// Pinned buffers by address, for their size.
static PINNED: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);
const PAGE: usize = 4096;

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocHost_v2(address: *mut *mut c_void, len: usize) -> u32 {
    let allocate = || {
        super::current()?;
        let layout = Layout::from_size_align(len, PAGE).map_err(|_| OUT_OF_MEMORY)?;
        if len == 0 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the layout has a size above zero.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            return Err(OUT_OF_MEMORY);
        }
        PINNED.lock().unwrap_or_else(PoisonError::into_inner).insert(memory as usize, len);
        Ok(memory.cast())
    };
    give(address, allocate())
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(address: *mut *mut c_void, len: usize, _flags: c_uint) -> u32 {
    cuMemAllocHost_v2(address, len)
}

/// Whether an address lies in a pinned buffer.
pub(super) fn is_pinned(address: u64) -> bool {
    let pinned = PINNED.lock().unwrap_or_else(PoisonError::into_inner);
    pinned.iter().any(|(start, len)| (*start as u64..(*start + *len) as u64).contains(&address))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetDevicePointer_v2(device: *mut u64, host: *mut c_void, flags: c_uint) -> u32 {
    let known = flags == 0 && is_pinned(host as u64);
    give(device, super::current().and(if known { Ok(host as u64) } else { Err(INVALID_VALUE) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(address: *mut c_void) -> u32 {
    let len = PINNED.lock().unwrap_or_else(PoisonError::into_inner).remove(&(address as usize));
    let layout = len.and_then(|len| Layout::from_size_align(len, PAGE).ok());
    let Some(layout) = layout else { return INVALID_VALUE.0 };
    // SAFETY: the address came from alloc_zeroed with this layout and has just left the table.
    unsafe { dealloc(address.cast(), layout) };
    0
}

/// A range of device memory, checked.
fn range(address: u64, len: usize) -> Cu<()> {
    if lock().memory.holds(address, len) { Ok(()) } else { Err(INVALID_VALUE) }
}

/// Runs a copy or fill on the default stream, waiting for it as the synchronous calls do.
fn now(work: Work, len: usize) -> Cu<()> {
    let device = {
        let mut engine = lock();
        let device = healthy(&engine)?;
        forbid_while_capturing(&mut engine)?;
        device
    };
    drain_blocking(device)?;
    let index = {
        let mut engine = lock();
        let index = engine.default_stream(device);
        engine.enqueue(index, work, clock::now());
        index
    };
    clock::spend(over_bus(len));
    super::wait_for(index)
}

/// Enqueues a copy or fill on a stream.
fn later(work: Work, on: Handle) -> Cu<()> {
    let mut engine = lock();
    let index = stream(&mut engine, on)?;
    clock::spend(1500);
    engine.enqueue(index, work, clock::now());
    Ok(())
}

/// The caller's bytes as they are now. (CUDA reads pinned memory when the copy runs; a caller that changes it before has
/// a race.)
fn upload(to: u64, from: *const c_void, len: usize) -> Cu<Work> {
    range(to, len)?;
    let bytes = abi::bytes(from, len).ok_or(INVALID_VALUE)?;
    Ok(Work::Put { to, view: View::of(bytes) })
}

fn download(to: *mut c_void, from: u64, len: usize) -> Cu<Work> {
    range(from, len)?;
    Ok(Work::Download { to: HostBuffer::new(to).ok_or(INVALID_VALUE)?, from, len })
}

fn copy(to: u64, from: u64, len: usize) -> Cu<Work> {
    range(to, len).and_then(|()| range(from, len))?;
    Ok(Work::Copy { to, from, len })
}

fn fill(to: u64, unit: [u8; 4], width: usize, count: usize) -> Cu<Work> {
    let len = count.checked_mul(width).ok_or(INVALID_VALUE)?;
    range(to, len)?;
    if !to.is_multiple_of(width as u64) {
        return Err(INVALID_VALUE);
    }
    Ok(Work::Put { to, view: View::fill(unit, width, len) })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, len: usize) -> u32 {
    code(upload(to, from, len).and_then(|work| now(work, len)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, len: usize) -> u32 {
    code(download(to, from, len).and_then(|work| now(work, len)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, len: usize) -> u32 {
    code(copy(to, from, len).and_then(|work| now(work, len)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, len: usize, on: Handle) -> u32 {
    code(upload(to, from, len).and_then(|work| later(work, on)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, len: usize, on: Handle) -> u32 {
    code(download(to, from, len).and_then(|work| later(work, on)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, on: Handle) -> u32 {
    code(copy(to, from, len).and_then(|work| later(work, on)))
}

/// A pattern of one, two or four bytes.
fn pattern(value: &[u8]) -> [u8; 4] {
    let mut unit = [0; 4];
    unit[..value.len()].copy_from_slice(value);
    unit
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8_v2(to: u64, value: c_uchar, count: usize) -> u32 {
    code(fill(to, pattern(&[value]), 1, count).and_then(|work| now(work, 0)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(to: u64, value: c_uchar, count: usize, on: Handle) -> u32 {
    code(fill(to, pattern(&[value]), 1, count).and_then(|work| later(work, on)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD16Async(to: u64, value: c_ushort, count: usize, on: Handle) -> u32 {
    code(fill(to, pattern(&value.to_le_bytes()), 2, count).and_then(|work| later(work, on)))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, on: Handle) -> u32 {
    code(fill(to, pattern(&value.to_le_bytes()), 4, count).and_then(|work| later(work, on)))
}
