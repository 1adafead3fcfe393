//! Access control of a PCIe port, read from its configuration space.
//!
//! Offsets are those of the PCI Express base specification (Linux: `include/uapi/linux/pci_regs.h`).

/// Where extended capabilities begin. Without privileges Linux shows the first 64 bytes only.
const EXTENDED: usize = 0x100;
const SIZE: usize = 0x1000;
const ACCESS_CONTROL: u32 = 0x000d;
/// Control register of the access control capability: redirect peer-to-peer requests, and their completions.
const CONTROL: usize = 6;
const REQUEST_REDIRECT: u16 = 1 << 2;
const COMPLETION_REDIRECT: u16 = 1 << 3;

/// Whether the port sends peer-to-peer traffic up to the root; `None` when `config` does not reach that far.
pub(super) fn acs_redirect(config: &[u8]) -> Option<bool> {
    if config.len() < SIZE {
        return None;
    }
    let mut at = EXTENDED;
    // Each capability takes at least eight bytes, so a longer chain runs in a circle.
    for _ in 0..SIZE / 8 {
        let header = u32::from_le_bytes(config.get(at..at + 4)?.try_into().ok()?);
        if header == 0 || header == u32::MAX {
            return (header == 0).then_some(false);
        }
        if header & 0xffff == ACCESS_CONTROL {
            let control = config.get(at + CONTROL..at + CONTROL + 2)?;
            let control = u16::from_le_bytes(control.try_into().ok()?);
            return Some(control & (REQUEST_REDIRECT | COMPLETION_REDIRECT) != 0);
        }
        at = (header >> 20) as usize & !3;
        if at < EXTENDED {
            return Some(false);
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A configuration space whose second extended capability is access control with this control register.
    pub(in crate::topology) fn config(control: u16) -> Vec<u8> {
        let mut config = vec![0; SIZE];
        config[0x100..0x104].copy_from_slice(&(0x0001_u32 | 1 << 16 | 0x150 << 20).to_le_bytes());
        config[0x150..0x154].copy_from_slice(&(ACCESS_CONTROL | 1 << 16).to_le_bytes());
        config[0x156..0x158].copy_from_slice(&control.to_le_bytes());
        config
    }

    #[test]
    fn redirection_is_read_from_the_control_register() {
        assert_eq!(acs_redirect(&config(0x1d)), Some(true));
        assert_eq!(acs_redirect(&config(0x01)), Some(false));
    }

    #[test]
    fn a_port_without_the_capability_redirects_nothing() {
        assert_eq!(acs_redirect(&vec![0; SIZE]), Some(false));
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        assert_eq!(acs_redirect(&config(0x1d)[..64]), None);
        assert_eq!(acs_redirect(&vec![0xff; SIZE]), None, "a device that fell off the bus reads as ones");
        let mut circle = vec![0; SIZE];
        circle[0x100..0x104].copy_from_slice(&(0x0001_u32 | 1 << 16 | 0x100 << 20).to_le_bytes());
        assert_eq!(acs_redirect(&circle), None);
    }
}
