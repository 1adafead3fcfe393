//! Memory, clocks, temperature, power, links and modes: a healthy, idle box unless a fault or a busy pid says otherwise.

use std::ffi::{c_int, c_uint, c_ulong, c_ulonglong};

use super::{Handle, INVALID_ARGUMENT, NOT_SUPPORTED, Nvml, code, give, gpu, machine, wedged};
use crate::{ailment, engine, settings};

/// `NVML_ERROR_NO_PERMISSION`.
const NO_PERMISSION: u32 = 4;

#[repr(C)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[repr(C)]
struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// What the driver keeps for itself.
const RESERVED: u64 = 600 << 20;

fn busy(gpu: usize) -> bool {
    settings::get().busy.iter().any(|(on, _)| *on == gpu)
}

fn used(gpu: usize) -> u64 {
    if busy(gpu) { (machine().gpu.memory / 2).min(20 << 30) } else { 4 << 20 }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo(device: Handle, memory: *mut Memory) -> u32 {
    give(
        memory,
        gpu(device).map(|gpu| {
            let total = machine().gpu.memory;
            let used = used(gpu) + RESERVED;
            Memory { total, free: total - used, used }
        }),
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: *mut MemoryV2) -> u32 {
    let version = (size_of::<MemoryV2>() as c_uint) | 2 << 24;
    give(
        memory,
        gpu(device).map(|gpu| {
            let (total, used) = (machine().gpu.memory, used(gpu));
            MemoryV2 { version, total, reserved: RESERVED, free: total - used - RESERVED, used }
        }),
    )
}

#[repr(C)]
struct Bar1 {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetBAR1MemoryInfo(device: Handle, memory: *mut Bar1) -> u32 {
    let total = machine().gpu.memory.next_power_of_two();
    give(memory, gpu(device).map(|_| Bar1 { total, free: total - (1 << 20), used: 1 << 20 }))
}

#[repr(C)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(device: Handle, rates: *mut Utilization) -> u32 {
    let rate = |gpu| if wedged() || busy(gpu) { 100 } else { 0 };
    give(rates, gpu(device).map(|gpu| Utilization { gpu: rate(gpu), memory: 0 }))
}

/// Clock types: 0 graphics, 1 SM, 2 memory, 3 video.
fn clock(gpu: usize, kind: c_uint) -> Nvml<c_uint> {
    match kind {
        0 | 1 => Ok(ailment::clock(&settings::get().ailments, gpu, machine().gpu.sm_clock_mhz)),
        2 => Ok(machine().gpu.memory_clock_mhz),
        3 => Ok(machine().gpu.sm_clock_mhz * 4 / 5),
        _ => Err(INVALID_ARGUMENT),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(device: Handle, kind: c_uint, mhz: *mut c_uint) -> u32 {
    give(mhz, gpu(device).and_then(|gpu| clock(gpu, kind)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxClockInfo(device: Handle, kind: c_uint, mhz: *mut c_uint) -> u32 {
    nvmlDeviceGetClockInfo(device, kind, mhz)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClock(device: Handle, kind: c_uint, _id: c_uint, mhz: *mut c_uint) -> u32 {
    nvmlDeviceGetClockInfo(device, kind, mhz)
}

/// A bit per reason; 1 is "idle".
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(device: Handle, reasons: *mut c_ulonglong) -> u32 {
    let idle = |gpu| u64::from(!busy(gpu) && !wedged());
    give(reasons, gpu(device).map(|gpu| idle(gpu) | ailment::throttle(&settings::get().ailments, gpu)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(device: Handle, reasons: *mut c_ulonglong) -> u32 {
    nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSupportedClocksThrottleReasons(device: Handle, reasons: *mut c_ulonglong) -> u32 {
    give(reasons, gpu(device).map(|_| 0x1FF))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(device: Handle, sensor: c_uint, celsius: *mut c_uint) -> u32 {
    let known = if sensor == 0 { Ok(()) } else { Err(INVALID_ARGUMENT) };
    give(celsius, gpu(device).and_then(|gpu| known.map(|()| 34 + gpu as c_uint)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(device: Handle, milliwatts: *mut c_uint) -> u32 {
    give(milliwatts, gpu(device).map(|gpu| if wedged() || busy(gpu) { 120_000 } else { 70_000 }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, milliwatts: *mut c_uint) -> u32 {
    give(milliwatts, gpu(device).map(|_| machine().gpu.power_limit_mw))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimit(device: Handle, milliwatts: *mut c_uint) -> u32 {
    nvmlDeviceGetEnforcedPowerLimit(device, milliwatts)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPerformanceState(device: Handle, state: *mut c_uint) -> u32 {
    give(state, gpu(device).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieReplayCounter(device: Handle, count: *mut c_uint) -> u32 {
    give(count, gpu(device).map(|gpu| ailment::replays(&settings::get().ailments, gpu)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(device: Handle, generation: *mut c_uint) -> u32 {
    let now = |gpu| if machine().saves_power() && !awake(gpu) { 1 } else { machine().pcie_generation() };
    give(generation, gpu(device).map(now))
}

/// Whether somebody uses the GPU: another process, or a context of this one.
fn awake(gpu: usize) -> bool {
    busy(gpu) || wedged() || engine::lock().devices.iter().any(|device| device.gpu == gpu && device.retained > 0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(device: Handle, generation: *mut c_uint) -> u32 {
    give(generation, gpu(device).map(|_| machine().pcie_generation()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(device: Handle, lanes: *mut c_uint) -> u32 {
    give(lanes, gpu(device).map(|gpu| ailment::width(&settings::get().ailments, gpu)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(device: Handle, lanes: *mut c_uint) -> u32 {
    give(lanes, gpu(device).map(|_| 16))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEccMode(device: Handle, current: *mut c_uint, pending: *mut c_uint) -> u32 {
    if !machine().gpu.ecc {
        return NOT_SUPPORTED;
    }
    both(device, current, pending, 1)
}

fn both(device: Handle, first: *mut c_uint, second: *mut c_uint, value: c_uint) -> u32 {
    match give(first, gpu(device).map(|_| value)) {
        0 => give(second, Ok(value)),
        error => error,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Handle,
    _kind: c_uint,
    _counter: c_uint,
    errors: *mut c_ulonglong,
) -> u32 {
    if machine().gpu.ecc { give(errors, gpu(device).map(|_| 0)) } else { NOT_SUPPORTED }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(device: Handle, current: *mut c_uint, pending: *mut c_uint) -> u32 {
    if machine().gpu.capability < 90 { NOT_SUPPORTED } else { both(device, current, pending, 0) }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPersistenceMode(device: Handle, mode: *mut c_uint) -> u32 {
    give(mode, gpu(device).map(|_| 1))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeMode(device: Handle, mode: *mut c_uint) -> u32 {
    give(mode, gpu(device).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDisplayActive(device: Handle, active: *mut c_uint) -> u32 {
    give(active, gpu(device).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDisplayMode(device: Handle, mode: *mut c_uint) -> u32 {
    give(mode, gpu(device).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNumaNodeId(device: Handle, node: *mut c_uint) -> u32 {
    give(node, gpu(device).and(Err(NOT_SUPPORTED)))
}

/// Masks in words of 64 bits, the lowest first.
fn give_mask(bits: impl Iterator<Item = usize>, words: c_uint, to: *mut c_ulong) {
    let mut mask = vec![0 as c_ulong; words as usize];
    bits.for_each(|bit| {
        if let Some(word) = mask.get_mut(bit / 64) {
            *word |= 1 << (bit % 64);
        }
    });
    mask.into_iter().enumerate().for_each(|(at, word)| {
        crate::abi::put(to.wrapping_add(at), word);
    });
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCpuAffinity(device: Handle, words: c_uint, to: *mut c_ulong) -> u32 {
    code(gpu(device).map(|gpu| {
        let list = machine().cpus[machine().slots[gpu].socket as usize];
        let ranges = list.split(',').filter_map(|range| range.split_once('-'));
        let cpus = ranges.filter_map(|(first, last)| Some(first.parse().ok()?..=last.parse().ok()?)).flatten();
        give_mask(cpus, words, to);
    }))
}

/// The host's memory near a GPU. (What `nvmlDeviceGetNumaNodeId` tells is the node of the GPU's own memory.)
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryAffinity(device: Handle, words: c_uint, to: *mut c_ulong, _scope: c_uint) -> u32 {
    code(gpu(device).map(|gpu| give_mask(std::iter::once(machine().slots[gpu].socket as usize), words, to)))
}

/// All links go to a switch, which a guest sees at an address that is none.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: Handle,
    link: c_uint,
    info: *mut super::device::PciInfo,
) -> u32 {
    let known = gpu(device).and_then(|_| if machine().nvlink && link < 18 { Ok(()) } else { Err(NOT_SUPPORTED) });
    give(info, known.map(|()| super::device::PciInfo::nowhere()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNvLinkState(device: Handle, link: c_uint, active: *mut c_uint) -> u32 {
    let links = if machine().nvlink { Ok(c_uint::from(link < 18)) } else { Err(NOT_SUPPORTED) };
    give(active, gpu(device).and(links))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceSetPersistenceMode(device: Handle, _mode: c_int) -> u32 {
    // Nothing here changes a box.
    code(gpu(device).and(Err(NO_PERMISSION)))
}
