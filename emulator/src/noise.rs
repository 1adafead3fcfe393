//! Seeded noise on top of the true times.
//!
//! Every draw is a function of what it belongs to (seed, communicator, size, mode, call), never of the order of draws: the
//! same seed gives the same times however the threads are scheduled. All factors have a mean logarithm near zero, so a
//! ratio of two arms keeps its true value.

use std::f64::consts::TAU;

/// How a collective was started; each way has a spread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// Replayed from a CUDA graph.
    Graph,
    /// Eager, behind other work.
    Stream,
    /// Eager, on a stream its thread had just waited for.
    Lone,
}

/// The spread of one mode; shares of the time, all of them standard deviations where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub process: f64,
    /// Between communicators of one process.
    pub communicator: f64,
    /// Of a communicator's effect over the sizes.
    pub correlation: f64,
    pub skew: f64,
    /// The first communicator of a process is slower by this share, at sizes up to 16 KiB and above.
    pub first: [f64; 2],
    /// Between replays or calls.
    pub call: f64,
    /// Share of calls that fall in the right tail, and the tail's mean.
    pub tail: [f64; 2],
}

/// The noise of a process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Noise {
    pub graph: Spread,
    pub stream: Spread,
    pub lone: Spread,
}

impl Noise {
    pub(crate) const NONE: Noise = Noise { graph: QUIET, stream: QUIET, lone: QUIET };

    /// What eight ranks on two H200 showed (six communicators in each of five processes).
    pub(crate) const CALIBRATED: Noise = Noise {
        graph: Spread {
            process: 0.008,
            communicator: 0.024,
            correlation: 0.0,
            skew: 0.4,
            first: [0.045, 0.008],
            call: 0.006,
            tail: [0.02, 0.03],
        },
        stream: Spread {
            process: 0.027,
            communicator: 0.040,
            correlation: 0.75,
            skew: 1.1,
            first: [0.075, 0.07],
            call: 0.02,
            tail: [0.02, 0.10],
        },
        lone: Spread {
            process: 0.0,
            communicator: 0.035,
            correlation: 0.6,
            skew: 1.2,
            first: [0.02, 0.02],
            call: 0.03,
            tail: [0.04, 0.22],
        },
    };

    /// `graph` (calibrated), `none`, or `key=value,…` for all modes, keys left out being zero.
    pub(crate) fn parse(text: &str) -> Result<Noise, String> {
        match text {
            "" | "graph" => return Ok(Noise::CALIBRATED),
            "none" => return Ok(Noise::NONE),
            _ => (),
        }
        let mut spread = QUIET;
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or(format!("{part:?} is not KEY=VALUE"))?;
            let number: f64 = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
            if !number.is_finite() || number < 0.0 {
                return Err(format!("{value:?} is not a share"));
            }
            match key {
                "sd" => spread.communicator = number,
                "process" => spread.process = number,
                "correlation" => spread.correlation = number.min(1.0),
                "skew" => spread.skew = number,
                "first" => spread.first = [number; 2],
                "replay" => spread.call = number,
                "tail" => spread.tail = [0.02, number],
                _ => return Err(format!("{key:?} is none of sd, process, correlation, skew, first, replay, tail")),
            }
        }
        Ok(Noise { graph: spread, stream: spread, lone: spread })
    }

    fn of(&self, mode: Mode) -> &Spread {
        match mode {
            Mode::Graph => &self.graph,
            Mode::Stream => &self.stream,
            Mode::Lone => &self.lone,
        }
    }

    /// What a communicator (counted from 0 within its process) does to a size.
    pub(crate) fn communicator(&self, seed: u64, mode: Mode, communicator: u64, bytes: usize) -> f64 {
        let spread = self.of(mode);
        let salt = mode as u64 + 1;
        let process = normal(&[seed, salt]);
        let shared = normal(&[seed, salt, communicator, 0]);
        let own = normal(&[seed, salt, communicator, 1, bytes as u64]);
        let effect = skewed(spread.correlation.sqrt() * shared + (1.0 - spread.correlation).sqrt() * own, spread.skew);
        let first = if communicator == 0 { spread.first[usize::from(bytes > 16384)] } else { 0.0 };
        (spread.process * process + spread.communicator * effect).exp() * (1.0 + first)
    }

    /// What one call, or one run of calls within a replay, adds.
    pub(crate) fn call(&self, seed: u64, mode: Mode, communicator: u64, call: u64) -> f64 {
        let spread = self.of(mode);
        let key = [seed, mode as u64 + 1, communicator, 2, call];
        let mut factor = 1.0 + spread.call * normal(&key);
        if uniform(&[seed, communicator, 3, call]) < spread.tail[0] {
            factor += -spread.tail[1] * (1.0 - uniform(&[seed, communicator, 4, call])).ln();
        }
        factor.max(0.5)
    }
}

const QUIET: Spread =
    Spread { process: 0.0, communicator: 0.0, correlation: 0.0, skew: 0.0, first: [0.0; 2], call: 0.0, tail: [0.0; 2] };

/// The finaliser of splitmix64.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn hash(key: &[u64]) -> u64 {
    key.iter().fold(0, |state, &word| mix(state ^ word.wrapping_mul(0xD6E8_FEB8_6659_FD93)))
}

/// Uniform on [0, 1), a function of the key.
pub(crate) fn uniform(key: &[u64]) -> f64 {
    (hash(key) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Standard normal, a function of the key (Box–Muller).
fn normal(key: &[u64]) -> f64 {
    let first = hash(key);
    let radius = (-2.0 * (1.0 - (first >> 11) as f64 / (1_u64 << 53) as f64).ln()).sqrt();
    radius * (TAU * ((mix(first) >> 11) as f64 / (1_u64 << 53) as f64)).cos()
}

/// A standard normal bent to have about this skewness, mean zero and deviation one (a shifted lognormal).
fn skewed(z: f64, skew: f64) -> f64 {
    let k = skew / 3.0;
    if k < 1e-6 {
        return z;
    }
    let mean = (k * k / 2.0).exp();
    ((k * z).exp() - mean) / (mean * ((k * k).exp() - 1.0).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deviation(values: &[f64]) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
    }

    #[test]
    fn communicators_differ_by_the_spread_asked_for() {
        let noise = Noise::parse("sd=0.05").unwrap();
        let effects: Vec<f64> = (1..4000).map(|c| noise.communicator(7, Mode::Graph, c, 14336).ln()).collect();
        assert!((deviation(&effects) - 0.05).abs() < 0.003);
        assert!(effects.iter().sum::<f64>().abs() / 4000.0 < 0.003);
    }

    #[test]
    fn stream_effects_of_two_sizes_are_correlated_and_graph_effects_are_not() {
        let noise = Noise::CALIBRATED;
        for (mode, low, high) in [(Mode::Graph, -0.1, 0.1), (Mode::Stream, 0.65, 0.85)] {
            let of = |bytes| (1..3000).map(|c| noise.communicator(3, mode, c, bytes).ln()).collect::<Vec<_>>();
            let (a, b) = (of(14336), of(57344));
            let centre = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
            let (ma, mb) = (centre(&a), centre(&b));
            let covariance = a.iter().zip(&b).map(|(x, y)| (x - ma) * (y - mb)).sum::<f64>() / a.len() as f64;
            let correlation = covariance / deviation(&a) / deviation(&b);
            assert!((low..high).contains(&correlation), "{mode:?}: {correlation}");
        }
    }

    #[test]
    fn the_first_communicator_of_a_process_is_slower() {
        let noise = Noise::parse("first=0.05").unwrap();
        assert!((noise.communicator(1, Mode::Stream, 0, 1 << 20) - 1.05).abs() < 1e-12);
        assert_eq!(noise.communicator(1, Mode::Stream, 1, 1 << 20), 1.0);
    }

    #[test]
    fn draws_depend_on_their_key_alone() {
        let noise = Noise::CALIBRATED;
        let draw = |call| noise.call(9, Mode::Lone, 2, call);
        let forward: Vec<f64> = (0..50).map(draw).collect();
        let mut backward: Vec<f64> = (0..50).rev().map(draw).collect();
        backward.reverse();
        assert_eq!(forward, backward);
        assert_ne!(draw(1), draw(2));
        assert_ne!(noise.call(9, Mode::Lone, 2, 1), noise.call(10, Mode::Lone, 2, 1));
    }

    #[test]
    fn unknown_keys_and_bad_numbers_are_refused() {
        assert!(Noise::parse("sigma=1").unwrap_err().contains("sigma"));
        assert!(Noise::parse("sd=x").is_err());
        assert!(Noise::parse("sd=-1").is_err());
        assert!(Noise::parse("loud").is_err());
        assert_eq!(Noise::parse("none").unwrap(), Noise::NONE);
    }
}
