//! NCCL: the library, its version, communicators.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys;
use serde::{Deserialize, Serialize};

use super::cuda::{DeviceBuffer, Stream};
use super::{GpuError, function_table};
use crate::collective::{Dtype, Op};
use crate::nccl::version::NcclVersion;

type Result<T> = std::result::Result<T, GpuError>;

function_table! {
    /// NCCL's functions.
    Nccl of "NCCL (libnccl)" {
        ncclGetVersion(*mut c_int);
        ncclGetUniqueId(*mut sys::ncclUniqueId);
        ncclCommInitRank(*mut sys::ncclComm_t, c_int, sys::ncclUniqueId, c_int);
        ncclAllReduce(*const c_void, *mut c_void, usize, c_uint, c_uint, sys::ncclComm_t, *mut c_void);
        ncclSend(*const c_void, usize, c_uint, c_int, sys::ncclComm_t, *mut c_void);
        ncclRecv(*mut c_void, usize, c_uint, c_int, sys::ncclComm_t, *mut c_void);
        ncclGroupStart();
        ncclGroupEnd();
        ncclCommGetAsyncError(sys::ncclComm_t, *mut c_int);
        ncclCommDestroy(sys::ncclComm_t);
    }
}

type TextOfCode = unsafe extern "C" fn(c_int) -> *const c_char;
type TextOfCommunicator = unsafe extern "C" fn(sys::ncclComm_t) -> *const c_char;

/// `ncclInProgress`: not an error of a blocking communicator.
const IN_PROGRESS: c_int = 7;

pub(super) fn library() -> Result<&'static libloading::Library> {
    // SAFETY: loading libnccl runs its initialisers, which is what every NCCL program does at its start.
    if !unsafe { sys::is_culib_present() } {
        let what = super::why_not_loaded(&["libnccl.so"]);
        return Err(GpuError::Missing { library: "NCCL (libnccl)".into(), what });
    }
    // SAFETY: present, so this does not panic; the handle lives as long as the process.
    Ok(unsafe { sys::culib() })
}

/// The library's functions, resolved once per process.
fn nccl() -> Result<&'static Nccl> {
    static NCCL: OnceLock<std::result::Result<Nccl, GpuError>> = OnceLock::new();
    NCCL.get_or_init(|| Nccl::resolve(library()?)).as_ref().map_err(Clone::clone)
}

/// The version that the loaded library reports.
pub fn version() -> Result<NcclVersion> {
    let mut code = 0;
    let nccl = nccl()?;
    // SAFETY: the out-pointer points to a live local.
    check("ncclGetVersion", unsafe { (nccl.ncclGetVersion)(&raw mut code) }, None)?;
    let unreadable = || GpuError::Missing { library: "NCCL (libnccl)".into(), what: format!("{code} is no version") };
    NcclVersion::from_code(code).ok_or_else(unreadable)
}

/// File name of the loaded library as the loader resolved it.
#[must_use]
pub fn loaded_from() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let nccl = nccl().ok()?.ncclGetVersion as usize;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let inside = (usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?).contains(&nccl);
        inside.then(|| rest.split_whitespace().skip(4).collect::<Vec<_>>().join(" "))
    })
}

/// What names one communicator to all its ranks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(into = "Vec<u8>", try_from = "Vec<u8>")]
pub struct UniqueId(sys::ncclUniqueId);

impl UniqueId {
    /// A new one; the calling process runs the bootstrap root.
    pub fn create() -> Result<Self> {
        let mut id = sys::ncclUniqueId { internal: [0; 128] };
        let nccl = nccl()?;
        // SAFETY: the out-pointer points to a live local.
        check("ncclGetUniqueId", unsafe { (nccl.ncclGetUniqueId)(&raw mut id) }, None)?;
        Ok(Self(id))
    }
}

impl From<UniqueId> for Vec<u8> {
    fn from(id: UniqueId) -> Self {
        id.0.internal.iter().map(|b| *b as u8).collect()
    }
}

impl TryFrom<Vec<u8>> for UniqueId {
    type Error = String;

    fn try_from(bytes: Vec<u8>) -> std::result::Result<Self, String> {
        let bytes: [u8; 128] =
            bytes.try_into().map_err(|b: Vec<u8>| format!("a unique id has 128 bytes, not {}", b.len()))?;
        Ok(Self(sys::ncclUniqueId { internal: bytes.map(|b| b as c_char) }))
    }
}

/// One rank's handle of a blocking communicator, as servers use them.
#[derive(Clone, Copy, Debug)]
pub struct Communicator {
    comm: sys::ncclComm_t,
    api: &'static Nccl,
}

// SAFETY: any thread may use a communicator with its context current, one at a time; the handle itself is a pointer's value.
unsafe impl Send for Communicator {}

impl std::fmt::Debug for Nccl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nccl")
    }
}

impl Communicator {
    /// Joins as `rank` of `ranks` on the current context's GPU; returns once every rank has joined.
    pub fn init(id: UniqueId, rank: u32, ranks: u32) -> Result<Self> {
        let api = nccl()?;
        let mut comm = std::ptr::null_mut();
        // SAFETY: the out-pointer points to a live local; the id is passed by value as the header declares.
        let code = unsafe { (api.ncclCommInitRank)(&raw mut comm, ranks as c_int, id.0, rank as c_int) };
        check("ncclCommInitRank", code, None)?;
        Ok(Self { comm, api })
    }

    /// Enqueues an all-reduce of `count` elements; `send` and `recv` may be the same buffer.
    #[inline]
    pub fn all_reduce(
        self,
        send: DeviceBuffer,
        recv: DeviceBuffer,
        count: usize,
        dtype: Dtype,
        op: Op,
        stream: Stream,
    ) -> Result<()> {
        let (dtype, op) = (dtype.nccl_id(), op.nccl_id());
        // SAFETY: the buffers hold `count` elements of `dtype` (the caller cut them so) and outlive the enqueued work.
        let code =
            unsafe { (self.api.ncclAllReduce)(send.raw(), recv.raw(), count, dtype, op, self.comm, stream.raw()) };
        check("ncclAllReduce", code, Some(self.comm))
    }

    /// Enqueues a send of `count` elements to one rank and a receive of as many from another (`to`, `from`), in one group.
    #[inline]
    pub fn send_recv(
        self,
        send: DeviceBuffer,
        recv: DeviceBuffer,
        count: usize,
        dtype: Dtype,
        (to, from): (u32, u32),
        stream: Stream,
    ) -> Result<()> {
        let dtype = dtype.nccl_id();
        // SAFETY: takes nothing; what follows is closed by the end of the group.
        check("ncclGroupStart", unsafe { (self.api.ncclGroupStart)() }, Some(self.comm))?;
        // SAFETY: the buffers hold `count` elements of `dtype` (the caller cut them so) and outlive the enqueued work.
        let sent = unsafe { (self.api.ncclSend)(send.raw(), count, dtype, to as c_int, self.comm, stream.raw()) };
        // SAFETY: as above.
        let received = unsafe { (self.api.ncclRecv)(recv.raw(), count, dtype, from as c_int, self.comm, stream.raw()) };
        // SAFETY: ends the group that was begun above, also when a call in it failed.
        let ended = unsafe { (self.api.ncclGroupEnd)() };
        check("ncclSend", sent, Some(self.comm))?;
        check("ncclRecv", received, Some(self.comm))?;
        check("ncclGroupEnd", ended, Some(self.comm))
    }

    /// The handle as NCCL takes it.
    pub(super) fn raw(self) -> sys::ncclComm_t {
        self.comm
    }

    /// Fails when NCCL noted an error on this communicator outside a call.
    pub fn async_error(self) -> Result<()> {
        let mut code = 0;
        // SAFETY: the communicator is live; the out-pointer points to a live local.
        check("ncclCommGetAsyncError", unsafe { (self.api.ncclCommGetAsyncError)(self.comm, &raw mut code) }, None)?;
        if code == IN_PROGRESS { Ok(()) } else { check("a collective (asynchronous error)", code, Some(self.comm)) }
    }

    /// Destroys it; waits for its work and for every graph that captured on it to be destroyed.
    pub fn destroy(self) -> Result<()> {
        // SAFETY: the communicator is live and not used afterwards: the worker drops its only handle.
        check("ncclCommDestroy", unsafe { (self.api.ncclCommDestroy)(self.comm) }, None)
    }
}

#[inline]
pub(super) fn check(call: &str, code: c_int, comm: Option<sys::ncclComm_t>) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(error(call, code, comm)) }
}

#[cold]
fn error(call: &str, code: c_int, comm: Option<sys::ncclComm_t>) -> GpuError {
    let text = |pointer: *const c_char| {
        // SAFETY: NCCL returns null or a static, NUL-terminated string.
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().trim().to_owned())
    };
    let library = library().ok();
    // SAFETY: signature of the public header. Since 2.13 for the last error, so it may be missing.
    let describe = library.and_then(|l| unsafe { l.get::<TextOfCode>(b"ncclGetErrorString") }.ok());
    // SAFETY: as above.
    let last = library.and_then(|l| unsafe { l.get::<TextOfCommunicator>(b"ncclGetLastError") }.ok());
    // SAFETY: takes any code; a communicator may be null.
    let described = describe.and_then(|f| text(unsafe { f(code) }));
    // SAFETY: as above.
    let last_error = last.and_then(|f| text(unsafe { f(comm.unwrap_or(std::ptr::null_mut())) }));
    GpuError::Nccl {
        call: call.to_owned(),
        code,
        text: described.unwrap_or_else(|| "unknown code".to_owned()),
        last_error: last_error.filter(|text| !text.is_empty()),
    }
}
