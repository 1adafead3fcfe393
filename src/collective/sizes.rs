//! Size lists: `7168x1..4,kimi-k2.5x1/2/8,8K..1M*2`.
//!
//! Two steps: text → [`SizeItem`]s, which print back as what was read, → [`Size`]s once the data type is known.
//!
//! ```text
//! list   = item { "," item }
//! item   = hidden "x" run { "/" run }      elements of the data type
//!        | bytes [ ".." bytes "*" factor ]
//! hidden = number | model preset
//! run    = number [ ".." number [ "*" factor ] ]
//! bytes  = number ( "B" | "K" | "M" | "G" )      K = 1024 bytes
//! ```

mod parse;

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::presets::Preset;
use super::{Dtype, Size};
use crate::error::{Error, Result};

/// No buffer of a GPU is larger: 1 TiB.
pub const MAX_BYTES: u64 = 1 << 40;
/// A longer list is a slip of the pen.
pub const MAX_SIZES: usize = 10_000;

/// Numbers to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// One.
    One(u64),
    /// `from..to`: each, both ends included.
    Each(u64, u64),
    /// `from..to*factor`: from, from × factor, … up to the end.
    Times(u64, u64, u64),
}

impl Run {
    /// The numbers, in order.
    pub fn values(self) -> impl Iterator<Item = u64> {
        let (from, to, factor) = match self {
            Self::One(n) => (n, n, None),
            Self::Each(from, to) => (from, to, None),
            Self::Times(from, to, factor) => (from, to, Some(factor)),
        };
        let next = move |n: &u64| factor.map_or_else(|| n.checked_add(1), |factor| n.checked_mul(factor));
        std::iter::successors(Some(from), next).take_while(move |n| *n <= to)
    }

    fn largest(self) -> u64 {
        match self {
            Self::One(n) => n,
            Self::Each(_, to) | Self::Times(_, to, _) => to,
        }
    }

    fn count(self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Each(from, to) => (to - from).saturating_add(1),
            Self::Times(..) => self.values().count() as u64,
        }
    }

    fn print(self, f: &mut fmt::Formatter<'_>, number: impl Fn(u64) -> String) -> fmt::Result {
        match self {
            Self::One(n) => f.write_str(&number(n)),
            Self::Each(from, to) => write!(f, "{}..{}", number(from), number(to)),
            Self::Times(from, to, factor) => write!(f, "{}..{}*{factor}", number(from), number(to)),
        }
    }
}

/// The width that is multiplied by the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// A number of elements.
    Elements(u64),
    /// That of a model.
    Model(&'static Preset),
}

impl Hidden {
    /// The number of elements.
    #[must_use]
    pub const fn elements(self) -> u64 {
        match self {
            Self::Elements(n) => n,
            Self::Model(preset) => preset.hidden,
        }
    }
}

/// One item of a size list, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeItem {
    /// `7168x1..4`: activations of so many tokens.
    Tokens(Hidden, Vec<Run>),
    /// `8K..1M*2`: bytes.
    Bytes(Run),
}

impl SizeItem {
    fn count(&self) -> u64 {
        match self {
            Self::Tokens(_, runs) => runs.iter().fold(0, |sum, run| sum.saturating_add(run.count())),
            Self::Bytes(run) => run.count(),
        }
    }
}

impl fmt::Display for SizeItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(run) => run.print(f, bytes),
            Self::Tokens(hidden, runs) => {
                match hidden {
                    Hidden::Elements(n) => write!(f, "{n}")?,
                    Hidden::Model(preset) => f.write_str(preset.name)?,
                }
                for (i, run) in runs.iter().enumerate() {
                    f.write_str(if i == 0 { "x" } else { "/" })?;
                    run.print(f, |n| n.to_string())?;
                }
                Ok(())
            }
        }
    }
}

/// A size list, and the text it came from: a fault that shows only with the data type still points at its place.
#[derive(Clone, Debug)]
pub struct SizeList {
    name: String,
    text: String,
    items: Vec<(SizeItem, Range<usize>)>,
}

impl SizeList {
    /// Reads a list; `name` says where the text comes from (`--sizes`).
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        Self::parse_within(name, text, std::slice::from_ref(&(0..text.len())))
    }

    /// Reads the lists that stand at `spans` of a larger text, a configuration file, as one.
    pub fn parse_within(name: &str, text: &str, spans: &[Range<usize>]) -> Result<Self> {
        let items = parse::items(name, text, spans)?;
        Ok(Self { name: name.into(), text: text.into(), items })
    }

    /// The items as written.
    pub fn items(&self) -> impl Iterator<Item = &SizeItem> {
        self.items.iter().map(|(item, _)| item)
    }

    /// The sizes for elements of this type: in the order written, each once.
    pub fn sizes(&self, dtype: Dtype) -> Result<Vec<Size>> {
        let mut sizes = Vec::new();
        for (item, span) in &self.items {
            let fault =
                |message: String, label: String| Error::usage(message).at(&self.name, &self.text, span.clone(), label);
            match item {
                SizeItem::Tokens(hidden, runs) => {
                    for tokens in runs.iter().flat_map(|run| run.values()) {
                        let size =
                            Size::tokens(hidden.elements(), tokens).filter(|size| size.bytes(dtype).0 <= MAX_BYTES);
                        sizes.push(size.ok_or_else(|| too_large(fault, dtype))?);
                    }
                }
                SizeItem::Bytes(run) => {
                    for n in run.values() {
                        if n % dtype.bytes() != 0 {
                            return Err(no_multiple(fault, n, dtype));
                        }
                        sizes.push(Size::elements(n / dtype.bytes()));
                    }
                }
            }
        }
        let mut seen = HashSet::new();
        sizes.retain(|size| seen.insert(*size));
        Ok(sizes)
    }
}

fn too_large(fault: impl Fn(String, String) -> Error, dtype: Dtype) -> Error {
    let label = format!("at {} bytes an element of {dtype}", dtype.bytes());
    fault("a size is above 1 TiB, more than a GPU holds".into(), label).help("e.g. 7168x1..4 or 8K..1M*2")
}

fn no_multiple(fault: impl Fn(String, String) -> Error, n: u64, dtype: Dtype) -> Error {
    let each = dtype.bytes();
    let below = n - n % each;
    let near = if below == 0 { bytes(each) } else { format!("{} or {}", bytes(below), bytes(below + each)) };
    fault(format!("{n} bytes are not a whole number of {dtype} elements"), format!("{each} bytes an element"))
        .help(format!("near it: {near}; or another --dtype"))
}

/// Bytes in the largest unit that divides them, as a size list reads them.
fn bytes(n: u64) -> String {
    let (shift, unit) = match n.trailing_zeros() {
        30.. if n != 0 => (30, 'G'),
        20..30 => (20, 'M'),
        10..20 => (10, 'K'),
        _ => (0, 'B'),
    };
    format!("{}{unit}", n >> shift)
}

impl PartialEq for SizeList {
    fn eq(&self, other: &Self) -> bool {
        self.items().eq(other.items())
    }
}

impl FromStr for SizeList {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse("sizes", text)
    }
}

impl fmt::Display for SizeList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.items().enumerate() {
            write!(f, "{}{item}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl Serialize for SizeList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests;
