//! Exit codes, and how an error is shown.

use std::io::IsTerminal;
use std::process::{ExitCode, Termination};

use miette::{GraphicalReportHandler, GraphicalTheme};
use textwrap::{WordSeparator, WordSplitter};

use super::terminal;
use crate::error::{Error, Kind};

/// How `ncclsweep` ends. The first that holds, from the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// The user interrupted; what was measured is kept.
    Interrupted,
    /// Arguments, a configuration or an input file are wrong, or a comparison was refused.
    Usage,
    /// No GPU, driver or library, or the GPUs are busy.
    Environment,
    /// Something was not measured: a hang, a crash, wrong data.
    Incomplete,
    /// A gate failed: an expected set is slower or did not take effect.
    Failed,
    /// Some cells are undecided.
    Undecided,
    /// A command that was started failed, and this is how; nothing of ours did.
    Command(u8),
    /// Everything asked for holds.
    Held,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Command(code) => code,
            Self::Held => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Environment => 3,
            Self::Incomplete => 4,
            Self::Undecided => 5,
            Self::Interrupted => 130,
        }
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Usage => Self::Usage,
            Kind::Environment => Self::Environment,
            Kind::Incomplete => Self::Incomplete,
            Kind::Interrupted => Self::Interrupted,
        }
    }
}

/// Shows on stderr what clap has against the arguments.
pub fn show_usage(error: &clap::Error) {
    let fancy = is_fancy();
    let text = error.render();
    if fancy {
        terminal::colored_note(text.ansi().to_string().trim_end())
    } else {
        terminal::note(text.to_string().trim_end())
    }
}

fn is_fancy() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Shows an error on stderr: message, causes, the place in the text, the next step.
pub fn show(error: &Error) {
    let fancy = is_fancy();
    let theme = if fancy { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let mut text = String::new();
    // Lines break at blanks alone: a path or a flag that is to be copied stays whole.
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(terminal::note_width())
        .with_word_separator(WordSeparator::AsciiSpace)
        .with_word_splitter(WordSplitter::NoHyphenation)
        .with_break_words(false);
    let shown = handler.render_report(&mut text, error);
    let text = clipped(text.trim());
    match shown {
        Ok(()) if fancy => terminal::colored_note(&format!("ncclsweep: {text}\x1b[0m")),
        Ok(()) => terminal::note(format!("ncclsweep: {text}")),
        Err(_) => terminal::note(format!("ncclsweep: {error}")),
    }
}

/// Longest line of an error: a path is shorter, but the line of a file that is shown with its fault may be a megabyte.
const LONGEST_LINE: usize = 1000;

fn clipped(text: &str) -> String {
    let lines = text.lines().map(|line| match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_any_length_is_shown_by_its_beginning() {
        let text = format!("short\n{}\nlast", "µ".repeat(1_000_000));
        let shown = clipped(&text);
        assert_eq!(shown.lines().map(|line| line.chars().count()).collect::<Vec<_>>(), [5, LONGEST_LINE + 1, 4]);
        assert_eq!(clipped("a\n\nb"), "a\n\nb");
    }
}
