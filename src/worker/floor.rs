//! The process that looks for the floor: kernels that do nothing, and flags between GPUs. One thread drives all GPUs, for it
//! only has to start both sides of an exchange, and they wait for each other.
//!
//! No kernel waits for long: each gives up after so many looks at its flag, as peer-to-peer access that is broken would let it
//! wait for ever.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use super::timing;
use crate::gpu::GpuError;
use crate::gpu::cuda::{self, Context, DeviceBuffer, Event, Stream};
use crate::gpu::kernel::{Exchanges, Flag, HostFlags, Module, Side, reach_into};
use crate::record::floor::{EmptyKernel, FlagHop, Over};
use crate::stats::median_of;
use crate::wire::{self, FloorEvent, FloorJob, Received};

type Result<T> = std::result::Result<T, GpuError>;

/// Timed exchanges of one pair; the first run is not timed. One takes some ten milliseconds.
const RUNS: usize = 7;
const EXCHANGES: u32 = 2000;
/// Looks after which a side gives up, in all: some two hundred for each exchange, and what the other side needs to start. A look
/// takes a microsecond or two, so this is no more than about a second.
const POLLS: u32 = 500_000;
/// Samples of what an empty kernel costs.
const SAMPLES: usize = 40;
/// Bytes of device memory for a flag or a count: nothing else shares its lines.
const APART: usize = 256;

/// Runs the job on stdin, reporting to the pipe at `fd`; tells whether the supervisor heard all of it.
pub fn run(fd: RawFd) -> bool {
    // SAFETY: the supervisor opened this descriptor for this process alone; nothing else in it knows the number.
    let mut pipe = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let mut send = |event: &FloorEvent| wire::send(&mut pipe, event).is_ok();
    let measured = match receive_job(&mut BufReader::new(std::io::stdin())) {
        Some(job) => measure(&job, &mut |event| send(&event)),
        None => return false,
    };
    match measured {
        Ok(()) => send(&FloorEvent::Done),
        Err(error) => send(&FloorEvent::Failed { error }),
    }
}

fn receive_job(stdin: &mut impl BufRead) -> Option<FloorJob> {
    match wire::receive::<FloorJob>(stdin) {
        Ok(Received::Message(job)) if job.version == wire::VERSION => Some(job),
        // The other end sees this process end without a word.
        Ok(_) | Err(_) => None,
    }
}

fn measure(job: &FloorJob, send: &mut dyn FnMut(FloorEvent) -> bool) -> Result<()> {
    cuda::devices()?;
    let gpus = job.devices.iter().map(|ordinal| Gpu::open(*ordinal)).collect::<Result<Vec<_>>>()?;
    let at = |ordinal: u32| gpus.iter().find(|gpu| gpu.ordinal == ordinal);
    for gpu in &gpus {
        send(FloorEvent::Kernel { kernel: gpu.empty_kernel(job.chain)? });
    }
    for &(ordinals, over) in &job.hops {
        let [Some(a), Some(b)] = ordinals.map(at) else { continue };
        let hop = match hop([a, b], over) {
            Ok(Exchanged::All(runs_us)) => FlagHop { gpus: ordinals, over, runs_us, why: None },
            Ok(Exchanged::Lost { made, of }) => {
                let why = format!("a flag did not arrive within {POLLS} looks, after {made} of {of} exchanges");
                FlagHop { gpus: ordinals, over, runs_us: Vec::new(), why: Some(why) }
            }
            // What the driver refuses of one pair it may allow of the others.
            Err(error) => FlagHop { gpus: ordinals, over, runs_us: Vec::new(), why: Some(error.to_string()) },
        };
        send(FloorEvent::Hop { hop });
    }
    gpus.into_iter().try_for_each(Gpu::close)
}

/// A GPU ready for both sides of an exchange.
struct Gpu {
    ordinal: u32,
    context: Context,
    module: Module,
    /// One for each side: two ranks on one GPU have a stream each.
    streams: [Stream; 2],
    marks: Vec<Event>,
    /// A flag, and a count for each side.
    flags: [DeviceBuffer; 2],
    counts: [DeviceBuffer; 2],
}

impl Gpu {
    fn open(ordinal: u32) -> Result<Self> {
        let context = Context::retain(ordinal)?;
        context.bind()?;
        let streams = [Stream::create()?, Stream::create()?];
        let word = || DeviceBuffer::alloc(APART);
        let (flags, counts) = ([word()?, word()?], [word()?, word()?]);
        let marks = (0..=SAMPLES).map(|_| Event::create()).collect::<Result<_>>()?;
        let module = Module::load()?;
        // A kernel that is loaded at its first launch waits for those that run: an exchange would wait for itself.
        let (poll, write) = (Flag::in_device(flags[0]), Flag::in_device(flags[1]));
        let side = Side { poll, write, done: counts[0], starts: true };
        module.enqueue_side(side, Exchanges { first: 0, count: 0, polls: POLLS }, streams[0])?;
        streams[0].synchronize()?;
        Ok(Self { ordinal, context, module, streams, marks, flags, counts })
    }

    fn close(self) -> Result<()> {
        self.context.bind()?;
        self.marks.into_iter().try_for_each(Event::destroy)?;
        self.flags.into_iter().chain(self.counts).try_for_each(DeviceBuffer::free)?;
        self.module.unload()?;
        self.streams.into_iter().try_for_each(Stream::destroy)?;
        self.context.release()
    }

    /// What a kernel costs that does nothing, in the three ways in which calls are timed.
    fn empty_kernel(&self, chain: u32) -> Result<EmptyKernel> {
        self.context.bind()?;
        let (stream, module, marks) = (self.streams[0], self.module, self.marks.as_slice());
        let enqueue_all = || (0..chain).try_for_each(|_| module.enqueue_empty(stream));
        enqueue_all()?;
        stream.synchronize()?;
        let graph = stream.capture(enqueue_all)?.instantiate(stream)?;
        timing::replays(graph, stream, marks)?;
        let graph_us = median_of(timing::between(marks, chain)?);
        graph.destroy()?;
        timing::batches_of(enqueue_all, stream, marks)?;
        let stream_us = median_of(timing::between(marks, chain)?);
        let mut lone = [0.0; SAMPLES];
        timing::lone(|| module.enqueue_empty(stream).and_then(|()| stream.synchronize()), &mut lone)?;
        Ok(EmptyKernel { gpu: self.ordinal, graph_us, stream_us, sync_us: median_of(lone) })
    }
}

/// How an exchange of flags went.
enum Exchanged {
    /// µs one way, of each timed run.
    All(Vec<f64>),
    /// One side gave up.
    Lost { made: u32, of: u32 },
}

/// A flag to and fro between two GPUs, or two streams of one.
fn hop([a, b]: [&Gpu; 2], over: Over) -> Result<Exchanged> {
    let host = match over {
        Over::HostMemory => {
            a.context.bind()?;
            Some(HostFlags::alloc()?)
        }
        Over::PeerMemory => None,
    };
    let own = b.ordinal == a.ordinal;
    // As NCCL's LL has it, each side waits at its own memory and writes into the other's.
    let [of_a, of_b] = match host {
        Some(host) => host.flags(),
        None => [Flag::in_device(a.flags[0]), Flag::in_device(b.flags[usize::from(own)])],
    };
    for (gpu, flag) in [(a, a.flags[0]), (b, b.flags[usize::from(own)])] {
        gpu.context.bind()?;
        flag.fill(0, gpu.streams[0])?;
        gpu.streams[0].synchronize()?;
    }
    if over == Over::PeerMemory && !own {
        a.context.bind()?;
        reach_into(b.context)?;
        b.context.bind()?;
        reach_into(a.context)?;
    }
    let starts = Side { poll: of_a, write: of_b, done: a.counts[0], starts: true };
    let answers = Side { poll: of_b, write: of_a, done: b.counts[1], starts: false };
    let exchanged = runs([(a, starts), (b, answers)]);
    host.map_or(Ok(()), HostFlags::free)?;
    exchanged
}

fn runs([(a, starts), (b, answers)]: [(&Gpu, Side); 2]) -> Result<Exchanged> {
    let [from, to] = [a.marks[0], a.marks[1]];
    let mut micros = Vec::with_capacity(RUNS);
    for run in 0..=RUNS as u32 {
        let exchanges = Exchanges { first: run * EXCHANGES, count: EXCHANGES, polls: POLLS };
        // The one that answers runs first, so that the other's time is that of the exchanges.
        b.context.bind()?;
        b.module.enqueue_side(answers, exchanges, b.streams[1])?;
        a.context.bind()?;
        from.record(a.streams[0])?;
        a.module.enqueue_side(starts, exchanges, a.streams[0])?;
        to.record(a.streams[0])?;
        a.streams[0].synchronize()?;
        let made = count(a, starts, a.streams[0])?;
        b.context.bind()?;
        b.streams[1].synchronize()?;
        if made.min(count(b, answers, b.streams[1])?) < EXCHANGES {
            return Ok(Exchanged::Lost { made: run * EXCHANGES + made, of: (RUNS as u32 + 1) * EXCHANGES });
        }
        if run > 0 {
            a.context.bind()?;
            micros.push(to.micros_since(from)? / f64::from(2 * EXCHANGES));
        }
    }
    Ok(Exchanged::All(micros))
}

/// How many exchanges a side made.
fn count(gpu: &Gpu, side: Side, stream: Stream) -> Result<u32> {
    gpu.context.bind()?;
    let mut made = [0; 4];
    side.done.download(&mut made, stream)?;
    Ok(u32::from_ne_bytes(made))
}
