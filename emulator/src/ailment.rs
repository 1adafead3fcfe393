//! Ailments on order, as NVML and sysfs tell them: `KIND@GPU|all[,when=NCCL_X=V]`, separated by `;`. They change no time.

use std::sync::atomic::{AtomicU32, Ordering};

/// What is wrong with a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The hardware slows it down, as it is too hot.
    Thermal,
    /// Its clocks are held down by the power cap.
    Power,
    /// Its SM clock is this share of what it should be.
    Clock(f64),
    /// Its link has repeated so many packets more whenever the counter is read.
    Replays(u32),
    /// Its link runs on so many lanes.
    Narrow(u32),
    /// Ports send peer-to-peer traffic up to the root.
    Acs,
}

/// One ailment of the list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ailment {
    kind: Kind,
    /// None: every GPU.
    gpu: Option<usize>,
    when: Option<(String, String)>,
}

/// `NVML_CLOCKS_THROTTLE_REASON_SW_POWER_CAP` and `…_HW_THERMAL_SLOWDOWN`.
const POWER_CAP: u64 = 0x4;
const HW_THERMAL: u64 = 0x40;

/// How often the replay counter was read, over all GPUs.
static READ: AtomicU32 = AtomicU32::new(0);

/// Reads the list.
pub(crate) fn parse(text: &str) -> Result<Vec<Ailment>, String> {
    text.split(';').filter(|part| !part.is_empty()).map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<Ailment, String> {
    let (head, when) = text.split_once(',').map_or((text, None), |(head, when)| (head, Some(when)));
    let (kind, gpu) = head.split_once('@').ok_or(format!("{head:?} is not KIND@GPU"))?;
    let kind = match kind.split_once(':') {
        None if kind == "thermal" => Kind::Thermal,
        None if kind == "power" => Kind::Power,
        None if kind == "acs" => Kind::Acs,
        Some(("clock", share)) => Kind::Clock(share.parse().map_err(|_| format!("{share:?} is no share"))?),
        Some(("replays", count)) => Kind::Replays(count.parse().map_err(|_| format!("{count:?} is no number"))?),
        Some(("narrow", lanes)) => Kind::Narrow(lanes.parse().map_err(|_| format!("{lanes:?} is no number"))?),
        _ => return Err(format!("{kind:?} is none of thermal, power, acs, clock:SHARE, replays:N, narrow:LANES")),
    };
    let gpu = match gpu {
        "all" => None,
        gpu => Some(gpu.parse().map_err(|_| format!("{gpu:?} is neither a GPU nor all"))?),
    };
    let condition = |when: &str| {
        let (name, value) = when.strip_prefix("when=")?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let when = when.map(|when| condition(when).ok_or(format!("{when:?} is not when=NAME=VALUE"))).transpose()?;
    Ok(Ailment { kind, gpu, when })
}

impl Ailment {
    fn strikes(&self, gpu: usize) -> bool {
        self.gpu.is_none_or(|struck| struck == gpu)
            && self.when.as_ref().is_none_or(|(name, value)| std::env::var(name).as_ref() == Ok(value))
    }
}

fn of(all: &[Ailment], gpu: usize) -> impl Iterator<Item = Kind> {
    all.iter().filter(move |ailment| ailment.strikes(gpu)).map(|ailment| ailment.kind)
}

/// The bits of the throttle reasons.
pub(crate) fn throttle(all: &[Ailment], gpu: usize) -> u64 {
    of(all, gpu).fold(0, |bits, kind| match kind {
        Kind::Thermal => bits | HW_THERMAL,
        Kind::Power => bits | POWER_CAP,
        Kind::Clock(_) | Kind::Replays(_) | Kind::Narrow(_) | Kind::Acs => bits,
    })
}

/// The SM clock of a GPU that should run at `mhz`.
pub(crate) fn clock(all: &[Ailment], gpu: usize, mhz: u32) -> u32 {
    of(all, gpu)
        .fold(mhz, |mhz, kind| if let Kind::Clock(share) = kind { (f64::from(mhz) * share) as u32 } else { mhz })
}

/// The lanes that a GPU's link runs on.
pub(crate) fn width(all: &[Ailment], gpu: usize) -> u32 {
    of(all, gpu).fold(16, |width, kind| if let Kind::Narrow(lanes) = kind { lanes } else { width })
}

/// Whether access control redirects peer-to-peer traffic.
pub(crate) fn acs(all: &[Ailment]) -> bool {
    all.iter().any(|ailment| ailment.kind == Kind::Acs)
}

/// The replay counter at this reading.
pub(crate) fn replays(all: &[Ailment], gpu: usize) -> u32 {
    let reading = READ.fetch_add(1, Ordering::Relaxed);
    of(all, gpu).fold(0, |sum, kind| if let Kind::Replays(count) = kind { sum + count * reading } else { sum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ailment_strikes_its_gpu_only() {
        let all = parse("thermal@3;power@3;clock:0.5@1;replays:4@all").unwrap();
        assert_eq!((throttle(&all, 3), throttle(&all, 2)), (HW_THERMAL | POWER_CAP, 0));
        assert_eq!((clock(&all, 1, 2000), clock(&all, 0, 2000)), (1000, 2000));
        let (first, second) = (replays(&all, 0), replays(&all, 0));
        assert!(second > first, "{first} {second}");
    }

    #[test]
    fn an_ailment_waits_for_its_condition() {
        let never = parse("thermal@all,when=NCCL_NO_SUCH_VARIABLE=1").unwrap();
        assert_eq!(throttle(&never, 0), 0);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["thermal", "flu@1", "thermal@x", "clock:x@1", "replays@1", "thermal@1,if=A=1", "thermal@1,when=A"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
