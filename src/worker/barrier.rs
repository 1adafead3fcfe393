//! A barrier for rank threads that spins, so that ranks leave it together.
//!
//! It needs no way to break: a rank that fails ends the process, and the waiting ones with it.

use std::sync::atomic::{AtomicU32, Ordering};

/// Spins before a waiting thread offers its core to others. About 20 µs: more than ranks on cores of their own are apart.
const SPINS: u32 = 10_000;

/// Lets `parties` threads wait for each other, again and again.
pub(super) struct Barrier {
    parties: u32,
    spins: u32,
    waiting: AtomicU32,
    generation: AtomicU32,
}

impl Barrier {
    pub(super) fn new(parties: u32) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        // With fewer cores than ranks, spinning only keeps the last one from arriving.
        let spins = if cores >= parties as usize { SPINS } else { 0 };
        Self { parties, spins, waiting: AtomicU32::new(0), generation: AtomicU32::new(0) }
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
    fn no_thread_leaves_before_the_last_has_come() {
        let (barrier, arrived) = (Barrier::new(4), AtomicU32::new(0));
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
