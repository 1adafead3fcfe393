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
pub mod pairs;
mod sheet;
pub mod table;
pub mod topology;
pub mod why;

pub use ink::Style;
pub use machine::{Format, write};
