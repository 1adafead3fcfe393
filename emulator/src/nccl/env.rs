//! NCCL's environment: process variables, then the user's file, then `/etc/nccl.conf`; integers as NCCL reads them.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use super::log::{self, ENV};
use crate::settings::Version;

/// The value of a variable, wherever NCCL would find it.
pub(crate) fn get(name: &str) -> Option<String> {
    match std::env::var_os(name) {
        Some(value) => Some(value.to_string_lossy().into_owned()),
        None => files().get(name).cloned(),
    }
}

/// What the configuration files set; read once per process.
fn files() -> &'static HashMap<String, String> {
    static FILES: OnceLock<HashMap<String, String>> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut values = HashMap::new();
        let version = crate::settings::get().nccl;
        for path in [user_file(version), Some(PathBuf::from("/etc/nccl.conf"))].into_iter().flatten() {
            read_file(&path, version, &mut values);
        }
        values
    })
}

fn user_file(version: Version) -> Option<PathBuf> {
    let named = std::env::var_os("NCCL_CONF_FILE").filter(|name| !name.is_empty() && version.since(23));
    if let Some(name) = named {
        return Some(name.into());
    }
    let home = if version.since(30) { std::env::var_os("HOME").map(PathBuf::from) } else { passwd_home() };
    Some(home?.join(".nccl.conf"))
}

/// The home directory of the user data base, which NCCL asked up to 2.29.
fn passwd_home() -> Option<PathBuf> {
    // SAFETY: getpwuid returns null or an entry that stays until the next call; it is read at once.
    let home = unsafe {
        let entry = libc::getpwuid(libc::getuid());
        if entry.is_null() || (*entry).pw_dir.is_null() {
            return None;
        }
        std::ffi::CStr::from_ptr((*entry).pw_dir)
    };
    Some(PathBuf::from(home.to_string_lossy().into_owned()))
}

/// Adds a file's settings; what is there already stays.
fn read_file(path: &Path, version: Version, values: &mut HashMap<String, String>) {
    let Ok(content) = std::fs::read(path) else { return };
    for line in String::from_utf8_lossy(&content).split_terminator('\n') {
        let line = if version.since(30) { line.strip_suffix('\r').unwrap_or(line) } else { line };
        if line.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = line.split_once('=') {
            let cut = |text: &str| String::from_utf8_lossy(&text.as_bytes()[..text.len().min(1023)]).into_owned();
            values.entry(cut(name)).or_insert_with(|| cut(value));
        }
    }
}

/// `strtoll(text, NULL, 0)`; None when it overflows.
pub(crate) fn strtoll(text: &str) -> Option<i64> {
    let text = CString::new(text.split('\0').next().unwrap_or_default()).ok()?;
    // SAFETY: a terminated string, no end pointer; errno is this thread's own.
    unsafe {
        *libc::__errno_location() = 0;
        let value = libc::strtoll(text.as_ptr(), std::ptr::null_mut(), 0);
        (*libc::__errno_location() == 0).then_some(value)
    }
}

/// An integer parameter, cached for the process on its first use and logged then.
pub(crate) fn parameter(name: &'static str) -> Option<i64> {
    static CACHE: LazyLock<Mutex<HashMap<&'static str, Option<i64>>>> = LazyLock::new(Mutex::default);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    *cache.entry(name).or_insert_with(|| {
        let text = get(name).filter(|text| !text.is_empty())?;
        match strtoll(&text) {
            Some(value) => log::info(ENV, &format!("{name} set by environment to {value}.")),
            None => log::info(log::ALL, &format!("Invalid value {text} for {name}, using default.")),
        }
        strtoll(&text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_strtoll_reads_them() {
        for (text, value) in
            [("4M", 4), ("abc", 0), ("0x10", 16), ("010", 8), (" 7", 7), ("-1", -1), ("512 # x", 512), ("512\r", 512)]
        {
            assert_eq!(strtoll(text), Some(value), "{text:?}");
        }
        assert_eq!(strtoll("99999999999999999999"), None);
    }

    #[test]
    fn files_are_read_line_by_line_without_trimming() {
        let path = std::env::temp_dir().join(format!("nccl-conf-{}", std::process::id()));
        let lines = "# NCCL_A=0\nNCCL_B=1\nexport NCCL_C=2\n NCCL_D=3\nNCCL_E = 4\nNCCL_F==eth0\nNCCL_G=5\r\nnothing\nNCCL_B=9\n";
        std::fs::write(&path, lines).unwrap();
        let read = |version| {
            let mut values = HashMap::new();
            read_file(&path, version, &mut values);
            values
        };
        let values = read(Version::new(2, 28, 3));
        assert_eq!(values["NCCL_B"], "1");
        assert!(!values.contains_key("NCCL_A") && !values.contains_key("NCCL_C") && !values.contains_key("NCCL_D"));
        assert_eq!(values["NCCL_E "], " 4");
        assert_eq!(values["NCCL_F"], "=eth0");
        assert_eq!(values["NCCL_G"], "5\r");
        assert_eq!(read(Version::new(2, 30, 3))["NCCL_G"], "5");
        std::fs::remove_file(path).unwrap();
    }
}
