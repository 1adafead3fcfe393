//! Latency by size, with intervals, a series for each env set.

use maud::{Markup, html};

use super::axis::{Scale, across, place};
use super::plot::{Plot, legend, mark};
use super::shown::Shown;
use crate::report::cells::{Group, name};

const HEIGHT: f64 = 260.0;
/// Pixels between the marks of two series at one size, so that intervals do not hide each other.
const BESIDE: f64 = 6.0;
/// Texts that fit under the plot on a phone.
const TICKS: usize = 5;
/// Sizes up to which lines between the marks are drawn with marks at every size.
const MARKS: usize = 60;

/// One point of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) median: f64,
    pub(super) interval: Option<[f64; 2]>,
}

/// A series: its place among the colours, its name and its points by size.
pub(super) struct Series {
    pub(super) colour: usize,
    pub(super) name: String,
    pub(super) points: Vec<Point>,
}

/// A bound below the curves, a dashed line by size.
pub(super) struct Bound {
    pub(super) name: String,
    /// Class that tells its dashes from those of other bounds.
    pub(super) class: &'static str,
    /// Bytes and µs, by size.
    pub(super) points: Vec<(u64, f64)>,
}

/// The plots of a run, one for each table.
pub(super) fn section(shown: &Shown, id: &str) -> Markup {
    html! {
        @for (at, group) in shown.groups.iter().enumerate().filter(|(_, group)| group.cases.len() > 1) {
            figure {
                figcaption { span.strong { (group.title()) } }
                (plot(&format!("{id}-latency-{at}"), &group.title(), &series(shown, group), &sizes(shown, group)))
            }
        }
    }
}

pub(super) fn sizes(shown: &Shown, group: &Group) -> Vec<(u64, String)> {
    let cases = &shown.run.header.plan.cases;
    group.cases.iter().map(|case| (cases[*case].bytes().0, cases[*case].label())).collect()
}

pub(super) fn series(shown: &Shown, group: &Group) -> Vec<Series> {
    let of_arm = |(colour, arm): (usize, &crate::plan::schedule::Arm)| {
        let cell = |case: &usize| shown.cell(*arm, *case);
        let point = |cell: &crate::record::run::Cell| {
            Some(Point { bytes: cell.size_bytes, median: cell.median_us?, interval: cell.interval_us })
        };
        let mut points: Vec<Point> = group.cases.iter().filter_map(cell).filter_map(point).collect();
        points.sort_by_key(|point| point.bytes);
        Series { colour, name: name(shown.run, *arm), points }
    };
    shown.plotted.iter().enumerate().map(of_arm).filter(|series| !series.points.is_empty()).collect()
}

/// One plot; `sizes` names the sizes by their bytes.
pub(super) fn plot(id: &str, what: &str, series: &[Series], sizes: &[(u64, String)]) -> Markup {
    above(id, what, series, &[], sizes)
}

/// One plot above its bounds.
pub(super) fn above(id: &str, what: &str, series: &[Series], bounds: &[Bound], sizes: &[(u64, String)]) -> Markup {
    let points = || series.iter().flat_map(|series| &series.points);
    let bounding = bounds.iter().flat_map(|bound| bound.points.iter().map(|(_, micros)| *micros));
    let times = points().flat_map(|point| point.interval.unwrap_or([point.median; 2])).chain(bounding);
    let y = Scale::of_times(times);
    let bytes = || sizes.iter().map(|(bytes, _)| *bytes as f64);
    let (low, high) = (bytes().fold(f64::INFINITY, f64::min), bytes().fold(0.0, f64::max));
    // Room for the marks beside each other at both ends.
    let x = |bytes: u64| 0.05 + 0.9 * Scale::log(low, high).at(bytes as f64);
    let mut ticks: Vec<(f64, String)> = Vec::new();
    let mut sorted: Vec<&(u64, String)> = sizes.iter().collect();
    sorted.sort_by_key(|(bytes, _)| *bytes);
    for (bytes, label) in sorted {
        if ticks.last().is_none_or(|(last, _)| x(*bytes) - last >= 0.9 / TICKS as f64) {
            ticks.push((x(*bytes), label.clone()));
        }
    }
    let title = format!("Latency by size, {what}");
    let scale = if y.is_log() { "µs, logarithmic" } else { "µs" };
    let plot = Plot {
        id: id.to_owned(),
        title: &title,
        description: "Medians with their 95% intervals for each env set; the table of results has the same figures.",
        height: HEIGHT,
        across: ticks,
        x_title: "message size, logarithmic",
        y,
        y_title: scale,
        y_ticks: None,
    };
    let line = |[from, to]: [(u64, f64); 2]| {
        let down = |figure: f64| place((1.0 - y.at(figure)) * HEIGHT);
        html! { line x1=(across(x(from.0))) y1=(down(from.1)) x2=(across(x(to.0))) y2=(down(to.1)) {} }
    };
    let marks = html! {
        @for bound in bounds {
            g class={ "bound " (bound.class) } { @for pair in bound.points.windows(2) { (line([pair[0], pair[1]])) } }
        }
        @for (at, series) in series.iter().enumerate() { (of_series(series, at, &y, &x)) }
    };
    let keys: Vec<(usize, String)> = series.iter().map(|series| (series.colour, series.name.clone())).collect();
    html! {
        (legend(&keys))
        @if !bounds.is_empty() {
            ul.legend { @for bound in bounds {
                li { svg viewBox="-7 -7 14 14" aria-hidden="true" { g class={ "bound " (bound.class) } { line x1="-7" x2="7" y1="0" y2="0" {} } } (bound.name) }
            } }
        }
        (plot.draw(&marks))
    }
}

fn of_series(series: &Series, at: usize, y: &Scale, x: &dyn Fn(u64) -> f64) -> Markup {
    let down = |figure: f64| (1.0 - y.at(figure)) * HEIGHT;
    let few = series.points.len() <= MARKS;
    // The first series stands in the middle, the others right and left of it in turn.
    let beside = if few { at.div_ceil(2) as f64 * if at.is_multiple_of(2) { -BESIDE } else { BESIDE } } else { 0.0 };
    html! {
        g class={ "s" (series.colour) } transform={ "translate(" (beside) " 0)" } {
            @for pair in series.points.windows(2) {
                line.thin x1=(across(x(pair[0].bytes))) y1=(place(down(pair[0].median)))
                    x2=(across(x(pair[1].bytes))) y2=(place(down(pair[1].median))) {}
            }
            @if few {
                @for point in &series.points {
                    @if let Some([low, high]) = point.interval {
                        line.bar x1=(across(x(point.bytes))) x2=(across(x(point.bytes))) y1=(place(down(low))) y2=(place(down(high))) {}
                    }
                    (mark(series.colour, x(point.bytes), down(point.median)))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn every_cell_of_the_plot_has_its_mark_and_its_interval() {
        let run = fixture::two_sets();
        let text = section(&Shown::of(&run), "r").into_string();
        assert_eq!(text.matches(r#"class="bar""#).count(), 2 * 4);
        // A mark for each cell and one for each key.
        assert_eq!(text.matches(r#"class="mark s"#).count(), 2 * 4 + 2);
        assert!(text.contains("7168x1") && text.contains("7168x4"));
    }

    #[test]
    fn one_size_is_no_curve() {
        let run = fixture::run(&["default", "pcie-ll"], &[fixture::case(1, crate::collective::Mode::Graph)]);
        assert_eq!(section(&Shown::of(&run), "r").into_string(), "");
    }

    #[test]
    fn a_cell_without_figures_leaves_a_gap() {
        let mut run = fixture::two_sets();
        run.cells[0].median_us = None;
        run.cells[1].interval_us = None;
        let text = section(&Shown::of(&run), "r").into_string();
        assert_eq!(text.matches(r#"class="bar""#).count(), 2 * 4 - 2);
    }
}
