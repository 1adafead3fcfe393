//! The private folder of a run: library links for the workers and their logs while they run. Mode 0700, gone afterwards.
//!
//! A run that is killed cannot take its folder away. It holds a lock on a file in it as long as it lives, so the next run
//! knows whose folders are abandoned, and takes them away.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

use crate::error::{Error, Kind, Result};
use crate::units::Bytes;

/// Names by which programs ask for NCCL. cudarc asks for the first only, and takes no path.
const NCCL_NAMES: [&str; 2] = ["libnccl.so", "libnccl.so.2"];
/// Names by which programs ask for the driver and its management library.
const DRIVER_NAMES: [&str; 4] = ["libcuda.so", "libcuda.so.1", "libnvidia-ml.so", "libnvidia-ml.so.1"];

const PREFIX: &str = "ncclsweep-";
/// Locked as long as the run lives.
const LOCK: &str = "lock";

/// What must be free: NCCL's log of a visit is below 1 MiB.
const ROOM: Bytes = Bytes(4 << 20);

/// What the dynamic loader takes for the end of a path, or for a variable, in `LD_LIBRARY_PATH`.
const SPLITS: [char; 3] = [':', ';', '$'];

/// The folder.
#[derive(Debug)]
pub struct Private {
    folder: TempDir,
    _lock: File,
}

impl Private {
    /// Makes it in the system's folder for temporary files, and takes away what killed runs left there.
    pub fn create() -> Result<Self> {
        let place = std::env::temp_dir();
        Self::create_in(&std::path::absolute(&place).unwrap_or(place))
    }

    fn create_in(place: &Path) -> Result<Self> {
        check_name(place, |split| SPLITS.contains(&split))?;
        remove_abandoned(place);
        check_room(place)?;
        let owner_alone = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(owner_alone).tempdir_in(place);
        let made = folder.and_then(|folder| Ok(Self { _lock: lock(folder.path())?, folder }));
        made.map_err(|error| {
            Error::new(Kind::Environment, format!("cannot make a private folder in {}", place.display()))
                .because(error)
                .help("set TMPDIR to a folder that can be written to")
        })
    }

    /// A folder in which the names of NCCL lead to `library`; of the driver too when it is the emulator.
    pub fn library_folder(&self, index: usize, library: &Path, emulator: bool) -> Result<PathBuf> {
        if emulator {
            // The emulator comes in through LD_PRELOAD, whose names end at blanks too.
            check_name(self.folder.path(), char::is_whitespace)?;
        }
        let folder = self.folder.path().join(format!("library-{index}"));
        let names = NCCL_NAMES.iter().chain(if emulator { DRIVER_NAMES.as_slice() } else { &[] });
        let linked = std::fs::create_dir(&folder)
            .and_then(|()| names.into_iter().try_for_each(|name| symlink(library, folder.join(name))));
        linked.map_err(|error| {
            Error::new(Kind::Environment, format!("cannot link {} in {}", library.display(), folder.display()))
                .because(error)
                .help("set TMPDIR to a folder with room for some links and logs")
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
        self.folder.path().join(name)
    }
}

/// Refuses a place that is full: what then fails, in a worker or a probe, would not say why.
fn check_room(place: &Path) -> Result<()> {
    // A file system that does not tell its size has room as far as anybody knows.
    let Some(room) = statvfs(place).ok().filter(|facts| facts.blocks() > 0) else { return Ok(()) };
    let free = Bytes(room.blocks_available().saturating_mul(room.fragment_size()));
    if free >= ROOM {
        return Ok(());
    }
    Err(Error::new(Kind::Environment, format!("there is no room in {}: {free} are free", place.display()))
        .help(format!("set TMPDIR to a folder with {ROOM} for links and NCCL's logs")))
}

/// Refuses a place that the dynamic loader would pass over without a word.
fn check_name(place: &Path, splits: impl Fn(char) -> bool) -> Result<()> {
    let name = place.to_string_lossy();
    let Some(split) = name.chars().find(|split| splits(*split)) else { return Ok(()) };
    Err(Error::new(Kind::Environment, format!("cannot keep links to libraries in {name}"))
        .because(format!("the dynamic loader does not take {split:?} for a part of a folder's name"))
        .help("set TMPDIR to a folder without colons, semicolons, dollar signs and blanks in its name"))
}

/// A locked file in `folder`. It gets its name once it is locked: whoever finds it free finds an abandoned folder.
fn lock(folder: &Path) -> std::io::Result<File> {
    let unnamed = folder.join("lock-to-be");
    let file = File::create_new(&unnamed)?;
    file.try_lock()?;
    std::fs::rename(unnamed, folder.join(LOCK))?;
    Ok(file)
}

/// Takes away the folders of this user's runs that were killed. What cannot be taken away costs a little room, no result.
fn remove_abandoned(place: &Path) {
    let user = nix::unistd::geteuid().as_raw();
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            // Of the entry itself: a link is nobody's folder.
            && entry.metadata().is_ok_and(|facts| facts.is_dir() && facts.uid() == user);
        if ours && File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
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

    #[test]
    fn what_a_killed_run_left_goes_and_what_a_living_one_has_stays() {
        let place = tempfile::tempdir().unwrap();
        let living = Private::create_in(place.path()).unwrap();
        // A killed run takes nothing away, but its lock goes with it.
        let Private { folder, _lock } = Private::create_in(place.path()).unwrap();
        let abandoned = folder.keep();
        std::fs::write(abandoned.join("visit.out"), "its last words").unwrap();
        drop(_lock);
        std::fs::create_dir(place.path().join("ncclsweep-of-somebody")).unwrap();
        let next = Private::create_in(place.path()).unwrap();
        assert!(!abandoned.exists());
        assert!(living.file(LOCK).exists() && next.file(LOCK).exists());
        assert!(place.path().join("ncclsweep-of-somebody").exists(), "a folder without a lock is none of ours");
    }

    #[test]
    fn a_link_that_looks_like_an_abandoned_folder_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join(LOCK), "").unwrap();
        symlink(elsewhere.path(), place.path().join("ncclsweep-link")).unwrap();
        Private::create_in(place.path()).unwrap();
        assert!(elsewhere.path().join(LOCK).exists());
    }

    #[test]
    fn a_place_whose_name_the_loader_would_split_is_refused_by_what_splits_it() {
        let place = tempfile::tempdir().unwrap();
        let create = |name: &str| {
            let place = place.path().join(name);
            std::fs::create_dir(&place).unwrap();
            Private::create_in(&place)
        };
        for name in ["a:b", "a;b", "$ORIGIN"] {
            let error = create(name).unwrap_err();
            assert!(error.next_step().unwrap().contains("TMPDIR"), "{name}: {error}");
        }
        let blank = create("a b").unwrap();
        assert!(blank.library_folder(0, Path::new("/lib/libnccl.so.2"), false).is_ok());
        assert!(blank.library_folder(1, Path::new("/build/libncclsweep_emulator.so"), true).is_err());
    }
}
