//! Host time the plugin adds to a collective: `cargo bench -p nccl-profiler-ncclsweep`.
//!
//! Prints nanoseconds for one collective as NCCL announces it (start of group and collective, stop of both) with the mask
//! on, from one thread and from eight at once, and for an event that comes although recording is off; then the same for the
//! audit of processes that are not ours, which counts: one size again and again, four sizes by turns, eight threads.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use nccl_profiler_ncclsweep::abi;
use nccl_profiler_ncclsweep::exports::ncclProfiler_v4;
use nccl_profiler_ncclsweep::{journal, recorder};

/// Fewer than the recorder holds, so that no event is dropped: dropping is cheaper than keeping.
const EVENTS: u32 = 4000;
const ROUNDS: usize = 21;
const THREADS: u32 = 8;

fn main() {
    let context = attach(0);
    recorder::set_mask(false);
    println!("recording off        {:>6.0} ns", median(|| time(context, EVENTS, 1) / EVENTS));
    println!("one thread           {:>6.0} ns", median(|| recorded(|| time(context, EVENTS, 1) / EVENTS)));
    println!("eight threads        {:>6.0} ns", median(|| recorded(|| contended() / (EVENTS / THREADS))));
    let folder = tempfile::tempdir().unwrap();
    // SAFETY: the threads of the measurements above have ended.
    unsafe { std::env::set_var(journal::FOLDER, folder.path()) };
    // The first communicator since: from here on the process is audited.
    let context = attach(0);
    println!("audit, one size      {:>6.0} ns", median(|| time(context, EVENTS, 1) / EVENTS));
    println!("audit, four sizes    {:>6.0} ns", median(|| time(context, EVENTS, 4) / EVENTS));
    println!("audit, eight threads {:>6.0} ns", median(|| contended() / (EVENTS / THREADS)));
    drop(folder);
    // SAFETY: all is printed. The journal's last writing, at exit, would miss its folder.
    unsafe { libc::_exit(0) }
}

/// `body` with recording on and room for its events.
fn recorded(body: impl FnOnce() -> Duration) -> Duration {
    recorder::set_mask(true);
    let time = body();
    recorder::set_mask(false);
    assert_eq!(recorder::take().dropped, 0);
    time
}

/// The slowest of eight threads that announce collectives at the same time.
fn contended() -> Duration {
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|rank| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let context = attach(rank.cast_signed());
                    barrier.wait();
                    let time = time(context, EVENTS / THREADS, 4);
                    // SAFETY: a context of the plugin's, once.
                    unsafe { ncclProfiler_v4.0.finalize.unwrap()(context) };
                    time
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    })
}

fn attach(rank: c_int) -> *mut c_void {
    let mut context = null_mut();
    // SAFETY: the places live during the call; without a mask the plugin writes none.
    unsafe { ncclProfiler_v4.0.init.unwrap()(&mut context, null_mut(), c"".as_ptr(), 1, 1, 8, rank, None) };
    context
}

/// `events` collectives of `sizes` sizes by turns.
fn time(context: *mut c_void, events: u32, sizes: u32) -> Duration {
    // SAFETY: all zeros is a descriptor with NULL strings.
    let (mut group, mut collective): (abi::ncclProfilerEventDescr_v4_t, abi::ncclProfilerEventDescr_v4_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    group.type_ = abi::ncclProfileGroup as u8;
    collective.type_ = abi::ncclProfileColl as u8;
    collective.event.coll = abi::ncclProfilerColl_v4_t {
        seqNumber: 0,
        func: c"AllReduce".as_ptr(),
        sendBuff: null_mut(),
        recvBuff: null_mut(),
        count: 7168,
        root: 0,
        datatype: c"ncclBfloat16".as_ptr(),
        nChannels: 1,
        nWarps: 16,
        algo: c"RING".as_ptr(),
        proto: c"LL".as_ptr(),
    };
    let table = &ncclProfiler_v4.0;
    let (start, stop) = (table.startEvent.unwrap(), table.stopEvent.unwrap());
    let begin = Instant::now();
    for event in 0..events {
        // SAFETY: the union holds a collective, since above.
        unsafe { collective.event.coll.count = 7168 * (1 + (event % sizes) as usize) };
        let mut handles = [null_mut(); 2];
        // SAFETY: the calls NCCL makes.
        unsafe {
            start(context, &mut handles[0], black_box(&mut group));
            start(context, &mut handles[1], black_box(&mut collective));
            stop(black_box(handles[1]));
            stop(black_box(handles[0]));
        }
    }
    begin.elapsed()
}

fn median(mut sample: impl FnMut() -> Duration) -> f64 {
    let mut times: Vec<_> = (0..ROUNDS).map(|_| sample()).collect();
    times.sort();
    times[ROUNDS / 2].as_nanos() as f64
}
