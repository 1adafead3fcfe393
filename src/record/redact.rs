//! Results without what tells whose box they are from: host name, users, GPU ids, process ids, addresses, private paths.
//!
//! A [`Redactor`] learns what is secret from a [`Header`] and the visits, and replaces it by stable words wherever text
//! stands, in a library's warnings as well: the document is walked as JSON, so a field added later is covered. What tells
//! the box's nature stays: models, versions, PCI ids, names of libraries, paths of the system.

mod text;

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::floor::Floor;
use super::pairs::PairTried;
use super::run::{Header, Provenance, Run};
use super::visit::{Visit, WorkerFacts};
use crate::error::{Error, Kind, Result};

pub use text::HOST;

/// Fields whose texts are words of ours, never a secret, though a host may have the name of one.
const WORDS: [&str; 17] = [
    "among",
    "applied",
    "backend",
    "created",
    "dtype",
    "finished",
    "kind",
    "launch",
    "launches",
    "library",
    "mode",
    "op",
    "phase",
    "placement",
    "rounds",
    "started",
    "verdict",
];

/// Shorter paths are no secret and stand in too many texts.
const SHORTEST_PATH: usize = 4;

/// Replaces what is secret in texts.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    /// Secret texts and what replaces them, the longest first.
    known: Vec<(String, String)>,
    hosts: Vec<String>,
    users: BTreeSet<String>,
    pids: Vec<u32>,
}

/// Whether a run was redacted: its GPUs are nobody's then.
#[must_use]
pub fn is_redacted(header: &Header) -> bool {
    header.provenance.gpus.iter().any(|gpu| gpu.uuid.starts_with(text::GPU))
}

/// Redacts a whole run.
pub fn redact(run: &mut Run) -> Result<()> {
    let mut redactor = Redactor::new(&run.header);
    for visit in &run.visits {
        redactor.learn(visit);
    }
    redactor.header(&mut run.header)?;
    for visit in &mut run.visits {
        redactor.visit(visit)?;
    }
    for pair in &mut run.pairs {
        *pair = redactor.pair(pair)?;
    }
    run.floor = run.floor.as_ref().map(|floor| redactor.floor(floor)).transpose()?;
    for cell in &mut run.cells {
        *cell = redactor.walk(cell)?;
    }
    for joint in &mut run.joint {
        *joint = redactor.walk(joint)?;
    }
    for proofs in &mut run.proofs {
        *proofs = redactor.walk(proofs)?;
    }
    for warning in &mut run.warnings {
        *warning = redactor.text(warning);
    }
    Ok(())
}

impl Redactor {
    /// Learns what the head of a run tells.
    #[must_use]
    pub fn new(header: &Header) -> Self {
        let mut redactor = Self::default();
        header.provenance.hosts().for_each(|host| redactor.learn_of(host));
        header.plan.libraries.iter().for_each(|library| redactor.learn_path(&library.path));
        redactor.learn_users(header);
        header.plan.wrap.iter().for_each(|argument| redactor.learn_argument(argument));
        redactor
    }

    /// Learns what is told of one host.
    fn learn_of(&mut self, provenance: &Provenance) {
        self.learn_host(&provenance.host);
        for gpu in &provenance.gpus {
            self.learn_gpu(&gpu.uuid);
        }
        let others = provenance.topology.iter().flat_map(|topology| &topology.gpus);
        for facts in others.filter_map(|gpu| gpu.driver.as_ref()) {
            self.learn_gpu(facts.uuid.as_deref().unwrap_or_default());
        }
        for process in &provenance.busy {
            self.learn_gpu(&process.gpu);
            self.learn_pid(process.pid);
        }
        let libraries = provenance.libraries.iter().chain(&provenance.other_libraries).map(|library| &library.path);
        for path in libraries.chain(provenance.conf_files.iter().map(|file| &file.path)) {
            self.learn_path(path);
        }
        provenance.arguments.iter().for_each(|argument| self.learn_argument(argument));
    }

    /// Learns what a visit tells of its worker.
    pub fn learn(&mut self, visit: &Visit) {
        self.learn_users(visit);
        let Some(worker) = &visit.worker else { return };
        self.learn_pid(worker.pid);
        if let Some(path) = &worker.nccl_path {
            self.learn_path(path);
        }
        for gpu in &worker.devices {
            self.learn_gpu(&gpu.uuid);
        }
    }

    /// Redacts the head of a run.
    pub fn header(&self, header: &mut Header) -> Result<()> {
        *header = self.walk(header)?;
        let Provenance { host, busy, others, .. } = &mut header.provenance;
        *host = text::HOST.into();
        let elsewhere = others.iter_mut().flat_map(|other| &mut other.busy);
        busy.iter_mut().chain(elsewhere).for_each(|process| process.pid = self.number(process.pid));
        Ok(())
    }

    /// Learns from a visit, then redacts it.
    pub fn visit(&mut self, visit: &mut Visit) -> Result<()> {
        self.learn(visit);
        *visit = self.walk(visit)?;
        if let Some(WorkerFacts { pid, others, .. }) = &mut visit.worker {
            *pid = self.number(*pid);
            others.iter_mut().for_each(|other| other.pid = self.number(other.pid));
        }
        Ok(())
    }

    /// A pair, redacted.
    pub fn pair(&self, pair: &PairTried) -> Result<PairTried> {
        self.walk(pair)
    }

    /// A floor, redacted.
    pub fn floor(&self, floor: &Floor) -> Result<Floor> {
        self.walk(floor)
    }

    /// A pid's number among those known, from 1: it still tells processes apart.
    fn number(&self, pid: u32) -> u32 {
        self.pids.iter().position(|known| *known == pid).map_or(0, |at| at as u32 + 1)
    }

    /// Redacts every text of `value`.
    fn walk<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<T> {
        let failed =
            |error: serde_json::Error| Error::new(Kind::Incomplete, "cannot redact the results").because(error);
        let mut tree = serde_json::to_value(value).map_err(failed)?;
        self.scrub(&mut tree);
        serde_json::from_value(tree).map_err(failed)
    }

    /// Redacts every text of a document that is no run.
    pub fn scrub(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.scrub(value)),
            Value::Object(fields) => {
                for (_, value) in fields.iter_mut().filter(|(name, _)| !WORDS.contains(&name.as_str())) {
                    self.scrub(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Learns the name of a host.
    pub fn learn_host(&mut self, host: &str) {
        let short = host.split('.').next().unwrap_or(host);
        for name in [host, short] {
            if !name.is_empty() && !self.hosts.iter().any(|known| known == name) {
                self.hosts.push(name.to_owned());
            }
        }
    }

    /// Learns the users whose home folders any text of `value` mentions.
    fn learn_users(&mut self, value: &impl Serialize) {
        let text = serde_json::to_string(value).unwrap_or_default();
        self.users.extend(text::users(&text));
    }

    fn learn_gpu(&mut self, uuid: &str) {
        if uuid.starts_with(text::GPU) {
            return;
        }
        let gpus = self.known.iter().filter(|(_, token)| token.starts_with(text::GPU)).count();
        self.learn_text(uuid, format!("{}-{gpus}", text::GPU));
    }

    fn learn_pid(&mut self, pid: u32) {
        if !self.pids.contains(&pid) {
            self.pids.push(pid);
        }
    }

    /// Learns a whole path: one with blanks in it could not be found in free text.
    fn learn_path(&mut self, path: &str) {
        if path.len() >= SHORTEST_PATH {
            self.learn_text(path, text::short_path(path));
        }
    }

    /// Learns an argument that is a path or has one after `=`.
    fn learn_argument(&mut self, argument: &str) {
        for part in argument.split('=').filter(|part| text::is_path(part)) {
            self.learn_path(part);
        }
    }

    fn learn_text(&mut self, secret: &str, token: String) {
        if secret.is_empty() || secret == token || self.known.iter().any(|(known, _)| known == secret) {
            return;
        }
        self.known.push((secret.to_owned(), token));
        self.known.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
    }
}

#[cfg(test)]
mod tests;
