use super::*;
use crate::collective::Mode;
use crate::record::fixture;

fn page_of(run: &Run) -> String {
    let observed = Observed::of_visits(run.visits.iter().cloned().map(Ok), &wanted(run)).unwrap();
    super::run(Source { run, observed: &observed })
}

/// All that a page could make a browser ask for or run.
fn reaches_out(page: &str) -> Option<&'static str> {
    let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    ["http:", "https:", "//cdn", "<script", "@import", "url(", "<iframe", "<object", "<embed", "onload=", "onerror="]
        .into_iter()
        .find(|what| page.contains(what))
}

/// Whether every element is closed in its turn; a page in HTML has few that are not.
fn check_nesting(page: &str) {
    const VOID: [&str; 5] = ["meta", "link", "br", "hr", "img"];
    let mut open: Vec<&str> = Vec::new();
    // Neither text nor attributes contain a bare bracket: the engine escapes it.
    for tag in page.split('<').skip(2).map(|part| part.split('>').next().unwrap()) {
        let name = tag.trim_start_matches('/').split_whitespace().next().unwrap();
        match tag.starts_with('/') {
            true => assert_eq!(open.pop(), Some(name), "at <{tag}>"),
            false if VOID.contains(&name) || tag.ends_with('/') => {}
            false => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// The anchors, each of which may be there once.
fn anchors(page: &str) -> Vec<&str> {
    page.split(" id=\"").skip(1).map(|part| part.split('"').next().unwrap()).collect()
}

#[test]
fn a_page_has_the_verdict_on_top_every_plot_and_all_warnings() {
    let mut run = fixture::two_sets();
    run.warnings = vec!["the box was <hot>".into()];
    let page = page_of(&run);
    assert!(page.contains("<h1>pcie-ll is <span class=\"good\">faster</span> than default at all 4 sizes"), "{page}");
    assert!(page.find("<h1>").unwrap() < page.find("the box was &lt;hot&gt;").unwrap());
    for section in ["Results", "Ratio to the baseline", "Latency by size", "Distribution", "rounds", "Provenance"] {
        assert!(page.contains(section), "{section}");
    }
    assert_eq!(page.matches("role=\"img\"").count(), 1 + 4 + 4, "latency, and two plots for each size");
}

#[test]
fn a_page_is_whole_and_asks_for_nothing() {
    let page = page_of(&fixture::two_sets());
    assert_eq!(reaches_out(&page), None);
    check_nesting(&page);
    let found = anchors(&page);
    let distinct: HashSet<_> = found.iter().collect();
    assert_eq!(distinct.len(), found.len(), "{found:?}");
    for link in page.split("href=\"#").skip(1).map(|part| part.split('"').next().unwrap()) {
        assert!(found.contains(&link), "{link}");
    }
}

#[test]
fn text_of_strangers_stays_text() {
    const EVIL: &str = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&";
    let mut run = fixture::run(&["default", EVIL], &[fixture::case(1, Mode::Graph), fixture::case(2, Mode::Graph)]);
    run.cells.iter_mut().for_each(|cell| cell.verdict_reason = Some(EVIL.into()));
    run.warnings = vec![EVIL.into()];
    run.header.version = EVIL.into();
    run.header.plan.sets[1].vars.set(EVIL, EVIL);
    run.header.plan.wrap = vec![EVIL.into()];
    let provenance = &mut run.header.provenance;
    for text in [&mut provenance.host, &mut provenance.kernel, &mut provenance.cpu, &mut provenance.cuda] {
        *text = EVIL.into();
    }
    (provenance.driver, provenance.emulated) = (Some(EVIL.into()), Some(EVIL.into()));
    provenance.gpus[0].name = EVIL.into();
    provenance.gpus[0].uuid = EVIL.into();
    provenance.gpus[0].pci = EVIL.into();
    provenance.libraries[0].path = EVIL.into();
    provenance.arguments.push(EVIL.into());
    provenance.inherited.set("NCCL_X", EVIL);
    run.visits[0].evidence = vec![EVIL.into()];
    let page = page_of(&run);
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
    check_nesting(&page);
}

#[test]
fn the_page_of_a_run_of_ten_thousand_cells_stays_small_and_says_what_it_leaves_out() {
    let sets: Vec<String> = (0..100).map(|at| format!("set-{at}")).collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let cases: Vec<_> = (1..=100).map(|tokens| fixture::case(tokens, Mode::Graph)).collect();
    let mut run = fixture::run(&sets, &cases);
    run.visits.iter_mut().flat_map(|visit| &mut visit.replicates).for_each(|of| of.samples_us = vec![48.0, 48.5, 47.0]);
    let page = page_of(&run);
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
    assert!(page.contains("24 of 100 sets in tables") && page.contains("8 of 100 sets in plots"));
    check_nesting(&page);
}

#[test]
fn a_run_that_measured_nothing_has_a_page_that_says_so() {
    let mut run = fixture::run(&["default", "pcie-ll"], &[fixture::case(1, Mode::Sync)]);
    (run.visits, run.complete) = (Vec::new(), false);
    for cell in &mut run.cells {
        (cell.median_us, cell.interval_us, cell.ratio, cell.ratio_interval) = (None, None, None, None);
        cell.verdict = if cell.arm.set == 0 { Verdict::Baseline } else { Verdict::Invalid };
    }
    let page = page_of(&run);
    assert!(page.contains("Stopped early") && page.contains("no figures") && page.contains("pill invalid"));
    check_nesting(&page);
    run.cells.clear();
    run.joint.clear();
    check_nesting(&page_of(&run));
}

#[test]
fn the_wiring_is_drawn_where_the_run_knows_it() {
    let dump = include_str!("../../../tests/data/topology/switches.xml");
    let mut run = fixture::two_sets();
    let mut topology = crate::topology::parse_xml("switches.xml", dump).unwrap();
    topology.nics[0].name = "<script>\"&".into();
    run.header.provenance.topology = Some(topology);
    let page = page_of(&run);
    assert!(page.contains("class=\"topology\"") && page.contains("GPU0") && page.contains("#r0-topology"), "{page}");
    assert_eq!(reaches_out(&page), None);
    check_nesting(&page);
}

#[test]
fn several_runs_are_one_page_with_anchors_of_their_own() {
    let (one, two) = (fixture::two_sets(), fixture::two_sets());
    let observed = Observed::of_visits(one.visits.iter().cloned().map(Ok), &wanted(&one)).unwrap();
    let page = runs(&[Source { run: &one, observed: &observed }, Source { run: &two, observed: &observed }]);
    let found = anchors(&page);
    let distinct: HashSet<_> = found.iter().collect();
    assert_eq!(distinct.len(), found.len());
    check_nesting(&page);
}

#[test]
fn the_page_of_a_comparison_has_what_changed_and_what_is_slower_on_top() {
    let old = fixture::stored(fixture::two_sets(), 1, |_, _| 1.0);
    let mut new =
        fixture::stored(fixture::two_sets(), 2, |set, case| if set == "pcie-ll" && case == 0 { 1.25 } else { 1.0 });
    new.run.header.provenance.driver = Some("590.<44>".into());
    let comparison = crate::compare::compare(&old, &new, None).unwrap();
    let page = comparison_of(&comparison, [&old, &new]).unwrap();
    assert!(page.contains("1 of 8 cells is slower than before"), "{page}");
    assert!(page.contains("580.159.04 → <span class=\"strong\">590.&lt;44&gt;</span>"));
    assert_eq!(page.matches("pill slower").count(), 2, "in the plot of ratios and in the table");
    assert_eq!(reaches_out(&page), None);
    check_nesting(&page);
}

#[test]
fn a_headline_counts_over_all_modes() {
    let cases = [fixture::case(1, Mode::Graph), fixture::case(2, Mode::Graph), fixture::case(1, Mode::Sync)];
    let mut run = fixture::run(&["default", "pcie-ll"], &cases);
    let text = |run: &Run| super::super::ink::Style::default().finish(&headline(run));
    assert_eq!(text(&run), "pcie-ll is faster than default at all 3 cases: 0.60–0.64 of its time");
    run.cells[5].verdict = Verdict::Undecided;
    assert_eq!(
        text(&run),
        "pcie-ll is faster than default at 2 of 3 cases (0.60–0.62 of its time), undecided at 7168x1 in sync mode (0.64)"
    );
    let many = fixture::run(&["default", "a", "b", "c", "d"], &cases[..1]);
    assert_eq!(
        text(&many),
        "3 of 4 sets are faster than default everywhere; the quickest, a, is faster than default at 7168x1: 0.60 of its time"
    );
}

#[test]
fn the_floor_stands_on_the_page_of_a_run_that_looked_for_it_and_on_no_other() {
    use crate::record::floor::{CellFloor, EmptyKernel, FlagHop, Floor, Over};
    let mut run = fixture::two_sets();
    assert!(!page_of(&run).contains("The floor"));
    run.floor = Some(Floor {
        started: run.finished,
        seconds: 1.0,
        kernels: vec![EmptyKernel { gpu: 0, graph_us: 0.5, stream_us: 2.0, sync_us: 9.0 }],
        hops: vec![FlagHop { gpus: [0, 1], over: Over::HostMemory, runs_us: vec![1.76], why: None }],
        failed: None,
    });
    for cell in &mut run.cells {
        (cell.median_us, cell.floor) = (Some(20.0), Some(CellFloor { ring_us: 5.0, one_shot_us: 2.0 }));
    }
    let page = page_of(&run);
    for part in ["#r0-floor", "1.76 µs between GPU 0 and 1", "5.00 <span class=\"quiet\">(25%)</span>", "width=\"25%\""]
    {
        assert!(page.contains(part), "{part}");
    }
    check_nesting(&page);
}

#[test]
fn the_time_of_a_visit_is_told_phase_by_phase() {
    let mut run = fixture::two_sets();
    for visit in &mut run.visits {
        visit.seconds = 4.0;
        visit.timings = crate::record::timings::Timings { exec: 1.0, teardown: 2.0, ..Default::default() };
    }
    let page = page_of(&run);
    assert!(page.contains("Where the time went") && page.contains("2000 <span class=\"quiet\">(50%)</span>"), "{page}");
    run.visits.iter_mut().for_each(|visit| visit.outcome = crate::record::visit::Outcome::Interrupted);
    assert!(!page_of(&run).contains("Where the time went"), "no visit completed");
}
