//! What the supervisor does between visits and at the end: `cargo bench --bench supervisor`.

// The macros of criterion make an item without documentation.
#![allow(missing_docs)]

mod support;

use std::hint::black_box;
use std::path::Path;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use ncclsweep::record::document;
use ncclsweep::record::journal::Journal;
use ncclsweep::record::run::Header;
use ncclsweep::record::summary::{Tally, judge};
use ncclsweep::record::visit::Visit;
use ncclsweep::report::{Style, table};

/// A journal with its visits in memory.
struct Recorded {
    header: Header,
    visits: Vec<Visit>,
}

impl Recorded {
    /// Of an emulated run with these arguments.
    fn made(arguments: &str) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        support::program(&home, arguments).status().expect("the program starts");
        let (journal, header) = Journal::open(&home.path().join("run")).expect("a run");
        let visits = journal.entries().iter().map(|entry| journal.read(entry).expect("a visit")).collect();
        Self { header, visits }
    }

    /// As if there were `sets` env sets, each with the figures of the first.
    fn widened(mut self, sets: usize) -> Self {
        let plan = &mut self.header.plan;
        let set = plan.sets[0].clone();
        plan.sets =
            (0..sets).map(|i| ncclsweep::plan::env_set::EnvSet { name: format!("set-{i}"), ..set.clone() }).collect();
        let of_first: Vec<Visit> = self.visits.into_iter().filter(|visit| visit.arm.set == 0).collect();
        self.visits = (0..sets)
            .flat_map(|set| {
                of_first.iter().cloned().map(move |mut visit| {
                    visit.arm.set = set;
                    visit
                })
            })
            .collect();
        self
    }

    fn journal(&self, folder: &Path) -> Journal {
        let mut journal = Journal::create(folder, &self.header).expect("an empty folder");
        self.visits.iter().for_each(|visit| journal.append(visit).expect("room on the disk"));
        journal
    }
}

fn between_visits(criterion: &mut Criterion) {
    let main = Recorded::made(support::MAIN_JOB);
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::create(folder.path(), &main.header).expect("an empty folder");
    criterion.bench_function("journal: append and sync a visit of the main job", |bencher| {
        bencher.iter(|| journal.append(&main.visits[0]).expect("room on the disk"));
    });
    let mut tally = Tally::default();
    main.visits.iter().for_each(|visit| tally.add(visit).expect("a sound visit"));
    criterion.bench_function("judge: 8 cells of the main job", |bencher| {
        bencher.iter(|| black_box(judge(&main.header.plan, &tally).expect("sound figures")).decided());
    });
}

fn ten_thousand_cells(criterion: &mut Criterion) {
    let arguments = "--emulate --gpus 2 --sizes 64x1..100 --rounds 3 --communicators 2 --seed 1 --quiet --out run";
    let wide = Recorded::made(arguments).widened(100);
    let plan = &wide.header.plan;
    assert_eq!(plan.sets.len() * plan.cases.len(), 10_000);
    let mut tally = Tally::default();
    wide.visits.iter().for_each(|visit| tally.add(visit).expect("a sound visit"));
    criterion.bench_function("judge: 10,000 cells", |bencher| {
        bencher.iter(|| black_box(judge(plan, &tally).expect("sound figures")).decided());
    });
    let folder = tempfile::tempdir().expect("a folder");
    let journal = wide.journal(folder.path());
    criterion.bench_function("document: summarize and write 10,000 cells", |bencher| {
        bencher.iter(|| {
            let run = document::make(&wide.header, &journal, &tally, true).expect("sound figures");
            document::write(folder.path(), &run, &journal).expect("room on the disk");
        });
    });
    let run = document::make(&wide.header, &journal, &tally, true).expect("sound figures");
    criterion.bench_function("table: 10,000 cells", |bencher| {
        bencher.iter_batched(Style::default, |style| table::render(&run, style), BatchSize::SmallInput);
    });
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(10);
    targets = between_visits, ten_thousand_cells
}
criterion_main!(all);
