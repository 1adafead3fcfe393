//! Exit status 2: everything wrong is told before the first process starts, with what would be right.

use crate::support::{MAIN, OUT, Program, Ran, entries};

/// Runs with arguments that are wrong; nothing may be started or made.
#[track_caller]
fn refused(arguments: &str, told: &[&str]) -> Ran {
    refused_run(Program::emulated(arguments).keeping(OUT), arguments, told)
}

#[track_caller]
fn refused_run(program: Program, shown: &str, told: &[&str]) -> Ran {
    let ran = program.run();
    assert_eq!(ran.code, 2, "{shown}: {}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stdout, "", "{shown}: errors go to stderr");
    for part in told {
        ran.tells(part);
    }
    assert!(!ran.folder().exists(), "{shown} made a folder");
    assert_eq!(ran.leftovers(), [] as [std::path::PathBuf; 0], "{shown}");
    ran
}

#[test]
fn a_wrong_size_is_told_with_its_place_the_rule_and_an_example() {
    for (size, told) in [
        ("7168x0", ["--sizes:1:6", "tokens cannot be zero", "e.g. 7168x1..4"]),
        ("7168x4..1", ["--sizes:1:6", "a range ends below its start", "1..4"]),
        ("8K..1M*1", ["--sizes:1:8", "a factor must be 2 or more", "8K..1M*2"]),
        ("9999999999999x9999999999", ["--sizes:1:1", "above 1 TiB", "e.g."]),
        ("7168x1,8Q", ["--sizes:1:", "8Q", "e.g."]),
    ] {
        refused(&format!("--sizes {size}"), &told);
    }
}

#[test]
fn what_would_be_passed_over_in_silence_is_refused() {
    refused("--rendezvous node1:29400", &["no launcher tells this process", "mpirun or srun"]);
    refused("--time-limit 99999999h", &["longer than ten years"]);
    let program = Program::new(["--resume", "before", "--dry-run"]).keeping(OUT);
    refused_run(program, "--resume --dry-run", &["--dry-run", "cannot be used with"]);
}

#[test]
fn a_word_that_is_none_of_the_known_ones_is_told_with_those_there_are() {
    for (arguments, told) in [
        ("--dtype float12", ["--dtype", "float12", "bf16"]),
        ("--op total", ["--op", "total", "avg"]),
        ("--modes graf", ["--modes", "graf", "graph"]),
        ("--format xml", ["--format", "xml", "nccl-tests"]),
        ("--in-place=maybe", ["--in-place", "maybe", "both"]),
        ("--sets nope", ["--sets:1:1", "nope", "pcie-ll"]),
        ("--expect nope", ["--expect", "nope", "pcie-ll"]),
        ("--config nope", ["nope", "built-in", "pcie-tp8"]),
    ] {
        refused(arguments, &told);
    }
}

#[test]
fn a_wrong_number_is_told_with_a_right_one() {
    for (arguments, told) in [
        ("--gpus 0", ["--gpus", "1024"]),
        ("--ranks 1 --gpus 2", ["--gpus 1", "2 ranks"]),
        ("--rounds 0", ["--rounds", "auto"]),
        ("--tolerance 5", ["--tolerance", "5%"]),
        ("--deadline 0s", ["--deadline", "90s"]),
        ("--communicators 0", ["--communicators", "1..=1000"]),
    ] {
        refused(arguments, &told);
    }
}

#[test]
fn gpus_are_named_once_and_in_one_way() {
    refused("--devices 0,0", &["names GPU 0 twice", "--ranks"]);
    refused("--gpus 2 --devices 0,1", &["cannot be used with"]);
}

#[test]
fn a_wrong_env_set_is_told_with_its_place_and_an_example() {
    for (arguments, told) in [
        ("--set a", ["--set:1:1", "a name and a colon", "e.g."]),
        ("--set a:NCCL_PROTO=LL --set a:NCCL_ALGO=Ring", ["--set:1:1", "two env sets are called `a`", "rename"]),
        ("--vary NCCL_PROTO=", ["--vary:1:11", "missing", "e.g."]),
    ] {
        refused(arguments, &told);
    }
}

#[test]
fn a_variable_that_nccl_does_not_read_is_refused_unless_allowed() {
    refused("--set a:NCCL_PROTOO=LL", &["NCCL_PROTOO", "NCCL_PROTO", "--allow-unknown"]);
    Program::least("--set a:NCCL_PROTOO=LL --allow-unknown").keeping(OUT).run().exits(5);
}

#[test]
fn a_value_that_nccl_would_misread_is_refused_unless_forced() {
    refused("--set a:NCCL_BUFFSIZE=16M", &["a:", "NCCL_BUFFSIZE", "16777216", "--force"]);
    Program::least("--set a:NCCL_BUFFSIZE=16M --force").keeping(OUT).run().exits(5);
}

#[test]
fn a_product_of_more_than_512_sets_is_refused() {
    let values = |n: u32| (1..=n).map(|v| v.to_string()).collect::<Vec<_>>().join(",");
    let arguments = format!("--vary NCCL_MIN_NCHANNELS={} --vary NCCL_NTHREADS={}", values(27), values(19));
    refused(&arguments, &["512"]);
}

#[test]
fn a_configuration_is_refused_with_the_file_and_the_line() {
    let text = "sizes = \"7168x1\"\n\n[sets.ll]\nNCCL_PROTO = \"LL\"\n\n[varry]\nNCCL_ALGO = [\"Ring\"]\n";
    let program = Program::emulated("--config my.toml").file("my.toml", text).keeping(OUT);
    refused_run(program, "an unknown table", &["my.toml:6:2", "varry", "vary"]);
    let program = Program::emulated("--config my.toml").file("my.toml", "sizes = \"7168x0\"\n").keeping(OUT);
    refused_run(program, "a wrong size", &["my.toml:1:", "tokens cannot be zero"]);
}

#[test]
fn an_emulated_box_that_does_not_exist_is_told_with_the_nearest_one() {
    let program = Program::new(["--emulate=8xpcie-flatt", "--out", OUT]);
    refused_run(program, "a box", &["8xpcie-flatt", "did you mean `8xpcie-flat`?"]);
}

#[test]
fn a_command_that_starts_workers_has_words() {
    for words in ["", "  ", "''", "'unclosed"] {
        refused_run(Program::emulated("").args(["--wrap", words]).keeping(OUT), words, &["--wrap", "numactl"]);
    }
}

#[test]
fn a_folder_that_holds_a_run_is_left_as_it_is() {
    let before = std::fs::read(MAIN.folder().join("journal.jsonl")).unwrap();
    let ran = Program::least("").keeping(MAIN.folder().to_str().unwrap()).run().exits(2);
    ran.tells("already holds a run");
    ran.tells("--resume");
    assert_eq!(std::fs::read(MAIN.folder().join("journal.jsonl")).unwrap(), before);
    assert_eq!(entries(&MAIN.folder()).len(), 3);
}

#[test]
fn a_run_continues_only_where_there_is_one_and_on_the_bench_it_was_begun_on() {
    let ran = Program::emulated("--resume nowhere").run().exits(2);
    ran.tells("nowhere");
    let begun = Program::least("").keeping(OUT).run().exits(5);
    let resumed =
        Program::emulated("--resume run").beside(&begun).env("NCCLSWEEP_EMULATE_NCCL", "2.30.4").run().exits(2);
    resumed.tells("the NCCL library changed");
    let resumed = Program::emulated("--resume run").beside(&begun).env("NCCL_PROTO", "LL").run().exits(2);
    resumed.tells("inherited NCCL_* variables changed");
    let redacted = Program::least("--redact").keeping(OUT).run().exits(5);
    let resumed = Program::emulated("--resume run").beside(&redacted).run().exits(2);
    resumed.tells("it is redacted");
}

#[test]
fn a_variable_is_explained_by_its_name_and_a_wrong_name_by_the_nearest() {
    let ran = Program::new(["explain", "buffsize"]).run().exits(0);
    assert!(ran.stdout.starts_with("NCCL_BUFFSIZE"), "{}", ran.stdout);
    assert!(Program::new(["explain"]).run().exits(0).stdout.lines().count() > 50);
    let several = Program::new(["explain", "p2p"]).run().exits(0).stdout;
    for name in ["NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_MIN_P2P_NCHANNELS"] {
        assert!(several.contains(name), "{several}");
    }
    assert!(!several.contains("NCCL_ALGO "), "{several}");
    Program::new(["explain", "VLLM_FOO"]).run().exits(2).tells("no variable of NCCL has `VLLM_FOO` in its name");
    Program::new(["explain", "NCCL_VERSION"]).run().exits(2).tells("NCCL does not read NCCL_VERSION");
    Program::new(["explain", "NCCL_PROTOO"]).run().exits(2).tells("did you mean NCCL_PROTO?");
}

#[test]
fn help_and_version_are_answers_on_stdout() {
    for (flag, told) in [("--help", "Exit status"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let ran = Program::new([flag]).run().exits(0);
        assert!(ran.stdout.contains(told), "{flag}: {}", ran.stdout);
        assert_eq!(ran.stderr, "");
    }
}
