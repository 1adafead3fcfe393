use super::*;
use crate::collective::{Mode, Placement};
use crate::record::outcome::Outcome;
use crate::record::run::{Applied, Verdict};
use crate::record::summary::Tally;
use crate::record::{document, journal::Journal};

const TEXT: &str = include_str!("../../tests/data/nccl-tests/2.19.6.txt");
const GRAPH: &str = include_str!("../../tests/data/nccl-tests/2.19.6-graph.txt");
const PER_ITER: &str = include_str!("../../tests/data/nccl-tests/2.19.6-per-iter.txt");
const JSON: &str = include_str!("../../tests/data/nccl-tests/2.19.6.json");

/// `columns`, then rows, under the head of two ranks.
fn table(columns: &str, rows: &[&str]) -> String {
    let head = "# nThread 2 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 \n#\n\
                # Using devices\n#   Rank  0 Pid   2387 on         vm device  0 [0x06] Tesla V100\n\
                #   Rank  1 Pid   2387 on         vm device  1 [0x07] Tesla V100\n#\n";
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    format!("{head}# {columns}\n{rows}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.13\n#\n")
}

fn one(text: &str) -> Table {
    let mut tables = parse("out.txt", text).unwrap();
    assert_eq!(tables.len(), 1);
    tables.remove(0)
}

fn times(table: &Table) -> Vec<[f64; 2]> {
    table.rows.iter().map(|row| [0, 1].map(|at| row.halves[at].as_ref().map_or(0.0, |half| half.time_us))).collect()
}

/// The line of an error, and what it says there.
#[track_caller]
fn refused(text: &str) -> String {
    let error = parse("out.txt", text).unwrap_err();
    let mut shown = String::new();
    miette::NarratableReportHandler::new().render_report(&mut shown, &error).unwrap();
    shown
}

fn given() -> Given {
    let created = "2026-11-30T15:00:00Z".parse().unwrap();
    Given { set: "default".into(), base: Vars::default(), repeats: false, created }
}

fn made(texts: &[(&str, &str)], given: &Given) -> Result<crate::record::run::Run> {
    let mut tables = Vec::new();
    for (file, text) in texts {
        tables.extend(parse(file, text)?.into_iter().map(|table| ((*file).to_owned(), table)));
    }
    let (header, visits) = run(&tables, given)?;
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(folder.path(), &header)?;
    visits.iter().try_for_each(|visit| journal.append(visit))?;
    document::make(&header, &journal, &Tally::of(&journal)?, true)
}

#[test]
fn the_real_outputs_read_as_they_were_printed() {
    let text = one(TEXT);
    assert_eq!(times(&text), [[13.52, 13.61], [14.16, 14.25], [15.09, 14.96], [15.73, 15.66]]);
    assert_eq!((text.line, text.rows[0].line, text.out_of_bounds), (11, 13, Some(0)));
    assert_eq!(text.rows[0].halves[0].as_ref().unwrap().check, Check::Wrong(0));
    let head = &text.head;
    assert_eq!(head.nccl, Some(NcclVersion::new(2, 28, 3)));
    assert_eq!((head.version.as_deref(), head.program.as_deref()), (Some("2.19.6"), Some("all_reduce_perf")));
    assert_eq!(head.options, Some(Options { threads: 2, iterations: 200, ..Options::default() }));
    let last = Rank {
        rank: 1,
        pid: Some(2345),
        host: "vm".into(),
        device: 1,
        bus: "0000:00:07".into(),
        name: "NVIDIA H200".into(),
    };
    assert_eq!(head.ranks[1..], [last]);

    let graph = one(GRAPH);
    assert_eq!(graph.head.options.map(|options| (options.graph, options.validation)), Some((20, 0)));
    assert_eq!(graph.rows[3].halves[1].as_ref().unwrap().check, Check::None);
    assert_eq!(times(&one(PER_ITER))[0], [15.78, 15.78]);
}

#[test]
fn json_holds_the_same_run_with_more_digits_its_variables_and_its_time() {
    let (json, text) = (one(JSON), one(TEXT));
    for (fine, coarse) in times(&json).iter().flatten().zip(times(&text).iter().flatten()) {
        assert!((fine - coarse).abs() <= 0.005_001, "{fine} is printed as {coarse}");
    }
    assert_eq!(json.head.ranks.len(), 2, "the file names the first rank of the process only");
    assert_eq!(json.head.options, text.head.options);
    assert_eq!(json.head.variables.get("NCCL_P2P_DISABLE"), Some("1"));
    assert_eq!(json.head.started, Some("2026-11-30T14:56:39Z".parse().unwrap()));
    assert_eq!(json.head.seconds, Some(2.0));
}

#[test]
fn every_form_of_the_table_since_2017_is_read() {
    let wrong = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong";
    let old = "size count type redop time algbw busbw error time algbw busbw error";
    let cpu = "size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong";
    for (columns, row, time, check) in [
        (wrong, "14336 7168 bfloat16 sum -1 12.72 1.13 1.13 0 12.70 1.13 1.13 0", 12.72, Check::Wrong(0)),
        (wrong, "14336 7168 bfloat16 sum -1 12.72 1.13 1.13 N/A 12.70 1.13 1.13 N/A", 12.72, Check::None),
        (wrong, "14336 7168 bfloat16 sum -1 12.72 1.13 1.13 1.2e+04 12.70 1.13 1.13 7", 12.72, Check::Wrong(12_000)),
        (old, "14336 3584 float sum 12.72 1.13 1.13 2e-07 12.70 1.13 1.13 0e+00", 12.72, Check::Deviation(2e-7)),
        (
            "bytes N type op time algbw busbw res time algbw busbw res",
            "14336 3584 float sum 0.013 1.13 1.13 1e-06 0.013 1.13 1.13 \tN/A",
            13.0,
            Check::Deviation(1e-6),
        ),
        (
            &format!("{wrong} timestamp"),
            "14336 7168 bfloat16 sum -1 12.72 1.13 1.13 0 12.70 1.13 1.13 0 2026-11-30 14:56:39",
            12.72,
            Check::Wrong(0),
        ),
        // The CPU's time is no time of an all-reduce; the bandwidth is that of one.
        (cpu, "1433600 716800 bfloat16 sum -1 3.10 1.13 1.13 0 3.02 1.13 1.13 0", 1433.6 / 1.13, Check::Wrong(0)),
    ] {
        let table = one(&table(columns, &[row]));
        let half = table.rows[0].halves[0].as_ref().unwrap();
        assert!((half.time_us - time).abs() < 1e-9, "{columns}: {}", half.time_us);
        assert_eq!(half.check, check, "{columns}");
        assert_eq!(table.head.cpu_time, columns == cpu);
    }
}

#[test]
fn launchers_may_put_anything_before_the_lines() {
    let expected = one(TEXT);
    let with = |prefix: &dyn Fn(usize) -> String| -> String {
        TEXT.lines().enumerate().map(|(at, line)| format!("{}{line}\r\n", prefix(at))).collect()
    };
    let time = |at: usize| format!("2026-01-02T03:04:{at:02}.123Z [pod/bench-0/main] ");
    for prefixed in [with(&|_| "[1,0]<stdout>:".into()), with(&|_| "0: ".into()), with(&time)] {
        assert_eq!(one(&prefixed).rows, expected.rows);
    }
    // Ranks that print nothing but log lines between those of rank 0.
    let chatty: String = TEXT
        .lines()
        .map(|line| format!("[1,0]<stdout>:{line}\n[1,1]<stdout>:vm:7:8 [1] NCCL INFO Connected\n"))
        .collect();
    assert_eq!(times(&one(&chatty)), times(&expected));
    let logged =
        TEXT.replace("\n       28672", "\nvm:2345:2350 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM\n       28672");
    assert_eq!(times(&one(&logged)), times(&expected));
}

#[test]
fn what_is_cut_off_or_mixed_is_an_error_with_its_line() {
    let row = "       57344         28672  bfloat16     sum      -1    15.73    3.64    3.64       0    15.66    3.66    3.66       0";
    assert!(TEXT.contains(row));
    let with = |other: &str| TEXT.replace(row, other);
    for (text, told) in [
        (with("57344 28672 bfloat16 sum -1 15.73 3.64"), ["line 16", "7 of 13 values"]),
        (with(&format!("{row} 12")), ["line 16", "14 values"]),
        (with("57344 28672 bfloat16 sum -1vm:1:2 [0] NCCL INFO x\n"), ["line 16", "values"]),
        (with("43008 28672 bfloat16 sum -1 15.73 3.64 3.64 0 15.66 3.66 3.66 0"), ["line 16", "not 43008 bytes"]),
        (with("57344 28672 bfloat16 sum -1 15.09 3.64 3.64 0 15.66 3.66 3.66 0"), ["line 16", "at odds"]),
        (with("57344 28672 bfloat16 sum -1 15.73 3.64 6.37 0 15.66 3.66 3.66 0"), ["line 16", "2 ranks"]),
        (with("57344 28672 bfloat16 sum -1 15.73 3.64 3.64 N 15.66 3.66 3.66 0"), ["line 16", "`N` is no number"]),
        (with("57344 28672 bfloat16 sum -1 nan 3.64 3.64 0 15.66 3.66 3.66 0"), ["line 16", "`nan`"]),
        (with("vm: Test NCCL failure common.cu:958 'unhandled system error'"), ["line 16", "failed here"]),
        (TEXT[..TEXT.find(row).unwrap() + row.len() - 3].to_owned(), ["line 16", "12 of 13"]),
        (TEXT[..TEXT.find(row).unwrap() + row.len()].to_owned(), ["line 16", "ends within this row"]),
        (with(""), ["line 18", "missing"]),
        (TEXT.replace(": 2.39752", ": 2.2"), ["line 18", "mean of 2.3963"]),
        (TEXT.replace("nThread 2 nGpus 1", "nThread 1 nGpus 2").replace(": 2.39752", ": 2.41"), ["line 18", "missing"]),
        (TEXT.replace("# Avg", "# Out of bounds values : 0 OK\n# Avg"), ["line 18", "mixed"]),
        (
            TEXT.lines().filter(|line| !line.contains("algbw")).collect::<Vec<_>>().join("\n"),
            ["line 12", "without the names"],
        ),
        (table("size count type redop root time algbw busbw copybw #wrong", &[]), ["line 7", "copybw"]),
        (JSON.replace("\"size\": 28672", "\"size\": 28673"), ["result 2", "not 28673 bytes"]),
        (JSON[..JSON.len() / 2].to_owned(), ["line", "EOF"]),
    ] {
        let shown = refused(&text);
        assert!(told.iter().all(|part| shown.contains(part)), "{told:?} are missing in {shown}");
    }
}

#[test]
fn outputs_that_are_interleaved_are_refused_and_told_apart_by_tags() {
    let lines = |tag: &str| -> Vec<String> { TEXT.lines().map(|line| format!("{tag}{line}")).collect() };
    let weave = |a: Vec<String>, b: Vec<String>| -> String {
        a.into_iter().zip(b).map(|(a, b)| format!("{a}\n{b}\n")).collect()
    };
    assert!(refused(&weave(lines(""), lines(""))).contains("mixed"));
    let tables = parse("out.txt", &weave(lines("0: "), lines("1: "))).unwrap();
    assert_eq!((tables.len(), &tables[0].rows[0].halves), (2, &one(TEXT).rows[0].halves));
}

#[test]
fn other_collectives_and_other_texts_are_refused() {
    assert!(refused(&TEXT.replace("all_reduce_perf", "all_gather_perf")).contains("all_gather_perf"));
    for text in ["", "nothing of the kind\n", "{}", "{\"version\": 9}"] {
        assert!(parse("out.txt", text).is_err(), "{text}");
    }
}

#[test]
fn an_imported_run_is_one_replicate_without_interval_verdict_or_proof() {
    let run = made(&[("out.json", JSON)], &given()).unwrap();
    assert_eq!((run.cells.len(), run.visits.len()), (8, 1));
    let cell = &run.cells[0];
    assert_eq!((cell.mode, cell.in_place, cell.size_bytes), (Mode::Stream, false, 14_336));
    assert_eq!((cell.median_us, cell.interval_us, cell.replicates), (Some(13.520855), None, 1));
    assert_eq!((cell.verdict, cell.applied, cell.checked_outputs), (Verdict::Baseline, Applied::Unverified, 2));
    assert_eq!(run.header.provenance.inherited.get("NCCL_P2P_DISABLE"), Some("1"));
    assert!(run.warnings[0].contains("mean of 200 calls"), "{:?}", run.warnings);
}

#[test]
fn modes_follow_from_the_options() {
    let mode = |text: &str| made(&[("out.txt", text)], &given()).unwrap().header.plan;
    let graph = mode(GRAPH);
    assert_eq!((graph.cases[0].mode, graph.measure.graph_length, graph.measure.replays), (Mode::Graph, 200, 1));
    assert_eq!(graph.cases[4].placement, Placement::InPlace);
    let waiting =
        TEXT.replace("#\n# Using", "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n#\n# Using");
    assert_eq!(mode(&waiting).cases[0].mode, Mode::Sync);
}

#[test]
fn several_tables_are_sets_of_their_own_or_repetitions_of_one() {
    let other = TEXT.replace("    13.52    1.06    1.06", "    13.70    1.05    1.05");
    let apart = made(&[("a.txt", TEXT), ("b.txt", &other)], &given()).unwrap();
    let names: Vec<&str> = apart.header.plan.sets.iter().map(|set| set.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(apart.cells.iter().filter(|cell| cell.set == "b").all(|cell| cell.verdict == Verdict::Undecided));

    let both = format!("{TEXT}{other}");
    let third = ("c.txt", TEXT);
    let repeated = made(&[("a.txt", &both), third], &Given { repeats: true, ..given() }).unwrap();
    assert_eq!((repeated.header.plan.sets.len(), repeated.visits.len()), (1, 3));
    assert!(repeated.cells[0].interval_us.is_some(), "three replicates have an interval");

    let error = made(&[("a.txt", TEXT), ("g.txt", GRAPH)], &given()).unwrap_err();
    assert!(error.message().contains("other options"), "{error}");
}

#[test]
fn wrong_elements_are_wrong_outputs_and_invalid_cells() {
    let wrong = TEXT
        .replace("    13.52    1.06    1.06       0", "    13.52    1.06    1.06    9000")
        .replace("values : 0 OK", "values : 1 FAILED");
    let run = made(&[("out.txt", &wrong)], &given()).unwrap();
    assert_eq!(run.visits[0].outcome, Outcome::WrongData);
    assert_eq!((run.cells[0].wrong_outputs, run.cells[0].checked_outputs), (2, 2));
    assert!(run.cells.iter().all(|cell| cell.verdict == Verdict::Invalid));
}

#[test]
fn cycles_are_samples_of_one_communicator() {
    let row = "       14336          7168  bfloat16     sum      -1    13.52    1.06    1.06       0    13.61    1.05    1.05       0";
    let again = row.replace("13.52    1.06    1.06", "13.90    1.03    1.03");
    let text = TEXT.replace(row, &format!("{row}\n{again}")).replace("bandwidth    : 2.39752", "bandwidth    : 2.126");
    let run = made(&[("out.txt", &text)], &given()).unwrap();
    assert_eq!((run.cells[0].replicates, run.cells[0].median_us), (1, Some(13.71)));
}

#[test]
fn what_one_run_cannot_be_is_refused() {
    for (text, told) in [
        (
            TEXT.replace("Rank  1 Group  0 Pid   2345 on         vm", "Rank  1 Group  0 Pid   2345 on      other"),
            "vm and other",
        ),
        (TEXT.replace("device  1", "device  0"), "on one device"),
        (TEXT.lines().filter(|line| !line.contains("# nThread")).map(|line| format!("{line}\n")).collect(), "nThread"),
        (TEXT.lines().filter(|line| !line.contains("Rank")).map(|line| format!("{line}\n")).collect(), "ranks"),
    ] {
        let error = made(&[("out.txt", &text)], &given()).unwrap_err();
        assert!(error.message().contains(told), "{error}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in ".{0,200}") {
        let _ = parse("out.txt", &text);
    }

    #[test]
    fn damage_of_a_real_output_never_panics(at in 0..TEXT.len(), length in 0_usize..300, json: bool) {
        let text = if json { JSON } else { TEXT };
        let (at, end) = (at.min(text.len()), (at + length).min(text.len()));
        let damaged = format!("{}{}", &text[..at], &text[end..]);
        if let Ok(tables) = parse("out.txt", &damaged) {
            let named: Vec<_> = tables.into_iter().map(|table| ("out.txt".to_owned(), table)).collect();
            let _ = run(&named, &given());
        }
    }
}

#[test]
fn a_table_that_was_cut_off_between_rows_says_where_and_that_its_closing_lines_are_missing() {
    let rows: Vec<&str> = TEXT.lines().collect();
    let last = rows.iter().rposition(|line| !line.starts_with('#') && !line.is_empty()).unwrap();
    let cut = rows[..last].join("\n") + "\n";
    let table = one(&cut);
    assert_eq!(table.rows.len(), 3);
    let told = format!("stops after line {last}, its closing lines");
    assert!(table.notes.len() == 1 && table.notes[0].contains(&told), "{:?}", table.notes);
    assert_eq!(one(TEXT).notes, Vec::<String>::new());
}
