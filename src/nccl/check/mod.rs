//! Whether NCCL will understand a set of variables: [`check`] gives a [`Finding`] for each that it would spoil.
//!
//! An error is what NCCL would ignore or misread, mostly in silence; a warning what is legal but useless or dangerous. What
//! only the box can tell comes in through [`BoxFacts`].

use std::fmt;
use std::path::Path;

use super::catalogue::{self, Variable};
use super::version::NcclVersion;

#[cfg(test)]
mod tests;
mod this_box;
mod together;
mod value;

pub use this_box::ThisBox;

/// A variable with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it comes from: `set fast`, `environment`, `/etc/nccl.conf:3`.
    pub origin: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Legal, but useless or dangerous.
    Warning,
    /// NCCL would ignore or misread it, or fail.
    Error,
}

/// Something wrong with a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The variable.
    pub variable: String,
    /// Where its value comes from.
    pub origin: String,
    /// What is wrong, as the name of the variable goes on.
    pub message: String,
    /// What to write instead, or what to know.
    pub help: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.variable, self.message)
    }
}

/// What is checked against.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The library's version; the latest is assumed where it is not known.
    pub version: Option<NcclVersion>,
    /// Names that NCCL is not known to read are warnings, not errors.
    pub allow_unknown: bool,
    /// What is known of the box.
    pub facts: &'a dyn BoxFacts,
}

/// What only the box can tell. `None` where it is not known, as in every default here.
pub trait BoxFacts {
    /// Whether something is at `path`.
    fn exists(&self, path: &Path) -> Option<bool> {
        _ = path;
        None
    }

    /// Names of the network interfaces.
    fn interfaces(&self) -> Option<Vec<String>> {
        None
    }

    /// Names of the InfiniBand adapters.
    fn adapters(&self) -> Option<Vec<String>> {
        None
    }

    /// Whether NVLink connects all GPUs in use.
    fn nvlink(&self) -> Option<bool> {
        None
    }
}

/// Nothing is known of the box.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnknownBox;

impl BoxFacts for UnknownBox {}

/// A finding before its variable is named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    severity: Severity,
    message: String,
    help: Option<String>,
}

impl Fault {
    fn error(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, message: message.into(), help: None }
    }

    fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    fn of(self, setting: &Setting) -> Finding {
        let Self { severity, message, help } = self;
        Finding { severity, variable: setting.name.clone(), origin: setting.origin.clone(), message, help }
    }
}

/// Everything wrong with `settings`, which hold each name once. Names that do not begin with `NCCL_` in any case are left alone,
/// but for those of NCCL's variables without it.
#[must_use]
pub fn check(settings: &[Setting], context: &Context) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut usable = Vec::new();
    findings.extend(settings.iter().filter_map(|setting| Some(bare(&setting.name, context)?.of(setting))));
    for setting in settings.iter().filter(|setting| is_nccls(&setting.name)) {
        let faults = match catalogue::get(&setting.name) {
            None => unknown(&setting.name, context),
            Some(variable) => {
                let faults = not_in_version(variable, context.version);
                if faults.is_empty() {
                    usable.push(setting);
                    value::check(variable, &setting.value, context)
                } else {
                    faults
                }
            }
        };
        findings.extend(faults.into_iter().map(|fault| fault.of(setting)));
    }
    findings.extend(together::check(&usable, context));
    findings
}

fn is_nccls(name: &str) -> bool {
    name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("NCCL_"))
}

/// The name of a variable without its beginning: nobody reads it, and a set of it would do what the baseline does.
fn bare(name: &str, context: &Context) -> Option<Fault> {
    let whole = format!("NCCL_{}", name.to_ascii_uppercase());
    catalogue::get(&whole).filter(|_| !is_nccls(name))?;
    let fault = Fault::error("is no variable of NCCL").help(format!("did you mean {whole}?"));
    Some(if context.allow_unknown { Fault { severity: Severity::Warning, ..fault } } else { fault })
}

fn unknown(name: &str, context: &Context) -> Vec<Fault> {
    if let Some(who) = catalogue::foreign(name) {
        return vec![Fault::warning("is not read by NCCL").help(who)];
    }
    if catalogue::is_later(name) {
        let too_old = context.version.is_some_and(|version| !version.at_least(2, 31));
        return vec![match context.version {
            Some(version) if too_old => Fault::error(format!("is not read by NCCL {version}; 2.32.3 has it")),
            _ => Fault::warning("is read by NCCL 2.32.3, but what it takes is not known here: not checked"),
        }];
    }
    let near = catalogue::nearest(name).map(|variable| &variable.name);
    let mut fault = match near {
        Some(near) if near.eq_ignore_ascii_case(name) => Fault::error("is no variable of NCCL: names are upper case"),
        _ => Fault::error("is no variable of NCCL that is known here"),
    };
    if context.allow_unknown {
        fault.severity = Severity::Warning;
    }
    vec![match near {
        Some(near) => fault.help(format!("did you mean {near}?")),
        None => fault,
    }]
}

fn not_in_version(variable: &Variable, version: Option<NcclVersion>) -> Vec<Fault> {
    let Some(version) = version.filter(|version| !variable.known_in(*version)) else { return Vec::new() };
    let bounds = match (variable.since, variable.until) {
        (Some(since), _) if version < since => format!("it came with {since}"),
        (_, Some(until)) => format!("{until} was the last that did"),
        _ => return Vec::new(),
    };
    let message = format!("is not read by NCCL {version}: {bounds}");
    // Without it more ranks than GPUs fail aloud: nothing is spoilt in silence.
    let loud = variable.name == "NCCL_MULTI_RANK_GPU_ENABLE";
    let fault = if loud { Fault::warning(message) } else { Fault::error(message) };
    vec![match &variable.replaced {
        Some(replaced) if version >= replaced.since => fault.help(format!("use {}", replaced.by)),
        _ => fault,
    }]
}
