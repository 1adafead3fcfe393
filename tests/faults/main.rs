//! Faults of every kind in every phase against the whole program; all fields of the matrix are made by
//! `cargo xtask soak faults`.

mod ends;
mod left_over;
mod matrix;

use std::path::Path;
use std::sync::Mutex;

use matrix::Fault;

/// Runs at a time: most wait for a deadline.
const AT_ONCE: usize = 4;

/// Strikes with each of these faults; fails with all that is not as it must be.
#[track_caller]
fn strike_all(faults: Vec<Fault>) {
    assert!(!faults.is_empty());
    let (left, wrong) = (Mutex::new(faults), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap().pop();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(fault) = next() {
                    let folder = tempfile::tempdir().unwrap();
                    let found = matrix::strike(Path::new(env!("CARGO_BIN_EXE_ncclsweep")), fault, folder.path());
                    wrong.lock().unwrap().extend(found.into_iter().map(|what| format!("{fault:?}: {what}")));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn of(wanted: impl Fn(&Fault) -> bool) -> Vec<Fault> {
    matrix::all().into_iter().filter(|fault| !fault.processes && wanted(fault)).collect()
}

#[test]
fn a_hang_in_any_phase_ends_at_its_deadline() {
    strike_all(of(|fault| fault.kind == "hang" && (fault.one || fault.phase == "load")));
}

#[test]
fn a_fault_of_one_process_ends_all_of_them() {
    let of_one = |fault: &Fault| fault.processes && fault.one;
    let wanted = |fault: &Fault| match fault.phase {
        "init" | "replay" | "destroy" => matches!(fault.kind, "hang" | "segv" | "exit"),
        "first" => true,
        _ => false,
    };
    strike_all(matrix::all().into_iter().filter(|fault| of_one(fault) && wanted(fault)).collect());
}

#[test]
fn a_crash_in_any_phase_is_told_by_its_signal() {
    strike_all(of(|fault| fault.kind == "segv" && (fault.one || fault.phase == "load")));
}

#[test]
fn every_kind_of_fault_is_told_for_what_it_is_and_costs_its_own_set_alone() {
    let rest =
        of(|fault| !matches!(fault.kind, "hang" | "segv" | "log-flood") && matches!(fault.phase, "first" | "replay"));
    strike_all(rest.into_iter().filter(|fault| fault.one || fault.phase == "first").collect());
}
