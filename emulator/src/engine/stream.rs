//! Streams: queues of work that run as soon as they can, each with its virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, MutexGuard};
use std::thread::ThreadId;

use super::{Batch, Collective, Engine, Side, View, lock};
use crate::abi::HostBuffer;
use crate::clock::Nanos;

/// One piece of work.
#[derive(Clone)]
pub(crate) enum Work {
    Collective(Arc<Collective>),
    Batch(Arc<Batch>),
    /// A kernel that does nothing.
    Empty,
    /// One side of an exchange of flags.
    Side(Side),
    Copy {
        to: u64,
        from: u64,
        len: usize,
    },
    /// Puts given contents somewhere: a copy from the host, or a memset.
    Put {
        to: u64,
        view: View,
    },
    Download {
        to: HostBuffer,
        from: u64,
        len: usize,
    },
    Record {
        event: usize,
        round: u64,
    },
    Wait {
        event: usize,
        round: u64,
    },
}

/// Work of a graph, done several times in a row.
pub(crate) struct Step {
    pub work: Work,
    pub times: u32,
}

/// What the host does at each replay of a graph.
pub(crate) type HostCall = Arc<dyn Fn() + Send + Sync>;

/// A captured graph; clones share the steps.
#[derive(Clone)]
pub(crate) struct Graph {
    pub steps: Arc<[Step]>,
    pub host_calls: Arc<[HostCall]>,
    /// The communicators whose collectives it holds: they cannot be destroyed before it.
    pub groups: Vec<usize>,
}

pub(crate) enum Item {
    Once(Work),
    Graph { steps: Arc<[Step]>, step: usize, left: u32 },
}

/// An entry of a stream's queue.
pub(crate) struct Op {
    pub item: Item,
    /// When the host enqueued it.
    pub at: Nanos,
    /// The thread had waited for the stream just before.
    pub lone: bool,
}

/// A capture in progress.
pub(crate) struct Capture {
    pub steps: Vec<Step>,
    pub host_calls: Vec<HostCall>,
    pub groups: Vec<usize>,
    pub thread: ThreadId,
    pub mode: u32,
    /// A call that is not allowed while capturing has spoilt it.
    pub broken: bool,
}

pub(crate) struct Stream {
    pub device: usize,
    /// Synchronises with the default stream.
    pub blocking: bool,
    pub queue: VecDeque<Op>,
    /// When the last work done ended.
    pub tail: Nanos,
    pub capture: Option<Capture>,
    /// Nothing was enqueued since a thread waited for it.
    pub settled: bool,
    /// Copies to the host that are due; made by who waits, outside the lock.
    downloads: Vec<(HostBuffer, View)>,
    copying: bool,
    changed: Arc<Condvar>,
    /// A CUDA error that work on it ended with.
    pub error: Option<u32>,
}

#[derive(Default)]
pub(crate) struct Event {
    pub timing: bool,
    pub stream: Option<usize>,
    /// How often it was recorded, and which recording has happened.
    pub recorded: u64,
    pub done: u64,
    pub time: Nanos,
    waiters: Vec<usize>,
}

impl Event {
    pub(crate) fn new(timing: bool) -> Event {
        Event { timing, ..Event::default() }
    }
}

/// The head of a stream, ready to be looked at.
struct Head {
    work: Work,
    times: u32,
    at: Nanos,
    graph: bool,
    lone: bool,
}

/// A pause between the graphs of a stream, ns.
const GRAPH_GAP: Nanos = 1000;

impl Stream {
    pub(crate) fn new(device: usize, blocking: bool) -> Stream {
        Stream {
            device,
            blocking,
            queue: VecDeque::new(),
            tail: 0,
            capture: None,
            settled: true,
            downloads: Vec::new(),
            copying: false,
            changed: Arc::new(Condvar::new()),
            error: None,
        }
    }

    pub(crate) fn idle(&self) -> bool {
        self.queue.is_empty() && self.downloads.is_empty() && !self.copying
    }

    fn head(&self) -> Option<Head> {
        let op = self.queue.front()?;
        let at = self.tail.max(op.at);
        Some(match &op.item {
            Item::Once(work) => Head { work: work.clone(), times: 1, at, graph: false, lone: op.lone },
            Item::Graph { steps, step, left } => {
                let first = *step == 0 && *left == steps[0].times;
                let at = at + if first { GRAPH_GAP } else { 0 };
                Head { work: steps[*step].work.clone(), times: *left, at, graph: true, lone: false }
            }
        })
    }

    /// The head, or `times` of it, is done at `end`.
    pub(super) fn consume(&mut self, times: u32, end: Nanos) {
        self.tail = end;
        let done = match &mut self.queue.front_mut().expect("what is consumed is at the head").item {
            Item::Once(_) => true,
            Item::Graph { steps, step, left } => {
                *left -= times;
                if *left == 0 {
                    *step += 1;
                    *left = steps.get(*step).map_or(0, |next| next.times);
                }
                *step == steps.len()
            }
        };
        if done {
            self.queue.pop_front();
        }
        if self.queue.is_empty() {
            self.changed.notify_all();
        }
    }
}

impl Engine {
    /// Enqueues work, or adds it to the capture that is going on.
    pub(crate) fn enqueue(&mut self, stream: usize, work: Work, at: Nanos) {
        let target = &mut self.streams[stream];
        if let Some(capture) = &mut target.capture {
            capture.push(work);
            return;
        }
        let lone = target.settled && target.queue.is_empty();
        target.settled = false;
        target.queue.push_back(Op { item: Item::Once(work), at, lone });
        self.advance(stream);
    }

    /// Adds what the host is to do at each replay of the graph that is being captured.
    pub(crate) fn at_replay(&mut self, stream: usize, call: HostCall) {
        if let Some(capture) = &mut self.streams[stream].capture {
            capture.host_calls.push(call);
        }
    }

    /// Enqueues a graph.
    pub(crate) fn launch(&mut self, stream: usize, steps: &Arc<[Step]>, at: Nanos) {
        let Some(first) = steps.first() else { return };
        let item = Item::Graph { steps: Arc::clone(steps), step: 0, left: first.times };
        let target = &mut self.streams[stream];
        target.settled = false;
        target.queue.push_back(Op { item, at, lone: false });
        self.advance(stream);
    }

    /// Runs what can run, from this stream on.
    pub(crate) fn advance(&mut self, stream: usize) {
        self.ready.push(stream);
        while let Some(next) = self.ready.pop() {
            while let Some(head) = self.streams.get(next).and_then(Stream::head) {
                if !self.step(next, head) {
                    break;
                }
            }
        }
    }

    /// Tries to run the head of a stream; false when it has to wait.
    fn step(&mut self, stream: usize, head: Head) -> bool {
        let Head { work, times, at, graph, lone } = head;
        let end = match work {
            Work::Collective(collective) => {
                return self.arrive(stream, collective, times, at, super::rendezvous::mode(graph, lone));
            }
            Work::Batch(batch) => {
                return self.arrive_batch(stream, batch, at, super::rendezvous::mode(graph, lone));
            }
            Work::Empty => at + EMPTY_KERNEL * u64::from(times),
            Work::Side(side) => return self.arrive_side(stream, side, at),
            Work::Copy { to, from, len } => {
                if let Some(view) = self.memory.read(from, len) {
                    self.memory.write(to, &view);
                }
                at + on_device(len)
            }
            Work::Put { to, view } => {
                self.memory.write(to, &view);
                at + on_device(view.len())
            }
            Work::Download { to, from, len } => {
                if let Some(view) = self.memory.read(from, len) {
                    let view = self.spoil_copy(stream, view);
                    self.streams[stream].downloads.push((to, view));
                }
                at + over_bus(len)
            }
            Work::Record { event, round } => {
                self.record(stream, event, round, at);
                at
            }
            Work::Wait { event, round } => match self.events.get_mut(event) {
                Some(event) if event.done < round => {
                    event.waiters.push(stream);
                    return false;
                }
                Some(event) => at.max(event.time),
                None => at,
            },
        };
        self.streams[stream].consume(times, end);
        true
    }

    fn record(&mut self, stream: usize, event: usize, round: u64, at: Nanos) {
        if let Some(event) = self.events.get_mut(event) {
            event.done = event.done.max(round);
            event.time = at;
            self.ready.append(&mut event.waiters);
        }
        self.streams[stream].changed.notify_all();
    }
}

/// A kernel that does nothing, in a graph or behind others, ns: as measured on an H200.
const EMPTY_KERNEL: Nanos = 500;

/// A copy within device memory, ns.
fn on_device(len: usize) -> Nanos {
    1200 + len as u64 / 1000
}

/// A copy over the bus, ns.
pub(crate) fn over_bus(len: usize) -> Nanos {
    2000 + len as u64 / 25
}

impl Capture {
    fn push(&mut self, work: Work) {
        let group = match &work {
            Work::Collective(collective) => Some(collective.group),
            Work::Batch(batch) => Some(batch.group),
            _ => None,
        };
        self.groups.extend(group.filter(|group| !self.groups.contains(group)));
        match (self.steps.last_mut(), &work) {
            (Some(Step { work: Work::Collective(last), times }), Work::Collective(next)) if last == next => *times += 1,
            (Some(Step { work: Work::Empty, times }), Work::Empty) => *times += 1,
            _ => self.steps.push(Step { work, times: 1 }),
        }
    }
}

/// Waits until a stream is idle and its copies to the host are made; tells when its work ended and with which error.
pub(crate) fn drain(stream: usize) -> (Nanos, Option<u32>) {
    let mut engine = lock();
    loop {
        let Some(state) = engine.streams.get(stream) else { return (0, None) };
        if let Some(error) = state.error {
            return (state.tail, Some(error));
        }
        if engine.give_up(stream) {
            continue;
        }
        let state = &engine.streams[stream];
        if !state.queue.is_empty() || state.copying {
            engine = wait(engine, stream);
        } else if state.downloads.is_empty() {
            let state = &mut engine.streams[stream];
            state.settled = true;
            return (state.tail, None);
        } else {
            engine = copy_downloads(engine, stream);
        }
    }
}

/// Waits until an event has happened; copies to the host before it are made by then.
pub(crate) fn await_event(event: usize) -> (Nanos, Option<u32>) {
    let mut engine = lock();
    loop {
        let Some(state) = engine.events.get(event) else { return (0, None) };
        let (Some(stream), done, time) = (state.stream, state.done >= state.recorded, state.time) else {
            return (0, None);
        };
        let Some(queue) = engine.streams.get(stream) else { return (time, None) };
        if let Some(error) = queue.error {
            return (time, Some(error));
        }
        if !done || queue.copying {
            engine = wait(engine, stream);
        } else if queue.downloads.is_empty() {
            return (time, None);
        } else {
            engine = copy_downloads(engine, stream);
        }
    }
}

fn wait(engine: MutexGuard<'static, Engine>, stream: usize) -> MutexGuard<'static, Engine> {
    let changed = Arc::clone(&engine.streams[stream].changed);
    changed.wait(engine).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Makes the due copies with the lock released: they are most of the bytes that move.
fn copy_downloads(mut engine: MutexGuard<'static, Engine>, stream: usize) -> MutexGuard<'static, Engine> {
    let state = &mut engine.streams[stream];
    let due = std::mem::take(&mut state.downloads);
    state.copying = true;
    drop(engine);
    for (to, view) in &due {
        view.for_each_run(|at, run| to.fill(at, run));
    }
    drop(due);
    let mut engine = lock();
    if let Some(state) = engine.streams.get_mut(stream) {
        state.copying = false;
        state.changed.notify_all();
    }
    engine
}

impl Engine {
    /// A stream failed: whoever waits for it learns at once.
    pub(super) fn fail(&mut self, stream: usize, error: u32) {
        let state = &mut self.streams[stream];
        state.error.get_or_insert(error);
        state.changed.notify_all();
    }
}
