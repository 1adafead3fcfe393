//! `ncclsweep explain [NAME]`: what is known of NCCL's variables.

use super::answer::answer_text;
use super::exit::Exit;
use super::terminal;
use crate::error::{Error, Result};
use crate::nccl::catalogue::{self, Variable};

/// A part of a name that is shorter is in too many of them.
const SHORTEST: usize = 2;

/// Prints one variable, those that have a word in their names, or the list of all.
pub fn run(name: Option<&str>) -> Result<Exit> {
    let text = match name {
        Some(name) => one(name)?,
        None => list(&catalogue::all().iter().collect::<Vec<_>>()),
    };
    answer_text(text)
}

/// Lines no wider than the terminal, where blanks allow it; what is continued begins at `column`.
fn fitted(text: &str, column: usize) -> String {
    let deep = " ".repeat(column);
    let options = textwrap::Options::new(terminal::style().width)
        .subsequent_indent(&deep)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(textwrap::WordSeparator::AsciiSpace);
    // A link breaks nowhere, and would leave its name alone on a line.
    let fill = |line: &str| if line.contains("://") { line.to_owned() } else { textwrap::fill(line, &options) };
    text.lines().map(|line| fill(line) + "\n").collect()
}

fn one(name: &str) -> Result<String> {
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("NCCL_") { upper.clone() } else { format!("NCCL_{upper}") };
    if let Some(variable) = catalogue::get(&full) {
        let text = catalogue::explain(variable);
        let (meaning, facts) = text.split_once("\n\n").unwrap_or((&text, ""));
        return Ok(format!("{}\n{}", fitted(meaning, 2), fitted(facts, 12)));
    }
    if let Some(who) = catalogue::foreign(&full) {
        return Err(Error::usage(format!("NCCL does not read {full}: {who}")));
    }
    let named: Vec<&Variable> = catalogue::all().iter().filter(|variable| variable.name.contains(&upper)).collect();
    if !named.is_empty() && upper.len() >= SHORTEST {
        return Ok(list(&named));
    }
    let guess = catalogue::nearest(&full).map(|near| format!("did you mean {}? ", near.name)).unwrap_or_default();
    let message = match upper.starts_with("NCCL_") {
        true => format!("NCCL is not known to read {full}"),
        false => format!("no variable of NCCL has `{upper}` in its name"),
    };
    Err(Error::usage(message).help(format!("{guess}`ncclsweep explain` lists all variables")))
}

fn list(variables: &[&Variable]) -> String {
    let lines = variables.iter().map(|variable| format!("{:<34} {}\n", variable.name, variable.meaning));
    fitted(&lines.collect::<String>(), 35)
}
