//! Which GPUs: the first few, or these in this order, by CUDA's number, PCI address or UUID.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Kind, Result};
use crate::gpu::cuda::Device;
use crate::topology::BusId;

/// Which GPUs were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Devices {
    /// All that CUDA shows.
    All,
    /// The first so many.
    First(u32),
    /// These, in this order.
    These(Vec<Name>),
}

/// A GPU as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// CUDA's number.
    Ordinal(u32),
    /// Its address.
    Bus(BusId),
    /// Its UUID, or the beginning of it.
    Uuid(String),
}

impl Name {
    fn names(&self, gpu: &Device) -> bool {
        match self {
            Self::Ordinal(ordinal) => gpu.ordinal == *ordinal,
            Self::Bus(bus_id) => gpu.bus_id() == Some(*bus_id),
            Self::Uuid(beginning) => gpu.uuid.to_lowercase().starts_with(beginning),
        }
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let lower = text.to_lowercase();
        if let Ok(ordinal) = text.parse() {
            return Ok(Self::Ordinal(ordinal));
        }
        if lower.starts_with("gpu-") && lower.len() > 4 {
            return Ok(Self::Uuid(lower));
        }
        text.parse().map(Self::Bus).map_err(|_| {
            Error::usage(format!("`{text}` names no GPU"))
                .help("CUDA's number, a PCI address (0000:3b:00.0) or a UUID (GPU-…), see `ncclsweep topo`")
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ordinal(ordinal) => f.pad(&ordinal.to_string()),
            Self::Bus(bus_id) => f.pad(&bus_id.to_string()),
            Self::Uuid(uuid) => f.pad(uuid),
        }
    }
}

impl Devices {
    /// From the flags: `--devices`, else `--gpus`.
    pub(super) fn of(devices: &[Name], first: Option<u32>) -> Result<Self> {
        if let Some(twice) = devices.iter().enumerate().find(|(at, device)| devices[..*at].contains(device)) {
            return Err(named_twice(&twice.1.to_string()));
        }
        Ok(match first {
            _ if !devices.is_empty() => Self::These(devices.to_vec()),
            Some(n) => Self::First(n),
            None => Self::All,
        })
    }

    /// The GPUs of one of several agents on a host: `--gpus` counts those of each, what is listed or there is shared out. An
    /// agent that is shown no more than it needs has been given GPUs of its own.
    pub(super) fn share(&self, gpus: &[Device], (which, of): (u32, u32)) -> Result<Vec<u32>> {
        let part = |all: &[u32], each: usize| match each {
            0 => Err(Error::new(Kind::Environment, format!("{} GPUs do not go round {of} agents", all.len()))
                .help("--gpus N says how many each has; start fewer agents on a host")),
            each => Ok(all[which as usize * each..][..each].to_vec()),
        };
        let shown: Vec<u32> = (0..gpus.len() as u32).collect();
        match self {
            Self::First(each) if gpus.len() as u32 >= each * of => part(&shown, *each as usize),
            Self::First(_) => self.on(gpus),
            Self::All | Self::These(_) => {
                let all = self.on(gpus)?;
                part(&all, all.len() / of as usize)
            }
        }
    }

    /// CUDA's numbers of them, when these are the GPUs it shows.
    pub(super) fn on(&self, gpus: &[Device]) -> Result<Vec<u32>> {
        let have = gpus.len() as u32;
        let few = |wanted: String| {
            Error::new(Kind::Environment, format!("{wanted}, but the driver shows {have}")).help(format!(
                "see `nvidia-smi -L` and CUDA_VISIBLE_DEVICES; `--gpus {have} --ranks N` puts several ranks on one GPU \
                 with NCCL 2.30 or later; `--emulate` rehearses without GPUs"
            ))
        };
        match self {
            _ if have == 0 => Err(Error::new(Kind::Environment, "the driver shows no GPU")
                .help("see `nvidia-smi -L` and CUDA_VISIBLE_DEVICES; `--emulate` rehearses without GPUs")),
            Self::All => Ok((0..have).collect()),
            Self::First(n) if *n > have => Err(few(format!("{n} GPUs were asked for"))),
            Self::First(n) => Ok((0..*n).collect()),
            Self::These(these) => {
                let mut ordinals = Vec::new();
                for name in these {
                    let mut named = gpus.iter().filter(|gpu| name.names(gpu)).map(|gpu| gpu.ordinal);
                    match (named.next(), named.next()) {
                        (Some(ordinal), None) if ordinals.contains(&ordinal) => {
                            return Err(named_twice(&name.to_string()));
                        }
                        (Some(ordinal), None) => ordinals.push(ordinal),
                        (Some(_), Some(_)) => {
                            return Err(Error::usage(format!("several GPUs have an id that begins with {name}")));
                        }
                        (None, _) => return Err(few(format!("GPU {name} was asked for (they count from 0)"))),
                    }
                }
                Ok(ordinals)
            }
        }
    }

    /// CUDA's numbers as far as they are known without looking at the box; of all GPUs none, for they are not counted.
    pub(super) fn unseen(&self) -> Vec<u32> {
        match self {
            Self::All => Vec::new(),
            Self::First(n) => (0..*n).collect(),
            // A number stands in for a GPU whose number is not known yet.
            Self::These(these) => {
                (0..).zip(these).map(|(at, name)| if let Name::Ordinal(n) = name { *n } else { at }).collect()
            }
        }
    }
}

fn named_twice(name: &str) -> Error {
    Error::usage(format!("--devices names GPU {name} twice")).help("several ranks on one GPU: --devices 0,1 --ranks 8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn on(names: &[&str]) -> Result<Vec<u32>> {
        let names: Vec<Name> = names.iter().map(|name| name.parse().unwrap()).collect();
        Devices::of(&names, None)?.on(&fixture::two_sets().header.provenance.gpus)
    }

    #[test]
    fn gpus_are_named_by_number_address_or_uuid_and_keep_their_order() {
        assert_eq!(on(&["2", "0000:11:00.0", "GPU-4F3A2B1C-0d9e-8f70-a1b2-c3d4e5f60705"]).unwrap(), [2, 0, 5]);
        assert_eq!(on(&["41:00.0"]).unwrap(), [3]);
    }

    #[test]
    fn a_gpu_that_is_missing_ambiguous_or_named_twice_is_refused_by_name() {
        let message = |names: &[&str]| on(names).unwrap_err().message().to_owned();
        assert!(message(&["8"]).contains("GPU 8 was asked for"));
        assert!(message(&["0000:99:00.0"]).contains("0000:99:00.0"));
        assert!(message(&["GPU-4f3a"]).contains("several GPUs"));
        assert!(message(&["0", "0000:11:00.0"]).contains("twice"));
        assert!("x".parse::<Name>().unwrap_err().next_step().is_some());
    }
}
