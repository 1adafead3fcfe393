//! The columns of a table, and its rows read by them.

use super::{Check, Half, Row};
use crate::collective::{Dtype, Function, Op};

/// Relative slack beside what rounding explains.
const SLACK: f64 = 1e-3;
/// Largest relative rounding of a bandwidth that may stand for a time.
const COARSEST: f64 = 0.025;

/// A column by what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Size,
    Count,
    Type,
    Op,
    Root,
    Time,
    CpuTime,
    Algbw,
    Busbw,
    Wrong,
    Deviation,
    /// Of a single call: read to see that it is a number.
    PerCall,
    /// Date and time of day, two words.
    Timestamp,
}

/// The columns of one table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns {
    lead: Vec<Column>,
    half: Vec<Column>,
    timestamp: bool,
    /// Microseconds of one unit of `time`.
    unit: f64,
}

/// A row with its bus bandwidths as they are printed, or why it is left out.
pub(super) enum Read {
    Row(Row, [Printed; 2]),
    LeftOut(&'static str),
}

impl Columns {
    /// From the line of their names, when `text` is one; an error is what is wrong with it.
    pub(super) fn read(text: &str) -> Option<Result<Self, String>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        (words.contains(&"algbw") && words.contains(&"busbw")).then(|| Self::of(&words))
    }

    fn of(words: &[&str]) -> Result<Self, String> {
        let mut columns = words.iter().map(|word| column(word)).collect::<Result<Vec<_>, _>>()?;
        let timestamp = columns.pop_if(|last| *last == Column::Timestamp).is_some();
        let is_time = |column: &Column| matches!(column, Column::Time | Column::CpuTime);
        let start = columns.iter().position(is_time).ok_or("no column of times")?;
        let halves = columns.split_off(start);
        let (first, second) = halves.split_at(halves.len() / 2);
        let whole = [Column::Size, Column::Count, Column::Type, Column::Op].iter().all(|one| columns.contains(one));
        if !whole || first != second || first.iter().filter(|column| is_time(column)).count() != 1 {
            return Err("columns that no nccl-tests prints: is a part of the line missing?".to_owned());
        }
        // Up to 2019 the first column was called `bytes`, and times were milliseconds.
        let unit = if words.contains(&"bytes") { 1e3 } else { 1.0 };
        Ok(Self { lead: columns, half: first.to_vec(), timestamp, unit })
    }

    /// Whether times are those of the CPU.
    pub(super) fn cpu_time(&self) -> bool {
        self.half.contains(&Column::CpuTime)
    }

    /// Words of a row.
    fn words(&self) -> usize {
        self.lead.len() + 2 * self.half.len() + if self.timestamp { 2 } else { 0 }
    }

    /// Reads a row; `ranks` is how many there are, where it is known. An error is what is wrong with it.
    pub(super) fn row(&self, line: usize, text: &str, ranks: Option<usize>) -> Result<Read, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let expected = self.words();
        match words.len() {
            found if found < expected => {
                return Err(format!("{found} of {expected} values: the row is cut off or mixed with other output"));
            }
            found if found > expected => {
                return Err(format!("{found} values under {expected} columns: the row is mixed with other output"));
            }
            _ => {}
        }
        let (lead, halves) = words.split_at(self.lead.len());
        let word = |wanted: Column| self.lead.iter().position(|column| *column == wanted).map_or("", |at| lead[at]);
        let whole = |wanted: Column, what: &str| {
            word(wanted).parse::<u64>().map_err(|_| format!("{what} `{}` is no whole number", word(wanted)))
        };
        let (bytes, count) = (whole(Column::Size, "the size")?, whole(Column::Count, "the count")?);
        let dtype: Dtype =
            word(Column::Type).parse().map_err(|_| format!("no data type is called `{}`", word(Column::Type)))?;
        if count.checked_mul(dtype.bytes()) != Some(bytes) {
            return Err(format!("{count} elements of {} are not {bytes} bytes", dtype.name()));
        }
        let op = word(Column::Op);
        match op {
            _ if bytes == 0 => return Ok(Read::LeftOut("of no bytes")),
            "mulsum" => return Ok(Read::LeftOut("of the operation mulsum, which is not measured here")),
            _ => {}
        }
        let op = Op::ALL
            .into_iter()
            .find(|known| known.name() == op)
            .ok_or_else(|| format!("no operation is called `{op}`"))?;
        let half = |at: usize| self.half(&halves[at * self.half.len()..][..self.half.len()], bytes, ranks);
        let ((out, out_busbw), (within, within_busbw)) = (half(0)?, half(1)?);
        Ok(Read::Row(Row { line, count, dtype, op, halves: [Some(out), Some(within)] }, [out_busbw, within_busbw]))
    }

    /// Reads one placement of a row, and its bus bandwidth.
    fn half(&self, words: &[&str], bytes: u64, ranks: Option<usize>) -> Result<(Half, Printed), String> {
        let (mut time, mut algbw, mut busbw) = (None, None, None);
        let mut check = Check::None;
        for (column, word) in self.half.iter().zip(words) {
            match column {
                Column::Time => time = Some(Printed::read(word, self.unit)?),
                Column::Algbw => algbw = Some(Printed::read(word, 1.0)?),
                Column::Busbw => busbw = Some(Printed::read(word, 1.0)?),
                Column::Wrong if *word != "N/A" => check = Check::Wrong(whole_number(word)?),
                Column::Deviation if *word != "N/A" => check = Check::Deviation(Printed::read(word, 1.0)?.value),
                Column::CpuTime | Column::PerCall => _ = Printed::read(word, 1.0)?,
                _ => {}
            }
        }
        let (algbw, busbw) = algbw.zip(busbw).ok_or("no bandwidth")?;
        if let Some(ranks) = ranks {
            fits(
                algbw.scaled(Function::AllReduce.bus_factor(ranks)),
                busbw,
                &format!("busbw and algbw are not those of {ranks} ranks"),
            )?;
        }
        let time_us = match time {
            Some(time) => {
                fits(time.bandwidth(bytes)?, algbw, "time and algbw are at odds: the row is mixed with another")?;
                time.value
            }
            None => algbw.time(bytes)?,
        };
        Ok((Half { time_us, check, calls_us: Vec::new() }, busbw))
    }
}

fn column(word: &str) -> Result<Column, String> {
    Ok(match word {
        "size" | "bytes" => Column::Size,
        "count" | "N" => Column::Count,
        "type" => Column::Type,
        "redop" | "op" => Column::Op,
        "root" => Column::Root,
        "time" => Column::Time,
        "cputime" => Column::CpuTime,
        "algbw" => Column::Algbw,
        "busbw" => Column::Busbw,
        "#wrong" => Column::Wrong,
        "error" | "res" => Column::Deviation,
        "i_min" | "i_max" | "i_p99" | "i_cv%" => Column::PerCall,
        "timestamp" => Column::Timestamp,
        // nccl-tests of 2024 and 2025 could copy beside the all-reduce (`copybw`): another experiment.
        other => return Err(format!("a column `{other}` that is none of all_reduce_perf alone")),
    })
}

/// A count that is printed with `%g`, so a large one may have an exponent.
fn whole_number(word: &str) -> Result<u64, String> {
    let value = Printed::read(word, 1.0)?.value;
    if value.fract() == 0.0 { Ok(value as u64) } else { Err(format!("`{word}` is no whole number")) }
}

/// A number with what rounding may have taken from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Printed {
    pub(super) value: f64,
    pub(super) slack: f64,
}

impl Printed {
    /// From a word as it is printed, times `unit`.
    pub(super) fn read(word: &str, unit: f64) -> Result<Self, String> {
        let fault = || format!("`{word}` is no number");
        let plain = word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+' | b'-'));
        let value: f64 = word.parse().ok().filter(|_| plain).ok_or_else(fault)?;
        if !(value.is_finite() && value >= 0.0) {
            return Err(format!("`{word}` is no figure"));
        }
        let (digits, exponent) = word.split_once('e').unwrap_or((word, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len()) as i32;
        let exponent: i32 = exponent.parse().map_err(|_| fault())?;
        let slack = 0.5 * 10_f64.powi(exponent.saturating_sub(decimals)) * unit;
        Ok(Self { value: value * unit, slack })
    }

    fn scaled(self, factor: f64) -> Self {
        Self { value: self.value * factor, slack: self.slack * factor }
    }

    /// The bandwidth of `bytes` in this time, in GB/s.
    fn bandwidth(self, bytes: u64) -> Result<Self, String> {
        if self.value <= 0.0 {
            return Err("a time of zero".to_owned());
        }
        let value = bytes as f64 / (self.value * 1e3);
        let most = bytes as f64 / ((self.value - self.slack).max(self.value / 2.0) * 1e3);
        Ok(Self { value, slack: most - value })
    }

    /// The time of `bytes` at this bandwidth, in µs, where it is printed finely enough to tell.
    fn time(self, bytes: u64) -> Result<f64, String> {
        if self.slack > COARSEST * self.value || self.value <= 0.0 {
            return Err(
                "cputime is no time of an all-reduce, and algbw has too few digits to tell it: measure without -C"
                    .to_owned(),
            );
        }
        Ok(bytes as f64 / (self.value * 1e3))
    }
}

/// Fails with `what` when two figures that should be one are further apart than rounding explains.
fn fits(expected: Printed, found: Printed, what: &str) -> Result<(), String> {
    let slack = expected.slack + found.slack + SLACK * expected.value;
    if (expected.value - found.value).abs() <= slack { Ok(()) } else { Err(what.to_owned()) }
}
