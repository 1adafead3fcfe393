//! Ratios with their intervals against the band of what counts as the same: a table whose middle column is drawn.

use maud::{Markup, html};

use super::axis::{Scale, across, label};
use super::page::{set_name, verdict};
use super::shown::{Shown, pick};
use crate::record::run::Verdict;
use crate::report::cells::{arms, figure, interval, name, thing};
use crate::report::conclusion::percent;

/// Rows of one plot.
const ROWS: usize = 48;
/// Ratios that a plot shows at most; what lies beyond stands at its edge.
const WIDEST: f64 = 20.0;
/// Texts that fit under the drawn column on a phone.
const TICKS: usize = 6;

/// A row: a ratio and what it is of.
pub(super) struct Row {
    /// What stands under each other begins with the same.
    pub(super) size: String,
    pub(super) set: String,
    pub(super) colour: Option<usize>,
    pub(super) ratio: Option<f64>,
    pub(super) interval: Option<[f64; 2]>,
    pub(super) verdict: Verdict,
    /// Several cells together.
    pub(super) joint: bool,
}

/// The plots of a run, one for each table, each followed by all its sizes together.
pub(super) fn section(shown: &Shown) -> Markup {
    let base = shown.run.header.plan.arms().next().map(|arm| name(shown.run, arm)).unwrap_or_default();
    let tolerance = shown.run.header.plan.tolerance;
    html! {
        @if arms(shown.run).len() > 1 {
            @for group in &shown.groups {
                (table(&group.title(), &base, tolerance, &rows(shown, &group.cases)))
            }
            @let joint = joint(shown);
            @if !joint.is_empty() { (table(&format!("all {}s together", thing(shown.run)), &base, tolerance, &joint)) }
        }
    }
}

fn rows(shown: &Shown, cases: &[usize]) -> Vec<Row> {
    let candidates: Vec<_> = shown.plotted.iter().enumerate().skip(1).collect();
    let cases = pick(cases, (ROWS / candidates.len().max(1)).max(1), &|_| false);
    let row = |case: usize, (colour, arm): (usize, &crate::plan::schedule::Arm)| {
        let cell = shown.cell(*arm, case)?;
        Some(Row {
            size: shown.run.header.plan.cases[case].label(),
            set: name(shown.run, *arm),
            colour: Some(colour),
            ratio: cell.ratio,
            interval: cell.ratio_interval,
            verdict: cell.verdict,
            joint: false,
        })
    };
    cases.iter().flat_map(|case| candidates.iter().filter_map(move |of| row(*case, *of))).collect()
}

/// Sets over all sizes of a mode, where there are several.
fn joint(shown: &Shown) -> Vec<Row> {
    let modes = shown.run.header.plan.modes();
    let of_mode = |mode| shown.run.header.plan.cases.iter().filter(move |case| case.mode == mode).count();
    let wanted = shown.run.joint.iter().filter(|joint| of_mode(joint.mode) > 1);
    let row = |joint: &crate::record::run::Joint| {
        let colour = shown.plotted.iter().position(|arm| *arm == joint.arm).filter(|at| *at > 0)?;
        Some(Row {
            size: joint.mode.to_string(),
            set: name(shown.run, joint.arm),
            colour: Some(colour),
            ratio: joint.ratio,
            interval: joint.ratio_interval,
            verdict: joint.verdict,
            joint: true,
        })
    };
    let mut rows: Vec<Row> = wanted.filter_map(row).collect();
    rows.sort_by_key(|row| modes.iter().position(|mode| mode.to_string() == row.size));
    rows
}

/// One plot.
pub(super) fn table(title: &str, base: &str, tolerance: f64, rows: &[Row]) -> Markup {
    let scale = scale(rows, tolerance);
    let band = (scale.at(1.0 / (1.0 + tolerance)), scale.at(1.0 + tolerance));
    html! {
        table.forest role="table" {
            caption { span.strong { (title) } " · time relative to " (base) ", left is faster; shaded: the same within " (percent(tolerance)) }
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" { "size, set" } th role="columnheader" { "ratio, 95% interval" }
                th.n role="columnheader" { "ratio" } th role="columnheader" { "verdict" }
            } }
            tbody role="rowgroup" {
                @for (at, row) in rows.iter().enumerate() {
                    tr.first[at > 0 && rows[at - 1].size != row.size] role="row" {
                        th role="rowheader" scope="row" { (row.size) " " (set_name(row.colour, &row.set)) }
                        td.plotted role="cell" { (drawn(row, &scale, band)) }
                        td.n role="cell" { (figure(row.ratio)) @if row.interval.is_some() { " (" (interval(row.interval)) ")" } }
                        td.verdict role="cell" { (verdict(row.verdict)) }
                    }
                }
            }
            tfoot aria-hidden="true" { tr { td {} td.plotted { (ticks(&scale)) } td {} td {} } }
        }
    }
}

/// From the smallest to the largest end of an interval, at least twice the tolerance to both sides of 1.
fn scale(rows: &[Row], tolerance: f64) -> Scale {
    let ends = || rows.iter().flat_map(|row| row.interval.into_iter().flatten().chain(row.ratio));
    let low = ends().fold(1.0 / (1.0 + 2.0 * tolerance), f64::min).max(1.0 / WIDEST);
    let high = ends().fold(1.0 + 2.0 * tolerance, f64::max).min(WIDEST);
    Scale::log(low / 1.03, high * 1.03)
}

fn drawn(row: &Row, scale: &Scale, (from, to): (f64, f64)) -> Markup {
    let one = across(scale.at(1.0));
    html! {
        svg class={ "v-" (row.verdict) } aria-hidden="true" {
            @for tick in scale.ticks(TICKS) { line.g x1=(across(scale.at(tick))) x2=(across(scale.at(tick))) y1="0" y2="100%" {} }
            rect.band x=(across(from)) width=(across(to - from)) y="0" height="100%" {}
            @if row.ratio.is_some() { line.one x1=(one) x2=(one) y1="0" y2="100%" {} }
            @if let Some([low, high]) = row.interval {
                line.bar x1=(across(scale.at(low))) x2=(across(scale.at(high))) y1="13" y2="13" {}
                @for end in [low, high] {
                    line.bar x1=(across(scale.at(end))) x2=(across(scale.at(end))) y1="9" y2="17" {}
                }
            }
            @if let Some(ratio) = row.ratio {
                svg x=(across(scale.at(ratio))) y="13" width="1" height="1" {
                    @if row.joint { path.mark d="M0-7L8 0L0 7L-8 0z" {} } @else { path.mark d="M-4.5-4.5h9v9h-9z" {} }
                }
            } @else {
                text x="50%" y="17" text-anchor="middle" { "no figures" }
            }
        }
    }
}

fn ticks(scale: &Scale) -> Markup {
    html! {
        svg {
            line.axis x1="0" x2="100%" y1="1" y2="1" {}
            @for tick in scale.ticks(TICKS) {
                line.axis x1=(across(scale.at(tick))) x2=(across(scale.at(tick))) y1="1" y2="6" {}
                text x=(across(scale.at(tick))) y="19" text-anchor="middle" { (label(tick)) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn every_ratio_is_a_row_with_its_figures_in_words() {
        let run = fixture::two_sets();
        let text = section(&Shown::of(&run)).into_string();
        assert_eq!(text.matches(r#"class="v-faster""#).count(), 4 + 1, "four sizes and all together");
        assert!(text.contains("0.60 (0.59–0.61)"), "{text}");
        assert!(text.contains("left is faster"));
    }

    #[test]
    fn the_axis_holds_one_and_the_tolerance_whatever_was_measured() {
        let row = |ratio: f64| Row {
            size: String::new(),
            set: String::new(),
            colour: None,
            ratio: Some(ratio),
            interval: None,
            verdict: Verdict::Slower,
            joint: false,
        };
        for ratio in [0.001, 0.5, 1.0, 3.0, 1e6] {
            let scale = scale(&[row(ratio)], 0.05);
            for inside in [1.0 / 1.05, 1.0, 1.05] {
                assert!(scale.at(inside) > 0.0 && scale.at(inside) < 1.0, "{ratio}");
            }
        }
    }

    #[test]
    fn what_was_not_measured_says_so() {
        let mut run = fixture::two_sets();
        for cell in run.cells.iter_mut().filter(|cell| cell.arm.set == 1) {
            (cell.ratio, cell.ratio_interval, cell.verdict) = (None, None, Verdict::Invalid);
        }
        let text = section(&Shown::of(&run)).into_string();
        assert_eq!(text.matches("no figures").count(), 4);
    }

    #[test]
    fn a_run_of_one_set_has_nothing_to_compare() {
        let run = fixture::run(&["default"], &[fixture::case(1, crate::collective::Mode::Graph)]);
        assert_eq!(section(&Shown::of(&run)).into_string(), "");
    }
}
