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
      pcie-ll 7168x1 graph p50  ≤ 28.9 µs        28.9 µs     28.5–29.4  undecided
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
