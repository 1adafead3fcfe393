//! The few unsafe moves at the C boundary: writing through out-pointers, reading C strings and caller's buffers.
//!
//! The exported functions take raw pointers as their C originals do. Null is answered with an error; beyond that a
//! pointer is as good as the C caller promises it to be, which is the contract of every function here.

use std::ffi::{CStr, c_char, c_void};

/// Writes `value` where `to` points; false when `to` is null.
pub(crate) fn put<T>(to: *mut T, value: T) -> bool {
    if to.is_null() {
        return false;
    }
    // SAFETY: not null, and by the C contract of the exported functions a valid place for a T.
    unsafe { to.write(value) };
    true
}

/// Reads what `from` points at.
pub(crate) fn get<T: Copy>(from: *const T) -> Option<T> {
    if from.is_null() {
        return None;
    }
    // SAFETY: not null, and by the C contract of the exported functions it points to an initialised T.
    Some(unsafe { from.read() })
}

/// The C string at `from`, lossily as text.
pub(crate) fn text(from: *const c_char) -> Option<String> {
    if from.is_null() {
        return None;
    }
    // SAFETY: not null, and by the C contract a string with its terminating zero.
    Some(unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned())
}

/// Writes `text` with its terminating zero into a buffer of `size` bytes; false when it does not fit.
pub(crate) fn put_text(to: *mut c_char, size: usize, text: &str) -> bool {
    if to.is_null() || size <= text.len() {
        return false;
    }
    // SAFETY: not null, and the caller promises `size` bytes, more than are written.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), text.len());
        to.add(text.len()).write(0);
    }
    true
}

/// A caller's host buffer that work enqueued on a stream will fill later, as cudaMemcpyAsync does.
#[derive(Clone, Copy)]
pub(crate) struct HostBuffer(*mut u8);

// SAFETY: the pointer is only a number until `fill`, whose caller is the thread that waits for the stream.
unsafe impl Send for HostBuffer {}
// SAFETY: as for Send; the type has no interior state.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    pub(crate) fn new(at: *mut c_void) -> Option<HostBuffer> {
        (!at.is_null()).then_some(HostBuffer(at.cast()))
    }

    /// Copies `bytes` to `offset` within the buffer.
    pub(crate) fn fill(self, offset: usize, bytes: &[u8]) {
        // SAFETY: the caller of the copy promised a buffer that holds all pieces of the copy until the stream is done.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.add(offset), bytes.len()) };
    }
}

/// The caller's host buffer of `len` bytes, for as long as the call lasts.
pub(crate) fn bytes<'a>(from: *const c_void, len: usize) -> Option<&'a [u8]> {
    if from.is_null() {
        return None;
    }
    // SAFETY: not null, and by the C contract of the copy functions `len` readable bytes.
    Some(unsafe { std::slice::from_raw_parts(from.cast(), len) })
}
