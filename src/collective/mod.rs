//! Collectives: data types, operations, placements, modes, message sizes, and the [`Case`] they make together.
//!
//! The names are NCCL's and nccl-tests'; [`sizes`] reads the size lists people write (`7168x1..4`).

mod case;
mod dtype;
mod function;
pub mod presets;
pub mod sizes;

pub use case::{Case, Cases, MAX_CASES, Size};
pub use dtype::{Dtype, Mode, Op, Placement};
pub use function::Function;
pub use sizes::SizeList;
