//! `--floor`: what an all-reduce costs at least on this box, measured by a process of its own under a deadline. That it fails
//! costs the floor and nothing else.

use std::time::{Duration, Instant};

use super::child::{Child, Heard, Spec, WIRE_FD, signal_of};
use super::prepare::lead_to_libraries;
use super::private::Private;
use super::visit::Setup;
use crate::error::Result;
use crate::plan::environment::Environment;
use crate::plan::schedule::Plan;
use crate::record::floor::{Floor, Over, Ways};
use crate::record::journal::Journal;
use crate::units;
use crate::wire::{self, FloorEvent, FloorJob, Received};

/// The hidden command that makes the executable look for the floor.
pub const FLOOR: &str = "__floor";

/// How long it may take to end once it has said its last word.
const EXIT: Duration = Duration::from_secs(10);

/// Measures the floor of `plan`, over the ways that the visits of `journal` used; over both where their logs do not tell. Nothing
/// comes of it when the user interrupts.
pub fn measure(
    plan: &Plan,
    setup: &Setup,
    private: &Private,
    journal: &Journal,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<Floor>> {
    let mut used = Vec::new();
    for arm in plan.arms() {
        let visits = journal.measured(arm).map(|entry| journal.read(entry)).collect::<Result<Vec<_>>>()?;
        used.extend(Ways::of(&visits).in_use());
    }
    let ways: Vec<Over> = Over::ALL.into_iter().filter(|over| used.is_empty() || used.contains(over)).collect();
    let begun = Instant::now();
    let mut floor =
        Floor { started: jiff::Timestamp::now(), seconds: 0.0, kernels: Vec::new(), hops: Vec::new(), failed: None };
    floor.failed = match follow(&mut floor, &job(plan, &ways), setup, private, interrupted) {
        Followed::Done => None,
        Followed::Failed(why) => Some(why),
        Followed::Interrupted => return Ok(None),
    };
    floor.seconds = begun.elapsed().as_secs_f64();
    Ok(Some(floor))
}

/// Every two GPUs by every way, and every GPU with itself where ranks share one.
fn job(plan: &Plan, ways: &[Over]) -> FloorJob {
    let gpus = &plan.devices;
    let pairs = gpus.iter().enumerate().flat_map(|(at, a)| gpus[at + 1..].iter().map(move |b| [*a, *b]));
    let mut hops: Vec<([u32; 2], Over)> = pairs.flat_map(|pair| ways.iter().map(move |over| (pair, *over))).collect();
    if plan.oversubscribed() {
        hops.extend(gpus.iter().flat_map(|gpu| ways.iter().map(move |over| ([*gpu, *gpu], *over))));
    }
    FloorJob { version: wire::VERSION, devices: gpus.clone(), hops, chain: plan.measure.graph_length }
}

/// How it went.
enum Followed {
    Done,
    Failed(String),
    Interrupted,
}

fn follow(
    floor: &mut Floor,
    job: &FloorJob,
    setup: &Setup,
    private: &Private,
    interrupted: &dyn Fn() -> bool,
) -> Followed {
    // NCCL takes no part in it.
    let mut environment = Environment::inherit(setup.inherited.iter().cloned(), true);
    if let Some(folder) = setup.library_folders.first() {
        lead_to_libraries(&mut environment, folder, setup.emulation.as_ref());
    }
    let arguments = [FLOOR.to_owned(), WIRE_FD.to_string()];
    let output = private.file("floor.out");
    let spec = Spec { wrap: &[], arguments: &arguments, environment: &environment, output: &output };
    let mut child: Child<FloorEvent> = match Child::spawn(&spec, Some(job)) {
        Ok(child) => child,
        Err(error) => return Followed::Failed(format!("its process did not start: {error}")),
    };
    let mut limit = setup.deadlines.setup;
    let followed = loop {
        match child.hear(limit, interrupted) {
            Heard::Received(Received::Message(FloorEvent::Kernel { kernel })) => floor.kernels.push(kernel),
            Heard::Received(Received::Message(FloorEvent::Hop { hop })) => floor.hops.push(hop),
            Heard::Received(Received::Message(FloorEvent::Failed { error })) => {
                break Followed::Failed(error.to_string());
            }
            Heard::Received(Received::Message(FloorEvent::Done)) => break Followed::Done,
            Heard::Received(Received::Garbage(what)) => break Followed::Failed(format!("its process said {what}")),
            Heard::Received(Received::End) => break Followed::Failed(ended(&mut child)),
            Heard::Silence => {
                let limit = units::limit(limit.as_secs_f64());
                break Followed::Failed(format!("its process said nothing for {limit} and was killed"));
            }
            Heard::Interrupted => break Followed::Interrupted,
        }
        limit = setup.deadlines.phase;
    };
    let patience = if matches!(followed, Followed::Done) { EXIT } else { Duration::ZERO };
    if !matches!(child.wait(patience, interrupted), Ok(Some(_))) {
        // One that cannot be killed is the kernel's to end; the floor is no reason to wait for it.
        let _ = child.end();
    }
    followed
}

/// How a process ended that said nothing of it.
fn ended(child: &mut Child<FloorEvent>) -> String {
    match child.wait(Duration::from_secs(1), || false) {
        Ok(Some(status)) => match signal_of(status) {
            Some(signal) => format!("its process crashed with {signal}"),
            None => format!("its process ended with status {}", status.code().unwrap_or(-1)),
        },
        Ok(None) | Err(_) => "its process fell silent".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fixture;

    #[test]
    fn every_two_gpus_are_asked_for_once_and_one_with_itself_where_ranks_share_it() {
        let plan = Plan { devices: vec![2, 0, 1], ranks: 3, ..fixture::two_sets().header.plan };
        let pairs: Vec<[u32; 2]> = job(&plan, &[Over::HostMemory]).hops.into_iter().map(|(pair, _)| pair).collect();
        assert_eq!(pairs, [[2, 0], [2, 1], [0, 1]]);
        let shared = Plan { devices: vec![0], ranks: 2, ..plan };
        assert_eq!(job(&shared, &Over::ALL).hops, [([0, 0], Over::PeerMemory), ([0, 0], Over::HostMemory)]);
    }
}
