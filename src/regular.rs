//! Regular files in folders that anybody may have filled: what stands there under a known name may be a pipe that nobody
//! writes to, or a device that never ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc;

/// Opens without waiting for anybody at the other end, and only what is a regular file.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// The text of a file of at most so many bytes.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    let file = open(path, OpenOptions::new().read(true))?;
    let too_large = || io::Error::other(format!("it is larger than {} MiB", most >> 20));
    if file.metadata()?.len() > most {
        return Err(too_large());
    }
    let mut text = String::new();
    // It may grow meanwhile.
    let read = file.take(most + 1).read_to_string(&mut text)?;
    if read as u64 > most { Err(too_large()) } else { Ok(text) }
}

/// The file that a shell would start by this name: as it is written where it has a `/`, else the first on the `PATH`.
pub fn program(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_and_a_device_are_refused_at_once_and_a_file_only_above_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert!(text(path, 1 << 20).unwrap_err().to_string().contains("no regular file"), "{}", path.display());
        }
        let file = folder.path().join("file");
        std::fs::write(&file, "four").unwrap();
        assert_eq!(text(&file, 4).unwrap(), "four");
        assert_eq!(program(&file).as_deref(), Some(file.as_path()));
        assert_eq!(program(&folder.path().join("none")), None);
        assert!(
            program(Path::new("sh")).is_some_and(|sh| sh.is_absolute()) && program(Path::new("no-such-sh")).is_none()
        );
        assert!(text(&file, 3).is_err());
        // A file of zeros that takes no place on the disk.
        std::fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
        assert!(text(&file, 64 << 20).unwrap_err().to_string().contains("larger than 64 MiB"));
    }
}
