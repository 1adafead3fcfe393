//! The documentation: every command it shows is run, on an emulated box; every link leads somewhere; every example is valid.

#[path = "program/executable.rs"]
mod executable;
#[path = "audit/server.rs"]
mod server;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Stands before the program: what would measure a real box rehearses on an emulated one, as shortly as it can.
const STAND_IN: &str = r#"#!/bin/sh
case "$1" in
    [!-]*) command=$1; shift ;;
    *) command=sweep ;;
esac
help=$("$PROGRAM" "$command" --help)
rehearse= rounds= communicators= forced= skip= last=
case "$help" in *--emulate*) rehearse=--emulate ;; esac
case "$help" in *--communicators*) communicators='--communicators 1' ;; esac
case "$help" in *--rounds*) rounds='--rounds 1' ;; esac
for word do
    shift
    case "$word" in
        --emulate* | --run) rehearse= ;;
        --rounds | --soak) rounds= ;;
        --communicators) communicators= ;;
        --force) forced=yes ;;
    esac
    # No file of a library is here; one library is measured as well as two.
    if [ "$skip" = yes ]; then skip=; continue; fi
    if [ "$word" = --nccl ]; then skip=yes; continue; fi
    [ "$last" = --soak ] && word=1s
    last=$word
    case "$command $word" in
        "accept "*.toml)
            short=short-$(basename "$word")
            sed 's/^rounds = .*/rounds = 1\ncommunicators = 1/' "$word" > "$short"
            word=$short ;;
    esac
    set -- "$@" "$word"
done
# No set of an emulated run is written without it.
[ "$command$forced" = export ] && rehearse=--force
"$PROGRAM" "$command" "$@" $rehearse $rounds $communicators
status=$?
# One round is too few for what a plan requires: not measured.
[ "$command $status" = 'accept 4' ] && exit 5
exit $status
"#;

/// A server: this program again, on the emulated box.
const SERVER: &str = r#"#!/bin/sh
export LD_LIBRARY_PATH="$PWD/lib" NCCLSWEEP_TEST_SERVER='calls=20 captured=61'
exec "$SERVER" --exact server --nocapture
"#;

/// Exit codes of answers: held, a gate failed, undecided. Others are faults of a page.
const ANSWERS: &str = "case $? in 0|1|5) ;; *) exit 9 ;; esac";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages: README.md, docs/*.md and packaging/*.md.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for folder in ["docs", "packaging"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    pages.sort();
    pages
}

/// The lines of the blocks marked `sh`.
fn commands(page: &str) -> Vec<&str> {
    let mut inside = None;
    let mut found = Vec::new();
    for line in page.lines() {
        match (line.strip_prefix("```"), inside) {
            (Some(_), Some(_)) => inside = None,
            (Some(language), None) => inside = Some(language),
            (None, Some("sh")) => found.push(line),
            (None, _) => {}
        }
    }
    found
}

/// Runs a page's commands in a folder of its own, as its reader would, one after the other.
fn run(page: &Path) {
    let text = fs::read_to_string(page).unwrap();
    let lines: Vec<&str> = commands(&text).into_iter().filter(|line| !line.starts_with("cargo ")).collect();
    if lines.is_empty() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let tools = [("ncclsweep", STAND_IN), ("numactl", "#!/bin/sh\nshift 2\nexec \"$@\"\n")];
    for (name, text) in tools {
        executable::script(&bin.join(name), text);
    }
    let server = folder.path().join("serve.sh");
    executable::script(&server, SERVER);
    fs::create_dir(folder.path().join("lib")).unwrap();
    let emulator = Path::new(env!("CARGO_BIN_EXE_ncclsweep")).with_file_name("deps").join("libncclsweep_emulator.so");
    for name in ["libcuda.so.1", "libnccl.so.2"] {
        symlink(&emulator, folder.path().join("lib").join(name)).unwrap();
    }
    for name in ["bench-configs", "tests", "packaging"] {
        symlink(root().join(name), folder.path().join(name)).unwrap();
    }
    let mut script = String::new();
    for line in &lines {
        let number = text.lines().position(|other| other == *line).unwrap_or(0) + 1;
        let then = if line.is_empty() || line.ends_with('\\') { String::new() } else { format!("\n{ANSWERS}") };
        script.push_str(&format!("echo '--- line {number}' >&2\n{line}{then}\n"));
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let out = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("PROGRAM", env!("CARGO_BIN_EXE_ncclsweep"))
        .env("SERVER", std::env::current_exe().unwrap())
        .env("HOME", folder.path())
        // The newest interface, so that several ranks may share a GPU.
        .env("NCCLSWEEP_EMULATE_NCCL", "2.30.4")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let name = page.strip_prefix(root()).unwrap().display();
    assert!(out.status.success(), "{name}: {}\n{said}", out.status);
    assert!(!said.contains("panicked"), "{name}: {said}");
}

#[test]
fn server() {
    server::serve_if_asked();
}

#[test]
fn the_first_figures_of_the_readme_are_those_of_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_ncclsweep"))
        .args(["--emulate", "--gpus", "8", "--sizes", "7168x1..4", "--seed", "1", "--quiet", "--out"])
        .arg(folder.path().join("run"))
        .env_clear()
        .env("COLUMNS", "80")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&out.stdout);
    let figures = printed.find("graph, bf16").map(|at| printed[at..].trim_end()).expect("figures");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains(figures), "README.md shows other figures than these:\n{figures}");
}

#[test]
fn every_command_of_the_readme_runs() {
    run(&root().join("README.md"));
}

#[test]
fn every_command_of_the_pages_runs() {
    pages().iter().filter(|page| !page.ends_with("README.md")).for_each(|page| run(page));
}

#[test]
fn the_pages_show_commands_that_are_run() {
    let shown = |page: &PathBuf| commands(&fs::read_to_string(page).unwrap()).len();
    assert!(pages().iter().map(shown).sum::<usize>() > 40);
}

#[test]
fn every_link_leads_to_a_file() {
    let link = regex::Regex::new(r"\]\(([^)#\s]+)(#[^)]*)?\)").unwrap();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for found in link.captures_iter(&text).filter(|found| !found[1].contains("://")) {
            let target = page.parent().unwrap().join(&found[1]);
            assert!(target.exists(), "{}: {}", page.display(), &found[1]);
        }
    }
}

/// All documents of runs that are committed.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            documents(&path, found);
        } else if path.file_name().is_some_and(|name| name == "run.json")
            || path.starts_with(root().join("docs/examples"))
        {
            found.push(path);
        }
    }
}

#[test]
fn every_committed_run_and_example_is_valid_by_the_published_schema() {
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let validator = jsonschema::validator_for(&read(&root().join("docs/run-1.schema.json"))).unwrap();
    let mut found = Vec::new();
    documents(&root().join("results"), &mut found);
    documents(&root().join("docs/examples"), &mut found);
    assert!(found.len() > 5);
    for path in found {
        let faults: Vec<String> =
            validator.iter_errors(&read(&path)).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{}: {faults:#?}", path.display());
    }
}
