//! What a line of a configuration file means to set, against what NCCL makes of it.

use super::{Entry, KEPT, Lint};
use crate::nccl::catalogue::{self, Kind};
use crate::nccl::number::strtoll;

/// A line as its author means it.
struct Meant {
    name: String,
    value: String,
    /// What stands in the way.
    wrong: Vec<&'static str>,
}

/// Lints of one line: `seen` is what NCCL sets for it, `before` what earlier lines have set.
pub fn line(bytes: &[u8], number: usize, seen: &[Entry], before: &[Entry]) -> Vec<Lint> {
    let text = String::from_utf8_lossy(bytes);
    let lint = |lost, message: String, corrected| Lint { line: number, lost, message, corrected };
    let body = text.trim_start_matches('\u{feff}').trim();
    if body.is_empty() || body.starts_with('#') {
        return Vec::new();
    }
    let Some(meant) = meant(&text) else {
        return vec![lint(true, "sets nothing: a line is NAME=VALUE".to_owned(), None)];
    };
    let corrected = format!("{}={}", meant.name, meant.value);
    let mut lints = Vec::new();
    let found = seen.first();
    let survives = found.is_some_and(|found| found.name == meant.name && same(&meant.name, &found.value, &meant.value));
    let exact = found.is_some_and(|found| found.name == meant.name && found.value == meant.value);
    if !exact {
        let wrong =
            if meant.wrong.is_empty() { "holds what NCCL cannot keep".to_owned() } else { meant.wrong.join(", ") };
        let then = match found {
            None => "NCCL passes over it".to_owned(),
            Some(found) if found.name != meant.name => format!("NCCL sets a variable named {:?}", cut(&found.name)),
            Some(_) if survives => "the number survives it".to_owned(),
            Some(found) => format!("NCCL reads {:?}", cut(&found.value)),
        };
        let fits = meant.value.len() <= KEPT && meant.name.len() <= KEPT && !meant.value.contains('\0');
        lints.push(lint(!survives, format!("{wrong}: {then}"), fits.then(|| corrected.clone())));
    }
    if let Some(earlier) = before.iter().find(|earlier| earlier.name == meant.name) {
        lints.push(lint(
            true,
            format!("{} is set in line {} already, and the first counts", meant.name, earlier.line),
            None,
        ));
    }
    lints.extend(name(&meant, &lint));
    lints
}

/// What is wrong with the name of a line.
fn name(meant: &Meant, lint: &impl Fn(bool, String, Option<String>) -> Lint) -> Option<Lint> {
    let Meant { name, value, .. } = meant;
    if name == "NCCL_CONF_FILE" {
        return Some(lint(true, "NCCL_CONF_FILE counts in the environment only".to_owned(), None));
    }
    if catalogue::get(name).is_some() || catalogue::is_later(name) || catalogue::foreign(name).is_some() {
        return None;
    }
    let near = catalogue::nearest(name).map(|variable| &variable.name);
    match near {
        Some(near) => {
            let message = format!("{name} is no variable of NCCL; did you mean {near}?");
            Some(lint(true, message, Some(format!("{near}={value}"))))
        }
        None if name.starts_with("NCCL_") => {
            Some(lint(false, format!("{name} is no variable that is known here"), None))
        }
        None => Some(lint(false, format!("{name} is set in the process's environment, but is none of NCCL's"), None)),
    }
}

/// Whether NCCL takes `seen` for the value `meant`.
fn same(name: &str, seen: &str, meant: &str) -> bool {
    let number = catalogue::get(name)
        .is_some_and(|variable| matches!(variable.kind, Kind::Integer { .. } | Kind::Switch(_) | Kind::Exact1));
    let (seen_number, meant_number) = (strtoll(seen), strtoll(meant));
    seen == meant || (number && seen_number.digits && meant_number.digits && seen_number.value == meant_number.value)
}

fn cut(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Takes off what shells and other formats allow and NCCL does not.
fn meant(line: &str) -> Option<Meant> {
    let mut wrong = Vec::new();
    let mut text = line;
    if let Some(rest) = text.strip_prefix('\u{feff}') {
        wrong.push("begins with a byte order mark");
        text = rest;
    }
    if let Some(rest) = text.strip_suffix('\r') {
        wrong.push("ends in a carriage return");
        text = rest;
    }
    if text.starts_with(char::is_whitespace) {
        wrong.push("begins with blanks");
        text = text.trim_start();
    }
    for word in ["export ", "set ", "setenv "] {
        if let Some(rest) = text.strip_prefix(word) {
            wrong.push("begins with a word of the shell");
            text = rest.trim_start();
        }
    }
    let looks_like_a_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value),
        // `NAME VALUE` and `NAME: VALUE` of other formats.
        None => {
            let (name, value) = text.split_once([':', ' ', '\t'])?;
            wrong.push("has no `=`");
            (name, value)
        }
    };
    if name.trim_end() != name || value.starts_with(char::is_whitespace) {
        wrong.push("has blanks around `=`");
    }
    let (name, mut value) = (name.trim_end(), value.trim_start());
    if !looks_like_a_name(name) {
        return None;
    }
    if let Some(at) = [" #", "\t#"].iter().filter_map(|mark| value.find(mark)).min() {
        wrong.push("has a comment after the value");
        value = &value[..at];
    }
    if value.trim_end() != value {
        wrong.push("ends in blanks");
        value = value.trim_end();
    }
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            wrong.push("has quotes around the value");
            value = inner;
        }
    }
    if value.len() > KEPT {
        wrong.push("is longer than the 1023 bytes that NCCL keeps");
    }
    if value.contains('\0') || name.contains('\0') {
        wrong.push("holds a zero byte");
    }
    Some(Meant { name: name.to_owned(), value: value.to_owned(), wrong })
}
