//! What an all-reduce costs at least on the box, beside what it took: `--floor` on the page.

use maud::{Markup, html};

use super::axis::across;
use super::latency::{self, Bound};
use super::page::{facts, set_name};
use super::shown::Shown;
use crate::plan::schedule::Arm;
use crate::record::floor::CellFloor;
use crate::record::run::Cell;
use crate::report::cells::{Group, figure, name};
use crate::report::floor::{lines, reached};

/// Its name, its dashes, and what it is of a cell.
type Kind = (&'static str, &'static str, fn(&CellFloor) -> f64);

const FLOORS: [Kind; 2] =
    [("ring floor", "", |floor| floor.ring_us), ("one-shot floor", "dotted", |floor| floor.one_shot_us)];

/// Hops, kernel and the tables of a run; nothing where no floor was looked for.
pub(super) fn section(shown: &Shown, id: &str) -> Option<Markup> {
    let floor = shown.run.floor.as_ref()?;
    let known = shown.run.cells.iter().any(|cell| cell.floor.is_some());
    let drawn = |(at, group)| drawing(shown, group, &format!("{id}-floor-{at}"));
    let drawn: Vec<Markup> = shown.groups.iter().enumerate().filter_map(drawn).collect();
    Some(html! {
        p.note { "What an all-reduce costs at least here: its steps alone, without the bytes of the message. A bar is the median, its solid part the ring's floor." }
        (facts(&lines(floor)))
        @if !drawn.is_empty() { div.grid.wide { @for plot in &drawn { (plot) } } }
        @if known { @for group in &shown.groups { (table(shown, group)) } }
    })
}

/// Medians above the floors, by size.
fn drawing(shown: &Shown, group: &Group, id: &str) -> Option<Markup> {
    let series = latency::series(shown, group);
    let bounds: Vec<Bound> = FLOORS.iter().map(|floor| bound(shown, group, *floor)).collect();
    let curves = group.cases.len() > 1 && !series.is_empty() && bounds.iter().all(|bound| bound.points.len() > 1);
    let title = format!("{}, above its floors", group.title());
    curves.then(|| {
        html! { figure {
            figcaption { span.strong { (group.title()) } }
            (latency::above(id, &title, &series, &bounds, &latency::sizes(shown, group)))
        } }
    })
}

/// A floor by size: the lowest of the sets, which differ where their ranks are connected over different memory.
fn bound(shown: &Shown, group: &Group, (floor, class, micros): Kind) -> Bound {
    let cases = &shown.run.header.plan.cases;
    let mut differ = false;
    let mut points: Vec<(u64, f64)> = Vec::new();
    for &case in &group.cases {
        let all = shown
            .plotted
            .iter()
            .filter_map(|arm| shown.cell(*arm, case).and_then(|cell| cell.floor.as_ref()).map(micros));
        let all: Vec<f64> = all.collect();
        if let Some(lowest) = all.iter().copied().reduce(f64::min) {
            differ |= all.iter().any(|other| *other > lowest);
            points.push((cases[case].bytes().0, lowest));
        }
    }
    points.sort_by_key(|(bytes, _)| *bytes);
    let name = if differ { format!("{floor}, the lowest of the sets") } else { floor.to_owned() };
    Bound { name, class, points }
}

fn table(shown: &Shown, group: &Group) -> Markup {
    let cells = || group.cases.iter().flat_map(|case| shown.arms.iter().filter_map(|arm| shown.cell(*arm, *case)));
    let longest = cells().filter_map(|cell| cell.median_us).fold(0.0, f64::max);
    html! {
        div.scroll { table.cards role="table" {
            caption { span.strong { (group.title()) } }
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" scope="col" { "size" } th role="columnheader" scope="col" { "set" }
                th.n role="columnheader" scope="col" { "median" br; "µs" }
                th.plotted role="columnheader" scope="col" { "floor in median" }
                th.n role="columnheader" scope="col" { "ring floor" br; "µs, reached" }
                th.n role="columnheader" scope="col" { "one-shot floor" br; "µs, reached" }
            } }
            tbody role="rowgroup" {
                @for case in &group.cases {
                    @for (at, arm) in shown.arms.iter().enumerate() {
                        @if let Some(row) = row(shown, *case, *arm, at == 0, longest) { (row) }
                    }
                }
            }
        } }
    }
}

fn row(shown: &Shown, case: usize, arm: Arm, first: bool, longest: f64) -> Option<Markup> {
    let cell = shown.cell(arm, case)?;
    let floor = cell.floor.as_ref();
    let (ring, one_shot) = (floor.map(|floor| floor.ring_us), floor.map(|floor| floor.one_shot_us));
    let colour = shown.plotted.iter().position(|plotted| *plotted == arm);
    Some(html! {
        tr role="row" class=(if first { "first" } else { "again" }) {
            th.size role="rowheader" scope="row" { (shown.run.header.plan.cases[case].label()) }
            td.name role="cell" { (set_name(colour, &name(shown.run, arm))) }
            td.n role="cell" data-label="median µs" { span.strong { (figure(cell.median_us)) } }
            td.plotted.full role="cell" { @if let Some(bar) = bar(cell, ring, colour, longest) { (bar) } }
            td.n role="cell" data-label="ring floor µs, reached" { (of(cell, ring)) }
            td.n role="cell" data-label="one-shot floor µs, reached" { (of(cell, one_shot)) }
        }
    })
}

fn of(cell: &Cell, floor: Option<f64>) -> Markup {
    html! { (figure(floor)) @if floor.is_some() { " " span.quiet { "(" (reached(cell, floor)) ")" } } }
}

/// The median from the left, as long as the longest is wide, with the floor in it. The figures stand beside it.
fn bar(cell: &Cell, floor: Option<f64>, colour: Option<usize>, longest: f64) -> Option<Markup> {
    let median = cell.median_us?;
    let wide = |micros: f64| across(micros / longest);
    Some(html! {
        svg class={ "level-bar s" (colour.unwrap_or(0)) } aria-hidden="true" {
            rect.whole width=(wide(median)) height="100%" {}
            @if let Some(floor) = floor { rect.part width=(wide(floor.min(median))) height="100%" {} }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use crate::record::floor::Floor;
    use crate::record::run::Run;

    fn measured() -> Run {
        let mut run = fixture::two_sets();
        run.floor = Some(Floor { started: run.finished, seconds: 1.5, kernels: vec![], hops: vec![], failed: None });
        for cell in &mut run.cells {
            (cell.median_us, cell.floor) = (Some(20.0), Some(CellFloor { ring_us: 5.0, one_shot_us: 2.0 }));
        }
        run
    }

    #[test]
    fn a_run_without_a_floor_has_no_section_of_it() {
        assert!(section(&Shown::of(&fixture::two_sets()), "r").is_none());
    }

    #[test]
    fn the_curves_stand_above_their_floors() {
        let run = measured();
        let text = section(&Shown::of(&run), "r").expect("it was measured").into_string();
        assert_eq!(text.matches("class=\"bound").count(), 2 * 2, "two lines and their keys: {text}");
        assert!(!text.contains("lowest of the sets"), "{text}");
    }

    #[test]
    fn where_sets_have_other_floors_the_line_is_the_lowest() {
        let mut run = measured();
        run.cells.iter_mut().filter(|cell| cell.arm.set == 1).for_each(|cell| {
            cell.floor = Some(CellFloor { ring_us: 9.0, one_shot_us: 2.0 });
        });
        let text = section(&Shown::of(&run), "r").expect("it was measured").into_string();
        assert!(text.contains("ring floor, the lowest of the sets"), "{text}");
        assert!(!text.contains("one-shot floor, the lowest"), "{text}");
    }
}
