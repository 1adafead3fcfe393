//! Where the time of the visits went, phase by phase: `--timings` on the page.

use maud::{Markup, html};

use super::axis::across;
use super::page::{set_name, toned};
use super::shown::Shown;
use crate::report::cells::name;
use crate::report::timings::{Phases, milliseconds, sentences, share};

/// Phases with a colour of their own, the longest; the others share one.
const COLOURS: usize = 7;

/// The phases of the sets that are plotted; nothing where no visit completed.
pub(super) fn section(shown: &Shown) -> Option<Markup> {
    let phases = Phases::of(shown.run, &shown.plotted)?;
    if phases.names.is_empty() {
        return None;
    }
    Some(html! {
        p.note { "Means over the visits of each set, and their share of a visit. Each bar is a mean visit, its phases in their order." }
        @for sentence in sentences(shown.run) { p { (toned(&sentence)) } }
        @let colours = colours(&phases);
        ul.legend {
            @for (at, phase) in phases.names.iter().enumerate().filter(|(at, _)| colours[*at] > 0) { (key(colours[at], phase)) }
            @if colours.contains(&0) { (key(0, "other phases")) }
        }
        (bars(shown, &phases, &colours))
        div.scroll { table {
            thead { tr {
                th scope="col" { "phase" }
                @for (arm, _) in &phases.of {
                    @let colour = shown.plotted.iter().position(|plotted| plotted == arm);
                    th.n scope="col" { (set_name(colour, &name(shown.run, *arm))) br; "ms" }
                }
            } }
            tbody {
                @for (at, phase) in phases.names.iter().enumerate() {
                    tr {
                        th scope="row" { (phase) }
                        @for (_, spent) in &phases.of { td.n { (spend(spent.phases[at], spent.visit)) } }
                    }
                }
                tr.first { th scope="row" { "visit" } @for (_, spent) in &phases.of { td.n { span.strong { (milliseconds(spent.visit)) } } } }
            }
        } }
    })
}

fn key(colour: usize, phase: &str) -> Markup {
    html! { li { svg viewBox="-7 -7 14 14" aria-hidden="true" { rect class={ "segment s" (colour) } x="-7" y="-7" width="14" height="14" {} } (phase) } }
}

/// The colour of each phase: those that take longest in any set have their own, in the order of a visit.
fn colours(phases: &Phases) -> Vec<usize> {
    let longest = |phase: usize| phases.of.iter().map(|(_, spent)| spent.phases[phase]).fold(0.0, f64::max);
    let mut order: Vec<usize> = (0..phases.names.len()).collect();
    order.sort_by(|a, b| longest(*b).total_cmp(&longest(*a)));
    order.truncate(COLOURS);
    order.sort_unstable();
    (0..phases.names.len()).map(|phase| order.iter().position(|of| *of == phase).map_or(0, |at| at + 1)).collect()
}

fn bars(shown: &Shown, phases: &Phases, colours: &[usize]) -> Markup {
    let drawn = |times: &[f64]| times.iter().map(|seconds| seconds.max(0.0)).sum::<f64>();
    let longest = phases.of.iter().map(|(_, spent)| spent.visit.max(drawn(&spent.phases))).fold(0.0, f64::max);
    html! {
        @for (arm, spent) in &phases.of {
            @let set = name(shown.run, *arm);
            div.stack {
                p { (set_name(None, &set)) span.quiet { (milliseconds(spent.visit)) " ms" } }
                svg role="img" aria-label={ "Phases of a visit under " (set) ": the table has their figures" } {
                    @for (at, seconds) in spent.phases.iter().enumerate().filter(|(_, seconds)| **seconds > 0.0 && longest > 0.0) {
                        rect class={ "segment s" (colours[at]) } x=(across(drawn(&spent.phases[..at]) / longest)) width=(across(seconds / longest)) y="0" height="22" {
                            title { (phases.names[at]) ": " (milliseconds(*seconds)) " ms, " (share(*seconds, spent.visit)) }
                        }
                    }
                }
            }
        }
    }
}

/// Milliseconds, their share in words, and as a bar below them.
fn spend(seconds: f64, visit: f64) -> Markup {
    let part = if visit > 0.0 { (seconds / visit).min(1.0) } else { 0.0 };
    html! {
        (milliseconds(seconds)) " " span.quiet { "(" (share(seconds, visit)) ")" }
        svg.level-bar.small.s1 aria-hidden="true" {
            rect.part x=(across(1.0 - part)) width=(across(part)) height="100%" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use crate::record::run::Run;
    use crate::record::timings::Timings;
    use crate::record::visit::Outcome;

    fn timed() -> Run {
        let mut run = fixture::two_sets();
        for visit in &mut run.visits {
            visit.seconds = 4.0;
            visit.timings = Timings { exec: 1.0, measuring: 0.9, capture: 0.1, teardown: 2.0, ..Timings::default() };
        }
        run
    }

    #[test]
    fn each_set_has_a_bar_of_its_phases() {
        let run = timed();
        let text = section(&Shown::of(&run)).expect("it is known").into_string();
        assert_eq!(text.matches("role=\"img\"").count(), 2, "{text}");
        assert_eq!(text.matches("<title>teardown: 2000 ms, 50%</title>").count(), 2, "{text}");
        assert!(text.contains(r#"x="47.5%" width="50%""#), "teardown follows 1.9 of 4 s: {text}");
        assert!(!text.contains("first collective"), "nothing is known of it: {text}");
    }

    #[test]
    fn a_run_that_knows_no_phases_has_no_section_of_them() {
        let mut run = timed();
        run.visits.iter_mut().for_each(|visit| visit.outcome = Outcome::Interrupted);
        assert!(section(&Shown::of(&run)).is_none());
        let mut run = timed();
        run.visits.iter_mut().for_each(|visit| visit.timings = Timings::default());
        assert!(section(&Shown::of(&run)).is_none());
    }

    #[test]
    fn the_longest_phases_have_colours_in_the_order_of_a_visit() {
        let times = vec![1.0, 0.1, 9.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let of = crate::report::timings::Spent { phases: times, visit: 31.0, reading: 0.0 };
        let arm = fixture::two_sets().header.plan.baseline();
        let phases = Phases { names: vec!["a", "b", "c", "d", "e", "f", "g", "h"], of: vec![(arm, of)] };
        assert_eq!(colours(&phases), [1, 0, 2, 3, 4, 5, 6, 7]);
    }
}
