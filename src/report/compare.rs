//! What comparing two runs came to, for a terminal; [`write`](fn@write) for programs and documents too.

mod machine;

use std::io::Write;

use super::cells::{NONE, figure, groups, interval, verdict};
use super::conclusion::{extent, percent};
use super::head::Line;
use super::ink::{Tone, paragraph, plain};
use super::sheet::{Align, Column, Sheet};
use super::table::{LEAST, WIDEST, labelled};
use super::{Format, Style, html};
use crate::collective::Case;
use crate::compare::{Alone, Change, Compared, Comparison, Side, Together};
use crate::error::{Error, Kind, Result};
use crate::record::run::{Backend, Verdict};
use crate::record::stored::Stored;
use crate::units::{self, plural};

/// More cells than a person reads: then those that are the same are counted, and the others shown.
const READABLE: usize = 48;
/// Changes of one topic that are told one by one.
const TOLD: usize = 12;
/// Sets that get a sentence each.
const SENTENCES: usize = 6;

/// Writes the `comparison` of two runs, the old one first, in `format`; `style` shapes [`Format::Table`] only.
pub fn write(
    comparison: &Comparison,
    runs: [&Stored; 2],
    format: Format,
    style: Style,
    out: &mut impl Write,
) -> Result<()> {
    let written = match format {
        Format::Table => out.write_all(render(comparison, style).as_bytes()),
        Format::Json => serde_json::to_writer_pretty(&mut *out, comparison)
            .map_err(std::io::Error::from)
            .and_then(|()| out.write_all(b"\n")),
        Format::Csv => machine::csv(comparison, out),
        Format::Markdown => out.write_all(machine::markdown(comparison).as_bytes()),
        Format::Html => out.write_all(html::comparison_of(comparison, runs)?.as_bytes()),
        Format::CsvCells | Format::NcclTests | Format::NcclTestsJson => {
            let message = format!("{format} has no form for two runs");
            return Err(Error::usage(message).help("one of: table, html, markdown, json, csv"));
        }
    };
    written.and_then(|()| out.flush()).map_err(|error| {
        Error::new(Kind::Incomplete, format!("cannot write the comparison as {format}")).because(error)
    })
}

/// The report for a terminal.
#[must_use]
pub fn render(comparison: &Comparison, style: Style) -> String {
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    paragraph(&mut out, "", &Tone::Strong.ink("two runs compared"), columns);
    if comparison.backend == Backend::Emulated {
        let alarm = "EMULATED: virtual time. These figures say nothing about a real box.";
        paragraph(&mut out, "", &Tone::Bad.ink(alarm), columns);
    }
    out.push('\n');
    labelled(&mut out, head(comparison), columns);
    for (title, cells) in tables(comparison) {
        let ratio = format!("ratio new to old, tolerance {}", percent(comparison.tolerance));
        out.push('\n');
        paragraph(&mut out, "", &format!("{} · {ratio}", Tone::Strong.ink(&title)), columns);
        out.push_str(&table(&cells).fit(style.width, "set").render());
    }
    let findings = findings(comparison);
    if !findings.is_empty() {
        out.push('\n');
        labelled(&mut out, findings, columns);
    }
    out.push('\n');
    for sentence in sentences(comparison) {
        paragraph(&mut out, "", &sentence, columns);
    }
    style.finish(&out)
}

/// Which runs, and what changed between them.
fn head(comparison: &Comparison) -> Vec<Line> {
    let mut lines = vec![Line::new("old", side(&comparison.old)), Line::new("new", side(&comparison.new))];
    if comparison.changes.is_empty() {
        lines.push(Line::new("changed", "nothing that the runs tell: box, software, settings and what NCCL chose"));
    }
    lines.extend(changes(comparison).into_iter().map(|text| Line::new("changed", text)));
    lines
}

pub(super) fn side(side: &Side) -> String {
    let time = side.created.strftime("%Y-%m-%d %H:%M UTC");
    let early = if side.complete { "" } else { "; stopped early, not every planned visit was made" };
    format!("{} · {} · {time} · {}{early}", plain(&side.place), plain(&side.host), plural(side.visits, "visit"))
}

/// The changes as texts; many of one topic are cut off and counted.
fn changes(comparison: &Comparison) -> Vec<String> {
    let mut texts = Vec::new();
    for of_topic in comparison.changes.chunk_by(|a, b| a.topic == b.topic) {
        texts.extend(of_topic.iter().take(TOLD).map(change));
        if of_topic.len() > TOLD {
            texts.push(format!("and {} like these: --format json has all", of_topic.len() - TOLD));
        }
    }
    texts
}

pub(super) fn change(Change { what, old, new, .. }: &Change) -> String {
    format!("{}: {} → {}", plain(what), plain(old), Tone::Strong.ink(&plain(new)))
}

/// The tables with their titles: of few cells all, of many those that are not the same.
fn tables(comparison: &Comparison) -> Vec<(String, Vec<&Compared>)> {
    let all = &comparison.cells;
    let cases: Vec<Case> = all.iter().map(|cell| cell.case).collect();
    let shown = |cell: &&Compared| all.len() <= READABLE || cell.verdict != Verdict::Same;
    // Sizes in the order of the run, the sets of each under each other.
    let place = |cell: &&Compared| cases.iter().position(|case| *case == cell.case);
    let of_group = |group: super::cells::Group| {
        let mut cells: Vec<&Compared> = group.cases.iter().map(|at| &all[*at]).filter(shown).collect();
        cells.sort_by_cached_key(place);
        (group.title(), cells)
    };
    groups(&cases).into_iter().map(of_group).filter(|(_, cells)| !cells.is_empty()).collect()
}

fn table(cells: &[&Compared]) -> Sheet {
    let mut sheet = Sheet::new(vec![
        Column::new("size", "", Align::Right),
        Column::new("bytes", "", Align::Right).spare(2),
        Column::new("set", "", Align::Left),
        Column::new("old", "µs", Align::Point),
        Column::new("new", "µs", Align::Point),
        Column::new("ratio", "", Align::Point),
        Column::new("95%", "interval", Align::Dash).spare(1),
        Column::new("verdict", "", Align::Left),
    ]);
    let several = cells.windows(2).any(|pair| pair[0].case == pair[1].case);
    let mut last: Option<Case> = None;
    for cell in cells {
        let first = last != Some(cell.case);
        if first && several {
            sheet.blank();
        }
        last = Some(cell.case);
        let (size, bytes) = if first { (cell.case.label(), cell.size_bytes.to_string()) } else { Default::default() };
        sheet.row(vec![
            size,
            bytes,
            plain(&cell.set),
            figure(cell.old.median_us),
            figure(cell.new.median_us),
            figure(cell.ratio),
            interval(cell.ratio_interval),
            verdict(cell.verdict),
        ]);
    }
    sheet
}

/// Why verdicts are what they are, and cells that had no partner.
pub(super) fn findings(comparison: &Comparison) -> Vec<Line> {
    let mut told: Vec<(&str, Verdict, &str, Vec<&Compared>)> = Vec::new();
    for cell in &comparison.cells {
        let Some(reason) = cell.verdict_reason.as_deref() else { continue };
        let key = (cell.set.as_str(), cell.verdict, reason);
        match told.iter_mut().find(|(set, verdict, why, _)| (*set, *verdict, *why) == key) {
            Some((.., cells)) => cells.push(cell),
            None => told.push((key.0, key.1, key.2, vec![cell])),
        }
    }
    let mut lines: Vec<Line> = told
        .iter()
        .take(TOLD)
        .map(|(set, of, reason, cells)| {
            let place = at(comparison, set, &cells.iter().map(|cell| cell.case).collect::<Vec<_>>());
            Line::new("why", format!("{} {place}: {}, {}", plain(set), verdict(*of), plain(reason)))
        })
        .collect();
    if told.len() > TOLD {
        lines.push(Line::new("why", format!("and {} reasons more: --format json has all", told.len() - TOLD)));
    }
    lines.extend(alone("only old", &comparison.only_old));
    lines.extend(alone("only new", &comparison.only_new));
    lines
}

/// A line for each set and kind of case: `pcie-ll, sync, bf16 sum out-of-place: 7168x1, 7168x2`.
fn alone(label: &'static str, cells: &[Alone]) -> Vec<Line> {
    let mut lines = Vec::new();
    for of_set in cells.chunk_by(|a, b| a.set == b.set) {
        let cases: Vec<Case> = of_set.iter().map(|cell| cell.case).collect();
        for group in groups(&cases) {
            let sizes: Vec<String> = group.cases.iter().take(TOLD).map(|at| cases[*at].label()).collect();
            let more = group.cases.len().saturating_sub(TOLD);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let text = format!("{}, {}: {}{more}", plain(&of_set[0].set), group.title(), sizes.join(", "));
            lines.push(Line::new(label, text));
        }
    }
    lines
}

/// What it comes to: a sentence for each set, or how many cells are what.
pub(super) fn sentences(comparison: &Comparison) -> Vec<String> {
    let mut sets: Vec<&str> = Vec::new();
    for cell in &comparison.cells {
        if !sets.contains(&cell.set.as_str()) {
            sets.push(&cell.set);
        }
    }
    let all = comparison.cells.len();
    let mut sentences: Vec<String> = match sets.len() {
        few if few <= SENTENCES => sets.iter().map(|set| sentence(comparison, set)).collect(),
        _ => vec![format!("{} in {} sets: {}", plural(all, "cell"), sets.len(), tally(&comparison.cells))],
    };
    if all > READABLE {
        sentences.push("cells that are the same are not shown".to_owned());
    }
    sentences
}

/// `pcie-ll is slower than it was at 7168x1 (1.10 of its time), the same at 3 of 4 sizes`.
fn sentence(comparison: &Comparison, set: &str) -> String {
    let cells: Vec<&Compared> = comparison.cells.iter().filter(|cell| cell.set == set).collect();
    let mut parts = Vec::new();
    for of in [Verdict::Slower, Verdict::Faster, Verdict::Same, Verdict::Undecided, Verdict::Invalid] {
        let some: Vec<&&Compared> = cells.iter().filter(|cell| cell.verdict == of).collect();
        if some.is_empty() {
            continue;
        }
        let place = at(comparison, set, &some.iter().map(|cell| cell.case).collect::<Vec<_>>());
        let ratios = extent(&some.iter().map(|cell| cell.ratio).collect::<Vec<_>>());
        let ratios = ratios.map_or_else(String::new, |ratios| format!(" ({ratios} of its old time)"));
        parts.push(match of {
            Verdict::Slower => format!("{} than it was {place}{ratios}", Tone::Bad.ink("slower")),
            Verdict::Faster => format!("{} than it was {place}{ratios}", Tone::Good.ink("faster")),
            Verdict::Same => format!("{} as it was {place}{ratios}", Tone::Strong.ink("the same")),
            of => format!("{} {place}", verdict(of)),
        });
    }
    let joint = comparison.joint.iter().filter(|joint| joint.set == set).filter_map(joint);
    let joint: Vec<String> = if cells.len() > 1 { joint.collect() } else { Vec::new() };
    format!("{} is {}{}", plain(set), parts.join(", "), joint.concat())
}

fn joint(joint: &Together) -> Option<String> {
    let (ratio, [low, high]) = (joint.ratio?, joint.ratio_interval?);
    let (ratio, interval) = (units::significant(ratio), units::range(low, high));
    Some(format!(". All {} cases together: {ratio} ({interval}), {}", joint.mode, joint.verdict))
}

/// `at all 4 cases`, `at 3 of 4 cases`, `at 7168x1 and 7168x2`.
fn at(comparison: &Comparison, set: &str, cases: &[Case]) -> String {
    let all = comparison.cells.iter().filter(|cell| cell.set == set).count();
    let mut kinds = comparison.cells.iter().map(|cell| Case { size: cases[0].size, ..cell.case });
    let first = kinds.next();
    let one_kind = kinds.all(|kind| Some(kind) == first);
    let label = |case: &Case| if one_kind { case.label() } else { case.to_string() };
    match cases.len() {
        some if some == all && all > 1 => format!("at all {}", plural(all, if one_kind { "size" } else { "case" })),
        some if some <= 2 => format!("at {}", cases.iter().map(label).collect::<Vec<_>>().join(" and ")),
        some => format!("at {some} of {}", plural(all, if one_kind { "size" } else { "case" })),
    }
}

/// `3 slower, 997 same`.
pub(super) fn tally(cells: &[Compared]) -> String {
    let verdicts = [Verdict::Slower, Verdict::Faster, Verdict::Same, Verdict::Undecided, Verdict::Invalid];
    let count = |of: Verdict| cells.iter().filter(|cell| cell.verdict == of).count();
    let counted = verdicts.into_iter().map(|of| (of, count(of))).filter(|(_, count)| *count > 0);
    let told: Vec<String> =
        counted.map(|(of, count)| format!("{} {}", units::count(count as u64), verdict(of))).collect();
    if told.is_empty() { NONE.into() } else { told.join(", ") }
}

#[cfg(test)]
mod tests;
