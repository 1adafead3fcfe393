//! A simulated run: visits of every env set, round by round, drawn as they are needed.

use ncclsweep::error::Result;
use ncclsweep::stats::{Cell, Pair, Visit};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, StandardNormal};

use super::noise::Noise;

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

/// One run so far.
pub struct World<'a> {
    noise: &'a Noise,
    truth: &'a Truth,
    rng: ChaCha8Rng,
    /// The shape of a gamma distribution with the skewness of the model, and that distribution.
    skewed: Option<(f64, Gamma<f64>)>,
    drift: f64,
    rounds: u32,
    /// By env set (the baseline first) and size.
    visits: Vec<Vec<Vec<Visit>>>,
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

    /// Runs until `rounds` rounds are done, and hands out the cells.
    pub fn after(&mut self, rounds: u32) -> Result<Cells> {
        while self.rounds < rounds {
            self.drift += self.noise.drift * self.normal();
            for set in 0..self.visits.len() {
                self.visit(set)?;
            }
            self.rounds += 1;
        }
        let cells = |sizes: &Vec<Vec<Visit>>| sizes.iter().map(|visits| Cell::new(visits.clone())).collect();
        Ok(Cells(self.visits.iter().map(cells).collect::<Result<_>>()?))
    }

    fn visit(&mut self, set: usize) -> Result<()> {
        let Some(communicators) = self.survivors() else { return Ok(()) };
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
            let times = logs.into_iter().map(|log| 50.0 * (log + effect + self.drift).exp());
            self.visits[set][size].push(Visit::new(self.rounds, times)?);
        }
        Ok(())
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
