//! Variables of NCCL that processes have and nobody asked for: what starts them (`--wrap`) brings them, under every set.

use super::run::Header;
use super::visit::{Visit, WorkerFacts};
use crate::plan::environment::TOOL_VARIABLES;

/// Variables that are named.
const NAMED: usize = 8;

/// What is to be said of them, after the visits of the baseline.
pub(super) fn warning(header: &Header, baseline: &[Visit]) -> Option<String> {
    let first = baseline.iter().find_map(|visit| visit.worker.as_ref())?;
    let brought = brought(header, first);
    if brought.is_empty() {
        return None;
    }
    let named = brought.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = brought.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let who = match header.plan.wrap.first() {
        Some(wrap) => format!("--wrap {wrap}"),
        None => "what starts its processes".to_owned(),
    };
    let name = &header.plan.sets[header.plan.baseline().set].name;
    Some(format!("{name} is not NCCL's own default: {who} brings {named}{more} under every set"))
}

/// Each as `NAME=VALUE`: what neither the shell, the base, the set nor this program gave it.
fn brought(header: &Header, worker: &WorkerFacts) -> Vec<String> {
    let plan = &header.plan;
    let set = &plan.sets[plan.baseline().set].vars;
    let inherited = (!plan.clean_env).then_some(&header.provenance.inherited);
    let given = [&plan.base, set].into_iter().chain(inherited).chain(plan.rank_env.iter().map(|own| &own.vars));
    let given: Vec<_> = given.collect();
    // An agent's workers get the name of their host for NCCL.
    let ours = |name: &str| TOOL_VARIABLES.contains(&name) || name == "NCCL_HOSTID" && !plan.agents.is_empty();
    let is_new = |(name, _): &(&str, &str)| !ours(name) && given.iter().all(|vars| vars.get(name).is_none());
    let mut brought: Vec<String> =
        worker.variables.iter().filter(is_new).map(|(name, value)| format!("{name}={value}")).collect();
    brought.sort_unstable();
    brought
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::env_set::Vars;
    use crate::record::fixture;

    #[test]
    fn what_a_wrapper_brings_is_told_and_what_was_asked_for_is_not() {
        let mut run = fixture::two_sets();
        run.header.plan.base = Vars::from_iter([("NCCL_P2P_DISABLE", "1")]);
        run.header.plan.wrap = vec!["./with-nccl".to_owned()];
        let worker = run.visits[0].worker.as_mut().unwrap();
        worker.variables = Vars::from_iter([("NCCL_P2P_DISABLE", "1"), ("NCCL_DEBUG", "INFO")]);
        assert_eq!(warning(&run.header, &run.visits), None, "the base and this program");
        run.visits[0].worker.as_mut().unwrap().variables.set("NCCL_PROTO", "LL");
        let told = warning(&run.header, &run.visits).unwrap();
        assert_eq!(told, "default is not NCCL's own default: --wrap ./with-nccl brings NCCL_PROTO=LL under every set");
    }
}
