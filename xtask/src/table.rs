//! One table of results: shown on the terminal and kept as CSV, its first line the command that made it.

use std::fs;
use std::path::Path;

use ncclsweep::error::{Error, Kind, Result};

/// Rows of text under named columns.
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(columns: &[&'static str]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.columns.len(), "a row fills every column");
        self.rows.push(row);
    }

    pub fn print(&self) {
        let width = |i: usize| {
            self.rows.iter().map(|row| row[i].chars().count()).chain([self.columns[i].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |row: Vec<&str>| {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            println!("{}", cells.join("  "));
        };
        line(self.columns.clone());
        for row in &self.rows {
            line(row.iter().map(String::as_str).collect());
        }
    }

    pub fn save(&self, path: &Path, command: &str) -> Result<()> {
        let failed = |cause: std::io::Error| {
            Error::new(Kind::Incomplete, format!("cannot write {}", path.display())).because(cause)
        };
        let mut writer = csv::Writer::from_writer(format!("# {command}\n").into_bytes());
        writer.write_record(&self.columns).map_err(|error| failed(error.into()))?;
        self.rows.iter().try_for_each(|row| writer.write_record(row)).map_err(|error| failed(error.into()))?;
        let text = writer.into_inner().map_err(|error| failed(error.into_error()))?;
        fs::write(path, text).map_err(failed)
    }
}
