//! A process's end of its connection to the hub.

use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::frame::{Reader, Writer};
use super::{Arrival, Home, SLOTS, hub};
use crate::engine::{self, View};

pub(super) const JOIN: u8 = 1;
pub(super) const READY: u8 = 2;
pub(super) const ARRIVE: u8 = 3;
pub(super) const OUTCOME: u8 = 4;

/// The end.
pub(crate) struct Link {
    stream: UnixStream,
    slots: Mutex<Slots>,
    /// The group of the engine that it belongs to, set before anything arrives.
    pub group: OnceLock<usize>,
}

struct Slots {
    /// Inputs that the hub knows by their slot.
    inputs: Vec<Option<View>>,
    next: usize,
    /// Results of the hub.
    results: Vec<Option<View>>,
}

/// What became of a collective.
pub(crate) struct Outcome {
    pub times: u32,
    /// Virtual time at which it ended.
    pub end: u64,
    /// The latest time of all processes.
    pub box_time: u64,
    pub result: View,
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> Link {
        let empty = || (0..SLOTS).map(|_| None).collect();
        let slots = Slots { inputs: empty(), next: 0, results: empty() };
        Link { stream, slots: Mutex::new(slots), group: OnceLock::new() }
    }

    /// To the process that made the id.
    pub(crate) fn to(process: u64, nonce: u64) -> std::io::Result<Link> {
        UnixStream::connect_addr(&hub::address(process, nonce)?).map(Link::new)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a rank of this process is there.
    pub(crate) fn join(&self, number: u64, ranks: usize, rank: usize, gpu: usize, host: u64) -> std::io::Result<()> {
        let mut join = Writer::new(JOIN);
        join.number(number).number(ranks as u64).number(rank as u64).number(gpu as u64).number(host);
        join.send(&self.stream)
    }

    /// Says that all ranks of this process have come to a collective; of each its number, its input, and whether the result
    /// goes where the input is.
    pub(crate) fn arrive(&self, arrival: &Arrival, inputs: &[(usize, View, bool)]) {
        let Arrival { kind, times, mode, at, box_time, micros, slow } = arrival;
        let mut message = Writer::new(ARRIVE);
        message.number(kind.count as u64).number(kind.dtype as u64).number(kind.operation as u64).number(kind.choice);
        message.number((*times).into()).number(*mode as u64).number(*at).number(*box_time).real(*micros).real(*slow);
        message.number(inputs.len() as u64);
        let mut slots = self.slots();
        for (rank, view, in_place) in inputs {
            message.number(*rank as u64).number(u64::from(*in_place));
            slots.name(view, &mut message);
        }
        // A hub that is gone answers nothing, and the ranks wait.
        let _ = message.send(&self.stream);
    }

    /// Where the ranks are, and which of the processes this is; waits until all have joined.
    pub(crate) fn ready(&self) -> Option<(usize, Vec<(usize, Home)>)> {
        let mut message = Reader::receive(&self.stream).ok()?;
        message.kind().filter(|kind| *kind == READY)?;
        let process = message.number()? as usize;
        let mut homes = Vec::new();
        for _ in 0..message.number()? {
            let gpu = message.number()? as usize;
            homes.push((gpu, Home { process: message.number()? as usize, host: message.number()? }));
        }
        Some((process, homes))
    }

    /// Hears the hub until it is gone.
    pub(crate) fn follow(&self) -> Option<()> {
        loop {
            let outcome = self.outcome()?;
            let group = *self.group.get()?;
            engine::lock().finish(group, &outcome);
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        let mut message = Reader::receive(&self.stream).ok()?;
        message.kind().filter(|kind| *kind == OUTCOME)?;
        let (times, end, box_time) = (message.number()? as u32, message.number()?, message.number()?);
        let (slot, fresh) = (message.number()? as usize, message.number()? != 0);
        let mut slots = self.slots();
        if fresh {
            *slots.results.get_mut(slot)? = Some(View::of(message.bytes()?));
        }
        let result = slots.results.get(slot)?.clone()?;
        Some(Outcome { times, end, box_time, result })
    }

    /// No rank of this process needs it any more.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Slots {
    /// Writes what the hub knows an input by; sends it when it is new.
    fn name(&mut self, view: &View, message: &mut Writer) {
        let place =
            |slots: &[Option<View>]| slots.iter().position(|known| known.as_ref().is_some_and(|k| k.same(view)));
        if let Some(slot) = place(&self.results) {
            message.number(1).number(slot as u64).number(0);
        } else if let Some(slot) = place(&self.inputs) {
            message.number(0).number(slot as u64).number(0);
        } else {
            let slot = self.next;
            self.next = (self.next + 1) % SLOTS;
            message.number(0).number(slot as u64).number(1).bytes(&view.bytes());
            self.inputs[slot] = Some(view.clone());
        }
    }
}
