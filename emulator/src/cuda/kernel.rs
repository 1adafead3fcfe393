//! Kernels of the caller: those of ncclsweep's own module, told by name, for nothing here compiles PTX.

use std::ffi::{c_char, c_uint, c_void};

use super::memory::is_pinned;
use super::{Cu, Handle, INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NOT_FOUND, code, give, healthy, stream};
use crate::abi;
use crate::clock;
use crate::engine::{Side, Work, lock};

/// The only module, and its functions.
const MODULE: usize = 0x0D00_0000_0000;
const EMPTY: usize = MODULE + 16;
const HOP: usize = MODULE + 32;

/// What a launch outside a capture takes of its thread, ns.
const LAUNCH: u64 = 2000;

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_void) -> u32 {
    let load = || {
        healthy(&lock())?;
        let text = abi::text(image.cast()).ok_or(INVALID_VALUE)?;
        let known = [".version", ".target", ".entry hop(", ".entry empty("];
        if known.iter().all(|word| text.contains(word)) { Ok(MODULE as Handle) } else { Err(INVALID_PTX) }
    };
    give(module, load())
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> u32 {
    code(super::current().and(if module as usize == MODULE { Ok(()) } else { Err(INVALID_HANDLE) }))
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) -> u32 {
    let find = || {
        super::current()?;
        if module as usize != MODULE {
            return Err(INVALID_HANDLE);
        }
        match abi::text(name).as_deref() {
            Some("empty") => Ok(EMPTY as Handle),
            Some("hop") => Ok(HOP as Handle),
            Some(_) => Err(NOT_FOUND),
            None => Err(INVALID_VALUE),
        }
    };
    give(function, find())
}

/// As many arguments as the C function has.
#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: Handle,
    _grid_x: c_uint,
    _grid_y: c_uint,
    _grid_z: c_uint,
    _block_x: c_uint,
    _block_y: c_uint,
    _block_z: c_uint,
    _shared: c_uint,
    on: Handle,
    arguments: *const *const c_void,
    _extra: *const *const c_void,
) -> u32 {
    let launch = || {
        let work = match function as usize {
            EMPTY => Work::Empty,
            HOP => Work::Side(side(arguments)?),
            _ => return Err(INVALID_HANDLE),
        };
        let mut engine = lock();
        let index = stream(&mut engine, on)?;
        if engine.streams[index].capture.is_none() {
            clock::spend(LAUNCH);
        }
        engine.enqueue(index, work, clock::now());
        Ok(())
    };
    code(launch())
}

/// The arguments of `hop`, in their order: poll, write, done, first, exchanges, polls, starts.
fn side(arguments: *const *const c_void) -> Cu<Side> {
    let at = |place: usize| abi::get(arguments.wrapping_add(place)).filter(|at| !at.is_null()).ok_or(INVALID_VALUE);
    let long = |place: usize| at(place).and_then(|at| abi::get(at.cast::<u64>()).ok_or(INVALID_VALUE));
    let word = |place: usize| at(place).and_then(|at| abi::get(at.cast::<u32>()).ok_or(INVALID_VALUE));
    let (poll, write) = (long(0)?, long(1)?);
    let host = is_pinned(poll) && is_pinned(write);
    Ok(Side { poll, write, done: long(2)?, exchanges: word(4)?, polls: word(5)?, host })
}
