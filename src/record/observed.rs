//! [`Observed`]: what communicators measured one by one, for the cells that somebody wants to see.
//!
//! A run's document has a median for each communicator, its journal has the samples too. Both are read here; a cell of a run
//! whose journal is not at hand has no sample.

use std::collections::{BTreeMap, HashMap};

use super::journal::Journal;
use super::stored::Stored;
use super::visit::Visit;
use crate::error::Result;
use crate::plan::schedule::Arm;
use crate::stats::Sample;

/// What was observed, of the wanted cells of a run.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    cells: HashMap<(Arm, usize), Observations>,
    connections: BTreeMap<Arm, Vec<Connection>>,
}

/// What was observed of one cell, of visits whose figures count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// By visit, in the order they were made.
    pub visits: Vec<OfVisit>,
    /// All samples of these visits; nothing where only medians were kept.
    pub sample: Option<Sample>,
}

/// What one visit observed of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct OfVisit {
    /// Position in the run, counted from 0.
    pub index: u32,
    /// Round, counted from 0.
    pub round: u32,
    /// Medians of the communicators in the order they were made, µs.
    pub medians_us: Vec<f64>,
}

/// That a rank sends to another, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Transports over all channels, as NCCL's log names them.
    pub via: Vec<String>,
}

impl Observed {
    /// What was observed of the cells that `wanted` names: with samples where the run has its journal.
    pub fn of(stored: &Stored, wanted: &dyn Fn(Arm, usize) -> bool) -> Result<Self> {
        match &stored.folder {
            Some(folder) => Self::of_journal(&Journal::open(folder)?.0, wanted),
            None => Self::of_visits(stored.run.visits.iter().map(|visit| Ok(visit.clone())), wanted),
        }
    }

    /// The same from a journal at hand.
    pub fn of_journal(journal: &Journal, wanted: &dyn Fn(Arm, usize) -> bool) -> Result<Self> {
        let counted = journal.entries().iter().filter(|entry| entry.completed && !entry.untimed);
        Self::of_visits(counted.map(|entry| journal.read(entry)), wanted)
    }

    /// The same from visits.
    pub fn of_visits(visits: impl Iterator<Item = Result<Visit>>, wanted: &dyn Fn(Arm, usize) -> bool) -> Result<Self> {
        let mut observed = Self::default();
        let mut samples: HashMap<(Arm, usize), Vec<f64>> = HashMap::new();
        for visit in visits {
            let visit = visit?;
            if visit.untimed || !visit.outcome.is_completed() {
                continue;
            }
            observed.connections.entry(visit.arm).or_insert_with(|| connections(&visit));
            for replicate in visit.replicates.into_iter().filter(|replicate| wanted(visit.arm, replicate.case)) {
                let key = (visit.arm, replicate.case);
                samples.entry(key).or_default().extend(replicate.samples_us);
                let visits = &mut observed.cells.entry(key).or_default().visits;
                match visits.last_mut().filter(|last| last.index == visit.index) {
                    Some(same) => same.medians_us.push(replicate.median_us),
                    None => visits.push(OfVisit {
                        index: visit.index,
                        round: visit.round,
                        medians_us: vec![replicate.median_us],
                    }),
                }
            }
        }
        for (key, times) in samples.into_iter().filter(|(_, times)| !times.is_empty()) {
            observed.cells.entry(key).or_default().sample = Some(Sample::new(times)?);
        }
        Ok(observed)
    }

    /// What was observed of one cell; nothing when it was not wanted or not measured.
    #[must_use]
    pub fn cell(&self, arm: Arm, case: usize) -> Option<&Observations> {
        self.cells.get(&(arm, case))
    }

    /// How the ranks of an arm's first visit were connected, by NCCL's log; empty when it does not tell.
    #[must_use]
    pub fn connections(&self, arm: Arm) -> &[Connection] {
        self.connections.get(&arm).map_or(&[], Vec::as_slice)
    }
}

/// The connections of a visit's first communicator.
fn connections(visit: &Visit) -> Vec<Connection> {
    let communicator = visit.read.iter().flat_map(|read| read.communicators.first());
    let hops = communicator.flat_map(|of| &of.ranks).flat_map(|rank| {
        rank.sends.iter().map(|hop| Connection {
            from: rank.rank,
            to: hop.to,
            via: hop.via.iter().map(ToString::to_string).collect(),
        })
    });
    hops.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn of(run: &super::super::run::Run, wanted: impl Fn(Arm, usize) -> bool) -> Observed {
        Observed::of_visits(run.visits.iter().cloned().map(Ok), &wanted).unwrap()
    }

    #[test]
    fn each_visit_has_a_median_for_each_communicator_in_order() {
        let mut run = fixture::two_sets();
        for visit in &mut run.visits {
            for replicate in &mut visit.replicates {
                replicate.median_us = f64::from(100 * visit.round + replicate.communicator + 1);
            }
        }
        let arm = run.visits[0].arm;
        let observed = of(&run, |_, case| case == 2);
        let cell = observed.cell(arm, 2).unwrap();
        assert_eq!(cell.visits.iter().map(|visit| visit.round).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(cell.visits[1].medians_us, [101.0, 102.0, 103.0, 104.0, 105.0, 106.0]);
        assert_eq!((&cell.sample, observed.cell(arm, 0)), (&None, None));
    }

    #[test]
    fn samples_of_all_visits_are_one_sample() {
        let mut run = fixture::two_sets();
        for visit in &mut run.visits {
            visit.replicates.iter_mut().for_each(|replicate| replicate.samples_us = vec![48.0, 49.0]);
        }
        let arm = run.visits[0].arm;
        let observed = of(&run, |_, _| true);
        assert_eq!(observed.cell(arm, 0).unwrap().sample.as_ref().unwrap().sorted().len(), 6 * 6 * 2);
    }

    #[test]
    fn visits_that_failed_or_were_for_the_proof_count_for_nothing() {
        let mut run = fixture::two_sets();
        let arm = run.visits[0].arm;
        run.visits[0].untimed = true;
        let second = run.visits.iter_mut().filter(|visit| visit.arm == arm).nth(1).unwrap();
        second.outcome = super::super::visit::Outcome::Interrupted;
        assert_eq!(of(&run, |_, _| true).cell(arm, 0).unwrap().visits.len(), 4);
    }
}
