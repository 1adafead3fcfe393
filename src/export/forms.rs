//! The forms. Each quotes values as its reader reads them; what a reader cannot take is refused.

use std::fmt::Write;

use serde_json::json;

use super::{Exported, Form};
use crate::error::{Error, Result};
use crate::nccl::conf;
use crate::nccl::version::NcclVersion;
use crate::record::run::Cell;

/// Columns of a comment.
const WIDTH: usize = 90;

/// Writes the set in `form`.
pub(super) fn write(of: &Exported, form: Form) -> Result<String> {
    match form {
        Form::NcclConf => nccl_conf(of),
        Form::Env => Ok(env(of)),
        Form::Systemd => Ok(systemd(of)),
        Form::Docker => Ok(docker(of)),
        Form::Compose => Ok(compose(of)),
        Form::Kubernetes => Ok(kubernetes(of)),
        Form::Slurm => slurm(of),
        Form::EtcEnvironment => etc_environment(of),
        Form::Wrapper => Ok(wrapper(of)),
        Form::Sitecustomize => Ok(sitecustomize(of)),
        Form::Json => Ok(json(of)),
        Form::TunerCsv => unreachable!("it is no form of one set"),
    }
}

/// The evidence and `usage` as comments.
pub(super) fn comments(evidence: &[String], usage: &str) -> String {
    let mut out = String::new();
    for paragraph in evidence.iter().map(String::as_str).chain([usage]) {
        let plain: String = paragraph.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // Lines break at blanks alone: a path or an option stays whole.
        let options = textwrap::Options::new(WIDTH)
            .break_words(false)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        for line in textwrap::wrap(&plain, options) {
            let _ = writeln!(out, "# {}", line.trim_end());
        }
    }
    out
}

fn lines(of: &Exported, line: impl Fn(&str, &str) -> String) -> String {
    of.vars.iter().map(|(name, value)| line(name, value) + "\n").collect()
}

/// Only what NCCL reads as it is meant, by its own reader, in every version that has such a file.
fn nccl_conf(of: &Exported) -> Result<String> {
    let usage = "Put it into /etc/nccl.conf for every process of the box, into ~/.nccl.conf for one user (NCCL 2.30 and later \
                 look under HOME, which services often lack), or into a file that NCCL_CONF_FILE names (2.23 and later). \
                 What a process has in its environment wins over it.";
    // Up to 2.25 a comment with an equals sign in it sets a variable.
    let comments = comments(&of.evidence, usage).replace('=', ":");
    let text = comments + &lines(of, |name, value| format!("{name}={value}"));
    for version in [None, Some(of.nccl), Some(NcclVersion::minor(2, 8)), Some(NcclVersion::minor(2, 29))] {
        let read = conf::parse(text.as_bytes(), version);
        let entries: Vec<(&str, &str)> =
            read.entries.iter().map(|entry| (entry.name.as_str(), entry.value.as_str())).collect();
        if let Some(lint) = read.lints.iter().find(|lint| lint.lost) {
            let name = text.lines().nth(lint.line - 1).unwrap_or_default();
            return Err(Error::usage(format!("nccl.conf cannot hold {name}: {}", lint.message))
                .help("choose another form, e.g. env"));
        }
        if entries != of.vars.iter().collect::<Vec<_>>() {
            return Err(Error::usage("nccl.conf cannot hold these values").help("choose another form, e.g. env"));
        }
    }
    Ok(text)
}

fn env(of: &Exported) -> String {
    let usage = "Source it in the shell that starts the server: . FILE";
    comments(&of.evidence, usage) + &lines(of, |name, value| format!("export {name}={}", shell_words::quote(value)))
}

fn systemd(of: &Exported) -> String {
    let usage = "Put it into /etc/systemd/system/UNIT.service.d/50-nccl.conf, then: systemctl daemon-reload, systemctl restart \
                 UNIT. A unit without User= has no HOME, so NCCL 2.30 and later find no ~/.nccl.conf there: rely on these \
                 lines, or on /etc/nccl.conf.";
    let quote = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    comments(&of.evidence, usage)
        + "[Service]\n"
        + &lines(of, |name, value| format!("Environment=\"{name}={}\"", quote(value)))
}

fn docker(of: &Exported) -> String {
    let usage = "docker run --env-file FILE … (values stand as they are, without quotes). NCCL also needs room in /dev/shm: --ipc \
                 host, or --shm-size.";
    comments(&of.evidence, usage) + &lines(of, |name, value| format!("{name}={value}"))
}

fn compose(of: &Exported) -> String {
    let usage = "Name your service in the place of `engine`, then: docker compose -f compose.yaml -f FILE up. NCCL also needs \
                 room in /dev/shm: ipc: host, or shm_size.";
    // Compose replaces $NAME; $$ stands for one dollar.
    let line = |name: &str, value: &str| format!("      {name}: {}", quoted(&value.replace('$', "$$")));
    comments(&of.evidence, usage) + "services:\n  engine:\n    environment:\n" + &lines(of, line)
}

fn kubernetes(of: &Exported) -> String {
    let name = format!("nccl-{}", dns(of.set));
    let usage = format!(
        "kubectl apply -f FILE; then in the container: envFrom: [{{configMapRef: {{name: {name}}}}}]. NCCL also needs room in \
         /dev/shm: an emptyDir of medium Memory mounted there."
    );
    let head = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n");
    comments(&of.evidence, &usage) + &head + &lines(of, |name, value| format!("  {name}: {}", quoted(value)))
}

/// What Kubernetes takes as a name.
fn dns(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(fit).collect::<String>().trim_matches('-').to_owned()
}

fn slurm(of: &Exported) -> Result<String> {
    plain(of, "Slurm")?;
    let usage = "Name it as TaskProlog in slurm.conf, or give it to srun --task-prolog: Slurm sets what it prints as `export …` \
                 in every task.";
    let print = |name: &str, value: &str| format!("echo {}", shell_words::quote(&format!("export {name}={value}")));
    Ok("#!/bin/sh\n".to_owned() + &comments(&of.evidence, usage) + &lines(of, print))
}

fn etc_environment(of: &Exported) -> Result<String> {
    plain(of, "/etc/environment")?;
    let usage = "Append it to /etc/environment. PAM reads that at logins (ssh, su, cron): neither services of systemd nor \
                 containers get it, nor what runs already.";
    Ok(comments(&of.evidence, usage) + &lines(of, |name, value| format!("{name}={value}")))
}

/// Refuses values that a reader without quotes would cut or change.
fn plain(of: &Exported, reader: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.,:;/^+@%=".contains(c);
    match of.vars.iter().find(|(_, value)| !value.chars().all(plain)) {
        None => Ok(()),
        Some((name, value)) => Err(Error::usage(format!("{reader} cannot hold {name}={value}: it has no quotes"))
            .help("choose another form, e.g. wrapper or systemd")),
    }
}

fn wrapper(of: &Exported) -> String {
    let usage = "Put it before the command that starts the server: ./FILE COMMAND …  `ncclsweep --sets default --wrap ./FILE` \
                 tells which variables reach what it starts.";
    let exports = lines(of, |name, value| format!("export {name}={}", shell_words::quote(value)));
    "#!/bin/sh\n".to_owned() + &comments(&of.evidence, usage) + &exports + "exec \"$@\"\n"
}

fn sitecustomize(of: &Exported) -> String {
    let usage = "Save it as sitecustomize.py in the site-packages of the server's Python. Python loads one such module, the \
                 first on its path: Debian's own lies in /usr/lib/python3 and wins over one of the site-packages of the system's \
                 Python, not over one on PYTHONPATH; `python -S` loads none. Look which: python -c 'import sitecustomize; \
                 print(sitecustomize.__file__)'. What the environment has already stays.";
    let line = |name: &str, value: &str| format!("    {}: {},", quoted(name), quoted(value));
    let body = "for _name, _value in _NCCL.items():\n    os.environ.setdefault(_name, _value)\n";
    comments(&of.evidence, usage) + "import os\n\n_NCCL = {\n" + &lines(of, line) + "}\n" + body
}

/// In double quotes as JSON has them, which YAML and Python read alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn json(of: &Exported) -> String {
    let (header, plan) = (&of.source.run.header, &of.source.run.header.plan);
    let cell = |cell: &&Cell| {
        json!({
            "mode": cell.mode, "dtype": cell.dtype, "op": cell.op, "in_place": cell.in_place, "size_bytes": cell.size_bytes,
            "median_us": cell.median_us, "ratio": cell.ratio, "ratio_interval": cell.ratio_interval,
            "verdict": cell.verdict, "applied": cell.applied,
        })
    };
    let cells: Vec<_> = of.source.run.cells.iter().filter(|cell| cell.arm == of.arm).collect();
    let document = json!({
        "schema": 1,
        "set": of.set,
        "variables": of.vars,
        "evidence": {
            "run": of.source.place,
            "ncclsweep": header.version,
            "backend": header.backend,
            "created": header.created,
            "host": header.provenance.host,
            "driver": header.provenance.driver,
            "gpus": header.provenance.gpus.iter().map(|gpu| &gpu.name).collect::<Vec<_>>(),
            "nccl": of.nccl,
            "ranks": plan.ranks,
            "baseline": plan.sets[0].name,
            "cells": cells.iter().map(cell).collect::<Vec<_>>(),
        },
        "notes": of.evidence,
    });
    format!("{document:#}\n")
}
