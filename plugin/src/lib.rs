//! NCCL profiler plugin: notes what NCCL used for each collective.
