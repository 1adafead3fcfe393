//! Where the time of the visits went, phase by phase: `--timings` on the page.

use maud::{Markup, html};

use super::axis::across;
use super::page::{set_name, toned};
use super::shown::Shown;
use crate::report::cells::name;
use crate::report::timings::{Phases, milliseconds, sentences, share};

/// The phases of the sets that are plotted; nothing where no visit completed.
pub(super) fn section(shown: &Shown) -> Option<Markup> {
    let phases = Phases::of(shown.run, &shown.plotted)?;
    Some(html! {
        p.note { "Medians over the visits of each set, and their share of a visit." }
        @for sentence in sentences(shown.run) { p { (toned(&sentence)) } }
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
