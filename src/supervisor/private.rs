//! The private folder of a run: library links for the workers and their logs while they run. Mode 0700, gone afterwards.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::{Error, Kind, Result};

/// Names by which programs ask for NCCL. cudarc asks for the first only, and takes no path.
const NCCL_NAMES: [&str; 2] = ["libnccl.so", "libnccl.so.2"];
/// Names by which programs ask for the driver and its management library.
const DRIVER_NAMES: [&str; 4] = ["libcuda.so", "libcuda.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1"];

/// The folder.
#[derive(Debug)]
pub struct Private(TempDir);

impl Private {
    /// Makes it in the system's folder for temporary files.
    pub fn create() -> Result<Self> {
        let owner_alone = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("ncclsweep-").permissions(owner_alone).tempdir();
        made.map(Self).map_err(|error| {
            let place = std::env::temp_dir();
            Error::new(Kind::Environment, format!("cannot make a private folder in {}", place.display()))
                .because(error)
                .help("set TMPDIR to a folder that can be written to")
        })
    }

    /// A folder in which the names of NCCL lead to `library`; of the driver too when it is the emulator.
    pub fn library_folder(&self, index: usize, library: &Path, emulator: bool) -> Result<PathBuf> {
        let folder = self.0.path().join(format!("library-{index}"));
        let names = NCCL_NAMES.iter().chain(if emulator { DRIVER_NAMES.as_slice() } else { &[] });
        let linked = std::fs::create_dir(&folder)
            .and_then(|()| names.into_iter().try_for_each(|name| symlink(library, folder.join(name))));
        linked.map_err(|error| {
            Error::new(Kind::Environment, format!("cannot link {} in {}", library.display(), folder.display()))
                .because(error)
        })?;
        Ok(folder)
    }

    /// What stands for `/` where the box is emulated.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.file("root")
    }

    /// A file in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn nccl_is_found_by_both_its_names_and_the_driver_is_the_systems() {
        let private = Private::create().unwrap();
        let library = private.file("libnccl.so.2.28.9");
        std::fs::write(&library, "").unwrap();
        let folder = private.library_folder(0, &library, false).unwrap();
        assert_eq!(names(&folder), ["libnccl.so", "libnccl.so.2"]);
        for name in names(&folder) {
            assert_eq!(folder.join(name).canonicalize().unwrap(), library.canonicalize().unwrap());
        }
    }

    #[test]
    fn the_emulator_stands_in_for_the_driver_too() {
        let private = Private::create().unwrap();
        let folder = private.library_folder(1, Path::new("/build/libncclsweep_emulator.so"), true).unwrap();
        let all = ["libcuda.so", "libcuda.so.1", "libnccl.so", "libnccl.so.2", "libnvidia-ml.so", "libnvidia-ml.so.1"];
        assert_eq!(names(&folder), all);
    }

    #[test]
    fn it_is_for_its_owner_alone_and_gone_afterwards() {
        let private = Private::create().unwrap();
        let path = private.file(".");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(private);
        assert!(!path.exists());
    }
}
