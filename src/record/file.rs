//! [`replace`]: files of a run that can be made again from its journal, written whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::{Error, Kind, Result};

/// Writes the file at `path` anew. Whoever reads it meanwhile, and whoever finds it after a crash, has the old one or the new.
pub fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |error: io::Error| {
        Error::new(Kind::Incomplete, format!("cannot write {}", path.display()))
            .because(error)
            .help("the journal is complete; make the document again with --resume")
    };
    // Of this mode the umask takes what nobody else is to read.
    let mode = PermissionsExt::from_mode(0o666);
    let file = tempfile::Builder::new().permissions(mode).tempfile_in(folder).map_err(failed)?;
    let mut out = BufWriter::new(file.as_file());
    write(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    drop(out);
    file.as_file().sync_all().map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_failure_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        for text in ["old", "new"] {
            replace(&path, |out| out.write_all(text.as_bytes())).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let torn = |out: &mut BufWriter<&File>| {
            out.write_all(b"to")?;
            Err(io::Error::other("no space left"))
        };
        assert!(replace(&path, torn).unwrap_err().next_step().unwrap().contains("--resume"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
