//! [`Form`]: a table or the document, of what has no other forms.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A form of an audit or a checkup, as `--format` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// For people at a terminal.
    #[default]
    Table,
    /// The whole document.
    Json,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Table => "table",
            Self::Json => "json",
        })
    }
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = |form: &Self| form.to_string().eq_ignore_ascii_case(text);
        [Self::Table, Self::Json]
            .into_iter()
            .find(known)
            .ok_or_else(|| Error::usage(format!("unknown format `{text}`")).help("one of: table, json"))
    }
}
