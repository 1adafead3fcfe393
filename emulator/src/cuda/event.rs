//! Events: marks on streams, read in virtual time.

use std::ffi::c_uint;

use super::{
    CAPTURE_UNSUPPORTED, Cu, CuError, Handle, INVALID_HANDLE, INVALID_VALUE, NOT_READY, code, give, healthy, stream,
};
use crate::clock::Nanos;
use crate::engine::{Engine, Event, Work, lock};

const DISABLE_TIMING: c_uint = 2;
/// `CU_EVENT_RECORD_EXTERNAL`: a captured recording becomes a node of the graph.
const EXTERNAL: c_uint = 1;

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(handle: *mut Handle, flags: c_uint) -> u32 {
    let create = || {
        let mut engine = lock();
        healthy(&engine)?;
        if flags > 7 {
            return Err(INVALID_VALUE);
        }
        let event = engine.events.insert(Event::new(flags & DISABLE_TIMING == 0));
        Ok(engine.events.handle(event) as Handle)
    };
    give(handle, create())
}

fn find(engine: &Engine, handle: Handle) -> Cu<usize> {
    super::initialised()?;
    engine.events.index(handle as u64).ok_or(INVALID_HANDLE)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(handle: Handle) -> u32 {
    let mut engine = lock();
    code(find(&engine, handle).map(|event| {
        engine.events.remove(event);
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(handle: Handle, on: Handle) -> u32 {
    cuEventRecordWithFlags(handle, on, 0)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecordWithFlags(handle: Handle, on: Handle, flags: c_uint) -> u32 {
    let record = || {
        let mut engine = lock();
        let event = find(&engine, handle)?;
        let index = stream(&mut engine, on)?;
        if engine.streams[index].capture.is_some() && flags & EXTERNAL == 0 {
            // Within a capture a recording only orders work, and all work of a stream is in order.
            return Ok(());
        }
        let state = &mut engine.events[event];
        state.stream = Some(index);
        state.recorded += 1;
        let round = state.recorded;
        engine.enqueue(index, Work::Record { event, round }, crate::clock::now());
        Ok(())
    };
    code(record())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(handle: Handle) -> u32 {
    let query = || {
        let event = {
            let engine = lock();
            let event = find(&engine, handle)?;
            let state = &engine.events[event];
            if state.done < state.recorded {
                return Err(state.stream.and_then(|s| engine.streams.get(s)?.error).map_or(NOT_READY, CuError));
            }
            event
        };
        wait_for(event)
    };
    code(query())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(handle: Handle) -> u32 {
    let wait = || {
        let event = {
            let engine = lock();
            let event = find(&engine, handle)?;
            let stream = engine.events[event].stream;
            if stream.and_then(|stream| engine.streams.get(stream)).is_some_and(|stream| stream.capture.is_some()) {
                return Err(CAPTURE_UNSUPPORTED);
            }
            event
        };
        wait_for(event)
    };
    code(wait())
}

fn wait_for(event: usize) -> Cu<()> {
    let (end, error) = crate::engine::await_event(event);
    crate::clock::wait_until(end, (crate::settings::get().machine.host.wake * 1e3) as Nanos);
    error.map_or(Ok(()), |error| Err(CuError(error)))
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) -> u32 {
    let elapsed = || {
        let engine = lock();
        let mut times = [0; 2];
        for (time, handle) in times.iter_mut().zip([start, end]) {
            let event = &engine.events[find(&engine, handle)?];
            if !event.timing || event.recorded == 0 {
                return Err(INVALID_HANDLE);
            }
            if event.done < event.recorded {
                return Err(NOT_READY);
            }
            *time = event.time;
        }
        Ok(((times[1] as f64 - times[0] as f64) * 1e-6) as f32)
    };
    give(milliseconds, elapsed())
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(milliseconds: *mut f32, start: Handle, end: Handle) -> u32 {
    cuEventElapsedTime(milliseconds, start, end)
}
