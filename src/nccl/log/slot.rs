//! [`Slot`]: a rank while its lines come in.

use std::collections::{BTreeMap, BTreeSet};

use super::gather::Told;
use super::{Allowed, Choice, Rank};
use crate::nccl::words::{Algorithm, Function, Protocol};
use crate::units::{Bytes, Micros};

/// What makes two choices one.
type ChoiceKey = (Option<Function>, Bytes, Algorithm, Protocol, Option<(u32, u32)>);

/// A rank while its lines come in.
#[derive(Debug, Default)]
pub struct Slot {
    pub rank: Rank,
    pub size: Option<u32>,
    pub id: Option<String>,
    pub rings: BTreeSet<u32>,
    pub choices: BTreeMap<ChoiceKey, (Option<Micros>, u64)>,
    pub columns: Vec<(Algorithm, Protocol)>,
}

impl Slot {
    /// What is known at the end of the log: id and size of the communicator, and the rank.
    pub fn finish(self) -> Told {
        let mut rank = self.rank;
        rank.rings = u32::try_from(self.rings.len()).unwrap_or(u32::MAX);
        rank.choices = (self.choices.into_iter())
            .map(|((function, bytes, algorithm, protocol, channels), (time, times))| Choice {
                function,
                bytes,
                algorithm,
                protocol,
                channels,
                time,
                times,
            })
            .collect();
        (self.id, self.size, rank)
    }
}

/// A row of the matrix: 1 is on, 0 off, 2 (LL128 only) on where NCCL holds it safe.
pub fn allowed(function: Function, protocols: Vec<&str>, names: &[String], algorithms: Vec<&str>) -> Allowed {
    let on = |cell: &str| cell != "0";
    let of_protocols = Protocol::ALL.iter().zip(&protocols);
    let ll128_forced = of_protocols.clone().any(|(protocol, cell)| *protocol == Protocol::Ll128 && *cell == "1");
    Allowed {
        function,
        algorithms: names
            .iter()
            .zip(algorithms)
            .filter(|(_, cell)| on(cell))
            .map(|(name, _)| name.clone().into())
            .collect(),
        protocols: of_protocols.filter(|(_, cell)| on(cell)).map(|(protocol, _)| protocol.clone()).collect(),
        ll128_forced,
    }
}
