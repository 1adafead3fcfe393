use super::*;
use crate::record::fixture;
use crate::record::run::Run;
use crate::record::visit::{Among, Checks, Outcome, WrongElement};

/// A made-up run whose replicates have samples, as those of a journal do.
fn run() -> Run {
    let mut run = fixture::two_sets();
    for visit in &mut run.visits {
        for replicate in &mut visit.replicates {
            replicate.samples_us = vec![48.4, 0.1 + 0.2, 47.9];
            (replicate.mean_us, replicate.median_us) = ((48.4 + (0.1 + 0.2) + 47.9) / 3.0, 47.9);
        }
    }
    run
}

/// A journal of the first visits of [`run`], closed again.
fn written(folder: &Path, visits: usize) -> Run {
    let run = run();
    let mut journal = Journal::create(folder, &run.header).unwrap();
    run.visits.iter().take(visits).for_each(|visit| journal.append(visit).unwrap());
    run
}

fn tail(folder: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(folder.join(FILE)).unwrap().write_all(bytes).unwrap();
}

#[test]
fn visits_come_back_as_they_were_written_samples_to_the_last_bit() {
    let folder = tempfile::tempdir().unwrap();
    let run = written(folder.path(), 4);
    let (journal, header) = Journal::open(folder.path()).unwrap();
    assert_eq!(header, run.header);
    assert_eq!(journal.entries().len(), 4);
    for (entry, visit) in journal.entries().iter().zip(&run.visits) {
        assert_eq!((entry.index, entry.round, entry.arm), (visit.index, visit.round, visit.arm));
        assert_eq!(journal.read(entry).unwrap(), *visit);
    }
}

#[test]
fn an_entry_says_whether_its_visit_completed() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = run();
    run.visits[1].outcome = Outcome::WrongData;
    let mut journal = Journal::create(folder.path(), &run.header).unwrap();
    run.visits[..2].iter().for_each(|visit| journal.append(visit).unwrap());
    assert_eq!(journal.entries().iter().map(|entry| entry.completed).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_torn_last_line_is_cut_off_at_whatever_byte_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let run = written(folder.path(), 2);
    let (journal, _) = Journal::open(folder.path()).unwrap();
    let (first, second) = (journal.entries()[0], journal.entries()[1]);
    let whole = std::fs::read(folder.path().join(FILE)).unwrap();
    for kept in [1, second.length / 2, second.length - 1] {
        std::fs::write(folder.path().join(FILE), &whole[..(second.offset + kept) as usize]).unwrap();
        let mut reopened = Journal::reopen(folder.path()).unwrap();
        let said = reopened.repaired.unwrap();
        assert!(said.contains(&format!("{kept} bytes cut off, 1 visits kept")), "{said}");
        assert_eq!(reopened.journal.entries(), [first]);
        reopened.journal.append(&run.visits[1]).unwrap();
        assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), whole, "the run goes on where it was torn");
    }
}

#[test]
fn reading_leaves_a_torn_line_out_and_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 1);
    tail(folder.path(), b"{\"visit\":{\"ind");
    let before = std::fs::read(folder.path().join(FILE)).unwrap();
    assert_eq!(Journal::open(folder.path()).unwrap().0.entries().len(), 1);
    assert_eq!(std::fs::read(folder.path().join(FILE)).unwrap(), before);
}

#[test]
fn a_journal_that_was_closed_in_order_needs_no_repair() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 1);
    assert_eq!(Journal::reopen(folder.path()).unwrap().repaired, None);
}

#[test]
fn damage_before_the_last_line_is_told_with_its_place_and_never_skipped() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 1);
    let place = std::fs::metadata(folder.path().join(FILE)).unwrap().len();
    tail(folder.path(), b"no visit\n");
    for error in [Journal::reopen(folder.path()).unwrap_err(), Journal::open(folder.path()).unwrap_err()] {
        assert!(error.message().contains(&format!("damaged at byte {place}")), "{error}");
    }
}

#[test]
fn a_header_stands_first_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    written(folder.path(), 1);
    let text = std::fs::read_to_string(&path).unwrap();
    let (header, visit) = text.split_once('\n').unwrap();
    for (text, told) in [
        (String::new(), "no header"),
        (header[..40].to_owned(), "no header"),
        (visit.to_owned(), "not the first line"),
        (format!("{header}\n{header}\n"), "stands twice"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Journal::open(folder.path()).unwrap_err();
        assert!(error.message().contains(told), "{error}");
        let kept = error.next_step().is_some_and(|help| help.contains("head -c"));
        assert_eq!(kept, told == "stands twice", "{error:?}");
    }
}

#[test]
fn a_newer_schema_is_refused_by_its_number_whatever_else_the_header_holds() {
    let folder = tempfile::tempdir().unwrap();
    let mut header = run().header;
    header.schema = SCHEMA + 1;
    drop(Journal::create(folder.path(), &header).unwrap());
    let as_now = Journal::open(folder.path()).unwrap_err();
    std::fs::write(folder.path().join(FILE), format!("{{\"header\":{{\"schema\":{},\"new\":1}}}}\n", SCHEMA + 1))
        .unwrap();
    let unreadable = Journal::open(folder.path()).unwrap_err();
    for error in [as_now, unreadable] {
        assert!(
            error.message().contains(&format!("has schema {}; this ncclsweep reads {SCHEMA}", SCHEMA + 1)),
            "{error}"
        );
    }
}

#[test]
fn a_folder_takes_one_run_and_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let header = run().header;
    let journal = Journal::create(folder.path(), &header).unwrap();
    let second = Journal::create(folder.path(), &header).unwrap_err();
    assert!(second.message().contains("already holds a run"), "{second}");
    let beside = Journal::reopen(folder.path()).unwrap_err();
    assert_eq!(beside.kind(), Kind::Usage);
    assert!(beside.message().contains("another ncclsweep is writing"), "{beside}");
    assert_eq!(Journal::open(folder.path()).unwrap().0.entries(), [], "reading needs no lock");
    drop(journal);
    Journal::reopen(folder.path()).unwrap();
}

#[test]
fn a_folder_whose_run_was_killed_before_it_began_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let whole = written(folder.path(), 0).header;
    let bytes = std::fs::read(folder.path().join(FILE)).unwrap();
    assert!(bytes.starts_with(BEGINNING));
    for kept in [0, 1, BEGINNING.len() + 1, bytes.len() - 1] {
        std::fs::write(folder.path().join(FILE), &bytes[..kept]).unwrap();
        let error = Journal::reopen(folder.path()).unwrap_err();
        assert!(error.next_step().unwrap().contains("start it anew"), "{error}");
        drop(Journal::create(folder.path(), &whole).unwrap());
        assert_eq!(Journal::open(folder.path()).unwrap().1, whole, "{kept} bytes were there");
    }
    for other in ["{}", "notes of mine", "{\"header\":1}\n"] {
        std::fs::write(folder.path().join(FILE), other).unwrap();
        assert!(Journal::create(folder.path(), &whole).unwrap_err().message().contains("already holds"), "{other}");
        assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), other);
    }
}

#[test]
fn a_visit_that_cannot_be_written_is_no_entry_and_the_next_step_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = written(folder.path(), 1);
    let mut journal = Journal::reopen(folder.path()).unwrap().journal;
    // Every write to this device fails as on a full disk.
    journal.file = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let error = journal.append(&run.visits[1]).unwrap_err();
    assert_eq!(error.kind(), Kind::Incomplete);
    assert!(error.message().starts_with("cannot write to"), "{error}");
    assert!(error.next_step().unwrap().contains("--resume"));
    assert_eq!(journal.entries().len(), 1);
    assert_eq!(Journal::open(folder.path()).unwrap().0.entries().len(), 1);
}

#[test]
fn a_folder_without_a_journal_is_told_what_a_run_is() {
    let folder = tempfile::tempdir().unwrap();
    let error = Journal::open(folder.path()).unwrap_err();
    assert!(error.next_step().unwrap().contains("journal.jsonl"));
}

#[test]
fn a_folder_that_vanishes_under_a_run_is_an_error_of_the_next_visit() {
    let folder = tempfile::tempdir().unwrap();
    let run = fixture::two_sets();
    let mut journal = Journal::create(folder.path(), &run.header).unwrap();
    journal.append(&run.visits[0]).unwrap();
    let elsewhere = folder.path().join("moved");
    std::fs::rename(folder.path().join(FILE), &elsewhere).unwrap();
    let error = journal.append(&run.visits[1]).unwrap_err();
    assert_eq!(error.kind(), Kind::Incomplete);
    assert!(error.message().contains(FILE), "{error}");
    std::fs::write(folder.path().join(FILE), "").unwrap();
    assert!(journal.append(&run.visits[2]).unwrap_err().message().contains("replaced"));
}

#[test]
fn a_visit_that_stands_twice_or_out_of_order_is_damage() {
    for order in [[0, 0], [1, 0]] {
        let folder = tempfile::tempdir().unwrap();
        let run = run();
        let mut journal = Journal::create(folder.path(), &run.header).unwrap();
        for visit in order {
            journal.append(&run.visits[visit]).unwrap();
        }
        let error = Journal::open(folder.path()).unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.message().contains("is damaged at byte"), "{error}");
    }
}

#[test]
fn a_visit_takes_no_more_of_a_line_than_is_counted_for_it() {
    let mut visit = run().visits.remove(0);
    let wrong = WrongElement {
        rank: 1023,
        among: Among::Timed,
        call: u32::MAX,
        element: u64::MAX,
        found: "-1.7976931348623157e308".into(),
        expected: "-1.7976931348623157e308".into(),
    };
    for replicate in &mut visit.replicates {
        (replicate.communicator, replicate.warm_up_calls) = (u32::MAX, u32::MAX);
        (replicate.mean_us, replicate.median_us) = (1.2345678901234567e-5, 1.2345678901234567e-5);
        replicate.checks = Checks { outputs: u64::MAX, wrong: u64::MAX, first_wrong: Some(Box::new(wrong.clone())) };
        replicate.samples_us = vec![1.2345678901234567e-5; 100];
    }
    let bytes = |visit: &Visit| serde_json::to_vec(visit).unwrap().len() as u64;
    let whole = bytes(&visit);
    let replicates = std::mem::take(&mut visit.replicates).len() as u64;
    let counted = replicates * (REPLICATE + 100 * SAMPLE);
    assert!(whole - bytes(&visit) <= counted, "{} of {counted} bytes", whole - bytes(&visit));
    assert!(holds(24, 480) && !holds(1000, 10_000_000) && !holds(u64::MAX, 0));
}
