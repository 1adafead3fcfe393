//! `ncclsweep explain [NAME]`: what is known of NCCL's variables.

use super::answer::answer_text;
use super::exit::Exit;
use crate::error::{Error, Result};
use crate::nccl::catalogue;

/// Prints one variable, or the list of all.
pub fn run(name: Option<&str>) -> Result<Exit> {
    let text = match name {
        Some(name) => one(name)?,
        None => all(),
    };
    answer_text(text)
}

fn one(name: &str) -> Result<String> {
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("NCCL_") { upper } else { format!("NCCL_{upper}") };
    if let Some(variable) = catalogue::get(&full) {
        return Ok(catalogue::explain(variable));
    }
    let guess = catalogue::nearest(&full).map(|near| format!("did you mean {}? ", near.name)).unwrap_or_default();
    Err(Error::usage(format!("NCCL is not known to read {full}"))
        .help(format!("{guess}`ncclsweep explain` lists all variables")))
}

fn all() -> String {
    catalogue::all().iter().map(|variable| format!("{:<34} {}\n", variable.name, variable.meaning)).collect()
}
