//! One line of NCCL's log: what launchers put around it, and its own head.
//!
//! NCCL writes `HOST:PID:TID [DEVICE] NCCL LEVEL message`, warnings with a time before it and with file and line
//! (`src/debug.cc` of 2.8 to 2.30). Launchers add a prefix (`(RayWorkerWrapper pid=539) `, `[1,0]<stdout>:`, `[rank0]:`,
//! times of docker and kubernetes), colours, and Ray a suffix for lines it left out.

/// How serious NCCL holds a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Narrative.
    Info,
    /// New in 2.32: worth a look, not a failure.
    Attention,
    /// A failure, or something that will be one.
    Warning,
    /// Tracing of calls.
    Trace,
}

/// The thread that wrote a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Writer {
    /// Host name as NCCL prints it.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

/// A line of NCCL, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    /// Who wrote it.
    pub writer: Writer,
    /// CUDA device current in that thread.
    pub device: Option<u32>,
    /// How serious it is.
    pub level: Level,
    /// `graph/tuning.cc:104`, on warnings.
    pub place: Option<&'a str>,
    /// What it says, up to the end of the line.
    pub message: &'a str,
}

/// How many like lines Ray left out after this one, and the line without that remark.
#[must_use]
pub fn without_repeat(line: &str) -> (&str, u64) {
    let Some((head, tail)) = line.rsplit_once(" [repeated ") else { return (line, 0) };
    let count = tail.split_once("x across cluster]").and_then(|(count, _)| count.parse().ok());
    count.map_or((line, 0), |count| (head, count))
}

/// `line` without terminal colours.
#[must_use]
pub fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\x1b' {
            plain.push(c);
        } else if chars.as_str().starts_with('[') {
            // A control sequence ends at its first letter.
            chars.by_ref().find(char::is_ascii_alphabetic);
        }
    }
    plain
}

impl<'a> Line<'a> {
    /// Takes `line` apart; `None` when it is not NCCL's. Prefixes of launchers are skipped.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let levels = [
            (" NCCL INFO", Level::Info),
            (" NCCL WARN", Level::Warning),
            (" NCCL ATTN", Level::Attention),
            (" NCCL TRACE", Level::Trace),
            (" NCCL CALL", Level::Trace),
        ];
        let (at, word, level) = levels
            .iter()
            .filter_map(|(word, level)| line.find(word).map(|at| (at, *word, *level)))
            .min_by_key(|(at, ..)| *at)?;
        let message = &line[at + word.len()..];
        let message = message.strip_prefix(' ').unwrap_or(message).trim_end_matches(['\r', '\n']);
        let (writer, device, rest) = head(&line[..at])?;
        let place = rest.split_whitespace().find(|word| {
            word.rsplit_once(':')
                .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        });
        Some(Self { writer, device, level, place, message })
    }
}

/// The last `HOST:PID:TID` and `[DEVICE]` of `text`, and what follows them.
fn head(text: &str) -> Option<(Writer, Option<u32>, &str)> {
    let mut found = None;
    let mut at = 0;
    for word in text.split(' ') {
        let end = at + word.len();
        if let Some(writer) = writer(word) {
            let rest = text.get(end..).unwrap_or_default().trim_start();
            let device = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
            let device = device.and_then(|(device, rest)| Some((device.parse().ok()?, rest)));
            found = Some(match device {
                Some((device, rest)) => (writer, Some(device), rest),
                None => (writer, None, rest),
            });
        }
        at = end + 1;
    }
    found
}

/// `HOST:PID:TID`, behind what a launcher glued to it (`[1,0]<stdout>:`, `[rank0]:`).
fn writer(word: &str) -> Option<Writer> {
    let mut parts = word.rsplitn(3, ':');
    let (tid, pid, host) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    let host = host.rsplit([':', '>', ']', ')', '|']).next().filter(|host| !host.is_empty())?;
    // A place in the source (`enqueue.cc:1842`) has one number, a time of day (`14:55:42`) three of two digits. A container's name
    // may be twelve digits.
    let time = word.rsplitn(3, ':').all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit()));
    (!time).then(|| Writer { host: host.to_owned(), pid, tid })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> (String, u32, u32, Option<u32>, Level, Option<String>, String) {
        let line = Line::parse(line).unwrap_or_else(|| panic!("not NCCL's: {line}"));
        let Writer { host, pid, tid } = line.writer;
        (host, pid, tid, line.device, line.level, line.place.map(str::to_owned), line.message.to_owned())
    }

    #[test]
    fn prefixes_of_launchers_are_skipped() {
        let plain = parsed("gpu-box:539:540 [3] NCCL INFO Connected all rings");
        assert_eq!(plain, ("gpu-box".into(), 539, 540, Some(3), Level::Info, None, "Connected all rings".into()));
        for prefix in [
            "(RayWorkerWrapper pid=539) ",
            "(RayWorkerWrapper pid=539, ip=192.0.2.7) ",
            "[1,0]<stdout>:",
            "[1,0]<stdout>: ",
            "[rank0]:",
            "[rank3]: ",
            "0: ",
            "2026-01-02T03:04:05.678901234Z stdout F ",
            "2026-01-02 03:04:05 ",
            "worker-0  | ",
            "[pod/trainer-0/main] ",
            "Mon Jan  2 03:04:05 2026[1,3]<stderr>:",
        ] {
            let line = format!("{prefix}gpu-box:539:540 [3] NCCL INFO Connected all rings\r\n");
            assert_eq!(parsed(&line), plain, "{prefix}");
        }
    }

    #[test]
    fn colours_and_rays_remark_come_off() {
        let line = "\x1b[36m(RayWorkerWrapper pid=5)\x1b[0m h:5:6 [0] NCCL INFO NCCL_PROTO set by environment to LL\x1b[32m [repeated 15x across cluster]\x1b[0m";
        let plain = without_colours(line);
        let (line, repeated) = without_repeat(&plain);
        assert_eq!(repeated, 15);
        assert_eq!(parsed(line).6, "NCCL_PROTO set by environment to LL");
        assert_eq!(without_repeat("a [repeated often]"), ("a [repeated often]", 0));
    }

    #[test]
    fn warnings_of_every_version_tell_their_place() {
        let old = parsed("vm:851:864 [0] graph/tuning.cc:19 NCCL WARN Invalid NCCL_NTHREADS 100");
        assert_eq!((old.4, old.5.as_deref()), (Level::Warning, Some("graph/tuning.cc:19")));
        let dated = parsed("[2026-11-30 14:55:42] vm:1540:1553 [0] graph/tuning.cc:104 NCCL WARN Unrecognized");
        assert_eq!((dated.0.as_str(), dated.1, dated.5.as_deref()), ("vm", 1540, Some("graph/tuning.cc:104")));
        let named = parsed("[2026-11-30 14:55:56] vm:1:2 [0] plugin/net.cc:229 (ncclNetPluginInit) NCCL ATTN Failed");
        assert_eq!(
            (named.4, named.5.as_deref(), named.6.as_str()),
            (Level::Attention, Some("plugin/net.cc:229"), "Failed")
        );
        let info = parsed("vm:1:2 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : file.so:12 NCCL WARN x");
        assert_eq!((info.4, info.5), (Level::Info, None));
    }

    #[test]
    fn a_container_of_digits_is_a_host_and_a_time_of_day_is_none() {
        assert_eq!(parsed("123456789012:5:6 [0] NCCL INFO Connected all rings").0, "123456789012");
        assert_eq!(parsed("14:55:42 vm:5:6 [0] NCCL INFO Connected all rings").0, "vm");
    }

    #[test]
    fn a_line_of_something_else_is_none() {
        for line in ["", "all good", "NCCL INFO without a head", "14:55:42 NCCL INFO x", "a:b:c [0] NCCL INFO x"] {
            assert_eq!(Line::parse(line), None, "{line}");
        }
    }
}
