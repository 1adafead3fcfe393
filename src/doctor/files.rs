//! [`Root`]: files of `/proc`, `/sys` and `/etc` below a root, which is `/` but for tests.

use std::path::{Path, PathBuf};

/// A root. What is missing or unreadable is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Root<'a>(pub &'a Path);

impl Root<'_> {
    /// The path of `name`, which may begin with `/`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name.trim_start_matches('/'))
    }

    /// The text of a file without blanks around it; `None` when there is none.
    pub fn text(&self, name: &str) -> Option<String> {
        let bytes = std::fs::read(self.path(name)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Names in a folder, sorted.
    pub fn names(&self, folder: &str) -> Option<Vec<String>> {
        let entries = std::fs::read_dir(self.path(folder)).ok()?;
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Some(names)
    }

    /// Whether there is something.
    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }
}

/// The value behind `name:` in a file of such lines (`/proc/N/status`, `/proc/cpuinfo`).
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// Whether a file's name is that of NCCL itself: `libnccl.so`, `libnccl.so.2`, `libnccl-2.32.3.so`; not `libnccl-net.so`.
pub fn is_nccl(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let rest = name.strip_prefix("libnccl").unwrap_or_default();
    rest.starts_with(".so") || rest.trim_start_matches(['-', '_', '.']).starts_with(|c: char| c.is_ascii_digit())
}

/// A tree of files for tests, from names and texts.
#[cfg(test)]
pub fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nccl_is_told_from_its_plugins_by_name() {
        for name in ["libnccl.so", "/a/libnccl.so.2", "/a b/libnccl.so.2.28.3", "libnccl-2.32.3.so", "libnccl_2.18.so"]
        {
            assert!(is_nccl(name), "{name}");
        }
        for name in [
            "libnccl-net.so",
            "libnccl-tuner.so.2",
            "libnccl_profiler_x.so",
            "libncclsweep_emulator.so",
            "libc.so.6",
            "",
        ] {
            assert!(!is_nccl(name), "{name}");
        }
    }
}
