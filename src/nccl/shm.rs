//! Files in `/dev/shm` that NCCL makes for transports through host memory, and leaves behind when its process is killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "nccl-";

/// The files of NCCL that this process holds mapped or open now.
#[must_use]
pub fn held_here() -> BTreeSet<PathBuf> {
    held(Path::new("/proc/self")).into_iter().collect()
}

/// The files of NCCL that the processes of a group hold mapped or open now.
#[must_use]
pub fn held_by(group: u32) -> BTreeSet<PathBuf> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    processes.filter(|process| group_of(process) == Some(group)).flat_map(|process| held(&process)).collect()
}

/// Takes them away, those that are still there. Only plain files go: a name that leads elsewhere is not NCCL's.
pub fn remove(files: BTreeSet<PathBuf>) {
    for file in files {
        if std::fs::symlink_metadata(&file).is_ok_and(|file| file.is_file()) {
            // A file that cannot be removed costs memory, not results.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The process group of a folder in `/proc`; none when that is no process.
fn group_of(process: &Path) -> Option<u32> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    // The command's name stands in parentheses and may hold anything; state, parent and group follow it.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(2)?.parse().ok()
}

fn held(process: &Path) -> Vec<PathBuf> {
    let maps = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
    let mapped = maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])));
    let descriptors = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let open = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
    mapped.chain(open).filter(|path| is_nccls(path)).collect()
}

/// A deleted file is shown with a remark behind its name, under which there is none.
fn is_nccls(path: &Path) -> bool {
    let named = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
    named && path.parent() == Some(Path::new(FOLDER))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// A shell in a group of its own that has `file` open.
    fn holder(file: &Path) -> std::process::Child {
        let script = format!("exec 5>'{}'; sleep 60", file.display());
        let child =
            Command::new("/bin/sh").args(["-c", &script]).process_group(0).stdin(Stdio::null()).spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(20);
        while !held_by(child.id()).contains(file) {
            assert!(Instant::now() < limit, "{} is not seen open", file.display());
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }

    #[test]
    fn what_a_group_holds_is_removed_and_what_others_hold_stays() {
        let file = |name: &str| PathBuf::from(format!("{FOLDER}/{PREFIX}test-{name}-{}", std::process::id()));
        let (ours, theirs) = (file("ours"), file("theirs"));
        let mut children = [holder(&ours), holder(&theirs)];
        let held = held_by(children[0].id());
        assert_eq!(held, BTreeSet::from([ours.clone()]));
        remove(held);
        let left = (ours.exists(), theirs.exists());
        for child in &mut children {
            let _ = nix::sys::signal::killpg(
                nix::unistd::Pid::from_raw(child.id().cast_signed()),
                nix::sys::signal::SIGKILL,
            );
            child.wait().unwrap();
        }
        std::fs::remove_file(&theirs).unwrap();
        assert_eq!(left, (false, true));
    }

    #[test]
    fn what_this_process_holds_mapped_is_seen_by_itself() {
        let path = PathBuf::from(format!("{FOLDER}/{PREFIX}test-here-{}", std::process::id()));
        let file = std::fs::File::create_new(&path).unwrap();
        let seen = held_here().contains(&path);
        drop(file);
        let still = held_here().contains(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((seen, still), (true, false));
    }

    #[test]
    fn only_files_of_nccl_in_shared_memory_count() {
        for (path, counts) in [
            ("/dev/shm/nccl-aB3xYz", true),
            ("/dev/shm/other", false),
            ("/dev/shm/nccl-x/file", false),
            ("/tmp/nccl-aB3xYz", false),
        ] {
            assert_eq!(is_nccls(Path::new(path)), counts, "{path}");
        }
    }

    #[test]
    fn a_link_is_not_followed_and_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("nccl-link"));
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        remove(BTreeSet::from([link.clone()]));
        assert!(target.exists() && std::fs::symlink_metadata(&link).is_ok());
    }
}
