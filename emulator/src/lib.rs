//! Stands in for `libcuda.so.1`, `libnccl.so.2` and `libnvidia-ml.so.1`, so that ncclsweep runs and is tested without a
//! GPU.
//!
//! One shared object answers under all three names. It exports the C functions of the CUDA driver, NCCL and NVML that the
//! worker calls, reads NCCL's environment the way NCCL reads it, reduces real data in host memory, and keeps *virtual
//! time*: a collective takes as long as the cost model of the emulated box says, times seeded noise, and
//! `clock_gettime(CLOCK_MONOTONIC_RAW)` tells that time. Nothing here is a measurement of hardware.
//!
//! Everything is steered by the variables `NCCLSWEEP_EMULATE_*` (module `settings`); an unknown name or value makes `cuInit`
//! fail.

mod abi;
mod ailment;
mod clock;
mod cuda;
mod engine;
mod fault;
mod nccl;
mod noise;
mod nvml;
mod remote;
mod settings;
mod topology;
