//! [`Function`]: what a case calls.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A communication of all ranks. What the product is about is the all-reduce; pairs of GPUs are looked at by both.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Function {
    /// `ncclAllReduce`.
    #[default]
    AllReduce,
    /// `ncclSend` to the next rank and `ncclRecv` from the one before, in one group: two ranks exchange their data.
    SendRecv,
}

impl Function {
    /// Whether it is the all-reduce, which files do not name.
    #[must_use]
    pub fn is_all_reduce(&self) -> bool {
        *self == Self::AllReduce
    }

    /// What it moves per rank and byte: 2(n−1)/n for an all-reduce, 1 for an exchange. One rank alone moves nothing.
    #[must_use]
    pub fn bus_factor(self, ranks: usize) -> f64 {
        match (self, ranks) {
            (_, 0 | 1) => 0.0,
            (Self::AllReduce, n) => 2.0 * (n - 1) as f64 / n as f64,
            (Self::SendRecv, _) => 1.0,
        }
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AllReduce => "all-reduce",
            Self::SendRecv => "send/recv",
        })
    }
}
