//! Streams and their capture into graphs.

use std::ffi::{c_int, c_uint};

use super::{
    CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, CAPTURE_WRONG_THREAD, Cu, CuError, Handle, ILLEGAL_STATE, INVALID_VALUE,
    NOT_READY, STRICT_CAPTURES, code, give, healthy, stream, wait_for,
};
use crate::engine::{Capture, Graph, Stream, Work, lock};

const NON_BLOCKING: c_uint = 1;
/// Capture mode in which everything is allowed.
const RELAXED: c_uint = 2;

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(handle: *mut Handle, flags: c_uint) -> u32 {
    let create = || {
        let mut engine = lock();
        let device = healthy(&engine)?;
        if flags > NON_BLOCKING {
            return Err(INVALID_VALUE);
        }
        let index = engine.streams.insert(Stream::new(device, flags != NON_BLOCKING));
        Ok(engine.streams.handle(index) as Handle)
    };
    give(handle, create())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreateWithPriority(handle: *mut Handle, flags: c_uint, _priority: c_int) -> u32 {
    cuStreamCreate(handle, flags)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(handle: Handle) -> u32 {
    let destroy = || {
        let mut engine = lock();
        let index = stream(&mut engine, handle)?;
        if engine.devices.iter().any(|device| device.default_stream == Some(index)) {
            return Err(super::INVALID_HANDLE);
        }
        // Work on it goes on to its end: a stream that is still busy stays until it is idle.
        if engine.streams[index].idle() {
            engine.streams.remove(index);
        }
        Ok(())
    };
    code(destroy())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(handle: Handle) -> u32 {
    let wait = || {
        let index = {
            let mut engine = lock();
            let index = stream(&mut engine, handle)?;
            if let Some(capture) = &mut engine.streams[index].capture {
                capture.broken = true;
                return Err(CAPTURE_UNSUPPORTED);
            }
            index
        };
        wait_for(index)
    };
    code(wait())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(handle: Handle) -> u32 {
    let query = || {
        let index = {
            let mut engine = lock();
            let index = stream(&mut engine, handle)?;
            let state = &mut engine.streams[index];
            if let Some(capture) = &mut state.capture {
                capture.broken = true;
                return Err(CAPTURE_UNSUPPORTED);
            }
            if let Some(error) = state.error {
                return Err(CuError(error));
            }
            if !state.queue.is_empty() {
                return Err(NOT_READY);
            }
            index
        };
        wait_for(index)
    };
    code(query())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(handle: Handle, event: Handle, _flags: c_uint) -> u32 {
    let wait = || {
        let mut engine = lock();
        let index = stream(&mut engine, handle)?;
        let event = engine.events.index(event as u64).ok_or(super::INVALID_HANDLE)?;
        let round = engine.events[event].recorded;
        if round > 0 {
            engine.enqueue(index, Work::Wait { event, round }, crate::clock::now());
        }
        Ok(())
    };
    code(wait())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamBeginCapture_v2(handle: Handle, mode: c_uint) -> u32 {
    let begin = || {
        let mut engine = lock();
        if mode > RELAXED {
            return Err(INVALID_VALUE);
        }
        if matches!(handle as u64, 0 | 1) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let index = stream(&mut engine, handle)?;
        let state = &mut engine.streams[index];
        if state.capture.is_some() {
            return Err(ILLEGAL_STATE);
        }
        let thread = std::thread::current().id();
        state.capture = Some(Capture {
            steps: Vec::new(),
            host_calls: Vec::new(),
            groups: Vec::new(),
            thread,
            mode,
            broken: false,
        });
        if mode != RELAXED {
            STRICT_CAPTURES.set(STRICT_CAPTURES.get() + 1);
        }
        Ok(())
    };
    code(begin())
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamEndCapture(handle: Handle, graph: *mut Handle) -> u32 {
    give(graph, end_capture(handle))
}

fn end_capture(handle: Handle) -> Cu<Handle> {
    let mut engine = lock();
    let index = stream(&mut engine, handle)?;
    let state = &mut engine.streams[index];
    let strict = state.capture.as_ref().ok_or(ILLEGAL_STATE)?;
    if strict.mode != RELAXED && strict.thread != std::thread::current().id() {
        return Err(CAPTURE_WRONG_THREAD);
    }
    let capture = state.capture.take().ok_or(ILLEGAL_STATE)?;
    if capture.mode != RELAXED {
        STRICT_CAPTURES.set(STRICT_CAPTURES.get() - 1);
    }
    if capture.broken {
        return Err(CAPTURE_INVALIDATED);
    }
    for &group in &capture.groups {
        if let Some(group) = engine.groups.get_mut(group) {
            group.graphs += 1;
        }
    }
    let graph = engine.graphs.insert(Graph {
        steps: capture.steps.into(),
        host_calls: capture.host_calls.into(),
        groups: capture.groups,
    });
    Ok(engine.graphs.handle(graph) as Handle)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamIsCapturing(handle: Handle, status: *mut c_uint) -> u32 {
    let ask = || {
        let mut engine = lock();
        let index = stream(&mut engine, handle)?;
        Ok(match &engine.streams[index].capture {
            None => 0,
            Some(capture) if !capture.broken => 1,
            Some(_) => 2,
        })
    };
    give(status, ask())
}

#[unsafe(no_mangle)]
extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> u32 {
    // NCCL's and PyTorch's guard around unsafe calls: what the emulator forbids depends on the capture's own mode.
    let known = crate::abi::get(mode).filter(|mode| *mode <= RELAXED).ok_or(INVALID_VALUE);
    code(known.map(|_| ()))
}
