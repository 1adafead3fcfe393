//! A barrier for ranks that spins, so that they leave it together. Of several hosts, one rank of each meets the others'.
//!
//! It needs no way to break: a rank that fails ends its process, and where ranks are processes the supervisor ends the others.

use std::sync::atomic::{AtomicU64, Ordering};

use super::hosts::Hosts;

/// Spins before a waiting rank offers its core to others. About 20 µs: more than ranks on cores of their own are apart.
const SPINS: u32 = 10_000;

/// Lets ranks wait for each other, again and again.
pub(super) struct Barrier {
    /// Ranks of this host.
    parties: u64,
    /// The ranks of other hosts.
    hosts: Option<Hosts>,
    spins: u32,
    waiting: &'static AtomicU64,
    generation: &'static AtomicU64,
}

impl Barrier {
    /// On two words that all parties share, zero before the first comes; with the ranks of other hosts where there are some.
    pub(super) fn new(parties: u32, [waiting, generation]: [&'static AtomicU64; 2], hosts: Option<Hosts>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // With fewer cores than ranks, spinning only keeps the last one from arriving.
        let spins = if cores >= parties as usize { SPINS } else { 0 };
        Self { parties: parties.into(), hosts, spins, waiting, generation }
    }

    /// Returns once all parties have called it, each with its rank. What a party wrote before is visible to all after.
    pub(super) fn wait(&self, rank: u32) {
        let generation = self.generation.load(Ordering::Acquire);
        let open = || {
            self.waiting.store(0, Ordering::Relaxed);
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
        };
        match &self.hosts {
            // The last to come opens it, except where somebody must meet the other hosts first: that is always the same rank,
            // the only one whose process is connected to them.
            Some(hosts) if hosts.met_by(rank) => {
                self.until(|| self.waiting.load(Ordering::Acquire) + 1 == self.parties);
                hosts.meet();
                open();
            }
            Some(_) => {
                self.waiting.fetch_add(1, Ordering::AcqRel);
                self.until(|| self.generation.load(Ordering::Acquire) != generation);
            }
            None if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.parties => open(),
            None => self.until(|| self.generation.load(Ordering::Acquire) != generation),
        }
    }

    fn until(&self, met: impl Fn() -> bool) {
        let mut spins = 0;
        while !met() {
            if spins < self.spins {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_party_leaves_before_the_last_has_come() {
        let words = Box::leak(Box::new([const { AtomicU64::new(0) }; 2]));
        let (barrier, arrived) = (Barrier::new(4, [&words[0], &words[1]], None), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for rank in 0..4 {
                let (barrier, arrived) = (&barrier, &arrived);
                scope.spawn(move || {
                    for round in 1..=500 {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        barrier.wait(rank);
                        assert_eq!(arrived.load(Ordering::Relaxed), 4 * round);
                        barrier.wait(rank);
                    }
                });
            }
        });
    }
}
