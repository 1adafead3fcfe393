//! The committed inputs of the fuzz targets, through the functions that the fuzzer calls.

// As the fuzzer's crate has it; that crate is apart from the workspace, since it needs other compilers.
#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::path::Path;

#[test]
fn every_target_holds_for_its_committed_inputs_and_for_each_of_them_cut() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    for (target, _) in targets::TARGETS {
        let inputs = std::fs::read_dir(folder.join(target)).unwrap_or_else(|_| panic!("{target} has no inputs"));
        let mut seen = 0;
        for input in inputs {
            let path = input.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            assert!(bytes.len() < 64 << 10, "{} is large: commit small inputs", path.display());
            println!("{}", path.display());
            targets::check(target, &bytes);
            for eighth in 1..8 {
                targets::check(target, &bytes[..bytes.len() * eighth / 8]);
            }
            seen += 1;
        }
        assert!(seen > 0, "{target} has no inputs");
    }
}

#[test]
fn every_folder_of_inputs_belongs_to_a_target_of_the_fuzzer() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let names = |folder: &str| {
        let entries = std::fs::read_dir(fuzz.join(folder)).unwrap();
        let stem = |path: std::path::PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut names: Vec<String> = entries.map(|entry| stem(entry.unwrap().path())).collect();
        names.sort();
        names
    };
    let known = targets::TARGETS.map(|(name, _)| name.to_owned());
    assert_eq!(names("seeds"), known);
    assert_eq!(names("fuzz_targets"), known);
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    assert!(known.iter().all(|name| manifest.contains(&format!("name = \"{name}\""))));
}
