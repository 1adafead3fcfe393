//! One value against what its variable takes.

use std::path::Path;

use super::{BoxFacts, Context, Fault};
use crate::nccl::catalogue::{Kind, Variable, Word};
use crate::nccl::levels::PathLevel;
use crate::nccl::lists::{self, List};
use crate::nccl::number::strtoll;
use crate::nccl::version::NcclVersion;
use crate::nccl::words::Protocol;

/// What is wrong with `value` for `variable`.
pub fn check(variable: &Variable, value: &str, context: &Context) -> Vec<Fault> {
    let version = context.version;
    let listed = matches!(variable.kind, Kind::Algorithms | Kind::Protocols | Kind::Text);
    if value.is_empty() && !listed {
        return vec![Fault::warning("is set to nothing: NCCL takes that as not set")];
    }
    if value.contains('\0') {
        return vec![Fault::error("holds a zero byte, which no environment can carry")];
    }
    match &variable.kind {
        Kind::Algorithms => list(&lists::algorithms(value, version), version),
        Kind::Protocols => list::<Protocol>(&lists::protocols(value, version), version),
        Kind::Level => level(value, version),
        Kind::Integer { min, max, step, .. } => integer(variable, value, (*min, *max, *step), version),
        Kind::Switch(values) => switch(value, values),
        Kind::Exact1 => exact1(value),
        Kind::Boolean => boolean(value, version),
        Kind::Words { of, ignore_case, separator } => words(value, of, *ignore_case, *separator, version),
        Kind::Flags(of) => flags(value, of, version),
        Kind::Interfaces => names(value, context.facts.interfaces(), "interface"),
        Kind::Adapters => names(value, context.facts.adapters(), "adapter"),
        Kind::Read => file(value, context.facts, false),
        Kind::Write => file(value, context.facts, true),
        Kind::Plugin | Kind::Text => Vec::new(),
    }
}

fn list<T: Clone + PartialEq>(list: &List<T>, version: Option<NcclVersion>) -> Vec<Fault> {
    let fault = |fault: &lists::Fault| {
        if matches!(fault, lists::Fault::Unchecked(_)) {
            return Fault::warning(fault.to_string());
        }
        let then = match version {
            _ if list.refused => "the communicator's initialisation fails",
            _ => "NCCL drops it in silence",
        };
        let found = Fault::error(format!("{fault}: {then}"));
        match fault {
            lists::Fault::Unknown { word, .. } if word.trim() != word => found.help("write the list without blanks"),
            lists::Fault::NoFunction(_) => {
                found.help("separate words by commas, collectives by semicolons: ring,tree;broadcast:ring")
            }
            lists::Fault::TooEarly(_) => found.help("name the words only: ring,tree"),
            lists::Fault::UnknownFunction(_) => {
                found.help("collectives are broadcast, reduce, allgather, reducescatter, allreduce")
            }
            _ => found,
        }
    };
    list.faults.iter().map(fault).collect()
}

fn level(value: &str, version: Option<NcclVersion>) -> Vec<Fault> {
    if let Some(level) = PathLevel::read(value, version) {
        let number = level.name() != value;
        let fault = || Fault::warning(format!("is a number, as old scripts have it: {level}"));
        return number.then(fault).into_iter().collect();
    }
    let fault = Fault::error(format!("has no path level `{value}`: NCCL ignores it in silence and decides itself"));
    let upper = value.trim().to_uppercase();
    vec![match upper.as_str() {
        "NODE" => fault.help("nvidia-smi's NODE is PHB here, or SYS"),
        _ if PathLevel::read(&upper, version).is_some() => fault.help(format!("write {upper}")),
        _ => fault.help("levels are LOC NVL PIX PXB PHB SYS, in capitals"),
    }]
}

fn integer(
    variable: &Variable,
    value: &str,
    (min, max, step): (Option<i64>, Option<i64>, Option<i64>),
    version: Option<NcclVersion>,
) -> Vec<Fault> {
    let mut faults = as_number(value);
    let number = strtoll(value).value;
    // What NCCL itself uses for `not set`.
    if !faults.is_empty() || number == -2 {
        return faults;
    }
    let channels =
        variable.name.ends_with("NCHANNELS") || variable.name.ends_with("CTAS") || variable.name.ends_with("NRINGS");
    let cap = if version.is_some_and(|version| !version.at_least(2, 25)) { 32 } else { 64 };
    match number {
        n if channels && n > cap => {
            faults.push(Fault::warning(format!("is taken as {cap}: NCCL has no more channels")))
        }
        n if variable.name == "NCCL_BUFFSIZE" && n < 1024 => {
            let message = "is too small for the eight steps of a buffer: NCCL does not check it and may crash";
            faults.push(Fault::error(message).help("the default is 4194304"));
        }
        n if min.is_some_and(|min| n < min) => {
            let min = min.unwrap_or_default();
            faults.push(Fault::warning(format!("is {n}, below {min}, the least that makes sense")));
        }
        n if max.is_some_and(|max| n > max) => {
            let max = max.unwrap_or_default();
            faults.push(Fault::warning(format!("is {n}, above {max}, the most that NCCL takes")));
        }
        n => {
            if let Some(step) = step.filter(|step| *step > 0 && n % step != 0) {
                let max = max.unwrap_or_default();
                faults.push(Fault::error(format!("is {n}, no multiple of {step}: NCCL takes its maximum, {max}")));
            }
        }
    }
    faults
}

/// What is wrong with a value as a number of C.
fn as_number(value: &str) -> Vec<Fault> {
    let number = strtoll(value);
    let read = number.value;
    if !number.digits {
        return vec![
            Fault::error(format!("is `{value}`, no number: NCCL reads it as 0")).help("write a number without unit"),
        ];
    }
    if number.overflow {
        return vec![Fault::error(format!("is `{value}`, which does not fit: NCCL keeps its default"))];
    }
    let rest = number.rest.trim();
    if rest.is_empty() && !number.rest.is_empty() {
        return vec![Fault::warning(format!("has blanks at its end; NCCL reads {read}"))];
    }
    if rest.starts_with('#') {
        return vec![Fault::warning(format!("is read as {read}: NCCL passes over `{rest}`"))];
    }
    if !rest.is_empty() {
        let fault = Fault::error(format!("is read as {read}, not `{value}`: NCCL knows no units"));
        let shift = match rest.to_ascii_uppercase().as_str() {
            "K" | "KB" | "KIB" => Some(10),
            "M" | "MB" | "MIB" => Some(20),
            "G" | "GB" | "GIB" => Some(30),
            _ => None,
        };
        let meant = shift.and_then(|shift: u32| read.checked_mul(1 << shift));
        return vec![match meant {
            Some(meant) => fault.help(format!("write {meant}")),
            None => fault.help("write a number without anything after it"),
        }];
    }
    let digits = value.trim_start().trim_start_matches(['-', '+']);
    if digits.len() > 1 && digits.starts_with('0') && !digits[1..].starts_with(['x', 'X']) {
        return vec![Fault::warning(format!("is read as {read}: a leading zero makes it octal"))];
    }
    Vec::new()
}

fn switch(value: &str, values: &[i64]) -> Vec<Fault> {
    let faults = as_number(value);
    let number = strtoll(value).value;
    if !faults.is_empty() {
        let on = ["true", "yes", "on", "enable"].iter().any(|word| word.eq_ignore_ascii_case(value.trim()));
        let help = if on { "write 1" } else { "write a number" };
        return faults.into_iter().map(|fault| if fault.help.is_some() { fault.help(help) } else { fault }).collect();
    }
    if values.contains(&number) || number == -2 {
        return Vec::new();
    }
    let values: Vec<_> = values.iter().map(i64::to_string).collect();
    vec![Fault::warning(format!("is {number}, which stands for nothing here: values are {}", values.join(", ")))]
}

fn exact1(value: &str) -> Vec<Fault> {
    match strtoll(value) {
        number if number.digits && (number.value == 0 || number.value == 1) && number.rest.trim().is_empty() => {
            Vec::new()
        }
        number if number.value == 1 => as_number(value),
        _ => vec![Fault::error("counts as set when it is the number 1 alone").help("write 1")],
    }
}

fn boolean(value: &str, version: Option<NcclVersion>) -> Vec<Fault> {
    let typed = version.is_none_or(|version| version >= NcclVersion::new(2, 30, 7));
    let word = ["T", "TRUE", "F", "FALSE"].iter().any(|word| word.eq_ignore_ascii_case(value));
    match value {
        "0" | "1" => Vec::new(),
        _ if word && typed => Vec::new(),
        _ if typed => vec![Fault::error("is neither 0 nor 1: NCCL keeps its default").help("write 0 or 1")],
        _ => switch(value, &[0, 1]),
    }
}

fn words(
    value: &str,
    of: &[Word],
    ignore_case: bool,
    separator: Option<char>,
    version: Option<NcclVersion>,
) -> Vec<Fault> {
    let parts: Vec<&str> = separator.map_or_else(|| vec![value], |separator| value.split(separator).collect());
    let same =
        |word: &Word, part: &str| if ignore_case { word.text.eq_ignore_ascii_case(part) } else { word.text == part };
    let unknown = |part: &&&str| !of.iter().any(|word| same(word, part) && word.known_in(version));
    let shown = of.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(", ");
    let fault = |part: &&str| {
        Fault::error(format!("names `{part}`, which is unknown: NCCL ignores it")).help(format!("values are {shown}"))
    };
    parts.iter().filter(unknown).map(fault).collect()
}

fn flags(value: &str, of: &[Word], version: Option<NcclVersion>) -> Vec<Fault> {
    // The new reader of 2.30.7 trims words and refuses the whole value for one unknown.
    let typed = version.is_none_or(|version| version >= NcclVersion::new(2, 30, 7));
    let list = value.strip_prefix('^').unwrap_or(value);
    let parts = list.split(',').map(|part| if typed { part.trim() } else { part }).filter(|part| !part.is_empty());
    let unknown =
        parts.filter(|part| !of.iter().any(|word| word.text.eq_ignore_ascii_case(part) && word.known_in(version)));
    let then = if typed { "NCCL ignores the whole value" } else { "NCCL ignores the word" };
    unknown.map(|part| Fault::error(format!("names `{part}`, which is unknown: {then}"))).collect()
}

fn names(value: &str, present: Option<Vec<String>>, what: &str) -> Vec<Fault> {
    let (excluded, list) = value.strip_prefix('^').map_or((false, value), |rest| (true, rest));
    let (exact, list) = list.strip_prefix('=').map_or((false, list), |rest| (true, rest));
    if let Some(part) = list.split(',').find(|part| part.trim() != *part) {
        return vec![
            Fault::error(format!("names `{part}` with a blank, which counts")).help("write the list without blanks"),
        ];
    }
    let Some(present) = present else { return Vec::new() };
    // A port can follow the name.
    let wanted: Vec<_> =
        list.split(',').filter_map(|part| part.split(':').next()).filter(|part| !part.is_empty()).collect();
    let is = |name: &str, part: &str| if exact { name == part } else { name.starts_with(part) };
    let left = present.iter().filter(|name| wanted.iter().any(|part| is(name, part)) != excluded).count();
    if left > 0 {
        return Vec::new();
    }
    vec![Fault::error(format!("leaves no {what} of this box")).help(format!("this box has {}", present.join(", ")))]
}

fn file(value: &str, facts: &dyn BoxFacts, written: bool) -> Vec<Fault> {
    if value.starts_with('~') {
        return vec![Fault::error("begins with `~`, which NCCL does not expand").help("write the whole path")];
    }
    let path = Path::new(value);
    let needed = if written { path.parent().filter(|parent| !parent.as_os_str().is_empty()) } else { Some(path) };
    match needed.map(|needed| (needed, facts.exists(needed))) {
        Some((needed, Some(false))) => vec![Fault::error(format!("names {}, which is not there", needed.display()))],
        _ => Vec::new(),
    }
}
