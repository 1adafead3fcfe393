//! A simulated run: visits of every env set, round by round, drawn as they are needed.

use ncclsweep::error::Result;
use ncclsweep::stats::{Cell, Pair, Visit};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, StandardNormal};

use super::noise::Noise;

/// The baseline's time without noise, µs.
pub const BASE: f64 = 50.0;

/// What is simulated beside the noise.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Log ratio to the baseline by candidate and size.
    pub effects: Vec<Vec<f64>>,
    /// Communicators a visit.
    pub communicators: usize,
    /// Share of visits that fail: half of these leave nothing, half end after some communicators.
    pub failing: f64,
}

/// What one visit measured of one size.
#[derive(Clone)]
pub struct Raw {
    pub round: u32,
    /// The log times of its communicators.
    pub logs: Vec<f64>,
}

/// By env set (the baseline first), size, visit.
type Visits = Vec<Vec<Vec<Raw>>>;

/// One run so far.
pub struct World<'a> {
    noise: &'a Noise,
    truth: &'a Truth,
    rng: ChaCha8Rng,
    /// The shape of a gamma distribution with the skewness of the model, and that distribution.
    skewed: Option<(f64, Gamma<f64>)>,
    drift: f64,
    rounds: u32,
    visits: Visits,
}

/// The cells of a run, by env set and size.
pub struct Cells(Vec<Vec<Cell>>);

impl Truth {
    /// One candidate that differs by the same log ratio at every size.
    pub fn of(effect: f64) -> Self {
        Self::by_size(vec![effect; super::noise::SIZES])
    }

    /// One candidate that differs by these log ratios.
    pub fn by_size(effects: Vec<f64>) -> Self {
        Self { effects: vec![effects], communicators: 6, failing: 0.0 }
    }
}

impl<'a> World<'a> {
    /// Run number `stream` of `seed`.
    pub fn new(noise: &'a Noise, truth: &'a Truth, seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        let shape = 4.0 / noise.of.skew.powi(2);
        let skewed = (noise.of.skew > 0.05).then(|| (shape, Gamma::new(shape, 1.0).expect("a positive shape")));
        let visits = vec![vec![Vec::new(); noise.of.sizes.len()]; truth.effects.len() + 1];
        Self { noise, truth, rng, skewed, drift: 0.0, rounds: 0, visits }
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.rng)
    }

    /// Mean 0, SD 1, the skewness of the model.
    fn communicator(&mut self) -> f64 {
        match self.skewed {
            None => self.normal(),
            Some((shape, gamma)) => (gamma.sample(&mut self.rng) - shape) / shape.sqrt(),
        }
    }

    /// Runs until `rounds` rounds are done.
    pub fn run(&mut self, rounds: u32) {
        while self.rounds < rounds {
            self.drift += self.noise.drift * self.normal();
            for set in 0..self.visits.len() {
                self.visit(set);
            }
            self.rounds += 1;
        }
    }

    /// Runs until `rounds` rounds are done, and hands out the cells.
    pub fn after(&mut self, rounds: u32) -> Result<Cells> {
        self.run(rounds);
        let visit = |raw: &Raw| Visit::new(raw.round, raw.logs.iter().map(|log| log.exp()));
        let cell = |visits: &Vec<_>| Cell::new(visits.iter().map(visit).collect::<Result<_>>()?);
        let of_set = |sizes: &Vec<Vec<_>>| sizes.iter().map(cell).collect();
        Ok(Cells(self.visits.iter().map(of_set).collect::<Result<_>>()?))
    }

    /// Every visit by env set (the baseline first) and size.
    pub fn raw(&self) -> &[Vec<Vec<Raw>>] {
        &self.visits
    }

    fn visit(&mut self, set: usize) {
        let Some(communicators) = self.survivors() else { return };
        let Noise { of, .. } = self.noise;
        let (common, own) = (of.process_correlation.sqrt(), (1.0 - of.process_correlation).sqrt());
        let shared = common * self.normal();
        let process: Vec<f64> = of.sizes.iter().map(|size| size.process * (shared + own * self.normal())).collect();
        let mut logs = vec![Vec::with_capacity(communicators); of.sizes.len()];
        let (common, own) = (of.correlation.sqrt(), (1.0 - of.correlation).sqrt());
        for position in 0..communicators {
            let shared = common * self.communicator();
            for (size, logs) in logs.iter_mut().enumerate() {
                let noise = of.sizes[size].communicator * (shared + own * self.communicator());
                let first = if position == 0 { of.sizes[size].first } else { 0.0 };
                logs.push(process[size] + noise + first);
            }
        }
        for (size, logs) in logs.into_iter().enumerate() {
            let effect = if set == 0 { 0.0 } else { self.truth.effects[set - 1][size] };
            let logs = logs.into_iter().map(|log| BASE.ln() + log + effect + self.drift).collect();
            self.visits[set][size].push(Raw { round: self.rounds, logs });
        }
    }

    /// How many communicators the next visit measures; `None` when it fails before the first.
    fn survivors(&mut self) -> Option<usize> {
        let all = self.truth.communicators;
        if self.truth.failing == 0.0 || self.rng.random::<f64>() >= self.truth.failing {
            return Some(all);
        }
        self.rng.random::<bool>().then(|| self.rng.random_range(1..all))
    }
}

impl Cells {
    /// Every cell of a candidate with the baseline's.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let (baseline, candidates) = self.0.split_first().expect("a run has a baseline");
        candidates
            .iter()
            .flat_map(|set| baseline.iter().zip(set))
            .map(|(baseline, candidate)| Pair { baseline, candidate, kin: 0 })
            .collect()
    }

    /// The cells of the baseline.
    pub fn baseline(&self) -> &[Cell] {
        &self.0[0]
    }

    /// For every env set one cell that stands for all sizes.
    pub fn joint(&self) -> Self {
        Self(self.0.iter().map(|set| vec![Cell::joint(&set.iter().collect::<Vec<_>>())]).collect())
    }
}
