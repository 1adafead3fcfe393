//! What became of buffers that were to be registered: a figure of an arm whose buffers NCCL left alone is one of buffers that
//! are not registered, and gets no verdict as another.

use super::run::{Cell, Run, Verdict};
use super::visit::Visit;
use crate::nccl::register::Registration;
use crate::plan::schedule::Arm;

/// What became of the buffers of an arm in all its visits; nothing where none were to be registered.
#[must_use]
pub fn of_arm<'a>(arm: Arm, visits: impl IntoIterator<Item = &'a Visit>) -> Option<Registration> {
    let of_visits = visits.into_iter().filter(|visit| visit.arm == arm).filter_map(|visit| visit.registration);
    of_visits.reduce(|mut all, one| {
        all.add(one);
        all
    })
}

/// The same of every arm of a run, in the order of its plan.
pub fn of_run(run: &Run) -> impl Iterator<Item = (Arm, Registration)> + '_ {
    run.header.plan.arms().filter_map(|arm| Some((arm, of_arm(arm, &run.visits)?)))
}

/// Takes a verdict back that would be one on registered buffers.
pub(super) fn withhold(cell: &mut Cell, visits: &[Visit]) {
    let Some(of) = of_arm(cell.arm, visits).filter(|of| of.left > 0) else { return };
    if matches!(cell.verdict, Verdict::Faster | Verdict::Slower | Verdict::Same) {
        let all = of.taken + of.left;
        cell.verdict_reason = Some(format!(
            "measured {}, but NCCL registered {} of {all} buffers: it does not support `{}` here",
            cell.verdict, of.taken, cell.arm.register
        ));
        cell.verdict = Verdict::Undecided;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::register::Register;
    use crate::record::fixture;

    #[test]
    fn what_nccl_left_unregistered_is_no_verdict_on_registering() {
        let run = fixture::two_sets();
        let (mut cell, mut visits) = (run.cells[5].clone(), run.visits.clone());
        cell.verdict = Verdict::Same;
        cell.arm.register = Register::Symmetric;
        for (taken, left, verdict) in [(12, 0, Verdict::Same), (0, 12, Verdict::Undecided)] {
            for visit in &mut visits {
                visit.arm = cell.arm;
                visit.registration = Some(Registration { taken, left });
            }
            let mut judged = cell.clone();
            withhold(&mut judged, &visits);
            assert_eq!(judged.verdict, verdict);
            let told = judged.verdict_reason.unwrap_or_default();
            assert_eq!(told.contains("does not support `symmetric` here"), left > 0, "{told}");
        }
    }
}
