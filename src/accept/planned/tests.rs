use super::*;
use crate::accept::judge;
use crate::accept::tests::{altered, plan, run};
use crate::error::Kind;
use crate::plan::affinity::CpuAffinity;
use crate::record::stored::Stored;

type Alter = fn(&mut Stored);
type AlterPlan = fn(&mut Plan);

#[test]
fn a_run_of_something_else_did_not_measure_the_plan() {
    let planned = run().run.header.plan;
    let line = |alter: Alter| {
        let plan = plan("[require]\ngpus = 8").unwrap();
        judge(&plan, &planned, &altered(alter), None).unwrap().requirements.remove(1)
    };
    assert_eq!(line(|_| {}).outcome, Outcome::Pass);
    let others: [(Alter, &str); 9] = [
        (
            |run| _ = run.run.header.plan.sets[1].vars.set("NCCL_PROTO", "Simple"),
            "pcie-ll: NCCL_PROTO is Simple, in the plan LL",
        ),
        (
            |run| _ = run.run.header.plan.base.set("NCCL_ALGO", "Tree"),
            "under every set: NCCL_ALGO is Tree, in the plan not set",
        ),
        (|run| run.run.header.plan.sets[1].name = "other".into(), "no set pcie-ll"),
        (|run| _ = run.run.header.plan.cases.pop(), "no 7168x4"),
        (|run| run.run.header.plan.ranks = 16, "16 ranks on 8 GPUs, in the plan 8 ranks on 8 GPUs"),
        (|run| run.run.header.plan.wrap = vec!["numactl".into(), "-N".into(), "0".into()], "through numactl -N 0, in"),
        (
            |run| {
                run.run.header.plan.rank_env = vec![RankEnv { rank: 3, vars: Vars::from_iter([("NCCL_ALGO", "Tree")]) }]
            },
            "rank 3 with NCCL_ALGO=Tree, in the plan no rank",
        ),
        (|run| run.run.header.plan.cpu_affinity = CpuAffinity::Near, "bound to CPUs: near, in the plan none"),
        (|run| run.run.header.plan.measure.graph_length = 8, "graph mode with 8 calls in a sample, not 50"),
    ];
    for (alter, told) in others {
        let line = line(alter);
        assert_eq!(line.outcome, Outcome::NotMeasured);
        assert!(line.reason.as_ref().unwrap().contains(told), "{told}: {:?}", line.reason);
    }
}

/// What the line `what was measured` says of the run when it and what is planned were altered.
fn line_of(run: Alter, planned: AlterPlan) -> Judged {
    let mut wanted = altered(|_| {}).run.header.plan;
    planned(&mut wanted);
    judge(&plan("[require]\ngpus = 8").unwrap(), &wanted, &altered(run), None).unwrap().requirements.remove(1)
}

fn inherits(run: &mut Stored, name: &str, value: &str) {
    run.run.header.provenance.inherited.set(name, value);
}

#[test]
fn settings_of_the_shell_that_are_not_in_the_plan_are_something_else() {
    let line = line_of(
        |run| {
            inherits(run, "NCCL_PROTO", "Simple");
            inherits(run, "NCCL_DEBUG", "INFO");
        },
        |_| {},
    );
    assert_eq!((line.outcome, line.measured.as_deref()), (Outcome::NotMeasured, Some("otherwise")));
    assert_eq!(line.reason.as_deref(), Some("inherited and not in the plan: NCCL_PROTO=Simple"));
    let of_another_host = line_of(
        |run| {
            let mut other = run.run.header.provenance.clone();
            other.inherited.set("NCCL_ALGO", "Tree");
            run.run.header.provenance.others.push(other);
        },
        |_| {},
    );
    assert!(of_another_host.reason.unwrap().contains("NCCL_ALGO=Tree"));
}

#[test]
fn what_of_the_shell_changes_nothing_or_is_in_the_plan_is_no_difference() {
    let held: [(Alter, AlterPlan); 5] = [
        (
            |run| {
                let plain =
                    [("NCCL_DEBUG", "INFO"), ("NCCL_VERSION", "2.28.9"), ("NCCL_TOPO_DUMP_FILE", "/tmp/topo.xml")];
                plain.iter().for_each(|(name, value)| inherits(run, name, value));
            },
            |_| {},
        ),
        (
            |run| {
                inherits(run, "NCCL_IB_HCA", "mlx5_0");
                run.run.header.plan.base.set("NCCL_IB_HCA", "mlx5_0");
            },
            |plan| _ = plan.base.set("NCCL_IB_HCA", "mlx5_0"),
        ),
        (|run| inherits(run, "NCCL_IB_HCA", "mlx5_0"), |plan| _ = plan.base.set("NCCL_IB_HCA", "mlx5_0")),
        (
            |run| {
                inherits(run, "NCCL_ALGO", "Tree");
                run.run.header.plan.sets[0].vars.set("NCCL_ALGO", "Ring");
            },
            |plan| _ = plan.sets[0].vars.set("NCCL_ALGO", "Ring"),
        ),
        (
            |run| {
                inherits(run, "NCCL_PROTO", "Simple");
                run.run.header.plan.clean_env = true;
            },
            |_| {},
        ),
    ];
    for (at, (alter, planned)) in held.into_iter().enumerate() {
        let line = line_of(alter, planned);
        assert_eq!(line.outcome, Outcome::Pass, "{at}: {line:?}");
    }
}

#[test]
fn what_the_shell_has_otherwise_than_the_plan_is_not_what_the_plan_has() {
    let line = line_of(|run| inherits(run, "NCCL_IB_HCA", "mlx5_1"), |plan| _ = plan.base.set("NCCL_IB_HCA", "mlx5_0"));
    assert_eq!(line.outcome, Outcome::NotMeasured);
    assert!(line.reason.unwrap().contains("NCCL_IB_HCA=mlx5_1"));
}

#[test]
fn a_run_under_settings_of_the_shell_is_refused_before_it_is_made() {
    let planned = run().run.header.plan;
    assert!(check(&run().run.header, &planned).is_ok());
    let error = check(&altered(|run| inherits(run, "NCCL_ALGO", "Tree")).run.header, &planned).unwrap_err();
    assert!(error.kind() == Kind::Usage && error.message().contains("NCCL_ALGO=Tree"), "{error}");
    assert!(["[base]", "clean-env = true", "unset"].iter().all(|way| error.next_step().unwrap().contains(way)));
}
