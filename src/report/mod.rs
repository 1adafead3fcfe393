//! What a run looks like: [`table`] for people at a terminal, [`html`] for those who look at plots, [`machine`] for programs
//! and documents.
//!
//! Formatters are pure: they work from a [`Run`](crate::record::run::Run), measured now or read from a file, and need no GPU.

pub mod accept;
pub mod audit;
mod cells;
pub mod compare;
mod conclusion;
pub mod doctor;
mod findings;
pub mod floor;
mod form;
mod head;
pub mod html;
pub mod impact;
mod ink;
pub mod machine;
pub mod pairs;
mod sheet;
mod suspects;
pub mod table;
pub mod timings;
pub mod topology;
pub mod why;

pub use form::Form;
pub use ink::{Style, steers};
pub use machine::{Format, write};
