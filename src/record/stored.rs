//! [`Stored`]: a run read back, from its folder or its document, with the values that verdicts are drawn from.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::journal::{self, FLOOR, Journal};
use super::run::{Run, Verdict};
use super::summary::Tally;
use super::visit::Visit;
use super::{document, redact, run, valid};
use crate::error::{Error, Kind, Result};
use crate::plan::schedule::Arm;
use crate::regular;
use crate::stats::{self, Sample};

const WHAT_A_RUN_IS: &str =
    "a run is a folder with run.json and journal.jsonl, as `ncclsweep` makes under results/, or its run.json";

/// A larger document is no run of ours: ten thousand cells take some 100 MiB.
const MAX_DOCUMENT: u64 = 1 << 30;

/// A run, wherever it lies.
#[derive(Debug)]
pub struct Stored {
    /// Where it lies, as it was named.
    pub place: String,
    /// The folder of its journal, where it has one that goes with the document.
    pub folder: Option<PathBuf>,
    /// Its document.
    pub run: Run,
}

/// A run, and what verdicts need of its visits.
#[derive(Debug)]
pub struct Tallied<'a> {
    /// Its document.
    pub run: &'a Run,
    /// A value per communicator, and what went wrong.
    pub tally: Tally,
}

impl Stored {
    /// A run from its folder, or from a document `run.json` in any place.
    ///
    /// The document tells all that verdicts need, at a tenth of the journal's length. Where the journal beside it has other
    /// visits, it is the truth, and the document is made from it.
    pub fn load(path: &Path) -> Result<Self> {
        let (folder, document) = match path {
            path if path.is_dir() => (Some(path), path.join(document::FILE)),
            path if path.file_name().is_some_and(|name| name == journal::FILE) => {
                (path.parent(), path.with_file_name(document::FILE))
            }
            path if path.file_name().is_some_and(|name| name == document::FILE) => (path.parent(), path.to_owned()),
            path => (None, path.to_owned()),
        };
        let folder = folder.map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        let journal = folder.map(|folder| folder.join(journal::FILE)).filter(|journal| journal.is_file());
        let place = path.display().to_string();
        match (folder, journal) {
            (Some(folder), Some(_)) if !document.is_file() => Self::from_journal(place, folder),
            (Some(folder), Some(journal)) => {
                let help = format!(
                    "its journal tells the same: remove the file, or make it anew with `--resume {}`",
                    folder.display()
                );
                let stored = Self::from_document(place.clone(), &document, &help)?;
                refuse_strangers(&stored.run, &document, &journal)?;
                if lines(&journal)? == entries(&stored.run) {
                    return Ok(Self { folder: Some(folder.to_owned()), ..stored });
                }
                Self::from_journal(place, folder)
            }
            (_, _) => Self::from_document(place, &document, WHAT_A_RUN_IS),
        }
    }

    fn from_document(place: String, path: &Path, help: &str) -> Result<Self> {
        Ok(Self { place, folder: None, run: read(path, help)? })
    }

    fn from_journal(place: String, folder: &Path) -> Result<Self> {
        let (journal, header) = Journal::open(folder)?;
        let tally = Tally::of(&journal)?;
        let mut run = document::make(&header, &journal, &tally, tally.has_planned_rounds(&header.plan))?;
        // Of rounds until all is decided nobody wrote that they are complete; they are where a look decided all.
        let decided = run.cells.iter().all(|cell| cell.verdict != Verdict::Undecided);
        run.complete |= decided && tally.is_at_look(&header.plan);
        Ok(Self { place, folder: Some(folder.to_owned()), run })
    }

    /// The run with the values of its communicators: of the document's visits, or of the journal's where those are bare.
    pub fn tallied(&self) -> Result<Tallied<'_>> {
        let mut tally = Tally::default();
        match self.journal_of_bare_visits()? {
            Some(journal) => tally = Tally::of(&journal)?,
            None => self.run.visits.iter().try_for_each(|visit| tally.add(visit))?,
        }
        Ok(Tallied { run: &self.run, tally })
    }

    /// The journal that has what visits measured, where the document was made from it and has bare visits.
    fn journal_of_bare_visits(&self) -> Result<Option<Journal>> {
        let bare = self.run.visits.iter().all(|visit| visit.replicates.is_empty());
        let folder = self.folder.as_deref().filter(|_| bare);
        folder.map(|folder| Ok(Journal::open(folder)?.0)).transpose()
    }

    /// Replaces host name, UUIDs, process ids and paths in the document, whose visits are completed from the journal first, and
    /// names the run `place`: where it lies tells as much.
    pub fn redact(&mut self, place: String) -> Result<()> {
        self.complete_visits()?;
        redact::redact(&mut self.run)?;
        self.place = place;
        Ok(())
    }

    /// Fills in what the visits measured, but their samples, where the document was made from a journal and has bare visits.
    pub fn complete_visits(&mut self) -> Result<()> {
        if let Some(journal) = self.journal_of_bare_visits()? {
            let visits = journal.entries().iter().map(|entry| {
                let mut visit = journal.read(entry)?;
                visit.replicates.iter_mut().for_each(|replicate| replicate.samples_us.clear());
                Ok(visit)
            });
            self.run.visits = visits.collect::<Result<_>>()?;
        }
        Ok(())
    }

    /// Hands over each visit in order, as whole as the run's files have it: with samples where there is a journal.
    pub fn each_visit(&self, take: &mut dyn FnMut(Visit) -> Result<()>) -> Result<()> {
        let Some(folder) = &self.folder else {
            return self.run.visits.iter().cloned().try_for_each(take);
        };
        let (journal, _) = Journal::open(folder)?;
        journal.entries().iter().try_for_each(|entry| take(journal.read(entry)?))
    }

    /// Quantiles at these shares, each visit's over all its samples of a case, by arm, case and place in `shares`.
    ///
    /// Only the journal has samples: nothing without one.
    pub fn quantiles(&self, shares: &[f64]) -> Result<HashMap<(Arm, usize, usize), stats::Cell>> {
        let Some(folder) = self.folder.as_deref().filter(|_| !shares.is_empty()) else { return Ok(HashMap::new()) };
        let (journal, _) = Journal::open(folder)?;
        let mut found: HashMap<(Arm, usize, usize), stats::Cell> = HashMap::new();
        for entry in journal.entries().iter().filter(|entry| entry.completed && !entry.untimed) {
            let mut samples: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for replicate in journal.read(entry)?.replicates {
                samples.entry(replicate.case).or_default().extend(replicate.samples_us);
            }
            for (case, samples) in samples.into_iter().filter(|(_, samples)| !samples.is_empty()) {
                let sample = Sample::new(samples)?;
                for (at, share) in shares.iter().enumerate() {
                    let of_visit = stats::Visit::new(entry.round, [sample.quantile(*share).0])?;
                    found.entry((entry.arm, case, at)).or_default().add(of_visit)?;
                }
            }
        }
        Ok(found)
    }
}

/// Refuses a document beside the journal of another run: either may be the one that was meant.
fn refuse_strangers(run: &Run, document: &Path, journal: &Path) -> Result<()> {
    let same = match journal::began(journal)? {
        Some((created, seed)) => (created, seed) == (run.header.created, run.header.plan.seed),
        // Without a header it is damaged, which the one who reads all of it says with its place.
        None => true,
    };
    if same {
        return Ok(());
    }
    let message = format!("{} and {} are of two runs", document.display(), journal.display());
    Err(Error::usage(message).help(format!(
        "a journal tells all of its run: remove the {} that was copied there, or the journal if that was",
        document::FILE
    )))
}

/// The document at `path`; `help` is the next step where it is none, or damaged.
fn read(path: &Path, help: &str) -> Result<Run> {
    let fault = || Error::usage(format!("cannot read the run {}", path.display()));
    let mut text = Vec::new();
    let unread = |error: std::io::Error| fault().because(error).help(help);
    // In a run's folder a pipe is nobody's; elsewhere a shell may have made one for this.
    let file = match path.file_name().is_some_and(|name| name == document::FILE) {
        true => regular::open(path, OpenOptions::new().read(true)),
        false => File::open(path),
    };
    let mut file = file.map_err(unread)?.take(MAX_DOCUMENT + 1);
    // What is no document is told by its beginning, before a gigabyte of it is in memory.
    file.by_ref().take(4096).read_to_end(&mut text).map_err(unread)?;
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(fault().because("it is no JSON object").help(help));
    }
    file.read_to_end(&mut text).map_err(unread)?;
    if text.len() as u64 > MAX_DOCUMENT {
        return Err(fault().help("it is larger than 1 GiB: is it the right file?"));
    }
    let run = serde_json::from_slice::<Run>(&text);
    // A document of another schema may be readable, and mean something else.
    #[derive(serde::Deserialize)]
    struct Claimed {
        schema: u32,
    }
    let claimed = match &run {
        Ok(run) => Some(run.header.schema),
        Err(_) => serde_json::from_slice::<Claimed>(&text).ok().map(|claimed| claimed.schema),
    };
    if let Some(schema) = claimed.filter(|schema| *schema != run::SCHEMA) {
        let message = format!("{} has schema {schema}; this ncclsweep reads {}", path.display(), run::SCHEMA);
        return Err(Error::usage(message).help("read it with the ncclsweep that wrote it"));
    }
    let run = run.map_err(|error| fault().because(error).help(help))?;
    valid::document(&run).map_err(|what| fault().because(what).help(help))?;
    Ok(run)
}

/// Entries that a journal has when this is its document.
fn entries(run: &Run) -> usize {
    run.visits.len() + run.pairs.len() + usize::from(run.floor.is_some())
}

/// Entries of a journal, by its lines alone: the first is its header, and a last one without an end was torn. A floor that was
/// measured again counts once.
fn lines(journal: &Path) -> Result<usize> {
    let failed = |error| Error::new(Kind::Usage, format!("cannot read {}", journal.display())).because(error);
    let mut file = File::open(journal).map_err(failed)?;
    let (mut buffer, mut start) = (vec![0; 1 << 16], Vec::<u8>::new());
    let (mut lines, mut floors) = (0_usize, 0_usize);
    loop {
        let length = file.read(&mut buffer).map_err(failed)?;
        if length == 0 {
            return Ok(lines.saturating_sub(1) - floors.saturating_sub(1));
        }
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest);
            let line = &rest[..end.unwrap_or(rest.len())];
            start.extend(line.iter().copied().take(FLOOR.len() - start.len()));
            if end.is_some() {
                lines += 1;
                floors += usize::from(start == FLOOR);
                start.clear();
            }
            rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::schedule::Rounds;
    use crate::record::fixture;
    use crate::record::floor::Floor;

    /// A folder with the document of `run` and the journal of its first `kept` visits.
    fn folder(run: &Run, kept: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path(), &run.header).unwrap();
        for visit in &run.visits[..kept] {
            journal.append(visit).unwrap();
        }
        std::fs::write(folder.path().join(document::FILE), serde_json::to_vec(run).unwrap()).unwrap();
        folder
    }

    #[test]
    fn a_run_is_read_from_its_folder_its_document_or_its_journal() {
        let run = fixture::two_sets();
        let folder = folder(&run, run.visits.len());
        for path in [folder.path().to_owned(), folder.path().join("run.json"), folder.path().join("journal.jsonl")] {
            let stored = Stored::load(&path).unwrap();
            assert_eq!((stored.run, stored.place), (run.clone(), path.display().to_string()));
        }
        let elsewhere = folder.path().join("golden.json");
        std::fs::rename(folder.path().join("run.json"), &elsewhere).unwrap();
        assert_eq!(Stored::load(&elsewhere).unwrap().run, run);
    }

    #[test]
    fn a_document_of_another_schema_is_refused_by_its_number_also_when_it_can_be_read() {
        let mut run = fixture::two_sets();
        run.header.schema = run::SCHEMA + 1;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(document::FILE);
        for text in [serde_json::to_string(&run).unwrap(), format!("{{\"schema\": {}}}", run::SCHEMA + 1)] {
            std::fs::write(&path, text).unwrap();
            let error = Stored::load(&path).unwrap_err();
            assert!(error.message().contains(&format!("has schema {}", run::SCHEMA + 1)), "{error}");
        }
    }

    #[test]
    fn quantiles_are_of_each_visit_and_only_where_samples_are() {
        let mut run = fixture::two_sets();
        for visit in &mut run.visits {
            for replicate in &mut visit.replicates {
                replicate.samples_us = (1..=100).map(|t| f64::from(t + visit.round)).collect();
                replicate.median_us = 50.5 + f64::from(visit.round);
                replicate.mean_us = replicate.median_us;
            }
        }
        let folder = folder(&run, run.visits.len());
        let found = Stored::load(folder.path()).unwrap().quantiles(&[0.5, 0.99]).unwrap();
        assert_eq!(found.len(), 2 * 4 * 2);
        let p99 = found[&(run.visits[0].arm, 2, 1)].typical().unwrap();
        assert!(p99.visits == 6 && p99.point > 101.0 && p99.point < 105.0, "{p99:?}");
        std::fs::remove_file(folder.path().join(journal::FILE)).unwrap();
        assert!(Stored::load(folder.path()).unwrap().quantiles(&[0.99]).unwrap().is_empty());
    }

    #[test]
    fn a_document_that_lags_behind_its_journal_is_made_anew() {
        let run = fixture::two_sets();
        let folder = folder(&run, 4);
        assert_eq!(Stored::load(folder.path()).unwrap().run.visits.len(), 4);
        std::fs::remove_file(folder.path().join("run.json")).unwrap();
        let stored = Stored::load(folder.path()).unwrap();
        assert_eq!((stored.run.visits.len(), stored.run.complete), (4, false));
        let mut of_rounds = run.clone();
        of_rounds.header.plan.rounds = Rounds::Fixed(2);
        let folder = self::folder(&of_rounds, 4);
        std::fs::remove_file(folder.path().join("run.json")).unwrap();
        assert!(Stored::load(folder.path()).unwrap().run.complete, "the journal has both rounds");
    }

    #[test]
    fn a_floor_that_was_measured_again_does_not_make_a_document_lag() {
        let run = fixture::two_sets();
        let folder = folder(&run, run.visits.len());
        let (started, seconds) = (run.header.created, 1.0);
        let floor = Floor { started, seconds, kernels: Vec::new(), hops: Vec::new(), failed: Some("it hung".into()) };
        let mut journal = Journal::reopen(folder.path()).unwrap().journal;
        journal.append_floor(floor.clone()).unwrap();
        journal.append_floor(floor.clone()).unwrap();
        let with = Run { floor: Some(floor), warnings: vec!["kept".into()], ..run };
        std::fs::write(folder.path().join(document::FILE), serde_json::to_vec(&with).unwrap()).unwrap();
        assert_eq!(Stored::load(folder.path()).unwrap().run.warnings, ["kept"]);
    }

    #[test]
    fn a_document_beside_the_journal_of_another_run_is_refused() {
        let run = fixture::two_sets();
        let mut other = run.clone();
        other.header.plan.seed += 1;
        let folder = folder(&run, run.visits.len());
        std::fs::write(folder.path().join(document::FILE), serde_json::to_vec(&other).unwrap()).unwrap();
        let error = Stored::load(folder.path()).unwrap_err();
        assert!(error.message().ends_with("are of two runs"), "{error}");
    }

    #[test]
    fn what_is_no_run_is_refused_with_what_a_run_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        assert!(Stored::load(folder.path()).unwrap_err().next_step().unwrap().contains("journal.jsonl"));
        std::fs::write(&path, r#"{"schema": 99, "cells": []}"#).unwrap();
        assert!(Stored::load(&path).unwrap_err().message().contains("has schema 99"));
        for other in ["[1, 2]", "", "\u{feff}{}"] {
            std::fs::write(&path, other).unwrap();
            assert!(Stored::load(&path).unwrap_err().message().starts_with("cannot read the run"), "{other:?}");
        }
    }

    #[test]
    fn a_damaged_document_beside_its_journal_is_said_to_be_there_twice() {
        let folder = folder(&fixture::two_sets(), 4);
        let path = folder.path().join(document::FILE);
        for (damage, next) in [("{\"schema\": 1", "--resume"), ("{\"schema\": 99}", "that wrote it")] {
            std::fs::write(&path, damage).unwrap();
            let error = Stored::load(folder.path()).unwrap_err();
            assert!(error.next_step().unwrap().contains(next), "{error:?}");
        }
    }
}
