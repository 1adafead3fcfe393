use crate::accept::AcceptPlan;
use crate::accept::tests::{MEASURED, plan};

#[test]
fn a_fault_of_a_plan_has_its_place() {
    for (require, marked, words) in [
        ("[require]\ngpu = 8", "gpu", "did you mean `gpus`?"),
        ("[require]\ngpus = \"8\"", "\"8\"", "e.g. gpus = 8"),
        ("[require]\ngpus = 0", "0", "from 1"),
        ("[require]\napplied = \"pcie-l\"", "\"pcie-l\"", "sets of this plan: default, pcie-ll"),
        ("[[require.latency]]\nset = \"pcie-ll\"\np50 = \"30\"", "\"30\"", "<= 30us"),
        ("[[require.latency]]\nset = \"pcie-ll\"\np50 = \"-3us\"", "\"-3us\"", "<= 30us"),
        ("[[require.latency]]\nset = \"pcie-ll\"\np51 = \"30us\"", "p51", "did you mean `p50`?"),
        (
            "[[require.latency]]\nset = \"pcie-ll\"\nsizes = \"7168x9\"\np50 = \"3us\"",
            "\"7168x9\"",
            "at the top of the file",
        ),
        ("[[require.latency]]\nset = \"pcie-ll\"\nsizes = \"7168y1\"\np50 = \"3us\"", "y1", "e.g. 14336B"),
        ("[[require.latency]]\nset = \"pcie-ll\"\nmode = \"sync\"\np50 = \"3us\"", "\"sync\"", "modes = "),
        ("[[require.speedup]]\nset = \"pcie-ll\"\nover = \"pcie-ll\"\nat-least = 2", "", "over = \"default\""),
        ("[require.golden]\nrun = \"x\"\ntolerance = \"5\"", "\"5\"", "with its sign"),
    ] {
        let error = plan(require).unwrap_err();
        let text = format!("{MEASURED}{require}");
        let span = error.span().unwrap_or_else(|| panic!("{require}: {error} has no place"));
        assert!(marked.is_empty() || text[span.clone()].contains(marked), "{require}: {:?}", &text[span]);
        assert!(error.next_step().unwrap().contains(words), "{require}: {:?}", error.next_step());
    }
}

#[test]
fn a_plan_that_requires_nothing_is_refused() {
    for require in ["", "[require]", "[require]\nno-throttling = false"] {
        assert!(plan(require).is_err(), "{require}");
    }
}

#[test]
fn a_requirement_that_cannot_fail_is_refused_in_its_place() {
    for (require, marked, words) in [
        ("gpu-name = \"\"", "\"\"", "gpu-name = \"H200\""),
        ("gpu-name = \" \"", "\" \"", "gpu-name = \"H200\""),
        ("applied = [\"pcie-ll\", \"default\"]", "\"default\"", "sets with variables: pcie-ll"),
        ("applied = []", "[]", "leave the line out"),
        ("link-width = 1", "1", "link-width = 16"),
        ("link-generation = 1", "1", "link-generation = 5"),
        ("[[require.speedup]]\nset = \"pcie-ll\"\nover = \"default\"\nat-least = 1e-9", "1e-9", "at-least = 1.3"),
    ] {
        let error = plan(&format!("[require]\ngpus = 8\n{require}")).unwrap_err();
        let text = format!("{MEASURED}[require]\ngpus = 8\n{require}");
        assert_eq!(&text[error.span().unwrap()], marked, "{require}: {error}");
        assert!(error.next_step().unwrap().contains(words), "{require}: {:?}", error.next_step());
    }
    // The base is part of the default set, and can fail to be applied.
    let with_base = "sizes = \"7168x1\"\n[base]\nNCCL_ALGO = \"Ring\"\n[require]\napplied = \"default\"";
    assert!(AcceptPlan::parse("plan.toml", with_base).is_ok());
}

#[test]
fn the_way_to_a_mode_that_is_not_measured_keeps_those_that_are() {
    for (measured, help) in
        [("modes = [\"stream\"]\n", "modes = [\"stream\", \"sync\"] at"), ("", "modes = [\"graph\", \"sync\"] at")]
    {
        let require = "[[require.latency]]\nset = \"pcie-ll\"\nmode = \"sync\"\np50 = \"3us\"";
        let error = AcceptPlan::parse("plan.toml", &format!("{measured}{MEASURED}{require}")).unwrap_err();
        assert!(error.next_step().unwrap().starts_with(help), "{:?}", error.next_step());
    }
}
