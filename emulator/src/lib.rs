//! Stands in for `libcuda.so.1`, `libnccl.so.2` and `libnvidia-ml.so.1`.
