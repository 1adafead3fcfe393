//! The CUDA driver: contexts, streams, events, buffers, graphs.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;
use serde::{Deserialize, Serialize};

use super::{GpuError, function_table};
use crate::topology::BusId;

type Result<T> = std::result::Result<T, GpuError>;

function_table! {
    /// The driver's functions.
    Driver of "the CUDA driver (libcuda)" {
        cuInit(c_uint);
        cuDriverGetVersion(*mut c_int);
        cuDeviceGetCount(*mut c_int);
        cuDeviceGet(*mut sys::CUdevice, c_int);
        cuDeviceGetName(*mut c_char, c_int, sys::CUdevice);
        cuDeviceGetUuid_v2(*mut sys::CUuuid, sys::CUdevice);
        cuDeviceGetPCIBusId(*mut c_char, c_int, sys::CUdevice);
        cuDeviceCanAccessPeer(*mut c_int, sys::CUdevice, sys::CUdevice);
        cuDevicePrimaryCtxRetain(*mut sys::CUcontext, sys::CUdevice);
        cuDevicePrimaryCtxRelease_v2(sys::CUdevice);
        cuCtxSetCurrent(sys::CUcontext);
        cuStreamCreate(*mut sys::CUstream, c_uint);
        cuStreamDestroy_v2(sys::CUstream);
        cuStreamSynchronize(sys::CUstream);
        cuStreamBeginCapture_v2(sys::CUstream, c_uint);
        cuStreamEndCapture(sys::CUstream, *mut sys::CUgraph);
        cuEventCreate(*mut sys::CUevent, c_uint);
        cuEventDestroy_v2(sys::CUevent);
        cuEventRecord(sys::CUevent, sys::CUstream);
        cuEventElapsedTime(*mut f32, sys::CUevent, sys::CUevent);
        cuGraphInstantiateWithFlags(*mut sys::CUgraphExec, sys::CUgraph, c_ulonglong);
        cuGraphUpload(sys::CUgraphExec, sys::CUstream);
        cuGraphLaunch(sys::CUgraphExec, sys::CUstream);
        cuGraphExecDestroy(sys::CUgraphExec);
        cuGraphDestroy(sys::CUgraph);
        cuMemAlloc_v2(*mut sys::CUdeviceptr, usize);
        cuMemFree_v2(sys::CUdeviceptr);
        cuMemcpyHtoDAsync_v2(sys::CUdeviceptr, *const c_void, usize, sys::CUstream);
        cuMemcpyDtoHAsync_v2(*mut c_void, sys::CUdeviceptr, usize, sys::CUstream);
        cuMemcpyDtoDAsync_v2(sys::CUdeviceptr, sys::CUdeviceptr, usize, sys::CUstream);
        cuMemsetD8Async(sys::CUdeviceptr, u8, usize, sys::CUstream);
        cuGetErrorName(c_int, *mut *const c_char);
        cuGetErrorString(c_int, *mut *const c_char);
    }
}

/// `CU_STREAM_NON_BLOCKING`: no implicit order with the legacy default stream.
const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT`: with timing.
const EVENT_DEFAULT: c_uint = 0;
/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other ranks' threads may allocate meanwhile.
const CAPTURE_THREAD_LOCAL: c_uint = 1;

/// The driver, loaded once per process.
fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<std::result::Result<Driver, GpuError>> = OnceLock::new();
    let loaded = DRIVER.get_or_init(|| library().and_then(Driver::resolve));
    loaded.as_ref().map_err(Clone::clone)
}

pub(super) fn library() -> Result<&'static libloading::Library> {
    // SAFETY: loading libcuda runs its initialisers, which is what a CUDA program does at its start.
    if !unsafe { sys::is_culib_present() } {
        let what = super::why_not_loaded(&["libcuda.so", "libcuda.so.1"]);
        return Err(GpuError::Missing { library: "the CUDA driver (libcuda)".into(), what });
    }
    // SAFETY: present, so this does not panic; the handle lives as long as the process.
    Ok(unsafe { sys::culib() })
}

pub(super) fn check(call: &str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(error(call, code)) }
}

#[cold]
fn error(call: &str, code: c_int) -> GpuError {
    let text_of = |get: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the driver stores a pointer to a static string, or null for a code it does not know.
        unsafe {
            get(code, &raw mut text);
            if text.is_null() { "unknown".to_owned() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        }
    };
    let (name, text) = match driver() {
        Ok(driver) => (text_of(driver.cuGetErrorName), text_of(driver.cuGetErrorString)),
        Err(_) => ("unknown".to_owned(), "unknown".to_owned()),
    };
    GpuError::Cuda { call: call.to_owned(), code, name, text }
}

/// Calls `driver.NAME(args…)` and turns its code into a `Result`.
macro_rules! call {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        let driver = driver()?;
        // SAFETY: handles come from this module's constructors and live until their explicit destruction; out-pointers
        // point to live locals; sizes are those of the buffers they go with.
        check(stringify!($name), unsafe { (driver.$name)($($arg),*) })
    }};
}

/// What identifies one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Device {
    /// CUDA's ordinal in this process (after `CUDA_VISIBLE_DEVICES`).
    pub ordinal: u32,
    /// Marketing name.
    pub name: String,
    /// `GPU-xxxxxxxx-…`.
    pub uuid: String,
    /// `domain:bus:device.function`, lower case.
    pub pci: String,
}

/// Initialises the driver and lists its devices; also the CUDA version the driver supports, as `13.0`.
pub fn devices() -> Result<(String, Vec<Device>)> {
    let (mut version, mut count) = (0, 0);
    call!(cuInit(0))?;
    call!(cuDriverGetVersion(&raw mut version))?;
    call!(cuDeviceGetCount(&raw mut count))?;
    let devices = (0..count).map(device).collect::<Result<_>>()?;
    Ok((format!("{}.{}", version / 1000, version % 1000 / 10), devices))
}

fn device(ordinal: c_int) -> Result<Device> {
    let mut handle = 0;
    let (mut name, mut pci) = ([0 as c_char; 256], [0 as c_char; 32]);
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    call!(cuDeviceGet(&raw mut handle, ordinal))?;
    call!(cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, handle))?;
    call!(cuDeviceGetUuid_v2(&raw mut uuid, handle))?;
    call!(cuDeviceGetPCIBusId(pci.as_mut_ptr(), pci.len() as c_int, handle))?;
    let hex: String = uuid.bytes.iter().map(|b| format!("{:02x}", *b as u8)).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(Device {
        ordinal: ordinal as u32,
        name: text(&name),
        uuid: format!("GPU-{}", parts.join("-")),
        pci: text(&pci).to_lowercase(),
    })
}

/// Whether CUDA lets the GPU at one ordinal map the memory of the GPU at another.
pub fn can_access_peer(ordinal: u32, peer: u32) -> Result<bool> {
    let (mut device, mut other, mut can) = (0, 0, 0);
    call!(cuDeviceGet(&raw mut device, ordinal as c_int))?;
    call!(cuDeviceGet(&raw mut other, peer as c_int))?;
    call!(cuDeviceCanAccessPeer(&raw mut can, device, other))?;
    Ok(can != 0)
}

fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Device {
    /// Its address; `None` should the driver ever write one in another form.
    #[must_use]
    pub fn bus_id(&self) -> Option<BusId> {
        self.pci.parse().ok()
    }
}

/// The primary context of one GPU, which NCCL uses too. Shared by the ranks on that GPU.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: a CUDA context may be made current in any thread; the handle itself is a plain pointer value.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks inside.
unsafe impl Sync for Context {}

impl Context {
    /// Creates or joins the primary context of the GPU at `ordinal`. Takes 0.3 s or more the first time.
    pub fn retain(ordinal: u32) -> Result<Self> {
        let (mut device, mut context) = (0, std::ptr::null_mut());
        call!(cuDeviceGet(&raw mut device, ordinal as c_int))?;
        call!(cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        Ok(Self { device, context })
    }

    /// Makes it the calling thread's current context.
    pub fn bind(self) -> Result<()> {
        call!(cuCtxSetCurrent(self.context))
    }

    /// Gives it back.
    pub fn release(self) -> Result<()> {
        call!(cuDevicePrimaryCtxRelease_v2(self.device))
    }

    /// The handle as the driver takes it.
    pub(super) fn raw(self) -> sys::CUcontext {
        self.context
    }
}

/// A non-blocking stream.
#[derive(Clone, Copy, Debug)]
pub struct Stream(sys::CUstream);

impl Stream {
    /// A new stream in the current context.
    pub fn create() -> Result<Self> {
        let mut stream = std::ptr::null_mut();
        call!(cuStreamCreate(&raw mut stream, STREAM_NON_BLOCKING))?;
        Ok(Self(stream))
    }

    /// Waits until all enqueued work is done.
    pub fn synchronize(self) -> Result<()> {
        call!(cuStreamSynchronize(self.0))
    }

    /// Captures what `enqueue` enqueues into a graph; the capture is closed also when `enqueue` fails.
    pub fn capture<E: From<GpuError>>(
        self,
        enqueue: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Graph, E> {
        let mut graph = std::ptr::null_mut();
        call!(cuStreamBeginCapture_v2(self.0, CAPTURE_THREAD_LOCAL))?;
        let enqueued = enqueue();
        let ended = call!(cuStreamEndCapture(self.0, &raw mut graph));
        enqueued?;
        ended?;
        Ok(Graph(graph))
    }

    /// The handle as NCCL takes it.
    pub(super) fn raw(self) -> *mut c_void {
        self.0.cast()
    }

    /// Destroys it.
    pub fn destroy(self) -> Result<()> {
        call!(cuStreamDestroy_v2(self.0))
    }
}

/// An event with timing.
#[derive(Clone, Copy, Debug)]
pub struct Event(sys::CUevent);

impl Event {
    /// A new event in the current context.
    pub fn create() -> Result<Self> {
        let mut event = std::ptr::null_mut();
        call!(cuEventCreate(&raw mut event, EVENT_DEFAULT))?;
        Ok(Self(event))
    }

    /// Marks this point of the stream.
    pub fn record(self, stream: Stream) -> Result<()> {
        call!(cuEventRecord(self.0, stream.0))
    }

    /// Microseconds from `earlier` to this one; both must have completed.
    pub fn micros_since(self, earlier: Event) -> Result<f64> {
        let mut milliseconds = 0.0_f32;
        call!(cuEventElapsedTime(&raw mut milliseconds, earlier.0, self.0))?;
        Ok(f64::from(milliseconds) * 1e3)
    }

    /// Destroys it.
    pub fn destroy(self) -> Result<()> {
        call!(cuEventDestroy_v2(self.0))
    }
}

/// A captured graph.
#[derive(Clone, Copy, Debug)]
pub struct Graph(sys::CUgraph);

impl Graph {
    /// Makes it launchable, frees the template, and uploads it so that the first launch pays nothing for it.
    pub fn instantiate(self, stream: Stream) -> Result<GraphExec> {
        let mut exec = std::ptr::null_mut();
        call!(cuGraphInstantiateWithFlags(&raw mut exec, self.0, 0))?;
        call!(cuGraphUpload(exec, stream.0))?;
        Ok(GraphExec { exec, graph: self })
    }
}

/// A graph that can be launched.
#[derive(Clone, Copy, Debug)]
pub struct GraphExec {
    exec: sys::CUgraphExec,
    graph: Graph,
}

impl GraphExec {
    /// Enqueues one replay.
    pub fn launch(self, stream: Stream) -> Result<()> {
        call!(cuGraphLaunch(self.exec, stream.0))
    }

    /// Destroys it. A communicator's destruction waits for graphs that captured on it, so this comes first.
    pub fn destroy(self) -> Result<()> {
        call!(cuGraphExecDestroy(self.exec))?;
        call!(cuGraphDestroy(self.graph.0))
    }
}

/// A piece of device memory, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct DeviceBuffer {
    pointer: sys::CUdeviceptr,
    bytes: usize,
}

impl DeviceBuffer {
    /// Plain device memory in the current context.
    pub fn alloc(bytes: usize) -> Result<Self> {
        let mut pointer = 0;
        call!(cuMemAlloc_v2(&raw mut pointer, bytes.max(1)))?;
        Ok(Self { pointer, bytes })
    }

    /// Memory of NCCL's allocator, which lives as long as the process.
    pub(super) fn from_nccl(memory: *mut c_void, bytes: usize) -> Self {
        Self { pointer: memory as u64, bytes }
    }

    /// The part of `bytes` at `offset`.
    ///
    /// # Panics
    /// When the part reaches past the buffer's end.
    #[must_use]
    pub fn part(self, offset: usize, bytes: usize) -> Self {
        assert!(offset + bytes <= self.bytes, "part {offset}+{bytes} of a buffer of {} bytes", self.bytes);
        Self { pointer: self.pointer + offset as u64, bytes }
    }

    /// Its length.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// Enqueues a fill with `byte`.
    pub fn fill(self, byte: u8, stream: Stream) -> Result<()> {
        call!(cuMemsetD8Async(self.pointer, byte, self.bytes, stream.0))
    }

    /// Copies `host` in and waits; `host` must not be longer than the buffer.
    pub fn upload(self, host: &[u8], stream: Stream) -> Result<()> {
        assert!(host.len() <= self.bytes);
        call!(cuMemcpyHtoDAsync_v2(self.pointer, host.as_ptr().cast(), host.len(), stream.0))?;
        stream.synchronize()
    }

    /// Copies the buffer's start into `host` and waits; `host` must not be longer than the buffer.
    pub fn download(self, host: &mut [u8], stream: Stream) -> Result<()> {
        assert!(host.len() <= self.bytes);
        call!(cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), self.pointer, host.len(), stream.0))?;
        stream.synchronize()
    }

    /// Enqueues a copy of the whole of `source`, which must not be longer, to this buffer's start.
    pub fn copy_from(self, source: DeviceBuffer, stream: Stream) -> Result<()> {
        assert!(source.bytes <= self.bytes);
        call!(cuMemcpyDtoDAsync_v2(self.pointer, source.pointer, source.bytes, stream.0))
    }

    /// The address as NCCL takes it.
    pub(super) fn raw(self) -> *mut c_void {
        self.pointer as *mut c_void
    }

    /// Frees it. Waits for the device, so no rank may have work enqueued.
    pub fn free(self) -> Result<()> {
        call!(cuMemFree_v2(self.pointer))
    }
}
