//! NCCL profiler plugin: notes which algorithm, protocol, channels and warps NCCL used for each collective.
//!
//! One crate, two forms. Linked into an executable that exports `ncclProfiler_v1` … `ncclProfiler_v4`, it is loaded by
//! `NCCL_PROFILER_PLUGIN=STATIC_PLUGIN` and read through [`recorder`]. As a shared library it is what other processes load
//! by its path; it then writes a [`journal`]. NCCL 2.23 to 2.32 find one of the four versions; older ones have no profiler
//! plugins.
//!
//! The plugin keeps out of the way of what it watches: it holds no handle of NCCL's, never fails, never unwinds, and while
//! its mask is off NCCL does not announce a collective at all.
//!
//! ```no_run
//! use nccl_profiler_ncclsweep::recorder;
//!
//! recorder::set_mask(true); // between barriers: no rank is inside NCCL
//! // … one collective on each rank …
//! recorder::set_mask(false); // between barriers again
//! for collective in recorder::take().collectives {
//!     println!("rank {}: {} {}", collective.rank, collective.algorithm, collective.protocol);
//! }
//! ```

pub mod abi;
mod audit;
mod descriptor;
pub mod exports;
mod handle;
pub mod journal;
pub mod name;
pub mod recorder;
