//! Results as they are kept: [`visit`] (what one worker process found), [`run`] (the document of a whole run), [`journal`]
//! (visits on disk, synced as each ends), [`summary`] (visits → cells), [`redact`].

#[cfg(test)]
pub(crate) mod fixture;
pub mod journal;
pub mod redact;
pub mod run;
pub mod summary;
pub mod visit;
