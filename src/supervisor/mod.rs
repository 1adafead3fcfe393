//! The supervisor: finds libraries ([`library`]), looks at the box through a probe ([`prepare`]), starts a worker per visit,
//! or one per rank ([`crew`]), on several hosts together with other [`agents`], watches them, records what it found ([`sweep`]).
//!
//! It never loads CUDA, NCCL or NVML: no fault of a driver can take it, or the results, down.

pub mod agents;
pub mod audited;
pub mod awake;
pub mod bench;
mod beside;
pub mod child;
pub mod crew;
pub mod deadlines;
pub mod diagnose;
pub mod dispositions;
pub mod emulator;
pub mod floor;
mod forwarded;
pub mod health;
pub mod isolate;
pub mod library;
pub mod look;
pub mod nccl_log;
pub mod pairs;
pub mod prepare;
pub mod private;
pub mod process;
pub mod provenance;
pub mod python;
mod risk;
pub mod sweep;
pub mod visit;
mod watch;
pub mod wiring;
