//! What a report of 100 cells with 20 visits each costs: summaries, intervals and verdicts.

// The macros of criterion make an item without documentation.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use ncclsweep::stats::{Cell, Looks, Pair, Plan, Sample, Tolerance, Visit, judge};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CELLS: usize = 100;
const VISITS: u32 = 20;
const COMMUNICATORS: usize = 6;
const ITERATIONS: usize = 100;

/// By cell and visit: what every communicator measured.
fn measured() -> Vec<Vec<Vec<Sample>>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut times = |level: f64| (0..ITERATIONS).map(|_| level * (0.95 + 0.1 * rng.random::<f64>())).collect();
    let mut visit = |cell: usize| {
        let level = 40.0 + (cell % 5) as f64;
        (0..COMMUNICATORS).map(|_| Sample::new(times(level)).expect("positive times")).collect()
    };
    (0..CELLS).map(|cell| (0..VISITS).map(|_| visit(cell)).collect()).collect()
}

fn cell(visits: &[Vec<Sample>]) -> Cell {
    let visit = |(round, samples): (u32, &Vec<Sample>)| Visit::new(round, samples.iter().map(|s| s.median().0));
    Cell::new((0..).zip(visits).map(visit).collect::<Result<_, _>>().expect("positive times")).expect("one a round")
}

fn report(c: &mut Criterion) {
    let measured = measured();
    c.bench_function("summaries of 100 cells", |b| {
        let summary = |cell: &Vec<Vec<Sample>>| Sample::pooled(cell.iter().flatten()).map(|pooled| pooled.summary());
        b.iter(|| black_box(&measured).iter().map(summary).collect::<Vec<_>>());
    });
    c.bench_function("cells and typical times of 100 cells", |b| {
        b.iter(|| black_box(&measured).iter().map(|visits| cell(visits).typical()).collect::<Vec<_>>());
    });
    let cells: Vec<Cell> = measured.iter().map(|visits| cell(visits)).collect();
    let plan = Plan { tolerance: Tolerance::new(0.05).expect("5%"), looks: Looks::Auto, error: Plan::ERROR };
    c.bench_function("verdicts of 99 cells over 9 looks", |b| {
        let pairs: Vec<Pair> =
            cells[1..].iter().map(|candidate| Pair { baseline: &cells[0], candidate, kin: 0 }).collect();
        b.iter(|| judge(&plan, black_box(&pairs), VISITS));
    });
}

criterion_group!(benches, report);
criterion_main!(benches);
