//! The way of an env set: what a worker has in its own environment is what was asked for.

use std::collections::BTreeSet;

use ncclsweep::proof::State;
use ncclsweep::record::run::{Applied, Run, Verdict};
use ncclsweep::record::visit::Visit;

use crate::support::{MAIN, OUT, Program, cells};

/// The visits of one env set; at least one.
fn visits<'a>(run: &'a Run, set: &str) -> Vec<&'a Visit> {
    let visits: Vec<_> = run.visits.iter().filter(|visit| run.header.plan.sets[visit.arm.set].name == set).collect();
    assert!(!visits.is_empty(), "no visit of {set}");
    visits
}

/// What every worker of a set had under this name.
#[track_caller]
fn value<'a>(run: &'a Run, set: &str, name: &str) -> Option<&'a str> {
    let values: Vec<_> = visits(run, set).iter().map(|v| v.worker.as_ref().unwrap().variables.get(name)).collect();
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{name} differs between workers: {values:?}");
    values[0]
}

#[test]
fn every_worker_has_the_variables_of_its_set_and_of_no_other() {
    let run = MAIN.document();
    let asked = &run.header.plan.sets[1];
    assert_eq!(asked.name, "pcie-ll");
    assert_eq!(asked.vars.iter().count(), 6);
    for (name, wanted) in asked.vars.iter() {
        assert_eq!(value(&run, "pcie-ll", name), Some(wanted), "{name}");
        assert_eq!(value(&run, "default", name), None, "{name}");
    }
}

#[test]
fn each_visit_is_a_process_of_its_own() {
    let run = MAIN.document();
    let mut pids: Vec<_> = run.visits.iter().map(|visit| visit.worker.as_ref().unwrap().pid).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), run.visits.len());
}

const LAYERS: &str = "\
sizes = '7168x1'

[base]
NCCL_NTHREADS = 128
NCCL_BUFFSIZE = 1048576

[sets.ll]
NCCL_PROTO = 'LL'
NCCL_MAX_NCHANNELS = 4
";

#[test]
fn later_wins_inherited_then_configured_base_then_base_flag_then_set() {
    let program = Program::least("--config layers.toml --base NCCL_BUFFSIZE=2097152,NCCL_MAX_NCHANNELS=8");
    let program = program.file("layers.toml", LAYERS).keeping(OUT);
    let inherited = [("NCCL_PROTO", "Simple"), ("NCCL_NTHREADS", "64"), ("NCCL_ALGO", "Ring")];
    let run = inherited.into_iter().fold(program, |program, (k, v)| program.env(k, v)).run().exits(5).document();
    for (set, name, wanted) in [
        ("default", "NCCL_ALGO", "Ring"),
        ("default", "NCCL_PROTO", "Simple"),
        ("default", "NCCL_NTHREADS", "128"),
        ("default", "NCCL_BUFFSIZE", "2097152"),
        ("default", "NCCL_MAX_NCHANNELS", "8"),
        ("ll", "NCCL_ALGO", "Ring"),
        ("ll", "NCCL_PROTO", "LL"),
        ("ll", "NCCL_NTHREADS", "128"),
        ("ll", "NCCL_BUFFSIZE", "2097152"),
        ("ll", "NCCL_MAX_NCHANNELS", "4"),
    ] {
        assert_eq!(value(&run, set, name), Some(wanted), "{set}: {name}");
    }
    for (name, value) in inherited {
        assert_eq!(run.header.provenance.inherited.get(name), Some(value), "{name} is recorded as inherited");
    }
}

#[test]
fn inherited_settings_are_said_to_be_part_of_the_default_and_of_a_set_that_adds_nothing() {
    let program = Program::least("--set ll:NCCL_PROTO=LL").env("NCCL_PROTO", "LL").env("NCCL_DEBUG", "WARN");
    let ran = program.keeping(OUT).run();
    let told = [
        "default is not NCCL's own default, it inherits NCCL_PROTO=LL; --clean-env drops that",
        "ll is the same as default: all that it sets is inherited already",
    ];
    for told in told {
        ran.tells(told);
        assert!(ran.document().warnings.iter().any(|warning| warning.contains(told)), "{:?}", ran.document().warnings);
    }
    let clean = Program::least("--set ll:NCCL_PROTO=LL --clean-env --dry-run").env("NCCL_PROTO", "LL").run().exits(0);
    assert_eq!(clean.stderr, "");
}

#[test]
fn a_dry_run_refuses_the_settings_that_a_run_refuses_and_warns_of_the_same() {
    for (setting, told) in [
        ("x:NCCL_PROTO=LL64", "LL64"),
        ("x:NCCL_PROTOCOL=LL", "NCCL_PROTOCOL"),
        ("x:NCCL_BUFFSIZE=16M", "write 16777216"),
        // The emulated 2.28.3 does not read it yet.
        ("x:NCCL_PARAM_DUMP_ALL=1", "NCCL_PARAM_DUMP_ALL"),
    ] {
        for arguments in [&["--set", setting][..], &["--set", setting, "--dry-run"]] {
            let ran = Program::least("").args(arguments.iter().copied()).keeping(OUT).run().exits(2);
            ran.tells(told);
            assert_eq!(ran.stdout, "", "{arguments:?}");
        }
        Program::least("--dry-run --force").args(["--set", setting]).run().exits(0).tells(told);
    }
    let ran = Program::least("--dry-run").run().exits(0);
    ran.tells("warning: pcie-ll: NCCL_BUFFSIZE has no effect");
    let version = MAIN.document().header.plan.libraries[0].version;
    assert!(ran.stdout.contains(&format!("NCCL   {version} ")), "the version that a run meets: {}", ran.stdout);
    Program::least("--dry-run --launch processes --rank-env 9:NCCL_PROTO=LL").run().exits(2).tells("names rank 9");
}

#[test]
fn sets_of_a_configuration_beside_sets_of_flags_run_when_they_are_named() {
    let sets = |arguments: &str| {
        let ran = Program::least("--dry-run --set ll:NCCL_PROTO=LL").args(arguments.split_whitespace()).run().exits(0);
        let (_, sets) = ran.stdout.split_once("NCCL variables of each set\n").unwrap();
        let names = sets.lines().filter(|line| !line.starts_with("    ")).map(|line| line.trim().to_owned());
        (names.collect::<Vec<_>>().join(" "), ran.stderr)
    };
    assert_eq!(sets(""), ("default ll".to_owned(), String::new()));
    let (names, told) = sets("--config pcie-tp8");
    assert_eq!(names, "default ll");
    assert!(
        told.contains("the configuration's own sets do not run (pcie-ll); --sets NAME,… picks from both"),
        "{told}"
    );
    assert_eq!(sets("--sets pcie-ll,ll").0, "default ll pcie-ll");
    assert_eq!(sets("--config pcie-tp8 --sets pcie-ll").0, "default pcie-ll");
    let ran = Program::least("--dry-run --set ll:NCCL_PROTO=LL --sets nope").run().exits(2);
    ran.tells("ll, pcie-ll");
}

#[test]
fn what_a_wrapper_brings_is_told_beside_the_default_that_has_it() {
    let ran = Program::emulated("--gpus 2 --sizes 7168x1 --sets default --rounds 1")
        .args(["--wrap", "env NCCL_PROTO=LL NCCL_MAX_NCHANNELS=1"])
        .keeping(OUT)
        .run();
    let told =
        "default is not NCCL's own default: --wrap env brings NCCL_MAX_NCHANNELS=1, NCCL_PROTO=LL under every set";
    assert!(ran.document().warnings.iter().any(|warning| warning == told), "{:?}", ran.document().warnings);
    let plain = Program::emulated("--gpus 2 --sizes 7168x1 --sets default --rounds 1 --wrap env").keeping(OUT).run();
    assert!(plain.document().warnings.is_empty(), "{:?}", plain.document().warnings);
}

#[test]
fn a_profiler_that_the_shell_names_gives_way_and_costs_no_verdict() {
    let run =
        Program::emulated("--gpus 8 --sizes 7168x1 --seed 1").keeping(OUT).env("NCCL_PROFILER_PLUGIN", "none").run();
    let run = run.exits(0).document();
    assert_eq!(run.cells[1].verdict, Verdict::Faster, "{:?}", run.cells[1]);
}

#[test]
fn a_clean_environment_has_nothing_inherited_and_says_what_it_dropped() {
    let program = Program::least("--clean-env").env("NCCL_PROTO", "Simple").env("NCCL_ALGO", "Ring").keeping(OUT);
    let run = program.run().exits(5).document();
    assert!(run.header.plan.clean_env);
    assert_eq!(value(&run, "default", "NCCL_PROTO"), None);
    assert_eq!(value(&run, "default", "NCCL_ALGO"), None);
    assert_eq!(value(&run, "pcie-ll", "NCCL_PROTO"), Some("LL"));
    assert_eq!(run.header.provenance.inherited.get("NCCL_PROTO"), Some("Simple"));
}

#[test]
fn a_command_around_the_workers_that_takes_a_setting_away_is_seen() {
    let program = Program::least("").args(["--wrap", "env -u NCCL_PROTO"]).keeping(OUT);
    let ran = program.run().exits(1);
    let run = ran.document();
    assert_eq!(run.header.plan.wrap, ["env", "-u", "NCCL_PROTO"]);
    assert_eq!(run.header.plan.sets[1].vars.get("NCCL_PROTO"), Some("LL"), "asked for");
    assert_eq!(value(&run, "pcie-ll", "NCCL_PROTO"), None, "not there");
    assert_eq!(value(&run, "pcie-ll", "NCCL_ALGO"), Some("Ring"));
    assert_eq!(cells(&run, "pcie-ll")[0].applied, Applied::NotApplied);
    assert!(ran.stdout.contains("NCCL_PROTO"), "{}", ran.stdout);
    let reason = cells(&run, "pcie-ll")[0].verdict_reason.as_deref();
    assert_eq!(reason, Some("the settings are not in effect: NCCL_PROTO not applied"), "no rounds would decide that");
    assert!(ran.stdout.trim_end().ends_with("pcie-ll is undecided at 7168x1: its settings are not in effect"));
}

#[test]
fn a_set_that_does_not_arrive_is_measured_for_no_more_rounds() {
    let arguments = "--gpus 4 --sizes 7168x1 --communicators 2 --seed 7 --time-limit 5m";
    let ran = Program::emulated(arguments).args(["--wrap", "env -u NCCL_PROTO"]).keeping(OUT).run();
    assert_eq!(ran.document().visits.len(), 2, "one round showed it: {}", ran.stdout);
}

#[test]
fn a_variable_that_lacks_its_beginning_is_refused() {
    let ran = Program::least("--set ll:PROTO=LL").run().exits(2);
    assert!(ran.stderr.contains("PROTO is no variable of NCCL (did you mean NCCL_PROTO?)"), "{}", ran.stderr);
    let ran = Program::least("--set ll:PROTO=LL --force").keeping(OUT).run();
    assert_eq!(cells(&ran.document(), "ll")[0].applied, Applied::Unverified, "nobody reads it");
}

#[test]
fn settings_that_took_effect_are_proven_at_every_size() {
    let run = MAIN.document();
    assert!(cells(&run, "pcie-ll").iter().all(|cell| cell.applied == Applied::Applied), "{}", MAIN.stdout);
}

/// The user's file is in `$HOME` since 2.30.
const READS_HOME: (&str, &str) = ("NCCLSWEEP_EMULATE_NCCL", "2.30.7");

#[test]
fn configuration_files_of_nccl_are_recorded_and_what_they_set_is_found_there() {
    let program = Program::least("--set ll:NCCL_PROTO=LL --wrap").args(["env -u NCCL_PROTO"]).keeping(OUT);
    let program = program.env(READS_HOME.0, READS_HOME.1).file(".nccl.conf", "# mine\nNCCL_PROTO=LL\n");
    let run = program.run().exits(5).document();
    let users = run.header.provenance.conf_files.iter().find(|file| file.path.ends_with(".nccl.conf")).unwrap();
    assert_eq!(users.lines, ["# mine", "NCCL_PROTO=LL"]);
    assert!(users.is_read_by(run.header.plan.arms().next().unwrap()));
    assert_eq!(value(&run, "ll", "NCCL_PROTO"), None);
    let proof = &run.proofs[1].variables[0].what;
    let place = format!("seen: NCCL_PROTO=LL in {}:2", users.path);
    assert!(proof.name == "NCCL_PROTO" && proof.evidence.contains(&place), "{:?}", proof.evidence);
    assert_eq!(cells(&run, "ll")[0].applied, Applied::Applied);
}

#[test]
fn a_line_that_nccl_passes_over_sets_nothing_here_either() {
    let program = Program::least("--set ll:NCCL_PROTO=LL --wrap").args(["env -u NCCL_PROTO"]).keeping(OUT);
    let program = program.env(READS_HOME.0, READS_HOME.1).file(".nccl.conf", " NCCL_PROTO=LL\n");
    let run = program.run().document();
    let proof = &run.proofs[1].variables[0].what;
    assert!(!proof.evidence.iter().any(|line| line.contains(".nccl.conf")), "{:?}", proof.evidence);
}

#[test]
fn a_level_is_held_against_the_wiring_of_the_box() {
    // Two pairs of GPUs, each below a switch of its own.
    for (level, peers, host_memory) in [("PIX", true, true), ("PHB", true, false), ("LOC", false, true)] {
        let program = Program::emulated("--gpus 4 --sizes 7168x1 --rounds 1 --communicators 1 --seed 7").keeping(OUT);
        let run = program.args(["--set", &format!("level:NCCL_P2P_LEVEL={level}")]).run().document();
        let proof = &run.proofs[1].variables[0].what;
        assert_eq!((proof.name.as_str(), proof.state), ("NCCL_P2P_LEVEL", State::Applied), "{level}: {:?}", proof.why);
        let used = proof.evidence.iter().find(|line| line.starts_with("used: pairs")).unwrap();
        assert_eq!((used.contains("P2P"), used.contains("SHM")), (peers, host_memory), "{level}: {used}");
    }
}

#[test]
fn through_host_memory_the_size_of_buffers_proves_buffsize() {
    let program = Program::least("--base NCCL_P2P_DISABLE=1 --set large:NCCL_PROTO=Simple,NCCL_BUFFSIZE=8388608");
    let run = program.keeping(OUT).run().document();
    let proof = run.proofs[1].variables.iter().find(|of| of.what.name == "NCCL_BUFFSIZE").unwrap();
    assert_eq!(proof.what.state, State::Applied, "{:?}", proof.what);
}

#[test]
fn settings_are_proven_whatever_a_release_tells_a_profiler() {
    // None, captured calls not, not one in the executable, all: where it does not tell, the log of an untimed visit does.
    for (version, untimed) in [("2.21.5", 2), ("2.23.4", 2), ("2.26.2", 2), ("2.27.3", 2), ("2.27.7", 0)] {
        let run = Program::least("").env("NCCLSWEEP_EMULATE_NCCL", version).keeping(OUT).run().document();
        assert_eq!(run.visits.iter().filter(|visit| visit.untimed).count(), untimed, "NCCL {version}");
        assert!(run.cells.iter().all(|cell| cell.applied == Applied::Applied), "NCCL {version}: {:?}", run.cells);
    }
    let eager = Program::least("--modes stream").env("NCCLSWEEP_EMULATE_NCCL", "2.26.2").keeping(OUT).run().document();
    assert!(eager.visits.iter().all(|visit| !visit.untimed), "calls that are not captured are told of");
}

#[test]
fn over_a_network_captured_calls_are_recorded_as_they_are_replayed() {
    let socket = "NCCL_P2P_DISABLE=1,NCCL_SHM_DISABLE=1";
    for (version, launch) in [("2.27.7", "threads"), ("2.28.3", "processes"), ("2.32.3", "threads")] {
        let program = Program::least("--sets default,pcie-ll --checks 2").args(["--base", socket, "--launch", launch]);
        let run = program.env("NCCLSWEEP_EMULATE_NCCL", version).keeping(OUT).run().document();
        let ranks = run.header.plan.ranks;
        for visit in &run.visits {
            let captured = visit.used.iter().filter(|by| by.used.captured == Some(true));
            let seen: BTreeSet<u32> = captured.flat_map(|by| by.ranks.clone()).collect();
            assert_eq!(seen, (0..ranks).collect(), "{version}, {launch}: {:?}", visit.used);
        }
        assert!(run.cells.iter().all(|cell| cell.applied == Applied::Applied), "{version}, {launch}: {:?}", run.cells);
    }
}

#[test]
fn a_set_with_a_profiler_of_its_own_is_said_to_leave_no_proof() {
    let ran = Program::least("--set none:NCCL_PROFILER_PLUGIN=none").keeping(OUT).run();
    ran.tells("none: NCCL_PROFILER_PLUGIN takes the place of our own: what NCCL uses is not recorded");
    assert!(!Program::least("").env("NCCL_PROFILER_PLUGIN", "none").run().stderr.contains("takes the place"));
}
