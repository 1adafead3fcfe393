//! A stopwatch for deadlines: it stands still while this process does.
//!
//! A supervisor that is stopped (Ctrl-Z, a frozen control group, a suspended machine) hears nothing, and its worker may be
//! stopped with it or wait with a full pipe. That silence says nothing of the worker, and must not count against it.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A gap between two looks at the stopwatch which is no wait of ours: those are shorter than a tenth of it.
const STOPPED: Duration = Duration::from_secs(1);

/// Time in which this process ran. Who waits looks at it at least every 100 ms.
#[derive(Debug)]
pub struct Awake {
    elapsed: Cell<Duration>,
    looked: Cell<Instant>,
}

impl Awake {
    /// From now on.
    #[must_use]
    pub fn start() -> Self {
        Self { elapsed: Cell::default(), looked: Cell::new(Instant::now()) }
    }

    /// How long this process ran since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let now = Instant::now();
        self.add(now - self.looked.replace(now));
        self.elapsed.get()
    }

    /// Counts a call that has just ended and may take `most` by itself: of a longer gap no more than that.
    pub fn count(&self, most: Duration) {
        let now = Instant::now();
        let gap = now - self.looked.replace(now);
        self.elapsed.set(self.elapsed.get() + gap.min(most));
    }

    fn add(&self, gap: Duration) {
        if gap < STOPPED {
            self.elapsed.set(self.elapsed.get() + gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_in_which_nobody_looked_do_not_count() {
        let awake = Awake::start();
        for gap in [Duration::from_millis(50), Duration::from_secs(3600), Duration::from_millis(20)] {
            awake.add(gap);
        }
        assert_eq!(awake.elapsed.get(), Duration::from_millis(70));
    }

    #[test]
    fn of_a_gap_after_a_long_call_no_more_counts_than_the_call_may_take() {
        let awake = Awake::start();
        awake.looked.set(Instant::now().checked_sub(Duration::from_secs(3)).unwrap());
        awake.count(Duration::from_secs(2));
        assert_eq!(awake.elapsed.get(), Duration::from_secs(2));
        awake.count(Duration::from_secs(2));
        assert!(awake.elapsed.get() < Duration::from_secs(3), "{awake:?}");
    }

    #[test]
    fn time_in_which_this_process_runs_counts() {
        let (awake, begun) = (Awake::start(), Instant::now());
        while begun.elapsed() < Duration::from_millis(30) {
            std::thread::sleep(Duration::from_millis(2));
            let _ = awake.elapsed();
        }
        assert!((30..1000).contains(&awake.elapsed().as_millis()), "{awake:?}");
    }
}
