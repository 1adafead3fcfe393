//! What NCCL reads, logs and accepts, as data and readers: variables, log lines, configuration files, versions.

pub mod log;
pub mod version;
pub mod words;
