//! Where results go when no `--out` says it.

use std::path::{Path, PathBuf};

use crate::record::redact;
use crate::record::run::Header;

/// `results/TIME-HOST-GPUS`
pub(super) fn of_run(header: &Header, redacted: bool) -> PathBuf {
    let gpu = header.provenance.gpus.first().map_or("gpu", |gpu| gpu.name.as_str());
    let gpu: String = gpu.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let host = if redacted { redact::HOST } else { header.provenance.host.as_str() };
    free(&format!("{}-{host}-{}x{gpu}", second(header.created), header.plan.devices.len()))
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
