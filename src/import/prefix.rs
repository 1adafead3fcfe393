//! What launchers put before a line: which stream it belongs to, and the line itself.

use std::sync::LazyLock;

use regex::Regex;

/// A tag of a launcher, which tells streams apart, or a time, which does not.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    let tag = [
        // Open MPI, PRRTE: `[1,0]<stdout>:`, `[prterun-box-7@1,0]<stdout>:`
        r"\[[^\[\]\s]*\d+,\d+\]<std(?:out|err)>:",
        // torchrun: `[rank0]:`
        r"\[rank\d+\]:",
        // Kubernetes: `[pod/trainer-0/main]`
        r"\[pod/[^\[\]\s]+\]",
        // Ray: `(RayWorkerWrapper pid=539, ip=192.0.2.7)`
        r"\([A-Za-z_]\w* pid=\d+[^()]*\)",
        // docker compose: `worker-0  |`
        r"[A-Za-z][\w.-]*\s+\|",
        // srun --label: ` 0:`
        r"\d+:",
    ];
    let time = [
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?: std(?:out|err) [FP])?",
        r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}",
    ];
    let pattern = format!(r"^\s*(?:(?<tag>{})|(?:{}))[ \t]?", tag.join("|"), time.join("|"));
    Regex::new(&pattern).expect("the pattern is right")
});

/// Most prefixes on one line: a container's time, its name, an MPI tag.
const MOST: usize = 4;

/// The tags before a line, joined, and the line.
pub(super) fn split(line: &str) -> (String, &str) {
    let (mut tags, mut rest) = (String::new(), line);
    for _ in 0..MOST {
        let Some(found) = PREFIX.captures(rest) else { break };
        if let Some(tag) = found.name("tag") {
            tags.push_str(tag.as_str());
        }
        rest = &rest[found[0].len()..];
    }
    (tags, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_tells_streams_apart_and_a_time_does_not() {
        for (line, tags, rest) in [
            ("       14336          7168  bfloat16", "", "       14336          7168  bfloat16"),
            ("# GPU memory usage : a | b", "", "# GPU memory usage : a | b"),
            ("[1,0]<stdout>:#", "[1,0]<stdout>:", "#"),
            ("[prterun-box-7@1,3]<stderr>: # x", "[prterun-box-7@1,3]<stderr>:", "# x"),
            ("(RayWorkerWrapper pid=539, ip=192.0.2.7) # x", "(RayWorkerWrapper pid=539, ip=192.0.2.7)", "# x"),
            (" 3: 14336 7168", "3:", "14336 7168"),
            ("worker-0  | 14336 7168", "worker-0  |", "14336 7168"),
            ("2026-01-02T03:04:05.678901234Z stdout F # x", "", "# x"),
            ("2026-01-02T03:04:05.678Z [pod/a-0/main] # x", "[pod/a-0/main]", "# x"),
            ("Mon Jan  2 03:04:05 2026[1,3]<stdout>:# x", "[1,3]<stdout>:", "# x"),
        ] {
            assert_eq!(split(line), (tags.to_owned(), rest), "{line}");
        }
    }
}
