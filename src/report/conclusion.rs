//! What a run comes to, in sentences: per env set and mode, and for many sets in one.

use crate::collective::Mode;
use crate::plan::schedule::Arm;
use crate::record::run::{Cell, Joint, Run, Verdict};
use crate::units;

use super::cells::{arms, at, modes, name};
use super::ink::Tone;

/// Sets beside the baseline that get a sentence each; more are summed up.
pub(super) const SENTENCES: usize = 3;

/// What the run comes to, the most important word coloured.
pub(super) fn sentences(run: &Run) -> Vec<String> {
    let candidates: Vec<Arm> = arms(run).into_iter().skip(1).collect();
    let modes = modes(run);
    if candidates.is_empty() {
        return vec![format!("only {} was measured: nothing to compare", name(run, Arm { set: 0, library: 0 }))];
    }
    let sentence = |mode: Mode| -> Vec<String> {
        if candidates.len() > SENTENCES {
            return summed_up(run, &candidates, mode);
        }
        candidates.iter().map(|&arm| one(run, arm, mode)).collect()
    };
    let mut sentences = Vec::new();
    for &mode in &modes {
        let prefix = if modes.len() > 1 { format!("{mode}: ") } else { String::new() };
        sentences.extend(sentence(mode).into_iter().map(|text| format!("{prefix}{text}")));
    }
    sentences
}

/// `pcie-ll is faster than default at all 4 sizes: 0.54–0.61 of its time`
fn one(run: &Run, arm: Arm, mode: Mode) -> String {
    let (set, base) = (name(run, arm), name(run, Arm { set: 0, library: 0 }));
    let cells = of(run, arm, mode);
    let all = cells.len();
    if all == 0 {
        return format!("{set}: {}", Tone::Bad.ink("not measured"));
    }
    let mut parts = Vec::new();
    for verdict in [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Undecided, Verdict::Invalid] {
        let (which, ratios): (Vec<usize>, Vec<Option<f64>>) =
            cells.iter().filter(|cell| cell.verdict == verdict).map(|cell| (cell.case, cell.ratio)).unzip();
        if !which.is_empty() {
            let place = at(run, &which, all);
            parts.push(part(verdict, &base, run.header.plan.tolerance, parts.is_empty(), &place, &ratios));
        }
    }
    let joint = joint(run, arm, mode).filter(|_| all > 1).map(|text| format!("; all together: {text}"));
    format!("{set} is {}{}", parts.join(", "), joint.unwrap_or_default())
}

/// One verdict of a sentence; the first one names the baseline.
fn part(verdict: Verdict, base: &str, tolerance: f64, first: bool, place: &str, ratios: &[Option<f64>]) -> String {
    let than = if first { format!(" than {base}") } else { String::new() };
    let range = extent(ratios).map(|range| if first { format!(": {range} of its time") } else { format!(" ({range})") });
    let range = range.unwrap_or_default();
    match verdict {
        Verdict::Faster => format!("{}{than} {place}{range}", Tone::Good.ink("faster")),
        Verdict::Slower => format!("{}{than} {place}{range}", Tone::Bad.ink("slower")),
        Verdict::Same => {
            let base = if first { format!(" as {base}") } else { String::new() };
            format!("the {}{base}, within {}, {place}", Tone::Strong.ink("same"), percent(tolerance))
        }
        Verdict::Undecided => format!("{} {place}", Tone::Doubt.ink("undecided")),
        Verdict::Invalid => format!("{} {place}", Tone::Bad.ink("invalid")),
        Verdict::Baseline => format!("the baseline {place}"),
    }
}

/// `0.57 (0.56–0.59), faster`: all sizes of a mode together.
fn joint(run: &Run, arm: Arm, mode: Mode) -> Option<String> {
    let joint = run.joint.iter().find(|joint| joint.arm == arm && joint.mode == mode)?;
    let interval = joint.ratio_interval.map(|[low, high]| format!(" ({})", units::range(low, high)));
    Some(format!("{}{}, {}", units::significant(joint.ratio?), interval.unwrap_or_default(), joint.verdict))
}

/// The sentences of a run with many sets: how many are what, and which is the fastest.
fn summed_up(run: &Run, candidates: &[Arm], mode: Mode) -> Vec<String> {
    let base = name(run, Arm { set: 0, library: 0 });
    let everywhere = |verdict: Verdict| {
        let holds = |&&arm: &&Arm| {
            let cells = of(run, arm, mode);
            !cells.is_empty() && cells.iter().all(|cell| cell.verdict == verdict)
        };
        candidates.iter().filter(holds).count()
    };
    let (faster, slower, same) = (everywhere(Verdict::Faster), everywhere(Verdict::Slower), everywhere(Verdict::Same));
    let mixed = candidates.len() - faster - slower - same;
    let counted = format!(
        "of {} sets, {faster} are faster than {base} everywhere, {slower} slower, {same} the same, {mixed} none of these",
        candidates.len()
    );
    match ranking(run, mode).first() {
        Some(fastest) if fastest.verdict == Verdict::Faster => {
            vec![counted, format!("fastest: {}", one(run, fastest.arm, mode))]
        }
        _ => vec![counted],
    }
}

/// The sets of a mode by their ratio over all sizes, the fastest first.
pub(super) fn ranking(run: &Run, mode: Mode) -> Vec<&Joint> {
    let mut joints: Vec<_> =
        run.joint.iter().filter(|joint| joint.mode == mode && joint.verdict != Verdict::Baseline).collect();
    joints.sort_by(|a, b| a.ratio.unwrap_or(f64::INFINITY).total_cmp(&b.ratio.unwrap_or(f64::INFINITY)));
    joints
}

/// The cells of an arm in one mode.
pub(super) fn of(run: &Run, arm: Arm, mode: Mode) -> Vec<&Cell> {
    run.cells.iter().filter(|cell| cell.arm == arm && cell.mode == mode).collect()
}

/// Smallest and largest ratio: `0.54–0.61`, or one of them when they print alike.
fn extent(ratios: &[Option<f64>]) -> Option<String> {
    let known = || ratios.iter().flatten().copied();
    let (low, high) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
    let (first, last) = (units::significant(low), units::significant(high));
    Some(if first == last { first } else { format!("{first}–{last}") })
}

/// `5%`, `2.5%`
pub(super) fn percent(fraction: f64) -> String {
    let percent = (fraction * 1e4).round() / 1e2;
    format!("{percent}%")
}
