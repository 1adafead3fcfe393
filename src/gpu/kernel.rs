//! Our own two kernels: a flag that hops between two places, and nothing at all. They measure what any all-reduce costs at
//! least; `hop.cu` tells what they do, `hop.ptx` is compiled by the driver for the GPU at hand.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;

use super::cuda::{self, Context, DeviceBuffer, Stream};
use super::{GpuError, function_table};

type Result<T> = std::result::Result<T, GpuError>;

function_table! {
    /// What kernels need of the driver beyond what NCCL's callers do.
    Kernels of "the CUDA driver (libcuda)" {
        cuModuleLoadData(*mut sys::CUmodule, *const c_void);
        cuModuleUnload(sys::CUmodule);
        cuModuleGetFunction(*mut sys::CUfunction, sys::CUmodule, *const c_char);
        cuLaunchKernel(
            sys::CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, sys::CUstream, *mut *mut c_void,
            *mut *mut c_void
        );
        cuCtxEnablePeerAccess(sys::CUcontext, c_uint);
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        cuMemHostGetDevicePointer_v2(*mut sys::CUdeviceptr, *mut c_void, c_uint);
        cuMemFreeHost(*mut c_void);
    }
}

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`: for every context, and with an address on every GPU.
const FOR_ALL_GPUS: c_uint = 1 | 2;
/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
const ALREADY_ENABLED: c_int = 704;

/// The text that the driver compiles, with the zero it ends at.
const SOURCE: &str = concat!(include_str!("hop.ptx"), "\0");

fn kernels() -> Result<&'static Kernels> {
    static KERNELS: OnceLock<Result<Kernels>> = OnceLock::new();
    KERNELS.get_or_init(|| Kernels::resolve(cuda::library()?)).as_ref().map_err(Clone::clone)
}

/// As in [`cuda`].
macro_rules! call {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        let kernels = kernels()?;
        // SAFETY: handles come from this module's or `cuda`'s constructors and live until their explicit destruction;
        // out-pointers point to live locals; the arguments of a launch are those that the kernel declares.
        cuda::check(stringify!($name), unsafe { (kernels.$name)($($arg),*) })
    }};
}

/// Lets the current context reach into the memory of `peer`'s GPU.
pub fn reach_into(peer: Context) -> Result<()> {
    match call!(cuCtxEnablePeerAccess(peer.raw(), 0)) {
        Err(GpuError::Cuda { code: ALREADY_ENABLED, .. }) => Ok(()),
        answer => answer,
    }
}

/// The kernels, loaded into one context.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    module: sys::CUmodule,
    hop: sys::CUfunction,
    empty: sys::CUfunction,
}

/// Where a flag is, as a kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag(sys::CUdeviceptr);

/// One side of a flag's way to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// What this side waits for.
    pub poll: Flag,
    /// What the other side waits for.
    pub write: Flag,
    /// Where it leaves the number of exchanges that it made: a word of its own memory.
    pub done: DeviceBuffer,
    /// It writes first.
    pub starts: bool,
}

/// How often a flag goes to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Exchanges {
    /// The value that the flags have now.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Looks after which a side gives up, in all.
    pub polls: u32,
}

impl Module {
    /// Compiles and loads them into the current context.
    pub fn load() -> Result<Self> {
        let (mut module, mut hop, mut empty) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        call!(cuModuleLoadData(&raw mut module, SOURCE.as_ptr().cast()))?;
        call!(cuModuleGetFunction(&raw mut hop, module, c"hop".as_ptr()))?;
        call!(cuModuleGetFunction(&raw mut empty, module, c"empty".as_ptr()))?;
        Ok(Self { module, hop, empty })
    }

    /// Enqueues a kernel that does nothing.
    pub fn enqueue_empty(self, stream: Stream) -> Result<()> {
        launch(self.empty, stream, &mut [])
    }

    /// Enqueues one side of an exchange of flags. It ends by itself, with the other side or without it.
    pub fn enqueue_side(self, side: Side, exchanges: Exchanges, stream: Stream) -> Result<()> {
        let (mut poll, mut write, mut done) = (side.poll.0, side.write.0, side.done.raw() as u64);
        let Exchanges { mut first, mut count, mut polls } = exchanges;
        let mut starts = u32::from(side.starts);
        let mut arguments: [*mut c_void; 7] = [
            (&raw mut poll).cast(),
            (&raw mut write).cast(),
            (&raw mut done).cast(),
            (&raw mut first).cast(),
            (&raw mut count).cast(),
            (&raw mut polls).cast(),
            (&raw mut starts).cast(),
        ];
        launch(self.hop, stream, &mut arguments)
    }

    /// Unloads them.
    pub fn unload(self) -> Result<()> {
        call!(cuModuleUnload(self.module))
    }
}

/// One thread; the driver copies the arguments before it returns.
fn launch(function: sys::CUfunction, stream: Stream, arguments: &mut [*mut c_void]) -> Result<()> {
    let (arguments, extra) = (arguments.as_mut_ptr(), std::ptr::null_mut());
    call!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream.raw().cast(), arguments, extra))
}

impl Flag {
    /// At the start of device memory.
    #[must_use]
    pub fn in_device(buffer: DeviceBuffer) -> Self {
        Self(buffer.raw() as u64)
    }
}

/// Pinned host memory that every GPU maps.
#[derive(Clone, Copy, Debug)]
pub struct HostFlags {
    memory: *mut c_void,
    address: sys::CUdeviceptr,
}

impl HostFlags {
    /// Bytes between two flags: no two share a line of any cache.
    const APART: usize = 256;

    /// Two flags, both zero.
    pub fn alloc() -> Result<Self> {
        let (mut memory, mut address) = (std::ptr::null_mut(), 0);
        call!(cuMemHostAlloc(&raw mut memory, 2 * Self::APART, FOR_ALL_GPUS))?;
        // SAFETY: just allocated with this length, and no GPU knows of it yet.
        unsafe { std::ptr::write_bytes(memory.cast::<u8>(), 0, 2 * Self::APART) };
        call!(cuMemHostGetDevicePointer_v2(&raw mut address, memory, 0))?;
        Ok(Self { memory, address })
    }

    /// The two.
    #[must_use]
    pub fn flags(self) -> [Flag; 2] {
        [Flag(self.address), Flag(self.address + Self::APART as u64)]
    }

    /// Frees them.
    pub fn free(self) -> Result<()> {
        call!(cuMemFreeHost(self.memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_take_what_their_launches_give() {
        let entry = |name: &str| {
            let from = SOURCE.split_once(&format!(".entry {name}(")).expect("an entry").1;
            from.split_once(')').expect("its parameters end").0
        };
        assert_eq!(entry("hop").matches(".param .u64").count(), 3);
        assert_eq!(entry("hop").matches(".param .u32").count(), 4);
        assert_eq!(entry("empty").trim(), "");
    }

    #[test]
    fn a_kernel_that_waits_counts_its_looks() {
        let (_, wait) = SOURCE.split_once("$look:").expect("the loop");
        let (wait, _) = wait.split_once("$come:").expect("its end");
        assert!(wait.contains("sub.u32\t%polls, %polls, 1;"), "{wait}");
        assert!(wait.contains("@%left bra\t$look;") && wait.contains("bra.uni\t$end;"), "{wait}");
        assert_eq!(SOURCE.matches("bra\t$look").count(), 1, "no other way back to the look");
    }
}
