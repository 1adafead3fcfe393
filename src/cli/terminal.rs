//! What the terminal on stdout can show.

use std::io::{IsTerminal, Write};

use crate::report::{Style, steers};

/// Writes a line to stderr. That nobody can read it is no reason to lose results.
pub fn note(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(&line.to_string(), false));
}

/// Writes to stderr what may have colours of its own.
pub fn colored_note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(text, true));
}

/// `text` with what would steer the terminal written out: an argument, a file or a library may say anything. Line breaks stay,
/// and where there are `colors` the sequences that colour.
fn visible(text: &str, colors: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(sequence) = colors.then(|| color(rest)).flatten() {
            shown.push_str(sequence);
            rest = &rest[sequence.len()..];
            continue;
        }
        match c {
            '\n' | '\t' => shown.push(c),
            c if steers(c) => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    shown
}

/// The sequence at the start of `text` that sets a colour, when there is one.
fn color(text: &str) -> Option<&str> {
    let numbers = text.strip_prefix("\x1b[")?;
    let end = numbers.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    numbers[end..].starts_with('m').then(|| &text[..2 + end + 1])
}

/// Narrowest and widest layout: below, tables break; above, lines are too long to read.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=160;

/// Lines of errors are not longer than this on any terminal.
const WIDEST_NOTE: usize = 100;

/// Columns for errors on stderr.
#[must_use]
pub fn note_width() -> usize {
    width(&std::io::stderr()).min(WIDEST_NOTE)
}

/// Columns of an output, as `COLUMNS` says or the terminal; a file gets 80.
fn width(output: &(impl IsTerminal + std::os::fd::AsFd)) -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let real = || output.is_terminal().then(|| terminal_size::terminal_size_of(output)).flatten();
    let width = asked.or_else(|| real().map(|(width, _)| usize::from(width.0)));
    width.unwrap_or(Style::default().width).clamp(*WIDTHS.start(), *WIDTHS.end())
}

/// Width and colours of stdout. `NO_COLOR` and a dumb terminal get no colours; a file gets 80 columns.
#[must_use]
pub fn style() -> Style {
    let terminal = std::io::stdout().is_terminal();
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    Style { width: width(&std::io::stdout()), color: terminal && !dumb && !set("NO_COLOR"), unicode: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_steer_the_terminal_is_written_out() {
        assert_eq!(visible("a\x1b[2J\u{9b}31m\r\nb\tc\u{202e}µ", true), "a\\u{1b}[2J\\u{9b}31m\\r\nb\tc\\u{202e}µ");
    }

    #[test]
    fn colors_stay_where_they_are_ours_to_have() {
        let text = "\x1b[1;31mred\x1b[0m";
        assert_eq!(visible(text, true), text);
        assert_eq!(visible(text, false), "\\u{1b}[1;31mred\\u{1b}[0m");
        assert_eq!(visible("\x1b[31", true), "\\u{1b}[31");
    }
}
