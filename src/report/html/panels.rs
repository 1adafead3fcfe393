//! Small plots of one case each: the distribution of its samples, and its communicators over the rounds.

use std::collections::HashMap;

use maud::{Markup, html};

use super::axis::{Scale, across, label};
use super::plot::{Plot, legend, point, stretched};
use crate::record::observed::Observations;
use crate::report::cells::figure;
use crate::stats::Sample;

const ECDF_HEIGHT: f64 = 130.0;
const STRIP_HEIGHT: f64 = 150.0;
/// Points of a curve: more than a screen tells apart.
const POINTS: usize = 100;
/// Communicators in one plot; beyond, the levels of visits alone are drawn.
const DOTS: usize = 3000;
/// Visits in one plot. A plot of 300 pixels shows no more.
const VISITS: usize = 2000;
/// Texts that fit under a small plot.
const TICKS: usize = 4;
/// The axis of a distribution ends where 99% of every series do.
const END: f64 = 0.99;

/// A case and what was observed of it.
pub(super) struct Panel<'a> {
    /// Unique on the page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) series: Vec<Series<'a>>,
}

/// What was observed under one env set.
pub(super) struct Series<'a> {
    pub(super) colour: usize,
    pub(super) name: String,
    pub(super) seen: &'a Observations,
}

impl Series<'_> {
    /// Its samples, or where these were not kept its communicators' medians.
    fn sample(&self) -> Option<Sample> {
        let medians = || self.seen.visits.iter().flat_map(|visit| visit.medians_us.iter().copied()).collect();
        self.seen.sample.clone().or_else(|| Sample::new(medians()).ok())
    }
}

/// The keys of all panels, and whether their samples are the communicators' medians.
pub(super) fn keys(panels: &[Panel]) -> Markup {
    let mut keys: Vec<(usize, String)> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        let key = (series.colour, series.name.clone());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.sort_by_key(|(colour, _)| *colour);
    legend(&keys)
}

/// Whether all of them have samples: runs read from their document alone do not.
pub(super) fn have_samples(panels: &[Panel]) -> bool {
    panels.iter().flat_map(|panel| &panel.series).all(|series| series.seen.sample.is_some())
}

/// The distributions, with their quantiles in a table.
pub(super) fn distributions(panels: &[Panel]) -> Markup {
    let samples: Vec<Vec<Option<Sample>>> =
        panels.iter().map(|panel| panel.series.iter().map(Series::sample).collect()).collect();
    html! {
        div.grid {
            @for (panel, samples) in panels.iter().zip(&samples) { (distribution(panel, samples)) }
        }
        details {
            summary { "The same as a table" }
            div.scroll { table {
                thead { tr {
                    th { "case" } th { "set" } th.n { "values" }
                    @for head in ["min", "5%", "25%", "50%", "75%", "95%", "99%", "max"] { th.n { (head) br; "µs" } }
                } }
                tbody {
                    @for (panel, samples) in panels.iter().zip(&samples) {
                        @for (series, sample) in panel.series.iter().zip(samples) {
                            @if let Some(sample) = sample {
                                tr {
                                    th scope="row" { (panel.title) } td { (series.name) } td.n { (sample.sorted().len()) }
                                    @for share in [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0] {
                                        td.n { (figure(Some(sample.quantile(share).0))) }
                                    }
                                }
                            }
                        }
                    }
                }
            } }
        }
    }
}

fn distribution(panel: &Panel, samples: &[Option<Sample>]) -> Markup {
    let known = || samples.iter().flatten();
    let ends = known().flat_map(|sample| [sample.quantile(0.0).0, sample.quantile(END).0]).collect::<Vec<_>>();
    let x = Scale::around(ends.into_iter());
    let title = format!("Distribution of times, {}", panel.title);
    let plot = Plot {
        id: format!("{}-ecdf", panel.id),
        title: &title,
        description: "Share of the samples that took at most so long, for each env set; quantiles stand in the table below.",
        height: ECDF_HEIGHT,
        across: x.ticks(TICKS).into_iter().map(|tick| (x.at(tick), label(tick))).collect(),
        x_title: "µs",
        y: Scale::linear(0.0, 1.0),
        y_title: "share of samples",
        y_ticks: Some([0.0, 0.5, 1.0].map(|share| (share, format!("{}%", share * 100.0))).into()),
    };
    let curve = |(series, sample): (&Series, &Option<Sample>)| {
        Some((format!("curve s{}", series.colour), path(sample.as_ref()?, &x)))
    };
    let curves: Vec<_> = panel.series.iter().zip(samples).filter_map(curve).collect();
    html! {
        figure { figcaption { span.strong { (panel.title) } } (plot.draw(&stretched(ECDF_HEIGHT, &curves))) }
    }
}

/// The empirical distribution function, where it has more steps than the plot has pixels through some of its points.
fn path(sample: &Sample, x: &Scale) -> String {
    let sorted = sample.sorted();
    let n = sorted.len();
    let at = |up: f64, time: f64| point(x.at(time), up, ECDF_HEIGHT);
    let mut d = format!("M{}", at(0.0, sorted[0]));
    for step in 1..=n.min(POINTS) {
        let of = (step * n).div_ceil(n.min(POINTS));
        let before = (step - 1) as f64 / n.min(POINTS) as f64;
        // Level until the next value, then up.
        d.push_str(&format!("L{}L{}", at(before, sorted[of - 1]), at(of as f64 / n as f64, sorted[of - 1])));
    }
    d
}

/// What heights mean in a plot of communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Height {
    /// Times, to compare series.
    Micros,
    /// Per cent above or below the level of the series, to see drift that all of them share.
    OfLevel,
}

/// The communicators of each visit, in the order of time.
pub(super) fn strips(panels: &[Panel], height: Height) -> Markup {
    html! {
        div.grid { @for panel in panels { (strip(panel, height)) } }
        details {
            summary { "The same as a table" }
            div.scroll { table {
                thead { tr { th { "case" } th { "set" } th { "medians of communicators by round, µs" } } }
                tbody {
                    @for panel in panels { @for series in &panel.series {
                        tr { th scope="row" { (panel.title) } td { (series.name) } td { (in_words(series.seen)) } }
                    } }
                }
            } }
        }
    }
}

/// `1: 48.2 49.0 47.7 · 2: …`, not more rounds than anybody reads.
fn in_words(seen: &Observations) -> String {
    const READ: usize = 12;
    let of = |visit: &crate::record::observed::OfVisit| {
        let medians: Vec<String> = visit.medians_us.iter().take(READ).map(|median| figure(Some(*median))).collect();
        format!("{}: {}", visit.round + 1, medians.join(" "))
    };
    let rounds: Vec<String> = seen.visits.iter().take(READ).map(of).collect();
    let more = if seen.visits.len() > READ { " · …" } else { "" };
    rounds.join(" · ") + more
}

fn strip(panel: &Panel, height: Height) -> Markup {
    // Visits of all series in the order they were made: across is time.
    let mut order: Vec<(u32, u32)> = panel
        .series
        .iter()
        .flat_map(|series| series.seen.visits.iter().take(VISITS).map(|visit| (visit.round, visit.index)))
        .collect();
    order.sort_unstable();
    order.dedup();
    let places: HashMap<u32, usize> = order.iter().enumerate().map(|(at, (_, index))| (*index, at)).collect();
    let x = |index: u32, of: f64| (places[&index] as f64 + 0.5 + of) / order.len().max(1) as f64;
    let level = |series: &Series| match height {
        Height::Micros => None,
        Height::OfLevel => typical(series.seen.visits.iter().flat_map(|visit| visit.medians_us.iter().copied())),
    };
    let levels: Vec<Option<f64>> = panel.series.iter().map(level).collect();
    let shown = |median: f64, level: Option<f64>| level.map_or(median, |level| (median / level - 1.0) * 100.0);
    let all = panel.series.iter().zip(&levels).flat_map(|(series, level)| {
        series.seen.visits.iter().flat_map(|visit| &visit.medians_us).map(|median| shown(*median, *level))
    });
    let all: Vec<f64> = all.collect();
    let y = Scale::around(all.iter().copied());
    let dots = all.len() <= DOTS;
    let mut paths = Vec::new();
    for (series, of_series) in panel.series.iter().zip(&levels) {
        let y_at = |time: f64| y.at(shown(time, *of_series));
        let (mut d, mut level) = (String::new(), String::new());
        for visit in series.seen.visits.iter().take(VISITS) {
            let n = visit.medians_us.len().max(1) as f64;
            for (at, median) in visit.medians_us.iter().enumerate().filter(|_| dots) {
                let of = ((at as f64 + 0.5) / n - 0.5) * 0.62;
                d.push_str(&format!("M{}h0", point(x(visit.index, of), y_at(*median), STRIP_HEIGHT)));
            }
            let Some(typical) = typical(visit.medians_us.iter().copied()) else { continue };
            let way = if level.is_empty() { "M" } else { "L" };
            level.push_str(&format!("{way}{}", point(x(visit.index, 0.0), y_at(typical), STRIP_HEIGHT)));
        }
        if dots {
            paths.push((format!("dots s{}", series.colour), d));
        }
        paths.push((format!("level s{}", series.colour), level));
    }
    let (rounds, borders) = rounds(&order);
    let title = format!("Communicators over the rounds, {}", panel.title);
    let plot = Plot {
        id: format!("{}-strip", panel.id),
        title: &title,
        description: "The median of each communicator in the order of time; lines join the levels of an env set's visits.",
        height: STRIP_HEIGHT,
        across: rounds,
        x_title: "round",
        y,
        y_title: if height == Height::Micros { "µs" } else { "% of its level" },
        y_ticks: None,
    };
    let marks = html! {
        @for at in borders { line.g x1=(across(at)) x2=(across(at)) y1="0" y2="100%" {} }
        (stretched(STRIP_HEIGHT, &paths))
    };
    html! { figure { figcaption { span.strong { (panel.title) } } (plot.draw(&marks)) } }
}

/// The geometric mean, as levels of visits are taken.
fn typical(medians: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = medians.fold((0.0, 0), |(sum, count), median| (sum + median.ln(), count + 1));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// The rounds as ticks, and the borders between them, as far as there is room.
fn rounds(order: &[(u32, u32)]) -> (Vec<(f64, String)>, Vec<f64>) {
    const ROOM: usize = 10;
    let all = order.len().max(1) as f64;
    let (mut ticks, mut borders, mut at) = (Vec::new(), Vec::new(), 0);
    let by_round: Vec<_> = order.chunk_by(|a, b| a.0 == b.0).collect();
    let every = by_round.len().div_ceil(ROOM).max(1);
    for (number, visits) in by_round.iter().enumerate() {
        if number > 0 && every == 1 {
            borders.push(at as f64 / all);
        }
        if number % every == 0 {
            ticks.push(((at as f64 + visits.len() as f64 / 2.0) / all, (visits[0].0 + 1).to_string()));
        }
        at += visits.len();
    }
    (ticks, borders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::observed::OfVisit;

    fn seen(rounds: u32, communicators: usize) -> Observations {
        let visit = |round: u32| OfVisit {
            index: round * 2,
            round,
            medians_us: (0..communicators).map(|at| 50.0 + at as f64).collect(),
        };
        Observations { visits: (0..rounds).map(visit).collect(), sample: None }
    }

    fn panel(seen: &Observations) -> Panel<'_> {
        let series = vec![Series { colour: 1, name: "a<b".into(), seen }];
        Panel { id: "r-0".into(), title: "7168x1".into(), series }
    }

    #[test]
    fn every_communicator_is_a_dot_and_every_visit_a_level() {
        let text = strips(&[panel(&seen(3, 6))], Height::OfLevel).into_string();
        assert_eq!(text.matches("h0").count(), 18);
        assert!(text.contains("1: 50.0 51.0 52.0 53.0 54.0 55.0"), "{text}");
        assert!(text.contains("a&lt;b") && !text.contains("a<b"));
    }

    #[test]
    fn a_long_run_is_drawn_by_its_levels_alone() {
        let text = strips(&[panel(&seen(1000, 6))], Height::Micros).into_string();
        assert_eq!(text.matches("h0").count(), 0);
        assert!(text.len() < 40_000, "{}", text.len());
    }

    #[test]
    fn a_distribution_climbs_from_none_to_all() {
        let sample = Sample::new((1..=1000).map(f64::from).collect()).unwrap();
        let d = path(&sample, &Scale::linear(0.0, 1000.0));
        assert!(d.starts_with("M1 130") && d.ends_with("L1000 0"), "{d}");
        assert!(d.matches('L').count() <= 2 * POINTS);
        let few = path(&Sample::new(vec![1.0, 2.0]).unwrap(), &Scale::linear(0.0, 4.0));
        assert_eq!(few, "M250 130L250 130L250 65L500 65L500 0");
    }

    #[test]
    fn without_samples_the_medians_stand_for_them() {
        let seen = seen(3, 2);
        let panels = [panel(&seen)];
        assert!(!have_samples(&panels));
        let text = distributions(&panels).into_string();
        assert!(text.contains("<td class=\"n\">6</td>"), "{text}");
    }

    #[test]
    fn rounds_are_named_as_far_as_there_is_room() {
        let order: Vec<(u32, u32)> = (0..60).map(|index| (index / 2, index)).collect();
        let (ticks, borders) = rounds(&order);
        assert_eq!((ticks.len(), borders.len()), (10, 0));
        let (ticks, borders) = rounds(&order[..6]);
        assert_eq!(ticks.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(borders.len(), 2);
    }
}
