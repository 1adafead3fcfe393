//! The report of a run for a terminal: head, tables, findings, conclusion.
//!
//! Env sets stand beside each other when the terminal is wide enough for all of them, else under each other.

use crate::collective::Mode;
use crate::record::run::{Cell, Run, Verdict};

use super::cells::{Group, NONE, applied, arms, figure, find, groups, interval, name, thing, verdict};
use super::conclusion::{self, SENTENCES, percent};
use super::head::Line;
use super::ink::{Style, Tone, cut_middle, paragraph};
use super::sheet::{Align, Column, Sheet};
use super::{findings, head};

/// Narrowest report. A narrower terminal breaks its lines itself.
pub(super) const LEAST: usize = 60;
/// Widest text; tables may be wider.
pub(super) const WIDEST: usize = 110;
/// Columns of a label and the blanks around it.
const LABEL: usize = 11;
/// Columns of the baseline's name in a title.
const NAME: usize = 24;

/// The report of `run`.
#[must_use]
pub fn render(run: &Run, style: Style) -> String {
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    paragraph(&mut out, "", &Tone::Strong.ink(&head::title(run)), columns);
    if let Some(alarm) = head::alarm(run) {
        paragraph(&mut out, "", &Tone::Bad.ink(&alarm), columns);
    }
    out.push('\n');
    labelled(&mut out, head::lines(run), columns);
    for group in groups(&run.header.plan.cases) {
        out.push('\n');
        out.push_str(&table(run, &group, style.width));
    }
    for mode in run.header.plan.modes() {
        out.push_str(&together(run, mode, style.width));
    }
    out.push('\n');
    labelled(&mut out, findings::lines(run), columns);
    out.push('\n');
    for sentence in conclusion::sentences(run) {
        paragraph(&mut out, "", &sentence, columns);
    }
    style.finish(&out)
}

/// Lines with a label at their left; a label is not repeated.
pub(super) fn labelled(out: &mut String, lines: Vec<Line>, columns: usize) {
    let mut last = "";
    for Line { label, lead, text } in lines {
        let shown = if label == last { "" } else { label };
        last = label;
        let lead = if lead.is_empty() { lead } else { format!("{lead}  ") };
        let first = format!("  {}{}{lead}", Tone::Quiet.ink(shown), " ".repeat(LABEL - shown.len()));
        paragraph(out, &first, &text, columns);
    }
}

/// One table with its title.
fn table(run: &Run, group: &Group, columns: usize) -> String {
    let fits = |sheet: &Sheet| sheet.width() <= columns;
    // Of very many sets not even the first row fits, and all rows need not be made to see it.
    let first_row = Group { cases: group.cases[..1].to_vec(), ..group.clone() };
    let across = fits(&across(run, &first_row)).then(|| across(run, group)).filter(fits);
    let sheet = across.unwrap_or_else(|| down(run, group).fit(columns, "set"));
    let base = cut_middle(&name(run, run.header.plan.baseline()), NAME);
    let several = arms(run).len() > 1;
    let tolerance = percent(run.header.plan.tolerance);
    let ratio = if several { format!(" · ratio to {base}, tolerance {tolerance}") } else { String::new() };
    let mut out = String::new();
    paragraph(&mut out, "", &format!("{}{ratio}", Tone::Strong.ink(&group.title())), columns);
    out.push_str(&sheet.render());
    out
}

fn median() -> Column {
    Column::new("median", "µs", Align::Point)
}

fn its_interval() -> Column {
    Column::new("95%", "interval", Align::Dash)
}

fn busbw() -> Column {
    Column::new("busbw", "GB/s", Align::Point).spare(4)
}

fn ratio() -> Column {
    Column::new("ratio", "", Align::Point)
}

fn verdicts() -> Column {
    Column::new("verdict", "", Align::Left)
}

/// A row for each size, the sets beside each other.
fn across(run: &Run, group: &Group) -> Sheet {
    let mut sheet = Sheet::new(Vec::new());
    let cases = || group.cases.iter().map(|&at| &run.header.plan.cases[at]);
    sheet.add(Column::new("size", "", Align::Right), cases().map(|case| case.label()).collect());
    sheet.add(Column::new("bytes", "", Align::Right), cases().map(|case| case.bytes().0.to_string()).collect());
    for (at, arm) in arms(run).into_iter().enumerate() {
        let cells: Vec<Option<&Cell>> = group.cases.iter().map(|&case| find(run, arm, case)).collect();
        let texts = |text: &dyn Fn(&Cell) -> String| -> Vec<String> {
            cells.iter().map(|cell| cell.map_or_else(|| NONE.into(), text)).collect()
        };
        let first = 2 + sheet_columns(run, at);
        sheet.add(median(), texts(&|cell| figure(cell.median_us)));
        sheet.add(its_interval(), texts(&|cell| interval(cell.interval_us)));
        sheet.add(busbw(), texts(&|cell| figure(cell.busbw_gbps)));
        if at > 0 {
            sheet.add(ratio(), texts(&|cell| figure(cell.ratio)));
            sheet.add(its_interval(), texts(&|cell| interval(cell.ratio_interval)));
            sheet.add(verdicts(), texts(&|cell| verdict(cell.verdict)));
        }
        if mixed(run) {
            sheet.add(Column::new("settings", "", Align::Left), texts(&|cell| applied(cell.applied)));
        }
        sheet.span(first, name(run, arm));
    }
    sheet
}

/// Columns of the first `sets` sets beside each other.
fn sheet_columns(run: &Run, sets: usize) -> usize {
    let settings = usize::from(mixed(run));
    match sets {
        0 => 0,
        sets => 3 + settings + (sets - 1) * (6 + settings),
    }
}

/// A row for each size and set.
fn down(run: &Run, group: &Group) -> Sheet {
    let compared = arms(run).len() > 1;
    let mut columns = vec![
        Column::new("size", "", Align::Right),
        Column::new("bytes", "", Align::Right).spare(3),
        Column::new("set", "", Align::Left),
        median(),
        its_interval().spare(2),
        busbw(),
    ];
    if compared {
        columns.extend([ratio(), its_interval().spare(1), verdicts()]);
    }
    if mixed(run) {
        columns.push(Column::new("settings", "", Align::Left));
    }
    let mut sheet = Sheet::new(columns);
    for &at in &group.cases {
        let case = &run.header.plan.cases[at];
        sheet.blank();
        for (i, arm) in arms(run).into_iter().enumerate() {
            let (size, bytes) = if i == 0 { (case.label(), case.bytes().0.to_string()) } else { Default::default() };
            let mut texts = vec![size, bytes, name(run, arm)];
            let cell = find(run, arm, at);
            texts.extend(cell.map_or_else(|| [NONE.into(), String::new(), NONE.into()], figures));
            if compared {
                texts.extend(cell.map_or_else(|| [NONE.into(), String::new(), NONE.into()], comparison));
            }
            if mixed(run) {
                texts.push(cell.map_or_else(|| NONE.into(), |cell| applied(cell.applied)));
            }
            sheet.row(texts);
        }
    }
    sheet
}

fn figures(cell: &Cell) -> [String; 3] {
    [figure(cell.median_us), interval(cell.interval_us), figure(cell.busbw_gbps)]
}

fn comparison(cell: &Cell) -> [String; 3] {
    let ratio = if cell.verdict == Verdict::Baseline { String::new() } else { figure(cell.ratio) };
    [ratio, interval(cell.ratio_interval), verdict(cell.verdict)]
}

/// Whether the settings of some cells took effect and those of others did not: only then cells say it one by one.
fn mixed(run: &Run) -> bool {
    run.cells.iter().any(|cell| cell.applied != run.cells[0].applied)
}

/// All sizes of a mode together, the fastest set first: for more sets than get a sentence each.
fn together(run: &Run, mode: Mode, columns: usize) -> String {
    let ranking = conclusion::ranking(run, mode);
    if ranking.len() <= SENTENCES {
        return String::new();
    }
    let each = if thing(run) == "size" { "each size" } else { "each case" };
    let mut sheet = Sheet::new(vec![
        Column::new("set", "", Align::Left),
        ratio(),
        its_interval(),
        verdicts(),
        Column::new(each, "", Align::Left).spare(1),
    ]);
    for joint in ranking {
        let cells = conclusion::of(run, joint.arm, mode);
        sheet.row(vec![
            name(run, joint.arm),
            figure(joint.ratio),
            interval(joint.ratio_interval),
            verdict(joint.verdict),
            tally(&cells),
        ]);
    }
    let title = Tone::Strong.ink(&format!("{mode}, all {}s together", thing(run)));
    format!("\n{title}\n{}", sheet.fit(columns, "set").render())
}

/// `3 faster, 1 undecided`
fn tally(cells: &[&Cell]) -> String {
    let verdicts = [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Undecided, Verdict::Invalid];
    let counted = verdicts.map(|verdict| (verdict, cells.iter().filter(|cell| cell.verdict == verdict).count()));
    let told: Vec<_> = counted.iter().filter(|(_, n)| *n > 0).map(|(verdict, n)| format!("{n} {verdict}")).collect();
    told.join(", ")
}

#[cfg(test)]
mod tests;
