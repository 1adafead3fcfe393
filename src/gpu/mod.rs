//! The GPU libraries as the worker calls them: [`cuda`] with [`kernel`], [`communicator`] (NCCL) and [`nvml`].
//!
//! Calls go through cudarc's dynamic bindings, as a table of function pointers: a library that lacks a symbol is an error,
//! never a panic, and result codes stay integers (NCCL grows new ones; a Rust enum of the old ones would be undefined behaviour).
//!
//! Handles have no destructors. A rank that fails ends the whole process, and a destructor that synchronises with a hung
//! peer would hang with it; the orderly path destroys explicitly.

pub mod communicator;
pub mod cuda;
pub mod kernel;
pub mod nvml;
pub mod register;
mod wiring;

use serde::{Deserialize, Serialize};

/// What a GPU library answered when it did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "library", rename_all = "kebab-case")]
pub enum GpuError {
    /// A call of the CUDA driver failed.
    #[error("{call} failed: {name} ({code}): {text}")]
    Cuda {
        /// The driver function.
        call: String,
        /// Its `CUresult`.
        code: i32,
        /// The name of the code, as the driver gives it.
        name: String,
        /// The driver's description.
        text: String,
    },
    /// A call of NCCL failed.
    #[error("{call} failed: {text} ({code}){}", last_error.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Nccl {
        /// The NCCL function.
        call: String,
        /// Its `ncclResult_t`.
        code: i32,
        /// The library's description of the code.
        text: String,
        /// What `ncclGetLastError` said, when it said anything.
        last_error: Option<String>,
    },
    /// A library or one of its symbols is missing.
    #[error("{library} cannot be used: {what}")]
    Missing {
        /// The library.
        #[serde(rename = "name")]
        library: String,
        /// What is missing.
        what: String,
    },
}

impl GpuError {
    /// Whether NCCL says by it that another process of the communicator is gone (`ncclRemoteError`).
    #[must_use]
    pub fn is_of_a_peer(&self) -> bool {
        matches!(self, Self::Nccl { code: 6, .. })
    }

    /// Whether a library is not there at all, as where no driver is installed.
    #[must_use]
    pub fn is_no_library(&self) -> bool {
        matches!(self, Self::Missing { what, .. } if what.contains("cannot open shared object file: No such file"))
    }
}

/// The loader's own message, which names the file and what is wrong with it.
fn loaders_words(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// What the loader says of a library that it does not load under any of these names: of the first that it finds and cannot
/// take, else of the last.
fn why_not_loaded(names: &[&str]) -> String {
    let said = names.iter().filter_map(|name| {
        // SAFETY: it was tried before and did not load; what its initialisers do they would have done then.
        unsafe { libloading::Library::new(*name) }.err().map(|error| loaders_words(&error))
    });
    let mut said: Vec<String> = said.collect();
    let found = said.iter().position(|text| !text.contains("No such file"));
    match found.or(said.len().checked_sub(1)) {
        Some(at) => said.swap_remove(at),
        None => format!("the loader takes {} now, and did not before", names.join(" or ")),
    }
}

/// Makes a struct of function pointers and its loader, one line per symbol. Every function returns an integer code.
macro_rules! function_table {
    ($(#[$doc:meta])* $table:ident of $library:literal { $($name:ident($($arg:ty),*);)* }) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        pub(super) struct $table { $(pub(super) $name: unsafe extern "C" fn($($arg),*) -> std::ffi::c_int,)* }

        impl $table {
            fn resolve(library: &libloading::Library) -> std::result::Result<Self, $crate::gpu::GpuError> {
                Ok(Self { $($name: {
                    type F = unsafe extern "C" fn($($arg),*) -> std::ffi::c_int;
                    // SAFETY: the declared signature is that of the library's public header; enums of C are integers.
                    let symbol = unsafe { library.get::<F>(stringify!($name).as_bytes()) };
                    *symbol.map_err(|e| {
                        let what = $crate::gpu::loaders_words(&e);
                        $crate::gpu::GpuError::Missing { library: $library.into(), what }
                    })?
                },)* })
            }
        }
    };
}
use function_table;
