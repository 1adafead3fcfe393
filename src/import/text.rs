//! What `all_reduce_perf` prints, as launchers pass it on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use indexmap::IndexMap;
use regex::Regex;

use super::columns::{Columns, Printed, Read};
use super::{Head, Options, Rank, Row, Source, Table, prefix};
use crate::error::{Error, Result};
use crate::nccl::log::{Line as LogLine, without_colours};
use crate::nccl::version::NcclVersion;

const HELP: &str = "pass the output of all_reduce_perf whole and alone: from `# nccl-tests version` or `# nThread` to the \
                    line `# Avg bus bandwidth`";

/// How far the mean bandwidths of the threads of one process may lie from the first one's, relative: they take part in the
/// same calls, and begin and end some µs apart.
const OWN_TIMES: f64 = 0.05;

/// `nThread 2`, `warmup iters: 20`, `graph: 0`
static OPTION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(\w+(?: iters)?):?\s+(\d+)").expect("the pattern is right"));

/// `Rank  0 Group  0 Pid   2387 on         vm device  0 [0000:00:06] NVIDIA H200`; old ones have no group and no pid.
static RANK: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"^Rank\s+(\d+)\s(?:.*?Pid\s+(\d+))?.*?\bon\s+(\S+)\s+device\s+(\d+)\s+\[([^\]]*)\]\s*(.*)$";
    Regex::new(pattern).expect("the pattern is right")
});

/// Reads all tables, in the order of their lines.
pub(super) fn parse(source: &Source) -> Result<Vec<Table>> {
    let plain = without_colours(source.text);
    let mut streams: IndexMap<String, Reader> = IndexMap::new();
    for (number, line) in (1..).zip(plain.trim_start_matches('\u{feff}').split('\n')) {
        let (tags, line) = prefix::split(line.trim_end_matches('\r'));
        streams.entry(tags).or_insert_with(|| Reader::new(*source)).line(number, line)?;
    }
    let torn = (!plain.ends_with('\n')).then(|| plain.matches('\n').count() + 1);
    let mut tables = Vec::new();
    for reader in streams.into_values() {
        tables.extend(reader.end(torn)?);
    }
    if tables.is_empty() {
        let message = format!("{} holds no table of nccl-tests", source.name);
        return Err(Error::usage(message).help(HELP));
    }
    tables.sort_by_key(|table| table.line);
    Ok(tables)
}

/// A table whose end was not seen yet.
struct Open {
    columns: Columns,
    table: Table,
    left_out: BTreeMap<&'static str, usize>,
}

/// Reads one stream line by line.
struct Reader<'a> {
    source: Source<'a>,
    head: Head,
    /// Tables begun under this head; once there is one, what tells of another process begins another head.
    begun: usize,
    /// Bus bandwidths of all rows under this head; `None` when some were not read.
    busbws: Option<Vec<Printed>>,
    open: Option<Open>,
    tables: Vec<Table>,
}

impl<'a> Reader<'a> {
    fn new(source: Source<'a>) -> Self {
        Self { source, head: Head::default(), begun: 0, busbws: Some(Vec::new()), open: None, tables: Vec::new() }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<()> {
        let text = line.trim();
        if ["Test NCCL failure", "Test CUDA failure", "Test failure", "Test timeout"].iter().any(|it| text.contains(it))
        {
            return Err(self.fault(number, "nccl-tests failed here").help("the run did not end well: make another"));
        }
        let comment = text.trim_start_matches('#').trim();
        if let Some(columns) = Columns::read(comment) {
            return self.begin(number, columns.map_err(|what| self.fault(number, what))?);
        }
        if comment.starts_with("Out of bounds values") || comment.starts_with("Avg bus bandwidth") {
            return self.footer(number, comment);
        }
        if text.starts_with('#') || self.open.is_none() {
            self.comment(comment);
        }
        match &mut self.open {
            _ if text.is_empty() || text.starts_with('#') || is_log(text) => Ok(()),
            Some(_) => self.row(number, text),
            None if is_row(text) => Err(self.fault(number, "a row without the names of its columns")),
            None => Ok(()),
        }
    }

    /// A table begins.
    fn begin(&mut self, number: usize, columns: Columns) -> Result<()> {
        if let Some(open) = self.open.take() {
            if open.table.rows.is_empty() {
                let what = format!(
                    "a second table begins before the one of line {} has a row: outputs are mixed",
                    open.table.line
                );
                return Err(self.fault(number, what));
            }
            self.close(open);
        }
        self.begun += 1;
        let head = Head { cpu_time: columns.cpu_time(), ..self.head.clone() };
        let table = Table { line: number, head, ..Table::default() };
        self.open = Some(Open { columns, table, left_out: BTreeMap::new() });
        Ok(())
    }

    fn row(&mut self, number: usize, text: &str) -> Result<()> {
        let fault = |what: String| self.source.fault(number, what).help(HELP);
        let Some(open) = &mut self.open else { return Ok(()) };
        let ranks = Some(open.table.head.ranks.len()).filter(|ranks| *ranks > 0);
        match open.columns.row(number, text, ranks).map_err(fault)? {
            Read::Row(row, busbws) => {
                self.busbws.iter_mut().for_each(|all| all.extend(busbws));
                open.table.rows.push(row);
            }
            Read::LeftOut(why) => {
                self.busbws = None;
                *open.left_out.entry(why).or_default() += 1;
            }
        }
        Ok(())
    }

    /// The lines under a table, of which the first ends it.
    fn footer(&mut self, number: usize, text: &str) -> Result<()> {
        let count = text.split_once(':').and_then(|(_, value)| value.split_whitespace().next());
        if text.starts_with("Avg") {
            self.average(count).map_err(|what| self.fault(number, what))?;
        }
        match self.open.take() {
            Some(mut open) => {
                if text.starts_with("Out of bounds") {
                    let count = count.and_then(|count| count.parse().ok());
                    open.table.out_of_bounds = Some(count.ok_or_else(|| self.fault(number, "no count of checks"))?);
                    self.tables.push(noted(open));
                } else {
                    self.close(open);
                }
                Ok(())
            }
            // The second line under a table.
            None if text.starts_with("Avg") && !self.tables.is_empty() => Ok(()),
            None => Err(self.fault(number, "the end of a table that did not begin: outputs are mixed")),
        }
    }

    /// Holds the mean that nccl-tests printed against the rows, so that none is missing or altered.
    fn average(&self, told: Option<&str>) -> Result<(), String> {
        let Some(busbws) = self.busbws.as_ref().filter(|all| self.begun == 1 && !all.is_empty()) else { return Ok(()) };
        let told = Printed::read(told.unwrap_or_default(), 1.0)?;
        let mean = |of: fn(&Printed) -> f64| busbws.iter().map(of).sum::<f64>() / busbws.len() as f64;
        let (found, slack) = (mean(|one| one.value), mean(|one| one.slack));
        // With `-a 0` rows are those of the first thread, the mean is over the own times of all.
        let threads = self.head.options.is_some_and(|options| options.threads > 1);
        let own = if threads { OWN_TIMES * told.value } else { 0.0 };
        // %g: six digits.
        if (found - told.value).abs() <= slack + told.slack.max(1e-5 * told.value) + own {
            return Ok(());
        }
        Err(format!("the rows above have a mean of {found:.4}: some are missing or not those that were printed"))
    }

    /// A table without the line under it.
    fn close(&mut self, mut open: Open) {
        let (line, last) = (open.table.line, open.table.rows.last().map_or(open.table.line, |row| row.line));
        open.table.notes.push(format!(
            "the table of line {line} stops after line {last}, its closing lines (`# Out of bounds values`, `# Avg bus \
             bandwidth`) are missing: the output was cut off or the process stopped, and sizes may be missing"
        ));
        self.tables.push(noted(open));
    }

    /// What a comment tells of how was measured, and on what.
    fn comment(&mut self, text: &str) {
        let begins =
            ["nccl-tests version", "Collective test starting", "nThread"].iter().any(|it| text.starts_with(it));
        if begins && self.begun > 0 {
            // Another process; a table of the one before it, that has no end, was cut off.
            if let Some(open) = self.open.take_if(|open| !open.table.rows.is_empty()) {
                self.close(open);
            }
            if self.open.is_none() {
                (self.head, self.begun, self.busbws) = (Head::default(), 0, Some(Vec::new()));
            }
        }
        let head = &mut self.head;
        if let Some(rest) = text.strip_prefix("nccl-tests version ") {
            head.version = rest.split_whitespace().next().map(str::to_owned);
            let code = rest.split_once("nccl-library=").and_then(|(_, code)| code.trim().parse().ok());
            head.nccl = code.and_then(NcclVersion::from_code);
        } else if let Some(program) = text.strip_prefix("Collective test starting:") {
            head.program = Some(program.trim().to_owned());
        } else if text.starts_with("nThread") {
            head.options = Some(options(text));
        } else if text.starts_with("Blocking Enabled") {
            head.options.get_or_insert_default().blocking = blocking(text);
        } else if text.starts_with("NCCL version ") {
            head.nccl = head.nccl.or_else(|| NcclVersion::find(text));
        } else if let Some(rank) = rank(text) {
            head.ranks.push(rank);
        }
    }

    /// All tables of the stream; `torn` is the line at which the text ends without an end of line.
    fn end(mut self, torn: Option<usize>) -> Result<Vec<Table>> {
        if let Some(open) = self.open.take() {
            let last = open.table.rows.last().map(|row: &Row| row.line);
            if let Some(number) = torn.filter(|torn| last == Some(*torn)) {
                return Err(self.fault(number, "the text ends within this row"));
            }
            self.close(open);
        }
        Ok(self.tables)
    }

    fn fault(&self, number: usize, what: impl Into<String>) -> Error {
        self.source.fault(number, what).help(HELP)
    }
}

fn noted(open: Open) -> Table {
    let Open { mut table, left_out, .. } = open;
    table.notes.extend(left_out.iter().map(|(why, rows)| format!("{rows} rows {why} are left out")));
    table
}

/// Whether a line is NCCL's as a whole: it may also stand in the middle of a row, which begins with a number.
fn is_log(text: &str) -> bool {
    let number = text.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok());
    !number && LogLine::parse(text).is_some()
}

/// Whether a line outside of tables looks like a row of one.
fn is_row(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |at: usize| words.get(at).is_some_and(|word| word.parse::<u64>().is_ok());
    words.len() >= 8 && number(0) && number(1) && words[2].parse::<crate::collective::Dtype>().is_ok()
}

fn options(text: &str) -> Options {
    let mut options = Options::default();
    for found in OPTION.captures_iter(text) {
        let Ok(value) = found[2].parse() else { continue };
        match &found[1] {
            "nThread" => options.threads = value,
            "nGpus" => options.gpus = value,
            "iters" => options.iterations = value,
            "agg iters" => options.aggregated = value,
            "validation" => options.validation = value,
            "graph" => options.graph = value,
            _ => {}
        }
    }
    options
}

/// The number that `-z` had, by what is printed of it.
fn blocking(text: &str) -> u32 {
    match text {
        _ if text.contains("excludes barrier") => 3,
        _ if text.contains("no barrier") => 2,
        _ => 1,
    }
}

fn rank(text: &str) -> Option<Rank> {
    let found = RANK.captures(text)?;
    Some(Rank {
        rank: found[1].parse().ok()?,
        pid: found.get(2).and_then(|pid| pid.as_str().parse().ok()),
        host: found[3].to_owned(),
        device: found[4].parse().ok()?,
        bus: found[5].to_owned(),
        name: found[6].trim().to_owned(),
    })
}
