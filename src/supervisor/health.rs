//! After a hang or a crash: whether the box is still one on which a figure counts.
//!
//! Two looks, each by a process of its own: every GPU must still be there and none may be busy with nothing, and a tiny
//! all-reduce must pass under an arm that has passed before. Nothing of it is recorded as a visit.

use std::time::Duration;

use super::bench::Bench;
use super::deadlines::{Deadlines, Pace};
use super::prepare::probe_again;
use super::private::Private;
use super::visit::{Planned, Setup, visit};
use crate::gpu::cuda::Device;
use crate::plan::schedule::{Arm, Measure, Plan};
use crate::record::visit::Outcome;
use crate::wire::Probe;

/// How long the tiny all-reduce may take in each phase.
const LIMIT: Duration = Duration::from_secs(60);
/// A GPU shows its load of the last second: one that was busy until the kill has to cool down first.
const LOOKS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(700);
/// From this load on a GPU without a process is wedged.
const BUSY: u32 = 95;
/// Indexes of visits have gaps nowhere near it, so that its seed is that of no visit.
const INDEX: u32 = u32::MAX / 2;

/// What is the matter with the box, and what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sick {
    /// What was found, naming the GPU by its PCI id where it is one.
    pub what: String,
    /// The next step.
    pub help: String,
}

/// GPUs as they were when the run began.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The GPUs of the plan.
    pub gpus: Vec<Device>,
    /// Their PCI ids which were busy then: what keeps them busy is not a failure of a visit.
    pub busy: Vec<String>,
}

/// Looks at the box after a visit that failed; `good` is an arm that has passed.
pub fn look(
    plan: &Plan,
    setup: &Setup,
    private: &Private,
    good: Option<Arm>,
    interrupted: &dyn Fn() -> bool,
) -> Option<Sick> {
    if interrupted() {
        return None;
    }
    for last in (0..LOOKS).map(|look| look + 1 == LOOKS) {
        let Ok(probe) = probe_again(setup, private, interrupted) else {
            return (!interrupted()).then(|| Sick {
                what: "the driver does not answer any more".to_owned(),
                help: "`nvidia-smi` and `dmesg | grep -i nvrm` tell more; reboot, then continue with --resume"
                    .to_owned(),
            });
        };
        match judge(&setup.before, &probe) {
            Some(sick) if last => return Some(sick),
            Some(_) => std::thread::sleep(PAUSE),
            None => break,
        }
    }
    good.and_then(|arm| try_out(plan, setup, private, arm, interrupted))
}

/// What is said of a host that was lost.
pub(super) fn lost_host(lost: &Outcome) -> Sick {
    Sick {
        what: lost.to_string(),
        help: "the launcher's own messages tell more; what was measured before is kept".to_owned(),
    }
}

/// Compares the GPUs with what they were.
fn judge(before: &Before, now: &Probe) -> Option<Sick> {
    let gpus = now.cuda.as_ref().map(|(_, gpus)| gpus.as_slice()).unwrap_or_default();
    if let Some(lost) = before.gpus.iter().find(|gpu| !gpus.iter().any(|other| other.uuid == gpu.uuid)) {
        return Some(Sick {
            what: format!("GPU {} ({}) is gone", lost.pci, lost.name),
            help: "`dmesg | grep Xid` tells why; power cables, riser, slot; reboot, then continue with --resume"
                .to_owned(),
        });
    }
    let processes = now.management.as_ref().map(|(_, processes)| processes.as_slice()).unwrap_or_default();
    let wedged = gpus.iter().zip(&now.loads).find(|(gpu, load)| {
        let ours = before.gpus.iter().any(|other| other.uuid == gpu.uuid) && !before.busy.contains(&gpu.pci);
        ours && load.is_some_and(|load| load >= BUSY) && !processes.iter().any(|process| process.gpu == gpu.uuid)
    });
    wedged.map(|(gpu, load)| Sick {
        what: format!("GPU {} shows {}% load without a process: it is wedged", gpu.pci, load.unwrap_or_default()),
        help: format!("`nvidia-smi --gpu-reset -i {}`, or reboot; then continue with --resume", gpu.pci),
    })
}

/// A tiny all-reduce under `arm`, tried twice: one failure may be the arm's own.
fn try_out(plan: &Plan, setup: &Setup, private: &Private, arm: Arm, interrupted: &dyn Fn() -> bool) -> Option<Sick> {
    let measure = Measure {
        graph_length: 1,
        replays: 2,
        launches: 1,
        batches: 2,
        calls: 2,
        checks: 1,
        passes: 1,
        rotate: false,
        keep: false,
    };
    let smallest = plan.cases.iter().min_by_key(|case| case.bytes().0)?;
    let tiny = Plan { cases: vec![*smallest], communicators: 1, measure, ..plan.clone() };
    let mut pace = Pace::new(Deadlines::all(LIMIT.min(setup.deadlines.setup)));
    let mut last = Outcome::Completed;
    for attempt in 0..2 {
        let planned = Planned { index: INDEX + attempt, round: 0, arm, untimed: false };
        last = visit(&tiny, setup, private, planned, &mut pace, interrupted, &mut |_| {}).outcome;
        if matches!(last, Outcome::Completed | Outcome::Interrupted) {
            return None;
        }
    }
    Some(Sick {
        what: format!("a tiny all-reduce under {}, which passed before, {last}", plan.arm_name(arm)),
        help: "a GPU or its driver is not what it was: `dmesg | grep -iE 'xid|nvrm'`; reset or reboot, then continue with --resume"
            .to_owned(),
    })
}

impl Before {
    /// The GPUs of `plan` on this bench.
    #[must_use]
    pub fn of(bench: &Bench, loads: &[Option<u32>]) -> Self {
        let busy = bench.gpus.iter().zip(loads).filter(|(_, load)| load.is_some_and(|load| load >= BUSY));
        Self { gpus: bench.gpus.clone(), busy: busy.map(|(gpu, _)| gpu.pci.clone()).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::nvml::Process;
    use crate::record::fixture;

    fn before() -> Before {
        Before { gpus: fixture::two_sets().header.provenance.gpus, busy: Vec::new() }
    }

    fn now(loads: u32) -> Probe {
        let gpus = before().gpus;
        Probe {
            loads: vec![Some(loads); gpus.len()],
            wiring: crate::topology::Driver::default(),
            cuda: Ok(("13.0".to_owned(), gpus)),
            management: Ok(("580.159.04".to_owned(), Vec::new())),
            nccl: Ok((crate::nccl::version::NcclVersion::new(2, 28, 9), None)),
        }
    }

    #[test]
    fn idle_gpus_are_well() {
        assert_eq!(judge(&before(), &now(3)), None);
    }

    #[test]
    fn a_gpu_that_is_gone_is_named_by_its_pci_id() {
        let mut probe = now(0);
        let lost = probe.cuda.as_mut().unwrap().1.remove(4);
        assert!(judge(&before(), &probe).unwrap().what.contains(&lost.pci));
        probe.cuda = Err(crate::gpu::GpuError::Missing { library: "CUDA".into(), what: "no device".into() });
        assert!(judge(&before(), &probe).unwrap().what.contains("is gone"));
    }

    #[test]
    fn full_load_without_a_process_is_wedged_and_with_one_it_is_not() {
        let mut probe = now(0);
        probe.loads[2] = Some(100);
        let sick = judge(&before(), &probe).unwrap();
        assert!(sick.what.contains(&before().gpus[2].pci) && sick.help.contains("--gpu-reset"), "{sick:?}");
        let gpu = before().gpus[2].uuid.clone();
        let process = Process { gpu, pid: 7, name: None, memory_mib: None };
        probe.management.as_mut().unwrap().1.push(process);
        assert_eq!(judge(&before(), &probe), None);
    }

    #[test]
    fn a_gpu_that_was_busy_before_the_run_is_not_its_failure() {
        let mut probe = now(0);
        probe.loads[2] = Some(100);
        let before = Before { busy: vec![before().gpus[2].pci.clone()], ..before() };
        assert_eq!(judge(&before, &probe), None);
    }
}
