//! The evidence for a variable's state, in sentences: `asked: …`, `seen: …`, `read: …`, `used: …`.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::Asked;
use super::ranks::named_of;
use super::read::EnvRead;
use super::rules::{Look, threads_by_table};
use crate::nccl::catalogue::{self, Trace};
use crate::nccl::is_variable;
use crate::plan::environment::Origin;

/// What shows the state of a variable of which this value is asked for, in the order of its way.
pub(super) fn sentences(look: &Look, asked_for: &str) -> Vec<String> {
    let mut sentences = vec![asked(look.asked, asked_for)];
    sentences.extend(seen(look));
    sentences.extend(read(look));
    sentences.extend(used(look));
    sentences
}

fn asked(Asked { name, origin, .. }: &Asked, value: &str) -> String {
    let by = match origin {
        Origin::Inherited => "the inherited environment",
        Origin::Base => "the base",
        Origin::Set => "the set",
        Origin::Rank => "--rank-env",
        Origin::Tool => "ncclsweep",
    };
    format!("asked: {name}={value} by {by}")
}

fn seen(look: &Look) -> Vec<String> {
    let Asked { name, value, .. } = look.asked;
    let own = |rank: &u32| look.evidence.seen(*rank).and_then(|vars| vars.get(name)) == Some(value);
    let has: BTreeSet<u32> = look.ranks().filter(own).collect();
    let mut sentences = vec![match () {
        () if look.evidence.seen.is_empty() => "seen: no process told its environment".to_owned(),
        () if !is_variable(name) => "seen: not told, only variables of NCCL are".to_owned(),
        () if has.is_empty() => "seen: in no process's environment".to_owned(),
        () => format!("seen: in the environment of {}", named_of(&has, look.evidence.ranks())),
    }];
    let mut others: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for rank in look.ranks() {
        let own = look.evidence.seen(rank).and_then(|vars| vars.get(name)).filter(|own| own != value);
        own.into_iter().for_each(|own| _ = others.entry(own).or_default().insert(rank));
    }
    let other = |(own, ranks): (&str, BTreeSet<u32>)| {
        format!("seen: {name}={own} in the environment of {}", named_of(&ranks, look.evidence.ranks()))
    };
    sentences.extend(others.into_iter().map(other));
    let files = look.evidence.files.iter().filter(|line| line.name == *name);
    sentences.extend(files.map(|line| format!("seen: {}={} in {}", line.name, line.value, line.place)));
    sentences
}

fn read(look: &Look) -> Vec<String> {
    let Some(read) = &look.evidence.read else { return vec!["read: there is no log".to_owned()] };
    let line = |line: &EnvRead| {
        let who = match line.ranks.is_empty() {
            true => "by a process whose ranks are not known".to_owned(),
            false => format!("for {}", named_of(&line.ranks, look.evidence.ranks())),
        };
        let refused = if line.refused { ", and cannot be used" } else { "" };
        format!("read: {} = {}, {who}{refused}", line.name, line.value)
    };
    let mut sentences: Vec<String> = look.reads().map(line).collect();
    if sentences.is_empty() {
        sentences.push(format!("read: no line of the log names {}", look.asked.name));
    }
    sentences.extend(read.gaps.first().map(|gap| format!("read: the log has gaps: {gap}")));
    sentences
}

/// What was used, as far as the variable can show in it.
fn used(look: &Look) -> Vec<String> {
    let traces = catalogue::get(&look.asked.name).map_or(&[][..], |variable| &variable.trace);
    let mut sentences = Vec::new();
    if traces != [Trace::Transport] {
        sentences.push(look.used_in_words());
    }
    if traces.contains(&Trace::Warps) {
        let untold = look.all_used().unwrap_or_default().into_iter().filter(|used| used.threads().is_none());
        let most: BTreeSet<u32> = untold.filter_map(|used| threads_by_table(look, used)).flatten().collect();
        sentences.extend(
            most.iter().map(|most| format!("used: {most} threads at most (a table in NCCL's log, rank 0 for all)")),
        );
    }
    if traces.contains(&Trace::Channels) {
        let set_up = look.ranks().filter_map(|rank| look.logged(rank)).flatten().filter_map(|rank| rank.channels);
        let counts: BTreeSet<u32> = set_up.collect();
        if !counts.is_empty() {
            let were = if counts.last() == Some(&1) { "channel was" } else { "channels were" };
            let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
            sentences.push(format!("used: {} {were} set up", counts.join(" or ")));
        }
    }
    if traces.contains(&Trace::Transport) {
        let ways = look.pairs().unwrap_or_default();
        let ways: BTreeSet<String> = ways.values().flatten().map(|way| way.to_string()).collect();
        sentences.push(match ways.is_empty() {
            true => "used: how pairs on different GPUs are connected is not known".to_owned(),
            false => {
                format!("used: pairs on different GPUs go via {}", ways.into_iter().collect::<Vec<_>>().join(", "))
            }
        });
    }
    sentences
}
