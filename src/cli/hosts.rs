//! Several hosts: `sweep` as one of the agents that a launcher started.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::args::Sweep;
use super::draft::Draft;
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::{ranks, sweep, terminal};
use crate::error::{Error, Result};
use crate::record::run::Header;
use crate::supervisor::agents::first::Others;
use crate::supervisor::agents::launcher::{self, Place};
use crate::supervisor::agents::message::Facts;
use crate::supervisor::agents::other::Agent;
use crate::supervisor::agents::rendezvous::Rendezvous;
use crate::supervisor::agents::token::{self, Token};
use crate::supervisor::agents::{self, alike};
use crate::supervisor::bench::Bench;
use crate::supervisor::private::Private;
use crate::supervisor::provenance;
use crate::supervisor::visit::Setup;

/// The address that stands for no agents.
const NONE: &str = "none";
/// Several hosts, started by mpirun or srun.
#[derive(Debug, Default, Args)]
pub struct Hosts {
    /// Where agents that mpirun or srun started meet: an address of the first's host; none to measure without them [default: as the launcher tells]
    #[arg(long, value_name = "HOST:PORT|none", help_heading = "Hosts")]
    pub rendezvous: Option<String>,
    /// File with the token that lets agents in, readable by its owner alone [default: NCCLSWEEP_TOKEN of the environment]
    #[arg(long, value_name = "FILE", help_heading = "Hosts")]
    pub rendezvous_token_file: Option<PathBuf>,
    /// Let each agent act as a host of its own, also on one machine: NCCL takes the network between them
    #[arg(long, help_heading = "Hosts")]
    pub apart: bool,
    /// Measure although hosts have other drivers or NCCL than the first
    #[arg(long, help_heading = "Hosts")]
    pub allow_mixed: bool,
}

impl Hosts {
    /// On this host alone, whatever started it.
    pub fn alone() -> Self {
        Self { rendezvous: Some(NONE.to_owned()), ..Self::default() }
    }

    /// The place of this process among the agents of its launcher, when there are several.
    pub fn place(&self) -> Result<Option<Place>> {
        match self.rendezvous.as_deref() {
            Some(NONE) => Ok(None),
            // Each host would measure itself, and every figure look like one of all.
            Some(address) if !launcher::is_told(&variable) => Err(Error::usage(format!(
                "--rendezvous {address}, but no launcher tells this process which agent it is"
            ))
            .help(
                "start it with mpirun or srun, or set RANK and WORLD_SIZE; without --rendezvous it measures this host",
            )),
            _ => launcher::place(&variable),
        }
    }

    /// Where the agents meet.
    fn address(&self, place: &Place) -> Result<(String, u16)> {
        launcher::address(self.rendezvous.as_deref(), place, &variable)
    }

    fn token(&self) -> Result<Token> {
        Token::find(self.rendezvous_token_file.as_deref(), variable(token::VARIABLE))
    }

    /// The name by which NCCL tells this agent's host apart, where it would not itself: an emulated box is each agent's own.
    fn id(&self, agent: u32, emulated: bool) -> Option<String> {
        (self.apart || emulated).then(|| format!("{}-{agent}", provenance::host()))
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The GPUs of an agent: of an emulated box, which is its own, as if it were alone.
pub(super) fn share(draft: Draft, place: &Place, emulated: bool) -> Result<Draft> {
    draft.of_agent(if emulated { (0, 1) } else { (place.local, place.local_of) })
}

/// Refuses what agents cannot do together.
pub(super) fn check(args: &Sweep) -> Result<()> {
    match () {
        () if args.resume.is_some() => Err(launcher::alone("--resume")),
        () if args.isolate => Err(launcher::alone("--isolate")),
        () => Ok(()),
    }
}

/// Refuses to go on with a run of several agents: its plan has ranks that no process of this one would start.
pub(super) fn refuse_continued(folder: &Path, header: &Header) -> Result<()> {
    match header.plan.agents.len() {
        0 => Ok(()),
        agents => Err(Error::usage(format!(
            "{} was measured by {agents} agents; a run of several hosts cannot be continued",
            folder.display()
        ))
        .help("`ncclsweep report` shows what it has; begin a new one under the launcher")),
    }
}

/// The first agent waits for the others and joins what they have to the plan and the provenance of the run; gives what is to be
/// said of them.
pub(super) fn gather(
    args: &Sweep,
    place: &Place,
    header: &mut Header,
    setup: &mut Setup,
    asked: &dyn Fn() -> bool,
) -> Result<Vec<String>> {
    let (host, port) = args.hosts.address(place)?;
    let rendezvous = Rendezvous::listen(&host, port, args.hosts.token()?)?;
    if !args.quiet {
        let others = crate::units::plural(place.of as usize - 1, "other agent");
        terminal::note(format!("waiting for {others} ({}) at {}", place.launcher, rendezvous.address));
    }
    let own = header.plan.devices.len();
    let (others, facts) = Others::gather(rendezvous, place.of, own, setup.deadlines.setup, asked)?;
    let first = Facts { provenance: header.provenance.clone(), devices: Vec::new(), machine: provenance::machine() };
    let all: Vec<&Facts> = std::iter::once(&first).chain(&facts).collect();
    let mut warnings = alike::check(&all, args.hosts.allow_mixed)?;
    let (plan, provenance) = (&mut header.plan, &mut header.provenance);
    plan.agents = vec![own as u32];
    for of in facts {
        plan.agents.push(of.devices.len() as u32);
        plan.devices.extend(of.devices);
        provenance.gpus.extend(of.provenance.gpus.iter().cloned());
        provenance.others.push(of.provenance);
    }
    let apart = if plan.clean_env { Vec::new() } else { alike::inherited_apart(provenance) };
    warnings.extend(apart.iter().map(|name| alike::told_apart(provenance, name)));
    plan.ranks = plan.agents.iter().sum();
    ranks::check(&plan.rank_env, plan.ranks)?;
    let id = args.hosts.id(0, setup.emulation.is_some());
    setup.hosts = agents::Hosts { agent: 0, id, others: Some(Arc::new(others)), apart };
    Ok(warnings)
}

/// Any agent but the first: does what the first says, and prints nothing.
pub(super) fn serve(args: &Sweep, place: &Place) -> Result<Exit> {
    check(args)?;
    let interrupt = Interrupt::install()?;
    let asked = || interrupt.asked();
    let private = Private::create()?;
    let ((host, port), token) = (args.hosts.address(place)?, args.hosts.token()?);
    let limit = sweep::deadlines(args).setup;
    let agent =
        Agent { index: place.agent, at: (&host, port), token: &token, private: &private, limit, interrupted: &asked };
    agent.serve(prepare(args, place, &private, &asked))?;
    Ok(Exit::Held)
}

/// What this agent has.
fn prepare(args: &Sweep, place: &Place, private: &Private, asked: &dyn Fn() -> bool) -> Result<(Setup, Facts)> {
    let bench = Bench::find(&sweep::wanted(args), private, asked)?;
    let draft = share(Draft::new(args)?, place, args.emulation.emulate.is_some())?;
    let plan = draft.plan(&bench.gpus, bench.libraries())?;
    bench.check_types(&plan)?;
    if !args.allow_busy {
        bench.check_idle(&plan.devices)?;
    }
    let header = bench.header(plan);
    let facts = Facts { provenance: header.provenance, devices: header.plan.devices, machine: provenance::machine() };
    let id = args.hosts.id(place.agent, args.emulation.emulate.is_some());
    let hosts = agents::Hosts { agent: place.agent as usize, id, others: None, apart: Vec::new() };
    Ok((Setup { hosts, ..bench.setup(sweep::deadlines(args)) }, facts))
}
