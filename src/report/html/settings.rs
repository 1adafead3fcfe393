//! The proof: what each env set asked for, whether NCCL used it, and what NCCL chose.

use maud::{Markup, html};

use super::page::{set_name, toned};
use super::shown::Shown;
use crate::proof::{State, VariableProof};
use crate::record::proofs::{ArmProofs, OfCases};
use crate::record::run::Run;
use crate::report::cells::{at, name};
use crate::report::ink::{Tone, plain};
use crate::report::why;

/// Variables of all sets together that are shown with their evidence.
const VARIABLES: usize = 80;
/// Rows of what NCCL chose.
const CHOICES: usize = 120;

/// What NCCL chose, and what is known of each variable.
pub(super) fn section(shown: &Shown) -> Markup {
    let of: Vec<&ArmProofs> = shown.run.proofs.iter().filter(|proofs| shown.arms.contains(&proofs.arm)).collect();
    let all: usize = of.iter().map(|proofs| proofs.variables.len()).sum();
    let mut left = VARIABLES;
    let shared: Vec<(&ArmProofs, &[OfCases<_>])> = of
        .iter()
        .map(|proofs| {
            let some = proofs.variables.len().min(left);
            left -= some;
            (*proofs, &proofs.variables[..some])
        })
        .collect();
    html! {
        @if of.is_empty() { p.note { "No visit completed that could have proved anything." } }
        @for (proofs, variables) in shared {
            details open[proofs.variables.iter().any(|of| is_bad(of.what.state))] {
                summary { (set_name(colour(shown, proofs), &name(shown.run, proofs.arm))) " " (tally(proofs)) }
                @if proofs.identical_to_baseline {
                    p.doubt { "NCCL does exactly what it does by default, on all ranks and sizes." }
                }
                @if let Some(difference) = &proofs.difference { p { "Against the baseline: " (plain(difference)) } }
                @for of in variables { (variable(shown.run, &of.cases, &of.what)) }
            }
        }
        @if all > VARIABLES {
            p.note { (all - VARIABLES) " variables more are left out; " code { "ncclsweep report --why" } " tells all of them." }
        }
        (choices(shown))
    }
}

fn is_bad(state: State) -> bool {
    state.is_lost()
}

fn colour(shown: &Shown, proofs: &ArmProofs) -> Option<usize> {
    shown.plotted.iter().position(|arm| *arm == proofs.arm)
}

/// `5 applied, 1 no effect here`
fn tally(proofs: &ArmProofs) -> Markup {
    let states = [
        State::Applied,
        State::NoEffectHere,
        State::Unverified,
        State::Partly,
        State::DiffersByRank,
        State::Overridden,
        State::NotApplied,
    ];
    let count = |state: State| proofs.variables.iter().filter(|of| of.what.state == state).count();
    let told: Vec<String> = states
        .into_iter()
        .filter(|state| count(*state) > 0)
        .map(|state| tone(state).map_or_else(|| said(state, count), |tone| tone.ink(&said(state, count))))
        .collect();
    html! { span.note { @if told.is_empty() { "sets nothing" } @else { (toned(&told.join(", "))) } } }
}

fn said(state: State, count: impl Fn(State) -> usize) -> String {
    format!("{} {state}", count(state))
}

fn tone(state: State) -> Option<Tone> {
    match state {
        State::Applied => Some(Tone::Good),
        State::NoEffectHere => None,
        State::Unverified => Some(Tone::Doubt),
        State::Partly | State::DiffersByRank | State::Overridden | State::NotApplied => Some(Tone::Bad),
    }
}

fn variable(run: &Run, cases: &[usize], proof: &VariableProof) -> Markup {
    let state = tone(proof.state).map_or_else(|| proof.state.to_string(), |tone| tone.ink(&proof.state.to_string()));
    html! {
        p {
            code { (proof.name) "=" (plain(&proof.value)) } " " (toned(&state)) " "
            span.quiet { (at(run, cases, run.header.plan.cases.len())) @if let Some(why) = &proof.why { ": " (plain(why)) } }
        }
        ul.evidence { @for evidence in &proof.evidence { li { (plain(evidence)) } } }
    }
}

fn choices(shown: &Shown) -> Markup {
    let cases: Vec<usize> = shown.groups.iter().flat_map(|group| group.cases.iter().copied()).collect();
    let rows = why::rows(shown.run, &shown.arms, &cases, CHOICES + 1);
    html! {
        @if !rows.is_empty() {
            details {
                summary { "What NCCL chose" }
                div.scroll { table {
                    thead { tr { @for (head, unit) in why::HEADS { th { (head) @if !unit.is_empty() { br; (unit) } } } } }
                    tbody { @for row in rows.iter().take(CHOICES) { tr { @for text in row { td { (text) } } } } }
                } }
                @if rows.len() > CHOICES { p.note { "More rows are left out; " code { "ncclsweep report --why" } " tells all of them." } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::environment::Origin;
    use crate::plan::schedule::Arm;
    use crate::record::fixture;

    fn proved(state: State, count: usize) -> Run {
        let mut run = fixture::two_sets();
        let proof = |at: usize| VariableProof {
            name: format!("NCCL_V{at}"),
            value: "<x>".into(),
            origin: Origin::Set,
            common: false,
            state,
            why: Some("because & so".into()),
            lacking: Vec::new(),
            evidence: vec!["asked: NCCL_V=<x> by the set".into()],
        };
        run.proofs = vec![ArmProofs {
            arm: Arm { set: 1, ..Arm::default() },
            set: "pcie-ll".into(),
            identical_to_baseline: false,
            difference: None,
            variables: (0..count).map(|at| OfCases { cases: vec![0, 1, 2, 3], what: proof(at) }).collect(),
            chosen: Vec::new(),
        }];
        run
    }

    #[test]
    fn a_variable_stands_with_its_state_and_its_evidence() {
        let run = proved(State::Applied, 1);
        let text = section(&Shown::of(&run)).into_string();
        assert!(text.contains("NCCL_V0=&lt;x&gt;") && text.contains("asked: NCCL_V=&lt;x&gt;"), "{text}");
        assert!(text.contains(r#"<span class="good">applied</span>"#) && !text.contains("<details open"));
    }

    #[test]
    fn what_did_not_take_effect_is_open_from_the_start() {
        let text = section(&Shown::of(&proved(State::NotApplied, 1))).into_string();
        assert!(text.contains("<details open"), "{text}");
    }

    #[test]
    fn thousands_of_variables_are_counted() {
        let text = section(&Shown::of(&proved(State::Applied, 5000))).into_string();
        assert!(text.contains("4920 variables more are left out") && text.len() < 60_000, "{}", text.len());
    }
}
