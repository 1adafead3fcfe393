//! What NCCL reads, logs and accepts, as data and readers: variables, log lines, configuration files, versions.

pub mod bystander;
pub mod catalogue;
pub mod check;
pub mod conf;
pub mod levels;
pub mod lists;
pub mod log;
pub mod number;
pub mod profiler;
pub mod register;
pub mod shm;
pub mod unset;
pub mod version;
pub mod words;

/// Whether NCCL may read an environment variable of this name.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    name.starts_with("NCCL_")
}
