//! NCCL's log: levels, subsystems, the debug file and the form of its lines.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fs::File;
use std::io::Write;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use super::env;

pub(crate) const INIT: u32 = 0x1;
pub(crate) const P2P: u32 = 0x4;
pub(crate) const SHM: u32 = 0x8;
pub(crate) const NET: u32 = 0x10;
pub(crate) const GRAPH: u32 = 0x20;
pub(crate) const TUNING: u32 = 0x40;
pub(crate) const ENV: u32 = 0x80;
pub(crate) const BOOTSTRAP: u32 = 0x1000;
pub(crate) const ALL: u32 = !0;

const SUBSYSTEMS: [(&str, u32); 17] = [
    ("INIT", INIT),
    ("COLL", 0x2),
    ("P2P", P2P),
    ("SHM", SHM),
    ("NET", NET),
    ("GRAPH", GRAPH),
    ("TUNING", TUNING),
    ("ENV", ENV),
    ("ALLOC", 0x100),
    ("CALL", 0x200),
    ("PROXY", 0x400),
    ("NVLS", 0x800),
    ("BOOTSTRAP", BOOTSTRAP),
    ("REG", 0x2000),
    ("PROFILE", 0x4000),
    ("RAS", 0x8000),
    ("ALL", ALL),
];

/// How much is said, in NCCL's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    None,
    Version,
    Warn,
    Info,
}

struct Log {
    level: Level,
    mask: u32,
    host: String,
    file: Mutex<Option<File>>,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}
static SHARED_ERROR: LazyLock<Mutex<String>> = LazyLock::new(Mutex::default);

fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let level = match env::get("NCCL_DEBUG").unwrap_or_default().to_ascii_uppercase().as_str() {
            "VERSION" => Level::Version,
            "WARN" => Level::Warn,
            "INFO" | "ABORT" | "TRACE" => Level::Info,
            _ => Level::None,
        };
        let host = host_name();
        let path = env::get("NCCL_DEBUG_FILE").filter(|path| !path.is_empty() && level > Level::Version);
        let file = path.and_then(|path| File::create(expand(&path, &host)).ok());
        Log { level, mask: mask(env::get("NCCL_DEBUG_SUBSYS").as_deref()), host, file: Mutex::new(file) }
    })
}

/// The subsystems a list names; unknown ones are dropped in silence, as NCCL does.
fn mask(list: Option<&str>) -> u32 {
    let Some(list) = list else { return INIT | BOOTSTRAP | ENV };
    let (invert, list) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    let named =
        list.split(',').filter_map(|name| SUBSYSTEMS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)));
    let named = named.fold(0, |mask, (_, bit)| mask | bit);
    if invert { !named } else { named }
}

/// The path with `%h`, `%p` and `%%` replaced.
fn expand(path: &str, host: &str) -> String {
    let mut out = String::new();
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '%' { chars.next() } else { None }) {
            ('%', Some('%')) => out.push('%'),
            ('%', Some('h')) => out.push_str(host),
            ('%', Some('p')) => out.push_str(&std::process::id().to_string()),
            ('%', Some(other)) => out.extend(['%', other]),
            _ => out.push(c),
        }
    }
    out
}

fn host_name() -> String {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer is as long as said, and stays zero-terminated because its last byte is never given away.
    unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len() - 1) };
    let name = buffer.split(|&byte| byte == 0 || byte == b'.').next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn write(line: &str) {
    let mut file: MutexGuard<'_, Option<File>> = log().file.lock().unwrap_or_else(PoisonError::into_inner);
    // A full disk or closed pipe is no reason to stop: NCCL ignores it too.
    let _ = match &mut *file {
        Some(file) => file.write_all(line.as_bytes()),
        None => std::io::stdout().write_all(line.as_bytes()),
    };
}

fn prefix() -> String {
    // SAFETY: a plain system call without arguments.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    format!("{}:{}:{} [{}]", log().host, std::process::id(), thread, crate::cuda::current_for_log())
}

/// Whether lines of a subsystem are written at all.
pub(crate) fn wants(subsystem: u32) -> bool {
    log().level >= Level::Info && log().mask & subsystem != 0
}

/// Writes an INFO line.
pub(crate) fn info(subsystem: u32, message: &str) {
    if wants(subsystem) {
        write(&format!("{} NCCL INFO {message}\n", prefix()));
    }
}

/// Writes a warning with its place in NCCL's source, and keeps it as the last error.
pub(crate) fn warn(place: &str, message: &str) {
    message.clone_into(&mut SHARED_ERROR.lock().unwrap_or_else(PoisonError::into_inner));
    if log().level < Level::Warn {
        return;
    }
    let blank = if crate::settings::get().nccl.since(22) { "\n" } else { "" };
    write(&format!("{blank}{}{} {place} NCCL WARN {message}\n", timestamp(), prefix()));
}

/// `[2026-11-30 14:55:42] `, before warnings since 2.26.
fn timestamp() -> String {
    if !crate::settings::get().nccl.since(26) {
        return String::new();
    }
    let mut text = [0_u8; 64];
    // SAFETY: all pointers are to locals of the right types; strftime writes at most the length given.
    let len = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = std::mem::zeroed();
        libc::localtime_r(&now, &mut parts);
        libc::strftime(text.as_mut_ptr().cast(), text.len(), c"[%F %T] ".as_ptr(), &parts)
    };
    String::from_utf8_lossy(&text[..len]).into_owned()
}

/// The version line, printed at level VERSION and above.
pub(crate) fn version(text: &str) {
    match log().level {
        Level::None => (),
        Level::Info => info(ALL, text),
        Level::Version | Level::Warn => write(&format!("{text}\n")),
    }
}

/// The text of the last warning, kept alive per thread.
pub(crate) fn last_error() -> *const c_char {
    let text = SHARED_ERROR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    LAST_ERROR.with_borrow_mut(|last| {
        *last = CString::new(text).unwrap_or_default();
        last.as_ptr()
    })
}

/// A gigabyte of log, for tests of what bounds it.
pub(crate) fn flood() {
    let line = format!("{} NCCL INFO {}\n", prefix(), "log flood ".repeat(90)).repeat(1000);
    for _ in 0..(1 << 30) / line.len() + 1 {
        write(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsystems_are_a_list_or_its_complement() {
        assert_eq!(mask(None), INIT | BOOTSTRAP | ENV);
        assert_eq!(mask(Some("init,Graph,nonsense")), INIT | GRAPH);
        assert_eq!(mask(Some("^TUNING")), !TUNING);
        assert_eq!(mask(Some("")), 0);
    }

    #[test]
    fn host_and_pid_are_put_into_the_file_name() {
        let pid = std::process::id();
        assert_eq!(expand("/tmp/%h.%p.%%x.%q%", "box"), format!("/tmp/box.{pid}.%x.%q%"));
    }
}
