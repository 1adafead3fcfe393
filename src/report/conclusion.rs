//! What a run comes to, in sentences: per env set and mode, and for many sets in one.

use std::collections::BTreeMap;

use crate::collective::Mode;
use crate::plan::schedule::Arm;
use crate::record::run::{Cell, Joint, Run, Verdict};
use crate::record::visit::Outcome;
use crate::units;

use super::cells::{arms, at, in_mode, label, name, thing};
use super::ink::Tone;

/// Sets beside the baseline that get a sentence each; more are summed up.
pub(super) const SENTENCES: usize = 3;

/// What the run comes to, the most important word coloured.
pub(super) fn sentences(run: &Run) -> Vec<String> {
    if run.header.plan.soak_s.is_some() {
        return vec![soak(run)];
    }
    let candidates: Vec<Arm> = arms(run).into_iter().skip(1).collect();
    let modes = run.header.plan.modes();
    if candidates.is_empty() {
        return vec![format!("only {} was measured: nothing to compare", name(run, run.header.plan.baseline()))];
    }
    let sentence = |mode: Mode| -> Vec<String> {
        if candidates.len() > SENTENCES {
            return summed_up(run, &candidates, mode);
        }
        let verb = if run.header.plan.varies_launch_alone() { "are" } else { "is" };
        candidates.iter().map(|&arm| format!("{} {verb} {}", name(run, arm), one(run, arm, mode))).collect()
    };
    let mut sentences = Vec::new();
    for &mode in &modes {
        let prefix = if modes.len() > 1 { format!("{mode}: ") } else { String::new() };
        sentences.extend(sentence(mode).into_iter().map(|text| format!("{prefix}{text}")));
    }
    sentences
}

/// What a soak comes to.
fn soak(run: &Run) -> String {
    let seconds = run.visits.iter().map(|visit| visit.seconds).sum::<f64>();
    let sum = |of: fn(&Cell) -> u64| run.cells.iter().map(of).sum::<u64>();
    let (checked, wrong) = (sum(|cell| cell.checked_outputs), sum(|cell| cell.wrong_outputs));
    let outputs = format!("{} outputs in {} of visits", units::count(checked), units::duration(seconds));
    let unfinished =
        run.visits.iter().filter(|visit| !matches!(visit.outcome, Outcome::Completed | Outcome::WrongData));
    let unfinished = match unfinished.count() {
        0 => String::new(),
        number => Tone::Bad.ink(&format!("; {} did not end well", units::plural(number, "visit"))),
    };
    match wrong {
        0 if checked == 0 => format!("{}{unfinished}", Tone::Bad.ink("nothing was checked")),
        0 => format!("{}: {outputs}{unfinished}", Tone::Good.ink("no wrong data")),
        wrong => format!("{}: {} of {outputs}{unfinished}", Tone::Bad.ink("wrong data"), units::count(wrong)),
    }
}

/// What the run comes to over all modes and sizes, in one sentence.
pub(super) fn headline(run: &Run) -> String {
    let mut by_arm: BTreeMap<Arm, Vec<&Cell>> = BTreeMap::new();
    run.cells.iter().for_each(|cell| by_arm.entry(cell.arm).or_default().push(cell));
    let candidates: Vec<Arm> = arms(run).into_iter().skip(1).collect();
    let cells = |arm: &Arm| by_arm.get(arm).map_or(&[][..], Vec::as_slice);
    if candidates.is_empty() || run.header.plan.soak_s.is_some() {
        return sentences(run).concat();
    }
    if candidates.len() <= SENTENCES {
        let told = candidates.iter().map(|arm| format!("{} is {}", name(run, *arm), verdicts(run, cells(arm))));
        return told.collect::<Vec<_>>().join("; ");
    }
    let faster = |arm: &&Arm| !cells(arm).is_empty() && cells(arm).iter().all(|cell| cell.verdict == Verdict::Faster);
    let base = name(run, run.header.plan.baseline());
    let all = units::plural(candidates.len(), "set");
    let counted = match candidates.iter().filter(faster).count() {
        0 => format!("none of {all} is faster than {base} everywhere"),
        1 => format!("1 of {all} is faster than {base} everywhere"),
        some => format!("{some} of {all} are faster than {base} everywhere"),
    };
    let first = run.header.plan.modes().first().and_then(|mode| ranking(run, *mode).first().copied());
    match first.filter(|first| first.ratio.is_some()) {
        Some(first) => {
            let (place, set) = (in_mode(run, first.mode), name(run, first.arm));
            format!("{counted}; the quickest{place}, {set}, is {}", verdicts(run, cells(&first.arm)))
        }
        None => counted,
    }
}

/// `faster than default at all 4 sizes: 0.54–0.61 of its time`: what a set is in one mode.
fn one(run: &Run, arm: Arm, mode: Mode) -> String {
    let cells = of(run, arm, mode);
    let joint = joint(run, arm, mode).filter(|_| cells.len() > 1).map(|text| format!(". All sizes together: {text}"));
    verdicts(run, &cells) + &joint.unwrap_or_default()
}

/// What these cells of a set are.
fn verdicts(run: &Run, cells: &[&Cell]) -> String {
    let base = name(run, run.header.plan.baseline());
    let all = cells.len();
    if all == 0 {
        return Tone::Bad.ink("not measured");
    }
    let across = cells.iter().any(|cell| cell.mode != cells[0].mode);
    let at = |which: &[usize]| if across { at_cases(run, which, all) } else { at(run, which, all) };
    let mut told: Vec<(Verdict, String, Option<String>)> = Vec::new();
    for verdict in [Verdict::Faster, Verdict::Slower, Verdict::Same, Verdict::Undecided, Verdict::Invalid] {
        let of_verdict = cells.iter().filter(|cell| cell.verdict == verdict && !is_lost(cell));
        let (which, ratios): (Vec<usize>, Vec<Option<f64>>) = of_verdict.map(|cell| (cell.case, cell.ratio)).unzip();
        if !which.is_empty() {
            told.push((verdict, at(&which), extent(&ratios)));
        }
    }
    let lost: Vec<usize> = cells.iter().filter(|cell| is_lost(cell)).map(|cell| cell.case).collect();
    let whose = if run.header.plan.varies_launch_alone() { "their" } else { "its" };
    let alone = told.len() == 1 && lost.is_empty();
    let mut parts: Vec<_> = told.iter().enumerate().map(|(i, part)| phrase(part, &base, i == 0, alone)).collect();
    if !lost.is_empty() {
        let place = at(&lost);
        parts.push(format!("{} {place}: {whose} settings are not in effect", Tone::Doubt.ink("undecided")));
    }
    parts.join(", ").replace("of its time", &format!("of {whose} time"))
}

/// Whether a verdict is missing for the settings alone.
fn is_lost(cell: &Cell) -> bool {
    cell.verdict == Verdict::Undecided && cell.applied.is_lost()
}

/// `at all 12 cases`, `at 7168x1 in sync mode`: where something holds, of `all` cases of several modes.
fn at_cases(run: &Run, which: &[usize], all: usize) -> String {
    match which {
        [one] => format!("at {}{}", label(run, *one), in_mode(run, run.header.plan.cases[*one].mode)),
        some if some.len() == all => format!("at all {}", units::plural(all, "case")),
        some => format!("at {} of {}", some.len(), units::plural(all, "case")),
    }
}

/// What holds where, of one verdict; the first one names the baseline, and one alone ends with its ratios.
fn phrase(
    (verdict, place, ratios): &(Verdict, String, Option<String>),
    base: &str,
    first: bool,
    alone: bool,
) -> String {
    let base = |word: &str| if first { format!(" {word} {base}") } else { String::new() };
    let ratios = match ratios {
        Some(ratios) if alone => format!(": {ratios} of its time"),
        Some(ratios) if first => format!(" ({ratios} of its time)"),
        Some(ratios) => format!(" ({ratios})"),
        None => String::new(),
    };
    match verdict {
        Verdict::Faster => format!("{}{} {place}{ratios}", Tone::Good.ink("faster"), base("than")),
        Verdict::Slower => format!("{}{} {place}{ratios}", Tone::Bad.ink("slower"), base("than")),
        Verdict::Same => format!("{}{} {place}{ratios}", Tone::Strong.ink("the same"), base("as")),
        Verdict::Undecided => format!("{} {place}{ratios}", Tone::Doubt.ink("undecided")),
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
    let base = name(run, run.header.plan.baseline());
    let everywhere = |verdict: Verdict| {
        let holds = |&&arm: &&Arm| {
            let cells = of(run, arm, mode);
            !cells.is_empty() && cells.iter().all(|cell| cell.verdict == verdict)
        };
        candidates.iter().filter(holds).count()
    };
    let (faster, slower, same) = (everywhere(Verdict::Faster), everywhere(Verdict::Slower), everywhere(Verdict::Same));
    let others = candidates.len() - faster - slower - same;
    let counts = [(slower, "slower"), (same, "the same"), (others, "not decided or mixed")];
    let mut counted = format!("{faster} of {} sets are faster than {base} at every {}", candidates.len(), thing(run));
    for (number, word) in counts.into_iter().filter(|(number, _)| *number > 0) {
        counted.push_str(&format!(", {number} {word}"));
    }
    let fastest = ranking(run, mode).into_iter().find(|joint| joint.verdict == Verdict::Faster);
    let mut sentences = vec![counted];
    sentences.extend(
        fastest.map(|fastest| format!("the fastest is {}, {}", name(run, fastest.arm), one(run, fastest.arm, mode))),
    );
    sentences
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
pub(super) fn extent(ratios: &[Option<f64>]) -> Option<String> {
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
