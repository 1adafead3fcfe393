//! The arithmetic of an all-reduce: NCCL's data types and operations.
//!
//! Inputs are combined in rank order. Floating types narrower than 32 bit are widened to f32 for the whole sum and rounded
//! once (to nearest even) at the end, f32 and f64 are summed in their own type, integers wrap. NCCL rounds at each step of
//! its ring instead; where all partial sums are exact, as in the worker's test data, both give the same bits.

use half::{bf16, f16};

/// NCCL's data types, by their numbers in `nccl.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dtype {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
    E4m3,
    E5m2,
}

impl Dtype {
    const ALL: [Dtype; 12] = [
        Dtype::I8,
        Dtype::U8,
        Dtype::I32,
        Dtype::U32,
        Dtype::I64,
        Dtype::U64,
        Dtype::F16,
        Dtype::F32,
        Dtype::F64,
        Dtype::Bf16,
        Dtype::E4m3,
        Dtype::E5m2,
    ];

    /// The type of that number; the 8-bit floats came with 2.24.
    pub(crate) fn from_code(code: u32, fp8: bool) -> Option<Dtype> {
        Dtype::ALL.get(code as usize).copied().filter(|dtype| fp8 || !matches!(dtype, Dtype::E4m3 | Dtype::E5m2))
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Dtype::I8 | Dtype::U8 | Dtype::E4m3 | Dtype::E5m2 => 1,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 4,
            Dtype::I64 | Dtype::U64 | Dtype::F64 => 8,
        }
    }

    /// NCCL's name of the type.
    pub(crate) fn name(self) -> &'static std::ffi::CStr {
        match self {
            Dtype::I8 => c"ncclInt8",
            Dtype::U8 => c"ncclUint8",
            Dtype::I32 => c"ncclInt32",
            Dtype::U32 => c"ncclUint32",
            Dtype::I64 => c"ncclInt64",
            Dtype::U64 => c"ncclUint64",
            Dtype::F16 => c"ncclFloat16",
            Dtype::F32 => c"ncclFloat32",
            Dtype::F64 => c"ncclFloat64",
            Dtype::Bf16 => c"ncclBfloat16",
            Dtype::E4m3 => c"ncclFloat8e4m3",
            Dtype::E5m2 => c"ncclFloat8e5m2",
        }
    }

    /// The bytes of a value that is no number (the largest value where the type has none).
    pub(crate) fn nan(self) -> &'static [u8] {
        match self {
            Dtype::F16 => &[0x00, 0x7E],
            Dtype::Bf16 => &[0xC0, 0x7F],
            Dtype::F32 => &[0x00, 0x00, 0xC0, 0x7F],
            Dtype::F64 => &[0, 0, 0, 0, 0, 0, 0xF8, 0x7F],
            Dtype::E4m3 | Dtype::E5m2 => &[0x7F],
            Dtype::I8 | Dtype::U8 => &[0xFF],
            Dtype::I32 | Dtype::U32 => &[0xFF; 4],
            Dtype::I64 | Dtype::U64 => &[0xFF; 8],
        }
    }
}

/// NCCL's operations, by their numbers in `nccl.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Sum,
    Product,
    Max,
    Min,
    Average,
}

impl Operation {
    pub(crate) fn from_code(code: u32) -> Option<Operation> {
        [Operation::Sum, Operation::Product, Operation::Max, Operation::Min, Operation::Average]
            .get(code as usize)
            .copied()
    }
}

/// A number that reductions are computed in.
trait Number: Copy {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    fn share(self, ranks: usize) -> Self;
}

macro_rules! integer {
    ($($of:ty)*) => {$(impl Number for $of {
        fn add(self, other: Self) -> Self { self.wrapping_add(other) }
        fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
        fn larger(self, other: Self) -> Self { self.max(other) }
        fn smaller(self, other: Self) -> Self { self.min(other) }
        fn share(self, ranks: usize) -> Self { self / ranks as $of }
    })*};
}
integer!(i8 u8 i32 u32 i64 u64);

macro_rules! float {
    ($($of:ty)*) => {$(impl Number for $of {
        fn add(self, other: Self) -> Self { self + other }
        fn mul(self, other: Self) -> Self { self * other }
        fn larger(self, other: Self) -> Self { if self.is_nan() || other.is_nan() { <$of>::NAN } else { self.max(other) } }
        fn smaller(self, other: Self) -> Self { if self.is_nan() || other.is_nan() { <$of>::NAN } else { self.min(other) } }
        fn share(self, ranks: usize) -> Self { self / ranks as $of }
    })*};
}
float!(f32 f64);

/// Combines the ranks' inputs, all of one length; the result has that length too.
pub(crate) fn reduce(dtype: Dtype, operation: Operation, inputs: &[&[u8]]) -> Box<[u8]> {
    fn raw<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("chunks have the size of the type")
    }
    macro_rules! native {
        ($of:ty) => {
            fold::<$of, { size_of::<$of>() }>(operation, inputs, |b| <$of>::from_le_bytes(b), |v| v.to_le_bytes())
        };
    }
    match dtype {
        Dtype::I8 => native!(i8),
        Dtype::U8 => native!(u8),
        Dtype::I32 => native!(i32),
        Dtype::U32 => native!(u32),
        Dtype::I64 => native!(i64),
        Dtype::U64 => native!(u64),
        Dtype::F32 => native!(f32),
        Dtype::F64 => native!(f64),
        Dtype::F16 => {
            fold::<f32, 2>(operation, inputs, |b| f16::from_le_bytes(b).to_f32(), |v| f16::from_f32(v).to_le_bytes())
        }
        Dtype::Bf16 => fold::<f32, 2>(
            operation,
            inputs,
            |b| f32::from_bits(u32::from(u16::from_le_bytes(raw(&b))) << 16),
            |v| bf16::from_f32(v).to_le_bytes(),
        ),
        Dtype::E4m3 => fold::<f32, 1>(operation, inputs, |b| from_fp8(b[0], E4M3), |v| [to_fp8(v, E4M3)]),
        Dtype::E5m2 => fold::<f32, 1>(operation, inputs, |b| from_fp8(b[0], E5M2), |v| [to_fp8(v, E5M2)]),
    }
}

fn fold<T: Number, const N: usize>(
    operation: Operation,
    inputs: &[&[u8]],
    decode: impl Fn([u8; N]) -> T,
    encode: impl Fn(T) -> [u8; N],
) -> Box<[u8]> {
    let Some((first, rest)) = inputs.split_first() else { return Box::default() };
    let mut sums: Vec<T> = first.as_chunks::<N>().0.iter().map(|&chunk| decode(chunk)).collect();
    for input in rest {
        let pairs = sums.iter_mut().zip(input.as_chunks::<N>().0);
        match operation {
            Operation::Sum | Operation::Average => pairs.for_each(|(sum, &chunk)| *sum = sum.add(decode(chunk))),
            Operation::Product => pairs.for_each(|(sum, &chunk)| *sum = sum.mul(decode(chunk))),
            Operation::Max => pairs.for_each(|(sum, &chunk)| *sum = sum.larger(decode(chunk))),
            Operation::Min => pairs.for_each(|(sum, &chunk)| *sum = sum.smaller(decode(chunk))),
        }
    }
    if operation == Operation::Average {
        sums.iter_mut().for_each(|sum| *sum = sum.share(inputs.len()));
    }
    sums.into_iter().flat_map(encode).collect()
}

/// An 8-bit float: bits of the mantissa, exponent bias, largest finite code, and whether it has infinities.
#[derive(Clone, Copy)]
struct Fp8 {
    mantissa: u32,
    bias: i32,
    largest: u8,
    infinite: bool,
}

const E4M3: Fp8 = Fp8 { mantissa: 3, bias: 7, largest: 0x7E, infinite: false };
const E5M2: Fp8 = Fp8 { mantissa: 2, bias: 15, largest: 0x7B, infinite: true };

fn from_fp8(code: u8, kind: Fp8) -> f32 {
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let magnitude = code & 0x7F;
    if magnitude > kind.largest {
        return if kind.infinite && magnitude == kind.largest + 1 { sign * f32::INFINITY } else { f32::NAN };
    }
    let exponent = i32::from(magnitude >> kind.mantissa);
    let fraction = f32::from(magnitude & ((1 << kind.mantissa) - 1)) / (1 << kind.mantissa) as f32;
    let scale = |power: i32| 2.0_f32.powi(power - kind.bias);
    sign * if exponent == 0 { fraction * scale(1) } else { (1.0 + fraction) * scale(exponent) }
}

/// The nearest code, ties to the even one, too large values to the largest finite one as NVIDIA's conversions saturate.
fn to_fp8(value: f32, kind: Fp8) -> u8 {
    if value.is_nan() {
        return 0x7F;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = value.abs();
    let (mut low, mut high) = (0_u8, kind.largest);
    if magnitude >= from_fp8(high, kind) {
        return sign | high;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if from_fp8(middle, kind) <= magnitude { low = middle } else { high = middle }
    }
    let (below, above) = (magnitude - from_fp8(low, kind), from_fp8(high, kind) - magnitude);
    sign | if below < above || (below == above && low % 2 == 0) { low } else { high }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_bf16(values: &[f32]) -> f32 {
        let inputs: Vec<[u8; 2]> = values.iter().map(|&v| bf16::from_f32(v).to_le_bytes()).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(|bytes| &bytes[..]).collect();
        let result = reduce(Dtype::Bf16, Operation::Sum, &inputs);
        bf16::from_le_bytes([result[0], result[1]]).to_f32()
    }

    #[test]
    fn bf16_sums_are_rounded_once_to_nearest_even() {
        assert_eq!(sum_bf16(&[1.0, 2.0, 4.0, 8.0]), 15.0);
        assert_eq!(sum_bf16(&[256.0, 1.0, 1.0]), 258.0);
        assert_eq!(sum_bf16(&[256.0, 1.0]), 256.0);
        assert!(sum_bf16(&[f32::NAN, 1.0]).is_nan());
    }

    #[test]
    fn integers_wrap_and_average_truncates() {
        let inputs = [&[200_u8, 7][..], &[100, 8][..]];
        assert_eq!(&*reduce(Dtype::U8, Operation::Sum, &inputs), &[44, 15]);
        assert_eq!(&*reduce(Dtype::U8, Operation::Average, &inputs), &[22, 7]);
        assert_eq!(&*reduce(Dtype::U8, Operation::Max, &inputs), &[200, 8]);
        assert_eq!(&*reduce(Dtype::I8, Operation::Max, &inputs), &[100, 8]);
        assert_eq!(&*reduce(Dtype::U8, Operation::Product, &inputs), &[32, 56]);
    }

    #[test]
    fn every_type_adds_one_and_two() {
        type Case = (Dtype, &'static [u8], &'static [u8], &'static [u8]);
        let pairs: [Case; 6] = [
            (Dtype::I32, &[1, 0, 0, 0], &[2, 0, 0, 0], &[3, 0, 0, 0]),
            (Dtype::U64, &[1, 0, 0, 0, 0, 0, 0, 0], &[2, 0, 0, 0, 0, 0, 0, 0], &[3, 0, 0, 0, 0, 0, 0, 0]),
            (Dtype::F16, &[0x00, 0x3C], &[0x00, 0x40], &[0x00, 0x42]),
            (Dtype::F32, &[0, 0, 0x80, 0x3F], &[0, 0, 0, 0x40], &[0, 0, 0x40, 0x40]),
            (Dtype::E4m3, &[0x38], &[0x40], &[0x44]),
            (Dtype::E5m2, &[0x3C], &[0x40], &[0x42]),
        ];
        for (dtype, one, two, three) in pairs {
            assert_eq!(&*reduce(dtype, Operation::Sum, &[one, two]), three, "{dtype:?}");
        }
    }

    #[test]
    fn fp8_codes_survive_a_round_trip() {
        for kind in [E4M3, E5M2] {
            for code in (0..=kind.largest).chain(0x80..=0x80 | kind.largest) {
                assert_eq!(to_fp8(from_fp8(code, kind), kind), code);
            }
        }
        assert_eq!(from_fp8(0x7E, E4M3), 448.0);
        assert_eq!(from_fp8(0x7B, E5M2), 57344.0);
    }

    #[test]
    fn the_maximum_of_a_nan_is_a_nan() {
        let nan = f32::NAN.to_le_bytes();
        let one = 1.0_f32.to_le_bytes();
        let result = reduce(Dtype::F32, Operation::Max, &[&nan, &one]);
        assert!(f32::from_le_bytes(result[..4].try_into().unwrap()).is_nan());
    }
}
