//! A checkup for a terminal and for programs.

use std::io::Write;

use super::Style;
use super::form::Form;
use super::ink::{Tone, paragraph, plain, width};
use super::table::{LEAST, WIDEST};
use crate::doctor::{Check, Checkup, Status};
use crate::error::{Error, Kind, Result};
use crate::record::redact::Redactor;

/// Columns of a status and the blanks around it.
const STATUS: usize = 11;
/// Columns of a name at most; longer ones push their evidence on.
const NAME: usize = 24;

/// Writes `checkup` as `form`; `style` shapes [`Form::Table`] only. `redactor` takes out what tells whose box it is.
pub fn write(
    checkup: &Checkup,
    form: Form,
    style: Style,
    redactor: Option<&Redactor>,
    out: &mut impl Write,
) -> Result<()> {
    let failed = || Error::new(Kind::Incomplete, format!("cannot write the checkup as {form}"));
    let text = match (form, redactor) {
        (Form::Table, None) => render(checkup, style),
        (Form::Table, Some(redactor)) => render(&redacted(checkup, redactor), style),
        (Form::Json, _) => {
            let mut document = serde_json::to_value(checkup).map_err(|error| failed().because(error))?;
            if let Some(redactor) = redactor {
                redactor.scrub(&mut document);
            }
            serde_json::to_string_pretty(&document).map_err(|error| failed().because(error))? + "\n"
        }
    };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| failed().because(error))
}

/// What is printed of a checkup, redacted.
fn redacted(checkup: &Checkup, redactor: &Redactor) -> Checkup {
    let mut checkup = checkup.clone();
    let texts = |check: &mut Check| {
        let lines = check.evidence.iter_mut().chain(&mut check.next);
        lines.for_each(|line| *line = redactor.text(line));
    };
    checkup.checks.iter_mut().for_each(texts);
    checkup.subject = redactor.text(&checkup.subject);
    checkup
}

/// The checkup for a terminal.
#[must_use]
pub fn render(checkup: &Checkup, style: Style) -> String {
    let columns = style.width.clamp(LEAST, WIDEST);
    let mut out = String::new();
    let version = env!("CARGO_PKG_VERSION");
    paragraph(
        &mut out,
        "",
        &Tone::Strong.ink(&format!("ncclsweep {version} · doctor of {}", plain(&checkup.subject))),
        columns,
    );
    out.push('\n');
    let names = checkup.checks.iter().map(|check| width(&plain(&check.name))).filter(|columns| *columns <= NAME);
    let names = names.max().unwrap_or(0);
    for check in &checkup.checks {
        one(&mut out, check, names, columns);
    }
    out.push('\n');
    for limit in &checkup.limits {
        paragraph(&mut out, &Tone::Quiet.ink("note  "), &plain(limit), columns);
    }
    out.push('\n');
    paragraph(&mut out, "", &conclusion(checkup), columns);
    style.finish(&out)
}

fn one(out: &mut String, check: &Check, names: usize, columns: usize) {
    let name = plain(&check.name);
    let shown = status(check.status);
    let head = format!(
        "  {shown}{}{name}{}  ",
        " ".repeat(STATUS - 2 - width(&shown)),
        " ".repeat(names.saturating_sub(width(&name)))
    );
    let deep = " ".repeat(STATUS + names + 2);
    let mut evidence = check.evidence.iter();
    // A long name has a line of its own.
    if width(&head) > width(&deep) {
        out.push_str(head.trim_end());
        out.push('\n');
    } else {
        paragraph(out, &head, &plain(evidence.next().map_or("", String::as_str)), columns);
    }
    for line in evidence {
        paragraph(out, &deep, &plain(line), columns);
    }
    for step in &check.next {
        paragraph(out, &format!("{deep}→ "), &plain(step), columns);
    }
}

fn status(status: Status) -> String {
    let tone = match status {
        Status::Ok => Tone::Good,
        Status::Unknown => Tone::Quiet,
        Status::Warning => Tone::Doubt,
        Status::Fault => Tone::Bad,
    };
    tone.ink(&status.to_string())
}

fn conclusion(checkup: &Checkup) -> String {
    let counted =
        [Status::Fault, Status::Warning, Status::Unknown, Status::Ok].map(|status| (status, checkup.count(status)));
    let words = counted.iter().filter(|(_, count)| *count > 0).map(|(status, count)| match (status, count) {
        (Status::Fault | Status::Warning, 2..) => format!("{count} {status}s"),
        _ => format!("{count} {status}"),
    });
    let counts = words.collect::<Vec<_>>().join(", ");
    if checkup.saw_no_gpu() {
        return format!("{counts}. No GPU shows here: this tells nothing of a box with GPUs");
    }
    counts
}

#[cfg(test)]
mod tests;
