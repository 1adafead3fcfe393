//! [`ThisBox`]: what the file system tells of the box this runs on.

use std::path::Path;

use super::BoxFacts;

/// The box this program runs on. Whether NVLink connects the GPUs is for the caller to say.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisBox {
    /// Whether NVLink connects all GPUs in use, when known.
    pub nvlink: Option<bool>,
}

impl BoxFacts for ThisBox {
    fn exists(&self, path: &Path) -> Option<bool> {
        path.try_exists().ok()
    }

    fn interfaces(&self) -> Option<Vec<String>> {
        names(Path::new("/sys/class/net"))
    }

    fn adapters(&self) -> Option<Vec<String>> {
        names(Path::new("/sys/class/infiniband"))
    }

    fn nvlink(&self) -> Option<bool> {
        self.nvlink
    }
}

/// Names in a folder; `None` when it cannot be read, as in some containers.
fn names(folder: &Path) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(folder).ok()?;
    Some(entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}
