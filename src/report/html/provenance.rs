//! Where the figures come from: the box, its software, the plan, and every visit.

use maud::{Markup, html};

use super::page::facts;
use crate::record::run::{LibraryFacts, Run};
use crate::record::visit::Visit;
use crate::report::cells::name;
use crate::report::head::Line;
use crate::report::ink::plain;
use crate::units;

/// Visits in the table.
const VISITS: usize = 200;
/// Rows of other tables.
const ROWS: usize = 40;
/// Characters of the command line.
const ARGUMENTS: usize = 2000;

/// The section of a run.
pub(super) fn section(run: &Run) -> Markup {
    html! { (facts(&lines(run))) (gpus(run)) (libraries(run)) (sets(run)) (visits(run)) }
}

/// What the head of the report does not tell.
fn lines(run: &Run) -> Vec<Line> {
    let (header, provenance) = (&run.header, &run.header.provenance);
    let time = |time: jiff::Timestamp| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let mut arguments: String =
        provenance.arguments.iter().map(|of| shell_words::quote(of).into_owned() + " ").collect();
    if let Some((cut, _)) = arguments.char_indices().nth(ARGUMENTS) {
        arguments.truncate(cut);
        arguments.push('…');
    }
    let mut lines = vec![
        Line::new("started", time(header.created)),
        Line::new("ended", time(run.finished)),
        Line::new("command", plain(arguments.trim_end())),
        Line::new("host", plain(&provenance.host)),
        Line::new("kernel", plain(&provenance.kernel)),
        Line::new("CPU", format!("{} · {} logical CPUs", plain(&provenance.cpu), provenance.cpus)),
    ];
    if !header.plan.wrap.is_empty() {
        lines.push(Line::new("started by", plain(&shell_words::join(&header.plan.wrap))));
    }
    let files = provenance.conf_files.iter().take(ROWS);
    lines.extend(
        files.map(|file| Line::new("file", format!("{}: {}", plain(&file.path), plain(&file.lines.join("; "))))),
    );
    lines.push(Line::new(
        "program",
        format!("ncclsweep {} · schema {} · seed {}", plain(&header.version), header.schema, header.plan.seed),
    ));
    lines
}

fn gpus(run: &Run) -> Markup {
    html! {
        h3 { "GPUs, in rank order" }
        div.scroll { table {
            thead { tr { th.n { "GPU" } th { "name" } th { "PCI address" } th { "UUID" } th { "link" } } }
            tbody {
                @for (at, gpu) in run.header.provenance.gpus.iter().enumerate() {
                    tr { td.n { (gpu.ordinal) } td { (plain(&gpu.name)) } td { code { (plain(&gpu.pci)) } } td { code { (plain(&gpu.uuid)) } } td { (link(run, at)) } }
                }
            }
        } }
    }
}

/// The link of a GPU after the last visit that tells it: then it was not asleep.
fn link(run: &Run, gpu: usize) -> String {
    let uuid = run.header.provenance.gpus.get(gpu).map(|gpu| gpu.uuid.as_str());
    let state = run.visits.iter().rev().find_map(|visit| {
        let rank = visit.worker.as_ref()?.devices.iter().position(|device| Some(device.uuid.as_str()) == uuid)?;
        let (_, after) = visit.gpus.get(rank)?;
        Some((after.link_generation?, after.link_width?))
    });
    state.map_or_else(|| "unknown".to_owned(), |(generation, width)| format!("Gen{generation} x{width}"))
}

fn libraries(run: &Run) -> Markup {
    let provenance = &run.header.provenance;
    let row = |library: &LibraryFacts, taken: &str| {
        html! {
            tr {
                td { @match library.version { Some(version) => (version), None => "not loadable" } }
                td { (taken) } td { code { (plain(&library.path)) } } td { (plain(&library.found_by)) }
                td { code { (library.build_id.as_deref().map(plain).unwrap_or_default()) } }
            }
        }
    };
    html! {
        h3 { "NCCL libraries" }
        div.scroll { table {
            thead { tr { th { "version" } th { "" } th { "file" } th { "found by" } th { "build id" } } }
            tbody {
                @for library in provenance.libraries.iter().take(ROWS) { (row(library, "measured")) }
                @for library in provenance.other_libraries.iter().take(ROWS) { (row(library, "seen, not taken")) }
            }
        } }
    }
}

fn sets(run: &Run) -> Markup {
    let sets = &run.header.plan.sets;
    html! {
        h3 { "Env sets" }
        @for set in sets.iter().take(ROWS) {
            p {
                span.strong { (plain(&set.name)) } " "
                @if set.vars.is_empty() { span.quiet { "sets nothing" } }
                @for (variable, value) in set.vars.iter() { code.chip { (plain(variable)) "=" (plain(value)) } }
                @if let Some(note) = &set.note { br; span.note { (plain(note)) } }
            }
        }
        @if sets.len() > ROWS { p.note { (sets.len() - ROWS) " sets more are left out; run.json has all of them." } }
    }
}

fn visits(run: &Run) -> Markup {
    let head = |text: &str| html! { th.n { (text) } };
    html! {
        details {
            summary { "Visits: " (run.visits.len()) " worker processes" }
            div.scroll { table {
                thead { tr {
                    (head("visit")) (head("round")) th { "set" } th { "started" } (head("seconds")) (head("SM clock MHz")) (head("°C")) (head("W"))
                    th { "throttled by" } th { "outcome" }
                } }
                tbody { @for visit in run.visits.iter().take(VISITS) { (row(run, visit)) } }
            } }
            @if run.visits.len() > VISITS { p.note { (run.visits.len() - VISITS) " visits more are left out; run.json has all of them." } }
        }
    }
}

fn row(run: &Run, visit: &Visit) -> Markup {
    let after = || visit.gpus.iter().map(|(_, after)| after);
    let whole = |value: f64| format!("{value:.0}");
    let clock = extent(after().filter_map(|state| state.sm_clock_mhz.map(f64::from)), whole);
    let heat = extent(after().filter_map(|state| state.temperature_c.map(f64::from)), whole);
    let power = extent(after().filter_map(|state| state.power_w), whole);
    let mut reasons: Vec<&str> = after().flat_map(|state| state.throttle.iter().map(String::as_str)).collect();
    reasons.sort_unstable();
    reasons.dedup();
    html! {
        tr {
            td.n { (visit.index) } td.n { (visit.round + 1) }
            td { (name(run, visit.arm)) @if visit.untimed { " (for the proof, not timed)" } }
            td { (visit.started.strftime("%H:%M:%S").to_string()) } td.n { (units::significant(visit.seconds)) }
            td.n { (clock) } td.n { (heat) } td.n { (power) } td { (plain(&reasons.join(", "))) }
            td { @if visit.outcome.is_completed() { "completed" } @else { span.bad { (plain(&visit.outcome.to_string())) } } }
        }
    }
}

/// Smallest and largest over the GPUs, or one of them when they read alike.
fn extent(values: impl Iterator<Item = f64> + Clone, text: impl Fn(f64) -> String) -> String {
    let (low, high) = (values.clone().reduce(f64::min), values.reduce(f64::max));
    match (low.map(&text), high.map(&text)) {
        (Some(low), Some(high)) if low != high => format!("{low}–{high}"),
        (Some(one), _) => one,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::nvml::GpuState;
    use crate::record::fixture;

    #[test]
    fn what_a_stranger_may_have_written_is_escaped() {
        let mut run = fixture::two_sets();
        run.header.provenance.host = "<script>".into();
        run.header.provenance.arguments.push("--set=<x>".into());
        run.header.plan.sets[1].note = Some("a & b".into());
        let text = section(&run).into_string();
        assert!(text.contains("&lt;script&gt;") && text.contains("a &amp; b") && !text.contains("<script>"));
        assert!(text.contains("'--set=&lt;x&gt;'"), "{text}");
    }

    #[test]
    fn clocks_and_links_are_those_after_the_visit() {
        let mut run = fixture::two_sets();
        let state = |clock, width| GpuState {
            sm_clock_mhz: Some(clock),
            link_generation: Some(5),
            link_width: Some(width),
            ..GpuState::default()
        };
        run.visits[0].gpus = vec![(state(210, 4), state(1980, 16)), (state(210, 4), state(2010, 16))];
        let text = section(&run).into_string();
        assert!(text.contains("1980–2010") && text.contains("Gen5 x16") && text.contains("unknown"), "{text}");
    }

    #[test]
    fn a_thousand_visits_are_cut_off_and_counted() {
        let mut run = fixture::two_sets();
        let visit = run.visits[0].clone();
        run.visits = vec![visit; 1000];
        let text = section(&run).into_string();
        assert!(text.contains("800 visits more are left out"));
    }
}
