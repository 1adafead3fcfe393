//! The layouts of NCCL's public headers `profiler_v1.h` to `profiler_v5.h`. In all of them the collective is the largest
//! member of the descriptor's union, so a descriptor is its head and a collective; in version 5 the call of the API has a
//! descriptor of its own, which is as large.

use std::ffi::{c_char, c_int, c_ulong, c_void};

pub(super) type Start = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int;
pub(super) type Stop = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(super) type InitV1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
pub(super) type Logger = extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char);
pub(super) type InitV4 =
    unsafe extern "C" fn(*mut *mut c_void, *mut c_int, *const c_char, u64, c_int, c_int, c_int, Logger) -> c_int;

pub(super) type InitV5 =
    unsafe extern "C" fn(*mut *mut c_void, u64, *mut c_int, *const c_char, c_int, c_int, c_int, Logger) -> c_int;

/// `ncclProfiler_v*_t`; only `init` differs between the versions.
#[repr(C)]
pub(super) struct Table {
    pub name: *const c_char,
    pub init: *const c_void,
    pub start: Start,
    pub stop: Stop,
    pub record: *const c_void,
    pub finalize: Stop,
}

/// `ncclProfilerEventDescr_v*_t`.
#[repr(C)]
pub(super) struct Descriptor<T> {
    pub kind: u8,
    pub parent: *mut c_void,
    pub rank: c_int,
    pub collective: T,
}

#[repr(C)]
pub(super) struct CollectiveV1 {
    pub name: *const c_char,
    pub hash: u64,
    pub number: u64,
    pub function: u8,
    pub send: *const c_void,
    pub receive: *mut c_void,
    pub count: usize,
    pub root: c_int,
    pub dtype: u8,
    pub operation: u32,
    pub traffic: usize,
    pub max_channels: u8,
    pub warps: u8,
    pub algorithm: u8,
    pub protocol: u8,
    pub collnet: c_int,
    pub nvls: c_int,
}

#[repr(C)]
pub(super) struct CollectiveV2 {
    pub name: *const c_char,
    pub hash: u64,
    pub number: u64,
    pub function: *const c_char,
    pub send: *const c_void,
    pub receive: *mut c_void,
    pub count: usize,
    pub root: c_int,
    pub dtype: *const c_char,
    pub traffic: usize,
    pub max_channels: u8,
    pub warps: u8,
    pub algorithm: *const c_char,
    pub protocol: *const c_char,
}

#[repr(C)]
pub(super) struct CollectiveV3 {
    pub name: *const c_char,
    pub hash: u64,
    pub number: u64,
    pub function: *const c_char,
    pub send: *const c_void,
    pub receive: *mut c_void,
    pub count: usize,
    pub root: c_int,
    pub dtype: *const c_char,
    pub max_channels: u8,
    pub warps: u8,
    pub algorithm: *const c_char,
    pub protocol: *const c_char,
}

#[repr(C)]
pub(super) struct CollectiveV4 {
    pub number: u64,
    pub function: *const c_char,
    pub send: *const c_void,
    pub receive: *mut c_void,
    pub count: usize,
    pub root: c_int,
    pub dtype: *const c_char,
    pub channels: u8,
    pub warps: u8,
    pub algorithm: *const c_char,
    pub protocol: *const c_char,
}

/// `ncclProfilerEventDescr_v5_t`: the type has 64 bits.
#[repr(C)]
pub(super) struct DescriptorV5<T> {
    pub kind: u64,
    pub parent: *mut c_void,
    pub rank: c_int,
    pub body: T,
}

#[repr(C)]
pub(super) struct CollectiveV5 {
    pub collective: CollectiveV4,
    pub parent_group: *mut c_void,
}

/// A call of the API. Padded to the union's size, which the plugin may copy.
#[repr(C)]
pub(super) struct CallV5 {
    pub function: *const c_char,
    pub count: usize,
    pub dtype: *const c_char,
    pub root: c_int,
    pub stream: *mut c_void,
    pub captured: bool,
    pub rest: [usize; 5],
}

/// A group of calls.
#[repr(C)]
pub(super) struct GroupV5 {
    pub captured: bool,
    pub depth: c_int,
    pub rest: [usize; 10],
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Offsets as a C compiler lays out the public headers on a 64-bit machine.
    #[test]
    fn descriptors_have_the_layout_of_the_headers() {
        assert_eq!(offset_of!(Descriptor<CollectiveV4>, collective), 24);
        assert_eq!(size_of::<CollectiveV1>(), 96);
        assert_eq!((offset_of!(CollectiveV1, function), offset_of!(CollectiveV1, max_channels)), (24, 80));
        assert_eq!(size_of::<CollectiveV2>(), 104);
        assert_eq!(offset_of!(CollectiveV3, max_channels), 72);
        assert_eq!(offset_of!(DescriptorV5<CollectiveV5>, body), 24);
        assert_eq!(size_of::<DescriptorV5<CollectiveV5>>(), 112);
        assert_eq!((size_of::<CallV5>(), offset_of!(CallV5, captured)), (88, 40));
        assert_eq!((size_of::<GroupV5>(), offset_of!(GroupV5, depth)), (88, 4));
        assert_eq!(size_of::<CollectiveV4>(), 80);
        assert_eq!((offset_of!(CollectiveV4, channels), offset_of!(CollectiveV4, algorithm)), (56, 64));
    }
}
