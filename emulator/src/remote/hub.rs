//! The hub: where the processes of a communicator meet.

use std::collections::HashMap;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use super::frame::{Reader, Writer};
use super::link::{ARRIVE, JOIN, OUTCOME, READY};
use super::{Arrival, Home, Kind, SLOTS};
use crate::engine::{Dtype, Operation, View};
use crate::noise::{self, Mode};
use crate::settings;

/// The socket of the process with this id and number.
pub(super) fn address(process: u64, nonce: u64) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("ncclsweep-emulator-{process}-{nonce:016x}"))
}

/// A number that no other process of the same id has had, made when the process begins to listen.
pub(crate) fn nonce() -> u64 {
    static LISTENING: OnceLock<u64> = OnceLock::new();
    *LISTENING.get_or_init(|| {
        let process = u64::from(std::process::id());
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let nonce = noise::mix(clock.as_nanos() as u64 ^ process << 40);
        // Without a socket the ranks of other processes cannot join, and are told so.
        if let Ok(listener) = address(process, nonce).and_then(|address| UnixListener::bind_addr(&address)) {
            std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        }
        nonce
    })
}

/// Listens to one process from a thread of its own.
fn serve(stream: UnixStream) {
    std::thread::spawn(move || listen(&stream, None));
}

/// Hears a process until it is gone. `place` is where it stands among those of its communicator, once that is known.
fn listen(stream: &UnixStream, mut place: Option<(u64, usize)>) -> Option<()> {
    loop {
        let mut message = Reader::receive(stream).ok()?;
        match message.kind()? {
            JOIN => {
                let number = message.number()?;
                let (ranks, rank) = (message.number()? as usize, message.number()? as usize);
                let (gpu, host) = (message.number()? as usize, message.number()?);
                let process = crate::nccl::join_remote(number, ranks, rank, gpu, host, stream, place.map(|at| at.1))?;
                place = Some((number, process));
            }
            ARRIVE => {
                let (number, process) = place?;
                let hub = lock(&HUBS).get(&number).cloned()?;
                hub.arrive(process, &mut message)?;
            }
            _ => return None,
        }
    }
}

static HUBS: LazyLock<Mutex<HashMap<u64, Arc<Hub>>>> = LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One communicator.
struct Hub {
    number: u64,
    /// The process of each rank.
    homes: Vec<usize>,
    members: Vec<UnixStream>,
    state: Mutex<State>,
}

/// What a process said, with the inputs of its ranks.
type Told = (Arrival, Vec<(usize, Input)>);

#[derive(Default)]
struct State {
    /// Of the processes that have come to the next collective.
    waiting: Vec<Option<Told>>,
    /// Inputs by process and slot.
    inputs: Vec<Vec<Option<View>>>,
    results: Vec<Option<Memo>>,
    next: usize,
    calls: u64,
}

struct Input {
    view: View,
    in_place: bool,
}

struct Memo {
    kind: Kind,
    times: u32,
    inputs: Vec<View>,
    result: View,
}

/// All ranks have joined: tells every process where they are. The hub's own process has the other end of `own`.
pub(crate) fn open(number: u64, homes: &[(usize, Home)], own: UnixStream, others: Vec<UnixStream>) {
    let members: Vec<UnixStream> = own.try_clone().into_iter().chain(others).collect();
    let state = State {
        waiting: members.iter().map(|_| None).collect(),
        inputs: members.iter().map(|_| vec![None; SLOTS]).collect(),
        results: (0..SLOTS).map(|_| None).collect(),
        ..State::default()
    };
    let processes = homes.iter().map(|(_, home)| home.process).collect();
    let hub = Arc::new(Hub { number, homes: processes, members, state: Mutex::new(state) });
    // Before anybody hears that all have joined, and comes to a collective.
    lock(&HUBS).insert(number, Arc::clone(&hub));
    for (process, member) in hub.members.iter().enumerate() {
        let mut ready = Writer::new(READY);
        ready.number(process as u64).number(homes.len() as u64);
        for (gpu, home) in homes {
            ready.number(*gpu as u64).number(home.process as u64).number(home.host);
        }
        // A process that is gone never comes to a collective: the others wait for it.
        let _ = ready.send(member);
    }
    std::thread::spawn(move || listen(&own, Some((number, 0))));
}

impl Hub {
    /// The ranks of a process have come; when all have, the collective is done and all are told.
    fn arrive(&self, process: usize, message: &mut Reader) -> Option<()> {
        let arrival = read_arrival(message)?;
        let mut state = lock(&self.state);
        let mut inputs = Vec::new();
        for _ in 0..message.number()? {
            let (rank, in_place) = (message.number()? as usize, message.number()? != 0);
            let view = state.input(process, message)?;
            inputs.push((rank, Input { view, in_place }));
        }
        state.waiting[process] = Some((arrival, inputs));
        if state.waiting.iter().all(Option::is_some) {
            self.run(&mut state);
        }
        Some(())
    }

    fn run(&self, state: &mut State) {
        let arrivals = || state.waiting.iter().flatten().map(|(arrival, _)| arrival);
        let first = &state.waiting[self.homes[0]].as_ref().expect("all have come").0;
        if !arrivals().all(|arrival| arrival.kind == first.kind) {
            return;
        }
        let (kind, mode, micros) = (first.kind, first.mode, first.micros);
        let times = arrivals().map(|arrival| arrival.times).min().unwrap_or(1);
        let start = arrivals().map(|arrival| arrival.at).max().unwrap_or(0);
        let box_time = arrivals().map(|arrival| arrival.box_time).max().unwrap_or(0);
        let slow: f64 = arrivals().map(|arrival| arrival.slow).product();
        let took = micros * f64::from(times) * slow * self.noise(mode, kind.count * kind.dtype.size(), state.calls);
        state.calls += 1;
        let mut inputs: Vec<(usize, Input)> = Vec::new();
        for process in &mut state.waiting {
            inputs.extend(process.take().into_iter().flat_map(|(_, inputs)| inputs));
        }
        inputs.sort_by_key(|(rank, _)| *rank);
        let (slot, fresh) = state.result(kind, times, inputs.into_iter().map(|(_, input)| input).collect());
        let mut outcome = Writer::new(OUTCOME);
        outcome.number(times.into()).number(start + (took * 1e3) as u64).number(box_time).number(slot as u64);
        let bytes = fresh.map(|view| view.bytes());
        outcome.number(u64::from(bytes.is_some())).bytes(bytes.as_deref().unwrap_or_default());
        for member in &self.members {
            let _ = outcome.send(member);
        }
    }

    /// As for ranks of one process.
    fn noise(&self, mode: Mode, bytes: usize, call: u64) -> f64 {
        let settings = settings::get();
        let eager = if mode == Mode::Graph { 1.0 } else { 1.0 + settings.machine.host.eager_share };
        settings.noise.communicator(settings.seed, mode, self.number, bytes)
            * settings.noise.call(settings.seed, mode, self.number, call)
            * eager
    }
}

fn read_arrival(message: &mut Reader) -> Option<Arrival> {
    let (count, dtype) = (message.number()? as usize, Dtype::from_code(message.number()? as u32, true)?);
    let kind =
        Kind { count, dtype, operation: Operation::from_code(message.number()? as u32)?, choice: message.number()? };
    let times = message.number()? as u32;
    let mode = match message.number()? {
        0 => Mode::Graph,
        1 => Mode::Stream,
        _ => Mode::Lone,
    };
    let (at, box_time) = (message.number()?, message.number()?);
    Some(Arrival { kind, times, mode, at, box_time, micros: message.real()?, slow: message.real()? })
}

impl State {
    /// An input that came with the message, or is known by its slot.
    fn input(&mut self, process: usize, message: &mut Reader) -> Option<View> {
        let (of_results, slot, fresh) = (message.number()? != 0, message.number()? as usize, message.number()? != 0);
        if fresh {
            let view = View::of(message.bytes()?);
            *self.inputs[process].get_mut(slot)? = Some(view);
        }
        match of_results {
            true => self.results.get(slot)?.as_ref().map(|memo| memo.result.clone()),
            false => self.inputs[process].get(slot)?.clone(),
        }
    }

    /// The slot of the result of `times` reductions in a row, and the result when it was not known.
    fn result(&mut self, kind: Kind, times: u32, inputs: Vec<Input>) -> (usize, Option<View>) {
        let times = if inputs.iter().any(|input| input.in_place) { times } else { 1 };
        let known = |memo: &Memo| {
            let same = || memo.inputs.iter().zip(&inputs).all(|(one, other)| one.same(&other.view));
            (memo.kind, memo.times, memo.inputs.len()) == (kind, times, inputs.len()) && same()
        };
        if let Some(slot) = self.results.iter().position(|memo| memo.as_ref().is_some_and(known)) {
            return (slot, None);
        }
        let mut sent: Vec<View> = inputs.iter().map(|input| input.view.clone()).collect();
        let given = sent.clone();
        let mut result = View::default();
        for _ in 0..times {
            result = View::reduced(kind.dtype, kind.operation, sent.clone());
            for (view, _) in sent.iter_mut().zip(&inputs).filter(|(_, input)| input.in_place) {
                *view = result.clone();
            }
        }
        let slot = self.next;
        self.next = (self.next + 1) % SLOTS;
        self.results[slot] = Some(Memo { kind, times, inputs: given, result: result.clone() });
        (slot, Some(result))
    }
}
