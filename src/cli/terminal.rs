//! What the terminal on stdout can show.

use std::io::{IsTerminal, Write};

use crate::report::Style;

/// Writes a line to stderr. That nobody can read it is no reason to lose results.
pub fn note(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Narrowest and widest layout: below, tables break; above, lines are too long to read.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=160;

/// Width and colours of stdout. `NO_COLOR` and a dumb terminal get no colours; a file gets 80 columns.
#[must_use]
pub fn style() -> Style {
    let terminal = std::io::stdout().is_terminal();
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let real = || terminal.then(terminal_size::terminal_size).flatten().map(|(width, _)| usize::from(width.0));
    let standard = Style::default();
    Style {
        width: columns.or_else(real).unwrap_or(standard.width).clamp(*WIDTHS.start(), *WIDTHS.end()),
        color: terminal && !dumb && !set("NO_COLOR"),
        unicode: true,
    }
}
