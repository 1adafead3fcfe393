//! A profiler plugin inside the executable, through each of its APIs.

mod support;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use support::*;

/// What was told, one word per event.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
static MASK: AtomicPtr<c_int> = AtomicPtr::new(null_mut());

fn tell(line: String) {
    TOLD.lock().expect("no panic while telling").push(line);
}

type Context = *mut *mut c_void;

unsafe extern "C" fn init(context: Context, mask: *mut c_int) -> c_int {
    // SAFETY: NCCL passes valid places.
    unsafe {
        *context = 16 as *mut c_void;
        *mask = 3;
    }
    MASK.store(mask, Ordering::Release);
    tell("init".to_owned());
    0
}

unsafe extern "C" fn init_v4(
    context: Context,
    mask: *mut c_int,
    _name: *const c_char,
    _hash: u64,
    nodes: c_int,
    ranks: c_int,
    rank: c_int,
    _log: *const c_void,
) -> c_int {
    tell(format!("nodes {nodes} ranks {ranks} rank {rank}"));
    // SAFETY: as for `init`.
    unsafe { init(context, mask) }
}

/// Reads the descriptor's head and, for collectives, what lies at the offsets of this API.
unsafe fn start<const API: usize>(context: *mut c_void, handle: Context, descriptor: *mut c_void) -> c_int {
    assert_eq!(context as usize, 16);
    let at = |offset: usize| descriptor.wrapping_byte_add(offset);
    // SAFETY: NCCL passes a descriptor of this API; the offsets are those of its public header.
    unsafe {
        let kind = at(0).cast::<u8>().read();
        let text = |offset: usize| {
            CStr::from_ptr(at(24 + offset).cast::<*const c_char>().read()).to_string_lossy().into_owned()
        };
        let byte = |offset: usize| at(24 + offset).cast::<u8>().read();
        if kind == 1 {
            *handle = 32 as *mut c_void;
            tell("group".to_owned());
            return 0;
        }
        let parent = at(8).cast::<usize>().read();
        let rank = at(16).cast::<c_int>().read();
        *handle = 48 as *mut c_void;
        let what = match API {
            1 => format!(
                "count {} algo {} proto {} channels {} warps {}",
                at(24 + 48).cast::<usize>().read(),
                byte(82),
                byte(83),
                byte(80),
                byte(81)
            ),
            2 => {
                format!("{} {} {} {} channels {} warps {}", text(24), text(64), text(88), text(96), byte(80), byte(81))
            }
            3 => {
                format!("{} {} {} {} channels {} warps {}", text(24), text(64), text(80), text(88), byte(72), byte(73))
            }
            _ => format!("{} {} {} {} channels {} warps {}", text(8), text(48), text(64), text(72), byte(56), byte(57)),
        };
        tell(format!("kind {kind} parent {parent} rank {rank} {what}"));
    }
    0
}

unsafe extern "C" fn start_v1(context: *mut c_void, handle: Context, descriptor: *mut c_void) -> c_int {
    // SAFETY: called as the API says.
    unsafe { start::<1>(context, handle, descriptor) }
}
unsafe extern "C" fn start_v2(context: *mut c_void, handle: Context, descriptor: *mut c_void) -> c_int {
    // SAFETY: called as the API says.
    unsafe { start::<2>(context, handle, descriptor) }
}
unsafe extern "C" fn start_v3(context: *mut c_void, handle: Context, descriptor: *mut c_void) -> c_int {
    // SAFETY: called as the API says.
    unsafe { start::<3>(context, handle, descriptor) }
}
unsafe extern "C" fn start_v4(context: *mut c_void, handle: Context, descriptor: *mut c_void) -> c_int {
    // SAFETY: called as the API says.
    unsafe { start::<4>(context, handle, descriptor) }
}

unsafe extern "C" fn stop(handle: *mut c_void) -> c_int {
    tell(format!("stop {}", handle as usize));
    0
}

unsafe extern "C" fn record(_handle: *mut c_void, _state: c_int, _arguments: *mut c_void) -> c_int {
    0
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    tell(format!("finalize {}", context as usize));
    0
}

/// `ncclProfiler_v*_t`.
#[repr(C)]
struct Table {
    name: *const c_char,
    init: *const c_void,
    start: unsafe extern "C" fn(*mut c_void, Context, *mut c_void) -> c_int,
    stop: unsafe extern "C" fn(*mut c_void) -> c_int,
    record: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: the table never changes.
unsafe impl Sync for Table {}

macro_rules! table {
    ($($symbol:ident $init:ident $start:ident),*) => {$(
        #[unsafe(no_mangle)]
        #[used]
        #[allow(non_upper_case_globals, reason = "the name NCCL looks for")]
        static $symbol: Table =
            Table { name: c"test".as_ptr(), init: $init as *const c_void, start: $start, stop, record, finalize };
    )*};
}
table!(
    ncclProfiler_v1 init start_v1,
    ncclProfiler_v2 init start_v2,
    ncclProfiler_v3 init start_v3,
    ncclProfiler_v4 init_v4 start_v4
);

/// Changes what the plugin wants, if it was loaded.
fn set_mask(wanted: c_int) {
    let mask = MASK.load(Ordering::Acquire);
    if !mask.is_null() {
        // SAFETY: the mask lives as long as NCCL.
        unsafe { mask.write(wanted) };
    }
}

/// Two ranks: an eager call, one with the mask at 0, and a capture that is replayed; prints what rank 1 was told.
fn told() {
    with_comm(2, 28672, |rank, barrier| {
        rank.all_reduce();
        rank.wait();
        barrier.wait();
        if rank.rank == 0 {
            set_mask(0);
        }
        barrier.wait();
        rank.all_reduce();
        rank.wait();
        barrier.wait();
        if rank.rank == 0 {
            set_mask(2);
        }
        barrier.wait();
        let graph = rank.graph(1);
        barrier.wait();
        ok!(cuGraphLaunch(graph.1, rank.stream));
        rank.wait();
        rank.destroy_graph(graph);
    });
    let mut told = TOLD.lock().expect("no panic while telling").clone();
    told.sort();
    told.iter().for_each(|line| say(line));
}

#[test]
fn scenarios() {
    if scenario().as_deref() == Some("told") {
        told();
    }
}

fn told_by(version: &str) -> Vec<String> {
    let variables = [
        ("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"),
        ("NCCLSWEEP_EMULATE_NCCL", version),
        ("NCCLSWEEP_EMULATE_TOPOLOGY", "2xh200-nvlink"),
        ("NCCL_P2P_DISABLE", "1"),
    ];
    said(&in_process("told", &variables))
}

fn count(told: &[String], line: &str) -> usize {
    told.iter().filter(|told| *told == line).count()
}

#[test]
fn each_version_of_nccl_speaks_its_newest_api() {
    let expected = [
        // One eager call and one capture, of which nothing is told up to 2.26.
        ("2.23.4", 1, "count 14336 algo 1 proto 0 channels 3 warps 16"),
        ("2.25.1", 1, "AllReduce ncclBfloat16 RING LL channels 3 warps 16"),
        ("2.26.2", 1, "AllReduce ncclBfloat16 RING LL channels 3 warps 16"),
        ("2.27.7", 2, "AllReduce ncclBfloat16 RING LL channels 3 warps 16"),
        ("2.28.3", 2, "AllReduce ncclBfloat16 RING LL channels 3 warps 16"),
    ];
    for (version, calls, what) in expected {
        let told = told_by(version);
        for rank in 0..2 {
            // Nothing while the mask was 0, nothing at the replay.
            assert_eq!(count(&told, &format!("kind 2 parent 32 rank {rank} {what}")), calls, "{version}: {told:#?}");
        }
        assert_eq!(count(&told, "group"), 2 * calls, "{version}");
        assert_eq!((count(&told, "stop 32"), count(&told, "stop 48")), (2 * calls, 2 * calls), "{version}");
        assert_eq!((count(&told, "init"), count(&told, "finalize 16")), (2, 2), "{version}");
    }
    assert_eq!(count(&told_by("2.28.3"), "nodes 1 ranks 2 rank 1"), 1);
}

#[test]
fn there_is_no_profiler_before_2_23_and_none_when_it_is_switched_off() {
    assert!(told_by("2.21.5").is_empty());
    assert!(told_by("2.27.3").is_empty(), "it looks for a file of that name");
    assert!(said(&in_process("told", &[("NCCL_PROFILER_PLUGIN", "none")])).is_empty());
    assert!(said(&in_process("told", &[("NCCL_PROFILER_PLUGIN", "/nowhere/plugin.so")])).is_empty());
}
