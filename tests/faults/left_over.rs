//! Processes that a run has left.

use std::path::Path;
use std::time::{Duration, Instant};

/// No process of a run may be there so long after its end: far longer than a starved one needs to end, and far shorter than
/// what is left behind would stay.
const LINGER: Duration = Duration::from_secs(30);

/// A process that was started by the run in `folder` and is still there, by its command line.
pub fn left_over(folder: &Path) -> Option<String> {
    let mark = folder.as_os_str().as_encoded_bytes();
    let limit = Instant::now() + LINGER;
    loop {
        let left = std::fs::read_dir("/proc").ok()?.flatten().find(|process| {
            let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
            environment.windows(mark.len()).any(|part| part == mark)
        })?;
        if Instant::now() > limit {
            let command = std::fs::read(left.path().join("cmdline")).unwrap_or_default();
            return Some(String::from_utf8_lossy(&command).replace('\0', " "));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
