//! CSV: a row for each cell, or a row for each observation.

use std::collections::HashMap;
use std::io::{self, Write};

use csv::Writer;
use serde::Serialize;

use crate::collective::{Case, Dtype, Mode, Op, Placement};
use crate::error::{Error, Kind, Result};
use crate::nccl::register::Register;
use crate::nccl::version::NcclVersion;
use crate::plan::schedule::{Launch, Plan};
use crate::record::run::{Applied, Backend, Cell, Run, Verdict};
use crate::record::stored::Stored;
use crate::record::visit::{Replicate, Visit};

// The rows share columns, and each lists them: the csv crate flattens no structure into another, and the orders are published.

/// A cell. The names are those of `run.json`, intervals as two columns; what is not known is empty.
#[derive(Serialize)]
struct CellRow<'a> {
    run: &'a str,
    backend: Backend,
    set: &'a str,
    nccl: NcclVersion,
    launch: Launch,
    alive: u32,
    register: Register,
    ranks: u32,
    gpus: usize,
    oversubscribed: bool,
    mode: Mode,
    dtype: Dtype,
    op: Op,
    in_place: bool,
    size: String,
    size_bytes: u64,
    elements: u64,
    visits: u32,
    replicates: u32,
    median_us: Option<f64>,
    interval_low_us: Option<f64>,
    interval_high_us: Option<f64>,
    mean_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    min_us: Option<f64>,
    algbw_gbps: Option<f64>,
    busbw_gbps: Option<f64>,
    ratio: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    verdict: Verdict,
    verdict_reason: Option<&'a str>,
    applied: Applied,
    checked_outputs: u64,
    wrong_outputs: u64,
}

impl<'a> CellRow<'a> {
    fn new(place: &'a str, run: &'a Run, cell: &'a Cell) -> Self {
        let size = run.header.plan.cases[cell.case].size;
        Self {
            run: place,
            backend: run.header.backend,
            set: &cell.set,
            nccl: cell.nccl,
            launch: cell.launch,
            alive: cell.alive,
            register: cell.arm.register,
            ranks: cell.ranks,
            gpus: run.header.plan.devices.len(),
            oversubscribed: run.header.plan.oversubscribed(),
            mode: cell.mode,
            dtype: cell.dtype,
            op: cell.op,
            in_place: cell.in_place,
            size: size.label(cell.dtype),
            size_bytes: cell.size_bytes,
            elements: size.elements,
            visits: cell.visits,
            replicates: cell.replicates,
            median_us: cell.median_us,
            interval_low_us: cell.interval_us.map(|ends| ends[0]),
            interval_high_us: cell.interval_us.map(|ends| ends[1]),
            mean_us: cell.mean_us,
            p95_us: cell.p95_us,
            p99_us: cell.p99_us,
            min_us: cell.min_us,
            algbw_gbps: cell.algbw_gbps,
            busbw_gbps: cell.busbw_gbps,
            ratio: cell.ratio,
            ratio_low: cell.ratio_interval.map(|ends| ends[0]),
            ratio_high: cell.ratio_interval.map(|ends| ends[1]),
            verdict: cell.verdict,
            verdict_reason: cell.verdict_reason.as_deref(),
            applied: cell.applied,
            checked_outputs: cell.checked_outputs,
            wrong_outputs: cell.wrong_outputs,
        }
    }
}

/// One sample, or one replicate's median where samples were not kept, with all that it depends on.
#[derive(Serialize)]
struct ObservationRow<'a> {
    run: &'a str,
    backend: Backend,
    host: &'a str,
    driver: Option<&'a str>,
    nccl: NcclVersion,
    launch: Launch,
    alive: u32,
    register: Register,
    ranks: u32,
    gpus: usize,
    oversubscribed: bool,
    set: &'a str,
    applied: Option<Applied>,
    mode: Mode,
    dtype: Dtype,
    op: Op,
    in_place: bool,
    size: String,
    size_bytes: u64,
    elements: u64,
    calls: usize,
    visit: u32,
    round: u32,
    completed: bool,
    timed: bool,
    communicator: u32,
    sample: Option<usize>,
    time_us: f64,
}

impl<'a> ObservationRow<'a> {
    fn new(run: &'a str, of: &'a Run, visit: &Visit, replicate: &Replicate, applied: Option<Applied>) -> Self {
        let (plan, provenance): (&Plan, _) = (&of.header.plan, &of.header.provenance);
        let case: &Case = &plan.cases[replicate.case];
        Self {
            run,
            backend: of.header.backend,
            host: &provenance.host,
            driver: provenance.driver.as_deref(),
            nccl: plan.libraries[visit.arm.library].version,
            launch: visit.arm.launch,
            alive: visit.arm.alive,
            register: visit.arm.register,
            ranks: plan.ranks,
            gpus: plan.devices.len(),
            oversubscribed: plan.oversubscribed(),
            set: &plan.sets[visit.arm.set].name,
            applied,
            mode: case.mode,
            dtype: case.dtype,
            op: case.op,
            in_place: case.placement == Placement::InPlace,
            size: case.label(),
            size_bytes: case.bytes().0,
            elements: case.size.elements,
            calls: plan.measure.calls_per_sample(case.mode),
            visit: visit.index,
            round: visit.round,
            completed: visit.outcome.is_completed(),
            timed: !visit.untimed,
            communicator: replicate.communicator,
            sample: None,
            time_us: replicate.median_us,
        }
    }
}

/// A row for each cell.
pub(super) fn cells(runs: &[Stored], out: &mut impl Write) -> Result<()> {
    let mut writer = Writer::from_writer(out);
    for run in runs {
        for cell in &run.run.cells {
            writer.serialize(CellRow::new(&run.place, &run.run, cell)).map_err(unserialized)?;
        }
    }
    writer.flush().map_err(unwritten)
}

/// Tidy: a row for each sample, or for the median of each communicator where samples were not kept (`sample` is empty then).
/// Visits that did not complete are in it and marked.
pub(super) fn observations(runs: &[Stored], out: &mut impl Write) -> Result<()> {
    let mut writer = Writer::from_writer(out);
    for of in runs {
        let applied: HashMap<_, _> = of.run.cells.iter().map(|cell| ((cell.arm, cell.case), cell.applied)).collect();
        of.each_visit(&mut |visit| {
            for replicate in &visit.replicates {
                let applied = applied.get(&(visit.arm, replicate.case)).copied();
                let row = || ObservationRow::new(&of.place, &of.run, &visit, replicate, applied);
                if replicate.samples_us.is_empty() {
                    writer.serialize(row()).map_err(unserialized)?;
                }
                let mut row = row();
                for (sample, &time) in replicate.samples_us.iter().enumerate() {
                    (row.sample, row.time_us) = (Some(sample), time);
                    writer.serialize(&row).map_err(unserialized)?;
                }
            }
            Ok(())
        })?;
    }
    writer.flush().map_err(unwritten)
}

/// The failure of the disk or the reader itself is the cause, so that a reader who has left is known for one.
fn unserialized(error: csv::Error) -> Error {
    if !error.is_io_error() {
        return unwritten(error.into());
    }
    match error.into_kind() {
        csv::ErrorKind::Io(error) => unwritten(error),
        other => unwritten(io::Error::other(format!("{other:?}"))),
    }
}

fn unwritten(error: io::Error) -> Error {
    Error::new(Kind::Incomplete, "cannot write the results as csv").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn every_cell_is_a_row_and_what_is_unknown_is_empty() {
        let mut run = fixture::two_sets();
        run.cells.retain(|cell| cell.case == 1);
        run.cells[1].median_us = None;
        run.cells[1].verdict_reason = Some("2 of at least 3 rounds, \"so far\"".into());
        let run = Stored { place: "results/1".into(), folder: None, run };
        let mut text = Vec::new();
        cells(&[run], &mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r#"
        run,backend,set,nccl,launch,alive,register,ranks,gpus,oversubscribed,mode,dtype,op,in_place,size,size_bytes,elements,visits,replicates,median_us,interval_low_us,interval_high_us,mean_us,p95_us,p99_us,min_us,algbw_gbps,busbw_gbps,ratio,ratio_low,ratio_high,verdict,verdict_reason,applied,checked_outputs,wrong_outputs
        results/1,cuda,default,2.28.9,threads,0,none,8,8,false,graph,bf16,sum,false,7168x2,28672,14336,6,36,52.57,51.25575,54.04196,52.78028,55.7242,58.352700000000006,49.9415,0.5454061251664447,0.9544607190412783,,,,baseline,,applied,14400,0
        results/1,cuda,pcie-ll,2.28.9,threads,0,none,8,8,false,graph,bf16,sum,false,7168x2,28672,14336,6,36,,31.778565,33.5060152,32.7237736,34.549004000000004,36.17867400000001,30.96373,0.879687298655556,1.539452772647223,0.62,0.60822,0.6330199999999999,faster,"2 of at least 3 rounds, ""so far""",applied,14400,0
        "#);
    }

    #[test]
    fn every_sample_is_a_row_and_a_replicate_without_samples_is_one() {
        let mut run = fixture::two_sets();
        run.visits.truncate(1);
        run.visits[0].replicates.truncate(2);
        run.visits[0].replicates[0].samples_us = vec![48.0, 48.5];
        let run = Stored { place: "results/1".into(), folder: None, run };
        let mut text = Vec::new();
        observations(&[run], &mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
        run,backend,host,driver,nccl,launch,alive,register,ranks,gpus,oversubscribed,set,applied,mode,dtype,op,in_place,size,size_bytes,elements,calls,visit,round,completed,timed,communicator,sample,time_us
        results/1,cuda,box-1,580.159.04,2.28.9,threads,0,none,8,8,false,default,applied,graph,bf16,sum,false,7168x1,14336,7168,50,0,0,true,true,0,0,48.0
        results/1,cuda,box-1,580.159.04,2.28.9,threads,0,none,8,8,false,default,applied,graph,bf16,sum,false,7168x1,14336,7168,50,0,0,true,true,0,1,48.5
        results/1,cuda,box-1,580.159.04,2.28.9,threads,0,none,8,8,false,default,applied,graph,bf16,sum,false,7168x2,28672,14336,50,0,0,true,true,0,,48.2
        ");
    }
}
