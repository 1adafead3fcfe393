//! Settings: those that all workers share, those that differ, and those that came too late.

use super::pids;
use crate::audit::{self, Audit, Spread};
use crate::nccl::catalogue::{self, ReadAt};
use crate::report::head::Line;
use crate::report::ink::{Tone, plain};
use crate::units::plural;

/// NCCL's name for the plugin that tells all this.
const OURS: (&str, &str) = ("NCCL_PROFILER_PLUGIN", "libnccl_profiler_ncclsweep.so");

/// The lines, in their order.
pub(super) fn lines(audit: &Audit) -> Vec<Line> {
    let is_ours = |spread: &Spread| {
        let ours = |value: &Option<String>| value.as_ref().is_some_and(|value| value.ends_with(OURS.1));
        spread.name == OURS.0 && spread.values.iter().all(|(value, _)| ours(value))
    };
    let spreads: Vec<Spread> = audit::spreads(audit).into_iter().filter(|spread| !is_ours(spread)).collect();
    let (common, differing): (Vec<_>, Vec<_>) = spreads.iter().partition(|spread| spread.is_common());
    let mut lines = Vec::new();
    if spreads.is_empty() {
        lines.push(Line::new("settings", "none: no process has a variable of NCCL's"));
    }
    lines.extend(common.into_iter().map(|spread| Line::new("settings", shared(audit, spread))));
    lines.extend(differing.into_iter().map(|spread| Line::new("differs", difference(audit, spread))));
    lines.extend(late(audit).into_iter().map(|text| Line::new("too late", text)));
    lines
}

/// `NCCL_PROTO=LL · environment`.
fn shared(audit: &Audit, spread: &Spread) -> String {
    let value = spread.values.first().and_then(|(value, _)| value.as_deref()).unwrap_or_default();
    let mut sources: Vec<String> = Vec::new();
    for setting in audit.workers.iter().flat_map(|worker| &worker.settings).filter(|own| own.name == spread.name) {
        let source = setting.source.to_string();
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    let sources = Tone::Quiet.ink(&plain(&sources.join(" or ")));
    format!("{}={} · {sources}", spread.name, plain(value))
}

/// `NCCL_PROTO=LL in 7 of 8 workers; missing in pid 4123 (rank 1 of 8), parent 4100`.
fn difference(audit: &Audit, spread: &Spread) -> String {
    let all = audit.workers.len();
    let named = |(value, workers): &(Option<String>, Vec<usize>), alone: bool| {
        let who = if alone { String::new() } else { format!(" {}", pids(audit, workers)) };
        match value {
            Some(value) if alone => {
                let source = source(audit, spread, workers);
                let some = format!("{} of {}", workers.len(), plural(all, "worker"));
                format!("{} in {some} ({source})", Tone::Bad.ink(&format!("{}={}", spread.name, plain(value))))
            }
            Some(value) => format!("{} in{who} ({})", plain(value), source(audit, spread, workers)),
            None => format!("missing in{who}"),
        }
    };
    // Values go before the absence, the most common first, whose workers need no naming.
    let mut values: Vec<_> = spread.values.iter().collect();
    values.sort_by_key(|(value, _)| value.is_none());
    let few = values.len() == 2 && values[1].0.is_none() && values[0].1.len() * 2 <= all;
    let mut texts: Vec<String> = values.iter().enumerate().map(|(at, value)| named(value, at == 0)).collect();
    if few {
        // Those that have it are the exception.
        texts[0].push_str(&format!(": {}", pids(audit, &values[0].1)));
    }
    texts.join("; ")
}

fn source(audit: &Audit, spread: &Spread, workers: &[usize]) -> String {
    let first = workers.first().and_then(|at| audit.workers.get(*at));
    let own = first.and_then(|worker| worker.settings.iter().find(|own| own.name == spread.name));
    own.map_or_else(String::new, |own| plain(&own.source.to_string()))
}

/// Variables that a process changed after its first communicator.
fn late(audit: &Audit) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for (at, worker) in audit.workers.iter().enumerate() {
        for (name, value) in worker.communicators.iter().flat_map(|communicator| &communicator.changes) {
            let what = match value {
                Some(value) => format!("{name}={} was set", plain(value)),
                None => format!("{name} was taken away"),
            };
            let anew = catalogue::get(name).is_some_and(|variable| variable.read == ReadAt::Init);
            let effect = match anew {
                true => "it counts for the communicators that began later",
                false => "NCCL had read it by then and keeps what it found",
            };
            let text =
                format!("{} after the first communicator of {}: {effect}", Tone::Bad.ink(&what), pids(audit, &[at]));
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    texts
}
