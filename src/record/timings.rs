//! Where the time of a visit goes.

use serde::{Deserialize, Serialize};

use super::visit::Phase;

/// What a worker spends before it has anything to say, in seconds, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Loading {
    /// Loading and initialising the driver, and asking for the GPUs.
    pub driver: f64,
    /// Loading NCCL.
    pub library: f64,
    /// A context for each rank, those of all GPUs at once.
    pub contexts: f64,
}

/// Where the time of a visit went, in seconds, as the supervisor saw it. What is part of another phase says so; versions that
/// did not look left it at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Timings {
    /// From spawn to the worker's first word.
    pub exec: f64,
    /// Of these, the driver.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub driver: f64,
    /// Of these, loading NCCL.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub library: f64,
    /// Of these, contexts of all GPUs.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub contexts: f64,
    /// Buffers, threads, a look at the GPUs.
    pub start: f64,
    /// All communicators' init and first collectives.
    pub communicators: f64,
    /// Of these, first collectives, in which NCCL connects.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub first: f64,
    /// Warm-up.
    pub warm_up: f64,
    /// Capture, timing.
    pub measuring: f64,
    /// Of these, capture.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub capture: f64,
    /// Data checks.
    pub checking: f64,
    /// Teardown until the worker's last word.
    pub teardown: f64,
    /// From its last word until it was gone.
    pub exit: f64,
    /// Reading NCCL's log once it was gone; not part of the visit's time.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub reading: f64,
}

fn is_nothing(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl Timings {
    /// Adds `seconds` to the phase that took them, and to the one it is part of.
    pub fn add(&mut self, phase: Option<Phase>, seconds: f64) {
        let (whole, part) = match phase {
            None | Some(Phase::Start) => (&mut self.start, None),
            Some(Phase::Init) => (&mut self.communicators, None),
            Some(Phase::First) => (&mut self.communicators, Some(&mut self.first)),
            Some(Phase::WarmUp) => (&mut self.warm_up, None),
            Some(Phase::Capture) => (&mut self.measuring, Some(&mut self.capture)),
            Some(Phase::Timing) => (&mut self.measuring, None),
            Some(Phase::Check) => (&mut self.checking, None),
            Some(Phase::Teardown) => (&mut self.teardown, None),
        };
        *whole += seconds;
        if let Some(part) = part {
            *part += seconds;
        }
    }

    /// Takes over what a worker tells of its start; of several workers the slowest counts.
    pub fn loaded(&mut self, loading: Loading) {
        self.driver = self.driver.max(loading.driver);
        self.library = self.library.max(loading.library);
        self.contexts = self.contexts.max(loading.contexts);
    }

    /// Every phase with its seconds, none of them part of another.
    #[must_use]
    pub fn phases(&self) -> [(&'static str, f64); 13] {
        [
            ("process start", self.exec - self.driver - self.library - self.contexts),
            ("driver", self.driver),
            ("library", self.library),
            ("contexts", self.contexts),
            ("buffers", self.start),
            ("communicator init", self.communicators - self.first),
            ("first collective", self.first),
            ("warm-up", self.warm_up),
            ("graph capture", self.capture),
            ("timing", self.measuring - self.capture),
            ("data check", self.checking),
            ("teardown", self.teardown),
            ("exit", self.exit),
        ]
    }

    /// Seconds in which figures were taken.
    #[must_use]
    pub fn timed(&self) -> f64 {
        self.measuring - self.capture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phases_are_all_of_a_visit_and_none_counts_twice() {
        let mut timings = Timings { exec: 1.0, exit: 0.25, ..Timings::default() };
        timings.loaded(Loading { driver: 0.25, library: 0.125, contexts: 0.5 });
        for phase in Phase::ALL {
            timings.add(Some(phase), 0.5);
        }
        assert_eq!(
            timings.phases().iter().map(|(_, seconds)| seconds).sum::<f64>(),
            1.25 + 0.5 * Phase::ALL.len() as f64
        );
        assert_eq!((timings.phases()[0].1, timings.timed()), (0.125, 0.5));
    }

    #[test]
    fn of_several_workers_the_slowest_start_counts() {
        let mut timings = Timings::default();
        timings.loaded(Loading { driver: 0.3, library: 0.1, contexts: 0.2 });
        timings.loaded(Loading { driver: 0.2, library: 0.1, contexts: 0.4 });
        assert_eq!((timings.driver, timings.contexts), (0.3, 0.4));
    }
}
