//! Exports the test programs' profiler plugin, so that `NCCL_PROFILER_PLUGIN=STATIC_PLUGIN` finds it in them.

fn main() {
    for version in 1..=4 {
        println!("cargo:rustc-link-arg-tests=-Wl,--export-dynamic-symbol=ncclProfiler_v{version}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
