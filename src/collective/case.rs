//! [`Case`]: size × data type × operation × placement × mode, and the bandwidths of a time measured for it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use super::{Dtype, Function, Mode, Op, Placement, SizeList};
use crate::error::{Error, Result};
use crate::units::{Bytes, GBps, Micros};

/// The size of a message in elements.
///
/// `7168x2` and `14336x1` are the same message: equality, order and hash look at the elements only, the rest is a label.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Size {
    /// How many elements every rank gives.
    pub elements: u64,
    /// The hidden size and the tokens it was asked for as, for tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_tokens: Option<(u64, u64)>,
}

impl Size {
    /// A plain number of elements.
    #[must_use]
    pub const fn elements(elements: u64) -> Self {
        Self { elements, hidden_tokens: None }
    }

    /// The activations of `tokens` tokens of a model with this `hidden` size; `None` when the product overflows.
    #[must_use]
    pub fn tokens(hidden: u64, tokens: u64) -> Option<Self> {
        Some(Self { elements: hidden.checked_mul(tokens)?, hidden_tokens: Some((hidden, tokens)) })
    }

    /// The bytes of the message when its elements are of this type.
    #[must_use]
    pub fn bytes(self, dtype: Dtype) -> Bytes {
        Bytes(self.elements.saturating_mul(dtype.bytes()))
    }

    /// How a table names it: `7168x2`, or the bytes when it was not asked for as tokens.
    #[must_use]
    pub fn label(self, dtype: Dtype) -> String {
        match self.hidden_tokens {
            Some((hidden, tokens)) => format!("{hidden}x{tokens}"),
            None => self.bytes(dtype).to_string(),
        }
    }
}

impl PartialEq for Size {
    fn eq(&self, other: &Self) -> bool {
        self.elements == other.elements
    }
}

impl Eq for Size {}

impl PartialOrd for Size {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Size {
    fn cmp(&self, other: &Self) -> Ordering {
        self.elements.cmp(&other.elements)
    }
}

impl Hash for Size {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.elements.hash(state);
    }
}

/// One thing to measure: an all-reduce (or, between two GPUs, an exchange) of one kind and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Case {
    /// The type of the elements.
    pub dtype: Dtype,
    /// How they are combined.
    pub op: Op,
    /// Where the result goes.
    pub placement: Placement,
    /// How the calls are issued and timed.
    pub mode: Mode,
    /// How many elements.
    pub size: Size,
    /// What is called.
    #[serde(default, skip_serializing_if = "Function::is_all_reduce")]
    pub function: Function,
}

impl Case {
    /// The bytes every rank gives.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.size.bytes(self.dtype)
    }

    /// A short id that is the same in every run, fit for file names: `14336B-bf16-sum-oop-graph`.
    #[must_use]
    pub fn key(&self) -> String {
        let placement = match self.placement {
            Placement::OutOfPlace => "oop",
            Placement::InPlace => "ip",
        };
        let function = match self.function {
            Function::AllReduce => "",
            Function::SendRecv => "-sendrecv",
        };
        format!("{}B-{}-{}-{placement}-{}{function}", self.bytes().0, self.dtype, self.op, self.mode)
    }

    /// How a table names its size: `7168x2` or `64 KiB`.
    #[must_use]
    pub fn label(&self) -> String {
        self.size.label(self.dtype)
    }

    /// Algorithm bandwidth: the bytes of one rank over the time.
    #[must_use]
    pub fn algbw(&self, time: Micros) -> GBps {
        self.bytes().per(time)
    }

    /// Bus bandwidth: algorithm bandwidth × 2(n−1)/n of an all-reduce, to hold against what one link can carry.
    #[must_use]
    pub fn busbw(&self, time: Micros, ranks: usize) -> GBps {
        GBps(self.algbw(time).0 * self.function.bus_factor(ranks))
    }
}

impl fmt::Display for Case {
    /// `7168x2 bf16 sum out-of-place graph`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.label(), self.dtype, self.op, self.placement, self.mode)
    }
}

/// A larger product of the lists is a slip of the pen.
pub const MAX_CASES: usize = 10_000;

/// Lists whose product is the cases of a run.
#[derive(Clone, Debug)]
pub struct Cases {
    /// Sizes: a size in bytes is another number of elements for another data type.
    pub sizes: SizeList,
    /// Data types.
    pub dtypes: Vec<Dtype>,
    /// Operations.
    pub ops: Vec<Op>,
    /// Placements.
    pub placements: Vec<Placement>,
    /// Modes.
    pub modes: Vec<Mode>,
}

impl Cases {
    /// The product, without duplicates. Sizes change fastest, so cases that one table shows together stand together.
    pub fn product(&self) -> Result<Vec<Case>> {
        let mut cases = IndexSet::new();
        for &dtype in &self.dtypes {
            let sizes = self.sizes.sizes(dtype)?;
            for (&mode, &placement, &op) in self.kinds() {
                cases.extend(sizes.iter().map(|&size| Case {
                    dtype,
                    op,
                    placement,
                    mode,
                    size,
                    function: Function::AllReduce,
                }));
                if cases.len() > MAX_CASES {
                    let message =
                        format!("sizes, data types, operations, placements and modes make over {MAX_CASES} cases");
                    return Err(Error::usage(message).help("give fewer of them, or run them one after the other"));
                }
            }
        }
        Ok(cases.into_iter().collect())
    }

    fn kinds(&self) -> impl Iterator<Item = (&Mode, &Placement, &Op)> {
        let placed = move |mode| self.placements.iter().map(move |placement| (mode, placement));
        let pairs = self.modes.iter().flat_map(placed);
        pairs.flat_map(|(mode, placement)| self.ops.iter().map(move |op| (mode, placement, op)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(size: Size) -> Case {
        let function = Function::AllReduce;
        Case {
            size,
            dtype: Dtype::Bfloat16,
            op: Op::Sum,
            placement: Placement::OutOfPlace,
            mode: Mode::Graph,
            function,
        }
    }

    #[test]
    fn bus_bandwidth_is_what_a_link_of_the_ring_carries() {
        let case = case(Size::tokens(7168, 1).unwrap());
        assert_eq!(case.bytes(), Bytes(14_336));
        assert_eq!(case.algbw(Micros(14.336)), GBps(1.0));
        assert_eq!(case.busbw(Micros(14.336), 8), GBps(1.75));
        assert_eq!(case.busbw(Micros(14.336), 2), GBps(1.0));
        assert_eq!(case.busbw(Micros(14.336), 1), GBps(0.0));
        let exchange = Case { function: Function::SendRecv, ..case };
        assert_eq!((exchange.busbw(Micros(14.336), 2), exchange.busbw(Micros(14.336), 8)), (GBps(1.0), GBps(1.0)));
    }

    #[test]
    fn the_same_message_asked_for_in_two_ways_is_one_case() {
        let tokens = case(Size::tokens(7168, 2).unwrap());
        let plain = case(Size::elements(14_336));
        assert_eq!(tokens, plain);
        assert_eq!(tokens.key(), plain.key());
        assert_eq!((tokens.label(), plain.label()), ("7168x2".into(), "28 KiB".into()));
    }

    fn cases(sizes: &str) -> Cases {
        Cases {
            sizes: sizes.parse().unwrap(),
            dtypes: vec![Dtype::Float32],
            ops: vec![Op::Sum],
            placements: vec![Placement::InPlace, Placement::OutOfPlace],
            modes: vec![Mode::Sync, Mode::Graph, Mode::Sync],
        }
    }

    #[test]
    fn a_product_without_bounds_is_refused() {
        let kinds = Cases { ops: Op::ALL.into(), dtypes: Dtype::ALL.into(), ..cases("64x1..100") };
        assert!(kinds.product().unwrap_err().message().contains("10000 cases"));
        assert!(cases("9B").product().is_err(), "9 bytes are no f32 elements");
    }

    #[test]
    fn bytes_are_counted_in_elements_of_each_data_type() {
        let both = Cases { dtypes: vec![Dtype::Float32, Dtype::Int8], ..cases("8B") }.product().unwrap();
        assert_eq!((both[0].size.elements, both[4].size.elements), (2, 8));
    }

    #[test]
    fn the_product_keeps_the_order_of_the_lists_and_drops_repeats() {
        let cases = cases("2x1,4B,8B").product().unwrap();
        let keys: Vec<_> = cases.iter().map(Case::key).collect();
        let expected = [
            "8B-f32-sum-ip-sync",
            "4B-f32-sum-ip-sync",
            "8B-f32-sum-oop-sync",
            "4B-f32-sum-oop-sync",
            "8B-f32-sum-ip-graph",
            "4B-f32-sum-ip-graph",
            "8B-f32-sum-oop-graph",
            "4B-f32-sum-oop-graph",
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_case_survives_json_with_its_label() {
        let case = case(Size::tokens(7168, 4).unwrap());
        let text = serde_json::to_string(&case).unwrap();
        let back: Case = serde_json::from_str(&text).unwrap();
        assert_eq!((back, back.label()), (case, "7168x4".into()));
    }
}
