//! What a run looks like: [`table`] for people at a terminal, [`machine`] for programs and documents.
//!
//! Formatters are pure: they work from a [`Run`](crate::record::run::Run), measured now or read from a file, and need no GPU.

pub mod accept;
mod cells;
pub mod compare;
mod conclusion;
mod findings;
mod head;
pub mod impact;
mod ink;
pub mod machine;
mod sheet;
mod suspects;
pub mod table;
pub mod why;

pub use ink::{Style, steers};
pub use machine::{Format, write};
