//! Forms of the results, where they go, and what they give away.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ncclsweep::record::journal::Journal;
use ncclsweep::record::run::Run;

use crate::support::{LEAST, MAIN, OUT, Program, Ran, document, entries};

/// Such a run as JSON; made once.
static JSON: LazyLock<Ran> = LazyLock::new(|| printed("json"));

/// A small run in this form.
fn printed(format: &str) -> Ran {
    Program::least("--modes graph,sync --in-place=both").args(["--format", format]).keeping(OUT).run().exits(5)
}

#[test]
fn results_go_to_stdout_and_all_else_to_stderr() {
    let ran = &*JSON;
    let (notes, last) = ran.stderr.trim_end().rsplit_once('\n').unwrap_or(("", ran.stderr.trim_end()));
    assert_eq!(last, format!("results in {OUT}"));
    assert!(notes.lines().all(|line| line.starts_with("warning: ")), "{notes}");
    let ran = Program::least("--quiet").keeping(OUT).run().exits(5);
    assert_eq!(ran.stderr, "");
}

#[test]
fn json_is_the_document_of_the_run() {
    let ran = &*JSON;
    let printed: Run = serde_json::from_str(&ran.stdout).unwrap();
    let stored = ran.document();
    assert_eq!(printed.header, stored.header);
    assert_eq!(printed.cells, stored.cells);
    assert_eq!(printed.joint, stored.joint);
    assert_eq!(printed.finished, stored.finished);
}

#[test]
fn the_journal_has_the_samples_behind_the_document() {
    let ran = &*JSON;
    let (journal, header) = Journal::open(&ran.folder()).unwrap();
    let document = ran.document();
    assert_eq!(header, document.header);
    for (entry, visit) in journal.entries().iter().zip(&document.visits) {
        let full = journal.read(entry).unwrap();
        assert_eq!(full.replicates.len(), visit.replicates.len());
        for (full, bare) in full.replicates.iter().zip(&visit.replicates) {
            let mode = header.plan.cases[full.case].mode;
            assert_eq!(full.samples_us.len(), header.plan.measure.samples(mode));
            assert_eq!((full.median_us, bare.samples_us.len()), (bare.median_us, 0));
        }
    }
}

#[test]
fn csv_has_a_row_for_each_observation_with_all_it_depends_on() {
    let ran = printed("csv");
    let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let run = ran.document();
    let measure = &run.header.plan.measure;
    let replicates = run.visits.iter().flat_map(|visit| &visit.replicates);
    let samples: usize = replicates.map(|of| measure.samples(run.header.plan.cases[of.case].mode)).sum();
    assert_eq!(rows.len(), samples);
    for factor in
        "run set nccl ranks mode dtype op in_place size_bytes round visit communicator sample time_us".split(' ')
    {
        let at = heads.iter().position(|head| head == factor).unwrap_or_else(|| panic!("no column {factor}"));
        assert!(rows.iter().all(|row| !row[at].is_empty()), "{factor}");
    }
}

#[test]
fn csv_cells_has_a_row_for_each_cell() {
    let ran = printed("csv-cells");
    let mut reader = csv::Reader::from_reader(ran.stdout.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let run = ran.document();
    assert_eq!(rows.len(), run.cells.len());
    for (row, cell) in rows.iter().zip(&run.cells) {
        assert_eq!(row[column("backend")], *"emulated");
        assert_eq!(row[column("set")], *cell.set);
        assert_eq!(row[column("size_bytes")].parse(), Ok(cell.size_bytes));
        assert_eq!(row[column("median_us")].parse().ok(), cell.median_us);
    }
}

#[test]
fn nccl_tests_has_the_columns_of_all_reduce_perf() {
    let ran = printed("nccl-tests");
    let lines = ran.stdout.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 2 * 2, "a line for each env set and mode:\n{}", ran.stdout);
    for row in rows {
        assert_eq!(row.len(), 13, "{row:?}");
        assert_eq!(row[..5], ["14336", "7168", "bfloat16", "sum", "-1"]);
        for number in row[5..].iter() {
            assert!(number.parse::<f64>().is_ok(), "{row:?}");
        }
    }
}

#[test]
fn nccl_tests_json_is_a_document_for_each_set_and_mode() {
    let ran = printed("nccl-tests-json");
    let documents: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(documents.len(), 2 * 2);
    for document in documents {
        assert_eq!((&document["version"], &document["config"]["nthreads"]), (&3.into(), &2.into()));
        let row = &document["results"][0];
        for half in ["out_of_place", "in_place"] {
            assert!(row[half]["time"].is_f64() && row[half]["nwrong"] == 0, "{row}");
        }
    }
}

#[test]
fn every_run_has_its_page_and_report_makes_it_again() {
    let ran = &*JSON;
    let page = std::fs::read_to_string(ran.folder().join("report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("EMULATED"));
    let again = Program::new(["report", OUT, "--format", "html"]).beside(ran).run().exits(0);
    assert_eq!(again.stdout, page);
}

#[test]
fn several_runs_are_reported_together() {
    let ran = &*JSON;
    let report =
        |format: &str| Program::new(["report", OUT, OUT, "--format", format]).beside(ran).run().exits(0).stdout;
    assert_eq!(report("json").lines().count(), 2);
    assert_eq!(report("csv-cells").lines().filter(|line| line.starts_with("run,backend,")).count(), 1);
    assert_eq!(report("html").matches("<article").count(), 2);
}

#[test]
fn markdown_has_a_table_for_each_mode() {
    let ran = printed("markdown");
    let rules = ran.stdout.lines().filter(|line| line.starts_with('|') && line.contains("--"));
    assert!(rules.count() >= 2, "{}", ran.stdout);
}

#[test]
fn no_colour_is_written_to_what_is_no_terminal() {
    for text in [&MAIN.stdout, &MAIN.stderr] {
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}

#[test]
fn a_table_is_as_wide_as_the_terminal_says() {
    for (columns, most) in [("80", 80), ("120", 120)] {
        let ran = Program::least("").env("COLUMNS", columns).keeping(OUT).run().exits(5);
        let widest = ran.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= most, "{widest} columns:\n{}", ran.stdout);
    }
}

#[test]
fn a_run_without_a_folder_gets_one_of_time_host_and_gpus() {
    let ran = Program::least("").run().exits(5);
    let run = document(&only_run(ran.home.path()));
    let name = only_run(ran.home.path()).file_name().unwrap().to_str().unwrap().to_owned();
    let time = run.header.created.strftime("%Y%m%dT%H%M%SZ").to_string();
    assert_eq!(name, format!("{time}-{}-2xrtxpro6000", run.header.provenance.host));
    ran.tells(&format!("results in results/{name}"));
}

fn only_run(home: &Path) -> PathBuf {
    let runs = entries(&home.join("results"));
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].clone()
}

#[test]
fn a_redacted_run_tells_no_host_no_gpu_and_no_path_of_ours() {
    let ran = Program::least("--redact --format json").env("USER", "jane-doe").run().exits(5);
    let folder = only_run(ran.home.path());
    let plain = MAIN.document();
    let mut secrets = vec![plain.header.provenance.host.clone(), ran.home.path().display().to_string()];
    secrets.extend(plain.header.provenance.gpus.iter().map(|gpu| gpu.uuid.clone()));
    let build = Path::new(crate::support::executable()).parent().unwrap();
    secrets.push(build.display().to_string());
    let names = [folder.file_name().unwrap().to_str().unwrap().to_owned(), ran.stdout];
    let files = entries(&folder).into_iter().map(|file| std::fs::read_to_string(file).unwrap());
    for text in names.into_iter().chain(files) {
        for secret in &secrets {
            assert!(!is_told(&text, secret), "`{secret}` is told");
        }
    }
    let run = document(&folder);
    assert!(run.cells.iter().all(|cell| cell.median_us.is_some()), "figures stay");
    assert_eq!(run.header.provenance.gpus[0].name, plain.header.provenance.gpus[0].name, "models stay");
}

/// Whether `text` has `secret` as a word: a host may be called `pc`, and `pcie-ll` is no secret.
fn is_told(text: &str, secret: &str) -> bool {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(secret).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + secret.len()..].chars().next());
        !before.is_some_and(of_word) && !after.is_some_and(of_word)
    })
}

#[test]
fn a_dry_run_shows_the_whole_plan_and_starts_nothing() {
    let program =
        Program::emulated("--dry-run --gpus 8 --sizes 7168x1..4 --rounds 3 --seed 42 --base NCCL_NTHREADS=256");
    // A worker or a probe would end in this fault.
    let program = program.env("NCCLSWEEP_EMULATE_FAULT", "kill@load").env("NCCL_DEBUG", "WARN");
    let ran = program.args(["--wrap", "env -u NCCL_PROTO"]).keeping(OUT).run().exits(0);
    for told in [
        "nothing was started",
        "GPUs 0, 1, 2, 3, 4, 5, 6, 7",
        "14336 B",
        "57344 B",
        "rounds 3, each of 2 visits of 6 communicators",
        "seed   42",
        "env -u NCCL_PROTO ncclsweep",
        "NCCL_PROTO=LL   (this set)",
        "NCCL_NTHREADS=256   (base)",
        "NCCL_DEBUG=WARN   (inherited)",
    ] {
        assert!(ran.stdout.contains(told), "`{told}` is missing in\n{}", ran.stdout);
    }
    assert_eq!(ran.stderr.lines().count(), 1, "what a run would warn of: {}", ran.stderr);
    assert!(!ran.folder().exists());
}

#[test]
fn a_dry_run_needs_neither_gpu_nor_library() {
    Program::new(LEAST).args(["--dry-run"]).run().exits(0);
}
