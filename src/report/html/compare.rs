//! The page of two runs compared.

use std::collections::HashSet;

use maud::{Markup, html};

use super::latency::{self, Point};
use super::panels::{self, Height, Panel, Series};
use super::shown::{left_out, pick};
use super::{Source, footer, forest, page};
use crate::collective::Case;
use crate::compare::{Compared, Comparison, Topic};
use crate::plan::schedule::Arm;
use crate::record::observed::Observations;
use crate::record::run::{Backend, Run, Verdict};
use crate::report::cells::{Group, figure, groups, interval};
use crate::report::compare::{change, findings, sentences, side, tally};
use crate::report::conclusion::percent;
use crate::report::ink::plain;
use crate::units::{self, plural};

/// Rows of all tables together.
const ROWS: usize = 400;
/// Cells with plots of their own.
const PANELS: usize = 12;
/// Changes that are told.
const CHANGES: usize = 100;

/// Which cells of both runs the page shows with their samples and communicators: of the old run, then of the new one.
pub(super) fn wanted(comparison: &Comparison, old: &Run, new: &Run) -> [impl Fn(Arm, usize) -> bool + use<>; 2] {
    let shown = panel_cells(comparison);
    [old, new].map(|run| {
        let keys: HashSet<(Arm, usize)> = shown.iter().filter_map(|cell| key(run, cell)).collect();
        move |arm: Arm, case: usize| keys.contains(&(arm, case))
    })
}

/// Where a run has a compared cell.
fn key(run: &Run, cell: &Compared) -> Option<(Arm, usize)> {
    let plan = &run.header.plan;
    // Both runs name the set as the comparison does, unless libraries of one of them tell more.
    let set = |arm: &Arm| plan.arm_name(*arm) == cell.set || plan.sets[arm.set].name == cell.set;
    Some((plan.arms().find(set)?, plan.cases.iter().position(|case| *case == cell.case)?))
}

/// The cells with plots: what is no longer the same first.
fn panel_cells(comparison: &Comparison) -> Vec<&Compared> {
    let all: Vec<usize> = (0..comparison.cells.len()).collect();
    let changed = |at: usize| comparison.cells[at].verdict != Verdict::Same;
    pick(&all, PANELS, &changed).into_iter().map(|at| &comparison.cells[at]).collect()
}

/// The page.
pub(super) fn comparison(comparison: &Comparison, old: Source, new: Source) -> String {
    let sentences = sentences(comparison);
    let headline = if sentences.len() == 1 { sentences[0].clone() } else { summed_up(comparison) };
    let all: Vec<usize> = (0..comparison.cells.len()).collect();
    let rows = pick(&all, ROWS, &|at| comparison.cells[at].verdict != Verdict::Same);
    let cells: Vec<&Compared> = rows.into_iter().map(|at| &comparison.cells[at]).collect();
    let panels_of = panel_cells(comparison);
    let cut = left_out(&[
        (cells.len(), all.len(), "cell", "in tables"),
        (panels_of.len(), all.len(), "cell", "with plots of samples and communicators"),
    ]);
    let seen: Vec<[Option<Observations>; 2]> =
        panels_of.iter().map(|cell| [of(old, cell), of(new, cell).map(|seen| after(seen, old.run))]).collect();
    let panels: Vec<Panel> =
        panels_of.iter().zip(&seen).enumerate().map(|(at, (cell, seen))| panel(at, cell, seen)).collect();
    let body = html! {
        header {
            p.eyebrow { "ncclsweep · two runs compared" }
            h1 { (page::toned(&headline)) }
            @if sentences.len() > 1 { @for sentence in &sentences { p { (page::toned(sentence)) } } }
            dl.facts {
                dt { "old" } dd { (side(&comparison.old)) }
                dt { "new" } dd { (side(&comparison.new)) }
            }
            (page::left_out(&cut, "ncclsweep compare --format csv has all of them."))
        }
        section { h2 { "What changed" } (changes(comparison)) }
        section {
            h2 { "Ratio of new to old" }
            @for (title, cells) in tables(&cells) { (forest::table(&title, "the old run", comparison.tolerance, &rows_of(&cells))) }
        }
        section {
            h2 { "Results" }
            @for (title, cells) in tables(&cells) { (table(&title, &cells)) }
            (page::facts(&findings(comparison)))
        }
        @let plots = plots(&cells);
        @if !plots.0.is_empty() { section { h2 { "Latency by size" } div.grid.wide { (plots) } } }
        @if !panels.is_empty() {
            section {
                h2 { "Distribution of samples" }
                p.note { @if panels::have_samples(&panels) { "All samples of all communicators." } @else { "Where a journal was not at hand these are the communicators' medians." } " An axis ends where 99% of both runs do." }
                (panels::keys(&panels)) (panels::distributions(&panels))
            }
            section {
                h2 { "Communicators over the rounds" }
                p.note { "A dot is the median of one communicator; the old run's rounds first, then those of the new one. Axes do not begin at zero." }
                (panels::keys(&panels)) (panels::strips(&panels, Height::Micros))
            }
        }
        (footer())
    };
    let alarm = "EMULATED: virtual time. These figures say nothing about a real box.";
    let title = crate::report::Style::default().finish(&headline);
    page::page(&title, (comparison.backend == Backend::Emulated).then_some(alarm), &body)
}

/// `1 of 8 cells is slower than it was: 1 slower, 7 same`: the worst first.
fn summed_up(comparison: &Comparison) -> String {
    let all = comparison.cells.len();
    let count = |of: Verdict| comparison.cells.iter().filter(|cell| cell.verdict == of).count();
    let tolerance = percent(comparison.tolerance);
    let some = |number: usize, what: &str| {
        let verb = if number == 1 { "is" } else { "are" };
        format!(
            "{} of {} {verb} {what}: {}",
            units::count(number as u64),
            plural(all, "cell"),
            tally(&comparison.cells)
        )
    };
    match () {
        () if all == 0 => "no cell is in both runs".to_owned(),
        () if count(Verdict::Same) == all => format!("all {} are the same within {tolerance}", plural(all, "cell")),
        () if count(Verdict::Invalid) > 0 => some(count(Verdict::Invalid), "invalid"),
        () if count(Verdict::Slower) > 0 => some(count(Verdict::Slower), "slower than before"),
        () if count(Verdict::Faster) > 0 => some(count(Verdict::Faster), "faster than before"),
        () => some(count(Verdict::Undecided), "undecided"),
    }
}

fn of(source: Source, cell: &Compared) -> Option<Observations> {
    let (arm, case) = key(source.run, cell)?;
    source.observed.cell(arm, case).cloned()
}

/// Observations of the new run, placed after all visits of the old one.
fn after(mut seen: Observations, run: &Run) -> Observations {
    let (visits, rounds) = run
        .visits
        .iter()
        .fold((0, 0), |(visits, rounds), visit| (visits.max(visit.index + 1), rounds.max(visit.round + 1)));
    for visit in &mut seen.visits {
        visit.index += visits;
        visit.round += rounds;
    }
    seen
}

fn panel<'a>(at: usize, cell: &Compared, seen: &'a [Option<Observations>; 2]) -> Panel<'a> {
    let series = ["old", "new"].iter().zip(seen).enumerate();
    let series = series
        .filter_map(|(colour, (name, seen))| Some(Series { colour, name: (*name).to_owned(), seen: seen.as_ref()? }));
    let title = format!("{} · {} {}", plain(&cell.set), cell.case.label(), cell.case.mode);
    Panel { id: format!("c-{at}"), title, series: series.collect() }
}

fn changes(comparison: &Comparison) -> Markup {
    let topic = |topic: Topic| match topic {
        Topic::Host => "host",
        Topic::Driver => "driver",
        Topic::Nccl => "NCCL",
        Topic::Gpus => "GPUs",
        Topic::Link => "links",
        Topic::Settings => "settings",
        Topic::Chosen => "NCCL's choice",
        Topic::Method => "method",
    };
    let all = &comparison.changes;
    html! {
        @if all.is_empty() { p { "Nothing that the runs tell: box, software, settings and what NCCL chose are as they were." } }
        dl.facts {
            @for of_topic in all[..all.len().min(CHANGES)].chunk_by(|a, b| a.topic == b.topic) {
                dt { (topic(of_topic[0].topic)) }
                @for of in of_topic { dd { (page::toned(&change(of))) } }
            }
        }
        @if all.len() > CHANGES { p.note { (all.len() - CHANGES) " changes more are left out." } }
    }
}

/// Cells by table, with the tables' titles.
fn tables<'a>(cells: &[&'a Compared]) -> Vec<(String, Vec<&'a Compared>)> {
    let cases: Vec<Case> = cells.iter().map(|cell| cell.case).collect();
    let of = |group: Group| (group.title(), group.cases.iter().map(|at| cells[*at]).collect());
    groups(&cases).into_iter().map(of).collect()
}

fn rows_of(cells: &[&Compared]) -> Vec<forest::Row> {
    let row = |cell: &&Compared| forest::Row {
        size: cell.case.label(),
        set: plain(&cell.set),
        colour: None,
        ratio: cell.ratio,
        interval: cell.ratio_interval,
        verdict: cell.verdict,
        joint: false,
    };
    cells.iter().map(row).collect()
}

fn table(title: &str, cells: &[&Compared]) -> Markup {
    let beside = |ends: Option<[f64; 2]>| html! { @if ends.is_some() { " " span.quiet { "(" (interval(ends)) ")" } } };
    html! {
        div.scroll { table.cards role="table" {
            caption { span.strong { (title) } }
            thead role="rowgroup" { tr role="row" {
                th role="columnheader" scope="col" { "size" } th.n role="columnheader" scope="col" { "bytes" } th role="columnheader" scope="col" { "set" }
                th.n role="columnheader" scope="col" { "old median µs" br; "95% interval" } th.n role="columnheader" scope="col" { "new median µs" br; "95% interval" }
                th.n role="columnheader" scope="col" { "ratio" br; "95% interval" } th role="columnheader" scope="col" { "verdict" }
                th role="columnheader" scope="col" { "settings" br; "old, new" }
            } }
            tbody role="rowgroup" { @for cell in cells {
                tr.first role="row" {
                    th.size role="rowheader" scope="row" { (cell.case.label()) }
                    td.n.size.bytes role="cell" { (cell.size_bytes) }
                    td.name role="cell" { (page::set_name(None, &plain(&cell.set))) }
                    td.n role="cell" data-label="old median µs" { (figure(cell.old.median_us)) (beside(cell.old.interval_us)) }
                    td.n role="cell" data-label="new median µs" { (figure(cell.new.median_us)) (beside(cell.new.interval_us)) }
                    td.n role="cell" data-label="ratio" { span.strong { (figure(cell.ratio)) } (beside(cell.ratio_interval)) }
                    td.verdict role="cell" { (page::verdict(cell.verdict)) }
                    td.full role="cell" data-label="settings, old and new" { (page::applied(cell.old.applied)) ", " (page::applied(cell.new.applied)) }
                }
            } }
        } }
    }
}

/// A plot for each table and set, old beside new.
fn plots(cells: &[&Compared]) -> Markup {
    const MOST: usize = 8;
    let mut drawn: Vec<Markup> = Vec::new();
    for (title, cells) in tables(cells) {
        let mut sets: Vec<&str> = cells.iter().map(|cell| cell.set.as_str()).collect();
        sets.sort_unstable();
        sets.dedup();
        for set in sets {
            let of: Vec<&&Compared> = cells.iter().filter(|cell| cell.set == set).collect();
            if of.len() < 2 || drawn.len() == MOST {
                continue;
            }
            let title = format!("{} · {title}", plain(set));
            let sizes: Vec<(u64, String)> = of.iter().map(|cell| (cell.size_bytes, cell.case.label())).collect();
            let id = format!("c-latency-{}", drawn.len());
            let plot = latency::plot(&id, &title, &[series(&of, 0), series(&of, 1)], &sizes);
            drawn.push(html! { figure { figcaption { span.strong { (title) } } (plot) } });
        }
    }
    html! { @for plot in drawn { (plot) } }
}

/// The old run's figures (0), or those of the new one (1).
fn series(cells: &[&&Compared], which: usize) -> latency::Series {
    let figures = |cell: &&&Compared| {
        let of = if which == 0 { &cell.old } else { &cell.new };
        Some(Point { bytes: cell.size_bytes, median: of.median_us?, interval: of.interval_us })
    };
    let mut points: Vec<Point> = cells.iter().filter_map(figures).collect();
    points.sort_by_key(|point| point.bytes);
    latency::Series { colour: which, name: ["old", "new"][which].to_owned(), points }
}
