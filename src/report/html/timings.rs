//! Where the time of a visit goes: a bar of its phases for each env set, and their figures.

use maud::{Markup, html};

use super::axis::across;
use super::page::{set_name, toned};
use super::shown::Shown;
use crate::report::cells::{NONE, name};
use crate::report::timings::{Phased, milliseconds, phased, sentences, share};
use crate::units::plural;

/// Phases with a colour of their own, the longest; the others share one.
const COLOURS: usize = 7;

/// The phases of a run's visits; nothing where it knows none.
pub(super) fn section(shown: &Shown) -> Option<Markup> {
    let phased = phased(shown.run, &shown.plotted);
    if phased.names.is_empty() || phased.sets.is_empty() {
        return None;
    }
    let colours = colours(&phased);
    let left_out = shown.run.header.plan.arms().count() - shown.plotted.len();
    Some(html! {
        p.note { "Medians over the completed visits of each set. A bar is a visit, in the order of its phases; a longer bar is a longer visit." }
        @for sentence in sentences(shown.run) { p { (toned(&capital(&sentence))) "." } }
        ul.legend {
            @for (at, phase) in phased.names.iter().enumerate().filter(|(at, _)| colours[*at] > 0) { (key(colours[at], phase)) }
            @if colours.contains(&0) { (key(0, "other phases")) }
        }
        (bars(shown, &phased, &colours)) (table(shown, &phased))
        @if left_out > 0 { p.note { (plural(left_out, "more set")) ": " code { "ncclsweep report --timings" } " has all of them." } }
    })
}

fn capital(sentence: &str) -> String {
    let mut rest = sentence.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

fn key(colour: usize, phase: &str) -> Markup {
    html! { li { svg viewBox="-7 -7 14 14" aria-hidden="true" { rect class={ "segment s" (colour) } x="-7" y="-7" width="14" height="14" {} } (phase) } }
}

/// The colour of each phase: those that take longest in any set have their own, in the order of a visit.
fn colours(phased: &Phased) -> Vec<usize> {
    let longest = |phase: usize| phased.sets.iter().map(|(_, of)| of.times[phase]).fold(0.0, f64::max);
    let mut order: Vec<usize> = (0..phased.names.len()).collect();
    order.sort_by(|a, b| longest(*b).total_cmp(&longest(*a)));
    order.truncate(COLOURS);
    order.sort_unstable();
    (0..phased.names.len()).map(|phase| order.iter().position(|of| *of == phase).map_or(0, |at| at + 1)).collect()
}

fn bars(shown: &Shown, phased: &Phased, colours: &[usize]) -> Markup {
    let drawn = |times: &[f64]| times.iter().map(|seconds| seconds.max(0.0)).sum::<f64>();
    let longest = phased.sets.iter().map(|(_, of)| of.whole.max(drawn(&of.times))).fold(0.0, f64::max);
    html! {
        @for (arm, of) in &phased.sets {
            @let set = name(shown.run, *arm);
            div.stack {
                p { (set_name(None, &set)) span.quiet { (milliseconds(of.whole)) " ms" } }
                svg role="img" aria-label={ "Phases of a visit under " (set) ": the table has their figures" } {
                    @for (at, seconds) in of.times.iter().enumerate().filter(|(_, seconds)| **seconds > 0.0 && longest > 0.0) {
                        rect class={ "segment s" (colours[at]) } x=(across(drawn(&of.times[..at]) / longest)) width=(across(seconds / longest)) y="0" height="22" {
                            title { (phased.names[at]) ": " (milliseconds(*seconds)) " ms, " (share(*seconds, of.whole)) }
                        }
                    }
                }
            }
        }
    }
}

fn table(shown: &Shown, phased: &Phased) -> Markup {
    html! {
        details {
            summary { "Phases of a visit in figures" }
            div.scroll { table {
                thead { tr {
                    th scope="col" { "phase" }
                    @for (arm, _) in &phased.sets { th.n scope="col" colspan="2" { (set_name(None, &name(shown.run, *arm))) br; "ms, share" } }
                } }
                tbody {
                    @for (at, phase) in phased.names.iter().enumerate() { tr {
                        th.size scope="row" { (phase) }
                        @for (_, of) in &phased.sets { td.n { (milliseconds(of.times[at])) } td.n.quiet { (share(of.times[at], of.whole)) } }
                    } }
                    tr.first { th.size scope="row" { "visit" } @for (_, of) in &phased.sets { td.n { (milliseconds(of.whole)) } td {} } }
                    tr { th.size scope="row" { "log read after" } @for (_, of) in &phased.sets {
                        td.n { @if of.reading > 0.0 { (milliseconds(of.reading)) } @else { (NONE) } } td {}
                    } }
                }
            } }
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
    fn each_set_has_a_bar_of_its_phases_and_a_column_of_figures() {
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
        let of = crate::report::timings::Phases { times, whole: 31.0, reading: 0.0 };
        let arm = fixture::two_sets().header.plan.baseline();
        let phased = Phased { names: vec!["a", "b", "c", "d", "e", "f", "g", "h"], sets: vec![(arm, of)] };
        assert_eq!(colours(&phased), [1, 0, 2, 3, 4, 5, 6, 7]);
    }
}
