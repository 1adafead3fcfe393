//! `ncclsweep`: see the library's documentation.

// Linked for its symbols: NCCL looks the plugin's tables up in this executable.
use nccl_profiler_ncclsweep as _;

fn main() {}
