//! Registration of buffers with NCCL: memory of its own kind, and what makes it known to a communicator.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use cudarc::nccl::sys;

use super::communicator::{self, Communicator, check};
use super::cuda::DeviceBuffer;
use super::{GpuError, function_table};
use crate::nccl::register::{Register, Registration};

type Result<T> = std::result::Result<T, GpuError>;

function_table! {
    /// Since 2.19.
    Local of "NCCL (libnccl) before 2.19, which registers no buffers" {
        ncclMemAlloc(*mut *mut c_void, usize);
        ncclCommRegister(sys::ncclComm_t, *mut c_void, usize, *mut *mut c_void);
        ncclCommDeregister(sys::ncclComm_t, *mut c_void);
    }
}

function_table! {
    /// Since 2.27.
    Windows of "NCCL (libnccl) before 2.27, which has no symmetric windows" {
        ncclCommWindowRegister(sys::ncclComm_t, *mut c_void, usize, *mut *mut c_void, c_int);
        ncclCommWindowDeregister(sys::ncclComm_t, *mut c_void);
    }
}

/// `NCCL_WIN_COLL_SYMMETRIC`.
const SYMMETRIC: c_int = 1;

fn local() -> Result<&'static Local> {
    static LOCAL: OnceLock<Result<Local>> = OnceLock::new();
    LOCAL.get_or_init(|| Local::resolve(communicator::library()?)).as_ref().map_err(Clone::clone)
}

fn windows() -> Result<&'static Windows> {
    static WINDOWS: OnceLock<Result<Windows>> = OnceLock::new();
    WINDOWS.get_or_init(|| Windows::resolve(communicator::library()?)).as_ref().map_err(Clone::clone)
}

/// Memory for buffers that are registered so: of NCCL's own allocator, for it maps no other.
pub fn alloc(register: Register, bytes: usize) -> Result<DeviceBuffer> {
    if register.is_none() {
        return DeviceBuffer::alloc(bytes);
    }
    let mut memory = std::ptr::null_mut();
    let local = local()?;
    // SAFETY: the out-pointer points to a live local.
    check("ncclMemAlloc", unsafe { (local.ncclMemAlloc)(&raw mut memory, bytes.max(1)) }, None)?;
    Ok(DeviceBuffer::from_nccl(memory, bytes))
}

/// Buffers that a communicator knows.
#[derive(Debug)]
pub struct Registered {
    communicator: Communicator,
    register: Register,
    handles: Vec<*mut c_void>,
    /// What became of them.
    pub of: Registration,
}

impl Registered {
    /// Registers `buffers`. Windows are a matter of all ranks: each calls it, with as many buffers of the same lengths.
    pub fn new(communicator: Communicator, register: Register, buffers: &[DeviceBuffer]) -> Result<Self> {
        let mut registered = Self { communicator, register, handles: Vec::new(), of: Registration::default() };
        for buffer in buffers.iter().filter(|buffer| register.is_by_call() && buffer.bytes() > 0) {
            // What NCCL has no use for it leaves as it is, without an error.
            let mut handle = std::ptr::null_mut();
            let (comm, memory, bytes) = (communicator.raw(), buffer.raw(), buffer.bytes());
            match register {
                Register::None | Register::Capture => {}
                Register::Local => {
                    let local = local()?;
                    // SAFETY: communicator and memory are live; the out-pointer points to a live local.
                    let code = unsafe { (local.ncclCommRegister)(comm, memory, bytes, &raw mut handle) };
                    check("ncclCommRegister", code, Some(comm))?;
                }
                Register::Symmetric => {
                    let windows = windows()?;
                    // SAFETY: as above; the memory came from NCCL's allocator.
                    let code =
                        unsafe { (windows.ncclCommWindowRegister)(comm, memory, bytes, &raw mut handle, SYMMETRIC) };
                    check("ncclCommWindowRegister", code, Some(comm))?;
                }
            }
            match handle.is_null() {
                true => registered.of.left += 1,
                false => registered.of.taken += 1,
            }
            registered.handles.extend((!handle.is_null()).then_some(handle));
        }
        Ok(registered)
    }

    /// Undoes it, before the communicator ends.
    pub fn undo(self) -> Result<()> {
        let comm = self.communicator.raw();
        for handle in self.handles.into_iter().rev() {
            match self.register {
                Register::None | Register::Capture => {}
                Register::Local => {
                    let local = local()?;
                    // SAFETY: the handle came from this communicator and is not used again.
                    check("ncclCommDeregister", unsafe { (local.ncclCommDeregister)(comm, handle) }, Some(comm))?;
                }
                Register::Symmetric => {
                    let windows = windows()?;
                    // SAFETY: as above.
                    let code = unsafe { (windows.ncclCommWindowDeregister)(comm, handle) };
                    check("ncclCommWindowDeregister", code, Some(comm))?;
                }
            }
        }
        Ok(())
    }
}
