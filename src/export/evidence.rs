//! Where a set comes from and what it is good for, in paragraphs that any form can take as comments.

use super::Source;
use crate::plan::schedule::{Arm, Plan};
use crate::record::run::{Applied, Cell, Run, Verdict};
use crate::units::{plural, range, significant};

/// What every form says of whoever reads the variables.
const ENGINE: &str = "The engine has the last word: it may set NCCL variables itself, start workers without them, or reduce \
                      without NCCL. `ncclsweep --wrap` shows whether they arrive when workers are started as yours are.";

/// The paragraphs of one set.
pub(super) fn paragraphs(source: Source, arm: Arm, forced: &[String]) -> Vec<String> {
    let run = source.run;
    let plan = &run.header.plan;
    let mut paragraphs = vec![origin(source, &plan.sets[arm.set].name)];
    paragraphs.extend(forced.iter().map(|objection| format!("FORCED although: {objection}.")));
    paragraphs.push(the_box(run, arm));
    paragraphs.extend(plan.modes().into_iter().map(|mode| {
        let cells: Vec<&Cell> = run.cells.iter().filter(|cell| cell.arm == arm && cell.mode == mode).collect();
        format!("{mode} mode: {}.", result(plan, &cells))
    }));
    let unverified = run.cells.iter().any(|cell| cell.arm == arm && cell.applied == Applied::Unverified);
    if unverified {
        paragraphs.push("Nothing shows whether all of its settings took effect.".to_owned());
    }
    if !run.header.provenance.inherited.is_empty() && !plan.clean_env {
        let names: Vec<&str> = run.header.provenance.inherited.iter().map(|(name, _)| name).collect();
        paragraphs.push(format!("Measured under inherited {}, which is not part of it.", names.join(", ")));
    }
    paragraphs.push(scope(plan));
    paragraphs.push(ENGINE.to_owned());
    paragraphs
}

/// `NCCL settings of the env set pcie-ll, measured by ncclsweep 0.1.0 on box-1, 2026-03-14 (results/run-1).`
fn origin(source: Source, set: &str) -> String {
    let header = &source.run.header;
    let (version, host) = (&header.version, &header.provenance.host);
    let date = header.created.strftime("%Y-%m-%d");
    format!(
        "NCCL settings of the env set {set}, measured by ncclsweep {version} on {host}, {date}. Run: {}.",
        source.place
    )
}

/// GPUs, driver and library under which it was measured.
pub(super) fn the_box(run: &Run, arm: Arm) -> String {
    let (plan, provenance) = (&run.header.plan, &run.header.provenance);
    let gpu = provenance.gpus.first().map_or("GPU", |gpu| gpu.name.as_str());
    let driver = provenance.driver.as_deref().unwrap_or("unknown");
    format!(
        "Box: {} × {gpu}, {}, driver {driver}, NCCL {}.",
        plan.devices.len(),
        plural(plan.ranks as usize, "rank"),
        plan.libraries[arm.library].version
    )
}

/// `faster than default at all 4 sizes, 0.47–0.63 of its time (7168x1: 0.47, 95% 0.46–0.49; …)`
fn result(plan: &Plan, cells: &[&Cell]) -> String {
    const NAMED: usize = 8;
    let base = &plan.sets[0].name;
    let count = |verdict: Verdict| cells.iter().filter(|cell| cell.verdict == verdict).count();
    let verdicts = [Verdict::Faster, Verdict::Same, Verdict::Slower, Verdict::Undecided, Verdict::Invalid];
    let told = verdicts.into_iter().filter(|verdict| count(*verdict) > 0);
    let told: Vec<String> =
        told.map(|verdict| format!("{verdict} at {} of {}", count(verdict), plural(cells.len(), "case"))).collect();
    let ratio = |cell: &&&Cell| {
        let interval = cell.ratio_interval.map(|[low, high]| format!(", 95% {}", range(low, high)));
        let ratio = significant(cell.ratio?);
        Some(format!("{} {ratio}{}", plan.cases[cell.case].label(), interval.unwrap_or_default()))
    };
    let ratios: Vec<String> = cells.iter().take(NAMED).filter_map(|cell| ratio(&cell)).collect();
    let more = if cells.len() > NAMED { "; …" } else { "" };
    match ratios.is_empty() {
        true => told.join(", "),
        false => format!("{}; time relative to {base}: {}{more}", told.join(", "), ratios.join("; ")),
    }
}

/// For which all-reduces it was measured.
pub(super) fn scope(plan: &Plan) -> String {
    let bytes = || plan.cases.iter().map(|case| case.bytes().0);
    let (least, most) = (bytes().min().unwrap_or(0), bytes().max().unwrap_or(0));
    format!(
        "Tuned for all-reduce of {least} to {most} bytes on {}. Other sizes, other collectives and other boxes were not \
         measured; large messages may become slower.",
        plural(plan.ranks as usize, "rank")
    )
}
