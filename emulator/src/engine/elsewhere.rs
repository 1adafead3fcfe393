//! Collectives whose ranks are in several processes: told to the hub, and done when it answers.

use std::sync::Arc;

use super::Engine;
use super::rendezvous::{Arrival, Collective};
use crate::clock;
use crate::remote::{self, Outcome};

/// How many communicators there are, for factors on the true time: no variable of NCCL has this name.
const ALIVE: &str = "ALIVE";

impl Engine {
    /// All ranks of this process have come to a collective of several processes.
    pub(super) fn tell_hub(&mut self, index: usize) -> bool {
        let group = &mut self.groups[index];
        let all = || group.arrivals.iter().flatten();
        let Some(first) = all().next() else { return false };
        let (leader, mode) = (Arc::clone(&first.collective), first.mode);
        if !all().all(|arrival| arrival.collective.agrees(&leader)) {
            return false;
        }
        let times = all().map(|arrival| arrival.times).min().unwrap_or(1);
        let at = all().map(|arrival| arrival.at).max().unwrap_or(0);
        let moment = group.moment(mode, leader.bytes());
        group.told = Some(moment);
        let Some(slow) = self.strike(index, moment) else { return false };
        let slow = slow * self.slowed_by_others();
        let (kind, micros, box_time) = (leader.kind(), leader.micros, clock::of_box());
        let group = &self.groups[index];
        let input = |arrival: &Arrival| {
            let Collective { rank, send, receive, .. } = *arrival.collective;
            self.memory.read(send, arrival.collective.bytes()).map(|view| (rank, view, send == receive))
        };
        let inputs: Vec<_> = group.arrivals.iter().flatten().filter_map(input).collect();
        if let Some(link) = &group.link {
            link.arrive(&remote::Arrival { kind, times, mode, at, box_time, micros, slow }, &inputs);
        }
        false
    }

    /// The hub's answer: the collective of this process's ranks is done.
    pub(crate) fn finish(&mut self, index: usize, outcome: &Outcome) {
        let Some(group) = self.groups.get_mut(index).filter(|group| !group.aborted) else { return };
        let Some(moment) = group.told.take() else { return };
        let arrivals: Vec<Arrival> = group.arrivals.iter_mut().filter_map(Option::take).collect();
        clock::note_box(outcome.box_time);
        for arrival in &arrivals {
            self.memory.write(arrival.collective.receive, &outcome.result);
            self.spoil_result(arrival, moment);
            self.streams[arrival.stream].consume(outcome.times, outcome.end);
            self.ready.push(arrival.stream);
        }
        if let Some(first) = arrivals.first() {
            self.advance(first.stream);
        }
    }

    /// The factor of further communicators that are there (`NCCLSWEEP_EMULATE_SCALE=ALIVE=2:1.03`).
    pub(super) fn slowed_by_others(&self) -> f64 {
        let settings = self.settings;
        settings.scale(|name| {
            (name == ALIVE).then(|| self.groups.iter().filter(|(_, group)| group.left > 0).count().to_string())
        })
    }

    /// A rank of this process has no more use for a communicator.
    pub(crate) fn leave(&mut self, index: usize) {
        let Some(group) = self.groups.get_mut(index) else { return };
        group.left = group.left.saturating_sub(1);
        if let Some(link) = group.link.as_ref().filter(|_| group.left == 0) {
            link.close();
        }
    }
}
