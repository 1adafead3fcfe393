//! What an all-reduce costs at least on the box, beside what it took: `--floor` on the page.

use maud::{Markup, html};

use super::axis::across;
use super::page::{facts, set_name};
use super::shown::Shown;
use crate::plan::schedule::Arm;
use crate::record::run::Cell;
use crate::report::cells::{Group, figure, name};
use crate::report::floor::{lines, reached};

/// Hops, kernel and the tables of a run; nothing where no floor was looked for.
pub(super) fn section(shown: &Shown) -> Option<Markup> {
    let floor = shown.run.floor.as_ref()?;
    let known = shown.run.cells.iter().any(|cell| cell.floor.is_some());
    Some(html! {
        p.note { "What an all-reduce costs at least here: its steps alone, without the bytes of the message. A bar is the median, its solid part the ring's floor." }
        (facts(&lines(floor)))
        @if known { @for group in &shown.groups { (table(shown, group)) } }
    })
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
