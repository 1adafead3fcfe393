//! `--timings`: where the time of the visits went, phase by phase, and how much of it was measuring.

use crate::plan::schedule::Arm;
use crate::record::run::Run;
use crate::record::visit::{Timings, Visit};
use crate::stats::median_of;
use crate::units::{duration, plural, significant};

use super::cells::{NONE, arms, name};
use super::ink::{Style, Tone, paragraph};
use super::sheet::{Align, Column, Sheet};
use super::table::{LEAST, WIDEST};

/// Sets beside each other; more follow in tables of their own.
const BESIDE: usize = 3;

/// The phases of `run`'s visits: means over the visits of each set that completed, which add up to that of the visits.
#[must_use]
pub fn render(run: &Run, style: Style) -> String {
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    let what = Tone::Strong.ink("where the time of a visit goes");
    let Some(phases) = Phases::of(run, &arms(run)) else {
        paragraph(&mut out, "", &format!("{what} · no visit completed"), columns);
        return style.finish(&out);
    };
    paragraph(&mut out, "", &format!("{what} · means, and their share of a visit"), columns);
    for beside in phases.of.chunks(BESIDE) {
        out.push_str(&table(run, &phases, beside).render());
        out.push('\n');
    }
    for sentence in sentences(run) {
        paragraph(&mut out, "", &sentence, columns);
    }
    style.finish(&out)
}

/// The visits of an arm that got to their end.
fn of(run: &Run, arm: Arm) -> impl Iterator<Item = &Visit> {
    run.visits.iter().filter(move |visit| visit.arm == arm && visit.is_measured())
}

/// The phases that were looked at, and what each set spent in them.
pub(super) struct Phases {
    pub(super) names: Vec<&'static str>,
    /// Sets with a completed visit.
    pub(super) of: Vec<(Arm, Spent)>,
}

/// Seconds of a set's visits, means.
pub(super) struct Spent {
    /// In the order of the names.
    pub(super) phases: Vec<f64>,
    pub(super) visit: f64,
    /// Reading the log afterwards, which is not part of it.
    pub(super) reading: f64,
}

impl Phases {
    /// Of these sets; nothing where none has a completed visit.
    pub(super) fn of(run: &Run, arms: &[Arm]) -> Option<Self> {
        let phases = |timings: &Timings| timings.phases().map(|(_, seconds)| seconds);
        let mut names: Vec<&'static str> = Timings::default().phases().iter().map(|(name, _)| *name).collect();
        // Runs of versions that did not look have nothing of some.
        let looked = |phase: &usize| run.visits.iter().any(|visit| phases(&visit.timings)[*phase] > 0.0);
        let shown: Vec<usize> = (0..names.len()).filter(looked).collect();
        if !looked(&1) {
            // In these the start holds driver, library and contexts too.
            names[0] = "until its first word";
        }
        let spent = |arm: &Arm| {
            let visits = of(run, *arm).count();
            let mean = |seconds: &dyn Fn(&Visit) -> f64| of(run, *arm).map(seconds).sum::<f64>() / visits as f64;
            of(run, *arm).next()?;
            let of_phases = shown.iter().map(|phase| mean(&|visit| phases(&visit.timings)[*phase])).collect();
            let (visit, reading) = (mean(&|visit| visit.seconds), mean(&|visit| visit.timings.reading));
            Some((*arm, Spent { phases: of_phases, visit, reading }))
        };
        let of: Vec<_> = arms.iter().filter_map(spent).collect();
        (!of.is_empty()).then(|| Self { names: shown.iter().map(|phase| names[*phase]).collect(), of })
    }
}

fn table(run: &Run, phases: &Phases, at: &[(Arm, Spent)]) -> Sheet {
    let mut sheet = Sheet::new(Vec::new());
    let total = ["visit", "log read after"];
    sheet.add(
        Column::new("phase", "", Align::Left),
        phases.names.iter().copied().chain(total).map(str::to_owned).collect(),
    );
    for (at, (arm, spent)) in at.iter().enumerate() {
        let reading = if spent.reading > 0.0 { milliseconds(spent.reading) } else { NONE.to_owned() };
        let times = spent.phases.iter().copied().chain([spent.visit]).map(milliseconds).chain([reading]);
        sheet.add(Column::new("time", "ms", Align::Right), times.collect());
        let shares = spent.phases.iter().map(|seconds| share(*seconds, spent.visit));
        sheet.add(Column::new("share", "", Align::Right), shares.chain([String::new(), String::new()]).collect());
        sheet.span(1 + 2 * at, name(run, *arm));
    }
    sheet
}

pub(super) fn milliseconds(seconds: f64) -> String {
    format!("{:.0}", seconds * 1e3)
}

pub(super) fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.0}%", 100.0 * part / whole) } else { NONE.to_owned() }
}

/// What it comes to over the whole run.
pub(super) fn sentences(run: &Run) -> Vec<String> {
    let made: Vec<&Visit> = run.visits.iter().filter(|visit| visit.is_measured()).collect();
    let sum = |seconds: fn(&Visit) -> f64| made.iter().map(|visit| seconds(visit)).sum::<f64>();
    let (all, timed) = (sum(|visit| visit.seconds), sum(|visit| visit.timings.timed()));
    let measuring = Tone::Strong.ink(&share(timed, all));
    let mut sentences =
        vec![format!("{} of {} in {} was timing", measuring, duration(all), plural(made.len(), "completed visit"))];
    // The median: a run that was continued has a long pause in it.
    let pauses: Vec<f64> = run.visits.windows(2).map(|pair| pause(&pair[0], &pair[1])).collect();
    if !pauses.is_empty() {
        let pause = median_of(pauses) * 1e3;
        sentences.push(format!("the supervisor itself takes {} ms between two visits", significant(pause.max(0.0))));
    }
    sentences
}

/// Seconds between the end of a visit and the start of the next.
fn pause(before: &Visit, next: &Visit) -> f64 {
    next.started.duration_since(before.started).as_secs_f64() - before.seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use crate::record::visit::Outcome;

    fn timed() -> Run {
        let mut run = fixture::two_sets();
        let begun = run.header.created;
        for (at, visit) in run.visits.iter_mut().enumerate() {
            visit.seconds = 4.0;
            visit.started = begun + jiff::SignedDuration::from_millis(4010 * at as i64);
            visit.timings = Timings {
                exec: 1.0,
                driver: 0.2,
                library: 0.1,
                contexts: 0.4,
                measuring: 0.9,
                capture: 0.1,
                teardown: 2.0,
                ..Timings::default()
            };
        }
        run
    }

    /// Words of the row of a phase.
    fn row(told: &str, phase: &str) -> Vec<String> {
        let mut lines = told.lines().map(str::trim_start);
        let line = lines.find(|line| line.starts_with(phase)).unwrap_or_else(|| panic!("{phase}: {told}"));
        line[phase.len()..].split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn each_phase_stands_with_its_share_for_each_set() {
        let told = render(&timed(), Style::default());
        assert_eq!(row(&told, "process start"), ["300", "8%", "300", "8%"], "{told}");
        assert_eq!(row(&told, "timing")[..2], ["800", "20%"], "{told}");
        assert_eq!(row(&told, "teardown")[..2], ["2000", "50%"], "{told}");
        assert!(!told.contains("first collective"), "nothing is known of it: {told}");
        assert!(told.contains("20% of 48 s in 12 completed visits was timing"), "{told}");
        assert!(told.contains("takes 10.0 ms between two visits"), "{told}");
    }

    #[test]
    fn a_run_without_a_completed_visit_says_so() {
        let mut run = timed();
        run.visits.iter_mut().for_each(|visit| visit.outcome = Outcome::Interrupted);
        assert!(render(&run, Style::default()).contains("no visit completed"));
    }
}
