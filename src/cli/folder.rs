//! Where results go: into the folder that `--out` names, else into one of their own under `results`.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::record::redact;
use crate::record::run::Header;

/// The folder of a run, made: `out`, or `results/TIME-HOST-GPUS`.
pub(super) fn of_run(out: Option<&Path>, header: &Header, redacted: bool) -> Result<PathBuf> {
    let gpu = header.provenance.gpus.first().map_or_else(|| "gpu".to_owned(), |gpu| short(&gpu.name));
    let host = if redacted { redact::HOST } else { header.provenance.host.as_str() };
    make(out, &format!("{}-{host}-{}x{gpu}", second(header.created), header.plan.devices.len()))
}

/// `rtxpro6000` of `NVIDIA RTX PRO 6000 Blackwell Server Edition`: what tells it from others, without the maker.
fn short(gpu: &str) -> String {
    let words = gpu.split_whitespace().filter(|word| !["NVIDIA", "GeForce", "Tesla"].contains(word));
    words.take(3).flat_map(str::chars).filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}

/// The folder of an audit, made: `out`, or `results/audit-TIME-HOST`.
pub(super) fn of_audit(out: Option<&Path>, host: &str) -> Result<PathBuf> {
    make(out, &format!("audit-{}-{host}", second(jiff::Timestamp::now())))
}

fn second(time: jiff::Timestamp) -> String {
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn make(out: Option<&Path>, name: &str) -> Result<PathBuf> {
    let results = Path::new("results");
    let failed = |path: &Path, error: std::io::Error| {
        Error::usage(format!("cannot make the folder {}", path.display())).because(error).help("--out takes another")
    };
    if let Some(out) = out {
        return std::fs::create_dir_all(out).map_err(|error| failed(out, error)).map(|()| out.to_owned());
    }
    std::fs::create_dir_all(results).map_err(|error| failed(results, error))?;
    claim(results, name).map_err(|error| failed(&results.join(name), error))
}

/// A new folder of this name in `place`, with a number where another run of the same second has it: that is known by making
/// it, since both may look at the same time.
fn claim(place: &Path, name: &str) -> std::io::Result<PathBuf> {
    let numbered = (2..).map(|number| place.join(format!("{name}-{number}")));
    let mut names = std::iter::once(place.join(name)).chain(numbered);
    let made = names.find_map(|path| match std::fs::create_dir(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => None,
        made => Some(made.map(|()| path)),
    });
    made.expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_begin_in_the_same_second_get_folders_of_their_own() {
        let place = tempfile::tempdir().unwrap();
        let made: Vec<PathBuf> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| claim(place.path(), "now").unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut names: Vec<_> = made.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["now", "now-2", "now-3", "now-4", "now-5", "now-6", "now-7", "now-8"]);
    }

    #[test]
    fn a_place_that_takes_no_folder_is_an_error() {
        let place = tempfile::NamedTempFile::new().unwrap();
        assert!(claim(place.path(), "run").is_err());
    }

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
