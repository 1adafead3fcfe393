//! NCCL's configuration files: lines that lose or spoil their setting, and which file wins for which variable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::files::Root;
use super::{Check, Checkup, Details, SCHEMA, Status, machine};
use crate::error::{Error, Kind, Result};
use crate::nccl::catalogue;
use crate::nccl::check::{self, Context, Severity, ThisBox};
use crate::nccl::conf::{self, Conf, Files, Home, Origin};
use crate::nccl::version::NcclVersion;
use crate::units::plural;

/// Columns of a line that is shown.
const SHOWN: usize = 80;
/// Characters of what is said of a line.
const TOLD: usize = 400;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The file; none for those that NCCL reads here.
    pub file: Option<&'a Path>,
    /// The library's version; the latest when it is not known.
    pub version: Option<NcclVersion>,
    /// The environment that the files meet.
    pub environment: &'a [(String, String)],
    /// The user's folder in the password database.
    pub passwd: Option<&'a Path>,
}

/// Facts about configuration files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The version by whose rules they were read; none for the latest.
    pub version: Option<NcclVersion>,
    /// The files, in the order in which NCCL reads them.
    pub files: Vec<FileFacts>,
    /// Every variable that the files set, and every `NCCL_` variable of the environment.
    pub effective: Vec<Setting>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileFacts {
    /// Its path.
    pub path: String,
    /// Whether it is there and can be read.
    pub read: bool,
    /// Lines that lose or spoil what they seem to set.
    pub lints: Vec<LintFacts>,
}

/// A line that does not do what it seems to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LintFacts {
    /// Line number, from 1.
    pub line: usize,
    /// The line as it stands.
    pub text: String,
    /// The setting is lost, or its value another.
    pub lost: bool,
    /// What is wrong.
    pub message: String,
    /// The line as it should be.
    pub corrected: Option<String>,
}

/// A variable as NCCL finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where it comes from.
    pub origin: String,
    /// Values that lost against it, each with where it comes from.
    pub beaten: Vec<String>,
}

/// A file that NCCL looks for.
pub(super) struct Applying {
    pub path: PathBuf,
    /// `None` when there is none; why not, when it is there and cannot be read.
    pub conf: Result<Option<(Conf, Vec<u8>)>, String>,
}

/// Looks at the file that was named, else at those that NCCL reads here.
///
/// # Errors
/// When the named file is missing or cannot be read.
pub fn look(request: &Request) -> Result<Checkup> {
    let root = Root(Path::new("/"));
    let variable = |name: &str| request.environment.iter().find(|(known, _)| known == name).map(|(_, v)| v.as_str());
    let passwd = request.passwd.map(|path| path.to_string_lossy());
    let home = Home { conf_file: variable("NCCL_CONF_FILE"), home: variable("HOME"), passwd: passwd.as_deref() };
    let version = request.version;
    let mut files = Files::of(version, home);
    let mut checks = Vec::new();
    if let Some(file) = request.file {
        if !file.is_file() {
            return Err(Error::usage(format!("there is no configuration file {}", file.display()))
                .help("`ncclsweep doctor --conf` alone looks at those that NCCL reads here"));
        }
        checks.push(place(file, &files, version));
        if !is_one_of(file, &files) {
            files.user = Some(file.to_owned());
        }
    }
    let applying = applying(root, None, &files, version);
    if let Some(unreadable) = applying.iter().find(|of| Some(of.path.as_path()) == request.file && of.conf.is_err()) {
        let why = unreadable.conf.as_ref().err().cloned().unwrap_or_default();
        return Err(Error::new(Kind::Usage, why).help("NCCL passes over it in silence: correct its owner or mode"));
    }
    for of in &applying {
        if request.file.is_none_or(|file| same_file(file, &of.path)) {
            checks.extend(of.checks(version));
        }
    }
    let settings = effective(request.environment, &applying);
    checks.push(winners(&settings));
    let facts = Facts { version, files: applying.iter().map(|of| of.facts(version)).collect(), effective: settings };
    let subject = match request.file {
        Some(file) => file.display().to_string(),
        None => "NCCL's configuration files".to_owned(),
    };
    let by = version.map_or_else(|| "the latest NCCL known here".to_owned(), |version| format!("NCCL {version}"));
    let limits = vec![
        format!("read by the rules of {by}; `--nccl PATH|VERSION` takes others"),
        "who wins is told for the environment of this shell; a server has its own (`doctor --pid N`)".to_owned(),
    ];
    Ok(Checkup { schema: SCHEMA, subject, checks, limits, details: Details::Conf(facts) })
}

/// The check of the files as part of a look at the machine.
pub(super) fn files_here(root: Root, facts: &machine::Facts) -> Check {
    let name = "conf files";
    let passwd = facts.home.as_ref().map(|path| path.to_string_lossy());
    let home =
        Home { conf_file: facts.variable("NCCL_CONF_FILE"), home: facts.variable("HOME"), passwd: passwd.as_deref() };
    let version = facts.version();
    let (mut found, mut next) = (Vec::new(), false);
    for of in applying(root, None, &Files::of(version, home), version) {
        let path = of.path.display();
        match &of.conf {
            Ok(None) => found.push((Status::Ok, format!("{path}: not there"))),
            Err(why) => found.push((Status::Warning, why.clone())),
            Ok(Some((conf, _))) => {
                let worst = of.checks(version).iter().map(|check| check.status).max().unwrap_or(Status::Ok);
                next |= worst > Status::Unknown;
                let set: Vec<_> = conf.entries.iter().map(|entry| format!("{}={}", entry.name, entry.value)).collect();
                found.push((
                    worst,
                    format!("{path}: {}", if set.is_empty() { "sets nothing".to_owned() } else { set.join(" ") }),
                ));
            }
        }
    }
    let check = Check::worst(name, found, "none");
    if next {
        check.next("`ncclsweep doctor --conf` tells line by line what is lost, and the line as it should be")
    } else {
        check
    }
}

/// The files that a process with this home reads; relative ones start from its working folder.
pub(super) fn applying(root: Root, cwd: Option<&Path>, files: &Files, version: Option<NcclVersion>) -> Vec<Applying> {
    let read = |path: &PathBuf| {
        let place = match cwd {
            Some(cwd) if path.is_relative() => cwd.join(path),
            None if path.is_relative() => path.clone(),
            _ => root.path(&path.to_string_lossy()),
        };
        let conf = match std::fs::read(&place) {
            Ok(bytes) => Ok(Some((conf::parse(&bytes, version), bytes))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        };
        Applying { path: path.clone(), conf }
    };
    files.user.iter().chain([&files.system]).map(read).collect()
}

/// Every variable with who wins.
pub(super) fn effective(environment: &[(String, String)], files: &[Applying]) -> Vec<Setting> {
    let confs: Vec<(&Path, &Conf)> =
        files.iter().filter_map(|of| Some((of.path.as_path(), &of.conf.as_ref().ok()?.as_ref()?.0))).collect();
    let environment = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let found = conf::effective(environment, &confs);
    let setting = |(name, of): (String, conf::Effective)| Setting {
        name,
        value: of.value,
        origin: of.origin.to_string(),
        beaten: of.beaten.iter().map(|(value, origin)| format!("{value} of {}", shown(origin))).collect(),
    };
    found.into_iter().map(setting).collect()
}

fn shown(origin: &Origin) -> String {
    match origin {
        Origin::Environment => "the environment".to_owned(),
        Origin::File { .. } => origin.to_string(),
    }
}

/// Whether NCCL reads the file where it lies.
fn place(file: &Path, files: &Files, version: Option<NcclVersion>) -> Check {
    let name = "place";
    if is_one_of(file, files) {
        return Check::ok(name, format!("{} is one that NCCL reads", file.display()));
    }
    let user =
        files.user.as_ref().map_or_else(|| "none: HOME is not set".to_owned(), |path| path.display().to_string());
    let full = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let named = version.is_none_or(|version| version.at_least(2, 23));
    let next = match named {
        true => format!(
            "set NCCL_CONF_FILE={} in the server's environment, or copy it to {}",
            full.display(),
            files.system.display()
        ),
        false => format!("copy it to {}: NCCL_CONF_FILE came with 2.23", files.system.display()),
    };
    Check::warning(name, format!("NCCL does not read {} by itself", file.display()))
        .also([format!("it reads {user}, then {}", files.system.display())])
        .next(next)
}

fn is_one_of(file: &Path, files: &Files) -> bool {
    files.user.iter().chain([&files.system]).any(|known| same_file(file, known))
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
}

fn winners(settings: &[Setting]) -> Check {
    let name = "who wins";
    let line = |setting: &Setting| {
        let beaten =
            if setting.beaten.is_empty() { String::new() } else { format!("; beats {}", setting.beaten.join(", ")) };
        format!("{}={} by {}{}", setting.name, cut(&setting.value, TOLD), setting.origin, cut(&beaten, TOLD))
    };
    let mut lines = settings.iter().map(line);
    match lines.next() {
        None => Check::ok(name, "no variable is set, by file or environment"),
        Some(first) => Check::ok(name, first).also(lines),
    }
}

impl Applying {
    fn facts(&self, version: Option<NcclVersion>) -> FileFacts {
        let lints = match &self.conf {
            Ok(Some((conf, bytes))) => {
                let (lines, corrected) = (split(bytes), corrected(conf, &values(conf, version)));
                let lint = |lint: &conf::Lint| LintFacts {
                    line: lint.line,
                    text: text(&lines, lint.line),
                    lost: lint.lost,
                    message: lint.message.clone(),
                    corrected: lint.corrected.as_ref().and_then(|_| corrected.get(&lint.line).cloned()),
                };
                conf.lints.iter().map(lint).collect()
            }
            _ => Vec::new(),
        };
        FileFacts { path: self.path.display().to_string(), read: matches!(self.conf, Ok(Some(_))), lints }
    }

    /// A check for each line that loses or spoils something; one when none does.
    fn checks(&self, version: Option<NcclVersion>) -> Vec<Check> {
        let path = self.path.display();
        let (conf, bytes) = match &self.conf {
            Err(why) => return vec![Check::warning("file", why.clone()).next("NCCL passes over it in silence")],
            Ok(None) => return vec![Check::ok("file", format!("{path}: not there"))],
            Ok(Some(of)) => (&of.0, &of.1),
        };
        let lines = split(bytes);
        let mut checks: Vec<Check> = Vec::new();
        let mut add = |line: usize, status: Status, message: String, next: Option<String>| {
            let mut check = Check::new(format!("line {line}"), status, text(&lines, line)).also([cut(&message, TOLD)]);
            check.next.extend(next);
            check.join(&mut checks);
        };
        let findings = values(conf, version);
        let mut corrected = corrected(conf, &findings);
        // A line may be wrong in several ways, but there is one to write.
        let mut write = |line: usize| corrected.remove(&line).map(|line| format!("write {line}"));
        for lint in &conf.lints {
            let status = if lint.lost { Status::Fault } else { Status::Warning };
            add(lint.line, status, lint.message.clone(), write(lint.line));
        }
        for (line, finding) in findings {
            let status = if finding.severity == Severity::Error { Status::Fault } else { Status::Warning };
            let message = finding.to_string();
            let more = if value(&finding).is_some() { None } else { finding.help };
            add(line, status, message, write(line).or(more));
        }
        checks.sort_by_key(|check| check.name.strip_prefix("line ").and_then(|line| line.parse::<usize>().ok()));
        let lost = checks.iter().filter(|check| check.status == Status::Fault).count();
        let head =
            format!("{path}: {}, {lost} of them lost or spoilt", plural(conf.entries.len().max(checks.len()), "line"));
        checks.insert(0, Check::ok("file", head));
        checks
    }
}

/// What NCCL would make of the values once the lines are right, for names that are its own: others have a lint.
fn values(conf: &Conf, version: Option<NcclVersion>) -> Vec<(usize, check::Finding)> {
    let mut settings: Vec<check::Setting> = Vec::new();
    let corrected = conf.lints.iter().filter_map(|lint| Some((lint.line, lint.corrected.as_ref()?.split_once('=')?)));
    let corrected: Vec<_> = corrected.collect();
    let as_they_are = conf.entries.iter().map(|entry| (entry.line, (entry.name.as_str(), entry.value.as_str())));
    let as_they_are = as_they_are.filter(|(line, _)| !corrected.iter().any(|(other, _)| other == line));
    for (line, (name, value)) in as_they_are.chain(corrected.iter().copied()) {
        if catalogue::get(name).is_some() && !settings.iter().any(|known| known.name == name) {
            settings.push(check::Setting { name: name.to_owned(), value: value.to_owned(), origin: line.to_string() });
        }
    }
    let context = Context { version, allow_unknown: true, facts: &ThisBox::default() };
    let findings = check::check(&settings, &context).into_iter();
    findings.filter_map(|finding| Some((finding.origin.parse().ok()?, finding))).collect()
}

/// Lines as they should be, by their numbers: the name, the form and the value right.
fn corrected(conf: &Conf, findings: &[(usize, check::Finding)]) -> BTreeMap<usize, String> {
    let lines = conf.lints.iter().filter_map(|lint| Some((lint.line, lint.corrected.clone()?)));
    let value = |of: &check::Finding| Some(format!("{}={}", of.variable, value(of)?));
    lines.chain(findings.iter().filter_map(|(line, finding)| Some((*line, value(finding)?)))).collect()
}

/// The value that a finding names to be written instead.
fn value(finding: &check::Finding) -> Option<&str> {
    finding.help.as_ref()?.strip_prefix("write ").filter(|value| !value.contains(' '))
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split(|byte| *byte == b'\n').collect()
}

/// Line `number` as it stands, with what cannot be seen made visible, cut when it is long.
fn text(lines: &[&[u8]], number: usize) -> String {
    let line = String::from_utf8_lossy(lines.get(number - 1).copied().unwrap_or_default());
    let mut shown: String = line.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    // Quotes are as they stand: there are none around.
    shown = shown.replace("\\\"", "\"").replace("\\'", "'");
    if line.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// At most `most` characters of a text that may hold a value of any length.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
