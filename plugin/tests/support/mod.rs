//! The shared library, called as NCCL calls it.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::ffi::{CStr, c_int, c_void};
use std::mem::zeroed;
use std::path::PathBuf;
use std::ptr::null_mut;

use libloading::Library;
use nccl_profiler_ncclsweep::abi;

/// Cargo leaves the shared library beside the tests.
pub fn shared_library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libnccl_profiler_ncclsweep.so")
}

/// What an NCCL of version 5's time keeps of the plugin.
#[derive(Clone, Copy)]
pub struct Plugin(&'static abi::ncclProfiler_v5_t);

// SAFETY: the table is never written, and NCCL calls it from any thread.
unsafe impl Send for Plugin {}
// SAFETY: as for Send.
unsafe impl Sync for Plugin {}

/// NCCL's mask, one variable of the process.
static mut MASK: c_int = -1;

impl Plugin {
    /// Loads the plugin as NCCL does, and closes it at once: it stays.
    pub fn load() -> Self {
        // SAFETY: loading the plugin runs nothing; the symbol has this type and is never unloaded.
        unsafe {
            let library = Library::new(shared_library()).unwrap();
            let table: *const abi::ncclProfiler_v5_t = *library.get(b"ncclProfiler_v5").unwrap();
            drop(library);
            Self(&*table)
        }
    }

    pub fn mask() -> c_int {
        // SAFETY: read while no thread is inside of the plugin.
        unsafe { MASK }
    }

    /// One rank's end of a communicator.
    pub fn communicator(self, name: &CStr, rank: c_int) -> Communicator {
        let mut context: *mut c_void = null_mut();
        // SAFETY: NCCL's call; the mask lives forever.
        let result = unsafe { self.0.init.unwrap()(&mut context, 7, &raw mut MASK, name.as_ptr(), 1, 8, rank, None) };
        assert_eq!(result, 0);
        Communicator { plugin: self, context: context as usize, rank }
    }
}

/// One rank's end of a communicator; its context is a number, so it may go to any thread.
pub struct Communicator {
    plugin: Plugin,
    context: usize,
    rank: c_int,
}

impl Communicator {
    /// All-reduces of `count` bf16 elements, as NCCL 2.28 announces them.
    pub fn all_reduce(&self, count: usize, calls: usize, captured: bool) {
        for _ in 0..calls {
            // SAFETY: all zeros is a descriptor with NULL strings.
            let mut descriptor: abi::ncclProfilerEventDescr_v5_t = unsafe { zeroed() };
            descriptor.type_ = abi::ncclProfileCollApi.into();
            descriptor.event.collApi.graphCaptured = captured.into();
            let call = self.start(&mut descriptor);
            // SAFETY: as above.
            let mut descriptor: abi::ncclProfilerEventDescr_v5_t = unsafe { zeroed() };
            descriptor.type_ = abi::ncclProfileColl.into();
            descriptor.parentObj = call;
            descriptor.rank = self.rank;
            descriptor.event.coll = abi::ncclProfilerColl_v5_t {
                seqNumber: 0,
                func: c"AllReduce".as_ptr(),
                sendBuff: null_mut(),
                recvBuff: null_mut(),
                count,
                root: 0,
                datatype: c"ncclBfloat16".as_ptr(),
                nChannels: 1,
                nWarps: 16,
                algo: c"RING".as_ptr(),
                proto: c"LL".as_ptr(),
                parentGroup: null_mut(),
            };
            self.start(&mut descriptor);
        }
    }

    fn start(&self, descriptor: &mut abi::ncclProfilerEventDescr_v5_t) -> *mut c_void {
        let mut handle = null_mut();
        // SAFETY: NCCL's call.
        let result = unsafe { self.plugin.0.startEvent.unwrap()(self.context as *mut c_void, &mut handle, descriptor) };
        assert_eq!(result, 0);
        handle
    }

    pub fn finalize(self) {
        // SAFETY: the context of this communicator, once.
        assert_eq!(unsafe { self.plugin.0.finalize.unwrap()(self.context as *mut c_void) }, 0);
    }
}
