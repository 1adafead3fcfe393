//! Processes made of files.

use super::super::files::tree;
use super::super::{Check, Status};
use super::*;

const LIBRARY: &str = "/venv/nccl/libnccl.so.2";

/// A process of a fake `/proc`: pid, parent, environment, mapped files.
struct Fake<'a>(u32, u32, &'a [&'a str], &'a [&'a str]);

fn proc(processes: &[Fake]) -> tempfile::TempDir {
    let mut files = Vec::new();
    for Fake(pid, parent, environment, mapped) in processes {
        let mut add = |name: &str, text: String| files.push((format!("proc/{pid}/{name}"), text));
        // A name may hold blanks and parentheses.
        add("stat", format!("{pid} (py) (x) 3) S {parent} 1 1 0 -1 4194304 0"));
        add("cmdline", format!("python3\0server.py\0{pid}\0"));
        add("environ", environment.iter().map(|variable| format!("{variable}\0")).collect());
        add("status", "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\n".to_owned());
        add("root/etc/passwd", "root:x:0:0::/root:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\n".to_owned());
        // A file is mapped in several parts, all of one inode.
        let line = |path: &&str| {
            let inode = mapped.iter().position(|known| known == path).unwrap();
            format!("7f00{inode}000-7f00{inode}fff r-xp 00000000 08:01 {inode} {path}\n")
        };
        add("maps", mapped.iter().map(line).collect());
    }
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    tree(&files)
}

/// 2.28.3 unless the path names another.
fn version(path: &Path) -> Option<NcclVersion> {
    NcclVersion::find(&path.to_string_lossy()).or(Some(NcclVersion::new(2, 28, 3)))
}

fn look_at(root: &tempfile::TempDir, pid: u32) -> (Vec<Check>, Vec<Facts>) {
    let checkup = look(root.path(), &Request { pid: Some(pid), pattern: None }, &version).unwrap();
    let Details::Processes(facts) = checkup.details else { panic!("facts of something else") };
    (checkup.checks, facts)
}

fn named<'a>(checks: &'a [Check], name: &str) -> &'a Check {
    checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no check of {name}: {checks:?}"))
}

#[test]
fn a_variable_that_one_worker_lacks_is_a_fault_with_its_pid() {
    let all: &[&str] = &["NCCL_PROTO=LL", "NCCL_ALGO=Ring"];
    let root = proc(&[
        Fake(42, 1, all, &[]),
        Fake(43, 42, all, &[LIBRARY]),
        Fake(44, 42, &["NCCL_ALGO=Ring"], &[LIBRARY]),
        Fake(45, 42, all, &[LIBRARY]),
        Fake(99, 1, &[], &[LIBRARY]),
    ]);
    let (checks, facts) = look_at(&root, 42);
    assert_eq!(facts.iter().map(|facts| facts.pid).collect::<Vec<_>>(), [42, 43, 44, 45], "not those of others");
    assert_eq!(named(&checks, "processes").evidence[0], "4 looked at, 3 with NCCL");
    let check = named(&checks, "NCCL_PROTO");
    assert_eq!(check.status, Status::Fault);
    assert_eq!(check.evidence, ["NCCL_PROTO=LL in 2 of 3: pids 43, 45", "NCCL_PROTO not set in 1 of 3: pid 44"]);
    let check = named(&checks, "inheritance");
    assert_eq!(
        (check.status, check.evidence[0].as_str()),
        (Status::Fault, "NCCL_PROTO=LL of pid 42 is lost in its child 44")
    );
    assert!(!checks.iter().any(|check| check.name == "NCCL_ALGO"), "the same in all");
    assert_eq!(named(&checks, "pids 43, 45").evidence[2], "at exec: NCCL_ALGO=Ring NCCL_PROTO=LL");
}

#[test]
fn workers_that_agree_are_told_so() {
    let root = proc(&[
        Fake(43, 1, &["NCCL_PROTO=LL"], &[LIBRARY]),
        Fake(44, 43, &["NCCL_PROTO=LL"], &[LIBRARY]),
        Fake(45, 43, &["NCCL_PROTO=LL"], &[LIBRARY]),
    ]);
    let (checks, _) = look_at(&root, 43);
    assert!(checks.iter().all(|check| check.status == Status::Ok), "{checks:?}");
    assert_eq!(named(&checks, "same settings").evidence, ["all 2 workers have the same NCCL_ variables"]);
    assert!(named(&checks, "same library").evidence[0].ends_with("pids 44, 45"), "a parent of workers is none itself");
}

#[test]
fn variables_that_may_differ_are_a_warning() {
    let root = proc(&[
        Fake(1, 0, &[], &[]),
        Fake(2, 1, &["NCCL_DEBUG_FILE=/a"], &[LIBRARY]),
        Fake(3, 1, &["NCCL_DEBUG_FILE=/b"], &[LIBRARY]),
    ]);
    let (checks, _) = look_at(&root, 1);
    assert_eq!(named(&checks, "NCCL_DEBUG_FILE").status, Status::Warning);
}

#[test]
fn libraries_of_different_versions_are_a_fault_and_copies_of_one_a_warning() {
    let with = |second: &str| {
        let root = proc(&[Fake(1, 0, &[], &[]), Fake(2, 1, &[], &[LIBRARY]), Fake(3, 1, &[], &[second])]);
        look_at(&root, 1).0
    };
    assert_eq!(named(&with("/other/libnccl.so.2.23.4"), "same library").status, Status::Fault);
    assert_eq!(named(&with("/copy/libnccl.so.2"), "same library").status, Status::Warning);
    let root = proc(&[Fake(1, 0, &[], &[LIBRARY, LIBRARY, "/b/libnccl.so.2.23.4", "/c/libnccl-net.so"])]);
    let (checks, facts) = look_at(&root, 1);
    assert_eq!((facts[0].nccl.len(), facts[0].plugins.as_slice()), (2, &["/c/libnccl-net.so".to_owned()][..]));
    assert_eq!(named(&checks, "pid 1").status, Status::Warning, "two in one process");
}

#[test]
fn a_library_that_was_replaced_since_is_told() {
    let root = proc(&[Fake(1, 0, &[], &["/venv with blanks/libnccl.so.2 (deleted)"])]);
    let (checks, facts) = look_at(&root, 1);
    assert!(facts[0].nccl[0].deleted && facts[0].nccl[0].path == "/venv with blanks/libnccl.so.2", "{facts:?}");
    let check = named(&checks, "pid 1");
    assert!(check.status == Status::Warning && check.next[0].contains("restart"), "{check:?}");
}

#[test]
fn files_of_the_processs_own_view_and_home_apply() {
    let root =
        proc(&[Fake(1, 0, &["NCCL_PROTO=LL"], &[LIBRARY]), Fake(2, 1, &["NCCL_CONF_FILE=own.conf"], &[LIBRARY])]);
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("proc/1/root/home/u/.nccl.conf", "NCCL_PROTO=Simple\nNCCL_ALGO=Ring\n");
    write("proc/1/root/etc/nccl.conf", "NCCL_NTHREADS=256\n");
    write("proc/2/cwd/own.conf", "NCCL_NTHREADS=128\n");
    let (checks, facts) = look_at(&root, 1);
    assert_eq!(
        facts[0].files,
        ["/home/u/.nccl.conf", "/etc/nccl.conf"],
        "the home of the password database, up to 2.29"
    );
    let shown: Vec<_> =
        facts[0].effective.iter().map(|of| format!("{}={} by {}", of.name, of.value, of.origin)).collect();
    assert_eq!(
        shown,
        [
            "NCCL_ALGO=Ring by /home/u/.nccl.conf:2",
            "NCCL_NTHREADS=256 by /etc/nccl.conf:1",
            "NCCL_PROTO=LL by environment"
        ]
    );
    assert_eq!(facts[1].files, ["own.conf"]);
    assert!(
        named(&checks, "pid 1").evidence.iter().any(|line| line.starts_with("from files: NCCL_ALGO=Ring")),
        "{checks:?}"
    );
}

#[test]
fn an_environment_that_was_written_over_is_unknown_and_not_empty() {
    let root =
        proc(&[Fake(1, 0, &[], &[LIBRARY]), Fake(2, 1, &[], &[LIBRARY]), Fake(3, 1, &["NCCL_PROTO=LL"], &[LIBRARY])]);
    // As setproctitle leaves it: zeros, or the end of a long title and zeros.
    std::fs::write(root.path().join("proc/2/environ"), vec![0; 600]).unwrap();
    let (checks, facts) = look_at(&root, 1);
    assert!(facts[1].hidden.as_ref().unwrap().contains("SPT_NOENV"), "{facts:?}");
    assert_eq!(named(&checks, "pid 2").status, Status::Unknown);
    assert_eq!(named(&checks, "same settings").status, Status::Unknown, "{checks:?}");
    std::fs::write(root.path().join("proc/2/environ"), [b"Worker_TP0".as_slice(), &[0; 90]].concat()).unwrap();
    assert!(look_at(&root, 1).1[1].hidden.is_some());
}

#[test]
fn misread_values_are_a_fault_of_the_process() {
    let root = proc(&[Fake(1, 0, &["NCCL_BUFFSIZE=16M"], &[LIBRARY])]);
    let (checks, _) = look_at(&root, 1);
    let check = named(&checks, "pid 1");
    assert!(check.status == Status::Fault && check.evidence.iter().any(|line| line.contains("as 16")), "{check:?}");
}

#[test]
fn forked_and_ended_processes_are_told() {
    let root = proc(&[
        Fake(1, 0, &["NCCL_PROTO=LL"], &[LIBRARY]),
        Fake(2, 1, &["NCCL_PROTO=LL"], &[LIBRARY]),
        Fake(3, 1, &[], &[]),
    ]);
    // The flags of a process that was forked and executed nothing; a zombie.
    std::fs::write(root.path().join("proc/2/stat"), "2 (py) S 1 1 1 0 -1 4194368 0").unwrap();
    std::fs::write(root.path().join("proc/3/stat"), "3 (py) Z 1 1 1 0 -1 4194304 0").unwrap();
    let (checks, facts) = look_at(&root, 1);
    assert_eq!(facts.iter().map(|facts| facts.forked).collect::<Vec<_>>(), [false, true, false]);
    assert!(named(&checks, "pid 2").evidence[2].starts_with("forked, so of its ancestor at exec"), "{checks:?}");
    assert_eq!(facts[2].hidden.as_deref(), Some("it has ended"));
}

#[test]
fn names_find_processes_with_all_below_them() {
    let root =
        proc(&[Fake(1, 0, &[], &[]), Fake(50, 1, &[], &[]), Fake(51, 50, &[], &[LIBRARY]), Fake(60, 1, &[], &[])]);
    std::fs::write(root.path().join("proc/50/cmdline"), "vllm\0serve\0").unwrap();
    // The kernel's own have no command line.
    std::fs::write(root.path().join("proc/60/cmdline"), "").unwrap();
    let find = |pid, pattern| {
        let Details::Processes(facts) =
            look(root.path(), &Request { pid, pattern: Some(pattern) }, &version).unwrap().details
        else {
            panic!("facts of something else")
        };
        facts.iter().map(|facts| facts.pid).collect::<Vec<_>>()
    };
    assert_eq!(find(None, "vllm"), [50, 51]);
    assert_eq!(find(Some(1), "vllm"), [50], "below a pid the pattern picks");
    let missing = |request: Request| look(root.path(), &request, &version).unwrap_err();
    assert!(missing(Request { pid: Some(7), pattern: None }).message().contains("no process 7"));
    assert!(missing(Request { pid: None, pattern: Some("sglang") }).message().contains("sglang"));
    assert!(missing(Request { pid: Some(1), pattern: Some("sglang") }).message().contains("sglang"));
}

#[test]
fn our_own_process_is_seen_as_it_is() {
    let checkup = look(Path::new("/"), &Request { pid: Some(std::process::id()), pattern: None }, &version).unwrap();
    let Details::Processes(facts) = checkup.details else { panic!("facts of something else") };
    assert_eq!((facts[0].pid, facts[0].hidden.as_ref(), facts[0].unmapped.as_ref()), (std::process::id(), None, None));
    assert_eq!(facts[0].parent, std::os::unix::process::parent_id());
}
