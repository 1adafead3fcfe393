//! Input data whose reduction is exact in its type, so that every output element is known bit for bit.
//!
//! Inputs are small non-negative integers that differ by rank and element. Their range is chosen so that every partial
//! result, in any order of reduction, is representable: then no rounding happens and equality is the right comparison.
//! The one exception is the average of floating-point values over a number of ranks that is no power of two: NCCL
//! multiplies each input by a rounded 1/n, so [`CaseData::tolerance`] is not zero there.

use half::{bf16, f16};

use crate::collective::{Case, Dtype, Function, Op};

/// Inputs vary over at most this many values: enough to tell elements apart, small enough for sums over many ranks.
const MOST_VALUES: u64 = 1024;

/// The byte that poisons outputs. As a float it is NaN, as an integer a value that no expected result reaches.
pub(super) const POISON: u8 = 0xff;

/// The data of all cases that do the same with the same number of elements of one type.
pub(super) struct CaseData {
    function: Function,
    pub(super) dtype: Dtype,
    pub(super) op: Op,
    pub(super) elements: u64,
    ranks: u32,
    salt: u64,
    /// What every rank must receive; where each gets something else, by rank.
    expected: Vec<Vec<u8>>,
}

/// The distinct data of `cases`.
pub(super) fn for_cases(cases: &[Case], ranks: u32, salt: u64) -> Vec<CaseData> {
    let mut all: Vec<CaseData> = Vec::new();
    for case in cases {
        if !all.iter().any(|data| data.is_of(case)) {
            all.push(CaseData::new(case.function, case.dtype, case.op, case.size.elements, ranks, salt));
        }
    }
    all
}

impl CaseData {
    fn new(function: Function, dtype: Dtype, op: Op, elements: u64, ranks: u32, salt: u64) -> Self {
        let mut data = Self { function, dtype, op, elements, ranks, salt, expected: Vec::new() };
        data.expected = match function {
            Function::AllReduce => vec![data.encode_all(|element| data.reduced(element))],
            Function::SendRecv => (0..ranks).map(|rank| data.input((rank + ranks - 1) % ranks)).collect(),
        };
        data
    }

    /// Whether these are the data of `case`.
    pub(super) fn is_of(&self, case: &Case) -> bool {
        let own = (self.function, self.dtype, self.op, self.elements);
        own == (case.function, case.dtype, case.op, case.size.elements)
    }

    /// What `rank` sends.
    pub(super) fn input(&self, rank: u32) -> Vec<u8> {
        self.encode_all(|element| self.value(rank, element) as f64)
    }

    /// What `rank` must receive.
    pub(super) fn expected(&self, rank: u32) -> &[u8] {
        &self.expected[rank as usize % self.expected.len()]
    }

    /// Bytes of one buffer.
    pub(super) fn bytes(&self) -> usize {
        self.expected[0].len()
    }

    /// The relative difference that rounding inside NCCL explains; zero where equality must hold.
    pub(super) fn tolerance(&self) -> f64 {
        match exact_integers(self.dtype) {
            // Each of the n products and n - 1 sums rounds by at most half a unit in the last place.
            _ if self.function == Function::SendRecv => 0.0,
            Some(exact) if self.op == Op::Avg && is_float(self.dtype) && !self.ranks.is_power_of_two() => {
                f64::from(self.ranks) / exact as f64
            }
            _ => 0.0,
        }
    }

    /// The value that `rank` contributes to `element`.
    fn value(&self, rank: u32, element: u64) -> u64 {
        let exact = exact_integers(self.dtype).unwrap_or(1 << 30);
        let mixed = mix(self.salt, rank, element);
        match self.op {
            // At most `exact` ranks contribute, and others in turn, so that also tiny types have an exact sum.
            Op::Sum | Op::Avg if u64::from(self.ranks) > exact => {
                let turn = (u64::from(rank) + element) % u64::from(self.ranks);
                if turn < exact { mixed & 1 } else { 0 }
            }
            Op::Sum | Op::Avg => mixed % (exact / u64::from(self.ranks) + 1).min(MOST_VALUES),
            // Powers of two, of which so few are above one that the product stays in range.
            Op::Prod => {
                let turn = (u64::from(rank) + element) % u64::from(self.ranks);
                if turn < most_doublings(self.dtype) { 1 + (mixed & 1) } else { 1 }
            }
            Op::Min | Op::Max => mixed % (exact + 1).min(MOST_VALUES),
        }
    }

    /// The reduction of all ranks' values of `element`.
    fn reduced(&self, element: u64) -> f64 {
        let values = (0..self.ranks).map(|rank| self.value(rank, element));
        match self.op {
            Op::Sum => values.sum::<u64>() as f64,
            Op::Prod => values.product::<u64>() as f64,
            Op::Min => values.min().unwrap_or(0) as f64,
            Op::Max => values.max().unwrap_or(0) as f64,
            Op::Avg if is_float(self.dtype) => values.sum::<u64>() as f64 / f64::from(self.ranks),
            Op::Avg => (values.sum::<u64>() / u64::from(self.ranks)) as f64,
        }
    }

    fn encode_all(&self, value: impl Fn(u64) -> f64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.elements as usize * self.dtype.bytes() as usize);
        // One loop per type: the choice inside the loop would cost more than the values.
        macro_rules! encode {
            ($convert:expr) => {
                for element in 0..self.elements {
                    bytes.extend_from_slice(&$convert(value(element)).to_le_bytes());
                }
            };
        }
        match self.dtype {
            Dtype::Int8 => encode!(|v| v as i8),
            Dtype::Uint8 => encode!(|v| v as u8),
            Dtype::Int32 => encode!(|v| v as i32),
            Dtype::Uint32 => encode!(|v| v as u32),
            Dtype::Int64 => encode!(|v| v as i64),
            Dtype::Uint64 => encode!(|v| v as u64),
            Dtype::Float16 => encode!(f16::from_f64),
            Dtype::Float32 => encode!(|v| v as f32),
            Dtype::Float64 => encode!(|v: f64| v),
            Dtype::Bfloat16 => encode!(bf16::from_f64),
            Dtype::Float8E4m3 => encode!(|v| encode_f8(v, 3, 7)),
            Dtype::Float8E5m2 => encode!(|v| encode_f8(v, 2, 15)),
        }
        bytes
    }
}

/// The value of one element, for messages and for comparison with a tolerance.
pub(super) fn decode(dtype: Dtype, bytes: &[u8]) -> f64 {
    macro_rules! read {
        ($type:ty) => {
            <$type>::from_le_bytes(bytes.try_into().expect("one element"))
        };
    }
    match dtype {
        Dtype::Int8 => f64::from(read!(i8)),
        Dtype::Uint8 => f64::from(read!(u8)),
        Dtype::Int32 => f64::from(read!(i32)),
        Dtype::Uint32 => f64::from(read!(u32)),
        Dtype::Int64 => read!(i64) as f64,
        Dtype::Uint64 => read!(u64) as f64,
        Dtype::Float16 => read!(f16).to_f64(),
        Dtype::Float32 => f64::from(read!(f32)),
        Dtype::Float64 => read!(f64),
        Dtype::Bfloat16 => read!(bf16).to_f64(),
        Dtype::Float8E4m3 => decode_f8(bytes[0], 3, 7),
        Dtype::Float8E5m2 => decode_f8(bytes[0], 2, 15),
    }
}

fn is_float(dtype: Dtype) -> bool {
    matches!(
        dtype,
        Dtype::Float16 | Dtype::Float32 | Dtype::Float64 | Dtype::Bfloat16 | Dtype::Float8E4m3 | Dtype::Float8E5m2
    )
}

/// The largest integer up to which the type holds all of them and [`POISON`] is none of them; `None`: beyond all need.
fn exact_integers(dtype: Dtype) -> Option<u64> {
    match dtype {
        Dtype::Int8 => Some(127),
        Dtype::Uint8 => Some(254),
        Dtype::Float16 => Some(1 << 11),
        Dtype::Bfloat16 => Some(1 << 8),
        Dtype::Float32 => Some(1 << 24),
        Dtype::Float8E4m3 => Some(1 << 4),
        Dtype::Float8E5m2 => Some(1 << 3),
        Dtype::Float64 => Some(1 << 53),
        Dtype::Int32 | Dtype::Uint32 | Dtype::Int64 | Dtype::Uint64 => None,
    }
}

/// How often one can be doubled in the type.
fn most_doublings(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::Int8 => 6,
        Dtype::Uint8 => 7,
        Dtype::Float8E4m3 => 8,
        Dtype::Float16 | Dtype::Float8E5m2 => 15,
        _ => 30,
    }
}

/// A well mixed number for each rank and element (the finaliser of SplitMix64).
fn mix(salt: u64, rank: u32, element: u64) -> u64 {
    let mut z = salt ^ (element << 12 | u64::from(rank)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A non-negative value as an 8-bit float with `mantissa` bits, rounded towards zero where it is not representable.
fn encode_f8(value: f64, mantissa: u32, bias: i32) -> u8 {
    if value == 0.0 {
        return 0;
    }
    let exponent = value.log2().floor() as i32;
    let lowest = 1 - bias;
    let scale = f64::from(1 << mantissa);
    if exponent < lowest {
        return (value / 2_f64.powi(lowest) * scale) as u8;
    }
    let fraction = ((value / 2_f64.powi(exponent) - 1.0) * scale) as u8;
    (((exponent + bias) as u8) << mantissa) | fraction
}

fn decode_f8(byte: u8, mantissa: u32, bias: i32) -> f64 {
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((byte & 0x7f) >> mantissa);
    let fraction = f64::from(byte & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
    // E4M3 has one NaN pattern and no infinities, E5M2 follows IEEE 754.
    let special = if mantissa == 3 { byte & 0x7f == 0x7f } else { exponent == 31 };
    match exponent {
        _ if special && mantissa == 2 && fraction == 0.0 => sign * f64::INFINITY,
        _ if special => f64::NAN,
        0 => sign * fraction * 2_f64.powi(1 - bias),
        _ => sign * (1.0 + fraction) * 2_f64.powi(exponent - bias),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(dtype: Dtype, op: Op, ranks: u32) -> CaseData {
        CaseData::new(Function::AllReduce, dtype, op, 1000, ranks, 7)
    }

    fn elements(data: &CaseData, bytes: &[u8]) -> Vec<f64> {
        bytes.chunks(data.dtype.bytes() as usize).map(|element| decode(data.dtype, element)).collect()
    }

    #[test]
    fn every_value_survives_its_type_and_no_expected_value_is_poison() {
        for dtype in Dtype::ALL {
            for op in Op::ALL {
                for ranks in [1, 2, 4, 8, 16, 64] {
                    let data = data(dtype, op, ranks);
                    let expected: Vec<f64> = (0..1000).map(|element| data.reduced(element)).collect();
                    assert_eq!(elements(&data, data.expected(0)), expected, "{dtype} {op} over {ranks}");
                    for rank in [0, ranks - 1] {
                        let sent: Vec<f64> = (0..1000).map(|element| data.value(rank, element) as f64).collect();
                        assert_eq!(elements(&data, &data.input(rank)), sent, "{dtype} {op} rank {rank} of {ranks}");
                    }
                    let poison = vec![POISON; dtype.bytes() as usize];
                    assert!(data.expected(0).chunks(dtype.bytes() as usize).all(|e| e != poison), "{dtype} {op}");
                }
            }
        }
    }

    #[test]
    fn partial_sums_in_any_order_stay_exact() {
        for dtype in Dtype::ALL {
            for ranks in [2, 3, 8, 16, 64] {
                let data = data(dtype, Op::Sum, ranks);
                let largest = (0..1000).map(|element| data.reduced(element)).fold(0.0, f64::max);
                let exact = exact_integers(dtype).unwrap_or(1 << 30) as f64;
                assert!(largest <= exact, "{dtype} over {ranks}: {largest} > {exact}");
                assert!(largest > 0.0);
            }
        }
    }

    #[test]
    fn ranks_and_elements_send_different_values() {
        let data = data(Dtype::Bfloat16, Op::Sum, 8);
        assert_ne!(data.input(0), data.input(1));
        let first = elements(&data, &data.input(0));
        assert!(first.windows(2).filter(|pair| pair[0] != pair[1]).count() > 900);
        assert_ne!(
            data.expected(0),
            CaseData::new(Function::AllReduce, Dtype::Bfloat16, Op::Sum, 1000, 8, 8).expected(0)
        );
    }

    #[test]
    fn in_an_exchange_every_rank_receives_what_the_one_before_it_sent() {
        let data = CaseData::new(Function::SendRecv, Dtype::Bfloat16, Op::Sum, 1000, 3, 7);
        for (rank, from) in [(0, 2), (1, 0), (2, 1)] {
            assert_eq!(data.expected(rank), data.input(from));
        }
        assert_ne!(data.expected(0), data.expected(1));
    }

    #[test]
    fn only_the_average_over_an_odd_number_of_ranks_has_a_tolerance() {
        assert_eq!(data(Dtype::Bfloat16, Op::Avg, 8).tolerance(), 0.0);
        assert_eq!(data(Dtype::Int32, Op::Avg, 3).tolerance(), 0.0);
        assert_eq!(data(Dtype::Bfloat16, Op::Sum, 3).tolerance(), 0.0);
        let tolerance = data(Dtype::Bfloat16, Op::Avg, 3).tolerance();
        assert!(tolerance > 0.0 && tolerance < 0.02, "{tolerance}");
    }

    #[test]
    fn eight_bit_floats_decode_as_their_formats_define() {
        // 448 and 57344 are the largest finite values, 2^-9 and 2^-16 the smallest.
        assert_eq!((decode_f8(0x7e, 3, 7), decode_f8(0x7b, 2, 15)), (448.0, 57344.0));
        assert_eq!((decode_f8(0x01, 3, 7), decode_f8(0x01, 2, 15)), (2_f64.powi(-9), 2_f64.powi(-16)));
        assert!(decode_f8(0xff, 3, 7).is_nan() && decode_f8(0xff, 2, 15).is_nan());
        assert_eq!(decode_f8(0x7c, 2, 15), f64::INFINITY);
    }
}
