//! The timed regions. Nothing here allocates, formats, locks or decides: what is between two marks is NCCL.

use nix::time::{ClockId, clock_gettime};

use super::barrier::Barrier;
use crate::collective::{Dtype, Function, Op};
use crate::gpu::GpuError;
use crate::gpu::communicator::Communicator;
use crate::gpu::cuda::{DeviceBuffer, Event, GraphExec, Stream};

/// One rank's part of an all-reduce or exchange, ready to be enqueued.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) function: Function,
    /// The rank to send to, and the one to receive from.
    pub(super) neighbours: (u32, u32),
    pub(super) communicator: Communicator,
    pub(super) send: DeviceBuffer,
    pub(super) recv: DeviceBuffer,
    pub(super) count: usize,
    pub(super) dtype: Dtype,
    pub(super) op: Op,
    pub(super) stream: Stream,
}

impl Call {
    #[inline]
    pub(super) fn enqueue(&self) -> Result<(), GpuError> {
        let Self { communicator, send, recv, count, dtype, stream, .. } = *self;
        match self.function {
            Function::AllReduce => communicator.all_reduce(send, recv, count, dtype, self.op, stream),
            Function::SendRecv => communicator.send_recv(send, recv, count, dtype, self.neighbours, stream),
        }
    }
}

/// The same all-reduce on each of the communicators that take turns: the first call goes to the first of them.
#[derive(Clone, Copy)]
pub(super) struct InTurn<'a>(pub(super) &'a [Call]);

impl InTurn<'_> {
    pub(super) fn enqueue_times(self, times: u32) -> Result<(), GpuError> {
        self.0.iter().cycle().take(times as usize).try_for_each(Call::enqueue)
    }

    /// Where the last of `times` calls leaves its output.
    pub(super) fn last_of(self, times: usize) -> DeviceBuffer {
        self.0[(times - 1) % self.0.len()].recv
    }
}

/// Mode `graph`: a replay between every two marks. The replay before the first mark aligns the ranks, so that no launch
/// skew is inside.
pub(super) fn replays(graph: GraphExec, stream: Stream, marks: &[Event]) -> Result<(), GpuError> {
    for mark in marks {
        graph.launch(stream)?;
        mark.record(stream)?;
    }
    stream.synchronize()
}

/// Mode `stream`: `launches` back to back between every two marks. The batch before the first mark aligns the ranks.
pub(super) fn batches(calls: InTurn, stream: Stream, launches: u32, marks: &[Event]) -> Result<(), GpuError> {
    batches_of(|| calls.enqueue_times(launches), stream, marks)
}

/// The same of anything that can be enqueued.
#[inline]
pub(super) fn batches_of(
    enqueue: impl Fn() -> Result<(), GpuError>,
    stream: Stream,
    marks: &[Event],
) -> Result<(), GpuError> {
    for mark in marks {
        enqueue()?;
        mark.record(stream)?;
    }
    stream.synchronize()
}

/// Mode `sync`: lone calls, each from a common barrier to this rank's completion, in µs of the host's raw clock.
pub(super) fn lone_calls(calls: InTurn, barrier: &Barrier, rank: u32, micros: &mut [f64]) -> Result<(), GpuError> {
    for (slot, call) in micros.iter_mut().zip(calls.0.iter().cycle()) {
        barrier.wait(rank);
        let start = raw_clock_us();
        call.enqueue()?;
        call.stream.synchronize()?;
        *slot = raw_clock_us() - start;
    }
    Ok(())
}

/// Lone calls of one rank that waits for nobody, in µs of the host's raw clock.
pub(super) fn lone(call: impl Fn() -> Result<(), GpuError>, micros: &mut [f64]) -> Result<(), GpuError> {
    for slot in micros {
        let start = raw_clock_us();
        call()?;
        *slot = raw_clock_us() - start;
    }
    Ok(())
}

/// Microseconds of one call between every two marks.
pub(super) fn between(marks: &[Event], calls: u32) -> Result<Vec<f64>, GpuError> {
    marks.windows(2).map(|pair| Ok(pair[1].micros_since(pair[0])? / f64::from(calls))).collect()
}

/// Microseconds of `CLOCK_MONOTONIC_RAW`, which no time daemon slews.
fn raw_clock_us() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC_RAW).expect("Linux has CLOCK_MONOTONIC_RAW");
    now.tv_sec() as f64 * 1e6 + now.tv_nsec() as f64 * 1e-3
}
