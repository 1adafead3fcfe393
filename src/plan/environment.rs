//! The environment of a worker: layers of variables, each with where it comes from.
//!
//! Later wins: inherited < base < the env set < one rank's own < what ncclsweep itself must set.

use crate::nccl::is_variable;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::env_set::Vars;

/// `NCCL_*` variables that ncclsweep sets in every worker, because it cannot do without: its proof and what ranks that share
/// a GPU need.
pub const TOOL_VARIABLES: [&str; 5] =
    ["NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_PROFILER_PLUGIN", "NCCL_MULTI_RANK_GPU_ENABLE"];

/// Where a variable of a worker's environment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The environment ncclsweep was started in.
    Inherited,
    /// The configuration's `[base]` or `--base`.
    Base,
    /// The env set.
    Set,
    /// `--rank-env`: of one rank alone.
    Rank,
    /// ncclsweep itself.
    Tool,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Inherited => "inherited",
            Self::Base => "base",
            Self::Set => "set",
            Self::Rank => "one rank",
            Self::Tool => "ncclsweep",
        })
    }
}

/// A worker's whole environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, (String, Origin)>);

impl Environment {
    /// Starts from what was inherited; `clean` leaves its `NCCL_*` variables out.
    #[must_use]
    pub fn inherit(inherited: impl IntoIterator<Item = (String, String)>, clean: bool) -> Self {
        let kept = inherited.into_iter().filter(|(name, _)| !(clean && is_variable(name)));
        Self(kept.map(|(name, value)| (name, (value, Origin::Inherited))).collect())
    }

    /// Lays `vars` over what is there.
    #[must_use]
    pub fn layer(mut self, vars: &Vars, origin: Origin) -> Self {
        for (name, value) in vars.iter() {
            self.set(name, value, origin);
        }
        self
    }

    /// Lays the variables of one rank over what is there; an empty value takes the variable out.
    #[must_use]
    pub fn layer_of_rank(mut self, vars: &Vars) -> Self {
        for (name, value) in vars.iter() {
            match value {
                "" => self.remove(name),
                value => self.set(name, value, Origin::Rank),
            }
        }
        self
    }

    /// Sets one variable.
    pub fn set(&mut self, name: &str, value: &str, origin: Origin) {
        self.0.insert(name.to_owned(), (value.to_owned(), origin));
    }

    /// Takes one variable out.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|(value, _)| value.as_str())
    }

    /// Where a variable comes from.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<Origin> {
        self.0.get(name).map(|(_, origin)| *origin)
    }

    /// All variables with their origin, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, Origin)> {
        self.0.iter().map(|(name, (value, origin))| (name.as_str(), value.as_str(), *origin))
    }

    /// The `NCCL_*` variables with their origin.
    pub fn nccl(&self) -> impl Iterator<Item = (&str, &str, Origin)> {
        self.iter().filter(|(name, _, _)| is_variable(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited() -> Vec<(String, String)> {
        [("NCCL_PROTO", "Simple"), ("PATH", "/bin")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    #[test]
    fn a_later_layer_wins_and_says_where_it_came_from() {
        let set = Vars::from_iter([("NCCL_PROTO", "LL")]);
        let environment = Environment::inherit(inherited(), false).layer(&set, Origin::Set);
        assert_eq!(environment.nccl().collect::<Vec<_>>(), [("NCCL_PROTO", "LL", Origin::Set)]);
        assert_eq!(environment.get("PATH"), Some("/bin"));
    }

    #[test]
    fn a_rank_has_a_value_of_its_own_or_none() {
        let own = Vars::from_iter([("NCCL_PROTO", ""), ("NCCL_ALGO", "Ring")]);
        let environment = Environment::inherit(inherited(), false).layer_of_rank(&own);
        assert_eq!(environment.nccl().collect::<Vec<_>>(), [("NCCL_ALGO", "Ring", Origin::Rank)]);
    }

    #[test]
    fn a_clean_environment_drops_nccl_variables_and_nothing_else() {
        let environment = Environment::inherit(inherited(), true);
        assert_eq!(environment.iter().collect::<Vec<_>>(), [("PATH", "/bin", Origin::Inherited)]);
    }
}
