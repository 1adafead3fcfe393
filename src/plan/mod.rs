//! What is to be measured: env sets, configuration files, the schedule of visits, the environment of each.

pub mod affinity;
pub mod checked;
pub mod config;
pub mod env_set;
pub mod environment;
pub mod inherited;
pub mod schedule;
pub mod settings;
