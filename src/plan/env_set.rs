//! Env sets: named groups of environment variables, each measured against the baseline.
//!
//! The first set is always [`DEFAULT`], which has no variables of its own. [`from_flags`] reads `--set` and `--vary`;
//! configuration files are read by [`super::config`].

mod flags;
mod rules;
mod vars;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub(super) use flags::unknown_set;
pub use flags::{base_from_flags, from_flags, named, rank_env_from_flags, select, written};
pub(super) use rules::{check_name, check_value, check_variable};
pub use vars::Vars;

use crate::error::{Error, Result};

/// The name of the baseline: NCCL as it comes.
pub const DEFAULT: &str = "default";
/// The tuned set of the box this tool was written for, measured against the baseline when nothing else is asked for.
pub const PCIE_LL: &str = "pcie-ll";
/// Every set costs a process a round; a larger product is a slip of the pen.
pub const MAX_SETS: usize = 512;

/// A named group of environment variables under which everything is measured once per round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EnvSet {
    /// Its name: head of a column, part of a file name.
    pub name: String,
    /// Its variables.
    pub vars: Vars,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl EnvSet {
    /// The baseline.
    #[must_use]
    pub fn baseline() -> Self {
        Self { name: DEFAULT.into(), vars: Vars::default(), note: None }
    }

    /// Whether this is the baseline.
    #[must_use]
    pub fn is_baseline(&self) -> bool {
        self.name == DEFAULT
    }
}

/// Whether variables that were read from a file are such as a flag or a configuration could have given.
#[must_use]
pub fn are_sound(vars: &Vars) -> bool {
    vars.iter().all(|(name, value)| check_variable(name).is_ok() && check_value(name, value).is_ok())
}

/// Variables of one rank's process alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RankEnv {
    /// The rank.
    pub rank: u32,
    /// Its variables; an empty value takes the variable away.
    pub vars: Vars,
}

/// What is wrong with a part of an env set, before it is known where that part stands.
#[derive(Debug)]
pub(super) struct Wrong {
    message: String,
    label: String,
    help: String,
}

impl Wrong {
    fn new(message: impl Into<String>, label: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), label: label.into(), help: help.into() }
    }

    pub(super) fn at(self, name: &str, text: &str, span: Range<usize>) -> Error {
        Error::usage(self.message).at(name, text, span, self.label).help(self.help)
    }
}

/// Where an env set was named: a flag or a configuration file, its text, and the bytes of the name.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) span: Range<usize>,
}

/// The sets in their order behind the baseline, when no two are the same in name or effect over `base`.
pub(super) fn collect(base: &Vars, sets: Vec<(EnvSet, Place<'_>)>) -> Result<Vec<EnvSet>> {
    let count = sets.len();
    let mut distinct = Distinct::new(base);
    let mut all = vec![EnvSet::baseline()];
    distinct.add(&all[0]).expect("the first set is like no other");
    for (i, (set, place)) in sets.into_iter().enumerate() {
        let fine = if i < MAX_SETS { distinct.add(&set) } else { Err(too_many(count)) };
        fine.map_err(|wrong| wrong.at(place.name, place.text, place.span))?;
        all.push(set);
    }
    Ok(all)
}

/// Fails when two sets have the same name or, over `base`, the same variables. For sets and a base from different places.
pub fn check_distinct(base: &Vars, sets: &[EnvSet]) -> Result<()> {
    let mut distinct = Distinct::new(base);
    let added = sets.iter().try_for_each(|set| distinct.add(set));
    added.map_err(|wrong| Error::usage(wrong.message).help(wrong.help))
}

/// Sets that differ from each other in name and in what a process would see.
struct Distinct<'a> {
    base: &'a Vars,
    known: Vec<(String, Vars)>,
}

impl<'a> Distinct<'a> {
    fn new(base: &'a Vars) -> Self {
        Self { base, known: Vec::new() }
    }

    fn add(&mut self, set: &EnvSet) -> Result<(), Wrong> {
        let name = &set.name;
        if self.known.iter().any(|(other, _)| other == name) {
            return Err(match name.as_str() {
                DEFAULT => Wrong::new(
                    "`default` is the baseline, the set without variables",
                    "taken",
                    "variables of every set, the baseline's too, go into --base or [base]",
                ),
                _ => Wrong::new(format!("two env sets are called `{name}`"), "the second", "rename one of them"),
            });
        }
        let effect = set.vars.over(self.base);
        if let Some((twin, _)) = self.known.iter().find(|(_, other)| *other == effect) {
            let message = format!("env sets `{twin}` and `{name}` have the same variables");
            return Err(Wrong::new(
                message,
                "measures the same again",
                "drop one: the rounds already repeat every set",
            ));
        }
        self.known.push((name.clone(), effect));
        Ok(())
    }
}

fn too_many(count: usize) -> Wrong {
    let help = "give fewer values, or name the sets you mean with --set";
    Wrong::new(format!("{count} env sets are more than {MAX_SETS}"), "too many", help)
}

/// One factor of a product: a variable and the values it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// The variable.
    pub variable: String,
    /// Its values, each once.
    pub values: Vec<String>,
}

/// Every combination of the factors' values, the last factor changing fastest.
pub fn product(factors: &[Vary]) -> Result<Vec<EnvSet>> {
    let count = factors.iter().map(|factor| factor.values.len()).try_fold(1_usize, usize::checked_mul);
    match count {
        Some(0) => {
            return Err(Error::usage("a variable to vary has no values").help("e.g. --vary NCCL_PROTO=LL,Simple"));
        }
        Some(n) if n <= MAX_SETS => {}
        _ => {
            let wrong = too_many(count.unwrap_or(usize::MAX));
            return Err(Error::usage(wrong.message).help(wrong.help));
        }
    }
    let mut sets = vec![Vars::default()];
    for factor in factors {
        let with = |vars: &Vars, value: &String| {
            let mut vars = vars.clone();
            vars.set(factor.variable.clone(), value.clone());
            vars
        };
        sets = sets.iter().flat_map(|vars| factor.values.iter().map(move |value| with(vars, value))).collect();
    }
    let mut named: Vec<EnvSet> = Vec::with_capacity(sets.len());
    for (i, vars) in sets.into_iter().filter(|vars| !vars.is_empty()).enumerate() {
        let name = rules::name_for(&vars);
        let name = if named.iter().any(|set| set.name == name) { rules::numbered(&name, i + 1) } else { name };
        named.push(EnvSet { name, vars, note: None });
    }
    Ok(named)
}

#[cfg(test)]
mod tests;
