//! Exports the profiler plugin's tables from the executable, where NCCL looks for them (`NCCL_PROFILER_PLUGIN=STATIC_PLUGIN`
//! makes it `dlopen(NULL)`), and from the integration tests, which look for them in the same way.

/// Versions of the profiler interface that `plugin/` implements.
const TABLES: [&str; 4] = ["ncclProfiler_v1", "ncclProfiler_v2", "ncclProfiler_v3", "ncclProfiler_v4"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for table in TABLES {
        for target in ["bins", "tests"] {
            println!("cargo:rustc-link-arg-{target}=-Wl,--export-dynamic-symbol={table}");
        }
    }
}
