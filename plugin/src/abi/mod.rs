//! NCCL's plugin interfaces as Rust types: profiler versions 1 to 5, tuner versions 1 to 6.
//!
//! `bindings.rs` is made from `include/*.h`, headers of this project, by the binary `regenerate-bindings`. The names are
//! NCCL's; only the unions of the event descriptors, which have no name in NCCL, are called `event`.

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
mod bindings;
pub use bindings::*;

/// The layout NCCL was compiled with, measured with a C++ compiler on NCCL's own headers (v2.27.7-1, v2.28.9-1, v2.30.7-1; x86-64).
#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Offsets of fields of a type, and its size.
    macro_rules! assert_layout {
        ($type:ty, size $size:literal $(, $($field:ident).+ at $offset:literal)*) => {
            assert_eq!(size_of::<$type>(), $size, "size of {}", stringify!($type));
            $(assert_eq!(offset_of!($type, $($field).+), $offset, "{}.{}", stringify!($type), stringify!($($field).+));)*
        };
    }

    #[test]
    fn descriptors_of_version_1_are_laid_out_as_in_nccl() {
        assert_layout!(ncclProfilerEventDescr_v1_t, size 120, parentObj at 8, rank at 16, event.coll at 24,
            event.coll.commHash at 32, event.coll.seqNumber at 40, event.coll.func at 48, event.coll.count at 72,
            event.coll.datatype at 84, event.coll.nMaxChannels at 104, event.coll.nWarps at 105, event.coll.algo at 106,
            event.coll.proto at 107, event.coll.isNvls at 112, event.proxyOp.isSend at 44);
        assert_layout!(ncclProfilerEventStateArgs_v1_t, size 16);
        assert_layout!(ncclProfiler_v1_t, size 48, init at 8, finalize at 40);
    }

    #[test]
    fn descriptors_of_version_2_are_laid_out_as_in_nccl() {
        assert_layout!(ncclProfilerEventDescr_v2_t, size 128, rank at 16, event.coll.commHash at 32,
            event.coll.seqNumber at 40, event.coll.func at 48, event.coll.count at 72, event.coll.datatype at 88,
            event.coll.nMaxChannels at 104, event.coll.nWarps at 105, event.coll.algo at 112, event.coll.proto at 120,
            event.proxyOp.isSend at 44);
        assert_layout!(ncclProfiler_v2_t, size 48, init at 8, finalize at 40);
    }

    #[test]
    fn descriptors_of_version_3_are_laid_out_as_in_nccl() {
        assert_layout!(ncclProfilerEventDescr_v3_t, size 120, rank at 16, event.coll.commHash at 32,
            event.coll.seqNumber at 40, event.coll.func at 48, event.coll.count at 72, event.coll.datatype at 88,
            event.coll.nMaxChannels at 96, event.coll.nWarps at 97, event.coll.algo at 104, event.coll.proto at 112,
            event.proxyOp.isSend at 44);
        assert_layout!(ncclProfiler_v3_t, size 48, init at 8, finalize at 40);
    }

    #[test]
    fn descriptors_of_version_4_are_laid_out_as_in_nccl() {
        assert_layout!(ncclProfilerEventDescr_v4_t, size 104, rank at 16, event.coll.seqNumber at 24,
            event.coll.func at 32, event.coll.count at 56, event.coll.datatype at 72, event.coll.nChannels at 80,
            event.coll.nWarps at 81, event.coll.algo at 88, event.coll.proto at 96, event.proxyOp.isSend at 44);
        assert_layout!(ncclProfilerEventStateArgs_v4_t, size 8);
        assert_layout!(ncclProfiler_v4_t, size 48, init at 8, finalize at 40);
    }

    #[test]
    fn descriptors_of_version_5_are_laid_out_as_in_nccl() {
        assert_layout!(ncclProfilerEventDescr_v5_t, size 112, parentObj at 8, rank at 16, event.coll.seqNumber at 24,
            event.coll.func at 32, event.coll.count at 56, event.coll.datatype at 72, event.coll.nChannels at 80,
            event.coll.nWarps at 81, event.coll.algo at 88, event.coll.proto at 96, event.coll.parentGroup at 104,
            event.collApi.func at 24, event.collApi.count at 32, event.collApi.graphCaptured at 64,
            event.groupApi.groupDepth at 28, event.proxyOp.isSend at 44);
        assert_layout!(ncclProfiler_v5_t, size 48, init at 8, finalize at 40);
    }

    #[test]
    fn tuner_tables_are_laid_out_as_in_nccl() {
        assert_layout!(ncclTuner_v1_t, size 32, destroy at 24);
        assert_layout!(ncclTuner_v2_t, size 32, destroy at 24);
        assert_layout!(ncclTuner_v3_t, size 32, destroy at 24);
        assert_layout!(ncclTuner_v4_t, size 32, destroy at 24);
        assert_layout!(ncclTuner_v5_t, size 32, finalize at 24);
        assert_layout!(ncclTuner_v6_t, size 40, finalize at 24, getChunkSize at 32);
        assert_layout!(ncclTunerConstants_v5_t, size 1152, llMaxBws at 672, perChMaxNVLSTreeBws at 1056);
        assert_layout!(ncclNvlDomainInfo_v5_t, size 12);
    }
}
