//! Handles of events: NCCL hands them back as parents, so they carry what is to be known of the parent. Never dereferenced.

use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};

use crate::abi;

/// A group or a collective: of them nothing is to be known.
const SOME: usize = 1;
const EAGER_CALL: usize = 2;
const CAPTURED_CALL: usize = 3;

/// The handle of an event of type `kind`; NULL where NCCL needs none.
pub(crate) fn of(kind: u32, captured: bool) -> *mut c_void {
    match kind {
        abi::ncclProfileGroup | abi::ncclProfileColl => without_provenance_mut(SOME),
        abi::ncclProfileCollApi if captured => without_provenance_mut(CAPTURED_CALL),
        abi::ncclProfileCollApi => without_provenance_mut(EAGER_CALL),
        _ => null_mut(),
    }
}

/// Whether the call with this handle is captured; nothing where it is no call's.
pub(crate) fn captured(parent: *mut c_void) -> Option<bool> {
    match parent.addr() {
        EAGER_CALL => Some(false),
        CAPTURED_CALL => Some(true),
        _ => None,
    }
}
