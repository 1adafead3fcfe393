//! CSV: a row for each cell, or a row for each observation.

use std::io::{self, Write};

use csv::Writer;
use serde::Serialize;

use crate::collective::{Case, Dtype, Mode, Op, Placement};
use crate::nccl::version::NcclVersion;
use crate::plan::schedule::{Launch, Plan};
use crate::record::run::{Applied, Backend, Cell, Header, Run, Verdict};
use crate::record::visit::{Replicate, Visit};

/// A cell. The names are those of `run.json`, intervals as two columns; what is not known is empty.
#[derive(Serialize)]
struct CellRow<'a> {
    backend: Backend,
    set: &'a str,
    nccl: NcclVersion,
    launch: Launch,
    alive: u32,
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
    fn new(run: &'a Run, cell: &'a Cell) -> Self {
        let size = run.header.plan.cases[cell.case].size;
        Self {
            backend: run.header.backend,
            set: &cell.set,
            nccl: cell.nccl,
            launch: cell.launch,
            alive: cell.alive,
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

/// One sample, or one replicate's median where samples were not kept.
#[derive(Serialize)]
struct ObservationRow<'a> {
    backend: Backend,
    set: &'a str,
    nccl: NcclVersion,
    launch: Launch,
    alive: u32,
    mode: Mode,
    dtype: Dtype,
    op: Op,
    in_place: bool,
    size_bytes: u64,
    visit: u32,
    round: u32,
    completed: bool,
    communicator: u32,
    sample: Option<usize>,
    time_us: f64,
}

impl<'a> ObservationRow<'a> {
    fn new(header: &'a Header, visit: &Visit, replicate: &Replicate, sample: Option<usize>, time_us: f64) -> Self {
        let plan: &Plan = &header.plan;
        let case: &Case = &plan.cases[replicate.case];
        Self {
            backend: header.backend,
            set: &plan.sets[visit.arm.set].name,
            nccl: plan.libraries[visit.arm.library].version,
            launch: visit.arm.launch,
            alive: visit.arm.alive,
            mode: case.mode,
            dtype: case.dtype,
            op: case.op,
            in_place: case.placement == Placement::InPlace,
            size_bytes: case.bytes().0,
            visit: visit.index,
            round: visit.round,
            completed: visit.outcome.is_completed(),
            communicator: replicate.communicator,
            sample,
            time_us,
        }
    }
}

/// A row for each cell.
pub(super) fn cells(run: &Run, out: &mut impl Write) -> io::Result<()> {
    let mut writer = Writer::from_writer(out);
    for cell in &run.cells {
        writer.serialize(CellRow::new(run, cell)).map_err(io::Error::from)?;
    }
    writer.flush()
}

/// Tidy: a row for each sample of the journal's visits, or for the median of each replicate that has none (`sample` is
/// empty then). Visits that did not complete are in it and marked.
pub fn observations<V, W>(header: &Header, visits: impl IntoIterator<Item = V>, out: &mut W) -> io::Result<()>
where
    V: std::borrow::Borrow<Visit>,
    W: Write,
{
    let mut writer = Writer::from_writer(out);
    for visit in visits {
        let visit = visit.borrow();
        for replicate in &visit.replicates {
            if replicate.samples_us.is_empty() {
                writer.serialize(ObservationRow::new(header, visit, replicate, None, replicate.median_us))?;
            }
            for (sample, &time) in replicate.samples_us.iter().enumerate() {
                writer.serialize(ObservationRow::new(header, visit, replicate, Some(sample), time))?;
            }
        }
    }
    writer.flush()
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
        let mut text = Vec::new();
        cells(&run, &mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r#"
        backend,set,nccl,launch,alive,ranks,gpus,oversubscribed,mode,dtype,op,in_place,size,size_bytes,elements,visits,replicates,median_us,interval_low_us,interval_high_us,mean_us,p95_us,p99_us,min_us,algbw_gbps,busbw_gbps,ratio,ratio_low,ratio_high,verdict,verdict_reason,applied,checked_outputs,wrong_outputs
        cuda,default,2.28.9,threads,0,8,8,false,graph,bf16,sum,false,7168x2,28672,14336,6,36,52.57,51.25575,54.04196,52.78028,55.7242,58.352700000000006,49.9415,0.5454061251664447,0.9544607190412783,,,,baseline,,applied,14400,0
        cuda,pcie-ll,2.28.9,threads,0,8,8,false,graph,bf16,sum,false,7168x2,28672,14336,6,36,,31.778565,33.5060152,32.7237736,34.549004000000004,36.17867400000001,30.96373,0.879687298655556,1.539452772647223,0.62,0.60822,0.6330199999999999,faster,"2 of at least 3 rounds, ""so far""",applied,14400,0
        "#);
    }

    #[test]
    fn every_sample_is_a_row_and_a_replicate_without_samples_is_one() {
        let mut run = fixture::two_sets();
        run.visits.truncate(1);
        run.visits[0].replicates.truncate(2);
        run.visits[0].replicates[0].samples_us = vec![48.0, 48.5];
        let mut text = Vec::new();
        observations(&run.header, &run.visits, &mut text).unwrap();
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
        backend,set,nccl,launch,alive,mode,dtype,op,in_place,size_bytes,visit,round,completed,communicator,sample,time_us
        cuda,default,2.28.9,threads,0,graph,bf16,sum,false,14336,0,0,true,0,0,48.0
        cuda,default,2.28.9,threads,0,graph,bf16,sum,false,14336,0,0,true,0,1,48.5
        cuda,default,2.28.9,threads,0,graph,bf16,sum,false,28672,0,0,true,0,,48.2
        ");
    }
}
