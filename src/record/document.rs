//! Makes and writes `run.json`: the summary of a journal.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use rayon::prelude::*;
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use super::floor::Ways;
use super::journal::Journal;
use super::proofs::{ArmProofs, Prover};
use super::run::{Cell, Header, Run};
use super::summary::{Summary, Tally};
use super::visit::Visit;
use super::{brought, drift, file};
use crate::error::Result;
use crate::plan::schedule::Arm;

/// Visits, or arms with all of theirs, that are read at a time, several of them at once.
const AT_A_TIME: usize = 4;

/// Name of the document in a run's folder.
pub const FILE: &str = "run.json";

/// The document of a run, its visits without replicates: those are read from the journal as it is written.
///
/// Visits are read arm by arm and several arms at a time, so that a long run needs little memory.
pub fn make(header: &Header, journal: &Journal, tally: &Tally, complete: bool) -> Result<Run> {
    let plan = &header.plan;
    let arms: Vec<Arm> = plan.arms().collect();
    let baseline = arms.first().map(|arm| visits(journal, *arm)).transpose()?;
    let prover = Prover::new(header, baseline.as_deref().unwrap_or_default());
    let brought = brought::warning(header, baseline.as_deref().unwrap_or_default());
    let summary = Summary::of(plan, journal, tally)?;
    let of_arm = |arm: Arm, visits: Vec<Visit>| -> Result<OfArms> {
        let proof = prover.prove(arm, &visits);
        let mut cells = summary.cells(arm, &visits, proof.as_ref())?;
        if let Some(floor) = journal.floor() {
            let ways = Ways::of(&visits);
            cells.iter_mut().for_each(|cell| cell.floor = floor.of_cell(plan, &ways, cell.mode));
        }
        Ok(OfArms { proofs: Vec::from_iter(proof), cells, visits: visits.into_iter().map(bare).collect() })
    };
    let mut all = OfArms {
        proofs: Vec::with_capacity(arms.len()),
        cells: Vec::with_capacity(arms.len().saturating_mul(plan.cases.len())),
        visits: Vec::with_capacity(journal.entries().len()),
    };
    if let (Some(arm), Some(visits)) = (arms.first(), baseline) {
        all.add(of_arm(*arm, visits)?);
    }
    for arms in arms.get(1..).unwrap_or_default().chunks(AT_A_TIME) {
        let read = arms.par_iter().map(|arm| of_arm(*arm, visits(journal, *arm)?));
        read.collect::<Result<Vec<_>>>()?.into_iter().for_each(|of| all.add(of));
    }
    let OfArms { proofs, cells, mut visits } = all;
    visits.sort_by_key(|visit| visit.index);
    let mut warnings =
        drift::warnings(plan.arms().filter_map(|arm| Some((plan.arm_name(arm), tally.conditions(arm)?))));
    warnings.extend(brought);
    warnings.extend(header.provenance.imported.iter().flat_map(|imported| imported.notes.iter().cloned()));
    let last = visits.last().map(|visit| visit.started + jiff::SignedDuration::from_secs_f64(visit.seconds));
    Ok(Run {
        header: header.clone(),
        finished: last.unwrap_or(header.created),
        complete,
        visits,
        pairs: journal.pairs().to_vec(),
        floor: journal.floor().cloned(),
        cells,
        joint: summary.joint(&proofs),
        proofs,
        warnings,
    })
}

/// Cells whose settings are known not to be in effect by what the journal has, in the order of arms and cases.
pub fn lost(header: &Header, journal: &Journal) -> Result<BTreeSet<(Arm, usize)>> {
    let plan = &header.plan;
    let baseline = visits(journal, plan.baseline())?;
    let prover = Prover::new(header, &baseline);
    let mut lost = BTreeSet::new();
    for arm in plan.arms() {
        let proof = prover.prove(arm, &visits(journal, arm)?);
        let of_arm = |case: &usize| proof.as_ref().is_some_and(|proof| proof.applied(*case).is_lost());
        lost.extend((0..plan.cases.len()).filter(of_arm).map(|case| (arm, case)));
    }
    Ok(lost)
}

/// What the visits of some arms come to.
struct OfArms {
    proofs: Vec<ArmProofs>,
    cells: Vec<Cell>,
    visits: Vec<Visit>,
}

impl OfArms {
    fn add(&mut self, of: Self) {
        self.proofs.extend(of.proofs);
        self.cells.extend(of.cells);
        self.visits.extend(of.visits);
    }
}

/// The visits of an arm.
fn visits(journal: &Journal, arm: Arm) -> Result<Vec<Visit>> {
    let entries = journal.entries().iter().filter(|entry| entry.arm == arm);
    entries.map(|entry| journal.read(entry)).collect()
}

fn bare(visit: Visit) -> Visit {
    Visit { replicates: Vec::new(), used: Vec::new(), read: None, ..visit }
}

/// Writes the document beside its journal, whole or not at all.
pub fn write(folder: &Path, run: &Run, journal: &Journal) -> Result<()> {
    file::replace(&folder.join(FILE), |out| {
        serde_json::to_writer(&mut *out, &Document { run, journal })?;
        out.write_all(b"\n")
    })
}

/// A run with the visits of its journal, read one by one so that a long run needs little memory.
struct Document<'a> {
    run: &'a Run,
    journal: &'a Journal,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Run { header, finished, complete, visits: _, pairs, floor, cells, joint, proofs, warnings } = self.run;
        let Header { schema, version, backend, created, provenance, plan } = header;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", schema)?;
        map.serialize_entry("version", version)?;
        map.serialize_entry("backend", backend)?;
        map.serialize_entry("created", created)?;
        map.serialize_entry("finished", finished)?;
        map.serialize_entry("complete", complete)?;
        map.serialize_entry("warnings", warnings)?;
        map.serialize_entry("cells", cells)?;
        map.serialize_entry("joint", joint)?;
        map.serialize_entry("proofs", proofs)?;
        map.serialize_entry("provenance", provenance)?;
        map.serialize_entry("plan", plan)?;
        map.serialize_entry("visits", &Visits(self.journal))?;
        if !pairs.is_empty() {
            map.serialize_entry("pairs", pairs)?;
        }
        if let Some(floor) = floor {
            map.serialize_entry("floor", floor)?;
        }
        map.end()
    }
}

struct Visits<'a>(&'a Journal);

impl Serialize for Visits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut visits = serializer.serialize_seq(Some(self.0.entries().len()))?;
        for entries in self.0.entries().chunks(AT_A_TIME) {
            let read = entries.par_iter().map(|entry| self.0.read(entry)).collect::<Result<Vec<_>>>();
            for mut visit in read.map_err(S::Error::custom)? {
                visit.replicates.iter_mut().for_each(|replicate| replicate.samples_us.clear());
                visits.serialize_element(&visit)?;
            }
        }
        visits.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn the_document_reads_back_as_the_run_with_medians_and_without_samples() {
        let folder = tempfile::tempdir().unwrap();
        let mut source = fixture::two_sets();
        let mut journal = Journal::create(folder.path(), &source.header).unwrap();
        for visit in &mut source.visits {
            visit.replicates.iter_mut().for_each(|replicate| replicate.samples_us = vec![48.4, 48.2, 47.9]);
            journal.append(visit).unwrap();
        }
        let tally = Tally::of(&journal).unwrap();
        let mut run = make(&source.header, &journal, &tally, true).unwrap();
        write(folder.path(), &run, &journal).unwrap();
        let read: Run = serde_json::from_slice(&std::fs::read(folder.path().join(FILE)).unwrap()).unwrap();

        source.visits.iter_mut().flat_map(|visit| &mut visit.replicates).for_each(|r| r.samples_us.clear());
        assert_eq!(read.visits, source.visits);
        run.visits = read.visits.clone();
        assert_eq!(read, run);
        assert!(read.cells.iter().all(|cell| cell.replicates == 36 && cell.median_us.is_some()));
    }

    #[test]
    fn a_document_replaces_the_one_before_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let source = fixture::two_sets();
        let journal = Journal::create(folder.path(), &source.header).unwrap();
        for complete in [false, true] {
            let run = make(&source.header, &journal, &Tally::default(), complete).unwrap();
            write(folder.path(), &run, &journal).unwrap();
            let read: Run = serde_json::from_slice(&std::fs::read(folder.path().join(FILE)).unwrap()).unwrap();
            assert_eq!(read.complete, complete);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
