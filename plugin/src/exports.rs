//! The tables NCCL looks up, and the functions behind them.
//!
//! Each function is called by NCCL, from any thread: it takes whatever comes, answers success, and lets no panic out.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{self, ncclResult_t};
use crate::descriptor::Descriptor;
use crate::name::Name;
use crate::recorder::{self, Api, Attached};
use crate::{audit, handle};

const NAME: &CStr = c"ncclsweep";
const SUCCESS: ncclResult_t = abi::ncclSuccess.cast_signed();

/// A table that NCCL finds by its symbol. It lives in the data of the program and is never written.
#[repr(transparent)]
pub struct Table<T>(pub T);

// SAFETY: a table holds a pointer to a literal and pointers to functions, and is never written.
unsafe impl<T> Sync for Table<T> {}

macro_rules! table {
    ($symbol:ident, $table:ident, $descriptor:ident, $arguments:ident, $init:expr, $doc:literal) => {
        #[doc = $doc]
        #[allow(non_upper_case_globals)]
        #[unsafe(no_mangle)]
        #[used]
        pub static $symbol: Table<abi::$table> = Table(abi::$table {
            name: NAME.as_ptr(),
            init: Some($init),
            startEvent: Some(start_event::<abi::$descriptor>),
            stopEvent: Some(stop_event),
            recordEventState: Some(record_event_state::<abi::$arguments>),
            finalize: Some(finalize),
        });
    };
}

table!(
    ncclProfiler_v1,
    ncclProfiler_v1_t,
    ncclProfilerEventDescr_v1_t,
    ncclProfilerEventStateArgs_v1_t,
    init::<1>,
    "What NCCL 2.23 loads."
);
table!(
    ncclProfiler_v2,
    ncclProfiler_v2_t,
    ncclProfilerEventDescr_v2_t,
    ncclProfilerEventStateArgs_v1_t,
    init::<2>,
    "What NCCL 2.24 and 2.25 load."
);
table!(
    ncclProfiler_v3,
    ncclProfiler_v3_t,
    ncclProfilerEventDescr_v3_t,
    ncclProfilerEventStateArgs_v1_t,
    init::<3>,
    "What NCCL 2.26 loads."
);
table!(
    ncclProfiler_v4,
    ncclProfiler_v4_t,
    ncclProfilerEventDescr_v4_t,
    ncclProfilerEventStateArgs_v4_t,
    init_v4,
    "What NCCL 2.27 loads, and all later ones where they find no version 5."
);
table!(
    ncclProfiler_v5,
    ncclProfiler_v5_t,
    ncclProfilerEventDescr_v5_t,
    ncclProfilerEventStateArgs_v4_t,
    init_v5,
    "What NCCL 2.28 and later load of the shared library; the executable does not export it."
);

/// The plugin reports to [`recorder`] only; whatever goes wrong in it must not reach NCCL.
fn contained(body: impl FnOnce()) -> ncclResult_t {
    // A panic has already been printed by its hook; the collective itself goes on.
    let _ = catch_unwind(AssertUnwindSafe(body));
    SUCCESS
}

/// Versions 1 to 3 tell no more than where the mask is; events name their communicator themselves.
unsafe extern "C" fn init<const VERSION: u8>(context: *mut *mut c_void, mask: *mut c_int) -> ncclResult_t {
    let api = match VERSION {
        1 => Api::V1,
        2 => Api::V2,
        _ => Api::V3,
    };
    // SAFETY: `context` is NULL or NCCL's place for the context.
    contained(|| unsafe {
        attach(context, Attached { api, mask, hash: 0, name: Name::EMPTY, ranks: None, rank: None })
    })
}

unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    hash: u64,
    _nodes: c_int,
    ranks: c_int,
    rank: c_int,
    _logger: abi::ncclDebugLogger_t,
) -> ncclResult_t {
    contained(|| {
        // SAFETY: NCCL passes NULL or its string.
        let name = unsafe { Name::from_c(name) };
        let attached = Attached { api: Api::V4, mask, hash, name, ranks: u32::try_from(ranks).ok(), rank: Some(rank) };
        // SAFETY: `context` is NULL or NCCL's place for the context.
        unsafe { attach(context, attached) }
    })
}

/// The same as version 4 with the hash in another place.
unsafe extern "C" fn init_v5(
    context: *mut *mut c_void,
    hash: u64,
    mask: *mut c_int,
    name: *const c_char,
    _nodes: c_int,
    ranks: c_int,
    rank: c_int,
    _logger: abi::ncclDebugLogger_t,
) -> ncclResult_t {
    contained(|| {
        // SAFETY: NCCL passes NULL or its string.
        let name = unsafe { Name::from_c(name) };
        let attached = Attached { api: Api::V5, mask, hash, name, ranks: u32::try_from(ranks).ok(), rank: Some(rank) };
        // SAFETY: `context` is NULL or NCCL's place for the context.
        unsafe { attach(context, attached) }
    })
}

/// # Safety
///
/// `context` is NULL or writable.
unsafe fn attach(context: *mut *mut c_void, attached: Attached) {
    if !context.is_null() {
        // SAFETY: not NULL, so writable.
        unsafe { context.write(recorder::attach(attached)) };
    }
}

/// A group needs a handle: up to NCCL 2.27 collectives of a group without one are not told. A call's handle says whether it
/// is captured; its collective names that handle as its parent. Other events need none.
unsafe extern "C" fn start_event<D: Descriptor>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *mut D,
) -> ncclResult_t {
    contained(|| {
        // SAFETY: NULL, or NCCL's descriptor, which lives during the call.
        let Some(descriptor) = (unsafe { descriptor.as_ref() }) else { return };
        let kind = descriptor.kind();
        if !handle.is_null() {
            // SAFETY: not NULL, so NCCL's place for the handle.
            unsafe { handle.write(handle::of(kind, descriptor.is_captured_call())) };
        }
        if kind == abi::ncclProfileColl && (audit::is_on() || recorder::is_on()) {
            // SAFETY: the type says that the union holds a collective.
            let event = unsafe { descriptor.collective() };
            if audit::is_on() {
                audit::note(context, D::API, &event);
            }
            if recorder::is_on() {
                recorder::record(context, D::API, &event);
            }
        }
    })
}

/// Everything is known at the start of an event. NCCL 2.23 to 2.25 stop events whose handle is NULL as well.
unsafe extern "C" fn stop_event(_handle: *mut c_void) -> ncclResult_t {
    SUCCESS
}

unsafe extern "C" fn record_event_state<A>(_handle: *mut c_void, _state: c_int, _arguments: *mut A) -> ncclResult_t {
    SUCCESS
}

unsafe extern "C" fn finalize(context: *mut c_void) -> ncclResult_t {
    contained(|| recorder::detach(context))
}
