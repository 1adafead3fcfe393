//! What is to be said of a plan's settings before anything starts: what NCCL would spoil in silence is refused, the rest
//! warned of.

use super::args::Sweep as Args;
use crate::error::Result;
use crate::nccl::check::ThisBox;
use crate::nccl::version::NcclVersion;
use crate::plan::checked::{self, Leniency};
use crate::plan::env_set::EnvSet;
use crate::plan::environment::{Environment, Origin};
use crate::plan::inherited;
use crate::plan::schedule::Plan;
use crate::supervisor::audited::PLUGIN;
use crate::supervisor::provenance;
use crate::units;

/// Refuses what NCCL would spoil; gives what else is to be said. `nvlink` is whether NVLink connects all GPUs, when known.
pub(super) fn check(args: &Args, plan: &Plan, nvlink: Option<bool>) -> Result<Vec<String>> {
    let left_out = |name: String| format!("{name} is inherited with a value that is no UTF-8; no worker gets it");
    let mut warnings: Vec<String> = match plan.clean_env {
        true => Vec::new(),
        false => provenance::left_out().into_iter().map(left_out).collect(),
    };
    let environments: Vec<Environment> = (0..plan.sets.len()).map(|set| asked(plan, set)).collect();
    let sets: Vec<_> = plan.sets.iter().zip(&environments).collect();
    let releases = inherited::releases(plan);
    warnings.extend(inherited::warnings(&sets, &releases));
    warnings.extend(other_plugin(&sets));
    for version in releases {
        for warning in of_version(args, plan, version, nvlink)? {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    Ok(warnings)
}

/// What is to be said of sets that ask for a profiler plugin: ours gives way to it.
fn other_plugin(sets: &[(&EnvSet, &Environment)]) -> Option<String> {
    let asked =
        |environment: &Environment| environment.origin(PLUGIN).is_some_and(|origin| origin != Origin::Inherited);
    let names: Vec<String> =
        sets.iter().filter(|(_, environment)| asked(environment)).map(|(set, _)| set.name.clone()).collect();
    (!names.is_empty()).then(|| {
        format!("{}: {PLUGIN} takes the place of our own: what NCCL uses is not recorded", units::sets(&names))
    })
}

/// What is asked for in the processes of a set; what the program must set for itself is nobody's to judge.
pub(super) fn asked(plan: &Plan, set: usize) -> Environment {
    Environment::inherit(provenance::environment(), plan.clean_env)
        .layer(&plan.base, Origin::Base)
        .layer(&plan.sets[set].vars, Origin::Set)
}

fn of_version(args: &Args, plan: &Plan, version: Option<NcclVersion>, nvlink: Option<bool>) -> Result<Vec<String>> {
    let mut sets: Vec<(String, Environment)> = Vec::new();
    for (set, of) in plan.sets.iter().enumerate() {
        let mut environment = asked(plan, set);
        // An inherited profiler gives way to ours.
        if environment.origin(PLUGIN) == Some(Origin::Inherited) {
            environment.remove(PLUGIN);
        }
        let own = plan.rank_env.iter().map(|own| {
            let name = format!("{}, rank {}", of.name, own.rank);
            (name, environment.clone().layer_of_rank(&own.vars))
        });
        let own: Vec<_> = own.collect();
        sets.push((of.name.clone(), environment));
        sets.extend(own);
    }
    let leniency = Leniency { allow_unknown: args.allow_unknown, force: args.force };
    let sets = sets.iter().map(|(name, environment)| (name.as_str(), environment.clone()));
    let found = checked::findings(sets, version, &ThisBox { nvlink }, leniency);
    Ok(checked::refuse_errors(found)?.iter().map(ToString::to_string).collect())
}
