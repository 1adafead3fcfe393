use std::io::Write;
use std::process::{Command, Stdio};

use super::*;
use crate::collective::Mode;
use crate::nccl::conf;
use crate::nccl::words::{Algorithm, Protocol};
use crate::proof::why::Chosen;
use crate::proof::{Channels, Source as Told, Used};
use crate::record::fixture;
use crate::record::proofs::{ArmProofs, OfCases};
use crate::record::run::{Applied, Backend, Imported, Verdict};

const TUNED: Arm = Arm {
    set: 1,
    library: 0,
    launch: crate::plan::schedule::Launch::Threads,
    alive: 0,
    register: crate::nccl::register::Register::None,
};

fn write(run: &Run, form: Form) -> Result<String> {
    export(Source { place: "results/run-1", run }, TUNED, form, &[])
}

/// The fixture with one variable of the tuned set.
fn with(name: &str, value: &str) -> Run {
    let mut run = fixture::two_sets();
    run.header.plan.sets[1].vars = Vars::from_iter([(name, value)]);
    run
}

/// What a program prints that is given `text`.
fn said(program: &[&str], text: &str) -> String {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program[0]));
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn nccl_reads_its_file_as_it_was_meant_in_every_version() {
    let run = fixture::two_sets();
    let text = write(&run, Form::NcclConf).unwrap();
    for version in ["2.8.4", "2.18.3", "2.25.1", "2.26.2", "2.29.0", "2.30.7"] {
        let read = conf::parse(text.as_bytes(), Some(version.parse().unwrap()));
        let entries: Vars = read.entries.iter().map(|entry| (entry.name.clone(), entry.value.clone())).collect();
        assert_eq!(entries, run.header.plan.sets[1].vars, "{version}");
        assert_eq!(read.lints, [], "{version}");
    }
}

#[test]
fn a_value_that_its_file_cannot_hold_is_refused_and_not_spoilt() {
    for (name, value) in [
        ("NCCL_SOCKET_IFNAME", "eth0 "),
        ("NCCL_SOCKET_IFNAME", "eth0 # first"),
        ("NCCL_SOCKET_IFNAME", "'eth0'"),
        ("NCCL_CONF_FILE", "/tmp/x"),
        ("NCCL_TOPO_FILE", &"x".repeat(1024)),
    ] {
        let error = write(&with(name, value), Form::NcclConf).unwrap_err();
        assert!(error.message().contains("nccl.conf cannot hold"), "{error}");
    }
    assert!(write(&with("NCCL_SOCKET_IFNAME", "=eth0"), Form::NcclConf).is_ok());
    for form in [Form::Slurm, Form::EtcEnvironment] {
        assert!(write(&with("NCCL_SOCKET_IFNAME", "a b"), form).is_err());
    }
}

#[test]
fn shells_and_python_read_awkward_values_as_they_are() {
    let value = r#"a b'c"d$HOME \n `x` %s é"#;
    let run = with("NCCL_TOPO_FILE", value);
    let show = "\nprintf %s \"$NCCL_TOPO_FILE\"";
    assert_eq!(said(&["sh"], &(write(&run, Form::Env).unwrap() + show)), value);
    let wrapper = write(&run, Form::Wrapper).unwrap();
    assert_eq!(said(&["sh", "-s", "printenv", "NCCL_TOPO_FILE"], &wrapper), format!("{value}\n"));
    let python = write(&run, Form::Sitecustomize).unwrap() + "\nprint(os.environ['NCCL_TOPO_FILE'], end='')\n";
    assert_eq!(said(&["python3", "-"], &python), value);
    let json: serde_json::Value = serde_json::from_str(&write(&run, Form::Json).unwrap()).unwrap();
    assert_eq!(json["variables"]["NCCL_TOPO_FILE"], value);
    assert_eq!(json["evidence"]["cells"].as_array().unwrap().len(), 4);
}

#[test]
fn slurm_is_told_every_variable() {
    let run = fixture::two_sets();
    let printed = said(&["sh"], &write(&run, Form::Slurm).unwrap());
    let expected: String =
        run.header.plan.sets[1].vars.iter().map(|(name, value)| format!("export {name}={value}\n")).collect();
    assert_eq!(printed, expected);
}

#[test]
fn what_a_reader_would_replace_is_escaped() {
    let run = with("NCCL_TOPO_FILE", r#"%h $X "q" \"#);
    let last = |form| write(&run, form).unwrap().lines().last().unwrap().to_owned();
    assert_eq!(last(Form::Systemd), r#"Environment="NCCL_TOPO_FILE=%%h $X \"q\" \\""#);
    assert_eq!(last(Form::Compose), r#"      NCCL_TOPO_FILE: "%h $$X \"q\" \\""#);
    assert_eq!(last(Form::Kubernetes), r#"  NCCL_TOPO_FILE: "%h $X \"q\" \\""#);
    assert_eq!(last(Form::Docker), r#"NCCL_TOPO_FILE=%h $X "q" \"#);
}

#[test]
fn the_evidence_stands_in_comments() {
    insta::assert_snapshot!(write(&fixture::two_sets(), Form::Systemd).unwrap(), @r#"
    # NCCL settings of the env set pcie-ll, measured by ncclsweep 0.1.0 on box-1, 2026-03-14.
    # Run: results/run-1.
    # Box: 8 × NVIDIA RTX PRO 6000 Blackwell Server Edition, 8 ranks, driver 580.159.04, NCCL
    # 2.28.9.
    # graph mode: faster at 4 of 4 cases; time relative to default: 7168x1 0.60, 95% 0.59–0.61;
    # 7168x2 0.62, 95% 0.61–0.63; 7168x3 0.64, 95% 0.63–0.65; 7168x4 0.66, 95% 0.65–0.67.
    # Tuned for all-reduce of 14336 to 57344 bytes on 8 ranks. Other sizes, other collectives
    # and other boxes were not measured; large messages may become slower.
    # The engine has the last word: it may set NCCL variables itself, start workers without
    # them, or reduce without NCCL. `ncclsweep --wrap` shows whether they arrive when workers
    # are started as yours are.
    # Put it into /etc/systemd/system/UNIT.service.d/50-nccl.conf, then: systemctl
    # daemon-reload, systemctl restart UNIT. A unit without User= has no HOME, so NCCL 2.30 and
    # later find no ~/.nccl.conf there: rely on these lines, or on /etc/nccl.conf.
    [Service]
    Environment="NCCL_PROTO=LL"
    Environment="NCCL_ALGO=Ring"
    Environment="NCCL_P2P_LEVEL=SYS"
    Environment="NCCL_MAX_NCHANNELS=16"
    Environment="NCCL_BUFFSIZE=16777216"
    Environment="NCCL_NTHREADS=512"
    "#);
}

#[test]
fn variables_under_every_set_are_part_of_it_and_inherited_ones_are_told() {
    let mut run = fixture::two_sets();
    run.header.plan.base = Vars::from_iter([("NCCL_CUMEM_ENABLE", "0")]);
    run.header.provenance.inherited = Vars::from_iter([("NCCL_IB_DISABLE", "1")]);
    let text = write(&run, Form::Docker).unwrap();
    assert!(text.contains("\nNCCL_CUMEM_ENABLE=0\n") && !text.contains("\nNCCL_IB_DISABLE"), "{text}");
    assert!(text.contains("Measured under inherited NCCL_IB_DISABLE"), "{text}");
}

#[test]
fn a_set_that_the_run_does_not_carry_meets_objections() {
    let objected = |change: &dyn Fn(&mut Run)| {
        let mut run = fixture::two_sets();
        change(&mut run);
        objections(&run, TUNED).join("; ")
    };
    let cell = |change: &'static dyn Fn(&mut crate::record::run::Cell)| {
        objected(&move |run: &mut Run| change(run.cells.iter_mut().find(|cell| cell.arm == TUNED).unwrap()))
    };
    assert_eq!(objected(&|_| {}), "");
    assert_eq!(cell(&|cell| cell.verdict = Verdict::Same), "", "as good at one size, faster at the others");
    assert!(cell(&|cell| cell.verdict = Verdict::Undecided).contains("undecided at 7168x1"));
    assert!(cell(&|cell| cell.verdict = Verdict::Slower).contains("slower at 7168x1"));
    assert!(cell(&|cell| cell.wrong_outputs = 3).contains("wrong: 3 outputs"));
    assert!(cell(&|cell| cell.applied = Applied::Partly).contains("some ranks only"));
    assert!(cell(&|cell| cell.applied = Applied::NotApplied).contains("not in effect"));
    assert!(cell(&|cell| cell.applied = Applied::Overridden).contains("overridden"));
    assert!(objected(&|run| run.header.backend = Backend::Emulated).contains("emulated"));
    let imported = Imported { files: Vec::new(), program: "nccl-tests".into(), notes: Vec::new() };
    assert!(objected(&|run| run.header.provenance.imported = Some(imported.clone())).contains("imported"));
    assert!(objections(&fixture::two_sets(), Arm::default())[0].contains("baseline"));
    assert!(objected(&|run| run.cells.iter_mut().for_each(|cell| cell.verdict = Verdict::Same)).contains("no faster"));
}

#[test]
fn what_was_forced_is_told() {
    let run = fixture::two_sets();
    let source = Source { place: "results/run-1", run: &run };
    let text = export(source, TUNED, Form::Env, &["undecided at 7168x1".to_owned()]).unwrap();
    assert!(text.contains("# FORCED although: undecided at 7168x1."), "{text}");
}

#[test]
fn a_set_is_named_or_the_only_one() {
    let two = fixture::two_sets();
    assert_eq!(select(&two, None, None).unwrap(), TUNED);
    let three = fixture::run(&["default", "a", "bb"], &[fixture::case(1, Mode::Graph)]);
    assert!(select(&three, None, None).is_err());
    assert_eq!(select(&three, Some("bb"), None).unwrap().set, 2);
    let error = select(&three, Some("b"), None).unwrap_err();
    assert!(error.next_step().unwrap().contains("default, a, bb"), "{error}");
    let mut libraries = fixture::two_sets();
    let other = crate::plan::schedule::Library { path: "x".into(), version: NcclVersion::new(2, 30, 4) };
    libraries.header.plan.libraries.push(other);
    assert!(select(&libraries, None, None).unwrap_err().next_step().unwrap().contains("2.28.9, 2.30.4"));
    assert_eq!(select(&libraries, None, Some(NcclVersion::new(2, 30, 4))).unwrap().library, 1);
    assert!(export(Source { place: "r", run: &two }, Arm::default(), Form::Env, &[]).is_err());
}

/// What the sets of a run used: per case algorithm, protocol, channels.
fn used(run: &mut Run, set: usize, cases: &[usize], algorithm: Algorithm, protocol: Protocol, channels: u32) {
    let channels = Some(Channels::Exactly(channels));
    let used = Used { source: Told::Log, algorithm, protocol, channels, warps: None, captured: None };
    let chosen = Chosen { used: vec![used], ..Chosen::default() };
    let arm = Arm { set, ..Arm::default() };
    let of = OfCases { cases: cases.to_vec(), what: chosen };
    match run.proofs.iter_mut().find(|proofs| proofs.arm == arm) {
        Some(proofs) => proofs.chosen.push(of),
        None => run.proofs.push(ArmProofs {
            arm,
            set: run.header.plan.sets[set].name.clone(),
            identical_to_baseline: false,
            difference: None,
            variables: Vec::new(),
            chosen: vec![of],
        }),
    }
}

fn rows(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn the_tuners_table_has_the_winner_of_each_size_and_leaves_the_others_to_nccl() {
    let cases = [1, 2, 3, 4].map(|tokens| fixture::case(tokens, Mode::Graph));
    let mut run = fixture::run(&["default", "a", "b"], &cases);
    for (set, protocol) in [(1, "LL"), (2, "Simple")] {
        run.header.plan.sets[set].vars = Vars::from_iter([("NCCL_PROTO", protocol), ("NCCL_NTHREADS", "512")]);
    }
    used(&mut run, 1, &[0, 1], Algorithm::Ring, Protocol::Ll, 2);
    used(&mut run, 1, &[2, 3], Algorithm::Tree, Protocol::Ll, 4);
    used(&mut run, 2, &[0, 1, 2, 3], Algorithm::Ring, Protocol::Simple, 8);
    for cell in &mut run.cells {
        (cell.verdict, cell.ratio) = match (cell.arm.set, cell.case) {
            (0, _) => (Verdict::Baseline, None),
            (1, case) => (if case == 2 { Verdict::Same } else { Verdict::Faster }, Some(0.6)),
            (_, case) => (if case == 3 { Verdict::Faster } else { Verdict::Slower }, Some(0.5)),
        };
    }
    let text = write(&run, Form::TunerCsv).unwrap();
    assert_eq!(rows(&text), ["allreduce,14336,28672,ring,ll,2,1,8", "allreduce,57344,57344,ring,simple,8,1,8"]);
    assert!(text.contains("To be set beside it in the environment: NCCL_NTHREADS=512."), "{text}");

    run.header.plan.sets[1].vars.set("NCCL_NTHREADS", "256");
    assert!(write(&run, Form::TunerCsv).unwrap_err().message().contains("whole process"));
    run.cells.iter_mut().for_each(|cell| cell.verdict = Verdict::Undecided);
    assert!(write(&run, Form::TunerCsv).unwrap_err().message().contains("no size has a set"));
}

#[test]
fn a_winner_of_which_nobody_knows_what_it_used_is_no_line() {
    let error = write(&fixture::two_sets(), Form::TunerCsv).unwrap_err();
    assert!(error.message().contains("not known what pcie-ll used at 7168x1"), "{error}");
}
