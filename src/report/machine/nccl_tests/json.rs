//! The JSON of `all_reduce_perf -J`, version 3: a document for each env set and mode, one on a line.
//!
//! Names and nesting are those of nccl-tests. There truth values are texts (`"true"`) and `root` is a padded text; here they
//! have their own types.

use serde::Serialize;

use super::{Block, Half, Line, Step, blocks};
use crate::error::{Error, Kind, Result};
use crate::nccl::version::NcclVersion;
use crate::record::run::Run;
use crate::report::ink::plain;

const VERSION: u32 = 3;

#[derive(Serialize)]
struct Document {
    version: u32,
    start_time: String,
    args: Vec<String>,
    env: Vec<String>,
    nccl_version: u32,
    config: Config,
    results: Vec<Row>,
    out_of_bounds: OutOfBounds,
    average_bus_bandwidth: Average,
    errors: Vec<String>,
    end_time: String,
}

#[derive(Serialize)]
struct Config {
    nthreads: u32,
    ngpus: u32,
    minimum_bytes: u64,
    maximum_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_factor: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_bytes: Option<u64>,
    /// Until times settle: no number.
    warmup_iters: Option<u32>,
    iterations: u32,
    aggregated_iterations: u32,
    validation: u32,
    graph: u32,
    blocking_collectives: bool,
    per_iter_timing: bool,
    per_iter_skip: u32,
    parallel_init: bool,
    devices: Vec<Device>,
}

#[derive(Serialize)]
struct Device {
    rank: usize,
    group: u32,
    pid: u32,
    hostname: String,
    device: u32,
    device_hex: String,
    device_info: String,
}

#[derive(Serialize)]
struct Row {
    size: u64,
    count: u64,
    r#type: &'static str,
    redop: &'static str,
    root: i32,
    out_of_place: Option<Figures>,
    in_place: Option<Figures>,
    actual_iterations: u64,
    experiment_name: String,
}

#[derive(Serialize)]
struct Figures {
    time: f64,
    alg_bw: f64,
    bus_bw: f64,
    nwrong: Option<u64>,
}

#[derive(Serialize)]
struct OutOfBounds {
    count: u64,
    okay: bool,
}

#[derive(Serialize)]
struct Average {
    bandwidth: f64,
    /// Nobody asked for a least bandwidth.
    okay: Option<bool>,
}

/// The documents of `run`.
pub(in crate::report::machine) fn render(run: &Run) -> Result<String> {
    let mut text = String::new();
    for block in blocks(run) {
        let document = serde_json::to_string(&document(&block)).map_err(|error| {
            Error::new(Kind::Incomplete, "cannot write the results as nccl-tests-json").because(error)
        })?;
        text.push_str(&document);
        text.push('\n');
    }
    Ok(text)
}

fn document(block: &Block) -> Document {
    let run = block.run;
    let time = |time: jiff::Timestamp| time.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let of_set = block.run.visits.iter().filter(|visit| visit.arm == block.arm);
    let failed = of_set.filter(|visit| !visit.outcome.is_completed()).map(|visit| plain(&visit.outcome.to_string()));
    Document {
        version: VERSION,
        start_time: time(run.header.created),
        args: run.header.provenance.arguments.clone(),
        env: env(block),
        nccl_version: code(run.header.plan.libraries[block.arm.library].version),
        config: config(block),
        results: block.lines.iter().map(|line| row(block, line)).collect(),
        out_of_bounds: OutOfBounds { count: block.wrong(), okay: block.wrong() == 0 },
        average_bus_bandwidth: Average { bandwidth: block.average(), okay: None },
        errors: failed.collect(),
        end_time: time(run.finished),
    }
}

/// NCCL's variables as the set's first worker had them, or else as it was to have them.
fn env(block: &Block) -> Vec<String> {
    let plan = &block.run.header.plan;
    let asked = plan.sets[block.arm.set].vars.over(&plan.base);
    let variables = block.worker().map_or(&asked, |worker| &worker.variables);
    variables.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

/// The number by which NCCL tells its version: with two digits for the minor version since 2.9.
fn code(version: NcclVersion) -> u32 {
    let NcclVersion { major, minor, patch } = version;
    let (major, minor, patch) = (u32::from(major), u32::from(minor), u32::from(patch));
    if (major, minor) < (2, 9) { major * 1000 + minor * 100 + patch } else { major * 10_000 + minor * 100 + patch }
}

fn config(block: &Block) -> Config {
    let ((minimum_bytes, maximum_bytes), (iterations, graph)) = (block.ends(), block.iterations());
    let devices = block.devices().into_iter().map(|of| Device {
        rank: of.rank,
        group: 0,
        pid: of.pid,
        hostname: of.host,
        device: of.ordinal,
        device_hex: of.address,
        device_info: of.name,
    });
    let (step_factor, step_bytes) = match block.step() {
        Step::Factor(factor) => (Some(factor), None),
        Step::Bytes(bytes) => (None, Some(bytes)),
        Step::Irregular => (None, None),
    };
    Config {
        nthreads: block.run.header.plan.ranks,
        ngpus: 1,
        minimum_bytes,
        maximum_bytes,
        step_factor,
        step_bytes,
        warmup_iters: None,
        iterations,
        aggregated_iterations: 1,
        validation: 1,
        graph,
        blocking_collectives: block.mode == crate::collective::Mode::Sync,
        per_iter_timing: false,
        per_iter_skip: 0,
        parallel_init: false,
        devices: devices.collect(),
    }
}

fn row(block: &Block, line: &Line) -> Row {
    let measure = &block.run.header.plan.measure;
    let calls = (measure.samples(block.mode) * measure.calls_per_sample(block.mode)) as u64;
    let replicates = line.halves.iter().flatten().map(|half| half.replicates).max().unwrap_or(0);
    let [out_of_place, in_place] = &line.halves;
    Row {
        size: line.size.bytes(line.dtype).0,
        count: line.size.elements,
        r#type: line.dtype.name(),
        redop: line.op.name(),
        root: -1,
        out_of_place: out_of_place.as_ref().and_then(figures),
        in_place: in_place.as_ref().and_then(figures),
        actual_iterations: u64::from(replicates) * calls,
        experiment_name: format!("{}, {}", block.run.header.plan.arm_name(block.arm), block.mode),
    }
}

fn figures(half: &Half) -> Option<Figures> {
    Some(Figures { time: half.time?.0, alg_bw: half.algbw, bus_bw: half.busbw, nwrong: half.wrong })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    fn documents(run: &Run) -> Vec<serde_json::Value> {
        render(run).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_set_and_mode_is_a_document_of_version_3() {
        let found = documents(&fixture::two_sets());
        assert_eq!(found.len(), 2);
        let second = &found[1];
        assert_eq!((&second["version"], &second["nccl_version"]), (&3.into(), &22_809.into()));
        assert!(second["env"].as_array().unwrap().contains(&"NCCL_PROTO=LL".into()));
        assert_eq!(second["config"]["step_bytes"], 14_336);
        assert_eq!(second["config"]["devices"][7]["device_hex"], "0000:81:00");
        let row = &second["results"][0];
        assert_eq!((&row["size"], &row["type"], &row["root"]), (&14_336.into(), &"bfloat16".into(), &(-1).into()));
        assert_eq!(row["experiment_name"], "pcie-ll, graph");
        assert_eq!(row["actual_iterations"], 36 * 20 * 50);
        assert!(row["out_of_place"]["time"].is_f64() && row["in_place"].is_null());
    }

    #[test]
    fn the_keys_are_those_of_nccl_tests_in_their_order() {
        let found = documents(&fixture::two_sets()).remove(0);
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            keys(&found),
            "version start_time args env nccl_version config results out_of_bounds average_bus_bandwidth errors end_time"
        );
        assert_eq!(
            keys(&found["config"]),
            "nthreads ngpus minimum_bytes maximum_bytes step_bytes warmup_iters iterations aggregated_iterations validation \
             graph blocking_collectives per_iter_timing per_iter_skip parallel_init devices"
        );
        assert_eq!(
            keys(&found["results"][0]),
            "size count type redop root out_of_place in_place actual_iterations experiment_name"
        );
        assert_eq!(keys(&found["results"][0]["out_of_place"]), "time alg_bw bus_bw nwrong");
    }

    #[test]
    fn wrong_outputs_and_what_was_not_measured_are_told_by_type() {
        let mut run = fixture::two_sets();
        run.cells[0].wrong_outputs = 2;
        run.cells[1].mean_us = None;
        let found = documents(&run).remove(0);
        assert_eq!((&found["out_of_bounds"]["count"], &found["out_of_bounds"]["okay"]), (&2.into(), &false.into()));
        assert_eq!(found["results"][0]["out_of_place"]["nwrong"], 2);
        assert!(found["results"][1]["out_of_place"].is_null());
    }

    #[test]
    fn versions_before_2_9_have_a_digit_less() {
        assert_eq!(
            [(2, 8, 4), (2, 9, 6), (2, 28, 9)].map(|(a, b, c)| code(NcclVersion::new(a, b, c))),
            [2804, 20906, 22809]
        );
    }
}
