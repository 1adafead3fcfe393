//! An acceptance test for a terminal, for programs, and for continuous integration (JUnit XML).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::Write;
use std::str::FromStr;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::Style;
use super::head::Line;
use super::ink::{Tone, cut, paragraph, plain};
use super::sheet::{Align, Column, Sheet};
use super::table::{LEAST, WIDEST, labelled};
use crate::accept::{Acceptance, Judged, Outcome};
use crate::error::{Error, Kind, Result};
use crate::record::run::Backend;
use crate::units::{self, plural};

/// Head of the column of intervals.
const INTERVAL: &str = "95%";

/// Columns of a bound and of what was measured.
const TEXT: usize = 20;

/// A form of an acceptance test, as `--format` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people at a terminal.
    #[default]
    Table,
    /// The whole document.
    Json,
    /// A test case for each requirement.
    Junit,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Junit => "junit",
        })
    }
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = |form: &Self| form.to_string().eq_ignore_ascii_case(text);
        [Self::Table, Self::Json, Self::Junit]
            .into_iter()
            .find(known)
            .ok_or_else(|| Error::usage(format!("unknown format `{text}`")).help("one of: table, json, junit"))
    }
}

/// Writes `acceptance` as `form`; `style` shapes [`Form::Table`] only.
pub fn write(acceptance: &Acceptance, form: Form, style: Style, out: &mut impl Write) -> Result<()> {
    let text = match form {
        Form::Table => render(acceptance, style),
        Form::Json => serde_json::to_string_pretty(acceptance).map_err(|error| failed(form).because(error))? + "\n",
        Form::Junit => junit(acceptance)?,
    };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| failed(form).because(error))
}

fn failed(form: Form) -> Error {
    Error::new(Kind::Incomplete, format!("cannot write the acceptance as {form}"))
}

/// The report for a terminal.
#[must_use]
pub fn render(acceptance: &Acceptance, style: Style) -> String {
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    paragraph(&mut out, "", &Tone::Strong.ink(&format!("acceptance by {}", plain(&acceptance.plan))), columns);
    if acceptance.backend == Backend::Emulated {
        let alarm = "EMULATED: virtual time. This accepts no real box.";
        paragraph(&mut out, "", &Tone::Bad.ink(alarm), columns);
    }
    out.push('\n');
    labelled(&mut out, head(acceptance), columns);
    out.push('\n');
    let table = table(acceptance).fit(style.width, "requirement");
    out.push_str(&table.render());
    let shown = table.has(INTERVAL);
    let names = names(&acceptance.requirements);
    let all = acceptance.requirements.iter().zip(&names);
    let reasons: Vec<Line> = all.filter_map(|(judged, name)| reason(judged, name, shown)).collect();
    if !reasons.is_empty() {
        out.push('\n');
        labelled(&mut out, reasons, columns);
    }
    out.push('\n');
    paragraph(&mut out, "", &conclusion(acceptance), columns);
    style.finish(&out)
}

fn head(acceptance: &Acceptance) -> Vec<Line> {
    let run = &acceptance.run;
    let time = run.created.strftime("%Y-%m-%d %H:%M UTC");
    let of_run = format!("{} · {} · {time} · {}", plain(&run.place), plain(&run.host), plural(run.visits, "visit"));
    let note = acceptance.note.iter().map(|note| Line::new("plan", plain(note)));
    note.chain([Line::new("run", of_run)]).collect()
}

fn table(acceptance: &Acceptance) -> Sheet {
    let mut sheet = Sheet::new(vec![
        Column::new("requirement", "", Align::Left),
        Column::new("bound", "", Align::Left),
        Column::new("measured", "", Align::Left),
        Column::new(INTERVAL, "interval", Align::Dash).spare(1),
        Column::new("outcome", "", Align::Left),
    ]);
    for judged in &acceptance.requirements {
        sheet.row(vec![
            plain(&judged.requirement),
            cut(&plain(&judged.bound), TEXT),
            judged.measured.as_deref().map_or_else(|| "-".into(), |measured| cut(&plain(measured), TEXT)),
            interval(judged).unwrap_or_default(),
            outcome(judged.outcome),
        ]);
    }
    sheet
}

fn outcome(outcome: Outcome) -> String {
    let tone = match outcome {
        Outcome::Pass => Tone::Good,
        Outcome::Fail => Tone::Bad,
        Outcome::Undecided | Outcome::NotMeasured => Tone::Doubt,
    };
    tone.ink(&outcome.to_string())
}

/// `24.9–25.47`: both ends with enough digits to see on which side of the bound they lie.
fn interval(judged: &Judged) -> Option<String> {
    let [low, high] = judged.interval?;
    Some(match judged.limit {
        Some(limit) => format!("{}–{}", units::beside(limit, low), units::beside(limit, high)),
        None => units::range(low, high),
    })
}

/// Why a requirement did not simply pass; `shown` is whether its interval stands in the table, else it stands here.
fn reason(judged: &Judged, name: &str, shown: bool) -> Option<Line> {
    let hidden = interval(judged).filter(|_| !shown && judged.outcome != Outcome::Pass);
    let hidden = hidden.map(|interval| format!("95% interval {interval}"));
    let told: Vec<String> = hidden.into_iter().chain(judged.reason.as_deref().map(plain)).collect();
    let line = || Line::new("why", format!("{}: {}, {}", plain(name), outcome(judged.outcome), told.join("; ")));
    (!told.is_empty()).then(line)
}

/// The requirements by name, each another: of those that ask for the same figure the bound is part of the name.
fn names(all: &[Judged]) -> Vec<String> {
    let mut times: HashMap<(&str, &str), usize> = HashMap::new();
    all.iter().for_each(|judged| *times.entry((judged.kind, &judged.requirement)).or_default() += 1);
    let mut used: HashSet<(&'static str, String)> = HashSet::new();
    let mut name = |judged: &Judged| {
        let twice = times[&(judged.kind, judged.requirement.as_str())] > 1;
        let bound = if twice { format!(" {}", judged.bound) } else { String::new() };
        let plain = format!("{}{bound}", judged.requirement);
        let numbered = (2..).map(|number| format!("{plain} ({number})"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        names.find(|name| used.insert((judged.kind, name.clone()))).unwrap_or_default()
    };
    all.iter().map(&mut name).collect()
}

/// `not accepted: 2 of 14 requirements failed, 1 not measured`.
fn conclusion(acceptance: &Acceptance) -> String {
    let all = plural(acceptance.requirements.len(), "requirement");
    let open = [(Outcome::Fail, "failed"), (Outcome::NotMeasured, "not measured"), (Outcome::Undecided, "undecided")];
    let told =
        open.into_iter().map(|(outcome, word)| (acceptance.count(outcome), word)).filter(|(count, _)| *count > 0);
    let told: Vec<String> = told.map(|(count, word)| format!("{count} {word}")).collect();
    if told.is_empty() {
        return format!("{}: all {all} hold", Tone::Good.ink("accepted"));
    }
    let help = if acceptance.count(Outcome::Undecided) > 0 { "; more rounds narrow the intervals" } else { "" };
    format!("{}: of {all} {}{help}", Tone::Bad.ink("not accepted"), told.join(", "))
}

/// JUnit XML. What is undecided or was not measured is an error there, never a test that was skipped: nobody looks at those.
pub fn junit(acceptance: &Acceptance) -> Result<String> {
    let mut suite = TestSuite::new(acceptance.plan.as_str());
    suite.add_property(("run", acceptance.run.place.as_str()));
    suite.add_property(("host", acceptance.run.host.as_str()));
    if acceptance.backend == Backend::Emulated {
        suite.add_property(("backend", "emulated"));
    }
    for (judged, name) in acceptance.requirements.iter().zip(names(&acceptance.requirements)) {
        let mut case = TestCase::new(name, status(judged));
        case.set_classname(format!("accept.{}", judged.kind));
        // Of a case that passed too: a server draws the figures of many runs from it.
        case.set_system_out(found(judged));
        let [low, high] = judged.interval.map_or([None; 2], |interval| interval.map(Some));
        for (name, number) in [("value", judged.value), ("low", low), ("high", high)] {
            case.properties.extend(number.map(|number| (name, number.to_string().as_str()).into()));
        }
        suite.add_test_case(case);
    }
    let mut report = Report::new("ncclsweep accept");
    report.add_test_suite(suite);
    report.to_string().map_err(|error| failed(Form::Junit).because(error))
}

fn status(judged: &Judged) -> TestCaseStatus {
    let kind = match judged.outcome {
        Outcome::Pass => return TestCaseStatus::success(),
        Outcome::Fail => NonSuccessKind::Failure,
        Outcome::Undecided | Outcome::NotMeasured => NonSuccessKind::Error,
    };
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(judged.outcome.to_string());
    status.set_message(found(judged));
    status
}

/// `42.1 µs (41.0–43.2), required ≤ 60.0 µs`, and why where the figures do not say.
fn found(judged: &Judged) -> String {
    let measured = judged.measured.as_deref().map_or_else(|| "nothing".to_owned(), plain);
    let interval = interval(judged).map_or_else(String::new, |interval| format!(" ({interval})"));
    let reason = judged.reason.as_deref().map_or_else(String::new, |reason| format!("; {}", plain(reason)));
    format!("{measured}{interval}, required {}{reason}", judged.bound)
}

#[cfg(test)]
mod tests;
