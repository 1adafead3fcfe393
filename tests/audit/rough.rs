//! Rough surroundings: signals, limits, folders with other things in them, a document that somebody altered.

use std::os::unix::process::CommandExt;
use std::process::Child;

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;

use super::*;

/// An audit of a shell that says `ready` and tells which signals come to it, until it is told to end.
struct Told {
    audit: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Told {
    fn start(stage: &Stage, setup: impl FnOnce(&mut Command)) -> Self {
        let script = r#"for s in HUP INT QUIT USR1 USR2 ALRM 34; do trap "echo got $s" $s; done
            trap 'echo got TERM; exit 9' TERM; echo ready; while :; do sleep 0.05; done"#;
        let mut command = stage.program("audit --out audit --");
        // bash tells each signal; others may not know those of real time.
        command.args(["bash", "-c", script]).stdout(Stdio::piped());
        // What started the tests may ignore some (nohup, a shell's background), and what is ignored is never told.
        // SAFETY: a call that is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                let all = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];
                all.into_iter().for_each(|signal| {
                    libc::signal(signal, libc::SIG_DFL);
                });
                Ok(())
            })
        };
        setup(&mut command);
        let mut audit = command.spawn().unwrap();
        let mut lines = BufReader::new(audit.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        Self { audit, lines }
    }

    fn send(&self, signal: i32) {
        // SAFETY: a call without memory, to a process of ours.
        assert_eq!(unsafe { libc::kill(self.audit.id().cast_signed(), signal) }, 0);
    }

    fn next(&mut self) -> String {
        self.lines.next().unwrap().unwrap()
    }

    fn ends(mut self) -> Option<i32> {
        self.lines.by_ref().for_each(drop);
        self.audit.wait().unwrap().code()
    }
}

#[test]
fn a_signal_that_is_sent_to_the_audit_alone_reaches_the_command_which_decides() {
    let stage = Stage::new();
    let mut told = Told::start(&stage, |_| {});
    for (signal, name) in [(libc::SIGINT, "INT"), (libc::SIGQUIT, "QUIT"), (libc::SIGUSR1, "USR1")] {
        told.send(signal);
        assert_eq!(told.next(), format!("got {name}"));
    }
    for (signal, name) in [(libc::SIGUSR2, "USR2"), (libc::SIGALRM, "ALRM"), (libc::SIGHUP, "HUP"), (34, "34")] {
        told.send(signal);
        assert_eq!(told.next(), format!("got {name}"));
    }
    told.send(libc::SIGTERM);
    assert_eq!(told.next(), "got TERM");
    assert_eq!(told.ends(), Some(9), "the command's own status");
}

#[test]
fn what_was_ignored_before_stays_ignored_in_the_command() {
    let stage = Stage::new();
    let mut told = Told::start(&stage, |command| {
        // As nohup does.
        // SAFETY: a call that is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                Ok(())
            })
        };
    });
    told.send(libc::SIGHUP);
    told.send(libc::SIGTERM);
    assert_eq!(told.next(), "got TERM", "a shell cannot trap what it was started to ignore");
    assert_eq!(told.ends(), Some(9));
}

#[test]
fn a_broken_pipe_and_the_end_of_children_stay_ignored_and_the_status_is_told() {
    let stage = Stage::new();
    let run = |ignore: bool, start: &str, words: &[&str]| {
        let mut command = stage.program(start);
        command.arg("--").args(words);
        // SAFETY: calls that are async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                let how = if ignore { libc::SIG_IGN } else { libc::SIG_DFL };
                libc::signal(libc::SIGPIPE, how);
                libc::signal(libc::SIGCHLD, how);
                Ok(())
            })
        };
        Ran(command.output().unwrap())
    };
    let own = [libc::SIGPIPE, libc::SIGCHLD].map(|signal| 1_u64 << (signal - 1));
    for (number, ignore) in [true, false].into_iter().enumerate() {
        for start in [format!("audit --out {number}"), "exec --set pcie-ll".to_owned()] {
            let shown = run(ignore, &start, &["grep", "SigIgn", "/proc/self/status"]).exits(0).stdout();
            let mask = shown.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("the command's own line");
            let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
            assert!(own.iter().all(|bit| (mask & bit != 0) == ignore), "{start}, {ignore}: {mask:x}");
        }
        run(ignore, &format!("audit --out status-{number}"), &["sh", "-c", "exit 7"]).exits(7);
    }
}

#[test]
fn a_limit_on_the_size_of_files_costs_the_journal_and_not_the_server() {
    let stage = Stage::new();
    let script = format!("ulimit -f 1; {}; echo served $?", serve("calls=5"));
    let ran = stage.run("audit --out audit", &script).exits(0);
    assert!(ran.stdout().contains("served 0"), "{}{}", ran.stdout(), ran.stderr());
    assert!(ran.stderr().contains("ncclsweep profiler: cannot write"), "{}", ran.stderr());
    assert!(ran.stderr().contains("could not write to the folder"), "{}", ran.stderr());
    assert_eq!(fs::read_dir(stage.folder.path().join("audit")).unwrap().count(), 0, "no half file stays");
}

#[test]
fn a_mistyped_option_is_refused_and_never_started() {
    let stage = Stage::new();
    for (command, meant) in [("audit --expct pcie-ll", "--expect"), ("exec --sett pcie-ll", "--set")] {
        let ran = stage.run(command, "echo started").exits(2);
        assert!(ran.stderr().contains(meant) && ran.stdout().is_empty(), "{}{}", ran.stdout(), ran.stderr());
    }
    let nothing = Ran(stage.program("audit").output().unwrap()).exits(2);
    assert!(nothing.stderr().contains("<COMMAND>"), "{}", nothing.stderr());
    // What follows the command is the command's.
    let ran = Ran(stage.program("audit --out audit echo --expect x -- -y").output().unwrap()).exits(0);
    assert!(ran.stdout().starts_with("--expect x -- -y\n"), "{}", ran.stdout());
}

#[test]
fn pipes_devices_and_endless_files_among_the_journals_are_told_and_hide_no_other() {
    let stage = Stage::new();
    stage.run("audit --out audit", &serve("calls=3")).exits(0);
    let folder = stage.folder.path().join("audit");
    nix::unistd::mkfifo(&folder.join("a.jsonl"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    symlink("/dev/zero", folder.join("b.jsonl")).unwrap();
    fs::File::create(folder.join("c.jsonl")).unwrap().set_len(1 << 40).unwrap();
    fs::create_dir(folder.join("d.jsonl")).unwrap();
    let document = stage.document();
    let unread: Vec<&str> =
        document["unread"].as_array().unwrap().iter().filter_map(|file| file["why"].as_str()).collect();
    let odd = "it is no regular file";
    assert_eq!(unread, [odd, odd, "it is larger than 64 MiB", odd]);
    assert_eq!(document["workers"].as_array().unwrap().len(), 1);
    let least = "--emulate --sizes-from audit --dry-run --seed 1";
    Ran(stage.program(least).output().unwrap()).exits(0);
}

#[test]
fn figures_that_no_server_has_are_no_sizes_to_measure() {
    let stage = Stage::new();
    stage.run("audit --out audit", &serve("calls=3")).exits(0);
    let folder = stage.folder.path().join("audit");
    let journal = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&journal).unwrap();
    let least = "--emulate --sizes-from audit --dry-run --seed 1";
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        fs::write(&journal, text.replace(from, to)).unwrap();
        Ran(stage.program(least).output().unwrap()).exits(2).stderr()
    };
    assert!(with(r#""ranks":2"#, r#""ranks":5000"#).contains("ranks 5000 is out of range"));
    assert!(with(r#""ranks":2"#, r#""ranks":4000000000"#).contains("no all-reduce"));
    assert!(with(r#""eager":3"#, r#""eager":18446744073709551615"#).contains("no all-reduce"));
    with(r#""count":7168"#, r#""count":1125899906842624"#);
    with(r#""count":7168"#, r#""count":18446744073709551615"#);
}

#[test]
fn a_time_that_is_no_time_is_refused_before_anything_is_read() {
    let stage = Stage::new();
    for time in ["nan", "inf", "-1", "0", "29.5,nan", "1e999"] {
        for flag in ["--step-time", "--tokens-per-step"] {
            let given = format!("--sizes-from nowhere --dry-run {flag}={time}");
            let ran = Ran(stage.program(&given).output().unwrap()).exits(2);
            assert!(ran.stderr().contains(flag), "{given}: {}", ran.stderr());
        }
    }
}

#[test]
fn the_commands_status_outlives_a_lost_folder_a_full_disk_and_a_reader_who_left() {
    let stage = Stage::new();
    let full = |command: &mut Command| {
        command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    };
    let ran = stage.run("audit --out a", "rm -r a; exit 7").exits(7);
    assert!(ran.stderr().contains("the command ended with exit status: 7"), "{}", ran.stderr());
    assert!(ran.stderr().contains("cannot read the folder of an audit"), "{}", ran.stderr());
    stage.run("audit --out a", "rm -r a").exits(4);
    stage.run("audit --out a --expect pcie-ll", "rm -r a; exit 7").exits(4);
    // `full` takes stdout from the command too: it must not write.
    stage.run_output("audit --out b", "exit 7", full).exits(7);
    stage.run_output("audit --out c", "exit 0", full).exits(4);
    let gone = |command: &mut Command| {
        let (reader, writer) = std::io::pipe().unwrap();
        command.stdout(writer);
        drop(reader);
    };
    stage.run_output("audit --out d", "exit 7", gone).exits(7);
    stage.run_output("audit --out e", "exit 0", gone).exits(0);
}

#[test]
fn a_server_with_a_plugin_of_its_own_is_told_why_nothing_is_known() {
    let stage = Stage::new();
    let ran = stage.run_with("audit --out audit", &serve("calls=1"), |command| {
        command.env("NCCL_PROFILER_PLUGIN", "/opt/other.so");
    });
    let words = ran.stderr().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("each was given NCCL_PROFILER_PLUGIN=/opt/other.so"), "{words}");
    assert!(!words.contains("2.23"), "the version is not why: {words}");
    let script = format!("export NCCL_PROFILER_PLUGIN=/opt/other.so; {}", serve("calls=1"));
    let ran = stage.run("audit --out inner", &script);
    assert!(ran.stderr().contains("sets another NCCL_PROFILER_PLUGIN"), "{}", ran.stderr());
}

#[test]
fn the_hint_for_another_terminal_can_be_pasted() {
    let stage = Stage::new();
    let mut command = stage.program("audit");
    command.args(["--out", "two words; rm", "--", "true"]);
    let ran = Ran(command.output().unwrap()).exits(0);
    assert!(ran.stderr().contains("--watch '") && ran.stderr().contains("/two words; rm'"), "{}", ran.stderr());
}

#[test]
fn a_run_that_was_altered_sets_nothing_but_variables_of_nccl() {
    let stage = Stage::new();
    let sweep = "--emulate --gpus 2 --sizes 7168x1 --rounds 1 --communicators 1 --quiet --out run --seed 1 \
                 --set fast:NCCL_PROTO=LL";
    stage.program(sweep).output().unwrap();
    let document = stage.folder.path().join("run/run.json");
    let text = fs::read_to_string(&document).unwrap();
    let mut run: Value = serde_json::from_str(&text).unwrap();
    run["plan"]["sets"][1]["vars"]["LD_PRELOAD"] = "/tmp/evil.so".into();
    // Alone, so that no journal tells otherwise.
    let altered = stage.folder.path().join("altered.json");
    fs::write(&altered, run.to_string()).unwrap();
    let ran = stage.run("exec --from altered.json --set fast --force", "echo started").exits(2);
    assert!(ran.stderr().contains("LD_PRELOAD, which is no variable of NCCL's"), "{}", ran.stderr());
    assert_eq!(ran.stdout(), "");
    let export = Ran(stage.program("export altered.json --set fast --to env").output().unwrap()).exits(2);
    assert!(export.stderr().contains("it sets LD_PRELOAD"), "{}", export.stderr());
    // A variable of NCCL's that does more than tune wants a look.
    let vars = run["plan"]["sets"][1]["vars"].as_object_mut().unwrap();
    vars.remove("LD_PRELOAD");
    vars.insert("NCCL_TUNER_PLUGIN".to_owned(), "/tmp/evil.so".into());
    (run["backend"], run["provenance"]["emulated"]) = ("cuda".into(), Value::Null);
    fs::write(&altered, run.to_string()).unwrap();
    let ran = stage.run("exec --from altered.json --set fast", "echo started").exits(2);
    assert!(ran.stderr().contains("NCCL_TUNER_PLUGIN=/tmp/evil.so makes processes load"), "{}", ran.stderr());
    run["plan"]["sets"][1]["vars"]["NCCL_ALGO"] = "Ring\nLD_PRELOAD=/tmp/evil.so".into();
    fs::write(&altered, run.to_string()).unwrap();
    stage.run("exec --from altered.json --set fast --force", "echo started").exits(2);
}

#[test]
fn an_audit_that_is_killed_leaves_its_command_to_end_by_itself() {
    let stage = Stage::new();
    let mut told = Told::start(&stage, |_| {});
    let child = fs::read_to_string(format!("/proc/{0}/task/{0}/children", told.audit.id())).unwrap();
    let child = Pid::from_raw(child.trim().parse().unwrap());
    kill(Pid::from_raw(told.audit.id().cast_signed()), Signal::SIGKILL).unwrap();
    told.audit.wait().unwrap();
    kill(child, Signal::SIGTERM).unwrap();
    assert_eq!(told.next(), "got TERM");
}
