use super::*;
use crate::accept::{AcceptPlan, judge};
use crate::record::fixture::{stored, two_sets};

/// One requirement of each outcome.
fn acceptance() -> Acceptance {
    let plan = "note = \"eight GPUs over PCIe\"\nsizes = \"7168x1..4\"\n[sets.pcie-ll]\nNCCL_PROTO = \"LL\"\n\
                [require]\ngpus = 8\ngpu-name = \"H200\"\nno-throttling = true\n\
                [[require.latency]]\nset = \"pcie-ll\"\nsizes = \"7168x1\"\np50 = \"<= 28.9us\"\n\
                [[require.speedup]]\nset = \"pcie-ll\"\nsizes = \"7168x1\"\nover = \"default\"\nat-least = 1.5";
    let plan = AcceptPlan::parse("box.toml", plan).unwrap();
    let run = stored(two_sets(), 1, |_, _| 1.0);
    judge(&plan, &run.run.header.plan, &run, None).unwrap()
}

#[test]
fn every_outcome_is_told_at_80_columns() {
    let shown = render(&acceptance(), Style::default()).replace('\u{a0}', " ");
    insta::assert_snapshot!(shown, @r"
    acceptance by box.toml

      plan       eight GPUs over PCIe
      run        results/run-1 · box-1 · 2026-03-14 09:26 UTC · 12 visits

      requirement               bound            measured    95%        outcome
                                                             interval
      visits that completed     all              12 of 12               pass
      what was measured         as planned       as planned             pass
      GPUs                      8                8                      pass
      name of every GPU         has H200         0 of 8                 fail
      GPUs throttled            none             -                      not measured
      pcie-ll 7168x1 graph p50  ≤ 28.9 µs        28.92 µs    28.5–29.4  undecided
      pcie-ll 7168x1 graph      ≥ 1.50× default  1.67×       1.63–1.70  pass

      why        name of every GPU: fail, another: NVIDIA RTX PRO 6000 Blackwell
                 Server Edition (0000:11:00.0), NVIDIA RTX PRO 6000 Blackwell Server
                 Edition (0000:21:00.0), NVIDIA RTX PRO 6000 Blackwell Server
                 Edition (0000:31:00.0) and 5 more
                 GPUs throttled: not measured, NVML did not tell the state of every
                 GPU

    not accepted: of 7 requirements 1 failed, 1 not measured, 1 undecided; more
    rounds narrow the intervals
    ");
}

/// A speedup that is almost what is required.
fn almost() -> Judged {
    Judged {
        kind: "speedup",
        requirement: "pcie-ll 7168x1 graph".into(),
        bound: "≥ 1.50× default".into(),
        outcome: Outcome::Fail,
        measured: Some("1.47×".into()),
        value: Some(1.47),
        interval: Some([1.44, 1.499_46]),
        limit: Some(1.5),
        reason: None,
    }
}

#[test]
fn what_did_not_pass_shows_its_interval_or_why_however_narrow_the_terminal_is() {
    let seven = Acceptance { requirements: vec![almost()], ..acceptance() };
    for acceptance in [acceptance(), seven] {
        for width in 40..=120 {
            let shown = render(&acceptance, Style { width, ..Style::default() }).replace('\u{a0}', " ");
            let (table, why) = shown.split_once("\n  why").unwrap_or((&shown, ""));
            for judged in acceptance.requirements.iter().filter(|judged| judged.outcome != Outcome::Pass) {
                let in_table = interval(judged).is_some_and(|interval| table.contains(&interval));
                let told =
                    why.split_whitespace().collect::<Vec<_>>().join(" ").contains(&format!("{}:", judged.requirement));
                assert!(in_table || told, "{width}: {}\n{shown}", judged.requirement);
            }
        }
    }
    let narrow = render(&acceptance(), Style { width: 60, ..Style::default() });
    let narrow = narrow.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(narrow.contains("p50: undecided, 95% interval 28.5–29.4"), "{narrow}");
}

#[test]
fn an_interval_that_ends_near_its_bound_is_told_from_it() {
    assert_eq!(found(&almost()), "1.47× (1.44–1.499), required ≥ 1.50× default");
    let acceptance = Acceptance { requirements: vec![almost()], ..acceptance() };
    assert!(render(&acceptance, Style::default()).contains("1.44–1.499"));
}

#[test]
fn two_bounds_of_one_figure_are_two_names() {
    let mut requirements = vec![almost(), almost(), almost()];
    requirements[1].bound = "≥ 1.60× default".into();
    let text = junit(&Acceptance { requirements, ..acceptance() }).unwrap();
    for name in ["graph ≥ 1.50× default", "graph ≥ 1.60× default", "graph ≥ 1.50× default (2)"] {
        assert_eq!(text.matches(&format!("name=\"pcie-ll 7168x1 {name}\"")).count(), 1, "{text}");
    }
}

#[test]
fn nothing_but_a_pass_passes_in_junit() {
    let text = junit(&acceptance()).unwrap();
    assert!(
        text.contains(r#"tests="7""#) && text.contains(r#"failures="1""#) && text.contains(r#"errors="2""#),
        "{text}"
    );
    assert!(text.contains(r#"skipped="0""#) || !text.contains("<skipped"), "{text}");
    assert!(text.contains(r#"<testcase name="pcie-ll 7168x1 graph p50" classname="accept.latency">"#), "{text}");
    assert!(text.contains(r#"type="undecided""#) && text.contains(r#"type="not measured""#), "{text}");
}

#[test]
fn every_case_of_junit_carries_what_was_measured() {
    let text = junit(&acceptance()).unwrap();
    let case = text.split("<testcase ").find(|case| case.starts_with("name=\"pcie-ll 7168x1 graph\"")).unwrap();
    assert!(case.contains("<system-out>1.67× (1.63–1.70), required ≥ 1.50× default</system-out>"), "{case}");
    let number = |name: &str| -> f64 {
        let (_, rest) = case.split_once(&format!("<property name=\"{name}\" value=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    assert!(
        (1.6..1.7).contains(&number("value")) && number("low") < number("value") && number("value") < number("high")
    );
    assert!(text.contains("<system-out>8, required 8</system-out>"), "{text}");
    assert!(text.contains(r#"<property name="value" value="8"/>"#), "{text}");
}

#[test]
fn json_is_the_whole_acceptance() {
    let mut text = Vec::new();
    write(&acceptance(), Form::Json, Style::default(), &mut text).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let outcomes: Vec<&str> =
        value["requirements"].as_array().unwrap().iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["pass", "pass", "pass", "fail", "not-measured", "undecided", "pass"]);
}

#[test]
fn a_form_reads_as_it_prints() {
    for form in [Form::Table, Form::Json, Form::Junit] {
        assert_eq!(form.to_string().parse::<Form>().unwrap(), form);
    }
    assert!("xml".parse::<Form>().is_err());
}
