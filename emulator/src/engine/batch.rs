//! Sends and receives: those of one group call start together and end together.

use std::sync::Arc;

use super::rendezvous::BatchArrival;
use super::{Dtype, Engine, View};
use crate::clock::Nanos;
use crate::fault::Moment;
use crate::noise::Mode;

/// One send or receive.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub sends: bool,
    pub peer: usize,
    pub address: u64,
    pub bytes: usize,
    pub dtype: Dtype,
}

/// What one rank sends and receives in one call.
#[derive(Debug)]
pub(crate) struct Batch {
    pub group: usize,
    pub rank: usize,
    pub parts: Vec<Part>,
    /// What the slowest of them takes, µs.
    pub micros: f64,
}

impl Engine {
    /// A rank's stream has reached its sends and receives; they run once all their partners are there too.
    pub(super) fn arrive_batch(&mut self, stream: usize, batch: Arc<Batch>, at: Nanos, mode: Mode) -> bool {
        let (index, rank) = (batch.group, batch.rank);
        let Some(group) = self.groups.get_mut(index).filter(|group| !group.aborted) else {
            self.streams[stream].consume(1, at);
            return true;
        };
        group.batches[rank] = Some(BatchArrival { stream, at, mode, batch });
        if group.hung {
            return false;
        }
        if let Some(members) = partners(&group.batches, rank) {
            self.run_batches(index, &members);
        }
        // When they ran, the streams are looked at again from the list.
        false
    }

    fn run_batches(&mut self, index: usize, members: &[usize]) {
        let group = &mut self.groups[index];
        let first = group.batches[members[0]].as_ref();
        let largest = first.into_iter().flat_map(|arrival| &arrival.batch.parts).map(|part| part.bytes).max();
        let mode = first.map_or(Mode::Stream, |arrival| arrival.mode);
        let moment = group.moment(mode, largest.unwrap_or(0));
        let streams = members.iter().filter_map(|&rank| Some((rank, group.batches[rank].as_ref()?.stream))).collect();
        let Some(slow) = self.strike_at(index, moment, streams) else { return };
        let group = &mut self.groups[index];
        let arrivals: Vec<BatchArrival> = members.iter().filter_map(|&rank| group.batches[rank].take()).collect();
        let (number, settings) = (group.number, self.settings);
        let noise = settings.noise.communicator(settings.seed, mode, number, moment.bytes);
        let start = arrivals.iter().map(|arrival| arrival.at).max().unwrap_or(0);
        let took = arrivals.iter().map(|arrival| arrival.batch.micros).fold(0.0, f64::max);
        for (to, view) in self.deliveries(&arrivals) {
            self.memory.write(to, &view);
        }
        for arrival in &arrivals {
            self.spoil_received(arrival, moment);
            self.streams[arrival.stream].consume(1, start + (took * noise * slow * 1e3) as Nanos);
            self.ready.push(arrival.stream);
        }
    }

    fn spoil_received(&mut self, arrival: &BatchArrival, moment: Moment) {
        for part in arrival.batch.parts.iter().filter(|part| !part.sends) {
            let moment = Moment { rank: arrival.batch.rank, ..moment };
            self.spoil(part.address, part.bytes / part.dtype.size(), part.dtype, moment);
        }
    }

    /// Where each receive gets what from; all read before anything is written.
    fn deliveries(&self, arrivals: &[BatchArrival]) -> Vec<(u64, View)> {
        let mut deliveries = Vec::new();
        for arrival in arrivals {
            for other in arrivals {
                let sends = parts(&arrival.batch, true, other.batch.rank);
                let receives = parts(&other.batch, false, arrival.batch.rank);
                for (send, receive) in sends.zip(receives) {
                    deliveries.extend(self.memory.read(send.address, send.bytes).map(|view| (receive.address, view)));
                }
            }
        }
        deliveries
    }
}

fn parts(batch: &Batch, sends: bool, peer: usize) -> impl Iterator<Item = &Part> {
    batch.parts.iter().filter(move |part| part.sends == sends && part.peer == peer)
}

/// The ranks that are tied to this one by sends and receives, once all of them have arrived with matching sizes.
fn partners(batches: &[Option<BatchArrival>], rank: usize) -> Option<Vec<usize>> {
    let mut members = vec![rank];
    let mut next = 0;
    while let Some(&member) = members.get(next) {
        next += 1;
        let batch = &batches[member].as_ref()?.batch;
        for part in &batch.parts {
            let peer = &batches.get(part.peer)?.as_ref()?.batch;
            let sizes = |batch, sends, of| parts(batch, sends, of).map(|part| part.bytes).collect::<Vec<_>>();
            if sizes(batch, part.sends, part.peer) != sizes(peer, !part.sends, member) {
                return None;
            }
            if !members.contains(&part.peer) {
                members.push(part.peer);
            }
        }
    }
    Some(members)
}
