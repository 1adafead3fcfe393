//! Two runs compared, for programs and documents.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use super::{changes, findings, sentences, side, tables};
use crate::collective::{Dtype, Mode, Op, Placement};
use crate::compare::{Compared, Comparison};
use crate::nccl::version::NcclVersion;
use crate::record::run::{Applied, Backend, Verdict};
use crate::report::Style;
use crate::report::cells::{figure, interval};
use crate::report::conclusion::percent;
use crate::report::machine::markdown::escape;

/// A cell of both runs; what is not known is empty.
#[derive(Serialize)]
struct Row<'a> {
    backend: Backend,
    set: &'a str,
    mode: Mode,
    dtype: Dtype,
    op: Op,
    in_place: bool,
    size: String,
    size_bytes: u64,
    old_nccl: NcclVersion,
    new_nccl: NcclVersion,
    old_visits: u32,
    new_visits: u32,
    old_us: Option<f64>,
    new_us: Option<f64>,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    verdict: Verdict,
    verdict_reason: Option<&'a str>,
    old_applied: Applied,
    new_applied: Applied,
}

/// A row for each cell of both runs.
pub(super) fn csv(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for cell in &comparison.cells {
        writer.serialize(row(comparison, cell)).map_err(io::Error::from)?;
    }
    writer.flush()
}

fn row<'a>(comparison: &Comparison, cell: &'a Compared) -> Row<'a> {
    Row {
        backend: comparison.backend,
        set: &cell.set,
        mode: cell.case.mode,
        dtype: cell.case.dtype,
        op: cell.case.op,
        in_place: cell.case.placement == Placement::InPlace,
        size: cell.case.label(),
        size_bytes: cell.size_bytes,
        old_nccl: cell.old.nccl,
        new_nccl: cell.new.nccl,
        old_visits: cell.old.visits,
        new_visits: cell.new.visits,
        old_us: cell.old.median_us,
        new_us: cell.new.median_us,
        ratio: cell.ratio,
        ratio_low: cell.ratio_interval.map(|ends| ends[0]),
        ratio_high: cell.ratio_interval.map(|ends| ends[1]),
        verdict: cell.verdict,
        verdict_reason: cell.verdict_reason.as_deref(),
        old_applied: cell.old.applied,
        new_applied: cell.new.applied,
    }
}

/// What the terminal shows, to paste into an issue or a document.
pub(super) fn markdown(comparison: &Comparison) -> String {
    let mut out = String::from("## two runs compared\n\n");
    if comparison.backend == Backend::Emulated {
        out.push_str("**EMULATED: virtual time. These figures say nothing about a real box.**\n\n");
    }
    for sentence in sentences(comparison) {
        let _ = writeln!(out, "**{}**\n", escape(&sentence));
    }
    let _ = writeln!(out, "- old: {}", escape(&side(&comparison.old)));
    let _ = writeln!(out, "- new: {}", escape(&side(&comparison.new)));
    for change in changes(comparison) {
        let _ = writeln!(out, "- changed: {}", escape(&change));
    }
    for (title, cells) in tables(comparison) {
        let tolerance = percent(comparison.tolerance);
        let _ = writeln!(out, "\n### {title}\n\nratio: new to old, tolerance {tolerance}\n");
        out.push_str("| size | bytes | set | old µs | new µs | ratio | 95% interval | verdict |\n");
        out.push_str("|--:|--:|:--|--:|--:|--:|:-:|:--|\n");
        for cell in cells {
            let figures = [figure(cell.old.median_us), figure(cell.new.median_us), figure(cell.ratio)].join(" | ");
            let (size, set, ends) = (cell.case.label(), escape(&cell.set), interval(cell.ratio_interval));
            let _ = writeln!(out, "| {size} | {} | {set} | {figures} | {ends} | {} |", cell.size_bytes, cell.verdict);
        }
    }
    let findings = findings(comparison);
    if !findings.is_empty() {
        out.push('\n');
    }
    for line in findings {
        let _ = writeln!(out, "- {}: {}", line.label, escape(&line.text));
    }
    // Tones are for terminals.
    Style::default().finish(&out)
}
