//! [`Own`]: of a run what the plan asks for. What it measured beside that is nobody's to judge.

use crate::error::Result;
use crate::plan::schedule::{Arm, Plan};
use crate::record::run::{Cell, Run};
use crate::record::stored::Stored;
use crate::record::summary::Tally;
use crate::record::visit::Visit;

/// A run, of which the plan's own arms and cases are looked at.
pub(super) struct Own<'a> {
    /// Its document, whole.
    pub(super) run: &'a Run,
    /// A value per communicator, and what went wrong.
    pub(super) tally: Tally,
    planned: &'a Plan,
}

impl<'a> Own<'a> {
    pub(super) fn of(run: &'a Stored, planned: &'a Plan) -> Result<Self> {
        let tallied = run.tallied()?;
        Ok(Self { run: tallied.run, tally: tallied.tally, planned })
    }

    pub(super) fn plan(&self) -> &'a Plan {
        &self.run.header.plan
    }

    /// Arms that the plan asks for.
    pub(super) fn arms(&self) -> impl Iterator<Item = Arm> {
        self.plan().arms().filter(|arm| asks_arm(self.planned, self.plan(), *arm))
    }

    /// Visits of those arms.
    pub(super) fn visits(&self) -> impl Iterator<Item = &'a Visit> {
        self.run.visits.iter().filter(|visit| asks_arm(self.planned, self.plan(), visit.arm))
    }

    /// Cells that the plan asks for.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'a Cell> {
        self.run.cells.iter().filter(|cell| asks(self.planned, self.plan(), cell.arm, cell.case))
    }
}

/// Whether a plan asks for this cell of a run that was `made`.
pub(super) fn asks(planned: &Plan, made: &Plan, arm: Arm, case: usize) -> bool {
    asks_arm(planned, made, arm) && planned.cases.contains(&made.cases[case])
}

/// Libraries are the box's: a plan names none.
fn asks_arm(planned: &Plan, made: &Plan, arm: Arm) -> bool {
    planned.sets.iter().any(|set| set.name == made.sets[arm.set].name)
        && planned.launches.contains(&arm.launch)
        && planned.alive.contains(&arm.alive)
        && planned.registers.contains(&arm.register)
}

#[cfg(test)]
mod tests;
