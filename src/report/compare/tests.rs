use super::*;
use crate::collective::Mode;
use crate::compare::compare;
use crate::record::fixture::{case, run, stored, two_sets};

fn shown(comparison: &Comparison) -> String {
    // Spaces that do not break look like others in a snapshot and are none.
    render(comparison, Style::default()).replace('\u{a0}', " ")
}

/// `pcie-ll` a quarter slower at one size after an upgrade, and one size measured once only.
fn upgraded() -> Comparison {
    let [old, new] = two_runs();
    compare(&old, &new, None).unwrap()
}

fn two_runs() -> [Stored; 2] {
    let old = stored(two_sets(), 1, |_, _| 1.0);
    let mut new = stored(two_sets(), 2, |set, case| if set == "pcie-ll" && case == 0 { 1.25 } else { 1.0 });
    new.run.header.provenance.driver = Some("590.44.01".into());
    new.run.header.plan.sets[1].vars.set("NCCL_PROTO", "Simple");
    [old, new]
}

fn written(format: Format) -> crate::error::Result<String> {
    let [old, new] = two_runs();
    let mut text = Vec::new();
    write(&upgraded(), [&old, &new], format, Style::default(), &mut text)?;
    Ok(String::from_utf8(text).unwrap())
}

#[test]
fn two_runs_fit_into_80_columns() {
    insta::assert_snapshot!(shown(&upgraded()), @r"
    two runs compared

      old        results/run-1 · box-1 · 2026-03-14 09:26 UTC · 12 visits
      new        results/run-2 · box-1 · 2026-03-14 09:26 UTC · 12 visits
      changed    driver: 580.159.04 → 590.44.01
                 pcie-ll: NCCL_PROTO: LL → Simple

    graph, bf16 sum out-of-place · ratio new to old, tolerance 5%
        size  bytes  set       old   new  ratio  95%        verdict
                                µs    µs         interval
      7168x1  14336  default  48.2  48.2   1.00  0.98–1.02  same
                     pcie-ll  28.9  36.1   1.25  1.23–1.27  slower

      7168x2  28672  default  52.5  52.5   1.00  0.98–1.02  same
                     pcie-ll  32.6  32.6   1.00  0.98–1.02  same

      7168x3  43008  default  57.1  57.1   1.00  0.98–1.02  same
                     pcie-ll  36.2  36.5   1.01  0.99–1.03  same

      7168x4  57344  default  61.1  61.4   1.00  0.98–1.03  same
                     pcie-ll  40.5  40.5   1.00  0.98–1.02  same

    default is the same as it was at all 4 sizes (1.00 of its old time). All graph
    cases together: 1.00 (0.98–1.02), same
    pcie-ll is slower than it was at 7168x1 (1.25 of its old time), the same as it
    was at 3 of 4 sizes (1.00–1.01 of its old time). All graph cases together: 1.06
    (1.04–1.08), undecided
    ");
}

#[test]
fn of_many_cells_those_that_are_the_same_are_counted() {
    let cases: Vec<Case> = (1..=30).map(|tokens| case(tokens, Mode::Graph)).collect();
    let old = stored(run(&["default", "pcie-ll"], &cases), 1, |_, _| 1.0);
    let new = stored(
        run(&["default", "pcie-ll"], &cases),
        2,
        |set, case| {
            if set == "pcie-ll" && case == 3 { 1.4 } else { 1.0 }
        },
    );
    let comparison = compare(&old, &new, Some(0.1)).unwrap();
    insta::assert_snapshot!(shown(&comparison), @r"
    two runs compared

      old        results/run-1 · box-1 · 2026-03-14 09:26 UTC · 12 visits
      new        results/run-2 · box-1 · 2026-03-14 09:26 UTC · 12 visits
      changed    nothing that the runs tell: box, software, settings and what NCCL
                 chose

    graph, bf16 sum out-of-place · ratio new to old, tolerance 10%
        size  bytes  set       old   new  ratio  95%        verdict
                                µs    µs         interval
      7168x4  57344  pcie-ll  40.3  56.3   1.40  1.38–1.42  slower

    default is the same as it was at all 30 sizes (0.99–1.01 of its old time). All
    graph cases together: 1.00 (0.99–1.02), same
    pcie-ll is slower than it was at 7168x4 (1.40 of its old time), the same as it
    was at 29 of 30 sizes (0.99–1.01 of its old time). All graph cases together:
    1.01 (1.00–1.02), same
    cells that are the same are not shown
    ");
}

#[test]
fn every_compared_cell_is_a_row_of_the_csv() {
    let text = written(Format::Csv).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let column = |name: &str| heads.iter().position(|head| head == name).unwrap();
    assert_eq!(rows.len(), 8);
    let slower: Vec<&str> =
        rows.iter().filter(|row| &row[column("verdict")] == "slower").map(|row| &row[column("size")]).collect();
    assert_eq!(slower, ["7168x1"]);
}

#[test]
fn json_has_all_and_nccl_tests_no_form() {
    let value: serde_json::Value = serde_json::from_str(&written(Format::Json).unwrap()).unwrap();
    assert_eq!(value["cells"].as_array().unwrap().len(), 8);
    assert_eq!((&value["changes"][0]["topic"], &value["cells"][4]["verdict"]), (&"driver".into(), &"slower".into()));
    for format in [Format::CsvCells, Format::NcclTests, Format::NcclTestsJson] {
        assert!(written(format).unwrap_err().next_step().unwrap().contains("html"));
    }
}

#[test]
fn markdown_says_the_same() {
    let text = written(Format::Markdown).unwrap();
    for line in ["- changed: driver: 580.159.04 → 590.44.01", "### graph, bf16 sum out-of-place"] {
        assert!(text.lines().any(|other| other == line), "{line} is missing in\n{text}");
    }
    assert_eq!(text.matches("| slower |").count(), 1);
}

#[test]
fn a_run_that_stopped_early_is_told_to_have() {
    let [old, mut new] = two_runs();
    new.run.complete = false;
    let shown = shown(&compare(&old, &new, None).unwrap());
    let of = |head: &str| shown.lines().position(|line| line.trim_start().starts_with(head)).unwrap();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(!lines[of("old")].contains("stopped"), "{shown}");
    assert!(lines[of("new")..of("changed")].join(" ").contains("12 visits; stopped"), "{shown}");
}
