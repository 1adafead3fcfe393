//! Path levels: how far apart two devices are, and how NCCL reads a level from a variable.

use std::fmt;

use super::number::strtoll;
use super::version::NcclVersion;

/// How far apart two devices are, nearest first (`PATH_*` of `src/graph/topo.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathLevel {
    /// One device: as a limit, nothing.
    Loc,
    /// NVLink.
    Nvl,
    /// NVLink through a third GPU.
    Nvb,
    /// A chip-to-chip link; a level of its own since 2.26.
    C2c,
    /// One PCIe switch at most.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// A chip-to-chip link and PCIe; since 2.27.
    P2c,
    /// Through another GPU to a network card; since 2.12.
    Pxn,
    /// Through a PCIe host bridge, within a NUMA node.
    Phb,
    /// Between NUMA nodes.
    Sys,
}

impl PathLevel {
    /// All, nearest first.
    pub const ALL: [Self; 10] =
        [Self::Loc, Self::Nvl, Self::Nvb, Self::C2c, Self::Pix, Self::Pxb, Self::P2c, Self::Pxn, Self::Phb, Self::Sys];

    /// Its name in variables and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Nvl => "NVL",
            Self::Nvb => "NVB",
            Self::C2c => "C2C",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::P2c => "P2C",
            Self::Pxn => "PXN",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        }
    }

    /// Whether `version` has it (the latest, when it is not known).
    #[must_use]
    pub fn known_in(self, version: Option<NcclVersion>) -> bool {
        let since = match self {
            Self::Pxn => 12,
            Self::C2c => 26,
            Self::P2c => 27,
            _ => 0,
        };
        version.is_none_or(|version| version.at_least(2, since))
    }

    /// The level that NCCL reads from `value`: exactly a name, or a number of old scripts. `None`: it ignores the value.
    #[must_use]
    pub fn read(value: &str, version: Option<NcclVersion>) -> Option<Self> {
        let named = Self::ALL.into_iter().find(|level| level.name() == value && level.known_in(version));
        let number = value.starts_with(|c: char| c.is_ascii_digit()).then(|| strtoll(value).value);
        named.or_else(|| {
            number.map(|number| match number {
                0 => Self::Loc,
                1 => Self::Pix,
                2 => Self::Pxb,
                3 => Self::Phb,
                _ => Self::Sys,
            })
        })
    }
}

impl fmt::Display for PathLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_by_exact_name_or_old_number() {
        let read = |value| PathLevel::read(value, Some(NcclVersion::new(2, 21, 5)));
        assert_eq!((read("SYS"), read("sys"), read(" SYS"), read("NODE")), (Some(PathLevel::Sys), None, None, None));
        assert_eq!(
            ["0", "1", "2", "3", "4", "99"].map(|value| read(value).unwrap().name()),
            ["LOC", "PIX", "PXB", "PHB", "SYS", "SYS"]
        );
        assert_eq!((read("C2C"), PathLevel::read("C2C", None)), (None, Some(PathLevel::C2c)));
        assert!(PathLevel::ALL.is_sorted() && PathLevel::Phb < PathLevel::Sys);
    }
}
