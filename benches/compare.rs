//! What it costs to compare two stored runs of 1000 cells: ten sets, a hundred sizes, six visits of six communicators.

// The macros of criterion make an item without documentation.
#![allow(missing_docs)]

use std::path::{Path, PathBuf};

use criterion::{Criterion, criterion_group, criterion_main};
use ncclsweep::compare::compare;
use ncclsweep::record::document;
use ncclsweep::record::journal::Journal;
use ncclsweep::record::run::Header;
use ncclsweep::record::stored::Stored;
use ncclsweep::record::summary::Tally;
use ncclsweep::record::visit::{Checks, Outcome, Replicate, Visit};
use ncclsweep::report;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const SETS: usize = 10;
const SIZES: u64 = 100;
const ROUNDS: u32 = 6;
const COMMUNICATORS: u32 = 6;
const SAMPLES: usize = 20;

fn header(seed: u64) -> Header {
    let sets: Vec<_> = (0..SETS).map(|set| json!({"name": format!("set-{set}"), "vars": {}, "note": null})).collect();
    let case = |tokens| {
        let size = json!({"elements": 7168 * tokens, "hidden_tokens": [7168, tokens]});
        json!({"dtype": "bf16", "op": "sum", "placement": "out-of-place", "mode": "graph", "size": size})
    };
    let measure = json!({"graph_length": 50, "replays": SAMPLES, "launches": 50, "batches": 10, "calls": 200});
    let plan = json!({
        "sets": sets, "expect": [], "base": {}, "clean_env": false,
        "libraries": [{"path": "/opt/nccl/libnccl.so.2", "version": "2.28.9"}],
        "cases": (1..=SIZES).map(case).collect::<Vec<_>>(),
        "devices": [0, 1, 2, 3, 4, 5, 6, 7], "ranks": 8, "launch": "threads", "wrap": [], "rounds": {"fixed": ROUNDS},
        "communicators": COMMUNICATORS, "measure": measure, "tolerance": 0.05, "time_limit_s": null, "seed": seed,
    });
    let provenance = json!({
        "host": "box-1", "kernel": "6.8.0", "cpu": "a CPU", "cpus": 64, "driver": "580.1", "cuda": "13.0", "gpus": [],
        "busy": [], "libraries": [], "other_libraries": [], "inherited": {}, "conf_files": [], "arguments": ["ncclsweep"],
    });
    let header = json!({
        "schema": ncclsweep::record::run::SCHEMA, "version": "0.1.0", "backend": "cuda", "created": "2026-03-14T09:26:26Z",
        "provenance": provenance, "plan": plan,
    });
    serde_json::from_value(header).expect("a header")
}

/// A run's folder below `home`, as a sweep leaves it.
fn run(home: &Path, seed: u64) -> PathBuf {
    let folder = home.join(seed.to_string());
    std::fs::create_dir(&folder).expect("a new folder");
    let header = header(seed);
    let mut journal = Journal::create(&folder, &header).expect("a new journal");
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut time = |case: usize| (40.0 + case as f64 / 5.0) * (0.95 + 0.1 * generator.random::<f64>());
    let mut index = 0;
    for round in 0..ROUNDS {
        for arm in header.plan.round(round) {
            let each = (0..COMMUNICATORS)
                .flat_map(|communicator| (0..header.plan.cases.len()).map(move |case| (communicator, case)));
            let replicates = each.map(|(communicator, case)| {
                let samples_us: Vec<f64> = (0..SAMPLES).map(|_| time(case)).collect();
                let mean_us = samples_us.iter().sum::<f64>() / SAMPLES as f64;
                let checks = Checks { outputs: 400, wrong: 0, first_wrong: None };
                Replicate { communicator, case, mean_us, median_us: mean_us, warm_up_calls: 60, checks, samples_us }
            });
            let visit = Visit {
                seconds: 4.7,
                outcome: Outcome::Completed,
                replicates: replicates.collect(),
                ..Visit::begun(index, round, arm, header.created)
            };
            journal.append(&visit).expect("room on the disk");
            index += 1;
        }
    }
    let tally = Tally::of(&journal).expect("a sound journal");
    let document = document::make(&header, &journal, &tally, true).expect("a sound journal");
    document::write(&folder, &document, &journal).expect("room on the disk");
    folder
}

fn comparing(c: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (old, new) = (run(home.path(), 1), run(home.path(), 2));
    let load = |folder: &Path| Stored::load(folder).expect("a sound run");
    c.bench_function("reading one run of 1000 cells", |b| b.iter(|| load(&old)));
    let (before, after) = (load(&old), load(&new));
    assert_eq!(before.run.cells.len(), 1000);
    c.bench_function("comparing two runs of 1000 cells", |b| b.iter(|| compare(&before, &after, None)));
    let comparison = compare(&before, &after, None).expect("comparable runs");
    c.bench_function("showing the comparison of 1000 cells", |b| {
        b.iter(|| report::compare::render(&comparison, report::Style::default()));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = comparing
}
criterion_main!(benches);
