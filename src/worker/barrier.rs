//! A barrier for ranks that spins, so that they leave it together.
//!
//! It needs no way to break: a rank that fails ends its process, and where ranks are processes the supervisor ends the others.

use std::sync::atomic::{AtomicU64, Ordering};

/// Spins before a waiting rank offers its core to others. About 20 µs: more than ranks on cores of their own are apart.
const SPINS: u32 = 10_000;

/// Lets `parties` ranks wait for each other, again and again.
pub(super) struct Barrier {
    parties: u64,
    spins: u32,
    waiting: &'static AtomicU64,
    generation: &'static AtomicU64,
}

impl Barrier {
    /// On two words that all parties share, zero before the first comes.
    pub(super) fn new(parties: u32, [waiting, generation]: [&'static AtomicU64; 2]) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // With fewer cores than ranks, spinning only keeps the last one from arriving.
        let spins = if cores >= parties as usize { SPINS } else { 0 };
        Self { parties: parties.into(), spins, waiting, generation }
    }

    /// Returns once all parties have called it. What a party wrote before is visible to all after.
    pub(super) fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            self.waiting.store(0, Ordering::Relaxed);
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.generation.load(Ordering::Acquire) == generation {
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
        let (barrier, arrived) = (Barrier::new(4, [&words[0], &words[1]]), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 1..=500 {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert_eq!(arrived.load(Ordering::Relaxed), 4 * round);
                        barrier.wait();
                    }
                });
            }
        });
    }
}
