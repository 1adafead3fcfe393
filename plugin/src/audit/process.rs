//! What a process knows of itself: from `/proc`, its environment, and the loader.

use std::ffi::{CStr, OsStr, OsString, c_int, c_void};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::journal::{self, Ancestor, ConfFile, FOLDER, Library, Process, ROOT, Variables};

/// Processes above that are told at most: a chain this long is a shell's doing, or a loop.
const ANCESTORS: usize = 16;

/// Bytes of a file that are told at most.
const MOST_OF_FILE: u64 = 64 << 10;

/// Bytes of a command line that are told at most.
const MOST_OF_COMMAND: u64 = 2 << 10;

/// This process; `of_nccl` is an address inside of the library that called.
pub(super) fn this(of_nccl: *const c_void, now_us: u64) -> Process {
    let (home, passwd_home) = (std::env::var("HOME").ok(), passwd_home());
    Process {
        schema: journal::SCHEMA,
        pid: std::process::id(),
        start_ticks: stat("self").and_then(|(_, start)| start),
        host: host(),
        executable: std::env::current_exe().ok(),
        command: command("self"),
        ancestors: ancestors(),
        opened_us: now_us,
        environment: variables(),
        at_start: at_start(),
        files: conf_files(home.as_deref(), passwd_home.as_deref()),
        home,
        passwd_home,
        nccl: library(of_nccl),
    }
}

/// The host's name, as the kernel knows it.
pub(super) fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "host".to_owned(), |name| name.trim().to_owned())
}

/// NCCL's variables as they stand.
pub(super) fn variables() -> Variables {
    nccl_variables(std::env::vars_os())
}

fn nccl_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Variables {
    let text = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("NCCL_"))?;
        Some((name, value.to_string_lossy().into_owned()))
    };
    variables.filter_map(text).collect()
}

/// NCCL's variables as they stood when the process started, from memory that some processes write their title to: what lacks
/// our own variable is no environment any more.
fn at_start() -> Option<Variables> {
    let bytes = fs::read("/proc/self/environ").ok()?;
    given(&bytes)
}

fn given(bytes: &[u8]) -> Option<Variables> {
    let pairs = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        let text = |bytes| OsStr::from_bytes(bytes).to_owned();
        Some((text(&entry[..at]), text(&entry[at + 1..])))
    });
    let pairs: Vec<_> = pairs.flatten().collect();
    pairs.iter().any(|(name, _)| name == FOLDER).then(|| nccl_variables(pairs.into_iter()))
}

/// The first part of a file; nothing when it cannot be read.
fn head(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn command(process: &str) -> Vec<String> {
    let bytes = head(&Path::new("/proc").join(process).join("cmdline"), MOST_OF_COMMAND).unwrap_or_default();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Parent and start of a process. Its name stands in brackets and may hold blanks and brackets.
fn stat(process: &str) -> Option<(u32, Option<u64>)> {
    let text = fs::read_to_string(Path::new("/proc").join(process).join("stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    // After the name: state, parent; the start is the twentieth field of these.
    let parent = fields.nth(1)?.parse().ok()?;
    Some((parent, fields.nth(17).and_then(|start| start.parse().ok())))
}

/// Up to the root of interest: above it stand shells and services whose command lines are nobody's business.
fn ancestors() -> Vec<Ancestor> {
    let root: Option<u32> = std::env::var(ROOT).ok().and_then(|root| root.parse().ok());
    let inner = |parent: &u32| *parent > 0 && Some(*parent) != root;
    let parent = |pid: &u32| stat(&pid.to_string()).map(|(parent, _)| parent).filter(inner);
    let first = stat("self").map(|(parent, _)| parent).filter(inner);
    let chain = std::iter::successors(first, parent).take(ANCESTORS);
    chain.map(|pid| Ancestor { pid, command: command(&pid.to_string()) }).collect()
}

/// All files that some version of NCCL would read: the reader of the journal knows which one did.
fn conf_files(home: Option<&str>, passwd_home: Option<&str>) -> Vec<ConfFile> {
    let in_home = |home: &str| Path::new(home).join(".nccl.conf");
    let named = std::env::var_os("NCCL_CONF_FILE").filter(|name| !name.is_empty()).map(PathBuf::from);
    let of_user = [home, passwd_home].into_iter().flatten().map(in_home);
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in named.into_iter().chain(of_user).chain([PathBuf::from("/etc/nccl.conf")]) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let read = |path: PathBuf| {
        // A pipe or a device would keep NCCL waiting.
        let text = fs::metadata(&path).ok().filter(fs::Metadata::is_file).and_then(|_| head(&path, MOST_OF_FILE))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Some(ConfFile { path: path.to_string_lossy().into_owned(), text })
    };
    paths.into_iter().filter_map(read).collect()
}

fn passwd_home() -> Option<String> {
    let mut buffer = [0; 4096];
    // SAFETY: all zeros is an entry of NULL pointers.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: places that live during the call, and the buffer's own length.
    let failed = unsafe { libc::getpwuid_r(libc::getuid(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    if failed != 0 || found.is_null() || entry.pw_dir.is_null() {
        return None;
    }
    // SAFETY: a terminated string in the buffer.
    Some(unsafe { CStr::from_ptr(entry.pw_dir) }.to_string_lossy().into_owned())
}

/// The library at an address: its file, and its version when it exports the function that tells.
fn library(of_nccl: *const c_void) -> Option<Library> {
    if of_nccl.is_null() {
        return None;
    }
    // SAFETY: all zeros is a valid record of the loader's.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the place lives during the call.
    if unsafe { libc::dladdr(of_nccl, &mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a terminated string of the loader's, which lives as long as the library.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    let path = name.to_string_lossy().into_owned();
    let path = fs::canonicalize(&path).map_or(path, |path| path.to_string_lossy().into_owned());
    Some(Library { path, version: version(name) })
}

/// What `ncclGetVersion` of a loaded library answers: a constant; it initialises nothing.
fn version(name: &CStr) -> Option<i32> {
    // SAFETY: a terminated name; nothing is loaded that is not loaded.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: an open library and a terminated name.
    let symbol = unsafe { libc::dlsym(handle, c"ncclGetVersion".as_ptr()) };
    let mut version: c_int = 0;
    let told = !symbol.is_null() && {
        // SAFETY: NCCL exports under this name a function of this type.
        let get: unsafe extern "C" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(symbol) };
        // SAFETY: the place lives during the call.
        unsafe { get(&mut version) == 0 }
    };
    // SAFETY: the handle of this call, once; the library stays, for it is running.
    unsafe { libc::dlclose(handle) };
    told.then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_nccl_are_told() {
        let variables = [("NCCL_PROTO", "LL"), ("HF_TOKEN", "secret"), ("XNCCL_", "1")];
        let told = nccl_variables(variables.iter().map(|(name, value)| (name.into(), value.into())));
        assert_eq!(told, Variables::from([("NCCL_PROTO".into(), "LL".into())]));
    }

    #[test]
    fn an_environment_that_a_title_was_written_over_is_none() {
        let whole = format!("{FOLDER}=/f\0NCCL_PROTO=LL\0PATH=/bin\0");
        assert_eq!(given(whole.as_bytes()).unwrap(), Variables::from([("NCCL_PROTO".into(), "LL".into())]));
        assert_eq!(given(b"server: worker 3\0\0\0\0TH=/bin\0"), None);
        assert_eq!(given(b""), None);
    }

    #[test]
    fn a_process_knows_its_parents_up_to_the_first() {
        let ancestors = ancestors();
        assert!(!ancestors.is_empty() && ancestors.len() <= ANCESTORS);
        assert_eq!(ancestors[0].pid, std::os::unix::process::parent_id());
        assert!(stat("self").unwrap().1.is_some());
        assert_eq!(command("self"), std::env::args().collect::<Vec<_>>());
    }

    #[test]
    fn the_library_at_an_address_is_the_file_that_holds_it() {
        static HERE: u8 = 0;
        let found = library((&raw const HERE).cast()).unwrap();
        assert_eq!(PathBuf::from(found.path), std::env::current_exe().unwrap().canonicalize().unwrap());
        assert_eq!(found.version, None);
    }
}
