//! `ncclsweep`: see the library's documentation.

// Linked for its symbols: NCCL looks the profiler plugin's tables up in this executable.
use nccl_profiler_ncclsweep as _;

use ncclsweep::cli;

fn main() -> cli::Exit {
    cli::main()
}
