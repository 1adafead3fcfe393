//! Markdown: what the terminal shows, to paste into an issue or a document.

use std::fmt::Write;

use crate::record::floor::CellFloor;
use crate::record::run::{Cell, Run, Verdict};
use crate::report::cells::{Group, NONE, arms, figure, find, groups, interval, name};
use crate::report::conclusion::{percent, sentences};
use crate::report::floor::{lines as floor_lines, reached};
use crate::report::ink::Style;
use crate::report::{findings, head};

const HEADS: [&str; 10] =
    ["size", "bytes", "set", "median µs", "95% interval", "busbw GB/s", "ratio", "95% interval", "verdict", "settings"];

/// The document of `run`.
pub(super) fn render(run: &Run) -> String {
    let mut out = format!("## {}\n\n", escape(&head::title(run)));
    if let Some(alarm) = head::alarm(run) {
        out.push_str(&format!("**{}**\n\n", escape(&alarm)));
    }
    for sentence in sentences(run) {
        out.push_str(&format!("**{}**\n\n", escape(&sentence)));
    }
    list(&mut out, head::lines(run));
    for group in groups(&run.header.plan.cases) {
        table(&mut out, run, &group);
    }
    out.push('\n');
    list(&mut out, findings::lines(run));
    floor(&mut out, run);
    // Tones are for terminals.
    Style::default().finish(&out)
}

fn list(out: &mut String, lines: Vec<head::Line>) {
    for head::Line { label, lead, text } in lines {
        let _ = match (label, lead.trim_end()) {
            ("", _) => writeln!(out, "  - `{}`", text.replace('`', "'")),
            (label, "") => writeln!(out, "- {label}: {}", escape(&text)),
            (label, lead) => writeln!(out, "- {label}: {}: {}", escape(lead), escape(&text)),
        };
    }
}

fn table(out: &mut String, run: &Run, group: &Group) {
    let base = name(run, run.header.plan.baseline());
    let tolerance = percent(run.header.plan.tolerance);
    let _ = writeln!(out, "\n### {}\n\nratio: to {}, tolerance {tolerance}\n", group.title(), escape(&base));
    let _ = writeln!(out, "| {} |", HEADS.join(" | "));
    out.push_str("|--:|--:|:--|--:|:-:|--:|--:|:-:|:--|:--|\n");
    for &at in &group.cases {
        let case = &run.header.plan.cases[at];
        for arm in arms(run) {
            let figures = find(run, arm, at).map_or_else(|| std::array::from_fn(|_| NONE.into()), figures);
            let set = escape(&name(run, arm));
            let _ = writeln!(out, "| {} | {} | {set} | {} |", case.label(), case.bytes().0, figures.join(" | "));
        }
    }
}

/// What an all-reduce costs at least, where the run looked for it.
fn floor(out: &mut String, run: &Run) {
    let Some(measured) = &run.floor else { return };
    out.push_str("\n### floor: steps alone, without the bytes of the message\n\n");
    list(out, floor_lines(measured));
    for group in groups(&run.header.plan.cases) {
        let of_case = |at: &usize| {
            let at = *at;
            run.cells.iter().filter(move |cell| cell.case == at).filter_map(|cell| Some((cell, cell.floor.as_ref()?)))
        };
        let rows: Vec<(&Cell, &CellFloor)> = group.cases.iter().flat_map(of_case).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{}\n", group.title());
        out.push_str("| size | bytes | set | median µs | ring floor µs | reached | one-shot floor µs | reached |\n");
        out.push_str("|--:|--:|:--|--:|--:|--:|--:|--:|\n");
        for (cell, floor) in rows {
            let case = &run.header.plan.cases[cell.case];
            let beside = |micros| format!("{} | {}", figure(Some(micros)), reached(cell, Some(micros)));
            let (ring, one_shot) = (beside(floor.ring_us), beside(floor.one_shot_us));
            let (set, median) = (escape(&name(run, cell.arm)), figure(cell.median_us));
            let (label, bytes) = (case.label(), case.bytes().0);
            let _ = writeln!(out, "| {label} | {bytes} | {set} | {median} | {ring} | {one_shot} |");
        }
    }
}

fn figures(cell: &Cell) -> [String; 7] {
    let baseline = cell.verdict == Verdict::Baseline;
    [
        figure(cell.median_us),
        interval(cell.interval_us),
        figure(cell.busbw_gbps),
        if baseline { String::new() } else { figure(cell.ratio) },
        interval(cell.ratio_interval),
        cell.verdict.to_string(),
        cell.applied.to_string(),
    ]
}

/// What Markdown would read as its own is escaped: in a table above all the pipe.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        // Underscores within a word are not Markdown's, and names of variables stay readable.
        let own = matches!(c, '|' | '*' | '`' | '<' | '[' | '\\') || (c == '_' && !before.is_alphanumeric());
        if own {
            escaped.push('\\');
        }
        escaped.push(c);
        before = c;
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Mode;
    use crate::record::fixture;

    #[test]
    fn a_run_is_a_document_to_paste() {
        let run = fixture::run(&["default", "pcie-ll"], &[fixture::case(1, Mode::Graph)]);
        insta::assert_snapshot!(render(&run), @r"
        ## ncclsweep 0.1.0 · box-1 · 2026-03-14 09:26 UTC

        **pcie-ll is faster than default at 7168x1: 0.60 of its time**

        - GPUs: 8 × NVIDIA RTX PRO 6000 Blackwell Server Edition
        - driver: 580.159.04 · CUDA 13.0
        - ranks: threads of one process · one on each of 8 GPUs
        - NCCL: 2.28.9 · libnccl.so.2.28.9
        - measured: all-reduce bf16 sum out-of-place · graph (50 calls chained)
        - sampled: 6 rounds × 6 communicators per set · 58 s · seed 42
        - sets: default: sets nothing
        - sets: pcie-ll: NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216 NCCL_NTHREADS=512

        ### graph, bf16 sum out-of-place

        ratio: to default, tolerance 5%

        | size | bytes | set | median µs | 95% interval | busbw GB/s | ratio | 95% interval | verdict | settings |
        |--:|--:|:--|--:|:-:|--:|--:|:-:|:--|:--|
        | 7168x1 | 14336 | default | 48.2 | 47.0–49.5 | 0.52 |  |  | baseline | applied |
        | 7168x1 | 14336 | pcie-ll | 28.9 | 28.2–29.7 | 0.87 | 0.60 | 0.59–0.61 | faster | applied |

        - settings: applied in all 2 cells: in effect on every rank
        - data: 28 800 outputs checked, none wrong
        - visits: 12 of 12 completed
        ");
    }

    #[test]
    fn the_floor_stands_under_the_results() {
        let mut run = fixture::run(&["default"], &[fixture::case(1, Mode::Graph)]);
        assert!(!render(&run).contains("floor"), "none was looked for");
        run.floor = Some(crate::record::floor::Floor {
            started: run.finished,
            seconds: 1.5,
            kernels: vec![],
            hops: vec![],
            failed: None,
        });
        run.cells[0].median_us = Some(20.0);
        run.cells[0].floor = Some(crate::record::floor::CellFloor { ring_us: 5.0, one_shot_us: 2.0 });
        let text = render(&run);
        assert!(text.contains("| 7168x1 | 14336 | default | 20.0 | 5.00 | 25% | 2.00 | 10% |"), "{text}");
    }

    #[test]
    fn a_pipe_in_a_name_opens_no_column() {
        let run = fixture::run(&["default", "a|b"], &[fixture::case(1, Mode::Graph)]);
        let text = render(&run);
        let row = text.lines().find(|line| line.contains("a\\|b |")).expect("the row of the set");
        let columns = row.replace("\\|", "").matches('|').count();
        assert_eq!(columns, HEADS.len() + 1);
    }
}
