//! What is brought in and taken away: figures of nccl-tests, env sets, manual pages, completions, the schema.

use crate::executable::copied;
use crate::support::{LEAST, MAIN, OUT, Program, Ran};

fn recorded(file: &str) -> String {
    format!("{}/tests/data/nccl-tests/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn import(arguments: &[&str]) -> Ran {
    Program::new(["import"]).args(arguments.iter().copied()).run()
}

#[test]
fn an_imported_run_is_reported_compared_and_told_from_a_measured_one() {
    let text = import(&[&recorded("2.19.6.txt"), "--out", OUT]).exits(0);
    assert!(text.stdout.contains("one replicate: no interval, no verdict"), "{}", text.stdout);
    assert!(text.stdout.contains("imported from 2.19.6.txt"), "{}", text.stdout);
    let json = Program::new(["import", &recorded("2.19.6.json"), "--out", "json"]).beside(&text).run().exits(0);
    let reported = Program::new(["report", "json"]).beside(&text).run().exits(0);
    assert_eq!(json.stdout, reported.stdout, "what is printed at once is what report prints");

    let compared = Program::new(["compare", OUT, "json"]).beside(&text).run().exits(5);
    let words: Vec<&str> = compared.stdout.split_whitespace().collect();
    for told in ["one visit cannot tell how far visits differ", "inherited NCCL_P2P_DISABLE: not set → 1"] {
        assert!(words.join(" ").contains(told), "{}", compared.stdout);
    }
    Program::new(["compare", OUT, OUT]).beside(&text).run().exits(2).tells("one and the same run");
    Program::new(["export", OUT, "--set", "default", "--to", "env"]).beside(&text).run().exits(2).tells("imported");
}

#[test]
fn a_text_that_cannot_be_imported_is_told_with_its_line_and_leaves_nothing() {
    let whole = std::fs::read_to_string(recorded("2.19.6.txt")).unwrap();
    let cut = &whole[..whole.find("3.66").unwrap()];
    let ran = Program::new(["import", "cut.txt", "--out", OUT]).file("cut.txt", cut).run().exits(2);
    ran.tells("cut.txt, line 16");
    ran.tells("the row is cut off or mixed with other output");
    assert!(!ran.folder().exists());
    import(&["nowhere.txt"]).exits(2).tells("nowhere.txt");
}

#[test]
fn a_set_of_an_emulated_run_is_written_only_when_forced_and_then_says_so() {
    let folder = MAIN.folder();
    let export = |arguments: &str| {
        let words = ["export", folder.to_str().unwrap()].into_iter().chain(arguments.split_whitespace());
        Program::new(words).run()
    };
    let refused = export("--set pcie-ll --to nccl.conf").exits(2);
    refused.tells("emulated");
    assert_eq!(refused.stdout, "");
    let forced = export("--set pcie-ll --to nccl.conf --force").exits(0);
    assert!(forced.stdout.contains("# FORCED although: the run is emulated"), "{}", forced.stdout);
    assert!(forced.stdout.ends_with("NCCL_NTHREADS=512\n"), "{}", forced.stdout);
    export("--set pcie --to env").exits(2).tells("did you mean `pcie-ll`?");
    export("--set pcie-ll --to xml").exits(2).tells("sitecustomize");
    let tuned = export("--to tuner-csv --force").exits(0);
    let rows: Vec<&str> = tuned.stdout.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(
        rows.iter().all(|row| row.starts_with("allreduce,") && row.contains(",ring,ll,") && row.ends_with(",1,8")),
        "{rows:?}"
    );
    let written = export("--to env --force --output set.env").exits(0);
    assert_eq!(written.stdout, "");
    assert!(std::fs::read_to_string(written.home.path().join("set.env")).unwrap().contains("export NCCL_PROTO=LL\n"));
}

#[test]
fn pages_and_completions_know_every_command() {
    let page = Program::new(["man"]).run().exits(0).stdout;
    assert!(page.contains(".TH ncclsweep") && page.contains("Exit status"), "{page}");
    assert!(Program::new(["man", "export"]).run().exits(0).stdout.contains("tuner\\-csv"));
    Program::new(["man", "nothing"]).run().exits(2).tells("there is no command `nothing`");
    let made = Program::new(["man", "--out", "pages"]).run().exits(0);
    for page in ["ncclsweep.1", "ncclsweep-sweep.1", "ncclsweep-import.1"] {
        let text = std::fs::read_to_string(made.home.path().join("pages").join(page)).unwrap();
        assert!(text.contains("Examples:"), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = Program::new(["completions", shell]).run().exits(0).stdout;
        assert!(script.contains("export") && script.contains("thorough"), "{shell}");
    }
}

#[test]
fn verbose_tells_of_every_visit_and_quiet_of_nothing() {
    let verbose = Program::least("--verbose").keeping(OUT).run().exits(5);
    verbose.tells("pcie-ll, round 1: completed in");
    verbose.tells("7168x1 graph:");
    let quiet = Program::least("--quiet").keeping(OUT).run().exits(5);
    assert_eq!(quiet.stderr, "");
    Program::least("--quiet --verbose").run().exits(2);
}

#[test]
fn a_program_in_bin_finds_what_lies_in_lib_beside_it() {
    let prefix = tempfile::tempdir().unwrap();
    let place = |name: &str| prefix.path().join(name);
    let built = std::path::Path::new(env!("CARGO_BIN_EXE_ncclsweep"));
    for folder in ["bin", "lib/ncclsweep"] {
        std::fs::create_dir_all(place(folder)).unwrap();
    }
    copied(built, &place("bin/ncclsweep"));
    let emulator = "libncclsweep_emulator.so";
    std::fs::copy(built.with_file_name("deps").join(emulator), place("lib/ncclsweep").join(emulator)).unwrap();
    let mut command = std::process::Command::new(place("bin/ncclsweep"));
    command.args(["--emulate", "--quiet", "--format", "json", "--out", "run"]).args(LEAST).current_dir(prefix.path());
    let output = command.output().unwrap();
    let run: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let taken = run["plan"]["libraries"][0]["path"].as_str().unwrap();
    assert_eq!(std::path::Path::new(taken), place("lib/ncclsweep").join(emulator).canonicalize().unwrap());
}
