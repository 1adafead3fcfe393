//! Results as they are kept: [`visit`] (what one worker process found), [`journal`] (visits on disk, synced as each ends),
//! [`summary`] (visits → cells), [`run`] and [`document`] (the summary of a whole run).

mod brought;
pub mod document;
pub mod drift;
pub mod file;
#[cfg(test)]
pub(crate) mod fixture;
pub mod floor;
pub mod journal;
pub mod look;
pub mod observed;
pub mod outcome;
pub mod pairs;
pub mod proofs;
pub mod redact;
pub mod registration;
pub mod run;
pub mod schema;
pub mod stored;
pub mod summary;
pub mod timings;
mod valid;
pub mod visit;
