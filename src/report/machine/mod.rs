//! A run for programs and documents: [`Format`] and [`write`](fn@write).

mod csv;
pub(super) mod markdown;
mod nccl_tests;

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

pub use self::csv::observations;
use super::{Style, table};
use crate::error::{Error, Kind, Result};
use crate::record::run::Run;

/// A form of the results, as `--format` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people at a terminal.
    #[default]
    Table,
    /// The whole document, as `run.json` holds it.
    Json,
    /// A row for each cell.
    Csv,
    /// A table for each mode, to paste into an issue.
    Markdown,
    /// What `all_reduce_perf` of nccl-tests prints, a block for each env set.
    NcclTests,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Table, Self::Json, Self::Csv, Self::Markdown, Self::NcclTests];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Markdown => "markdown",
            Self::NcclTests => "nccl-tests",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = |format: &Self| format.name().eq_ignore_ascii_case(text);
        Self::ALL.into_iter().find(known).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::usage(format!("unknown format `{text}`")).help(format!("one of: {names}"))
        })
    }
}

/// Writes `run` in `format`. `style` is the terminal's and shapes [`Format::Table`] only.
pub fn write(run: &Run, format: Format, style: Style, out: &mut impl Write) -> Result<()> {
    let written = match format {
        Format::Table => out.write_all(table::render(run, style).as_bytes()),
        Format::Json => json(run, out),
        Format::Csv => csv::cells(run, out),
        Format::Markdown => out.write_all(markdown::render(run).as_bytes()),
        Format::NcclTests => out.write_all(nccl_tests::render(run).as_bytes()),
    };
    written.and_then(|()| out.flush()).map_err(|error| {
        let message = format!("cannot write the results as {format}");
        Error::new(Kind::Incomplete, message).because(error)
    })
}

/// The document, indented, with a line end.
fn json(run: &Run, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, run).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn the_name_of_a_format_reads_as_that_format() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        let error = "yaml".parse::<Format>().unwrap_err();
        assert_eq!(error.next_step(), Some("one of: table, json, csv, markdown, nccl-tests"));
    }

    #[test]
    fn json_is_the_document_itself() {
        let run = fixture::two_sets();
        let mut text = Vec::new();
        write(&run, Format::Json, Style::default(), &mut text).unwrap();
        assert_eq!(serde_json::from_slice::<Run>(&text).unwrap(), run);
        assert!(text.ends_with(b"}\n"));
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_format() {
        let mut full = [0; 10];
        let error = write(&fixture::two_sets(), Format::Csv, Style::default(), &mut full.as_mut_slice()).unwrap_err();
        assert_eq!(error.message(), "cannot write the results as csv");
    }
}
