//! A server's log: which variables NCCL read in which rank, transports, what it chose for each size, warnings and what they
//! mean.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};

use serde::Serialize;

use super::tap::Tap;
use super::{Checkup, Details, SCHEMA};
use crate::nccl::log::{self, Communicator, Log};
use crate::nccl::version::NcclVersion;

mod checks;
mod signs;
#[cfg(test)]
mod tests;

/// What is known of a line by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// What is seen.
    pub sign: String,
    /// What it means.
    pub meaning: String,
    /// What to do.
    pub next: String,
    /// It tells of something hidden, not of something broken.
    pub mild: bool,
}

/// Tells the meaning of a line, where that is known.
pub type Known<'a> = &'a dyn Fn(&str) -> Option<Meaning>;

/// What a line means, where that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sign {
    /// What is seen.
    pub sign: String,
    /// What it means.
    pub meaning: String,
    /// What to do.
    pub next: String,
    /// The first line that shows it, from 1.
    pub line: u64,
    /// That line, cut when long.
    pub text: String,
    /// It is no fault, even where NCCL warns of it.
    #[serde(skip)]
    pub mild: bool,
}

/// What a log tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Lines read.
    pub lines: u64,
    /// Lines of NCCL among them.
    pub nccl_lines: u64,
    /// Lines that a launcher left out.
    pub left_out: u64,
    /// Versions named.
    pub versions: BTreeSet<NcclVersion>,
    /// Processes.
    pub processes: Vec<ProcessFacts>,
    /// Communicators.
    pub communicators: Vec<CommunicatorFacts>,
    /// Warnings of NCCL.
    pub warnings: Vec<WarningFacts>,
    /// Lines whose meaning is known.
    pub signs: Vec<Sign>,
}

/// A process of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessFacts {
    /// Its host.
    pub host: String,
    /// Its id there.
    pub pid: u32,
    /// Its library.
    pub version: Option<NcclVersion>,
    /// Its ranks, over all communicators.
    pub ranks: BTreeSet<u32>,
    /// Variables NCCL said it read there, each value once.
    pub variables: Vec<VariableFacts>,
}

/// A variable as NCCL said it read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VariableFacts {
    /// Its name.
    pub name: String,
    /// The value as NCCL understood it.
    pub value: String,
    /// NCCL said that it cannot use it.
    pub refused: bool,
}

/// A communicator of the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommunicatorFacts {
    /// Its id.
    pub id: Option<String>,
    /// How many ranks it has.
    pub size: Option<u32>,
    /// Ranks that the log has lines of.
    pub ranks: BTreeSet<u32>,
    /// Ranks whose initialisation began and was not seen to end.
    pub incomplete: BTreeSet<u32>,
    /// Ordered pairs of ranks by transport.
    pub transports: BTreeMap<String, usize>,
    /// What NCCL chose, by size.
    pub choices: Vec<ChoiceFacts>,
}

/// What NCCL chose for calls of one size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ChoiceFacts {
    /// The collective, where told.
    pub function: Option<String>,
    /// Bytes of the call.
    pub bytes: u64,
    /// The algorithm.
    pub algorithm: String,
    /// The protocol.
    pub protocol: String,
    /// First and last channel.
    pub channels: Option<(u32, u32)>,
    /// How often.
    pub times: u64,
}

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WarningFacts {
    /// What NCCL said.
    pub message: String,
    /// It is a remark (`NCCL ATTN`), no warning.
    pub remark: bool,
    /// Line number of the first, from 1.
    pub line: u64,
    /// How often.
    pub times: u64,
}

/// Reads `input`, called `name`; `known` tells what its lines mean.
pub fn look(name: &str, input: impl Read, known: Known) -> Checkup {
    let mut signs = Vec::new();
    let tap = Tap::new(input, |number, line: &str| signs::note(&mut signs, number, line, known));
    let log = log::read(BufReader::with_capacity(1 << 16, tap));
    let facts = facts(&log, signs);
    let checks = checks::checks(&log, &facts);
    let limits = vec![
        "NCCL logs a variable when it reads it, which some paths never do; a log below NCCL_DEBUG=INFO has warnings only".to_owned(),
        "choices are told by rank 0, with the subsystem TUNING: NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,TUNING,P2P,SHM,NET".to_owned(),
    ];
    Checkup { schema: SCHEMA, subject: name.to_owned(), checks, limits, details: Details::Log(facts) }
}

fn facts(log: &Log, signs: Vec<Sign>) -> Facts {
    let process = |(at, process): (usize, &log::Process)| {
        let mut variables: Vec<VariableFacts> = Vec::new();
        for seen in &process.env {
            let variable = VariableFacts { name: seen.name.clone(), value: seen.value.clone(), refused: seen.refused };
            if !variables.contains(&variable) {
                variables.push(variable);
            }
        }
        let ranks = log.ranks().filter(|rank| rank.process == at).filter_map(|rank| rank.rank).collect();
        ProcessFacts { host: process.host.clone(), pid: process.pid, version: process.version, ranks, variables }
    };
    let mut warnings: Vec<WarningFacts> = Vec::new();
    // Every rank says the same.
    for warning in &log.warnings {
        match warnings.iter_mut().find(|known| known.message == warning.message) {
            Some(known) => known.times += warning.times,
            None => warnings.push(WarningFacts {
                message: warning.message.clone(),
                remark: warning.level == log::Level::Attention,
                line: warning.line,
                times: warning.times,
            }),
        }
    }
    Facts {
        lines: log.lines,
        nccl_lines: log.nccl_lines,
        left_out: log.left_out,
        versions: log.versions.clone(),
        processes: log.processes.iter().enumerate().map(process).collect(),
        communicators: log.communicators.iter().map(communicator).collect(),
        warnings,
        signs,
    }
}

fn communicator(of: &Communicator) -> CommunicatorFacts {
    let mut transports: BTreeMap<String, usize> = BTreeMap::new();
    for (from, to) in of.pairs() {
        for transport in of.transports(from, to) {
            *transports.entry(transport.to_string()).or_default() += 1;
        }
    }
    let mut choices: Vec<ChoiceFacts> = Vec::new();
    for choice in of.choices() {
        choices.push(ChoiceFacts {
            function: choice.function.as_ref().map(ToString::to_string),
            bytes: choice.bytes.0,
            algorithm: choice.algorithm.to_string(),
            protocol: choice.protocol.to_string(),
            channels: choice.channels,
            times: choice.times,
        });
    }
    choices.sort();
    let numbers = |wanted: fn(&log::Rank) -> bool| {
        of.ranks.iter().filter(|rank| wanted(rank)).filter_map(|rank| rank.rank).collect()
    };
    CommunicatorFacts {
        id: of.id.clone(),
        size: of.size,
        ranks: numbers(|_| true),
        incomplete: numbers(|rank| !rank.complete && !rank.gone),
        transports,
        choices,
    }
}
