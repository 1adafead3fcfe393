//! Names as NCCL gives them, held in place: [`Name`] is `Copy` and needs no allocation while NCCL waits.

use std::ffi::c_char;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::abi;

const CAPACITY: usize = 31;

/// A short text of NCCL's: a function, data type, algorithm, protocol or communicator. Cut after 31 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub struct Name {
    bytes: [u8; CAPACITY],
    length: u8,
}

impl Name {
    /// The name of nothing.
    pub const EMPTY: Self = Self { bytes: [0; CAPACITY], length: 0 };

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or("?")
    }

    /// Whether NCCL gave no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The name at `text`; empty for NULL. What is not ASCII becomes `?`.
    ///
    /// # Safety
    ///
    /// `text` is NULL or points to a NUL-terminated string.
    pub(crate) unsafe fn from_c(text: *const c_char) -> Self {
        let mut name = Self::EMPTY;
        if text.is_null() {
            return name;
        }
        for (at, slot) in name.bytes.iter_mut().enumerate() {
            // SAFETY: no byte before this one was NUL, so this one still belongs to the string.
            let byte = unsafe { text.add(at).read() }.cast_unsigned();
            if byte == 0 {
                break;
            }
            *slot = if byte.is_ascii() { byte } else { b'?' };
            name.length += 1;
        }
        name
    }

    /// Algorithm number of profiler version 1, under the name later versions give it.
    pub(crate) fn of_algorithm(number: u8) -> Self {
        match u32::from(number) {
            abi::NCCL_ALGO_TREE => "TREE".into(),
            abi::NCCL_ALGO_RING => "RING".into(),
            abi::NCCL_ALGO_COLLNET_DIRECT => "COLLNET_DIRECT".into(),
            abi::NCCL_ALGO_COLLNET_CHAIN => "COLLNET_CHAIN".into(),
            abi::NCCL_ALGO_NVLS => "NVLS".into(),
            abi::NCCL_ALGO_NVLS_TREE => "NVLS_TREE".into(),
            abi::NCCL_ALGO_PAT => "PAT".into(),
            other => Self::number(other),
        }
    }

    /// Protocol number of profiler version 1, under the name later versions give it.
    pub(crate) fn of_protocol(number: u8) -> Self {
        match u32::from(number) {
            abi::NCCL_PROTO_LL => "LL".into(),
            abi::NCCL_PROTO_LL128 => "LL128".into(),
            abi::NCCL_PROTO_SIMPLE => "SIMPLE".into(),
            other => Self::number(other),
        }
    }

    /// Function number of profiler version 1, under the name later versions give it.
    pub(crate) fn of_function(number: u8) -> Self {
        match u32::from(number) {
            abi::ncclFuncBroadcast => "Broadcast".into(),
            abi::ncclFuncReduce => "Reduce".into(),
            abi::ncclFuncAllGather => "AllGather".into(),
            abi::ncclFuncReduceScatter => "ReduceScatter".into(),
            abi::ncclFuncAllReduce => "AllReduce".into(),
            other => Self::number(other),
        }
    }

    /// Data type number of profiler version 1, under the name later versions give it.
    pub(crate) fn of_datatype(number: u8) -> Self {
        match u32::from(number) {
            abi::ncclInt8 => "ncclInt8".into(),
            abi::ncclUint8 => "ncclUint8".into(),
            abi::ncclInt32 => "ncclInt32".into(),
            abi::ncclUint32 => "ncclUint32".into(),
            abi::ncclInt64 => "ncclInt64".into(),
            abi::ncclUint64 => "ncclUint64".into(),
            abi::ncclFloat16 => "ncclFloat16".into(),
            abi::ncclFloat32 => "ncclFloat32".into(),
            abi::ncclFloat64 => "ncclFloat64".into(),
            abi::ncclBfloat16 => "ncclBfloat16".into(),
            other => Self::number(other),
        }
    }

    /// Size of an element when this is a data type's name. NCCL has no name for unsigned bytes (it says `Unknown`).
    pub(crate) fn element_size(&self) -> Option<u64> {
        match self.as_str() {
            "ncclInt8" | "ncclUint8" | "ncclFloat8e4m3" | "ncclFloat8e5m2" => Some(1),
            "ncclFloat16" | "ncclBfloat16" => Some(2),
            "ncclInt32" | "ncclUint32" | "ncclFloat32" => Some(4),
            "ncclInt64" | "ncclUint64" | "ncclFloat64" => Some(8),
            _ => None,
        }
    }

    /// A number this crate has no name for.
    fn number(number: u32) -> Self {
        Self::from(format!("#{number}").as_str())
    }
}

impl From<&str> for Name {
    /// The first 31 bytes; what is not ASCII becomes `?`.
    fn from(text: &str) -> Self {
        let mut name = Self::EMPTY;
        for (slot, byte) in name.bytes.iter_mut().zip(text.bytes()) {
            *slot = if byte.is_ascii() { byte } else { b'?' };
            name.length += 1;
        }
        name
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.as_str().into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_at_its_capacity_and_stays_text() {
        let long = c"a communicator's name that is much too long";
        // SAFETY: a C string literal.
        assert_eq!(unsafe { Name::from_c(long.as_ptr()) }, "a communicator's name that is m");
        // SAFETY: a C string literal.
        assert_eq!(unsafe { Name::from_c(c"tp\xff0".as_ptr()) }, "tp?0");
        // SAFETY: NULL is allowed.
        assert!(unsafe { Name::from_c(std::ptr::null()) }.is_empty());
    }

    #[test]
    fn numbers_without_a_name_stay_visible() {
        assert_eq!(Name::of_algorithm(1), "RING");
        assert_eq!(Name::of_algorithm(200), "#200");
        assert_eq!(Name::of_protocol(255), "#255");
    }

    #[test]
    fn elements_of_types_nccl_does_not_name_have_no_size() {
        assert_eq!(Name::from("ncclBfloat16").element_size(), Some(2));
        assert_eq!(Name::from("Unknown").element_size(), None);
    }
}
