//! Shared objects that belong to the executable: where they lie beside it.

use std::path::{Path, PathBuf};

/// The places in which a build or an installation leaves `file`: beside the executable, in `deps` of a build, in
/// `lib/ncclsweep` of an installation; last where it was built, since `cargo install` copies the executable alone.
pub fn places(file: &str) -> Vec<PathBuf> {
    // Of an executable whose file is gone only the last is left, never the working folder.
    let executable = std::env::current_exe().ok().and_then(|path| path.canonicalize().ok());
    let folder = executable.as_deref().and_then(Path::parent);
    let of_executable = folder.map(|folder| [folder.join("deps"), folder.to_owned(), folder.join("../lib/ncclsweep")]);
    let built = PathBuf::from(env!("NCCLSWEEP_BUILT_IN"));
    of_executable.into_iter().flatten().chain([built]).map(|place| place.join(file)).collect()
}

/// The first of them that is there, links and `..` resolved: it is compared with what the loader tells. Or all of them for a
/// message.
pub fn find(file: &str) -> Result<PathBuf, String> {
    let places = places(file);
    let real = |place: &PathBuf| place.canonicalize().ok().filter(|place| place.is_file());
    places.iter().find_map(real).ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        looked.join(", ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_nowhere_is_an_error_that_names_each_place() {
        let looked = find("libnothing.so").unwrap_err();
        assert_eq!(looked.matches("libnothing.so").count(), places("").len(), "{looked}");
        assert!(looked.contains("lib/ncclsweep"), "{looked}");
    }
}
