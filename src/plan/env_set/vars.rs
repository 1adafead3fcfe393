//! [`Vars`]: environment variables in order.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Variables in the order they were given, each once. Equality does not look at the order, as a process does not either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Vars(IndexMap<String, String>);

impl Vars {
    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets a variable, in its place when it is there already; gives the value it had.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) -> Option<String> {
        self.0.insert(name.into(), value.into())
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These variables laid over `base`: where both set one, these win.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let mut vars = base.clone();
        vars.0.extend(self.0.iter().map(|(name, value)| (name.clone(), value.clone())));
        vars
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Vars {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(vars: I) -> Self {
        Self(vars.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Display for Vars {
    /// As `--set` and `--base` read them: `K=V,K=V`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{name}={}", value.replace('\\', "\\\\").replace(',', "\\,"))?;
        }
        Ok(())
    }
}
