//! The table of NCCL's example tuner plugin (`plugins/tuner/example` of its source): per size what the fastest set used.
//!
//! A line of it is `collective,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks`. The plugin chooses per call, so
//! it can hold another winner for each size, where variables hold one for all.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, evidence, forms, refusal};
use crate::collective::{Mode, Placement};
use crate::error::{Error, Result};
use crate::nccl::words::{Algorithm, Protocol};
use crate::plan::env_set::Vars;
use crate::plan::schedule::Arm;
use crate::proof::{Channels, Used};
use crate::record::run::{Applied, Cell, Run, Verdict};
use crate::units::{range, significant};

/// Variables that the table stands for; others of a winner must be set beside it.
const HELD: [&str; 6] =
    ["NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS"];

/// What won at one size.
struct Winner<'a> {
    cell: &'a Cell,
    /// Its place among the measured sizes.
    place: usize,
    used: String,
    beside: Vars,
}

/// The table of the winners under one library, in the first mode of the plan.
pub(super) fn csv(source: Source, library: usize) -> Result<String> {
    let run = source.run;
    let plan = &run.header.plan;
    let Some(mode) = plan.modes().first().copied() else { return Err(none(run)) };
    let winners = winners(run, library, mode)?;
    let Some(first) = winners.first() else { return Err(none(run)) };
    if let Some(other) = winners.iter().find(|winner| winner.beside != first.beside) {
        let (a, b) = (&first.cell.set, &other.cell.set);
        let message =
            format!("the table cannot hold {a} and {b}: they differ in variables that are those of a whole process");
        return Err(Error::usage(message)
            .help("measure sets that differ in algorithm, protocol and channels only (proto-algo-grid)"));
    }
    let arm = Arm { library, ..plan.baseline() };
    let sets: Vec<String> = winners.iter().map(|winner| told(run, winner)).collect();
    let mut notes = vec![
        format!("Per size the fastest env set of {}, in {mode} mode: {}.", source.place, sets.join("; ")),
        evidence::the_box(run, arm),
        evidence::scope(plan),
    ];
    if !first.beside.is_empty() {
        notes.push(format!("To be set beside it in the environment: {}.", first.beside.to_string().replace(',', " ")));
    }
    let usage = "For the example tuner plugin of NCCL's source (plugins/tuner/example, NCCL 2.28 and later): NCCL_TUNER_PLUGIN \
                 names its shared library, NCCL_TUNER_CONFIG_FILE this file. As it comes, that plugin gives every call that no \
                 line matches one channel: delete `*nChannels = 1` in its pluginGetCollInfo before you build it. NCCL_ALGO and \
                 NCCL_PROTO must not be set: they win over a tuner.";
    let mut text = forms::comments(&notes, usage);
    text.push_str("# collective,min bytes,max bytes,algorithm,protocol,channels,nodes,ranks\n");
    // A size between two that has no winner is left to NCCL.
    for alike in winners.chunk_by(|a, b| a.used == b.used && a.place + 1 == b.place) {
        let (least, most) = (alike[0].cell.size_bytes, alike[alike.len() - 1].cell.size_bytes);
        text.push_str(&format!("allreduce,{least},{most},{},1,{}\n", alike[0].used, plan.ranks));
    }
    Ok(text)
}

fn none(run: &Run) -> Error {
    let why = refusal::of_run(run).join("; ");
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    Error::usage(format!("no size has a set that is faster, in effect and right{why}"))
        .help("more rounds (--rounds), more sets, or a run whose library told what it used (NCCL 2.23 and later)")
}

/// By size, the fastest of the sets that are faster, in effect and right.
fn winners(run: &Run, library: usize, mode: Mode) -> Result<Vec<Winner<'_>>> {
    let plan = &run.header.plan;
    // Sets are compared where ranks are started as the baseline's are.
    let first = plan.baseline();
    let sound = |cell: &&Cell| {
        (cell.arm.library, cell.arm.launch, cell.arm.alive) == (library, first.launch, first.alive)
            && cell.arm.register == first.register
            && cell.mode == mode
            && cell.verdict == Verdict::Faster
            && matches!(cell.applied, Applied::Applied | Applied::Unverified)
            && plan.cases[cell.case].placement == Placement::OutOfPlace
    };
    let mut best: BTreeMap<u64, &Cell> = BTreeMap::new();
    for cell in run.cells.iter().filter(sound) {
        let known = best.entry(cell.size_bytes).or_insert(cell);
        if cell.ratio < known.ratio {
            *known = cell;
        }
    }
    let measured: BTreeSet<u64> =
        run.cells.iter().filter(|cell| cell.mode == mode).map(|cell| cell.size_bytes).collect();
    let places = measured.into_iter().enumerate();
    places.filter_map(|(place, size)| Some(winner(run, best.remove(&size)?, place))).collect()
}

fn winner<'a>(run: &'a Run, cell: &'a Cell, place: usize) -> Result<Winner<'a>> {
    let plan = &run.header.plan;
    let size = plan.cases[cell.case].label();
    let proofs = run.proofs.iter().find(|proofs| proofs.arm == cell.arm);
    let chosen = proofs.and_then(|proofs| proofs.chosen.iter().find(|of| of.cases.contains(&cell.case)));
    let mut used: Vec<String> = chosen.iter().flat_map(|of| of.what.used.iter().filter_map(line)).collect();
    used.dedup();
    match used.as_slice() {
        [used] => {
            let vars = plan.sets[cell.arm.set].vars.over(&plan.base);
            let beside = vars.iter().filter(|(name, _)| !HELD.contains(name)).collect();
            Ok(Winner { cell, place, used: used.clone(), beside })
        }
        [] => Err(Error::usage(format!("it is not known what {} used at {size}", cell.set))
            .help("algorithm, protocol and number of channels are told by NCCL 2.27 and later")),
        many => Err(Error::usage(format!("{} used different things at {size}: {}", cell.set, many.join(" and ")))),
    }
}

/// `ring,ll,2`, where all of it is known.
fn line(used: &Used) -> Option<String> {
    let algorithm = match &used.algorithm {
        Algorithm::Tree => "tree",
        Algorithm::Ring => "ring",
        Algorithm::CollNetDirect => "collnet_direct",
        Algorithm::CollNetChain => "collnet_chain",
        Algorithm::Nvls => "nvls",
        Algorithm::NvlsTree => "nvls_tree",
        Algorithm::Pat => "pat",
        Algorithm::Unknown(_) => return None,
    };
    let protocol = match &used.protocol {
        Protocol::Ll => "ll",
        Protocol::Ll128 => "ll128",
        Protocol::Simple => "simple",
        Protocol::Unknown(_) => return None,
    };
    match used.channels {
        Some(Channels::Exactly(channels)) => Some(format!("{algorithm},{protocol},{channels}")),
        Some(Channels::AtMost(_)) | None => None,
    }
}

/// `7168x1 pcie-ll 0.47 (0.46–0.49)`
fn told(run: &Run, winner: &Winner) -> String {
    let cell = winner.cell;
    let ratio = cell.ratio.map(significant).unwrap_or_default();
    let interval = cell.ratio_interval.map(|[low, high]| format!(" ({})", range(low, high))).unwrap_or_default();
    format!("{} {} {ratio}{interval}", run.header.plan.cases[cell.case].label(), cell.set)
}
