//! The tables of results: figures with their intervals, verdicts, and the proof that settings took effect.

use maud::{Markup, html};

use super::page::{applied, set_name, verdict};
use super::shown::Shown;
use crate::plan::schedule::Arm;
use crate::proof::Used;
use crate::record::run::{Cell, Run, Verdict};
use crate::report::cells::{Group, arms, figure, interval, name};

/// The tables of a run.
pub(super) fn section(shown: &Shown) -> Markup {
    html! { @for group in &shown.groups { (table(shown, group)) } }
}

fn table(shown: &Shown, group: &Group) -> Markup {
    let compared = arms(shown.run).len() > 1;
    html! {
        div.scroll { table.cards role="table" {
            caption { span.strong { (group.title()) } }
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" scope="col" { "size" } th.n role="columnheader" scope="col" { "bytes" }
                th role="columnheader" scope="col" { "set" }
                th.n role="columnheader" scope="col" { "median µs" br; "95% interval" }
                th.n role="columnheader" scope="col" { "p99" br; "µs" } th.n role="columnheader" scope="col" { "busbw" br; "GB/s" }
                @if compared {
                    th.n role="columnheader" scope="col" { "ratio" br; "95% interval" } th role="columnheader" scope="col" { "verdict" }
                }
                th role="columnheader" scope="col" { "settings" br; "what NCCL used" }
            } }
            tbody role="rowgroup" {
                @for case in &group.cases { @for (at, arm) in shown.arms.iter().enumerate() {
                    (row(shown, *case, *arm, at == 0, compared))
                } }
            }
        } }
    }
}

fn row(shown: &Shown, case: usize, arm: Arm, first: bool, compared: bool) -> Markup {
    let of = &shown.run.header.plan.cases[case];
    let cell = shown.cell(arm, case);
    let colour = shown.plotted.iter().position(|plotted| *plotted == arm);
    html! {
        tr role="row" class=(if first { "first" } else { "again" }) {
            th.size role="rowheader" scope="row" { (of.label()) }
            td.n.size.bytes role="cell" { (of.bytes().0) }
            td.name role="cell" { (set_name(colour, &name(shown.run, arm))) }
            @match cell {
                Some(cell) => (figures(shown.run, cell, compared)),
                None => td.full role="cell" colspan=(if compared { 6 } else { 4 }) { "not measured" },
            }
        }
    }
}

fn figures(run: &Run, cell: &Cell, compared: bool) -> Markup {
    let baseline = cell.verdict == Verdict::Baseline;
    html! {
        td.n role="cell" data-label="median µs, 95% interval" { span.strong { (figure(cell.median_us)) } (beside(cell.interval_us)) }
        td.n role="cell" data-label="p99 µs" { (figure(cell.p99_us)) }
        td.n role="cell" data-label="busbw GB/s" { (figure(cell.busbw_gbps)) }
        @if compared {
            @if baseline { td.n role="cell" {} } @else {
                td.n role="cell" data-label="ratio, 95% interval" { span.strong { (figure(cell.ratio)) } (beside(cell.ratio_interval)) }
            }
            td.verdict role="cell" { (verdict(cell.verdict)) }
        }
        td.full role="cell" data-label="settings · what NCCL used" {
            (applied(cell.applied))
            @let used = used(run, cell);
            @if !used.is_empty() { " " span.quiet { "· " (used) } }
            @if cell.wrong_outputs > 0 { br; span.bad { (cell.wrong_outputs) " of " (cell.checked_outputs) " outputs wrong" } }
        }
    }
}

fn beside(ends: Option<[f64; 2]>) -> Markup {
    html! { @if ends.is_some() { " " span.quiet { "(" (interval(ends)) ")" } } }
}

/// `Ring LL, 16 ch × 512 thr`: what NCCL used for a cell, each once where ranks or visits differ.
fn used(run: &Run, cell: &Cell) -> String {
    let proofs = run.proofs.iter().find(|proofs| proofs.arm == cell.arm);
    let chosen = proofs.and_then(|proofs| proofs.chosen.iter().find(|of| of.cases.contains(&cell.case)));
    let mut words: Vec<String> = Vec::new();
    for used in chosen.iter().flat_map(|of| &of.what.used) {
        let word = in_words(used);
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join("; ")
}

fn in_words(used: &Used) -> String {
    let channels = used.channels.map(|channels| format!("{} ch", channels.most()));
    let threads = used.threads().map(|threads| format!("{threads} thr"));
    let amount: Vec<String> = channels.into_iter().chain(threads).collect();
    let comma = if amount.is_empty() { "" } else { ", " };
    format!("{} {}{comma}{}", used.algorithm, used.protocol, amount.join(" × "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn every_cell_is_a_row_with_interval_verdict_and_proof() {
        let run = fixture::two_sets();
        let text = section(&Shown::of(&run)).into_string();
        assert_eq!(text.matches("<tr role=\"row\" class=").count(), 8);
        for told in ["(28.2–29.7)", "pill faster", "pill baseline", ">0.60<", "applied"] {
            assert!(text.contains(told), "{told}");
        }
    }

    #[test]
    fn names_are_escaped() {
        let run = fixture::run(&["default", "<img src=x>"], &[fixture::case(1, crate::collective::Mode::Graph)]);
        let text = section(&Shown::of(&run)).into_string();
        assert!(!text.contains("<img"), "{text}");
        assert!(text.contains("&lt;img src=x&gt;"));
    }

    #[test]
    fn wrong_data_and_what_was_not_measured_stand_in_the_row() {
        let mut run = fixture::two_sets();
        run.cells[4].wrong_outputs = 3;
        run.cells.remove(0);
        let text = section(&Shown::of(&run)).into_string();
        assert!(text.contains("3 of 14400 outputs wrong") && text.contains("not measured"), "{text}");
    }
}
