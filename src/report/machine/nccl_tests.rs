//! The columns of nccl-tests' `all_reduce_perf`, for what already reads those: a block for each env set and mode.
//!
//! `time` is the mean, as it is there, and the bandwidths are the mean's. `#wrong` counts outputs with a wrong element.

use std::fmt::Write;

use crate::collective::{Case, Dtype, Mode, Op, Placement, Size};
use crate::plan::schedule::Arm;
use crate::record::run::{Cell, Run};
use crate::report::cells::{arms, find, name};
use crate::report::head;
use crate::report::ink::Style;
use crate::units::Micros;

/// Both placements of one size: a line.
struct Line {
    size: Size,
    dtype: Dtype,
    op: Op,
    halves: [Option<Half>; 2],
}

/// What one placement measured.
struct Half {
    time: Option<Micros>,
    algbw: f64,
    busbw: f64,
    /// `None` when the data was not checked.
    wrong: Option<u64>,
}

/// The text of `run`.
pub(super) fn render(run: &Run) -> String {
    let mut out = String::new();
    for mode in run.header.plan.modes() {
        for arm in arms(run) {
            block(&mut out, run, arm, mode);
        }
    }
    Style { unicode: false, ..Style::default() }.finish(&out)
}

fn block(out: &mut String, run: &Run, arm: Arm, mode: Mode) {
    let (plan, lines) = (&run.header.plan, lines(run, arm, mode));
    let _ = writeln!(out, "# {}", head::title(run));
    if let Some(alarm) = head::alarm(run) {
        let _ = writeln!(out, "# {alarm}");
    }
    let library = &plan.libraries[arm.library];
    let _ = writeln!(out, "# Env set: {}", name(run, arm));
    for (variable, value) in plan.sets[arm.set].vars.iter() {
        let _ = writeln!(out, "#   {variable}={value}");
    }
    let _ = writeln!(out, "# time: mean, #wrong: outputs with a wrong element");
    let _ = writeln!(out, "# Collective test starting: all_reduce_perf");
    let shared = if plan.oversubscribed() { " oversubscribed" } else { "" };
    let (ranks, gpus) = (plan.ranks, plan.devices.len());
    let _ = writeln!(out, "# mode: {} nccl-library: {}", head::how(plan, mode), library.version);
    let _ = writeln!(out, "# nRanks: {ranks} nGpus: {gpus}{shared}");
    devices(out, run);
    heads(out);
    for line in &lines {
        write_line(out, line);
    }
    let halves = || lines.iter().flat_map(|line| line.halves.iter().flatten());
    let wrong: u64 = halves().filter_map(|half| half.wrong).sum();
    let _ = writeln!(out, "# Out of bounds values : {wrong} {}", if wrong == 0 { "OK" } else { "FAILED" });
    let measured: Vec<f64> = halves().filter(|half| half.time.is_some()).map(|half| half.busbw).collect();
    let average = measured.iter().sum::<f64>() / measured.len().max(1) as f64;
    let _ = writeln!(out, "# Avg bus bandwidth    : {average:.6}\n#");
    let _ = writeln!(out, "# Collective test concluded: all_reduce_perf\n");
}

fn devices(out: &mut String, run: &Run) {
    let (plan, provenance) = (&run.header.plan, &run.header.provenance);
    out.push_str("#\n# Using devices\n");
    for rank in 0..plan.ranks as usize {
        let Some(gpu) = provenance.gpus.get(rank % plan.devices.len().max(1)) else { continue };
        let (host, ordinal) = (&provenance.host, gpu.ordinal);
        let _ = writeln!(out, "#  Rank {rank:>2} on {host:>10} device {ordinal:>2} [{}] {}", gpu.pci, gpu.name);
    }
    out.push_str("#\n");
}

fn heads(out: &mut String) {
    let halves = format!("{:>33}{:>33}", "out-of-place", "in-place");
    let _ = writeln!(out, "#{:54}{halves}", "");
    let half = |a, b, c, d| format!("{a:>9}{b:>8}{c:>8}{d:>8}");
    let (names, units) = (half("time", "algbw", "busbw", "#wrong"), half("(us)", "(GB/s)", "(GB/s)", ""));
    let row = format!("#{:>11}{:>14}{:>10}{:>8}{:>8}", "size", "count", "type", "redop", "root");
    let _ = writeln!(out, "{row}{names}{names}");
    let row = format!("#{:>11}{:>14}{:>10}{:>8}{:>8}{units}{units}", "(B)", "(elements)", "", "", "");
    let _ = writeln!(out, "{}", row.trim_end());
}

fn write_line(out: &mut String, line: &Line) {
    let (bytes, count) = (line.size.bytes(line.dtype).0, line.size.elements);
    let (dtype, op) = (line.dtype.name(), line.op.name());
    let _ = write!(out, "{bytes:>12}{count:>14}{dtype:>10}{op:>8}{:>8}", -1);
    for half in &line.halves {
        let shown = |value: Option<f64>| value.map_or_else(|| "N/A".into(), |value| format!("{value:.2}"));
        let measured = half.as_ref().filter(|half| half.time.is_some());
        let time = measured.and_then(|half| half.time).map_or_else(|| "N/A".into(), time);
        let (algbw, busbw) = (shown(measured.map(|half| half.algbw)), shown(measured.map(|half| half.busbw)));
        let wrong = half.as_ref().and_then(|half| half.wrong).map_or_else(|| "N/A".into(), |n| n.to_string());
        let _ = write!(out, "{time:>9}{algbw:>8}{busbw:>8}{wrong:>8}");
    }
    out.push('\n');
}

/// Microseconds with the digits nccl-tests gives them.
fn time(time: Micros) -> String {
    match time.0 {
        t if t >= 10_000.0 => format!("{t:.0}"),
        t if t >= 100.0 => format!("{t:.1}"),
        t => format!("{t:.2}"),
    }
}

/// The cells of an arm in one mode, both placements of a size in one line.
fn lines(run: &Run, arm: Arm, mode: Mode) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (at, case) in run.header.plan.cases.iter().enumerate().filter(|(_, case)| case.mode == mode) {
        let half = find(run, arm, at).map(|cell| half(case, cell));
        let side = match case.placement {
            Placement::OutOfPlace => 0,
            Placement::InPlace => 1,
        };
        let same = |line: &&mut Line| (line.size, line.dtype, line.op) == (case.size, case.dtype, case.op);
        match lines.iter_mut().find(same) {
            Some(line) => line.halves[side] = half,
            None => {
                let mut halves = [None, None];
                halves[side] = half;
                lines.push(Line { size: case.size, dtype: case.dtype, op: case.op, halves });
            }
        }
    }
    lines
}

fn half(case: &Case, cell: &Cell) -> Half {
    let time = cell.mean_us.map(Micros);
    Half {
        time,
        algbw: time.map_or(0.0, |time| case.algbw(time).0),
        busbw: time.map_or(0.0, |time| case.busbw(time, cell.ranks as usize).0),
        wrong: (cell.checked_outputs > 0).then_some(cell.wrong_outputs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn both_placements() -> Run {
        let mut in_place = fixture::case(1, Mode::Graph);
        in_place.placement = Placement::InPlace;
        fixture::run(&["default"], &[fixture::case(1, Mode::Graph), fixture::case(2, Mode::Graph), in_place])
    }

    /// The figures of a line as a reader of nccl-tests takes them: split at blanks.
    fn fields(text: &str) -> Vec<Vec<&str>> {
        text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(|l| l.split_whitespace().collect()).collect()
    }

    #[test]
    fn a_block_looks_like_all_reduce_perf() {
        insta::assert_snapshot!(render(&both_placements()), @r"
        # ncclsweep 0.1.0 | box-1 | 2026-03-14 09:26 UTC
        # Env set: default
        # time: mean, #wrong: outputs with a wrong element
        # Collective test starting: all_reduce_perf
        # mode: graph (50 calls chained) nccl-library: 2.28.9
        # nRanks: 8 nGpus: 8
        #
        # Using devices
        #  Rank  0 on      box-1 device  0 [0000:11:00.0] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  1 on      box-1 device  1 [0000:21:00.0] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  2 on      box-1 device  2 [0000:31:00.0] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  3 on      box-1 device  3 [0000:41:00.0] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  4 on      box-1 device  4 [0000:51:00.0] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  5 on      box-1 device  5 [0000:61:00.0] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  6 on      box-1 device  6 [0000:71:00.0] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  7 on      box-1 device  7 [0000:81:00.0] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #
        #                                                                           out-of-place                         in-place
        #       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
        #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
               14336          7168  bfloat16     sum      -1    48.39    0.30    0.52       0    57.17    0.25    0.44       0
               28672         14336  bfloat16     sum      -1    52.78    0.54    0.95       0      N/A     N/A     N/A     N/A
        # Out of bounds values : 0 OK
        # Avg bus bandwidth    : 0.635977
        #
        # Collective test concluded: all_reduce_perf
        ");
    }

    #[test]
    fn every_line_has_thirteen_fields_and_an_unmeasured_half_is_not_available() {
        let text = render(&both_placements());
        let lines = fields(&text);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.len() == 13));
        assert_eq!(lines[0][..5], ["14336", "7168", "bfloat16", "sum", "-1"]);
        assert_eq!(lines[1][9..], ["N/A"; 4]);
    }

    #[test]
    fn wrong_outputs_fail_the_block() {
        let mut run = both_placements();
        run.cells[1].wrong_outputs = 3;
        let text = render(&run);
        assert_eq!(fields(&text)[1][8], "3");
        assert!(text.contains("# Out of bounds values : 3 FAILED"));
    }
}
