//! The JSON that `all_reduce_perf -J` writes, version 3 of its layout.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Check, Half, Head, Options, Rank, Row, Source, Table};
use crate::collective::{Dtype, Op};
use crate::error::{Error, Result};
use crate::nccl::version::NcclVersion;

/// The newest layout that is read.
const NEWEST: u32 = 3;

#[derive(Deserialize)]
struct Document {
    version: u32,
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    nccl_version: Option<i32>,
    config: Config,
    results: Vec<Measured>,
    out_of_bounds: Option<OutOfBounds>,
    #[serde(default)]
    errors: Vec<Option<String>>,
}

#[derive(Deserialize)]
struct Config {
    nthreads: u32,
    ngpus: u32,
    iterations: u32,
    #[serde(default = "one")]
    aggregated_iterations: u32,
    #[serde(default)]
    validation: u32,
    #[serde(default)]
    graph: u32,
    blocking_collectives: Option<String>,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    rank: u32,
    pid: Option<u32>,
    hostname: String,
    device: u32,
    device_hex: String,
    device_info: String,
}

#[derive(Deserialize)]
struct Measured {
    size: u64,
    count: u64,
    #[serde(rename = "type")]
    dtype: String,
    redop: String,
    out_of_place: Option<Placed>,
    in_place: Option<Placed>,
    out_of_place_per_iter: Option<Calls>,
    in_place_per_iter: Option<Calls>,
}

#[derive(Deserialize)]
struct Placed {
    time: Option<f64>,
    alg_bw: f64,
    nwrong: Option<f64>,
}

#[derive(Deserialize)]
struct Calls {
    #[serde(default)]
    skipped_iterations: usize,
    times_us: Vec<f64>,
}

#[derive(Deserialize)]
struct OutOfBounds {
    count: u64,
}

fn one() -> u32 {
    1
}

/// Reads the one table of a document.
pub(super) fn parse(source: &Source) -> Result<Table> {
    let document: Document = serde_json::from_str(source.text).map_err(|error| {
        let help = "pass the file that `all_reduce_perf -J FILE` wrote, whole";
        source.fault(error.line().max(1), error.to_string()).help(help)
    })?;
    if document.version > NEWEST {
        let message = format!("{} has version {} of nccl-tests' layout", source.name, document.version);
        return Err(Error::usage(message).help(format!("up to {NEWEST} is known; import the text it printed instead")));
    }
    let cpu_time = document.results.iter().any(|result| {
        [&result.out_of_place, &result.in_place].into_iter().flatten().any(|placed| placed.time.is_none())
    });
    let mut table = Table { line: 1, head: head(&document, cpu_time), ..Table::default() };
    table.out_of_bounds = document.out_of_bounds.map(|checks| checks.count);
    table.notes.extend(
        document
            .errors
            .iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .map(|text| format!("nccl-tests ended with the message: {text}")),
    );
    let mut left_out: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, result) in (1..).zip(document.results) {
        match row(number, result).map_err(|what| wrong(source, number, &what))? {
            Ok(row) => table.rows.push(row),
            Err(why) => *left_out.entry(why).or_default() += 1,
        }
    }
    table.notes.extend(left_out.iter().map(|(why, rows)| format!("{rows} results {why} are left out")));
    Ok(table)
}

fn wrong(source: &Source, number: usize, what: &str) -> Error {
    Error::usage(format!("cannot import {}, result {number}: {what}", source.name))
        .help("pass the file that `all_reduce_perf -J FILE` wrote, as it is")
}

fn head(document: &Document, cpu_time: bool) -> Head {
    let config = &document.config;
    let options = Options {
        threads: config.nthreads,
        gpus: config.ngpus,
        iterations: config.iterations,
        aggregated: config.aggregated_iterations,
        validation: config.validation,
        graph: config.graph,
        // The layout tells whether calls wait, not how.
        blocking: u32::from(config.blocking_collectives.as_deref() == Some("true")),
    };
    let time = |text: &Option<String>| {
        let local: jiff::civil::DateTime = text.as_deref()?.parse().ok()?;
        jiff::tz::TimeZone::UTC.to_timestamp(local).ok()
    };
    let (started, ended) = (time(&document.start_time), time(&document.end_time));
    let seconds = started.zip(ended).map(|(start, end)| end.duration_since(start).as_secs_f64());
    let variable = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let nccl = |name: &str| name.starts_with("NCCL_") && !name.starts_with("NCCL_TESTS_");
    Head {
        version: None,
        nccl: document.nccl_version.and_then(NcclVersion::from_code),
        program: document.args.first().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()),
        options: Some(options),
        ranks: ranks(config),
        arguments: document.args.clone(),
        variables: document.env.iter().filter_map(variable).filter(|(name, _)| nccl(name)).collect(),
        started,
        seconds: seconds.filter(|seconds| *seconds >= 0.0),
        cpu_time,
    }
}

/// All ranks. The document names the first of each process; the others follow on the next devices.
fn ranks(config: &Config) -> Vec<Rank> {
    let each = config.nthreads.saturating_mul(config.ngpus).clamp(1, super::run::MOST_RANKS);
    let firsts = config.devices.iter().all(|device| device.rank.is_multiple_of(each));
    let each = if firsts { each } else { 1 };
    let of_process = |first: &Device| {
        let rank = |at: u32| Rank {
            rank: first.rank.saturating_add(at),
            pid: first.pid,
            host: first.hostname.clone(),
            device: first.device.saturating_add(at),
            bus: if at == 0 { first.device_hex.clone() } else { String::new() },
            name: first.device_info.clone(),
        };
        (0..each).map(rank).collect::<Vec<_>>()
    };
    config.devices.iter().flat_map(of_process).collect()
}

/// A row, or why it is left out; an error is what is wrong with it.
fn row(number: usize, result: Measured) -> Result<Result<Row, &'static str>, String> {
    let dtype: Dtype = result.dtype.parse().map_err(|_| format!("no data type is called `{}`", result.dtype))?;
    if result.count.checked_mul(dtype.bytes()) != Some(result.size) {
        return Err(format!("{} elements of {} are not {} bytes", result.count, dtype.name(), result.size));
    }
    match result.redop.as_str() {
        _ if result.size == 0 => return Ok(Err("of no bytes")),
        "mulsum" => return Ok(Err("of the operation mulsum, which is not measured here")),
        _ => {}
    }
    let known = Op::ALL.into_iter().find(|op| op.name() == result.redop);
    let op = known.ok_or_else(|| format!("no operation is called `{}`", result.redop))?;
    let half = |placed: Option<Placed>, calls| placed.map(|placed| half(result.size, placed, calls)).transpose();
    let halves =
        [half(result.out_of_place, result.out_of_place_per_iter)?, half(result.in_place, result.in_place_per_iter)?];
    Ok(Ok(Row { line: number, count: result.count, dtype, op, halves }))
}

fn half(bytes: u64, placed: Placed, calls: Option<Calls>) -> Result<Half, String> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    let time_us = placed.time.unwrap_or(bytes as f64 / (placed.alg_bw * 1e3));
    let calls_us: Vec<f64> =
        calls.map_or_else(Vec::new, |calls| calls.times_us.into_iter().skip(calls.skipped_iterations).collect());
    if !positive(time_us) || !calls_us.iter().all(|time| positive(*time)) {
        return Err("a time that is no positive number".to_owned());
    }
    let check = match placed.nwrong {
        None => Check::None,
        Some(wrong) if wrong.fract() == 0.0 && wrong >= 0.0 => Check::Wrong(wrong as u64),
        Some(wrong) => return Err(format!("{wrong} wrong elements")),
    };
    Ok(Half { time_us, check, calls_us })
}
