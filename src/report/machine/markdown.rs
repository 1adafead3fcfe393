//! Markdown: what the terminal shows, to paste into an issue or a document.

use std::fmt::Write;

use crate::plan::schedule::Arm;
use crate::record::run::{Cell, Run, Verdict};
use crate::report::cells::{Group, NONE, arms, figure, find, groups, interval, name};
use crate::report::conclusion::{percent, sentences};
use crate::report::ink::Style;
use crate::report::{findings, head};

const HEADS: [&str; 10] = [
    "size",
    "bytes",
    "set",
    "median µs",
    "95% interval",
    "busbw GB/s",
    "ratio",
    "95% interval",
    "verdict",
    "settings",
];

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
    // Tones are for terminals.
    Style::default().finish(&out)
}

fn list(out: &mut String, lines: Vec<head::Line>) {
    for (label, text) in lines {
        let _ = match label {
            "" => writeln!(out, "  - `{}`", text.replace('`', "'")),
            label => writeln!(out, "- {label}: {}", escape(&text)),
        };
    }
}

fn table(out: &mut String, run: &Run, group: &Group) {
    let base = name(run, Arm { set: 0, library: 0 });
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
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '`' | '<' | '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
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
        insta::assert_snapshot!(render(&run), @"");
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
