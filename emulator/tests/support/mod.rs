//! The C API as a worker sees it, and scenarios run in processes of their own: NCCL's environment is read once a process.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::process::{Command, Output};
use std::ptr::{null, null_mut};
use std::sync::Barrier;

extern crate ncclsweep_emulator as _;

pub type Handle = *mut c_void;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u64; 16]);

unsafe extern "C" {
    pub safe fn cuInit(flags: c_uint) -> u32;
    pub fn cuDeviceGetCount(count: *mut c_int) -> u32;
    pub fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> u32;
    pub fn cuCtxSetCurrent(context: Handle) -> u32;
    pub fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> u32;
    pub fn cuStreamDestroy_v2(stream: Handle) -> u32;
    pub fn cuStreamSynchronize(stream: Handle) -> u32;
    pub fn cuStreamQuery(stream: Handle) -> u32;
    pub fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) -> u32;
    pub fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> u32;
    pub fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: u64) -> u32;
    pub fn cuGraphLaunch(exec: Handle, stream: Handle) -> u32;
    pub fn cuGraphExecDestroy(exec: Handle) -> u32;
    pub fn cuGraphDestroy(graph: Handle) -> u32;
    pub fn cuEventCreate(event: *mut Handle, flags: c_uint) -> u32;
    pub fn cuEventRecord(event: Handle, stream: Handle) -> u32;
    pub fn cuEventSynchronize(event: Handle) -> u32;
    pub fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) -> u32;
    pub fn cuMemAlloc_v2(address: *mut u64, len: usize) -> u32;
    pub fn cuMemFree_v2(address: u64) -> u32;
    pub fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, len: usize) -> u32;
    pub fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, len: usize) -> u32;
    pub fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, len: usize, stream: Handle) -> u32;
    pub fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: Handle) -> u32;
    pub fn cuMemsetD8Async(to: u64, value: u8, len: usize, stream: Handle) -> u32;
    pub fn ncclGetUniqueId(id: *mut UniqueId) -> u32;
    pub fn ncclCommInitRank(comm: *mut Handle, ranks: c_int, id: UniqueId, rank: c_int) -> u32;
    pub fn ncclCommDestroy(comm: Handle) -> u32;
    pub fn ncclCommAbort(comm: Handle) -> u32;
    pub fn ncclCommGetAsyncError(comm: Handle, error: *mut u32) -> u32;
    pub fn ncclAllReduce(
        send: u64,
        receive: u64,
        count: usize,
        dtype: u32,
        operation: u32,
        comm: Handle,
        stream: Handle,
    ) -> u32;
    pub fn ncclSend(buffer: u64, count: usize, dtype: u32, peer: c_int, comm: Handle, stream: Handle) -> u32;
    pub fn ncclRecv(buffer: u64, count: usize, dtype: u32, peer: c_int, comm: Handle, stream: Handle) -> u32;
    pub safe fn ncclGroupStart() -> u32;
    pub safe fn ncclGroupEnd() -> u32;
    pub fn ncclGetLastError(comm: Handle) -> *const c_char;
    fn clock_gettime(id: c_int, time: *mut [i64; 2]) -> c_int;
}

/// `ncclBfloat16`, `ncclSum`.
pub const BF16: u32 = 9;
pub const SUM: u32 = 0;

/// Calls into the C API; an error stops the test with the call's text.
macro_rules! ok {
    ($call:expr) => {{
        // SAFETY: the tests pass valid handles and pointers to locals, as the C API asks.
        let code = unsafe { $call };
        assert_eq!(code, 0, "{}", stringify!($call));
    }};
}

#[allow(unused_imports, reason = "each test program uses its own part")]
pub(crate) use ok;

/// Virtual time, µs.
pub fn virtual_micros() -> f64 {
    let mut time = [0; 2];
    // SAFETY: a place for seconds and nanoseconds, as timespec has them on 64-bit Linux.
    unsafe { clock_gettime(4, &raw mut time) };
    time[0] as f64 * 1e6 + time[1] as f64 * 1e-3
}

/// One rank of a communicator with a stream and two buffers.
pub struct Rank {
    pub rank: usize,
    pub ranks: usize,
    pub comm: Handle,
    pub stream: Handle,
    pub send: u64,
    pub receive: u64,
    pub len: usize,
}

/// The value of each bf16 element a rank sends: rank + 1, so that all sums are exact.
pub fn input(rank: usize, len: usize) -> Vec<u8> {
    let value = (((rank + 1) as f32).to_bits() >> 16) as u16;
    value.to_le_bytes().repeat(len / 2)
}

/// The bf16 sum over all ranks.
pub fn sum(ranks: usize) -> [u8; 2] {
    let value = (ranks * (ranks + 1) / 2) as f32;
    ((value.to_bits() >> 16) as u16).to_le_bytes()
}

impl Rank {
    pub fn new(id: UniqueId, rank: usize, ranks: usize, len: usize) -> Rank {
        bind(rank);
        let (mut stream, mut comm) = (null_mut(), null_mut());
        let (mut send, mut receive) = (0, 0);
        ok!(cuStreamCreate(&raw mut stream, 1));
        ok!(cuMemAlloc_v2(&raw mut send, len));
        ok!(cuMemAlloc_v2(&raw mut receive, len));
        let values = input(rank, len);
        ok!(cuMemcpyHtoD_v2(send, values.as_ptr().cast(), len));
        ok!(ncclCommInitRank(&raw mut comm, ranks as c_int, id, rank as c_int));
        Rank { rank, ranks, comm, stream, send, receive, len }
    }

    pub fn all_reduce(&self) {
        ok!(ncclAllReduce(self.send, self.receive, self.len / 2, BF16, SUM, self.comm, self.stream));
    }

    pub fn wait(&self) {
        ok!(cuStreamSynchronize(self.stream));
    }

    pub fn read(&self, from: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        ok!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), from, self.len));
        bytes
    }

    pub fn result_is_right(&self) -> bool {
        self.read(self.receive) == sum(self.ranks).repeat(self.len / 2)
    }

    /// A graph of `count` all-reduces.
    pub fn graph(&self, count: usize) -> (Handle, Handle) {
        let (mut graph, mut exec) = (null_mut(), null_mut());
        ok!(cuStreamBeginCapture_v2(self.stream, 1));
        (0..count).for_each(|_| self.all_reduce());
        ok!(cuStreamEndCapture(self.stream, &raw mut graph));
        ok!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
        (graph, exec)
    }

    /// µs per all-reduce of one replay, by events.
    pub fn replay(&self, exec: Handle, count: usize) -> f64 {
        self.between_events(count, || ok!(cuGraphLaunch(exec, self.stream)))
    }

    pub fn between_events(&self, count: usize, work: impl FnOnce()) -> f64 {
        let (mut start, mut end) = (null_mut(), null_mut());
        ok!(cuEventCreate(&raw mut start, 0));
        ok!(cuEventCreate(&raw mut end, 0));
        ok!(cuEventRecord(start, self.stream));
        work();
        ok!(cuEventRecord(end, self.stream));
        ok!(cuEventSynchronize(end));
        let mut milliseconds = 0.0;
        ok!(cuEventElapsedTime(&raw mut milliseconds, start, end));
        f64::from(milliseconds) * 1e3 / count as f64
    }

    pub fn destroy_graph(&self, (graph, exec): (Handle, Handle)) {
        ok!(cuGraphExecDestroy(exec));
        ok!(cuGraphDestroy(graph));
    }

    pub fn end(self) {
        ok!(ncclCommDestroy(self.comm));
        ok!(cuMemFree_v2(self.send));
        ok!(cuMemFree_v2(self.receive));
        ok!(cuStreamDestroy_v2(self.stream));
    }
}

/// Makes a device current in this thread; ranks beyond the devices share them.
pub fn bind(rank: usize) {
    assert_eq!(cuInit(0), 0);
    let (mut context, mut count) = (null_mut(), 0);
    ok!(cuDeviceGetCount(&raw mut count));
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, rank as c_int % count));
    ok!(cuCtxSetCurrent(context));
}

pub fn unique_id() -> UniqueId {
    let mut id = UniqueId([0; 16]);
    ok!(ncclGetUniqueId(&raw mut id));
    id
}

pub fn last_error() -> String {
    // SAFETY: the library returns a terminated string that lives until this thread's next call.
    unsafe { std::ffi::CStr::from_ptr(ncclGetLastError(null_mut())) }.to_string_lossy().into_owned()
}

/// Runs `body` in a thread per rank; the results in rank order.
pub fn on_ranks<T: Send>(ranks: usize, body: impl Fn(usize, &Barrier) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(ranks);
    std::thread::scope(|scope| {
        let (body, barrier) = (&body, &barrier);
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || body(rank, barrier))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}

/// A communicator of `ranks` ranks on which `body` runs, a thread per rank.
pub fn with_comm<T: Send>(ranks: usize, len: usize, body: impl Fn(&Rank, &Barrier) -> T + Sync) -> Vec<T> {
    assert_eq!(cuInit(0), 0);
    let id = unique_id();
    on_ranks(ranks, |rank, barrier| {
        let rank = Rank::new(id, rank, ranks, len);
        let result = body(&rank, barrier);
        barrier.wait();
        rank.end();
        result
    })
}

const SCENARIO: &str = "EMULATOR_TEST_SCENARIO";

/// Runs this test program's `scenarios` test in a process of its own, with these variables and no other of NCCL's.
pub fn in_process(scenario: &str, variables: &[(&str, &str)]) -> Output {
    command(scenario, variables).output().expect("the test program starts")
}

/// The same, to be started otherwise.
pub fn command(scenario: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test program has a path"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("NCCL") || name.starts_with("CUDA") {
            command.env_remove(name);
        }
    }
    command.args(["--exact", "scenarios", "--nocapture", "--test-threads=1"]);
    command.env(SCENARIO, scenario).envs(variables.iter().copied());
    command
}

/// The lines a scenario printed with `say`.
pub fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|line| line.split_once("said ").map(|(_, rest)| rest.to_owned())).collect()
}

pub fn say(line: &str) {
    println!("said {line}");
}

/// The scenario this process is to run, if it was started for one.
pub fn scenario() -> Option<String> {
    std::env::var(SCENARIO).ok()
}

pub fn null_handle() -> Handle {
    null::<c_void>().cast_mut()
}
