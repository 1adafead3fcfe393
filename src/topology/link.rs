//! Links of the PCIe tree: speed and width ([`Lanes`]) of a device's end ([`Link`]) and of the port above it ([`Slot`]).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Speed and width of a PCIe link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Lanes {
    /// PCIe generation, by the transfer rate.
    pub generation: Option<u8>,
    /// Lanes.
    pub width: Option<u8>,
}

/// A device's end of its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Link {
    /// What it runs at. An idle device lowers its speed, never its width.
    pub now: Lanes,
    /// What the device can.
    pub max: Lanes,
}

/// The port above a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Slot {
    /// What the port can.
    pub max: Lanes,
    /// Whether access control (ACS) of the port sends peer-to-peer traffic up to the root instead of across the switch.
    pub acs_redirect: Option<bool>,
}

impl Link {
    /// The widest link both ends allow; `None` while one end is unknown.
    #[must_use]
    pub fn width_possible(&self, slot: &Slot) -> Option<u8> {
        Some(self.max.width?.min(slot.max.width?))
    }

    /// The fastest generation both ends allow; `None` while one end is unknown.
    #[must_use]
    pub fn generation_possible(&self, slot: &Slot) -> Option<u8> {
        Some(self.max.generation?.min(slot.max.generation?))
    }

    /// Whether the link runs on fewer lanes than both ends allow: power saving never does that, dirt and bad risers do.
    #[must_use]
    pub fn is_narrow(&self, slot: &Slot) -> Option<bool> {
        Some(self.now.width? < self.width_possible(slot)?)
    }
}

impl Lanes {
    /// These, and what they do not tell from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { generation: self.generation.or(other.generation), width: self.width.or(other.width) }
    }

    /// From sysfs's or NCCL's texts: a speed such as `16.0 GT/s PCIe`, a width such as `16`. Both may be unknown there.
    pub(super) fn read(speed: Option<&str>, width: Option<&str>) -> Self {
        let rate = speed.and_then(|speed| speed.split_whitespace().next()?.parse::<f64>().ok());
        let rates = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0];
        let generation = rate.and_then(|rate| rates.iter().position(|&known| known == rate)).map(|at| at as u8 + 1);
        // 0 and 255 are what hypervisors and failed reads leave; PCIe has no link wider than 32 lanes.
        let width = width.and_then(|width| width.trim().parse().ok()).filter(|width| (1..=32).contains(width));
        Self { generation, width }
    }
}

impl fmt::Display for Lanes {
    /// `Gen4 x16`, with `?` for what is unknown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |value: Option<u8>| value.map_or_else(|| "?".into(), |value| value.to_string());
        f.pad(&format!("Gen{} x{}", known(self.generation), known(self.width)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_nobody_can_have_are_unknown() {
        let lanes = |speed, width| Lanes::read(Some(speed), Some(width)).to_string();
        assert_eq!(lanes("16.0 GT/s PCIe", "16"), "Gen4 x16");
        assert_eq!(lanes("32 GT/s", "8\n"), "Gen5 x8");
        assert_eq!(lanes("Unknown speed", "255"), "Gen? x?");
        assert_eq!(lanes("", "0"), "Gen? x?");
        assert_eq!(Lanes::read(None, None), Lanes::default());
    }

    #[test]
    fn a_link_is_narrow_only_when_both_ends_allow_more() {
        let lanes = |width| Lanes { generation: Some(4), width: Some(width) };
        let link = Link { now: lanes(8), max: lanes(16) };
        let slot = |max| Slot { max, acs_redirect: None };
        assert_eq!(link.is_narrow(&slot(lanes(16))), Some(true));
        assert_eq!(link.is_narrow(&slot(lanes(8))), Some(false));
        assert_eq!(link.is_narrow(&slot(Lanes::default())), None);
    }
}
