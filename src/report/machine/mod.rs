//! A run for programs and documents: [`Format`] and [`write`](fn@write).

mod csv;
pub(super) mod markdown;
mod nccl_tests;

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

use super::{Style, html, table};
use crate::error::{Error, Kind, Result};
use crate::record::stored::Stored;

/// A form of the results, as `--format` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people at a terminal.
    #[default]
    Table,
    /// The whole document, as `run.json` holds it; of several runs a line each.
    Json,
    /// A row for each observation, with all that it depends on.
    Csv,
    /// A row for each cell.
    CsvCells,
    /// One page that needs nothing but itself.
    Html,
    /// A table for each mode, to paste into an issue.
    Markdown,
    /// What `all_reduce_perf` of nccl-tests prints, a block for each env set.
    NcclTests,
    /// What `all_reduce_perf -J` writes, a line for each env set and mode.
    NcclTestsJson,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Table,
        Self::Html,
        Self::Markdown,
        Self::Json,
        Self::Csv,
        Self::CsvCells,
        Self::NcclTests,
        Self::NcclTestsJson,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::CsvCells => "csv-cells",
            Self::Html => "html",
            Self::Markdown => "markdown",
            Self::NcclTests => "nccl-tests",
            Self::NcclTestsJson => "nccl-tests-json",
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

/// Writes these runs in `format`: one table, page or sequence of all. `style` is the terminal's and shapes [`Format::Table`]
/// only.
pub fn write(runs: &[Stored], format: Format, style: Style, out: &mut impl Write) -> Result<()> {
    let unwritten =
        |error: io::Error| Error::new(Kind::Incomplete, format!("cannot write the results as {format}")).because(error);
    match format {
        Format::Csv => return csv::observations(runs, out),
        Format::CsvCells => return csv::cells(runs, out),
        Format::Html => out.write_all(html::runs_of(runs)?.as_bytes()).map_err(unwritten)?,
        Format::Table | Format::Json | Format::Markdown | Format::NcclTests | Format::NcclTestsJson => {
            for (at, stored) in runs.iter().enumerate() {
                let text = match format {
                    Format::Json => json(stored)?,
                    Format::Markdown => markdown::render(&stored.run),
                    Format::NcclTests => nccl_tests::text::render(&stored.run),
                    Format::NcclTestsJson => nccl_tests::json::render(&stored.run)?,
                    _ => table::render(&stored.run, style),
                };
                let apart = if at > 0 && matches!(format, Format::Table | Format::Markdown) { "\n" } else { "" };
                write!(out, "{apart}{text}").map_err(unwritten)?;
            }
        }
    }
    out.flush().map_err(unwritten)
}

/// The document on one line.
fn json(stored: &Stored) -> Result<String> {
    let text = serde_json::to_string(&stored.run).map_err(|error| {
        Error::new(Kind::Incomplete, format!("cannot write the results as {}", Format::Json)).because(error)
    });
    Ok(text? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use crate::record::run::Run;

    #[test]
    fn the_name_of_a_format_reads_as_that_format() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        let error = "yaml".parse::<Format>().unwrap_err();
        assert_eq!(
            error.next_step(),
            Some("one of: table, html, markdown, json, csv, csv-cells, nccl-tests, nccl-tests-json")
        );
    }

    fn stored() -> Stored {
        fixture::stored(fixture::two_sets(), 1, |_, _| 1.0)
    }

    fn written(runs: &[Stored], format: Format) -> String {
        let mut text = Vec::new();
        write(runs, format, Style::default(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn json_is_the_document_itself_and_several_runs_are_a_line_each() {
        let text = written(&[stored(), stored()], Format::Json);
        let read: Vec<Run> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, [stored().run, stored().run]);
    }

    #[test]
    fn several_runs_are_one_table_of_csv_and_one_page() {
        for (format, heads) in [(Format::Csv, "run,backend,host,"), (Format::CsvCells, "run,backend,set,")] {
            let text = written(&[stored(), stored()], format);
            assert_eq!(text.lines().filter(|line| line.starts_with(heads)).count(), 1, "{format}");
            assert!(text.lines().nth(1).unwrap().starts_with("results/run-1,cuda,"));
        }
        let text = written(&[stored(), stored()], Format::Html);
        assert_eq!(text.matches("<!DOCTYPE html>").count(), 1);
        assert_eq!(text.matches("<article").count(), 2);
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_format() {
        for format in Format::ALL {
            let error = write(&[stored()], format, Style::default(), &mut [0; 10].as_mut_slice()).unwrap_err();
            assert!(error.message().starts_with("cannot write the results as "), "{format}: {error}");
        }
    }
}
