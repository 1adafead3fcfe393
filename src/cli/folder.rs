//! Where results go when no `--out` says it.

use std::path::{Path, PathBuf};

use crate::record::redact;
use crate::record::run::Header;

/// `results/TIME-HOST-GPUS`
pub(super) fn of_run(header: &Header, redacted: bool) -> PathBuf {
    let gpu = header.provenance.gpus.first().map_or_else(|| "gpu".to_owned(), |gpu| short(&gpu.name));
    let host = if redacted { redact::HOST } else { header.provenance.host.as_str() };
    free(&format!("{}-{host}-{}x{gpu}", second(header.created), header.plan.devices.len()))
}

/// `rtxpro6000` of `NVIDIA RTX PRO 6000 Blackwell Server Edition`: what tells it from others, without the maker.
fn short(gpu: &str) -> String {
    let words = gpu.split_whitespace().filter(|word| !["NVIDIA", "GeForce", "Tesla"].contains(word));
    words.take(3).flat_map(str::chars).filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}

/// `results/audit-TIME-HOST`
pub(super) fn of_audit(host: &str) -> PathBuf {
    free(&format!("audit-{}-{host}", second(jiff::Timestamp::now())))
}

fn second(time: jiff::Timestamp) -> String {
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// This name under `results`, with a number where a run of the same second took it.
fn free(name: &str) -> PathBuf {
    let results = Path::new("results");
    let numbered = (2..).map(|number| results.join(format!("{name}-{number}")));
    let mut names = std::iter::once(results.join(name)).chain(numbered);
    names.find(|path| !path.exists()).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_named_by_what_tells_it_from_others() {
        let names = [
            ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
            ("NVIDIA GeForce RTX 4090", "rtx4090"),
            ("NVIDIA H200", "h200"),
            ("NVIDIA A100-SXM4-80GB", "a100sxm480gb"),
        ];
        for (name, expected) in names {
            assert_eq!(short(name), expected);
        }
    }
}
