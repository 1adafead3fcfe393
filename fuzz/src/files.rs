//! What ncclsweep writes itself: the wire, the journal, the document. Anybody may have changed a file meanwhile.

use std::fmt::Debug;
use std::path::Path;

use ncclsweep::compare;
use ncclsweep::record::journal::{self, Journal};
use ncclsweep::record::run::Run;
use ncclsweep::record::stored::Stored;
use ncclsweep::record::summary::Tally;
use ncclsweep::record::{document, redact};
use ncclsweep::report::{self, Format, Style};
use ncclsweep::wire::{self, Event, Job, Probe, Question, Received};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::edits::edited;

const EVENTS: &str = include_str!("../seeds/wire/events");
const JOURNAL: &str = include_str!("../seeds/journal/run.jsonl");
const DOCUMENT: &str = include_str!("../seeds/run_json/run.json");

/// The wire: a message reads back as what was sent, one that is torn is the end.
pub fn wire(input: &[u8]) {
    let input = &*edited(EVENTS, input);
    stream::<Event>(input);
    stream::<Job>(input);
    stream::<Question>(input);
    stream::<Probe>(input);
}

fn stream<T: Serialize + DeserializeOwned + PartialEq + Debug>(mut input: &[u8]) {
    let lines = input.iter().filter(|byte| **byte == b'\n').count();
    for _ in 0..=lines {
        match wire::receive::<T>(&mut input).expect("memory can be read") {
            Received::End => return,
            Received::Garbage(why) => assert!(!why.is_empty() && why.len() < 2000, "{} bytes", why.len()),
            Received::Message(message) => {
                let mut line = Vec::new();
                wire::send(&mut line, &message).expect("what was received can be sent");
                assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
                let again = wire::receive::<T>(&mut line.as_slice()).expect("memory can be read");
                assert_eq!(again, Received::Message(message));
                line.pop();
                let torn = wire::receive::<T>(&mut line.as_slice()).expect("memory can be read");
                assert_eq!(torn, Received::End, "a torn line is the end of who wrote it");
            }
        }
    }
}

/// A journal: what opens can be counted, judged and shown; cut anywhere it keeps the visits before.
pub fn journal(input: &[u8]) {
    let input = &*edited(JOURNAL, input);
    with_file(journal::FILE, input, |folder| {
        let Ok((journal, header)) = Journal::open(folder) else { return };
        let visits = journal.entries().len();
        let tally = Tally::of(&journal).expect("what opens can be counted");
        let run = document::make(&header, &journal, &tally, false).expect("what can be counted can be judged");
        shown(&run);
        let whole = input.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let before = input[..whole.saturating_sub(1)].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        drop(journal);
        // Torn within its last line.
        std::fs::write(folder.join(journal::FILE), &input[..before + (whole - before) / 2]).expect("a file");
        match Journal::reopen(folder) {
            Ok(again) => assert_eq!(again.journal.entries().len(), visits.saturating_sub(1)),
            Err(_) => assert_eq!(before, 0, "only without its header a torn journal does not open"),
        }
    });
}

/// A document: what is read can be shown in every form, compared with itself, redacted, and reads back as itself.
pub fn run_json(input: &[u8]) {
    with_file(document::FILE, &edited(DOCUMENT, input), |folder| {
        let Ok(stored) = Stored::load(&folder.join(document::FILE)) else { return };
        shown(&stored.run);
        let text = serde_json::to_vec(&stored.run).expect("a run can be stored");
        assert_eq!(serde_json::from_slice::<Run>(&text).expect("a stored run is read"), stored.run);
        assert!(serde_json::from_slice::<Run>(&text[..text.len() - 1]).is_err(), "a document that is cut is none");
        let mut redacted = stored.run.clone();
        redact::redact(&mut redacted).expect("a run can be redacted");
        if let Ok(comparison) = compare::compare(&stored, &stored, None) {
            for format in [Format::Table, Format::Json, Format::Csv, Format::Markdown, Format::Html] {
                _ = report::compare::write(&comparison, [&stored; 2], format, Style::default(), &mut Vec::new());
            }
        }
    });
}

fn shown(run: &Run) {
    let stored = Stored { place: "run".to_owned(), folder: None, run: run.clone() };
    for format in Format::ALL {
        let runs = std::slice::from_ref(&stored);
        report::write(runs, format, Style::default(), &mut Vec::new()).expect("a run can be shown");
    }
    _ = report::why::render(run, Style::default());
}

/// Calls `with` with a folder in memory that has the input as this file.
fn with_file(name: &str, input: &[u8], with: impl Fn(&Path)) {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir_in("/dev/shm").expect("a folder");
    }
    FOLDER.with(|folder| {
        std::fs::write(folder.path().join(name), input).expect("a file");
        with(folder.path());
    });
}
