//! Exit status 3: the box lacks what was asked for. Every message says what was looked for and what to do.

use crate::support::{LEAST, OUT, Program};

#[test]
fn without_gpu_and_library_the_program_says_what_it_looked_for_and_how_to_rehearse() {
    // Where there are real GPUs they are hidden, so the test means the same there.
    let ran = Program::new(LEAST).env("CUDA_VISIBLE_DEVICES", "").keeping(OUT).run().exits(3);
    ran.tells("--emulate");
    if ncclsweep::supervisor::library::installed(|_| None).is_empty() {
        for told in ["no NCCL library was found", "LD_LIBRARY_PATH (unset)", "/usr/local/cuda/lib64", "--nccl PATH"] {
            ran.tells(told);
        }
    }
    assert!(!ran.folder().exists());
}

#[test]
fn a_library_that_is_not_there_is_told_by_its_path() {
    for (path, told) in [("/nonexistent/libnccl.so.2", "there is no such file"), (".", "holds no libnccl.so.2")] {
        let ran = Program::new(LEAST).args(["--nccl", path]).keeping(OUT).run().exits(3);
        ran.tells(told);
    }
}

#[test]
fn a_library_that_cannot_be_loaded_is_told_and_never_a_panic() {
    let program = Program::new(LEAST).file("libnccl.so.2", "no library").args(["--nccl", "libnccl.so.2"]);
    let ran = program.env("CUDA_VISIBLE_DEVICES", "").keeping(OUT).run().exits(3);
    ran.tells("libnccl.so.2 cannot be used");
    assert!(!ran.folder().exists());
}

#[test]
fn fewer_gpus_than_asked_for_are_counted_and_a_way_out_is_named() {
    for (arguments, told) in [("--gpus 9", "9 GPUs were asked for"), ("--devices 0,8", "GPU 8 was asked for")] {
        let ran = Program::emulated(arguments).keeping(OUT).run().exits(3);
        for told in [told, "the driver shows 8", "--ranks", "--emulate"] {
            ran.tells(told);
        }
        assert!(!ran.folder().exists());
    }
}

#[test]
fn several_ranks_on_a_gpu_need_nccl_2_30() {
    let ran = Program::least("--ranks 8").env("NCCLSWEEP_EMULATE_NCCL", "2.28.3").keeping(OUT).run().exits(3);
    for told in ["8 ranks on 2 GPUs need NCCL 2.30", "this is 2.28.3", "--nccl"] {
        ran.tells(told);
    }
}

#[test]
fn a_data_type_that_the_library_lacks_is_told_with_the_version_that_has_it() {
    let ran = Program::least("--dtype f8e4m3").env("NCCLSWEEP_EMULATE_NCCL", "2.23.4").keeping(OUT).run().exits(3);
    ran.tells("needs NCCL 2.24; this is 2.23.4");
}

#[test]
fn a_data_type_that_nccl_reduces_on_newer_gpus_only_is_told_before_anything_starts() {
    let ran = Program::new(["--emulate=4x4090-phb", "--dtype", "f8e5m2", "--gpus", "2", "--sizes", "7168x1"]).run();
    ran.exits(3).tells("NCCL reduces f8e5m2 from compute capability 9.0 on; GPU 0 has 8.9");
}

#[test]
fn a_variable_that_the_emulator_cannot_read_is_not_taken_for_a_missing_driver() {
    let ran = Program::least("").env("NCCLSWEEP_EMULATE_SCALE", "1.2").keeping(OUT).run().exits(3);
    ran.tells("the emulator does not start: NCCLSWEEP_EMULATE_SCALE=1.2");
    ran.tells("write VARIABLE=VALUE:FACTOR");
    let ran = Program::new(["topo", "--emulate"]).env("NCCLSWEEP_EMULATE_FAULT", "hang").run();
    let words: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("NCCLSWEEP_EMULATE_FAULT=hang: \"hang\" is not KIND@PHASE"), "{}", ran.stdout);
}

const BUSY: (&str, &str) = ("NCCLSWEEP_EMULATE_BUSY", "1:4194301,0:4194302");

#[test]
fn busy_gpus_are_refused_with_the_processes_on_them() {
    let ran = Program::least("").env(BUSY.0, BUSY.1).keeping(OUT).run().exits(3);
    for told in ["4194301", "4194302", "--allow-busy"] {
        ran.tells(told);
    }
    assert!(!ran.folder().exists());
}

#[test]
fn processes_on_other_gpus_do_not_matter() {
    let ran = Program::emulated("--devices 2,3 --sizes 7168x1 --rounds 1 --communicators 1 --seed 7");
    ran.env(BUSY.0, BUSY.1).keeping(OUT).run().exits(5);
}

#[test]
fn measuring_beside_other_processes_is_recorded_and_shown() {
    let ran = Program::least("--allow-busy").env(BUSY.0, BUSY.1).keeping(OUT).run().exits(5);
    let mut pids: Vec<_> = ran.document().header.provenance.busy.iter().map(|process| process.pid).collect();
    pids.sort_unstable();
    assert_eq!(pids, [4194301, 4194302]);
    assert!(ran.stdout.contains("4194301"), "{}", ran.stdout);
}

#[test]
fn the_server_of_mps_is_named_and_under_it_nobody_takes_turns() {
    let home = tempfile::tempdir().unwrap();
    let server = home.path().join("nvidia-cuda-mps-server");
    std::os::unix::fs::symlink("/bin/sleep", &server).unwrap();
    let mut server = std::process::Command::new(server).arg("600").spawn().unwrap();
    let pid = server.id().to_string();
    let program = |arguments: &str| {
        Program::least(arguments).env("NCCLSWEEP_EMULATE_BUSY", &pid).env("NCCLSWEEP_EMULATE_NCCL", "2.32.3")
    };
    let shared = "--ranks 4 --launch processes";
    let refused = program("").run();
    let (with, without) = (program(&format!("--allow-busy {shared}")).run(), Program::least(shared));
    let without = without.env("NCCLSWEEP_EMULATE_NCCL", "2.32.3").run();
    server.kill().unwrap();
    server.wait().unwrap();
    refused.exits(3).tells("shared through MPS");
    assert!(!with.stderr.contains("take turns"), "{}", with.stderr);
    without.tells("take turns");
}
