//! A process that is not ours loads the shared library by its path, and tells what it used until it is killed.

use std::ffi::c_void;
use std::mem::zeroed;
use std::path::PathBuf;
use std::process::Command;
use std::ptr::null_mut;

use libloading::Library;
use nccl_profiler_ncclsweep::abi;
use nccl_profiler_ncclsweep::journal::{self, Entry};
use nccl_profiler_ncclsweep::recorder::{Api, Channels};

/// Cargo leaves the shared library beside the tests.
fn shared_library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libnccl_profiler_ncclsweep.so")
}

/// The journal of a child of this test that had `setup` done to its command.
fn journal_of_child(setup: impl FnOnce(&mut Command)) -> (Option<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_killed_process_leaves_what_it_used", "--nocapture"]);
    child.env("CHILD_OF_TEST", "1").env(journal::FOLDER, folder.path()).env("NCCL_PROTO", "LL").env_remove("NCCL_ALGO");
    setup(&mut child);
    let output = child.output().unwrap();
    assert!(!output.status.success(), "the child kills itself");
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() <= 1);
    let text = files.first().map(|file| std::fs::read_to_string(file).unwrap());
    (text, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_killed_process_leaves_what_it_used() {
    if std::env::var_os("CHILD_OF_TEST").is_some() {
        be_a_server();
    }
    let (journal, _) = journal_of_child(|_| {});
    let entries = journal::read(&journal.unwrap()).unwrap();
    let [process, communicator, first, second] = &entries[..] else { panic!("{entries:#?}") };
    let Entry::Process { executable, environment, .. } = process else { panic!("{process:?}") };
    assert_eq!(*executable, std::env::current_exe().ok());
    assert_eq!(environment.get("NCCL_PROTO").map(String::as_str), Some("LL"));
    assert!(environment.keys().all(|name| name.starts_with("NCCL_")));
    let expected = Entry::Communicator { api: Api::V4, hash: 7, name: "tp".into(), rank: Some(3), ranks: Some(8) };
    assert_eq!(*communicator, expected);
    for (entry, count, sequence) in [(first, 7168, 0), (second, 14_336, 100)] {
        let Entry::Collective(collective) = entry else { panic!("{entry:?}") };
        assert_eq!((collective.rank, collective.count, collective.sequence), (3, count, sequence));
        assert_eq!((collective.protocol.as_str(), collective.channels), ("LL", Some(Channels::Used(1))));
    }
}

#[test]
fn without_a_folder_nothing_is_asked_of_nccl() {
    let (journal, output) = journal_of_child(|child| {
        child.env_remove(journal::FOLDER);
    });
    assert_eq!(journal, None);
    assert!(output.contains("mask 0"), "{output}");
}

#[test]
fn a_folder_that_is_not_there_is_said_once_and_stops_nothing() {
    let (journal, output) = journal_of_child(|child| {
        child.env(journal::FOLDER, "/nonexistent");
    });
    assert_eq!(journal, None);
    assert_eq!(output.matches("ncclsweep profiler: cannot write /nonexistent/").count(), 1, "{output}");
    assert!(output.contains("mask 0"), "{output}");
}

/// Loads the plugin as NCCL does, announces a hundred collectives of each of two sizes, and dies.
fn be_a_server() -> ! {
    // SAFETY: loading the plugin runs nothing; the symbol has this type; the calls are NCCL's.
    unsafe {
        let library = Library::new(shared_library()).unwrap();
        let table: *const abi::ncclProfiler_v4_t = *library.get(b"ncclProfiler_v4").unwrap();
        let (mut context, mut mask): (*mut c_void, i32) = (null_mut(), -1);
        (*table).init.unwrap()(&mut context, &mut mask, c"tp".as_ptr(), 7, 1, 8, 3, None);
        eprintln!("mask {mask}");
        for sequence in 0..200 {
            let mut collective: abi::ncclProfilerEventDescr_v4_t = zeroed();
            collective.type_ = abi::ncclProfileColl as u8;
            collective.rank = 3;
            collective.event.coll = abi::ncclProfilerColl_v4_t {
                seqNumber: sequence,
                func: c"AllReduce".as_ptr(),
                sendBuff: null_mut(),
                recvBuff: null_mut(),
                count: if sequence < 100 { 7168 } else { 14_336 },
                root: 0,
                datatype: c"ncclBfloat16".as_ptr(),
                nChannels: 1,
                nWarps: 16,
                algo: c"RING".as_ptr(),
                proto: c"LL".as_ptr(),
            };
            (*table).startEvent.unwrap()(context, &mut null_mut(), &mut collective);
        }
    }
    std::process::abort()
}
