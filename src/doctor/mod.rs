//! A look at what surrounds a measurement: this [`machine`], a [`conf`] file, running [`process`]es, a server's [`log`],
//! a [`python`] environment. Each look gives a [`Checkup`]: checks that are ok, a warning, a fault or unknown, each with what
//! was seen and what to do next.
//!
//! Facts come from `/proc` and `/sys`, and from callers that may look further (a probe of the driver, the discovery of
//! libraries). What cannot be read is unknown, never a guess.

mod checklist;
pub mod conf;
mod files;
pub mod log;
pub mod machine;
pub mod process;
pub mod python;
mod tap;

use checklist::SCHEMA;
pub use checklist::{Check, Checkup, Details, Status};
