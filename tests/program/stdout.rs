//! What happens when stdout cannot be written: a full disk is an error, a reader that leaves changes nothing.

use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::support::{OUT, Program, Ran, executable};

/// A small run whose folder the other commands read, with what else they need beside it; made once.
static RAN: LazyLock<Ran> = LazyLock::new(|| {
    let plan = "sizes = \"7168x1\"\nrounds = 1\n[require]\ngpus = 9\n";
    let ran = Program::least("--quiet").file("plan.toml", plan).keeping(OUT).run().exits(5);
    Program::least("--quiet").beside(&ran).keeping("later").run().exits(5);
    ran
});

/// What answers on stdout without measuring.
const ANSWERS: [&str; 22] = [
    "--help",
    "-h",
    "--version",
    "help",
    "help report",
    "compare --help",
    "explain",
    "explain NCCL_PROTO",
    "completions bash",
    "completions fish",
    "man",
    "man sweep",
    "schema",
    "--emulate --dry-run",
    "report run",
    "report run --why",
    "report run --format html",
    "report run --format csv",
    "compare run later",
    "export run --to env --force",
    "topo --emulate --format json",
    "doctor --emulate",
];

/// Exit status and stderr of the program in the folder of that run.
fn run(arguments: &str, stdout: Stdio) -> (Option<i32>, String) {
    let mut command = Command::new(executable());
    command.args(arguments.split_whitespace()).current_dir(RAN.home.path()).env_clear();
    command.env("HOME", RAN.home.path()).env("TMPDIR", RAN.home.path().join("tmp")).env("PATH", "/usr/bin:/bin");
    let output = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn full() -> Stdio {
    std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// A pipe whose reader has left.
fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

#[test]
fn an_answer_that_does_not_fit_is_an_error_that_says_so() {
    for arguments in ANSWERS {
        let (code, stderr) = run(arguments, full());
        assert_eq!(code, Some(4), "{arguments}: {stderr}");
        assert!(stderr.contains("cannot write") && stderr.contains("No space left"), "{arguments}: {stderr}");
    }
}

#[test]
fn a_reader_that_wants_no_more_changes_nothing_of_how_a_command_ends() {
    for arguments in ANSWERS {
        let (usual, closed) = (run(arguments, Stdio::null()), run(arguments, closed()));
        assert_eq!(closed, usual, "{arguments}");
    }
}

#[test]
fn a_gate_that_fails_fails_whoever_reads_on() {
    let accept = "accept plan.toml --run run --junit junit.xml";
    let usual = run(accept, Stdio::null());
    assert_eq!(usual.0, Some(1), "{}", usual.1);
    let junit = RAN.home.path().join("junit.xml");
    std::fs::remove_file(&junit).unwrap();
    assert_eq!(run(accept, closed()), usual);
    assert!(junit.exists(), "what was asked for beside it is written");
}

#[test]
fn results_that_cannot_be_printed_are_kept() {
    let least = "--emulate --gpus 2 --sizes 7168x1 --rounds 1 --communicators 1 --quiet --out full";
    let (code, stderr) = run(least, full());
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("cannot write"), "{stderr}");
    assert!(RAN.home.path().join("full/run.json").exists());
    assert_eq!(run("report full", Stdio::null()).0, Some(0));
}

#[test]
fn a_small_stack_is_enough() {
    let limited = |arguments: &str| {
        let script = format!("ulimit -s 64; exec '{}' {arguments}", executable());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).current_dir(RAN.home.path()).env("TMPDIR", RAN.home.path().join("tmp"));
        shell.output().unwrap()
    };
    for (arguments, code) in [
        ("--help", 0),
        ("report run", 0),
        ("--emulate --gpus 2 --sizes 7168x1 --rounds 1 --communicators 1 --quiet --out small", 5),
    ] {
        let output = limited(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {output:?}");
    }
}
