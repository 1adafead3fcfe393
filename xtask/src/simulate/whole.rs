//! One run from its first round to its end, simulated as the emulator draws its noise: to be held against whole programs.

use ncclsweep::error::Result;
use ncclsweep::stats::{Looks, Pair, Plan, Tolerance, Verdict, judge};

use super::noise::{Noise, SIZES};
use super::world::{Truth, World};
use crate::calibrate::{Measured, OfSize};

/// SD between the communicators of a process, and that of processes. Medians over iterations leave nothing of the spread of
/// single calls, so these two are all the noise there is.
pub const COMMUNICATOR: f64 = 0.03;
pub const PROCESS: f64 = 0.01;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The last look.
    pub rounds: u32,
    pub sizes: Vec<Size>,
}

/// One size of a run that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    pub verdict: Verdict,
    pub ratio: f64,
    /// The 95% interval at the end, and that after the first look.
    pub interval: (f64, f64),
    pub early: (f64, f64),
}

/// The emulator's noise under `NCCLSWEEP_EMULATE_NOISE=sd=…,process=…`: the luck of a process is the same at all sizes. It acts on
/// this `share` of the time, for the emulator's launches take as long as they take.
pub fn emulated(share: f64) -> Noise {
    let ratio = 1.0 + 6.0 * (PROCESS / COMMUNICATOR).powi(2);
    let size = OfSize { communicator: share * COMMUNICATOR, process: share * PROCESS, first: 0.0, ratio };
    let of = Measured { sizes: vec![size; SIZES], correlation: 0.0, process_correlation: 1.0, skew: 0.0 };
    Noise { name: "emulated".to_owned(), of, drift: 0.0 }
}

/// Run `stream` of `seed`: rounds until every size is decided or the last look is taken.
pub fn run(noise: &Noise, truth: &Truth, tolerance: f64, seed: u64, stream: u64) -> Result<Ended> {
    let plan = Plan { tolerance: Tolerance::new(tolerance)?, looks: Looks::Auto, error: Plan::ERROR };
    let mut world = World::new(noise, truth, seed, stream);
    let mut early: Vec<(f64, f64)> = Vec::new();
    let mut rounds = 0;
    loop {
        rounds = Looks::Auto.next(rounds).expect("a look is left");
        let cells = world.after(rounds)?;
        let sizes = sizes(&plan, &cells.pairs(), rounds, &early);
        early = sizes.iter().map(|size| size.early).collect();
        let decided = sizes.iter().all(|size| size.verdict.is_decided());
        if decided || Looks::Auto.next(rounds).is_none() {
            return Ok(Ended { rounds, sizes });
        }
    }
}

/// The sizes of a run after `rounds` rounds; `early` are the intervals of its first look, when that is not this one.
pub fn sizes(plan: &Plan, pairs: &[Pair], rounds: u32, early: &[(f64, f64)]) -> Vec<Size> {
    let judged = judge(plan, pairs, rounds).into_iter().enumerate();
    let size = |(at, judgement): (usize, ncclsweep::stats::Judgement)| {
        let comparison = judgement.comparison.expect("three rounds are enough for an interval");
        let interval = comparison.interval(0.95);
        let early = early.get(at).copied().unwrap_or(interval);
        Size { verdict: judgement.verdict, ratio: comparison.ratio(), interval, early }
    };
    judged.map(size).collect()
}
