//! What a name of a set, a variable and a value may be, and the names of the sets of a product.

use super::{Vars, Wrong};

const MAX_NAME: usize = 64;
/// NCCL cuts values of its configuration files at 1023 bytes; no variable of its own needs more than a few hundred.
const MAX_VALUE: usize = 4096;

fn fits_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._+=-".contains(c)
}

/// Names become heads of columns and parts of file names.
pub(in crate::plan) fn check_name(name: &str) -> Result<(), Wrong> {
    let rule = "letters, digits and . _ + = -, a letter or digit first, at most 64: ll-16ch";
    if name.is_empty() {
        return Err(Wrong::new("an env set has no name", "a name is missing here", rule));
    }
    if name.len() > MAX_NAME {
        return Err(Wrong::new(
            format!("the name of an env set is longer than {MAX_NAME} characters"),
            "too long",
            rule,
        ));
    }
    if let Some(c) = name.chars().find(|c| !fits_name(*c)) {
        return Err(Wrong::new(format!("`{name}` cannot be the name of an env set"), format!("holds {c:?}"), rule));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(Wrong::new(format!("`{name}` cannot be the name of an env set"), "starts with a sign", rule));
    }
    Ok(())
}

/// Variables are named as shells export them. Whether NCCL knows the variable is a question for its catalogue.
pub(in crate::plan) fn check_variable(name: &str) -> Result<(), Wrong> {
    let upper = |text: &str| {
        text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && !text.is_empty()
    };
    if upper(name) {
        return Ok(());
    }
    if name.is_empty() {
        return Err(Wrong::new("a variable has no name", "a name is missing before `=`", "e.g. NCCL_PROTO=LL"));
    }
    let capital = name.trim().to_uppercase();
    let help = match upper(&capital) {
        true => format!("did you mean `{capital}`? names are case-sensitive"),
        false => "capital letters, digits and _, e.g. NCCL_PROTO".into(),
    };
    Err(Wrong::new(format!("`{name}` is no name of an environment variable"), "not a variable", help))
}

/// A value may be anything a process can be given and a log line can show.
pub(in crate::plan) fn check_value(variable: &str, value: &str) -> Result<(), Wrong> {
    if value.len() > MAX_VALUE {
        let message = format!("the value of {variable} is longer than {MAX_VALUE} bytes");
        return Err(Wrong::new(message, "too long", "NCCL itself cuts values of its files at 1023 bytes"));
    }
    match value.chars().find(|c| c.is_control()) {
        Some(c) => {
            let message = format!("the value of {variable} holds a control character");
            Err(Wrong::new(message, format!("{c:?}"), "write it on one line, without tabs"))
        }
        None => Ok(()),
    }
}

/// `PROTO=LL+NTHREADS=256` for a set of a product: what does not fit a name becomes `_`.
pub(super) fn name_for(vars: &Vars) -> String {
    let part = |(name, value): (&str, &str)| format!("{}={value}", name.strip_prefix("NCCL_").unwrap_or(name));
    let name = vars.iter().map(part).collect::<Vec<_>>().join("+");
    let name: String = name.chars().map(|c| if fits_name(c) { c } else { '_' }).collect();
    // `_` may come first in a variable's name but not in a set's.
    name.trim_start_matches('_').chars().take(MAX_NAME).collect()
}

/// A name that its number in the product tells from another that was cut or changed to the same.
pub(super) fn numbered(name: &str, number: usize) -> String {
    let suffix = format!("-{number}");
    let keep = name.len().min(MAX_NAME - suffix.len());
    format!("{}{suffix}", &name[..keep])
}
