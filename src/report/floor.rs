//! `--floor`: what an all-reduce costs at least on this box, and how near to it each cell comes.

use crate::record::floor::{FlagHop, Floor, Over};
use crate::record::run::{Cell, Run};
use crate::units::{count, plural, range, significant};

use super::cells::{NONE, arms, figure, find, groups, label, name};
use super::head::Line;
use super::ink::{Style, Tone, paragraph, plain};
use super::sheet::{Align, Column, Sheet};
use super::table::{LEAST, WIDEST, labelled};

/// Hops named one by one; more are summed up.
const NAMED: usize = 3;

/// The floor of `run`; nothing where none was looked for.
#[must_use]
pub fn render(run: &Run, style: Style) -> Option<String> {
    let floor = run.floor.as_ref()?;
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    let what = Tone::Strong.ink("what an all-reduce costs at least");
    paragraph(&mut out, "", &format!("{what} · its steps alone, without the bytes of the message"), columns);
    labelled(&mut out, lines(floor), columns);
    if run.cells.iter().any(|cell| cell.floor.is_some()) {
        for group in groups(&run.header.plan.cases) {
            out.push('\n');
            paragraph(&mut out, "", &Tone::Strong.ink(&group.title()), columns);
            out.push_str(&table(run, &group.cases).fit(style.width, "set").render());
        }
    }
    Some(style.finish(&out))
}

/// Hops, kernel and what failed.
pub(super) fn lines(floor: &Floor) -> Vec<Line> {
    let mut lines: Vec<Line> = Over::ALL.into_iter().filter_map(|over| hops(floor, over)).collect();
    let lost = floor.hops.iter().filter_map(|hop| Some((hop, hop.why.as_ref()?)));
    lines.extend(lost.map(|(hop, why)| {
        let told = format!("{} over {}: {}", pair(hop), hop.over, plain(why));
        Line::new("lost", Tone::Bad.ink(&told))
    }));
    let of = |micros: &dyn Fn(&crate::record::floor::EmptyKernel) -> f64| {
        let all = floor.kernels.iter().map(micros);
        all.reduce(f64::max).map_or_else(|| NONE.to_owned(), significant)
    };
    if !floor.kernels.is_empty() {
        let (graph, stream, sync) = (of(&|it| it.graph_us), of(&|it| it.stream_us), of(&|it| it.sync_us));
        let told = format!("empty: {graph} µs in a graph, {stream} µs in a batch of launches, {sync} µs alone");
        lines.push(Line::new("kernel", told));
    }
    let failed = floor.failed.as_ref();
    lines
        .extend(failed.map(|why| Line::new("failed", Tone::Bad.ink(&format!("not all was measured: {}", plain(why))))));
    lines
}

/// How long a flag takes over one way.
fn hops(floor: &Floor, over: Over) -> Option<Line> {
    let known: Vec<(&FlagHop, f64)> =
        floor.hops.iter().filter(|hop| hop.over == over).filter_map(|hop| Some((hop, hop.micros()?))).collect();
    let told = match known.as_slice() {
        [] => return None,
        few if few.len() <= NAMED => {
            let named = few.iter().map(|(hop, micros)| format!("{} µs between {}", significant(*micros), pair(hop)));
            named.collect::<Vec<_>>().join(", ")
        }
        many => {
            let (low, high) = many
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(low, high), (_, micros)| (low.min(*micros), high.max(*micros)));
            let alike = significant(low) == significant(high);
            let micros = if alike { significant(low) } else { range(low, high) };
            format!("{micros} µs over {}", plural(many.len(), "pair"))
        }
    };
    Some(Line { label: "hop", lead: over.to_string(), text: format!("{told}, one way") })
}

fn pair(hop: &FlagHop) -> String {
    match hop.gpus {
        [a, b] if a == b => format!("ranks on GPU {a}"),
        [a, b] => format!("GPU {a} and {b}"),
    }
}

/// A row for each size and set.
fn table(run: &Run, cases: &[usize]) -> Sheet {
    let mut sheet = Sheet::new(vec![
        Column::new("size", "", Align::Right),
        Column::new("bytes", "", Align::Right).spare(2),
        Column::new("set", "", Align::Left),
        Column::new("median", "µs", Align::Point),
        Column::new("ring", "floor µs", Align::Point),
        Column::new("reached", "", Align::Right),
        Column::new("one-shot", "floor µs", Align::Point),
        Column::new("reached", "", Align::Right),
    ]);
    for &case in cases {
        sheet.blank();
        let mut size = label(run, case);
        for arm in arms(run) {
            let Some(cell) = find(run, arm, case) else { continue };
            let floor = |of: fn(&crate::record::floor::CellFloor) -> f64| cell.floor.as_ref().map(of);
            let (ring, one_shot) = (floor(|floor| floor.ring_us), floor(|floor| floor.one_shot_us));
            sheet.row(vec![
                std::mem::take(&mut size),
                run.header.plan.cases[case].bytes().0.to_string(),
                name(run, arm),
                figure(cell.median_us),
                figure(ring),
                reached(cell, ring),
                figure(one_shot),
                reached(cell, one_shot),
            ]);
        }
    }
    sheet
}

/// How much of a cell's time is its floor.
pub(super) fn reached(cell: &Cell, floor: Option<f64>) -> String {
    let share = floor.zip(cell.median_us).map(|(floor, median)| floor / median);
    share.map_or_else(|| NONE.into(), |share| format!("{}%", count((share * 100.0).round() as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;
    use crate::record::floor::{CellFloor, EmptyKernel};

    fn measured() -> Run {
        let mut run = fixture::two_sets();
        let hop = |gpus, over, micros: f64| FlagHop { gpus, over, runs_us: vec![micros], why: None };
        run.floor = Some(Floor {
            started: run.finished,
            seconds: 1.5,
            kernels: vec![EmptyKernel { gpu: 0, graph_us: 0.5, stream_us: 2.1, sync_us: 9.0 }],
            hops: vec![hop([0, 1], Over::PeerMemory, 0.6), hop([0, 1], Over::HostMemory, 1.76)],
            failed: None,
        });
        for cell in &mut run.cells {
            (cell.median_us, cell.floor) = (Some(20.0), Some(CellFloor { ring_us: 5.0, one_shot_us: 2.0 }));
        }
        run
    }

    #[test]
    fn hops_kernel_and_the_share_of_each_cell_are_told() {
        let told = render(&measured(), Style { width: WIDEST, ..Style::default() }).expect("it was measured");
        for part in [
            "peer memory  0.60 µs between GPU 0 and 1, one way",
            "host memory  1.76 µs between GPU 0 and 1, one way",
            "empty: 0.50 µs in a graph, 2.10 µs in a batch of launches, 9.00 µs alone",
        ] {
            assert!(told.contains(part), "{part} is not in {told}");
        }
        let row = told.lines().find(|line| line.contains("pcie-ll")).expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words[words.len() - 5..], ["20.0", "5.00", "25%", "2.00", "10%"], "{told}");
    }

    #[test]
    fn what_did_not_arrive_is_told_and_has_no_floor() {
        let mut run = measured();
        let floor = run.floor.as_mut().expect("measured");
        let lost = FlagHop {
            gpus: [0, 2],
            over: Over::PeerMemory,
            runs_us: vec![],
            why: Some("a flag did not arrive".into()),
        };
        floor.hops.push(lost);
        run.cells.iter_mut().for_each(|cell| cell.floor = None);
        let told = render(&run, Style::default()).expect("it was measured");
        assert!(told.contains("GPU 0 and 2 over peer memory: a flag did not arrive"), "{told}");
        assert!(!told.contains("reached"), "{told}");
    }

    #[test]
    fn many_pairs_are_one_line() {
        let mut run = measured();
        let hops = (0..8).flat_map(|a| (a + 1..8).map(move |b| [a, b]));
        let hop = |gpus: [u32; 2]| FlagHop {
            gpus,
            over: Over::PeerMemory,
            runs_us: vec![1.0 + 0.1 * f64::from(gpus[1])],
            why: None,
        };
        run.floor.as_mut().expect("measured").hops = hops.map(hop).collect();
        let told = render(&run, Style::default()).expect("it was measured");
        assert!(told.contains("1.10–1.70 µs over 28 pairs"), "{told}");
    }
}
