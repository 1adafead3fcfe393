//! `ncclsweep`: how fast is all-reduce on this box, which NCCL settings make it faster, did they take effect, is the data
//! right, and is it still so after the next driver?
//!
//! Modules stand on floors and import only downwards; `docs/floors.txt` has the table. The way of one size:
//! flag → [`collective`] → [`plan`] → [`wire`] → [`worker`] → [`stats`] → [`record`] → report.

pub mod accept;
pub mod audit;
pub mod cli;
pub mod collective;
pub mod compare;
pub mod doctor;
pub mod error;
pub mod export;
pub mod gpu;
pub mod impact;
pub mod import;
pub mod locks;
pub mod nccl;
pub mod nearest;
pub mod pairs;
pub mod plan;
pub mod proof;
pub mod record;
pub mod regular;
pub mod report;
pub mod stats;
pub mod supervisor;
pub mod topology;
pub mod units;
pub mod wire;
pub mod worker;
