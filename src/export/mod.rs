//! An env set as what a server reads: [`export`] writes the variables in a [`Form`], with the evidence for them as comments.
//!
//! Every form says for which all-reduces the set was measured, and that the engine may decide otherwise. A set whose run does
//! not carry it is refused ([`objections`]) unless the user insists.

mod evidence;
mod forms;
mod refusal;
#[cfg(test)]
mod tests;
mod tuner;

use std::str::FromStr;

pub use self::refusal::{foreign, objections, of_run as objections_to_run};
use crate::error::{Error, Result};
use crate::nccl::version::NcclVersion;
use crate::plan::env_set::Vars;
use crate::plan::schedule::Arm;
use crate::record::run::Run;

/// What an env set is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// NCCL's own configuration file.
    NcclConf,
    /// Lines for a shell to source.
    Env,
    /// A drop-in of a systemd unit.
    Systemd,
    /// A file for `docker run --env-file`.
    Docker,
    /// A service of a compose file.
    Compose,
    /// A ConfigMap.
    Kubernetes,
    /// A `TaskProlog` script.
    Slurm,
    /// Lines for `/etc/environment`.
    EtcEnvironment,
    /// A script that starts a command under the set.
    Wrapper,
    /// A module that Python loads at its start.
    Sitecustomize,
    /// For programs.
    Json,
    /// Per size the fastest set, for the example tuner plugin of NCCL.
    TunerCsv,
}

impl Form {
    /// All of them with their names.
    pub const ALL: [(Self, &'static str); 12] = [
        (Self::NcclConf, "nccl.conf"),
        (Self::Env, "env"),
        (Self::Systemd, "systemd"),
        (Self::Docker, "docker"),
        (Self::Compose, "compose"),
        (Self::Kubernetes, "kubernetes"),
        (Self::Slurm, "slurm"),
        (Self::EtcEnvironment, "etc-environment"),
        (Self::Wrapper, "wrapper"),
        (Self::Sitecustomize, "sitecustomize"),
        (Self::Json, "json"),
        (Self::TunerCsv, "tuner-csv"),
    ];

    /// All names, for a list.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        let form = known.map(|(form, _)| form);
        form.ok_or_else(|| Error::usage(format!("unknown form `{text}`")).help(format!("one of: {}", Self::names())))
    }
}

/// A run, with where it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its folder or file, as it was named.
    pub place: &'a str,
    /// Its document.
    pub run: &'a Run,
}

/// An env set to be written.
struct Exported<'a> {
    set: &'a str,
    vars: Vars,
    nccl: NcclVersion,
    /// Paragraphs that tell where the set comes from and what it is good for.
    evidence: Vec<String>,
    source: Source<'a>,
    arm: Arm,
}

/// The arm of the set called `name`, under the library of version `nccl` where the run has several. Without a name the one
/// set beside the baseline.
pub fn select(run: &Run, name: Option<&str>, nccl: Option<NcclVersion>) -> Result<Arm> {
    let plan = &run.header.plan;
    let names = || plan.sets.iter().map(|set| set.name.as_str()).collect::<Vec<_>>();
    let set = match (name, plan.sets.len()) {
        (Some(name), _) => plan.sets.iter().position(|set| set.name == name).ok_or_else(|| {
            let near = crate::nearest::nearest(name, names()).map(|near| format!("did you mean `{near}`? "));
            Error::usage(format!("the run has no env set called `{name}`")).help(format!(
                "{}it has {}",
                near.unwrap_or_default(),
                names().join(", ")
            ))
        })?,
        (None, 2) => 1,
        (None, _) => {
            let message = "which env set is to be exported?";
            return Err(Error::usage(message).help(format!("name it with --set: {}", names().join(", "))));
        }
    };
    let versions = || plan.libraries.iter().map(|library| library.version.to_string()).collect::<Vec<_>>().join(", ");
    let library = match nccl {
        None if plan.libraries.len() == 1 => Some(0),
        None => None,
        Some(version) => plan.libraries.iter().position(|library| library.version == version),
    };
    let library = library.ok_or_else(|| {
        Error::usage("which library's figures are to carry the set?")
            .help(format!("name it with --nccl: {}", versions()))
    })?;
    Ok(Arm { set, library, ..plan.baseline() })
}

/// The text of the set of `arm` in `form`. `forced` objections are told in it.
pub fn export(source: Source, arm: Arm, form: Form, forced: &[String]) -> Result<String> {
    if form == Form::TunerCsv {
        return tuner::csv(source, arm.library);
    }
    let plan = &source.run.header.plan;
    let vars = plan.sets[arm.set].vars.over(&plan.base);
    if vars.is_empty() {
        let message = format!("the env set {} sets nothing", plan.sets[arm.set].name);
        return Err(Error::usage(message).help("there is nothing to write: leave NCCL as it comes"));
    }
    let exported = Exported {
        set: &plan.sets[arm.set].name,
        vars,
        nccl: plan.libraries[arm.library].version,
        evidence: evidence::paragraphs(source, arm, forced),
        source,
        arm,
    };
    forms::write(&exported, form)
}
