//! Proof from recorded logs of NCCL, with what the profiler plugin would have told beside them.

mod chain;
mod garbled;
mod likeness;
mod passed_over;
mod recorded;
mod rules;
mod why;

use std::path::PathBuf;

use nccl_profiler_ncclsweep::recorder::Api;

use super::*;
use crate::collective::{Case, Dtype, Function, Mode, Op, Placement, Size};
use crate::nccl::log::{self, Log};
use crate::nccl::words::{Algorithm, Protocol};
use crate::plan::env_set::Vars;
use crate::plan::environment::Origin;

/// The set `pcie-ll`.
const PCIE_LL: &str =
    "NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216 NCCL_NTHREADS=512";
/// What the logs through host memory were recorded under.
const HOST_MEMORY: &str = "NCCL_P2P_DISABLE=1 NCCL_NVLS_ENABLE=0";
const SIZES: [u64; 5] = [7168, 14_336, 21_504, 28_672, 114_688];

fn vars(text: &str) -> Vars {
    text.split_whitespace().map(|pair| pair.split_once('=').unwrap()).collect()
}

fn case(elements: u64, mode: Mode) -> Case {
    let (dtype, op, placement) = (Dtype::Bfloat16, Op::Sum, Placement::OutOfPlace);
    Case { dtype, op, placement, mode, size: Size::elements(elements), function: Function::AllReduce }
}

/// The smallest recorded size, as decode runs.
fn graph() -> Case {
    case(SIZES[0], Mode::Graph)
}

fn text_of(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/nccl-log").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn log_of(name: &str) -> Log {
    log::read(text_of(name).as_bytes())
}

fn asked_for(base: &str, set: &str) -> Vec<Asked> {
    asked(&[(Origin::Base, &vars(base)), (Origin::Set, &vars(set))], &Vars::default())
}

/// A visit with two ranks, threads of one process, that got the variables asked for. Nothing is read or used yet.
fn visit(base: &str, set: &str) -> Evidence {
    let asked = asked_for(base, set);
    let variables: Vars = asked.iter().map(|asked| (asked.name.clone(), asked.value.clone())).collect();
    Evidence {
        devices: vec![0, 1],
        communicators: 1,
        seen: vec![Seen { ranks: vec![0, 1], variables }],
        asked,
        ..Evidence::default()
    }
}

fn used(algorithm: Algorithm, protocol: Protocol, channels: u32, warps: u8) -> Used {
    let (channels, warps) = (Some(Channels::Exactly(channels)), Some(warps));
    Used { source: Source::Plugin(Api::V4), algorithm, protocol, channels, warps, captured: Some(true) }
}

/// What a small size mostly takes.
fn ring_ll() -> Used {
    used(Algorithm::Ring, Protocol::Ll, 1, 16)
}

impl Evidence {
    /// With NCCL's log.
    fn reading(mut self, log: &Log) -> Self {
        self.version = log.version();
        self.read = Some(Read::of(log));
        self
    }

    /// With `used` in case 0 on every rank.
    fn using(self, used: &Used) -> Self {
        self.using_each(|_| Some(used.clone()))
    }

    /// With what `used` gives for each rank in case 0.
    fn using_each(mut self, used: impl Fn(u32) -> Option<Used>) -> Self {
        let on = |rank| Some(Observation { communicator: 0, case: 0, rank, used: used(rank)? });
        self.used = (0..self.ranks()).filter_map(on).collect();
        self
    }

    /// With the library of this version.
    fn version(mut self, version: &str) -> Self {
        self.version = Some(version.parse().unwrap());
        self
    }

    /// The proof of `name` in case 0, a graph of the smallest size.
    fn proof(&self, name: &str) -> VariableProof {
        let all = judge(self, 0, &graph());
        all.into_iter().find(|proof| proof.name == name).unwrap_or_else(|| panic!("{name} was not asked for"))
    }

    fn state(&self, name: &str) -> State {
        self.proof(name).state
    }
}
