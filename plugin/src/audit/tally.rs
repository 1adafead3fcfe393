//! [`Tally`]: how often one rank's end of a communicator used what.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::FixedState;

use crate::journal::{Communicator, Tallied};
use crate::name::Name;
use crate::recorder::{Api, Channels, Event};

/// Kinds that one process tells at most: a server with many batch sizes has some hundreds.
const MOST_KINDS: usize = 8192;

/// Kinds of all tallies of the process, those of ended communicators included.
static KINDS: AtomicUsize = AtomicUsize::new(0);

/// What makes two collectives of one kind.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    count: u64,
    function: Name,
    datatype: Name,
    algorithm: Name,
    protocol: Name,
    channels: Option<Channels>,
    warps: u8,
}

#[derive(Default)]
struct Counts {
    eager: u64,
    captured: u64,
    untold: u64,
    first_us: u64,
    last_us: u64,
}

/// The last collective of a function, of which the next one tells whether it was captured.
struct Last {
    function: Name,
    sequence: u64,
    kind: usize,
}

/// How often what was used, and what the events alone tell of the communicator.
pub(super) struct Tally {
    /// Its number, while it lives.
    communicator: Option<u32>,
    kinds: HashMap<Kind, usize, FixedState>,
    counts: Vec<Counts>,
    last: Vec<Last>,
    told: Option<(i32, u64, Name)>,
    unlisted: u64,
    changed: bool,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            communicator: None,
            kinds: HashMap::with_hasher(FixedState::default()),
            counts: Vec::new(),
            last: Vec::new(),
            told: None,
            unlisted: 0,
            changed: false,
        }
    }

    /// Begins anew, for another communicator.
    pub(super) fn begin(&mut self, communicator: u32) {
        *self = Self { communicator: Some(communicator), ..Self::new() };
    }

    pub(super) fn communicator(&self) -> Option<u32> {
        self.communicator
    }

    /// Ends; what comes later is of nobody.
    pub(super) fn end(&mut self) {
        *self = Self::new();
    }

    /// Whether something came since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Counts a collective.
    pub(super) fn note(&mut self, api: Api, event: &Event, now_us: u64) {
        if self.communicator.is_none() {
            return;
        }
        self.changed = true;
        if let (Some((hash, name)), None) = (event.communicator, self.told) {
            self.told = Some((event.rank, hash, name));
        }
        let Some(kind) = self.kind(event) else {
            self.unlisted += 1;
            return;
        };
        let counts = &mut self.counts[kind];
        if counts.first_us == 0 {
            counts.first_us = now_us;
        }
        counts.last_us = now_us;
        match event.captured {
            Some(true) => counts.captured += 1,
            Some(false) => counts.eager += 1,
            None => {
                counts.untold += 1;
                if api >= Api::V3 {
                    self.settle(event, kind);
                }
            }
        }
    }

    /// The place of a collective's counts; nothing when there are too many kinds.
    fn kind(&mut self, event: &Event) -> Option<usize> {
        let Event { function, datatype, algorithm, protocol, channels, warps, .. } = *event;
        let kind = Kind { count: event.count as u64, function, datatype, algorithm, protocol, channels, warps };
        if let Some(found) = self.kinds.get(&kind) {
            return Some(*found);
        }
        if KINDS.fetch_add(1, Ordering::Relaxed) >= MOST_KINDS {
            KINDS.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.kinds.insert(kind, self.counts.len());
        self.counts.push(Counts::default());
        Some(self.counts.len() - 1)
    }

    /// Since 2.26, NCCL does not number what is captured: when this one has the number of the one before it, that one was.
    fn settle(&mut self, event: &Event, kind: usize) {
        let this = Last { function: event.function, sequence: event.sequence, kind };
        let Some(last) = self.last.iter_mut().find(|last| last.function == this.function) else {
            self.last.push(this);
            return;
        };
        let counts = &mut self.counts[last.kind];
        counts.untold -= 1;
        match last.sequence == this.sequence {
            true => counts.captured += 1,
            false => counts.eager += 1,
        }
        *last = this;
    }

    /// Fills in what only events tell.
    pub(super) fn tell(&self, communicator: &mut Communicator) {
        if let Some((rank, hash, name)) = self.told {
            communicator.rank = communicator.rank.or(Some(rank));
            (communicator.hash, communicator.name) = (hash, name);
        }
        communicator.unlisted = self.unlisted;
    }

    /// A line for each kind.
    pub(super) fn lines(&self) -> impl Iterator<Item = Tallied> {
        let communicator = self.communicator.unwrap_or_default();
        self.kinds.iter().map(move |(kind, at)| {
            let Counts { eager, captured, untold, first_us, last_us } = self.counts[*at];
            let Kind { count, function, datatype, algorithm, protocol, channels, warps } = *kind;
            let bytes = datatype.element_size().and_then(|size| count.checked_mul(size));
            Tallied {
                communicator,
                function,
                datatype,
                count,
                bytes,
                algorithm,
                protocol,
                channels,
                warps,
                eager,
                captured,
                untold,
                first_us,
                last_us,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(count: usize, sequence: u64, captured: Option<bool>) -> Event {
        Event {
            rank: 3,
            communicator: None,
            sequence,
            function: "AllReduce".into(),
            datatype: "ncclBfloat16".into(),
            count,
            algorithm: "RING".into(),
            protocol: "LL".into(),
            channels: Some(Channels::Used(1)),
            warps: 16,
            captured,
        }
    }

    /// Count, eager, captured, untold of each kind.
    fn counted(tally: &Tally) -> Vec<(u64, u64, u64, u64)> {
        let mut lines: Vec<_> =
            tally.lines().map(|line| (line.count, line.eager, line.captured, line.untold)).collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn what_the_call_tells_is_counted_as_told() {
        let mut tally = Tally::new();
        tally.begin(0);
        for captured in [false, false, true] {
            tally.note(Api::V5, &event(7168, 0, Some(captured)), 5);
        }
        tally.note(Api::V5, &event(14_336, 0, Some(true)), 6);
        assert_eq!(counted(&tally), [(7168, 2, 1, 0), (14_336, 0, 1, 0)]);
        assert_eq!(tally.lines().map(|line| line.bytes.unwrap()).max(), Some(28_672));
    }

    #[test]
    fn a_number_that_comes_again_tells_that_the_call_before_it_was_captured() {
        let mut tally = Tally::new();
        tally.begin(0);
        // Two eager calls (numbers 0 and 1), two captured ones that take no number, one more eager.
        for (count, sequence) in [(1, 0), (1, 1), (2, 2), (2, 2), (1, 2)] {
            tally.note(Api::V4, &event(count, sequence, None), 5);
        }
        assert_eq!(counted(&tally), [(1, 2, 0, 1), (2, 0, 2, 0)], "of the last call nothing is known yet");
    }

    #[test]
    fn before_2_26_nothing_tells_what_was_captured() {
        let mut tally = Tally::new();
        tally.begin(0);
        (0..3).for_each(|_| tally.note(Api::V2, &event(1, 7, None), 5));
        assert_eq!(counted(&tally), [(1, 0, 0, 3)]);
    }

    #[test]
    fn what_comes_after_the_end_is_of_nobody() {
        let mut tally = Tally::new();
        tally.begin(4);
        tally.end();
        tally.note(Api::V5, &event(1, 0, Some(false)), 5);
        assert_eq!(counted(&tally), []);
    }
}
