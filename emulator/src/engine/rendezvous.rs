//! Where the ranks of a communicator meet: a collective runs once it is at the head of every rank's stream.

use std::sync::Arc;

use super::{Batch, Dtype, Engine, Operation, View};
use crate::clock::Nanos;
use crate::fault::{self, Kind, Moment, Phase};
use crate::noise::Mode;
use crate::remote::{self, Link};

/// One rank's all-reduce.
#[derive(Debug, PartialEq)]
pub(crate) struct Collective {
    pub group: usize,
    pub rank: usize,
    pub send: u64,
    pub receive: u64,
    pub count: usize,
    pub dtype: Dtype,
    pub operation: Operation,
    /// What it truly takes on the device, µs, without noise.
    pub micros: f64,
    /// Algorithm, protocol and channels.
    pub choice: u64,
}

impl Collective {
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.dtype.size()
    }

    pub(super) fn agrees(&self, other: &Collective) -> bool {
        self.kind() == other.kind()
    }

    pub(super) fn kind(&self) -> remote::Kind {
        let Collective { count, dtype, operation, choice, .. } = *self;
        remote::Kind { count, dtype, operation, choice }
    }
}

/// A rank waiting at its collective.
pub(super) struct Arrival {
    pub stream: usize,
    pub at: Nanos,
    pub collective: Arc<Collective>,
    pub times: u32,
    pub mode: Mode,
}

/// A rank waiting at its sends and receives.
pub(super) struct BatchArrival {
    pub stream: usize,
    pub at: Nanos,
    pub mode: Mode,
    pub batch: Arc<Batch>,
}

/// A communicator: the state its ranks share.
pub(crate) struct Group {
    /// Counted from 0 in the order of the unique ids of the process.
    pub number: u64,
    /// To the ranks of other processes; and which ranks are of this one.
    pub(super) link: Option<Arc<Link>>,
    own: Vec<bool>,
    /// Communicators of this process's ranks that are still there.
    pub(super) left: usize,
    /// The collective that all ranks of this process have come to, and the hub has yet to answer.
    pub(super) told: Option<Moment>,
    /// The GPUs of its ranks, a bit each.
    gpus: u64,
    pub(super) arrivals: Vec<Option<Arrival>>,
    pub(super) batches: Vec<Option<BatchArrival>>,
    /// Collectives run so far; runs of one graph step count once.
    calls: u64,
    eager: u64,
    replays: u64,
    /// Graphs that hold collectives of it.
    pub graphs: usize,
    /// What `ncclCommGetAsyncError` tells.
    pub async_error: u32,
    pub aborted: bool,
    /// A fault keeps it from ever running again.
    pub(super) hung: bool,
}

/// The inputs of a reduction and its result.
pub(super) struct Memo {
    dtype: Dtype,
    operation: Operation,
    inputs: Vec<View>,
    result: View,
}

const MEMOS: usize = 8;
/// Errors as CUDA reports them after a kernel went wrong.
const LAUNCH_FAILED: u32 = 719;
const ILLEGAL_ADDRESS: u32 = 700;
const UNKNOWN: u32 = 999;
const NCCL_UNHANDLED_CUDA_ERROR: u32 = 1;
const NCCL_REMOTE_ERROR: u32 = 6;

impl Group {
    pub(crate) fn new(number: u64, gpus: &[usize], own: Vec<bool>, link: Option<Arc<Link>>) -> Group {
        let ranks = own.len();
        Group {
            number,
            gpus: gpus.iter().fold(0, |all, gpu| all | 1 << gpu),
            link,
            left: own.iter().filter(|own| **own).count(),
            own,
            told: None,
            arrivals: (0..ranks).map(|_| None).collect(),
            batches: (0..ranks).map(|_| None).collect(),
            calls: 0,
            eager: 0,
            replays: 0,
            graphs: 0,
            async_error: 0,
            aborted: false,
            hung: false,
        }
    }
}

pub(super) fn mode(graph: bool, lone: bool) -> Mode {
    match (graph, lone) {
        (true, _) => Mode::Graph,
        (false, true) => Mode::Lone,
        (false, false) => Mode::Stream,
    }
}

impl Engine {
    /// A rank's stream has reached a collective; true when that ran and the stream can go on.
    pub(super) fn arrive(
        &mut self,
        stream: usize,
        collective: Arc<Collective>,
        times: u32,
        at: Nanos,
        mode: Mode,
    ) -> bool {
        let (index, rank) = (collective.group, collective.rank);
        let Some(group) = self.groups.get_mut(index).filter(|group| !group.aborted) else {
            self.streams[stream].consume(times, at);
            return true;
        };
        if group.arrivals[rank].as_ref().is_some_and(|known| known.stream != stream) {
            // Two streams of one rank: NCCL runs its collectives in the order of their launch.
            return false;
        }
        group.arrivals[rank] = Some(Arrival { stream, at, collective, times, mode });
        if group.hung || group.told.is_some() || !group.all_are_there() {
            return false;
        }
        if group.link.is_some() { self.tell_hub(index) } else { self.run_collective(index) }
    }

    fn run_collective(&mut self, index: usize) -> bool {
        let group = &mut self.groups[index];
        let first = group.arrivals[0].as_ref().expect("all arrived");
        let (leader, mode, at_once) = (Arc::clone(&first.collective), first.mode, first.times);
        let all = || group.arrivals.iter().flatten();
        if !all().all(|arrival| arrival.collective.agrees(&leader)) {
            // Ranks that disagree wait for each other for ever, as on hardware.
            return false;
        }
        let times = all().map(|arrival| arrival.times).min().unwrap_or(at_once);
        let start = all().map(|arrival| arrival.at).max().unwrap_or(0);
        let call = group.calls;
        group.calls += 1;
        let moment = group.moment(mode, leader.bytes());
        let Some(slow) = self.strike(index, moment) else { return false };
        let group = &mut self.groups[index];
        let arrivals: Vec<Arrival> = group.arrivals.iter_mut().filter_map(Option::take).collect();
        let number = group.number;
        self.reduce(&arrivals, times, moment);

        let settings = self.settings;
        let noise = settings.noise.communicator(settings.seed, mode, number, leader.bytes())
            * settings.noise.call(settings.seed, mode, number, call);
        let eager = if mode == Mode::Graph { 1.0 } else { 1.0 + settings.machine.host.eager_share };
        let slow = slow * self.slowed_by_others();
        let took = leader.micros * f64::from(times) * noise * eager * slow * 1e3;
        for arrival in &arrivals {
            self.streams[arrival.stream].consume(times, start + took as Nanos);
            self.ready.push(arrival.stream);
        }
        // The streams are looked at again from the list.
        false
    }

    /// Computes (or remembers) the result and puts it where each rank wants it.
    fn reduce(&mut self, arrivals: &[Arrival], times: u32, moment: Moment) {
        let in_place = arrivals.iter().any(|arrival| arrival.collective.send == arrival.collective.receive);
        for _ in 0..if in_place { times } else { 1 } {
            let inputs: Option<Vec<View>> = arrivals
                .iter()
                .map(|arrival| self.memory.read(arrival.collective.send, arrival.collective.bytes()))
                .collect();
            let Some(inputs) = inputs else { return };
            let result = self.remember(arrivals[0].collective.dtype, arrivals[0].collective.operation, inputs);
            for arrival in arrivals {
                self.memory.write(arrival.collective.receive, &result);
            }
        }
        for arrival in arrivals {
            self.spoil_result(arrival, moment);
        }
    }

    fn remember(&mut self, dtype: Dtype, operation: Operation, inputs: Vec<View>) -> View {
        let known = self.memo.iter().find(|memo| {
            memo.dtype == dtype
                && memo.operation == operation
                && memo.inputs.len() == inputs.len()
                && memo.inputs.iter().zip(&inputs).all(|(a, b)| a.same(b))
        });
        if let Some(memo) = known {
            return memo.result.clone();
        }
        let result = View::reduced(dtype, operation, inputs.clone());
        if self.memo.len() == MEMOS {
            self.memo.remove(0);
        }
        self.memo.push(Memo { dtype, operation, inputs, result: result.clone() });
        result
    }
}

impl Group {
    /// Whether all ranks of this process have come.
    fn all_are_there(&self) -> bool {
        self.arrivals.iter().zip(&self.own).all(|(arrival, own)| arrival.is_some() || !own)
    }

    /// Counts a collective and says which moment it is for the faults.
    pub(super) fn moment(&mut self, mode: Mode, bytes: usize) -> Moment {
        let (phase, nth) = if mode == Mode::Graph {
            self.replays += 1;
            (Phase::Replay, self.replays)
        } else {
            self.eager += 1;
            match self.eager {
                1 => (Phase::First, 1),
                later => (Phase::Eager, later - 1),
            }
        };
        Moment { phase, rank: 0, bytes, gpus: self.gpus, communicator: self.number + 1, nth }
    }

    /// The moment of the next eager or captured call, for faults that strike in the call itself.
    pub(crate) fn next_moment(&self, captured: bool, rank: usize, bytes: usize) -> Moment {
        let (phase, nth) = match self.eager {
            _ if captured => (Phase::Capture, 1),
            0 => (Phase::First, 1),
            done => (Phase::Eager, done),
        };
        Moment { phase, rank, bytes, gpus: self.gpus, communicator: self.number + 1, nth }
    }

    /// The moment in which a rank's communicator is destroyed.
    pub(crate) fn last_moment(&self, rank: usize) -> Moment {
        let (gpus, communicator) = (self.gpus, self.number + 1);
        Moment { phase: Phase::Destroy, rank, bytes: 0, gpus, communicator, nth: 1 }
    }
}

/// What a fault does to a collective of all ranks.
impl Engine {
    /// Applies faults that hit a running collective; the factor on its time, or None when it never ends.
    pub(super) fn strike(&mut self, index: usize, moment: Moment) -> Option<f64> {
        let arrivals = self.groups[index].arrivals.iter().enumerate();
        let places = arrivals.filter_map(|(rank, a)| Some((rank, a.as_ref()?.stream))).collect();
        self.strike_at(index, moment, places)
    }

    /// The same for ranks and their streams.
    pub(super) fn strike_at(&mut self, index: usize, moment: Moment, places: Vec<(usize, usize)>) -> Option<f64> {
        let mut slow = 1.0;
        if self.settings.faults.is_empty() {
            return Some(slow);
        }
        for (rank, stream) in places {
            for fault in
                self.settings.faults.iter().filter(|f| f.strikes(&Moment { rank, ..moment }, self.settings.seed))
            {
                match fault.kind {
                    Kind::Hang | Kind::Busy => {
                        crate::nvml::note_hang(fault.kind == Kind::Busy);
                        self.groups[index].hung = true;
                        return None;
                    }
                    Kind::Slow(factor) => slow *= factor,
                    Kind::AsyncError => {
                        self.groups[index].async_error = NCCL_UNHANDLED_CUDA_ERROR;
                        self.fail(stream, LAUNCH_FAILED);
                    }
                    Kind::NcclError => self.groups[index].async_error = NCCL_REMOTE_ERROR,
                    Kind::CudaError => self.fail(stream, ILLEGAL_ADDRESS),
                    Kind::GpuLost => self.lose_gpu(stream),
                    Kind::LogFlood => crate::nccl::flood_log(),
                    Kind::Wrong | Kind::Nan => (),
                    ending => fault::end_process(ending),
                }
            }
        }
        Some(slow)
    }

    pub(super) fn fail_with_illegal_address(&mut self, stream: usize) {
        self.fail(stream, ILLEGAL_ADDRESS);
    }

    pub(super) fn lose_gpu(&mut self, stream: usize) {
        let device = self.streams[stream].device;
        self.devices[device].lost = true;
        let gpu = self.devices[device].gpu;
        let bus = self.settings.machine.pci_bus_id(gpu);
        crate::nvml::lose(gpu);
        eprintln!("NVRM: Xid (PCI:{}): 79, GPU has fallen off the bus.", &bus[..bus.len() - 2]);
        self.fail(stream, UNKNOWN);
    }

    /// Changes one element of a rank's result where a fault says so.
    pub(super) fn spoil_result(&mut self, arrival: &Arrival, moment: Moment) {
        if self.settings.faults.is_empty() {
            return;
        }
        let collective = &arrival.collective;
        let moment = Moment { rank: collective.rank, ..moment };
        self.spoil(collective.receive, collective.count, collective.dtype, moment);
    }

    /// Changes one of the elements that a rank has received where a fault says so.
    pub(super) fn spoil(&mut self, receive: u64, count: usize, dtype: Dtype, moment: Moment) {
        let hit =
            self.settings.faults.iter().find(|fault| {
                matches!(fault.kind, Kind::Wrong | Kind::Nan) && fault.strikes(&moment, self.settings.seed)
            });
        let Some(kind) = hit.map(|fault| fault.kind) else { return };
        let size = dtype.size();
        let at = receive + (count / 2 * size) as u64;
        if kind == Kind::Nan {
            self.memory.write(at, &View::of(dtype.nan()));
        } else if let Some(view) = self.memory.read(at, size) {
            self.memory.write(at, &View::of(&flipped(view.bytes())));
        }
    }

    /// The same for a copy to the host; the rank is the device it comes from.
    pub(super) fn spoil_copy(&mut self, stream: usize, view: View) -> View {
        if self.settings.faults.is_empty() {
            return view;
        }
        self.copies += 1;
        let device = self.streams[stream].device;
        let gpus = 1 << self.devices[device].gpu;
        let (bytes, nth) = (view.len(), self.copies);
        let moment = Moment { phase: Phase::Copy, rank: device, bytes, gpus, communicator: 0, nth };
        for fault in self.settings.faults.iter().filter(|fault| fault.strikes(&moment, self.settings.seed)) {
            match fault.kind {
                Kind::Wrong | Kind::Nan => return View::of(&flipped(view.bytes())),
                Kind::CudaError | Kind::AsyncError => self.fail(stream, LAUNCH_FAILED),
                Kind::GpuLost => self.lose_gpu(stream),
                ending => fault::end_process(ending),
            }
        }
        view
    }
}

/// The bytes with the lowest bit of the last one turned: another value in every type.
fn flipped(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(last) = bytes.last_mut() {
        *last ^= 0x01;
    }
    bytes
}
