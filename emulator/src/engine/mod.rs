//! The emulated box at work: memory, streams and communicators of the process, behind one lock.
//!
//! Work is enqueued on streams and runs as soon as it can: a local operation when it is at the head of its stream, a
//! collective when it is at the head of the streams of all its ranks. Whoever waits sleeps on a condition variable; a
//! rank that never comes leaves the others waiting for good, as on hardware.

mod batch;
mod data;
mod elsewhere;
mod memory;
mod reduce;
mod rendezvous;
mod side;
mod slab;
mod stream;

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) use batch::{Batch, Part};
pub(crate) use data::View;
pub(crate) use memory::Memory;
pub(crate) use reduce::{Dtype, Operation};
pub(crate) use rendezvous::{Collective, Group};
pub(crate) use side::Side;
pub(crate) use slab::{Kind, Slab};
pub(crate) use stream::{Capture, Event, Graph, Stream, Work, await_event, drain, over_bus};

use crate::settings::{self, Settings};

/// A GPU as the process sees it.
#[derive(Default)]
pub(crate) struct Device {
    /// The GPU of the box.
    pub gpu: usize,
    pub used: u64,
    pub retained: u32,
    /// The stream that handle 0 names, made on first use.
    pub default_stream: Option<usize>,
    /// Devices whose memory its context may reach into.
    pub reaches: BTreeSet<usize>,
    /// Fell off the bus.
    pub lost: bool,
}

/// Everything behind the lock.
pub(crate) struct Engine {
    pub settings: &'static Settings,
    pub devices: Vec<Device>,
    pub memory: Memory,
    pub streams: Slab<Stream>,
    pub events: Slab<Event>,
    pub graphs: Slab<Graph>,
    pub execs: Slab<Graph>,
    pub groups: Slab<Group>,
    /// Inputs and results of the last reductions: replaying one reduces nothing.
    memo: Vec<rendezvous::Memo>,
    /// Copies to the host so far.
    copies: u64,
    /// Kernels that wait for a flag.
    waiting: Vec<side::Waiting>,
    /// Streams whose head may have become ready.
    ready: Vec<usize>,
}

impl Engine {
    fn new() -> Engine {
        let settings = settings::get();
        let visible = visible_gpus(settings, std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref());
        Engine {
            settings,
            devices: visible.into_iter().map(|gpu| Device { gpu, ..Device::default() }).collect(),
            memory: Memory::default(),
            streams: Slab::new(Kind::Stream),
            events: Slab::new(Kind::Event),
            graphs: Slab::new(Kind::Graph),
            execs: Slab::new(Kind::Exec),
            groups: Slab::new(Kind::Communicator),
            memo: Vec::new(),
            copies: 0,
            waiting: Vec::new(),
            ready: Vec::new(),
        }
    }

    /// The stream behind handle 0 of a device.
    pub(crate) fn default_stream(&mut self, device: usize) -> usize {
        if let Some(stream) = self.devices[device].default_stream {
            return stream;
        }
        let stream = self.streams.insert(Stream::new(device, true));
        self.devices[device].default_stream = Some(stream);
        stream
    }
}

/// The engine of this process, locked.
pub(crate) fn lock() -> MutexGuard<'static, Engine> {
    static ENGINE: OnceLock<Mutex<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| Mutex::new(Engine::new())).lock().unwrap_or_else(PoisonError::into_inner)
}

/// What CUDA_VISIBLE_DEVICES leaves: numbers or UUIDs (or their beginnings), up to the first that names no GPU.
fn visible_gpus(settings: &Settings, variable: Option<&str>) -> Vec<usize> {
    let all = 0..settings.machine.slots.len();
    let Some(list) = variable else { return all.collect() };
    let mut visible = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let found = match entry.parse::<usize>() {
            Ok(number) => all.contains(&number).then_some(number),
            Err(_) if entry.starts_with("GPU-") => {
                let mut matches = all.clone().filter(|&gpu| settings.machine.uuid_text(gpu).starts_with(entry));
                matches.next().filter(|_| matches.next().is_none())
            }
            Err(_) => None,
        };
        match found {
            Some(gpu) if !visible.contains(&gpu) => visible.push(gpu),
            // CUDA sees no device at all when one is named twice.
            Some(_) => return Vec::new(),
            None => break,
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_devices_are_numbers_or_uuids_up_to_the_first_bad_one() {
        let settings = settings::get();
        let see = |list: &str| visible_gpus(settings, Some(list));
        assert_eq!(visible_gpus(settings, None).len(), settings.machine.slots.len());
        assert_eq!(see("2,0"), [2, 0]);
        assert_eq!(see("1,99,2"), [1]);
        assert!(see("").is_empty());
        assert!(see("1,1").is_empty());
        assert_eq!(see(&settings.machine.uuid_text(3)), [3]);
        assert_eq!(see(&settings.machine.uuid_text(3)[..12]), [3]);
    }
}
