//! `--floor`: what an all-reduce costs at least on this box, beside what each cell took.

use maud::{Markup, html};

use super::latency::{self, Bound};
use super::page::{facts, set_name};
use super::shown::Shown;
use crate::plan::schedule::Arm;
use crate::record::floor::CellFloor;
use crate::report::cells::{Group, figure, name};
use crate::report::floor::{lines, reached};

/// The floors and their dashes.
const FLOORS: [(&str, &str, fn(&CellFloor) -> f64); 2] =
    [("ring floor", "", |floor| floor.ring_us), ("one-shot floor", "dotted", |floor| floor.one_shot_us)];

/// The floor of a run; nothing where none was looked for.
pub(super) fn section(shown: &Shown, id: &str) -> Option<Markup> {
    let floor = shown.run.floor.as_ref()?;
    let groups: Vec<&Group> = shown.groups.iter().filter(|group| any(shown, group)).collect();
    let drawn: Vec<Markup> = groups
        .iter()
        .enumerate()
        .filter_map(|(at, group)| drawing(shown, group, &format!("{id}-floor-{at}")))
        .collect();
    Some(html! {
        p.note {
            "What an all-reduce costs at least here: its steps alone, without the bytes of the message. A ring takes its hops one after the other, one shot takes a single one; each with the launch of a kernel. Reached is the floor as a share of the measured median: the rest is bytes and NCCL's own work."
        }
        (facts(&lines(floor)))
        @if groups.is_empty() { p { "No cell has a floor: which memory its hops go over is not known, or was not measured." } }
        @if !drawn.is_empty() { div.grid.wide { @for plot in &drawn { (plot) } } }
        @for group in &groups { (table(shown, group)) }
    })
}

fn of(shown: &Shown, arm: Arm, case: usize) -> Option<CellFloor> {
    shown.cell(arm, case)?.floor
}

fn any(shown: &Shown, group: &Group) -> bool {
    group.cases.iter().any(|case| shown.arms.iter().any(|arm| of(shown, *arm, *case).is_some()))
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
fn bound(shown: &Shown, group: &Group, (floor, class, micros): (&str, &'static str, fn(&CellFloor) -> f64)) -> Bound {
    let cases = &shown.run.header.plan.cases;
    let mut differ = false;
    let mut points: Vec<(u64, f64)> = Vec::new();
    for &case in &group.cases {
        let all = shown.plotted.iter().filter_map(|arm| of(shown, *arm, case).as_ref().map(micros));
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
    html! {
        div.scroll { table.cards role="table" {
            caption { span.strong { (group.title()) } }
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" scope="col" { "size" } th.n role="columnheader" scope="col" { "bytes" }
                th role="columnheader" scope="col" { "set" } th.n role="columnheader" scope="col" { "median µs" }
                @for (floor, ..) in FLOORS { th.n role="columnheader" scope="col" { (floor) " µs" br; "reached" } }
            } }
            tbody role="rowgroup" { @for case in &group.cases { @for (at, arm) in shown.arms.iter().enumerate() {
                (row(shown, *case, *arm, at == 0))
            } } }
        } }
    }
}

fn row(shown: &Shown, case: usize, arm: Arm, first: bool) -> Markup {
    let of_case = &shown.run.header.plan.cases[case];
    let colour = shown.plotted.iter().position(|plotted| *plotted == arm);
    let cell = shown.cell(arm, case);
    html! {
        tr role="row" class=(if first { "first" } else { "again" }) {
            th.size role="rowheader" scope="row" { (of_case.label()) }
            td.n.size.bytes role="cell" { (of_case.bytes().0) }
            td.name role="cell" { (set_name(colour, &name(shown.run, arm))) }
            td.n role="cell" data-label="median µs" { (figure(cell.and_then(|cell| cell.median_us))) }
            @for (floor, _, micros) in FLOORS {
                @let least = of(shown, arm, case).as_ref().map(micros);
                td.n role="cell" data-label={ (floor) " µs, reached" } {
                    (figure(least)) @if let Some(cell) = cell { " " span.strong { (reached(cell, least)) } }
                }
            }
        }
    }
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
    fn each_cell_stands_beside_its_floors_and_the_curves_above_them() {
        let run = measured();
        let text = section(&Shown::of(&run), "r").expect("it was measured").into_string();
        assert_eq!(text.matches(">25%<").count(), 2 * 4, "{text}");
        assert_eq!(text.matches(">10%<").count(), 2 * 4, "{text}");
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

    #[test]
    fn a_floor_that_holds_for_no_cell_says_so() {
        let mut run = measured();
        run.cells.iter_mut().for_each(|cell| cell.floor = None);
        let text = section(&Shown::of(&run), "r").expect("it was looked for").into_string();
        assert!(text.contains("No cell has a floor") && !text.contains("<table"), "{text}");
    }
}
