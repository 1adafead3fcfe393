//! Exports the profiler plugin's tables from the executable, where NCCL looks for them (`NCCL_PROFILER_PLUGIN=STATIC_PLUGIN`
//! makes it `dlopen(NULL)`), and from the integration tests, which look for them in the same way.

/// Versions of the profiler interface that `plugin/` implements.
const TABLES: [&str; 4] = ["ncclProfiler_v1", "ncclProfiler_v2", "ncclProfiler_v3", "ncclProfiler_v4"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // `target/PROFILE/build/NAME/out`: `deps`, with the emulator in it, lies three folders up. An executable that
    // `cargo install --path .` copies away finds it there.
    let out = std::env::var_os("OUT_DIR").map(std::path::PathBuf::from).unwrap_or_default();
    let built = out.ancestors().nth(3).unwrap_or(&out).join("deps");
    println!("cargo:rustc-env=NCCLSWEEP_BUILT_IN={}", built.display());
    for table in TABLES {
        for target in ["bins", "tests"] {
            println!("cargo:rustc-link-arg-{target}=-Wl,--export-dynamic-symbol={table}");
        }
    }
}
