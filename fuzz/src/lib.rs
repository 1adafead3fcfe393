//! What must hold of every reader for any input: one function per fuzz target, [`TARGETS`].
//!
//! The fuzzer calls them with inputs of its own; `tests/corpora.rs` of the product compiles this same file and calls them with
//! the committed inputs, so that neither can rot. An input that is refused must be refused with an error that a person can
//! use; one that is read must print as what it was read as; of one that is cut, nothing may be taken for more than was there.

mod edits;
mod files;
mod grammars;
mod imports;
mod logs;
mod topologies;

use std::time::Duration;

use ncclsweep::error::Error;

/// A target: its name, and what must hold of any input.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 13] = [
    ("accept_plan", grammars::accept_plan),
    ("conf", logs::conf),
    ("config", grammars::config),
    ("journal", files::journal),
    ("lists", grammars::lists),
    ("log", logs::log),
    ("nccl_tests", imports::nccl_tests),
    ("nvidia_smi", topologies::nvidia_smi),
    ("proof", logs::proof),
    ("run_json", files::run_json),
    ("sizes", grammars::sizes),
    ("topology_xml", topologies::xml),
    ("wire", files::wire),
];

/// Longest time that one input may take on the processor, also where nothing is optimised; every input is shorter than 64 KiB.
const LONGEST: Duration = Duration::from_secs(5);

/// Checks one input for the target of this name.
///
/// # Panics
/// When something does not hold, or there is no such target.
pub fn check(target: &str, input: &[u8]) {
    let (_, holds) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target");
    let begun = on_processor();
    holds(input);
    let took = on_processor().saturating_sub(begun);
    assert!(took < LONGEST, "{} bytes took {took:?}", input.len());
}

/// How long this thread has been on a processor: a busy machine makes nothing slower by this clock.
fn on_processor() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = spent.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// The input as text; nothing when it is none.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// What an error must have: a message, a place within the text it is about, and a form that can be shown.
fn refused(error: &Error, text: &str) {
    assert!(!error.message().is_empty());
    if let Some(span) = error.span() {
        assert!(span.start <= span.end && span.end <= text.len(), "{span:?} of {} bytes", text.len());
        assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end), "{span:?} cuts a character");
    }
    let mut shown = String::new();
    let handler = miette::NarratableReportHandler::new();
    handler.render_report(&mut shown, error).expect("an error can be shown");
    assert!(shown.contains(error.message().lines().next().unwrap_or_default()));
}
