//! `--why`: what NCCL chose under each set, and what is known of each variable.

use crate::proof::why::Chosen;
use crate::proof::{State, Used, VariableProof};
use crate::record::proofs::ArmProofs;
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
    for proofs in &run.proofs {
        for of in &proofs.variables {
            variable(&mut out, run, proofs, &of.cases, &of.what, style.width);
        }
    }
    style.finish(&out)
}

fn choices(run: &Run) -> Sheet {
    let mut sheet = Sheet::new(vec![
        Column::new("size", "", Align::Right),
        Column::new("set", "", Align::Left),
        Column::new("algorithm", "protocol", Align::Left),
        Column::new("channels", "", Align::Right),
        Column::new("threads", "", Align::Right),
        Column::new("transport", "pairs", Align::Left),
        Column::new("graph search", "channels × GB/s, path", Align::Left).spare(1),
    ]);
    for (case, mut size) in distinct(run) {
        sheet.blank();
        for proofs in &run.proofs {
            let Some(of) = proofs.chosen.iter().find(|of| of.cases.contains(&case)) else { continue };
            let Chosen { used, transports, rings } = &of.what;
            let words = |of: &dyn Fn(&Used) -> String| joined(used.iter().map(of));
            let ways = transports.iter().map(|(way, pairs)| format!("{way} {pairs}"));
            let rings = rings.iter().map(|ring| format!("{} × {}, {}", ring.channels, ring.bandwidth.0, ring.intra));
            sheet.row(vec![
                std::mem::take(&mut size),
                name(run, proofs.arm),
                words(&|used| format!("{} {}", used.algorithm, used.protocol)),
                words(&|used| used.channels.map_or("?".to_owned(), |channels| channels.most().to_string())),
                words(&|used| used.threads().map_or("?".to_owned(), |threads| threads.to_string())),
                joined(ways),
                joined(rings),
            ]);
        }
    }
    sheet
}

/// The cases to show: one for each size whose choices are the same in all modes, else one for each mode, which is named.
fn distinct(run: &Run) -> Vec<(usize, String)> {
    let all = 0..run.header.plan.cases.len();
    let chosen = |case: usize| {
        let of_arm = |proofs: &ArmProofs| proofs.chosen.iter().position(|of| of.cases.contains(&case));
        run.proofs.iter().map(of_arm).collect::<Vec<_>>()
    };
    let kin = |case: usize| all.clone().filter(move |other| label(run, *other) == label(run, case));
    let alike = |case: usize| kin(case).all(|other| chosen(other) == chosen(case));
    let shown = all.clone().filter(|case| !alike(*case) || kin(*case).next() == Some(*case));
    let named = |case: usize| {
        let mode = if alike(case) { String::new() } else { format!(" {}", run.header.plan.cases[case].mode) };
        (case, label(run, case) + &mode)
    };
    shown.map(named).collect()
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

fn variable(out: &mut String, run: &Run, proofs: &ArmProofs, cases: &[usize], proof: &VariableProof, columns: usize) {
    let state = match proof.state {
        State::Applied => Tone::Good,
        State::NoEffectHere => Tone::Quiet,
        State::Unverified => Tone::Doubt,
        State::Partly | State::Overridden | State::NotApplied => Tone::Bad,
    };
    let place = at(run, cases, run.header.plan.cases.len());
    let why = proof.why.as_deref().map(|why| format!(": {}", plain(why))).unwrap_or_default();
    let head = format!("{} {}={} {place}: ", name(run, proofs.arm), proof.name, plain(&proof.value));
    paragraph(out, "  ", &format!("{head}{}{why}", state.ink(&proof.state.to_string())), columns);
    for evidence in &proof.evidence {
        paragraph(out, "      ", &Tone::Quiet.ink(&plain(evidence)), columns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::environment::Origin;
    use crate::plan::schedule::Arm;
    use crate::record::fixture;
    use crate::record::proofs::OfCases;

    #[test]
    fn choices_stand_by_size_and_variables_with_their_evidence() {
        let mut run = fixture::two_sets();
        let all: Vec<usize> = (0..run.header.plan.cases.len()).collect();
        let proof = VariableProof {
            name: "NCCL_BUFFSIZE".into(),
            value: "16777216".into(),
            origin: Origin::Set,
            common: false,
            state: State::NoEffectHere,
            why: Some("it acts on Simple only".into()),
            lacking: Vec::new(),
            evidence: vec!["asked: NCCL_BUFFSIZE=16777216 by the set".into()],
        };
        let chosen = Chosen { used: Vec::new(), transports: vec![("SHM/direct".into(), 8)], rings: Vec::new() };
        run.proofs = vec![ArmProofs {
            arm: Arm { set: 1, ..Arm::default() },
            set: "pcie-ll".into(),
            identical_to_baseline: false,
            difference: None,
            variables: vec![OfCases { cases: all.clone(), what: proof }],
            chosen: vec![OfCases { cases: all, what: chosen }],
        }];
        let shown = render(&run, Style::default());
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for told in ["SHM/direct 8", "no effect here: it acts on Simple only", "asked: NCCL_BUFFSIZE=16777216"] {
            assert!(words.contains(told), "{told} is not in {shown}");
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    }
}
