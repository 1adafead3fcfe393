//! `report.html`: a run, several runs, or two runs compared, as one page that needs nothing but itself.
//!
//! [`runs_of`] and [`comparison_of`] make pages from files; [`run`](fn@run) from a document and what was observed of the cells
//! that [`wanted`] names.
//! Its size is bounded whatever the size of the run: `shown` decides what is left out, and the page says so.

mod axis;
mod compare;
mod connections;
mod floor;
mod forest;
mod latency;
mod page;
mod panels;
mod plot;
mod provenance;
mod results;
mod settings;
mod shown;
mod timings;

use std::collections::HashSet;

use maud::{Markup, PreEscaped, html};

use self::panels::{Height, Panel, Series};
use self::shown::Shown;
use super::cells::{figure, in_mode, interval, label, name};
use super::conclusion::{headline, sentences};
use super::ink::plain;
use super::{findings, head};
use crate::compare::Comparison;
use crate::error::Result;
use crate::plan::schedule::Arm;
use crate::record::observed::Observed;
use crate::record::run::{Backend, Run, Verdict};
use crate::record::stored::Stored;
use crate::topology::svg;
use crate::units::plural;

/// Name of the page in a run's folder.
pub const FILE: &str = "report.html";

/// Joint ratios on top.
const TILES: usize = 6;

/// A run and what was observed in it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its document.
    pub run: &'a Run,
    /// What was observed of the cells that [`wanted`] names.
    pub observed: &'a Observed,
}

/// Which cells of a run a page shows with their samples and communicators.
pub fn wanted(run: &Run) -> impl Fn(Arm, usize) -> bool + use<> {
    let shown = Shown::of(run);
    let pairs = shown.panels.iter().flat_map(|case| shown.plotted.iter().map(move |arm| (*arm, *case)));
    let pairs: HashSet<(Arm, usize)> = pairs.collect();
    move |arm, case| pairs.contains(&(arm, case))
}

/// The page of a run.
#[must_use]
pub fn run(source: Source) -> String {
    let title = super::ink::Style::default().finish(&headline(source.run));
    page::page(&title, head::alarm(source.run).as_deref(), &html! { (of_run(source, "r0", true)) (footer()) })
}

/// One page of several runs, one after the other.
#[must_use]
pub fn runs(sources: &[Source]) -> String {
    if let [one] = sources {
        return run(*one);
    }
    let alarm = sources.iter().any(|source| source.run.header.backend == Backend::Emulated);
    let body = html! {
        p.eyebrow { "ncclsweep · " (plural(sources.len(), "run")) }
        h1 { (plural(sources.len(), "run")) }
        ul { @for (at, source) in sources.iter().enumerate() {
            li { a href={ "#r" (at) } { (plain(&head::title(source.run))) } ": " (page::toned(&headline(source.run))) }
        } }
        @for (at, source) in sources.iter().enumerate() {
            article id={ "r" (at) } { hr; (of_run(*source, &format!("r{at}"), false)) }
        }
        (footer())
    };
    let alarm =
        alarm.then_some("EMULATED: virtual time in some of these runs. Those figures say nothing about a real box.");
    page::page(&plural(sources.len(), "run"), alarm, &body)
}

/// The page of stored runs, observed from their files.
pub fn runs_of(stored: &[Stored]) -> Result<String> {
    let observed: Vec<Observed> = stored.iter().map(|of| Observed::of(of, &wanted(&of.run))).collect::<Result<_>>()?;
    let sources = stored.iter().zip(&observed).map(|(of, observed)| Source { run: &of.run, observed });
    Ok(runs(&sources.collect::<Vec<_>>()))
}

/// The page of two stored runs and their comparison.
pub fn comparison_of(comparison: &Comparison, [old, new]: [&Stored; 2]) -> Result<String> {
    let [of_old, of_new] = compare::wanted(comparison, &old.run, &new.run);
    let (old_seen, new_seen) = (Observed::of(old, &of_old)?, Observed::of(new, &of_new)?);
    let old = Source { run: &old.run, observed: &old_seen };
    Ok(compare::comparison(comparison, old, Source { run: &new.run, observed: &new_seen }))
}

fn footer() -> Markup {
    html! {
        footer {
            p { "One file, no scripts, nothing loaded: it can be sent by mail and opened anywhere. " code { "ncclsweep report RUN --format csv" } " has every observation behind it, " code { "--format json" } " the whole document." }
        }
    }
}

/// A run within a page; `id` begins all its anchors.
fn of_run(source: Source, id: &str, first: bool) -> Markup {
    let run = source.run;
    let shown = Shown::of(run);
    let panels = panels(&shown, source.observed, id);
    let connections = connections::section(&shown, source.observed, id);
    let (floor, timings) = (floor::section(&shown), timings::section(&shown));
    let wiring = run.header.provenance.topology.as_ref().filter(|topology| !topology.gpus.is_empty());
    html! {
        header {
            p.eyebrow { (plain(&head::title(run))) }
            @if first { h1 { (page::toned(&headline(run))) } } @else { h2 { (page::toned(&headline(run))) } }
            @if !first { @if let Some(alarm) = head::alarm(run) { p.bad { (alarm) } } }
            @if !run.complete { p.doubt { "Stopped early: not every planned visit was made." } }
            (tiles(&shown))
            (warnings(run))
            (page::facts(&head::lines(run)))
            (contents(id, &Parts {
                panels: !panels.is_empty(),
                floor: floor.is_some(),
                topology: wiring.is_some() || connections.is_some(),
                timings: timings.is_some(),
            }))
            (page::left_out(&shown.left_out, "The files of the run have all of it: ncclsweep report --format csv or json."))
        }
        section {
            h2 id={ (id) "-results" } { "Results" }
            p.note { "Times of one all-reduce: the median with the 95% interval of the typical time over visits. A ratio is the time relative to the baseline's; below 1 is faster." }
            @let sentences = sentences(run);
            @if sentences.len() > 1 { @for sentence in sentences { p { (page::toned(&sentence)) } } }
            (results::section(&shown))
            (page::facts(&findings::lines(run).into_iter().filter(|line| line.label != "warning").collect::<Vec<_>>()))
        }
        @let forest = forest::section(&shown);
        section {
            h2 id={ (id) "-ratios" } { "Ratio to the baseline" }
            (forest)
            @if forest.0.is_empty() { p.note { "One set was measured: nothing to compare." } }
        }
        section {
            h2 id={ (id) "-latency" } { "Latency by size" }
            p.note { "Medians with 95% intervals; marks of one size stand beside each other." }
            @let plots = latency::section(&shown, id);
            div.grid.wide { (plots) }
            @if plots.0.is_empty() { p.note { "One size was measured: no curve to draw." } }
        }
        @if !panels.is_empty() {
            section {
                h2 id={ (id) "-samples" } { "Distribution of samples" }
                p.note {
                    @if panels::have_samples(&panels) { "All samples of all communicators." } @else { "The samples are in the run's journal, which was not at hand: these are the communicators' medians." }
                    " They show the shape; intervals rest on visits, for samples of one communicator are no independent evidence. An axis ends where 99% of every set do."
                }
                (panels::keys(&panels)) (panels::distributions(&panels))
            }
            section {
                h2 id={ (id) "-rounds" } { "Communicators over the rounds" }
                p.note { "A dot is the median of one communicator, relative to the level of its set; a line joins the levels of the set's visits in the order of time. Where lines climb or fall together, the box drifted." }
                (panels::keys(&panels)) (panels::strips(&panels, Height::OfLevel))
            }
        }
        @if let Some(floor) = &floor { section { h2 id={ (id) "-floor" } { "The floor" } (floor) } }
        @if wiring.is_some() || connections.is_some() {
            section {
                h2 id={ (id) "-topology" } { "Topology" }
                @if let Some(topology) = wiring {
                    p.note { "How the GPUs are wired, as far as kernel and driver told. What is not known is drawn as such." }
                    // The drawing escapes its own texts.
                    div.scroll.wiring { (PreEscaped(svg(topology))) }
                }
                @if let Some(connections) = &connections { h3 { "Connections" } (connections) }
            }
        }
        section { h2 id={ (id) "-settings" } { "Proof of the settings" } (settings::section(&shown)) }
        @if let Some(timings) = &timings { section { h2 id={ (id) "-time" } { "Where the time went" } (timings) } }
        section { h2 id={ (id) "-provenance" } { "Provenance" } (provenance::section(run)) }
    }
}

/// Sections that only some runs have.
struct Parts {
    panels: bool,
    floor: bool,
    topology: bool,
    timings: bool,
}

fn contents(id: &str, parts: &Parts) -> Markup {
    let all = [
        ("results", "Results", true),
        ("ratios", "Ratios", true),
        ("latency", "Latency", true),
        ("samples", "Samples", parts.panels),
        ("rounds", "Rounds", parts.panels),
        ("floor", "Floor", parts.floor),
        ("topology", "Topology", parts.topology),
        ("settings", "Settings", true),
        ("time", "Time", parts.timings),
        ("provenance", "Provenance", true),
    ];
    html! {
        nav aria-label="Sections" { ul {
            @for (anchor, text, _) in all.iter().filter(|(.., there)| *there) { li { a href={ "#" (id) "-" (anchor) } { (text) } } }
        } }
    }
}

/// The ratio of each set over all sizes of a mode, the first few.
fn tiles(shown: &Shown) -> Markup {
    let run = shown.run;
    let base = run.header.plan.arms().next().map(|arm| name(run, arm)).unwrap_or_default();
    let candidates =
        run.joint.iter().filter(|joint| joint.verdict != Verdict::Baseline && shown.plotted.contains(&joint.arm));
    html! {
        ul.tiles {
            @for joint in candidates.take(TILES) {
                li class=(joint.verdict) {
                    span.quiet { (page::set_name(shown.plotted.iter().position(|arm| *arm == joint.arm), &name(run, joint.arm))) (in_mode(run, joint.mode)) }
                    @if joint.ratio.is_some() {
                        b { (figure(joint.ratio)) " ×" }
                        span { "the time of " (base) @if joint.ratio_interval.is_some() { ", 95% " (interval(joint.ratio_interval)) } }
                    } @else { b { "no ratio" } }
                    span { (page::verdict(joint.verdict)) }
                }
            }
        }
    }
}

fn warnings(run: &Run) -> Markup {
    const MOST: usize = 30;
    html! {
        @if !run.warnings.is_empty() {
            ul.warnings aria-label="Warnings" {
                @for warning in run.warnings.iter().take(MOST) { li { (plain(warning)) } }
                @if run.warnings.len() > MOST { li { (run.warnings.len() - MOST) " warnings more: run.json has all of them" } }
            }
        }
    }
}

fn panels<'a>(shown: &Shown, observed: &'a Observed, id: &str) -> Vec<Panel<'a>> {
    let panel = |case: &usize| {
        let series = shown.plotted.iter().enumerate().filter(|(_, arm)| shown.has_panel(**arm, *case));
        let series: Vec<Series> = series
            .filter_map(|(colour, arm)| {
                let seen = observed.cell(*arm, *case)?;
                Some(Series { colour, name: name(shown.run, *arm), seen })
            })
            .collect();
        let title = label(shown.run, *case) + &in_mode(shown.run, shown.run.header.plan.cases[*case].mode);
        (!series.is_empty()).then(|| Panel { id: format!("{id}-{case}"), title, series })
    };
    shown.panels.iter().filter_map(panel).collect()
}

#[cfg(test)]
mod tests;
