//! [`BusId`]: the address of a PCI function.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::as_text;

/// Address of a PCI function. Written `0000:3b:00.0`; `nvidia-smi`'s long domain and a missing domain are read as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(into = "String", try_from = "String")]
pub struct BusId {
    /// PCI domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device on the bus, below 32.
    pub device: u8,
    /// Function of the device, below 8.
    pub function: u8,
}

impl fmt::Display for BusId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function))
    }
}

impl FromStr for BusId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
            let hex = |digits: &str, limit: u32| {
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                u32::from_str_radix(digits, 16).ok().filter(|&value| plain && value <= limit)
            };
            Some(Self {
                domain: hex(domain, u32::MAX)?,
                bus: hex(bus, 0xff)? as u8,
                device: hex(device, 0x1f)? as u8,
                function: hex(function, 7)? as u8,
            })
        };
        parse().ok_or_else(|| format!("`{text}` is no PCI address"))
    }
}

as_text!(BusId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_the_forms_of_sysfs_and_nvidia_smi() {
        let expected = BusId { domain: 0, bus: 0x3b, device: 0, function: 0 };
        for text in ["0000:3b:00.0", "00000000:3B:00.0", "3b:00.0"] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert_eq!(expected.to_string(), "0000:3b:00.0");
        for text in ["fffffff:ff:ff.0", "0000:3b:00", "0000:+3b:00.0", "", "0000:3b:00.8"] {
            assert!(text.parse::<BusId>().is_err(), "{text}");
        }
    }
}
