//! The factors of a case that are a choice from a short list: [`Dtype`], [`Op`], [`Placement`], [`Mode`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The type of one element; the discriminant is the value of NCCL's `ncclDataType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Dtype {
    /// 8-bit signed integer.
    #[serde(rename = "i8")]
    Int8 = 0,
    /// 8-bit unsigned integer.
    #[serde(rename = "u8")]
    Uint8 = 1,
    /// 32-bit signed integer.
    #[serde(rename = "i32")]
    Int32 = 2,
    /// 32-bit unsigned integer.
    #[serde(rename = "u32")]
    Uint32 = 3,
    /// 64-bit signed integer.
    #[serde(rename = "i64")]
    Int64 = 4,
    /// 64-bit unsigned integer.
    #[serde(rename = "u64")]
    Uint64 = 5,
    /// IEEE 754 half precision.
    #[serde(rename = "f16")]
    Float16 = 6,
    /// IEEE 754 single precision.
    #[serde(rename = "f32")]
    Float32 = 7,
    /// IEEE 754 double precision.
    #[serde(rename = "f64")]
    Float64 = 8,
    /// bfloat16: the exponent of single precision, 8 bits of significand.
    #[serde(rename = "bf16")]
    Bfloat16 = 9,
    /// 8-bit float with 4 bits of exponent, 3 of fraction.
    #[serde(rename = "f8e4m3")]
    Float8E4m3 = 10,
    /// 8-bit float with 5 bits of exponent, 2 of fraction.
    #[serde(rename = "f8e5m2")]
    Float8E5m2 = 11,
}

/// What a data type is called, and its size.
struct Facts {
    /// By us: printed and stored.
    short: &'static str,
    /// By nccl-tests, on its command line and in its tables.
    name: &'static str,
    /// By C, CUDA, PyTorch and the flags of servers.
    aliases: &'static [&'static str],
    bytes: u64,
}

const fn facts(short: &'static str, name: &'static str, bytes: u64, aliases: &'static [&'static str]) -> Facts {
    Facts { short, name, aliases, bytes }
}

impl Dtype {
    /// All of them, in the order of NCCL's ids.
    pub const ALL: [Self; 12] = [
        Self::Int8,
        Self::Uint8,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::Bfloat16,
        Self::Float8E4m3,
        Self::Float8E5m2,
    ];

    const fn facts(self) -> Facts {
        match self {
            Self::Int8 => facts("i8", "int8", 1, &["char"]),
            Self::Uint8 => facts("u8", "uint8", 1, &["uchar"]),
            Self::Int32 => facts("i32", "int32", 4, &["int"]),
            Self::Uint32 => facts("u32", "uint32", 4, &["uint"]),
            Self::Int64 => facts("i64", "int64", 8, &["long"]),
            Self::Uint64 => facts("u64", "uint64", 8, &["ulong"]),
            Self::Float16 => facts("f16", "half", 2, &["fp16", "float16"]),
            Self::Float32 => facts("f32", "float", 4, &["fp32", "float32"]),
            Self::Float64 => facts("f64", "double", 8, &["fp64", "float64"]),
            Self::Bfloat16 => facts("bf16", "bfloat16", 2, &["bf"]),
            Self::Float8E4m3 => facts("f8e4m3", "f8e4m3", 1, &["fp8", "fp8_e4m3", "float8_e4m3fn", "float8e4m3"]),
            Self::Float8E5m2 => facts("f8e5m2", "f8e5m2", 1, &["fp8_e5m2", "float8_e5m2", "float8e5m2"]),
        }
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.facts().bytes
    }

    /// The name nccl-tests uses: `bfloat16`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The short name we print and store: `bf16`.
    #[must_use]
    pub const fn short(self) -> &'static str {
        self.facts().short
    }

    /// The value of NCCL's `ncclDataType_t`.
    #[must_use]
    pub const fn nccl_id(self) -> u32 {
        self as u32
    }

    /// The first NCCL version, major and minor, that has it.
    #[must_use]
    pub const fn min_version(self) -> (u32, u32) {
        match self {
            Self::Bfloat16 => (2, 10),
            Self::Float8E4m3 | Self::Float8E5m2 => (2, 24),
            _ => (2, 0),
        }
    }

    /// The first compute capability whose GPUs NCCL lets reduce it: fp8 needs 9.0 (Hopper).
    #[must_use]
    pub const fn min_capability(self) -> Option<(u32, u32)> {
        match self {
            Self::Float8E4m3 | Self::Float8E5m2 => Some((9, 0)),
            _ => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.short())
    }
}

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let lower = text.to_ascii_lowercase();
        let known = |dtype: &Self| {
            dtype.short() == lower || dtype.name() == lower || dtype.facts().aliases.contains(&lower.as_str())
        };
        Self::ALL.into_iter().find(known).ok_or_else(|| unknown("data type", text, &Self::ALL))
    }
}

/// How elements of the ranks are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The sum divided by the number of ranks.
    Avg,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Prod, Self::Min, Self::Max, Self::Avg];

    /// The name of NCCL and nccl-tests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }

    /// The value of NCCL's `ncclRedOp_t`.
    #[must_use]
    pub const fn nccl_id(self) -> u32 {
        match self {
            Self::Sum => 0,
            Self::Prod => 1,
            Self::Max => 2,
            Self::Min => 3,
            Self::Avg => 4,
        }
    }

    /// The first NCCL version, major and minor, that has it.
    #[must_use]
    pub const fn min_version(self) -> (u32, u32) {
        match self {
            Self::Avg => (2, 10),
            _ => (2, 0),
        }
    }
}

/// Where the result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Into a buffer of its own.
    OutOfPlace,
    /// Over the input.
    InPlace,
}

impl Placement {
    /// Both.
    pub const ALL: [Self; 2] = [Self::OutOfPlace, Self::InPlace];

    /// `out-of-place` or `in-place`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutOfPlace => "out-of-place",
            Self::InPlace => "in-place",
        }
    }
}

/// How the calls are issued and timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A CUDA graph of chained calls, replayed: how decode runs.
    Graph,
    /// Launches back to back between two events: what nccl-tests prints.
    Stream,
    /// Barrier, one launch, synchronise, host clock: the latency of a lone call.
    Sync,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Graph, Self::Stream, Self::Sync];

    /// `graph`, `stream` or `sync`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Stream => "stream",
            Self::Sync => "sync",
        }
    }
}

/// Prints the name, and reads it back without regard to case.
macro_rules! by_name {
    ($($type:ty: $what:literal),* $(,)?) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                let known = |value: &Self| value.name().eq_ignore_ascii_case(text);
                Self::ALL.into_iter().find(known).ok_or_else(|| unknown($what, text, &Self::ALL))
            }
        }
    )*};
}

by_name!(Op: "operation", Placement: "placement", Mode: "mode");

fn unknown<T: fmt::Display>(what: &str, text: &str, all: &[T]) -> Error {
    let names: Vec<_> = all.iter().map(T::to_string).collect();
    Error::usage(format!("unknown {what} `{text}`")).help(format!("one of: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn names_agree<T>(all: &[T])
    where
        T: Copy + Debug + PartialEq + fmt::Display + FromStr<Err = Error> + Serialize + for<'a> Deserialize<'a>,
    {
        for &value in all {
            let name = value.to_string();
            assert_eq!(name.parse::<T>().unwrap(), value);
            assert_eq!(name.to_uppercase().parse::<T>().unwrap(), value);
            assert_eq!(serde_json::to_value(value).unwrap(), name, "the stored name is the printed one");
            assert_eq!(serde_json::from_value::<T>(name.into()).unwrap(), value);
        }
    }

    #[test]
    fn printed_read_and_stored_names_are_the_same() {
        names_agree(&Dtype::ALL);
        names_agree(&Op::ALL);
        names_agree(&Placement::ALL);
        names_agree(&Mode::ALL);
    }

    #[test]
    fn the_ids_are_those_of_nccl_h() {
        use cudarc::nccl::sys::{ncclDataType_t as D, ncclRedOp_t as O};
        assert_eq!(Dtype::ALL.map(Dtype::nccl_id), std::array::from_fn(|i| i as u32));
        let dtypes = [(Dtype::Int8, D::ncclInt8), (Dtype::Float16, D::ncclFloat16), (Dtype::Bfloat16, D::ncclBfloat16)];
        for (ours, theirs) in dtypes {
            assert_eq!(ours.nccl_id(), theirs as u32);
        }
        assert_eq!(Dtype::Float8E5m2.nccl_id(), D::ncclFloat8e5m2 as u32);
        let ops = [O::ncclSum, O::ncclProd, O::ncclMin, O::ncclMax, O::ncclAvg];
        assert_eq!(Op::ALL.map(Op::nccl_id), ops.map(|op| op as u32));
    }

    #[test]
    fn every_name_of_a_data_type_reads_as_that_type_alone() {
        let mut seen = std::collections::HashMap::new();
        for dtype in Dtype::ALL {
            for &name in [dtype.short(), dtype.name()].iter().chain(dtype.facts().aliases) {
                assert_eq!(name.parse::<Dtype>().unwrap(), dtype);
                assert_eq!(*seen.entry(name).or_insert(dtype), dtype, "{name} names two types");
            }
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_those_there_are() {
        let error = "bfloat61".parse::<Dtype>().unwrap_err();
        assert_eq!(error.message(), "unknown data type `bfloat61`");
        assert!(error.next_step().unwrap().contains("bf16"));
        let error = "async".parse::<Mode>().unwrap_err();
        assert_eq!(error.next_step(), Some("one of: graph, stream, sync"));
    }
}
