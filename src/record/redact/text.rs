//! Redaction of free text.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::Redactor;

/// Token of a GPU, before its number.
pub(super) const GPU: &str = "GPU-redacted";
/// What a host is called after redaction.
pub const HOST: &str = "host-1";
const USER: &str = "user-1";
const ADDRESS: &str = "address-redacted";
/// Stands for the folders of a path.
const FOLDERS: &str = "…/";

/// Folders of the system: what stands there is the same on every box, and a fault is often told by it.
const SYSTEM: [&str; 5] = ["/dev/", "/sys/", "/proc/", "/etc/nccl.conf", "/usr/bin/"];
/// Shorter names are words of many texts: they go only from where they are known to stand.
const SHORTEST_HOST: usize = 2;
const SHORTEST_USER: usize = 3;
/// Smaller pids could as well be sizes or counts.
const LEAST_PID: u32 = 10_000;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of ours")
}

/// An absolute path or one of the home folder, where it cannot be a part of something else (`P2P/CUMEM`, `GB/s`).
static PATH: LazyLock<Regex> = LazyLock::new(|| regex(r#"(^|[\s"'`=(\[{<,:;|])(~?/[^\s"'`,:;()\[\]{}<>|]+)"#));
/// A GPU's or MIG slice's id, also shortened.
static GPU_ID: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\b(?:GPU|MIG)-(?:GPU-)?[0-9a-f]{4}[0-9a-f/-]*\b"));
/// Any other id of that form.
static UUID: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"));
static SERIAL: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\b(serial(?:[ _]?(?:number|no))?\.?\s*[:=#]?\s*)\d{6,}"));
/// What NCCL's log lines begin with: host, process, thread.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| regex(r"([^\s:\[\]()<>]+):(\d+):(\d+)( \[\d+\])"));
static PID: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\b(pids?|process|tid)([ =:#]+)\d+(?:, ?\d+)*\b"));
static PROC: LazyLock<Regex> = LazyLock::new(|| regex(r"/proc/\d+"));
static IPV4: LazyLock<Regex> = LazyLock::new(|| regex(r"\b(?:\d{1,3}\.){3}\d{1,3}\b"));
/// At least four colons, or two at once: a PCI id has two, a time of day too.
static IPV6: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{0,4}\b|\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*)?",
    )
});
/// The home folder of a user.
static HOME: LazyLock<Regex> = LazyLock::new(|| regex(r#"/(?:home|Users)/([^/\s"'`,:;()\[\]{}<>|\\]+)"#));

impl Redactor {
    /// `text` without what is secret. What is redacted already stays as it is.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (secret, token) in &self.known {
            text = replace_whole(&text, secret, token);
        }
        let path = |found: &Captures<'_>| format!("{}{}", &found[1], short_path(&found[2]));
        let text = PATH.replace_all(&text, path);
        let text = PROC.replace_all(&text, "/proc/PID");
        let text = GPU_ID.replace_all(&text, GPU);
        let text = UUID.replace_all(&text, "id-redacted");
        let text = SERIAL.replace_all(&text, "${1}redacted");
        let text = PREFIX.replace_all(&text, format!("{HOST}:pid:tid${{4}}"));
        let text = PID.replace_all(&text, "${1}${2}N");
        let text = IPV6.replace_all(&text, ADDRESS);
        let text = IPV4.replace_all(&text, ADDRESS);
        self.names(&text)
    }

    /// Names and pids that are known, wherever they stand alone or between signs.
    fn names(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let hosts = self.hosts.iter().filter(|name| name.len() >= SHORTEST_HOST).map(|name| (name, HOST));
        let users = self.users.iter().filter(|name| name.len() >= SHORTEST_USER).map(|name| (name, USER));
        for (name, token) in hosts.chain(users).filter(|(name, token)| name != token) {
            text = replace_whole(&text, name, token);
        }
        for pid in self.pids.iter().filter(|pid| **pid >= LEAST_PID) {
            text = replace_whole(&text, &pid.to_string(), "N");
        }
        text
    }
}

/// Names of users whose home folders `text` mentions.
pub(super) fn users(text: &str) -> impl Iterator<Item = String> {
    HOME.captures_iter(text).map(|found| found[1].to_owned())
}

/// Whether an argument, or what follows its `=`, is a path: `7168x1/2/8` is none.
pub(super) fn is_path(text: &str) -> bool {
    let rooted = ["/", "./", "../", "~"].iter().any(|start| text.starts_with(start));
    rooted || text.split('/').skip(1).any(|part| part.contains(|c: char| c.is_alphabetic()))
}

/// A path without its folders. The last part stays when it is the name of a file, which the dot in it tells: another may be
/// a user's or a project's.
pub(super) fn short_path(path: &str) -> String {
    if SYSTEM.iter().any(|folder| path.starts_with(folder)) {
        return path.to_owned();
    }
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let home = users(path).any(|user| user == last);
    let file = last.trim_start_matches('.').contains('.') || last == ".nccl.conf";
    if file && !home { format!("{FOLDERS}{last}") } else { "…".to_owned() }
}

/// Replaces `secret` where no letter or digit stands beside it, without regard to case.
fn replace_whole(text: &str, secret: &str, token: &str) -> String {
    let (lower, secret) = (text.to_ascii_lowercase(), secret.to_ascii_lowercase());
    let (mut out, mut done) = (String::with_capacity(text.len()), 0);
    for (at, found) in lower.match_indices(&secret) {
        let end = at + found.len();
        let alone = !text[..at].ends_with(|c: char| c.is_alphanumeric() && secret.starts_with(char::is_alphanumeric))
            && !text[end..].starts_with(char::is_alphanumeric);
        if alone {
            out.push_str(&text[done..at]);
            out.push_str(token);
            done = end;
        }
    }
    out.push_str(&text[done..]);
    out
}
