//! Flags that hop between two GPUs: the two kernels of an exchange wait for each other's flag, and give up after so many looks.

use super::{Engine, View};
use crate::clock::Nanos;
use crate::fault::{self, Kind, Moment, Phase};
use crate::topology::Transport;

/// One kernel of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    /// Where the flag is that it waits for, and the one it writes.
    pub poll: u64,
    pub write: u64,
    /// Where it leaves the number of exchanges made.
    pub done: u64,
    pub exchanges: u32,
    /// Looks after which it gives up.
    pub polls: u32,
    /// The flags lie in host memory.
    pub host: bool,
}

/// A kernel whose flag has not come.
pub(super) struct Waiting {
    stream: usize,
    at: Nanos,
    side: Side,
    /// A fault keeps its flag away.
    lost: bool,
}

/// One look at a flag in a GPU's own memory, ns.
const LOOK: Nanos = 300;

impl Engine {
    /// A stream has come to one side of an exchange; it runs once the other side is there.
    pub(super) fn arrive_side(&mut self, stream: usize, side: Side, at: Nanos) -> bool {
        if side.exchanges == 0 {
            self.finish_side(stream, side, 0, at);
            return true;
        }
        self.waiting.retain(|waiting| waiting.stream != stream || waiting.lost);
        if self.waiting.iter().any(|waiting| waiting.stream == stream) {
            return false;
        }
        let crossed = |other: &Waiting| (other.side.poll, other.side.write) == (side.write, side.poll) && !other.lost;
        let Some(partner) = self.waiting.iter().position(crossed) else {
            self.waiting.push(Waiting { stream, at, side, lost: false });
            return false;
        };
        let devices = [self.waiting[partner].stream, stream].map(|stream| self.streams[stream].device);
        match self.strike_flag(devices, stream) {
            Some(slow) => {
                let other = self.waiting.swap_remove(partner);
                let exchanges = side.exchanges.min(other.side.exchanges);
                let hop = self.settings.machine.flag_hop(self.way(devices, side)) * slow;
                let end = at.max(other.at) + (f64::from(2 * exchanges) * hop * 1e3) as Nanos;
                for (stream, side) in [(other.stream, other.side), (stream, side)] {
                    self.finish_side(stream, side, exchanges, end);
                    self.ready.push(stream);
                }
            }
            None => {
                self.waiting[partner].lost = true;
                self.waiting.push(Waiting { stream, at, side, lost: true });
            }
        }
        false
    }

    fn way(&self, [a, b]: [usize; 2], side: Side) -> Transport {
        match () {
            () if side.host => Transport::HostMemory,
            () if a == b => Transport::SameGpu,
            () if self.settings.machine.nvlink => Transport::Nvlink,
            () => Transport::Pcie,
        }
    }

    /// A thread waits for a stream whose kernel waits for a flag that does not come: after so many looks it ends.
    pub(super) fn give_up(&mut self, stream: usize) -> bool {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.stream == stream) else { return false };
        let Waiting { at, side, .. } = self.waiting.swap_remove(at);
        self.finish_side(stream, side, 0, at + u64::from(side.polls) * LOOK);
        self.advance(stream);
        true
    }

    fn finish_side(&mut self, stream: usize, side: Side, made: u32, end: Nanos) {
        self.memory.write(side.done, &View::of(&made.to_ne_bytes()));
        self.streams[stream].consume(1, end);
    }

    /// What is to go wrong with flags between two devices: nothing when they do not arrive, else by how much they are slower.
    fn strike_flag(&mut self, devices: [usize; 2], stream: usize) -> Option<f64> {
        let gpus = devices.into_iter().fold(0, |bits, device| bits | 1 << self.devices[device].gpu);
        let moment = Moment { phase: Phase::Flag, rank: devices[0], bytes: 4, gpus, communicator: 0, nth: 1 };
        let mut slow = 1.0;
        for fault in self.settings.faults.iter().filter(|fault| fault.strikes(&moment, self.settings.seed)) {
            match fault.kind {
                Kind::Hang | Kind::Busy => return None,
                Kind::Slow(factor) => slow *= factor,
                Kind::CudaError => self.fail_with_illegal_address(stream),
                Kind::GpuLost => self.lose_gpu(stream),
                Kind::Wrong | Kind::Nan | Kind::AsyncError | Kind::NcclError | Kind::LogFlood => (),
                ending => fault::end_process(ending),
            }
        }
        Some(slow)
    }
}
