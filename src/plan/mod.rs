//! What is to be measured: env sets, configuration files, the schedule of visits.

pub mod config;
pub mod env_set;
pub mod settings;
