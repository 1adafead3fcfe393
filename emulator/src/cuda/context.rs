//! Primary contexts: one per device, current per thread.

use std::ffi::{c_int, c_uint};

use super::{CURRENT, Cu, Handle, INVALID_CONTEXT, INVALID_VALUE, code, current, device_of, give, initialised};
use crate::engine::lock;

/// Contexts are told apart by their address alone.
const CONTEXTS: usize = 0x0C00_0000_0000;

fn handle(device: usize) -> Handle {
    (CONTEXTS + (device + 1) * 16) as Handle
}

fn device_of_context(context: Handle) -> Cu<usize> {
    let number = (context as usize).wrapping_sub(CONTEXTS) / 16;
    let device = number.checked_sub(1).filter(|&device| handle(device) == context).ok_or(INVALID_CONTEXT)?;
    let engine = lock();
    let state = engine.devices.get(device).ok_or(INVALID_CONTEXT)?;
    if state.retained > 0 { Ok(device) } else { Err(INVALID_CONTEXT) }
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> u32 {
    let mut engine = lock();
    let count = engine.devices.len();
    give(
        context,
        device_of(device, count).map(|device| {
            engine.devices[device].retained += 1;
            handle(device)
        }),
    )
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> u32 {
    let mut engine = lock();
    let count = engine.devices.len();
    code(device_of(device, count).and_then(|device| {
        let retained = &mut engine.devices[device].retained;
        *retained = retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) -> u32 {
    let engine = lock();
    let state = device_of(device, engine.devices.len()).map(|device| engine.devices[device].retained > 0);
    match give(flags, state.map(|_| 0)) {
        0 => give(active, state.map(c_int::from)),
        error => error,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, _flags: c_uint) -> u32 {
    code(device_of(device, lock().devices.len()).map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: Handle) -> u32 {
    code(initialised().and_then(|()| {
        CURRENT.set(if context.is_null() { None } else { Some(device_of_context(context)?) });
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> u32 {
    give(context, initialised().map(|()| CURRENT.get().map_or(std::ptr::null_mut(), handle)))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(device: *mut c_int) -> u32 {
    give(device, current().map(|device| device as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(context: Handle) -> u32 {
    cuCtxSetCurrent(context)
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxEnablePeerAccess(peer: Handle, flags: c_uint) -> u32 {
    let enable = || {
        let (device, peer) = (current()?, device_of_context(peer)?);
        let mut engine = lock();
        let gpu = |device: usize| engine.devices[device].gpu;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if !engine.settings.machine.peer_access(gpu(device), gpu(peer)) {
            return Err(super::PEER_ACCESS_UNSUPPORTED);
        }
        if !engine.devices[device].reaches.insert(peer) {
            return Err(super::PEER_ACCESS_ALREADY_ENABLED);
        }
        Ok(())
    };
    code(enable())
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetApiVersion(context: Handle, version: *mut c_uint) -> u32 {
    match device_of_context(context) {
        Ok(_) => give(version, Ok(3020)),
        Err(error) => error.0,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetFlags(_flags: c_uint) -> u32 {
    code(current().map(|_| ()))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> u32 {
    let given = crate::abi::put(least, 0) && crate::abi::put(greatest, -5);
    code(current().and(if given { Ok(()) } else { Err(INVALID_VALUE) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> u32 {
    let wait = || {
        let device = {
            let mut engine = lock();
            let device = super::healthy(&engine)?;
            super::forbid_while_capturing(&mut engine)?;
            device
        };
        let streams: Vec<usize> =
            lock().streams.iter().filter(|(_, stream)| stream.device == device).map(|(index, _)| index).collect();
        streams.into_iter().try_for_each(super::wait_for)
    };
    code(wait())
}
