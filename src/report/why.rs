//! `--why`: what NCCL chose under each set, and what is known of each variable.

use std::collections::HashMap;

use indexmap::IndexMap;

use crate::plan::schedule::Arm;
use crate::proof::why::Chosen;
use crate::proof::{State, Used, VariableProof};
use crate::record::proofs::{ArmProofs, OfCases};
use crate::record::run::Run;

use super::cells::{at, label, name};
use super::ink::{Style, Tone, paragraph, plain};
use super::sheet::{Align, Column, Sheet};

/// The choices of every size and the state of every variable, in words.
#[must_use]
pub fn render(run: &Run, style: Style) -> String {
    let mut out = String::new();
    paragraph(&mut out, "", &Tone::Strong.ink("what NCCL chose"), style.width);
    out.push_str(&choices(run).fit(style.width, "set").render());
    out.push('\n');
    paragraph(&mut out, "", &Tone::Strong.ink("what is known of each variable"), style.width);
    for (arms, of) in variables(run) {
        variable(&mut out, run, &arms, of, style.width);
    }
    style.finish(&out)
}

/// Heads of what NCCL chose, each with its second line.
pub(super) const HEADS: [(&str, &str); 7] = [
    ("size", ""),
    ("set", ""),
    ("algorithm", "protocol"),
    ("channels", ""),
    ("threads", ""),
    ("transport", "pairs"),
    ("graph search", "channels × GB/s, path"),
];

fn choices(run: &Run) -> Sheet {
    const ALIGNS: [Align; 7] =
        [Align::Right, Align::Left, Align::Left, Align::Right, Align::Right, Align::Left, Align::Left];
    let columns = HEADS.iter().zip(ALIGNS).map(|((head, unit), align)| Column::new(head, unit, align));
    let mut columns: Vec<Column> = columns.collect();
    columns[6].spare = 1;
    let mut sheet = Sheet::new(columns);
    let arms: Vec<Arm> = run.proofs.iter().map(|proofs| proofs.arm).collect();
    let cases: Vec<usize> = (0..run.header.plan.cases.len()).collect();
    let mut last = String::new();
    for mut row in rows(run, &arms, &cases, usize::MAX) {
        if row[0] == last {
            row[0].clear();
        } else {
            sheet.blank();
            last.clone_from(&row[0]);
        }
        sheet.row(row.into());
    }
    sheet
}

/// What NCCL chose for these arms and cases, `most` rows at most: size by size, under [`HEADS`].
pub(super) fn rows(run: &Run, arms: &[Arm], cases: &[usize], most: usize) -> Vec<[String; 7]> {
    let proofs: Vec<&ArmProofs> = run.proofs.iter().filter(|proofs| arms.contains(&proofs.arm)).collect();
    let mut rows = Vec::new();
    for (case, size) in distinct(run, cases) {
        for proofs in &proofs {
            let Some(of) = proofs.chosen.iter().find(|of| of.cases.contains(&case)) else { continue };
            if rows.len() == most {
                return rows;
            }
            rows.push(row(size.clone(), name(run, proofs.arm), &of.what));
        }
    }
    rows
}

fn row(size: String, set: String, Chosen { used, transports, rings }: &Chosen) -> [String; 7] {
    let words = |of: &dyn Fn(&Used) -> String| joined(used.iter().map(of));
    let ways = transports.iter().map(|(way, pairs)| format!("{way} {pairs}"));
    let rings = rings.iter().map(|ring| format!("{} × {}, {}", ring.channels, ring.bandwidth.0, ring.intra));
    [
        size,
        set,
        words(&Used::choice),
        words(&|used| used.channels.map_or("?".to_owned(), |channels| channels.most().to_string())),
        words(&|used| used.threads().map_or("?".to_owned(), |threads| threads.to_string())),
        joined(ways),
        joined(rings),
    ]
}

/// Of these cases those to show: one for each size whose choices are the same in all modes, else one for each mode, which is
/// named.
fn distinct(run: &Run, cases: &[usize]) -> Vec<(usize, String)> {
    let mut by_case: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    for (arm, proofs) in run.proofs.iter().enumerate() {
        for (at, of) in proofs.chosen.iter().enumerate() {
            of.cases.iter().for_each(|case| by_case.entry(*case).or_default().push((arm, at)));
        }
    }
    let mut kin: IndexMap<String, Vec<usize>> = IndexMap::new();
    cases.iter().for_each(|case| kin.entry(label(run, *case)).or_default().push(*case));
    let mut shown: Vec<(usize, String)> = Vec::new();
    for (label, cases) in kin {
        if cases.iter().all(|case| by_case.get(case) == by_case.get(&cases[0])) {
            shown.push((cases[0], label));
        } else {
            let named = |case: &usize| (*case, format!("{label} {}", run.header.plan.cases[*case].mode));
            shown.extend(cases.iter().map(named));
        }
    }
    shown.sort_by_key(|(case, _)| *case);
    shown
}

/// What differs between ranks or visits, each once; `?` for what is not known.
fn joined(words: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    if all.is_empty() { "?".to_owned() } else { all.join(", ") }
}

/// What is known of each variable, once for all arms of which the same is known: the base lies under every set.
fn variables(run: &Run) -> Vec<(Vec<Arm>, &OfCases<VariableProof>)> {
    let mut all: Vec<(Vec<Arm>, &OfCases<VariableProof>)> = Vec::new();
    for proofs in &run.proofs {
        for of in &proofs.variables {
            match all.iter_mut().find(|(_, known)| *known == of) {
                Some((arms, _)) => arms.push(proofs.arm),
                None => all.push((vec![proofs.arm], of)),
            }
        }
    }
    all
}

fn variable(out: &mut String, run: &Run, arms: &[Arm], of: &OfCases<VariableProof>, columns: usize) {
    let (cases, proof) = (&of.cases, &of.what);
    let state = match proof.state {
        State::Applied => Tone::Good,
        State::NoEffectHere => Tone::Quiet,
        State::Unverified => Tone::Doubt,
        State::Partly | State::DiffersByRank | State::Overridden | State::NotApplied => Tone::Bad,
    };
    let place = at(run, cases, run.header.plan.cases.len());
    let why = proof.why.as_deref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
    let who = match arms.len() {
        number if number == run.proofs.len() && number > 1 => "all sets:".to_owned(),
        _ => arms.iter().map(|arm| name(run, *arm)).collect::<Vec<_>>().join(", "),
    };
    let head = format!("{who} {}={} {place}: ", proof.name, plain(&proof.value));
    paragraph(out, "  ", &format!("{head}{}{why}", state.ink(&proof.state.to_string())), columns);
    for evidence in &proof.evidence {
        paragraph(out, "      ", &Tone::Quiet.ink(&plain(evidence)), columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::environment::Origin;
    use crate::record::fixture;

    fn proof(name: &str, value: &str, state: State, why: Option<&str>) -> VariableProof {
        VariableProof {
            name: name.into(),
            value: value.into(),
            origin: Origin::Set,
            common: false,
            state,
            why: why.map(str::to_owned),
            lacking: Vec::new(),
            evidence: vec![format!("asked: {name}={value} by the set")],
        }
    }

    fn of_arm(set: usize, variables: Vec<VariableProof>, cases: &[usize]) -> ArmProofs {
        let chosen = Chosen { used: Vec::new(), transports: vec![("SHM/direct".into(), 8)], rings: Vec::new() };
        ArmProofs {
            arm: Arm { set, ..Arm::default() },
            set: ["default", "pcie-ll"][set].into(),
            identical_to_baseline: false,
            difference: None,
            variables: variables.into_iter().map(|what| OfCases { cases: cases.to_vec(), what }).collect(),
            chosen: vec![OfCases { cases: cases.to_vec(), what: chosen }],
        }
    }

    #[test]
    fn choices_stand_by_size_and_variables_with_their_evidence() {
        let mut run = fixture::two_sets();
        let all: Vec<usize> = (0..run.header.plan.cases.len()).collect();
        let proof = proof("NCCL_BUFFSIZE", "16777216", State::NoEffectHere, Some("it acts on Simple only"));
        run.proofs = vec![of_arm(1, vec![proof], &all)];
        let shown = render(&run, Style::default());
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for told in ["SHM/direct 8", "no effect here: it acts on Simple only", "asked: NCCL_BUFFSIZE=16777216"] {
            assert!(words.contains(told), "{told} is not in {shown}");
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    }

    #[test]
    fn what_is_known_of_a_variable_under_every_set_is_told_once() {
        let mut run = fixture::two_sets();
        let all: Vec<usize> = (0..run.header.plan.cases.len()).collect();
        let base = proof("NCCL_P2P_DISABLE", "1", State::Applied, None);
        let own = proof("NCCL_PROTO", "LL", State::Applied, None);
        run.proofs = vec![of_arm(0, vec![base.clone()], &all), of_arm(1, vec![base, own], &all)];
        let shown = render(&run, Style::default());
        assert_eq!(shown.matches("NCCL_P2P_DISABLE=1 at").count(), 1, "{shown}");
        assert!(shown.contains("all sets: NCCL_P2P_DISABLE=1 at"), "{shown}");
        assert!(shown.contains("pcie-ll NCCL_PROTO=LL at"), "{shown}");
    }
}
