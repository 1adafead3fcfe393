//! The text of `all_reduce_perf`: a block for each env set and mode.

use std::fmt::Write;

use super::{Block, Line, Step, blocks};
use crate::record::run::Run;
use crate::report::cells::name;
use crate::report::head;
use crate::report::ink::Style;
use crate::units::Micros;

/// The text of `run`.
pub(in crate::report::machine) fn render(run: &Run) -> String {
    let mut out = String::new();
    blocks(run).for_each(|of| block(&mut out, &of));
    Style { unicode: false, ..Style::default() }.finish(&out)
}

fn block(out: &mut String, block: &Block) {
    let (run, plan) = (block.run, &block.run.header.plan);
    let _ = writeln!(out, "# {}", head::title(run));
    if let Some(alarm) = head::alarm(run) {
        let _ = writeln!(out, "# {alarm}");
    }
    let _ = writeln!(out, "# Env set: {}", name(run, block.arm));
    for (variable, value) in plan.sets[block.arm.set].vars.iter() {
        let _ = writeln!(out, "#   {variable}={value}");
    }
    let _ = writeln!(out, "# time: mean, #wrong: outputs with a wrong element");
    let _ = writeln!(out, "# Collective test starting: all_reduce_perf");
    let shared = if plan.oversubscribed() { " oversubscribed" } else { "" };
    let (ranks, gpus) = (plan.ranks, plan.devices.len());
    let library = plan.libraries[block.arm.library].version;
    let _ = writeln!(out, "# mode: {} nccl-library: {library}", head::how(plan, block.mode));
    let _ = writeln!(out, "# nRanks: {ranks} nGpus: {gpus}{shared}");
    let _ = writeln!(out, "{}", parameters(block));
    devices(out, block);
    heads(out);
    for line in &block.lines {
        write_line(out, line);
    }
    let wrong = block.wrong();
    let _ = writeln!(out, "# Out of bounds values : {wrong} {}", if wrong == 0 { "OK" } else { "FAILED" });
    let _ = writeln!(out, "# Avg bus bandwidth    : {:.6}\n#", block.average());
    let _ = writeln!(out, "# Collective test concluded: all_reduce_perf\n");
}

/// The line of parameters. Warm-up lasts until times settle, so it has no number of iterations.
fn parameters(block: &Block) -> String {
    let ((least, most), (iterations, graph)) = (block.ends(), block.iterations());
    let step = match block.step() {
        Step::Bytes(bytes) => format!("{bytes}(bytes)"),
        Step::Factor(factor) => format!("{factor}(factor)"),
        Step::Irregular => "0(bytes)".to_owned(),
    };
    let threads = block.run.header.plan.ranks;
    format!(
        "# nThread {threads} nGpus 1 minBytes {least} maxBytes {most} step: {step} iters: {iterations} agg iters: 1 \
         validation: 1 graph: {graph} unalign: 0"
    )
}

fn devices(out: &mut String, block: &Block) {
    out.push_str("#\n# Using devices\n");
    for of in block.devices() {
        let (rank, pid, host, ordinal) = (of.rank, of.pid, of.host, of.ordinal);
        let _ = write!(out, "#  Rank {rank:>2} Group  0 Pid {pid:>6} on {host:>10} device {ordinal:>2} ");
        let _ = writeln!(out, "[{}] {}", of.address, of.name);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Mode, Placement};
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
        # nThread 8 nGpus 1 minBytes 14336 maxBytes 28672 step: 14336(bytes) iters: 50 agg iters: 1 validation: 1 graph: 20 unalign: 0
        #
        # Using devices
        #  Rank  0 Group  0 Pid  20114 on      box-1 device  0 [0000:11:00] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  1 Group  0 Pid  20114 on      box-1 device  1 [0000:21:00] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  2 Group  0 Pid  20114 on      box-1 device  2 [0000:31:00] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  3 Group  0 Pid  20114 on      box-1 device  3 [0000:41:00] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  4 Group  0 Pid  20114 on      box-1 device  4 [0000:51:00] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  5 Group  0 Pid  20114 on      box-1 device  5 [0000:61:00] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  6 Group  0 Pid  20114 on      box-1 device  6 [0000:71:00] NVIDIA RTX PRO 6000 Blackwell Server Edition
        #  Rank  7 Group  0 Pid  20114 on      box-1 device  7 [0000:81:00] NVIDIA RTX PRO 6000 Blackwell Server Edition
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
