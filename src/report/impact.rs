//! What the cells of a run are worth to a decode step: a table under the report.

use super::Style;
use super::cells::{arms, find, in_mode, name};
use super::ink::{Tone, paragraph};
use super::sheet::{Align, Column, Sheet};
use super::table::{LEAST, WIDEST};
use crate::collective::Mode;
use crate::impact::{Figure, Step, Worth, mean};
use crate::plan::schedule::Arm;
use crate::record::run::{Cell, Run, Verdict};
use crate::units;

/// The impact of `run`'s cells on `step`.
#[must_use]
pub fn render(run: &Run, step: &Step, style: Style) -> String {
    let style = Style { width: style.width.max(LEAST), ..style };
    let columns = style.width.min(WIDEST);
    let mut out = String::new();
    paragraph(&mut out, "", &title(run, step), columns);
    let cases: Vec<usize> = (0..run.header.plan.cases.len()).filter(|case| step.has(elements(run, *case))).collect();
    if !step.mix.is_empty() {
        out.push_str(&of_mix(run, step).fit(style.width, "set").render());
        return style.finish(&out);
    }
    if cases.is_empty() {
        let hidden = step.model.map_or(0, |model| model.hidden);
        paragraph(
            &mut out,
            "",
            &format!("no size of this run is a whole number of tokens of {hidden} elements"),
            columns,
        );
        return style.finish(&out);
    }
    out.push_str(&table(run, step, &cases).fit(style.width, "set").render());
    let explanations: Vec<String> =
        too_long(run, step, &cases).into_iter().chain(explanations(run, step, &cases)).collect();
    if !explanations.is_empty() {
        out.push('\n');
    }
    for sentence in explanations {
        paragraph(&mut out, "", &sentence, columns);
    }
    style.finish(&out)
}

fn elements(run: &Run, case: usize) -> u64 {
    run.header.plan.cases[case].size.elements
}

/// `per decode step · 122 all-reduces (kimi-k2.5: 61 layers × 2) · 29.5 ms under default`.
fn title(run: &Run, step: &Step) -> String {
    let model = match step.model {
        Some(model) if model.all_reduces() == step.all_reduces => {
            format!(" ({}: {} layers × 2)", model.name, model.layers)
        }
        Some(model) => format!(" ({})", model.name),
        None => String::new(),
    };
    let base = name(run, run.header.plan.baseline());
    let time = step.time_ms.map_or_else(String::new, |time| format!(" · {} ms under {base}", units::significant(time)));
    let became = step.became_ms.map_or_else(String::new, |time| format!(", became {} ms", units::significant(time)));
    let (what, of) = match step.mix.is_empty() {
        true => ("per decode step", "all-reduces"),
        false if is_count(step) => ("what the audit counted", "all-reduces of a rank"),
        false => ("per decode step", "all-reduces in the proportions of the audit"),
    };
    format!("{} · {} {of}{model}{time}{became}", Tone::Strong.ink(what), units::count(step.all_reduces.into()))
}

/// Whether the step is all that an audit counted.
fn is_count(step: &Step) -> bool {
    !step.mix.is_empty() && step.mix.iter().map(|weight| weight.calls).sum::<u64>() == u64::from(step.all_reduces)
}

fn table(run: &Run, step: &Step, cases: &[usize]) -> Sheet {
    let mut sheet = sheet(step);
    for &case in cases {
        sheet.blank();
        let size = run.header.plan.cases[case].label() + &in_mode(run, run.header.plan.cases[case].mode);
        for (at, arm) in arms(run).into_iter().enumerate() {
            let size = if at == 0 { size.clone() } else { String::new() };
            sheet.row(row(run, step, arm, &Measured::of(run, (arm, case)), size));
        }
    }
    sheet
}

/// All sizes of an audit together, for each mode.
fn of_mix(run: &Run, step: &Step) -> Sheet {
    let mut sheet = sheet(step);
    for mode in run.header.plan.modes() {
        sheet.blank();
        for (at, arm) in arms(run).into_iter().enumerate() {
            let size = if at == 0 { "together".to_owned() + &in_mode(run, mode) } else { String::new() };
            sheet.row(row(run, step, arm, &Measured::together(run, step, (arm, mode)), size));
        }
    }
    sheet
}

fn sheet(step: &Step) -> Sheet {
    let mut columns = vec![
        Column::new("size", "", Align::Right),
        Column::new("set", "", Align::Left),
        Column::new("ms", if is_count(step) { "in all" } else { "a step" }, Align::Point),
        Column::new("95%", "interval", Align::Dash).spare(1),
    ];
    if step.time_ms.is_some() {
        columns.push(Column::new("share of", "the step", Align::Dash));
    }
    columns.push(Column::new("saves", "ms", Align::Dash));
    if step.time_ms.is_some() {
        columns.push(Column::new("tokens/s", "", Align::Dash));
    }
    if step.gap_ms().is_some() {
        columns.push(Column::new("explains", "", Align::Dash));
    }
    Sheet::new(columns)
}

/// What was measured of an arm: its time, and against the baseline.
#[derive(Default)]
struct Measured {
    time: Option<Figure>,
    /// The baseline's time, and the ratio to it.
    against: Option<(Figure, Figure)>,
}

impl Measured {
    fn of(run: &Run, (arm, case): (Arm, usize)) -> Self {
        let cell = find(run, arm, case).filter(|cell| cell.verdict != Verdict::Invalid);
        Self { time: cell.and_then(time), against: cell.and_then(|cell| against(run, cell)) }
    }

    /// The mean over the sizes of a mix; nothing when one of them was not measured.
    fn together(run: &Run, step: &Step, (arm, mode): (Arm, Mode)) -> Self {
        let (mut times, mut bases, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for weight in &step.mix {
            let is_case = |case: &crate::collective::Case| {
                (case.mode, case.dtype, case.size.elements) == (mode, weight.dtype, weight.elements)
            };
            let Some(case) = run.header.plan.cases.iter().position(is_case) else { continue };
            let measured = Self::of(run, (arm, case));
            let Some(time) = measured.time else { return Self::default() };
            let calls = weight.calls as f64;
            times.push((time, calls));
            if let Some((base, ratio)) = measured.against {
                bases.push((base, calls));
                // A ratio counts by the baseline's time in it.
                ratios.push((ratio, calls * base.value));
            }
        }
        let whole = ratios.len() == times.len();
        Self { time: mean(&times), against: mean(&bases).zip(mean(&ratios)).filter(|_| whole) }
    }
}

fn row(run: &Run, step: &Step, arm: Arm, measured: &Measured, size: String) -> Vec<String> {
    let none = || "-".to_owned();
    let cost = measured.time.map(|time| step.cost(time));
    let worth = measured.against.map(|(baseline, ratio)| step.worth(baseline, ratio));
    let ms = cost.map(|cost| cost.ms);
    let mut texts = vec![size, name(run, arm), ms.map_or_else(none, |ms| units::significant(ms.value))];
    texts.push(ms.and_then(|ms| ms.interval).map_or_else(String::new, |[low, high]| units::range(low, high)));
    let shown = |figure: Option<Figure>, text: fn(Figure) -> String| figure.map_or_else(String::new, text);
    if step.time_ms.is_some() {
        texts.push(shown(cost.and_then(|cost| cost.share), share));
    }
    texts.push(shown(worth.map(|worth| worth.saved_ms), |saved| range(saved, units::significant)));
    if step.time_ms.is_some() {
        texts.push(shown(worth.and_then(|worth| worth.tokens_per_s), change));
    }
    if step.gap_ms().is_some() {
        texts.push(shown(worth.and_then(|worth| worth.explained), share));
    }
    texts
}

fn time(cell: &Cell) -> Option<Figure> {
    Some(Figure { value: cell.median_us?, interval: cell.interval_us })
}

/// The baseline's time, and the cell's ratio to it.
fn against(run: &Run, cell: &Cell) -> Option<(Figure, Figure)> {
    let baseline = find(run, run.header.plan.baseline(), cell.case).and_then(time)?;
    Some((baseline, Figure { value: cell.ratio?, interval: cell.ratio_interval }))
}

/// What the cell is worth against the baseline's.
fn worth(run: &Run, step: &Step, cell: &Cell) -> Option<Worth> {
    against(run, cell).map(|(baseline, ratio)| step.worth(baseline, ratio))
}

/// Both ends of a figure, each by `text`, or the figure alone where it has none or both read alike.
fn range(figure: Figure, text: fn(f64) -> String) -> String {
    match figure.interval.map(|ends| ends.map(text)) {
        Some([low, high]) if low != high => format!("{low}–{high}"),
        Some([one, _]) => one,
        None => text(figure.value),
    }
}

/// `22–25%`
fn share(figure: Figure) -> String {
    range(figure, |share| format!("{:.0}", share * 100.0)) + "%"
}

/// `+2.76–3.12`, `−0.20–+0.31`
fn change(figure: Figure) -> String {
    let sign = |value: f64| if value < 0.0 { "−" } else { "+" };
    let text = |value: f64| format!("{}{}", sign(value), units::significant(value.abs()));
    match figure.interval {
        Some([low, high]) if low >= 0.0 => format!("+{}", units::range(low, high)),
        Some([low, high]) => format!("{}–{}", text(low), text(high)),
        None => text(figure.value),
    }
}

/// Where the all-reduces of the baseline alone take longer than the step that they are part of, one of the figures is not what it is taken for.
fn too_long(run: &Run, step: &Step, cases: &[usize]) -> Option<String> {
    let baseline = run.header.plan.baseline();
    let is_part = |case: &usize| {
        let share = Measured::of(run, (baseline, *case)).time.and_then(|time| step.cost(time).share);
        share.is_none_or(|share| share.value <= 1.0)
    };
    let all = !cases.iter().any(is_part);
    all.then(|| {
        format!(
            "all-reduces alone take longer than a step of {} ms: look at --step-time, which is in milliseconds, and at the number of \
             all-reduces",
            units::significant(step.time_ms.unwrap_or_default())
        )
    })
}

/// Of each set beside the baseline, at the size where it saves most: which part of the observed change it explains.
fn explanations(run: &Run, step: &Step, cases: &[usize]) -> Vec<String> {
    let (Some(gap), Some(needed)) = (step.gap_ms(), step.needed_us()) else { return Vec::new() };
    let of_arm = |arm: Arm| {
        let worths = cases.iter().filter_map(|case| {
            let cell = find(run, arm, *case).filter(|cell| cell.verdict != Verdict::Invalid)?;
            Some((*case, worth(run, step, cell)?))
        });
        let (case, most) = worths.max_by(|(_, a), (_, b)| a.saved_ms.value.total_cmp(&b.saved_ms.value))?;
        let case = &run.header.plan.cases[case];
        let explained = share(most.explained?);
        let gap = units::significant(gap);
        Some(format!(
            "at {} {}, {} saves {} ms of the {gap} ms by which the step became faster: all-reduces explain {explained} of it",
            case.label(),
            case.mode,
            name(run, arm),
            range(most.saved_ms, units::significant),
        ))
    };
    let mut sentences: Vec<String> = arms(run).into_iter().skip(1).filter_map(of_arm).collect();
    sentences.push(format!(
        "to explain all of it, every all-reduce would have to save {} µs. What is left has other causes, or comes from \
         all-reduces that are slower in the server than here: ranks that arrive late, other transports, eager launches",
        units::significant(needed)
    ));
    sentences
}

#[cfg(test)]
mod tests;
