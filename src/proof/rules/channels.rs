//! Numbers of channels: bounds on how many are set up, of which small sizes use fewer.

use super::look::Look;
use crate::proof::ranks::{Finding, Outcome};
use crate::proof::used::{Channels, Used};
use crate::proof::variable::State;

/// Bounds for NVLS are those of blocks (CTAS) only, which are taken where they are 1 or more.
fn has_its_own(look: &Look) -> Option<Outcome> {
    let blocks = look.asked.name.ends_with("_CTAS");
    if look.number() < 1 && (blocks || look.asked.name.contains("_MIN_")) {
        return Some(Outcome::new(State::NoEffectHere, "only 1 and more count"));
    }
    let nvls = !blocks && look.all_used().is_some_and(|used| used.iter().all(|used| used.nvls()));
    nvls.then(|| Outcome::new(State::NoEffectHere, "NVLS has channels of its own"))
}

/// Channels that every communicator of `rank` was set up with, least and most.
fn set_up(look: &Look, rank: u32) -> Option<(u32, u32)> {
    let each: Option<Vec<u32>> = look.logged(rank)?.into_iter().map(|rank| rank.channels).collect();
    let each = each?;
    Some((*each.iter().min()?, *each.iter().max()?))
}

/// A maximum holds when no more were set up and no more were used; without a log, when no more were used.
pub(super) fn most(look: &Look) -> Outcome {
    if let Some(outcome) = has_its_own(look) {
        return outcome;
    }
    // NCCL takes 1 for less.
    let limit = look.number().max(1);
    let ranks = |rank: u32| {
        let used = look.used(rank).unwrap_or_default();
        let most = used.iter().filter_map(|used| used.channels).map(|channels| match channels {
            Channels::Exactly(count) => Some(count),
            Channels::AtMost(count) => (i64::from(count) <= limit).then_some(count),
        });
        let used: Option<Vec<u32>> = most.collect();
        let used = used.and_then(|used| used.into_iter().max());
        match (used, set_up(look, rank).map(|(_, most)| most)) {
            (Some(used), _) if i64::from(used) > limit => Finding::Lacks(format!("{used} channels were used")),
            (_, Some(all)) if i64::from(all) > limit => {
                Finding::Lacks(format!("{all} channels were set up{}", against(look)))
            }
            (_, Some(_)) => Finding::Holds,
            // A log that lost the line may have lost the proof of the contrary.
            (Some(_), None) if look.evidence.read.is_none() => Finding::Holds,
            _ => Finding::Unknown("how many channels were set up is not known".to_owned()),
        }
    };
    look.each_rank(ranks)
}

fn against(look: &Look) -> String {
    let least = ["NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS"].into_iter().find_map(|name| Some((name, look.other(name)?)));
    match least {
        Some((name, least)) if least > look.number() => format!(", as {name} asks for {least}"),
        _ => String::new(),
    }
}

/// A minimum holds when so many were set up, as many as NCCL has at most.
pub(super) fn least(look: &Look) -> Outcome {
    if let Some(outcome) = has_its_own(look) {
        return outcome;
    }
    let cap = if look.version().is_some_and(|version| !version.at_least(2, 25)) { 32 } else { 64 };
    let limit = look.number().min(cap);
    let ranks = |rank: u32| {
        let exact = |used: &Used| match used.channels {
            Some(Channels::Exactly(count)) => Some(i64::from(count)),
            _ => None,
        };
        let used: Option<Vec<i64>> = look.used(rank).map(|used| used.iter().filter_map(|used| exact(used)).collect());
        match (set_up(look, rank), used.and_then(|used| used.into_iter().min())) {
            (Some((least, _)), _) if i64::from(least) >= limit => Finding::Holds,
            (Some((least, _)), _) => Finding::Lacks(match least {
                1 => "1 channel was set up".to_owned(),
                _ => format!("{least} channels were set up"),
            }),
            (None, Some(used)) if used >= limit => Finding::Holds,
            _ => Finding::Unknown("how many channels were set up is not known: small sizes use fewer".to_owned()),
        }
    };
    look.each_rank(ranks)
}

/// Channels of NVLS, where that is used.
pub(super) fn nvls(look: &Look) -> Outcome {
    if look.none_used(Used::nvls) {
        return Outcome::new(State::NoEffectHere, "NVLS is not used");
    }
    look.each_use(|_, used| match used.channels {
        _ if !used.nvls() => Finding::Holds,
        Some(Channels::Exactly(count)) if i64::from(count) == look.number() => Finding::Holds,
        Some(Channels::Exactly(count)) if i64::from(count) > look.number() => {
            Finding::Lacks(format!("{count} channels were used"))
        }
        // A channel has some KiB to do at least.
        Some(Channels::Exactly(count)) => Finding::Unknown(format!("{count} were used: small sizes use fewer")),
        _ => Finding::Unknown("how many channels were used is not known".to_owned()),
    })
}
