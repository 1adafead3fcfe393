//! Devices: finding them, what they are, how they are plugged in, and the processes on them.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use super::{
    GPU_IS_LOST, Handle, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND, Nvml, code, give, give_text, gpu, handle,
};
use super::{initialised, machine};
use crate::topology::Path;
use crate::{abi, settings};

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> u32 {
    give(count, initialised().map(|()| machine().slots.len() as c_uint))
}

/// The handle of the first GPU for which this holds; a lost one answers with its loss.
fn find(matches: impl Fn(usize) -> bool) -> Nvml<Handle> {
    initialised()?;
    let found = (0..machine().slots.len()).find(|&gpu| matches(gpu)).ok_or(NOT_FOUND)?;
    match gpu(handle(found)) {
        Err(GPU_IS_LOST) => Err(GPU_IS_LOST),
        _ => Ok(handle(found)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut Handle) -> u32 {
    let found = find(|gpu| gpu == index as usize);
    give(device, found.map_err(|error| if error == NOT_FOUND { INVALID_ARGUMENT } else { error }))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(id: *const c_char, device: *mut Handle) -> u32 {
    let text = abi::text(id).ok_or(INVALID_ARGUMENT);
    give(device, text.and_then(|text| find(|gpu| same_bus_id(&text, &machine().pci_bus_id(gpu)))))
}

/// Bus ids are written with four or eight digits of the domain, or without it, in either case.
fn same_bus_id(a: &str, b: &str) -> bool {
    let short = |text: &str| {
        let text = text.to_ascii_uppercase();
        let rest = text.trim_start_matches('0').trim_start_matches(':');
        rest.to_owned()
    };
    let tail = |text: &str| text.rsplit(':').take(2).map(str::to_ascii_uppercase).collect::<Vec<_>>();
    tail(a) == tail(b) && (short(a).matches(':').count() <= 1)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut Handle) -> u32 {
    let text = abi::text(uuid).ok_or(INVALID_ARGUMENT);
    give(device, text.and_then(|text| find(|gpu| machine().uuid_text(gpu) == text)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleBySerial(serial: *const c_char, device: *mut Handle) -> u32 {
    let text = abi::text(serial).ok_or(INVALID_ARGUMENT);
    give(device, text.and_then(|text| find(|gpu| serial_of(gpu) == text)))
}

fn serial_of(gpu: usize) -> String {
    format!("16{:011}", 42_000_000 + gpu)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIndex(device: Handle, index: *mut c_uint) -> u32 {
    give(index, gpu(device).map(|gpu| gpu as c_uint))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMinorNumber(device: Handle, number: *mut c_uint) -> u32 {
    nvmlDeviceGetIndex(device, number)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(device: Handle, to: *mut c_char, size: c_uint) -> u32 {
    give_text(to, size, gpu(device).map(|_| machine().gpu.name.to_owned()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(device: Handle, to: *mut c_char, size: c_uint) -> u32 {
    give_text(to, size, gpu(device).map(|gpu| machine().uuid_text(gpu)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetSerial(device: Handle, to: *mut c_char, size: c_uint) -> u32 {
    let has_serial = !machine().gpu.name.contains("GeForce");
    give_text(
        to,
        size,
        gpu(device).and_then(|gpu| if has_serial { Ok(serial_of(gpu)) } else { Err(super::NOT_SUPPORTED) }),
    )
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetVbiosVersion(device: Handle, to: *mut c_char, size: c_uint) -> u32 {
    give_text(to, size, gpu(device).map(|_| "98.02.53.00.03".to_owned()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCudaComputeCapability(device: Handle, major: *mut c_int, minor: *mut c_int) -> u32 {
    let capability = gpu(device).map(|_| machine().gpu.capability as c_int);
    match give(major, capability.map(|capability| capability / 10)) {
        0 => give(minor, capability.map(|capability| capability % 10)),
        error => error,
    }
}

/// `nvmlPciInfo_t`.
#[repr(C)]
pub(super) struct PciInfo {
    legacy_id: [u8; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    id: [u8; 32],
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, info: *mut PciInfo) -> u32 {
    give(
        info,
        gpu(device).map(|gpu| {
            let address = machine().slots[gpu].address;
            let short = machine().pci_bus_id(gpu);
            PciInfo {
                legacy_id: padded(&short),
                domain: 0,
                bus: address >> 12,
                device: address >> 4 & 0xFF,
                device_id: machine().gpu.pci_device,
                subsystem_id: 0x204B_10DE,
                id: padded(&format!("0000{short}")),
            }
        }),
    )
}

impl PciInfo {
    /// What stands for an NVSwitch in a guest.
    pub(super) fn nowhere() -> PciInfo {
        PciInfo {
            legacy_id: [0; 16],
            domain: 0x0FFF_FFFF,
            bus: 0xFF,
            device: 0x1F,
            device_id: 0,
            subsystem_id: 0,
            id: padded("fffffff:ff:ff.0"),
        }
    }
}

fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// Levels of `nvmlGpuTopologyLevel_t`.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTopologyCommonAncestor(a: Handle, b: Handle, level: *mut c_uint) -> u32 {
    let path = || Ok(machine().pci_path(gpu(a)?, gpu(b)?));
    give(
        level,
        path().map(|path| match path {
            Path::Loc => 0,
            Path::Pix => 10,
            Path::Pxb => 20,
            // Root ports of one socket: NVML calls a common host bridge 30 and a common NUMA node 40.
            Path::Phb => 40,
            _ => 50,
        }),
    )
}

/// 0 OK, 3 chipset, 4 GPU, 5 disabled… The caps index is 0 read, 1 write, 2 NVLink, 3 atomics, 4 property.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetP2PStatus(a: Handle, b: Handle, cap: c_uint, status: *mut c_uint) -> u32 {
    let answer = || {
        let (a, b) = (gpu(a)?, gpu(b)?);
        let machine = machine();
        Ok(match cap {
            2 => {
                if machine.nvlink {
                    0
                } else {
                    5
                }
            }
            _ if machine.peer_access(a, b) => 0,
            _ => 1,
        })
    };
    give(status, answer())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceOnSameBoard(a: Handle, b: Handle, same: *mut c_int) -> u32 {
    let answer = || Ok(c_int::from(gpu(a)? == gpu(b)?));
    give(same, answer())
}

/// `nvmlProcessInfo_t` of the v2 and v3 calls.
#[repr(C)]
#[derive(Clone, Copy)]
struct ProcessInfo {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> u32 {
    let pids = gpu(device).map(|gpu| {
        let busy = settings::get().busy.iter().filter(|(on, _)| *on == gpu);
        busy.map(|(_, pid)| *pid).collect::<Vec<_>>()
    });
    code(pids.and_then(|pids| list(&pids, count, infos)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> u32 {
    code(gpu(device).and_then(|_| list(&[], count, infos)))
}

/// NVML's way with lists: too little room is answered with the number there are.
fn list(pids: &[u32], count: *mut c_uint, infos: *mut ProcessInfo) -> Nvml<()> {
    let room = abi::get(count).ok_or(INVALID_ARGUMENT)?;
    abi::put(count, pids.len() as c_uint);
    if pids.len() > room as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    for (position, &pid) in pids.iter().enumerate() {
        let info = ProcessInfo { pid, memory: 20 << 30, gpu_instance: !0, compute_instance: !0 };
        if !abi::put(infos.wrapping_add(position), info) {
            return Err(INVALID_ARGUMENT);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_match_with_any_domain_width() {
        for text in ["0000:03:00.0", "00000000:03:00.0", "03:00.0"] {
            assert!(same_bus_id(text, "0000:03:00.0"), "{text}");
        }
        assert!(!same_bus_id("0000:04:00.0", "0000:03:00.0"));
        assert!(!same_bus_id("0001:03:00.0", "0000:03:00.0"));
    }
}
