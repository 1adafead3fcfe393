//! Results as they are kept: [`visit`] (what one worker process found).

pub mod visit;
