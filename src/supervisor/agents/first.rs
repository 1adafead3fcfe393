//! The first agent's view of the others: who they are, what they report, and whether they are still there.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::agent::{Agent, HELLO, WRITE, hello};
use super::message::{Facts, Left, Order};
use super::rendezvous::{Peer, Purpose, Rendezvous};
use crate::error::{Error, Kind, Result};
use crate::plan::schedule::{Arm, Plan};
use crate::record::visit::Outcome;
use crate::supervisor::awake::Awake;
use crate::supervisor::visit::Planned;
use crate::units;
use crate::wire::{self, Event, Question, Received};

/// Between two looks at what else may have happened.
const GLANCE: Duration = Duration::from_millis(20);

/// Where messages of workers go: each with its worker's place in the crew.
pub type Sink = Sender<(usize, Received<Event>)>;

/// All other agents.
#[derive(Debug)]
pub struct Others {
    rendezvous: Rendezvous,
    agents: Vec<Arc<Agent>>,
    number: AtomicU64,
}

/// What the workers of an agent left after a visit.
pub struct Remains {
    /// Host and ranks.
    pub name: String,
    /// Of each worker.
    pub workers: Vec<Left>,
    /// The last lines they wrote.
    pub output: Vec<String>,
}

impl Others {
    /// Waits until all of the `of` agents but this one, which has `own` ranks, have come and said what they have.
    pub fn gather(
        rendezvous: Rendezvous,
        of: u32,
        own: usize,
        limit: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(Self, Vec<Facts>)> {
        let mut come: Come = BTreeMap::new();
        if let Err(error) = meet(&rendezvous, of, limit, interrupted, &mut come) {
            // Who came is not left to find out that nobody is there any more.
            come.values_mut().for_each(|(stream, ..)| _ = wire::send(stream, &Order::Quit));
            return Err(error);
        }
        let mut first = own;
        let (mut agents, mut all) = (Vec::new(), Vec::new());
        for (index, (stream, reader, facts)) in come {
            let ranks = first..first + facts.devices.len();
            first = ranks.end;
            let name = format!("{} (agent {index}, {})", facts.provenance.host, ranks_of(&ranks));
            agents.push(Agent::follow(index as usize, name, stream, reader)?);
            all.push(facts);
        }
        Ok((Self { rendezvous, agents, number: AtomicU64::new(0) }, all))
    }

    /// Starts the workers of a visit on all other hosts; what they say goes to `sink`. Gives the connections over which the
    /// ranks of this host reach theirs, in the order of the agents.
    pub(crate) fn begin(
        &self,
        plan: &Plan,
        planned: Planned,
        sink: &Sink,
        limit: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> std::result::Result<Vec<TcpStream>, Outcome> {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        for agent in &self.agents {
            agent.expect(number, first_worker(plan, planned.arm, agent.index), sink);
            agent.order(&Order::Visit { number, plan: Box::new(plan.clone()), planned });
        }
        let waiting = Awake::start();
        let mut links: BTreeMap<u32, TcpStream> = BTreeMap::new();
        while links.len() < self.agents.len() {
            if let Some(ended) = self.lost().or_else(|| self.not_started()) {
                return Err(ended);
            }
            if interrupted() || self.interrupted() {
                return Err(Outcome::Interrupted);
            }
            if waiting.elapsed() >= limit {
                let late = self.agents.iter().find(|agent| !links.contains_key(&(agent.index as u32)));
                late.inspect(|agent| {
                    agent.lose(format!("its workers did not come within {}", units::limit(limit.as_secs_f64())))
                });
            }
            match self.rendezvous.next(GLANCE) {
                Some(Peer { purpose: Purpose::Ranks { agent, visit }, stream }) if visit == number => {
                    links.insert(agent, stream);
                }
                Some(Peer { purpose: Purpose::Orders { agent }, stream }) => {
                    refuse(&stream, agent, self.agents.len() as u32 + 1);
                }
                // Of a visit that is over.
                Some(Peer { purpose: Purpose::Ranks { .. }, .. }) | None => {}
            }
        }
        Ok(links.into_values().collect())
    }

    /// Hands a question on to the workers.
    pub(crate) fn ask(&self, question: Question) {
        for agent in &self.agents {
            agent.state().asked = false;
            agent.order(&Order::Ask(question));
        }
    }

    /// Gives up an agent that has not handed the last question on.
    pub(crate) fn give_up_deaf(&self) {
        for agent in &self.agents {
            let deaf = !agent.state().asked;
            if deaf {
                agent.lose("its agent does not answer".to_owned());
            }
        }
    }

    /// How the process of a worker ended, by its place in the crew; waits for it.
    pub(crate) fn wait(&self, place: usize, limit: Duration, enough: &dyn Fn() -> bool) -> Option<ExitStatus> {
        let found = || {
            self.agents.iter().find_map(|agent| {
                let state = agent.state();
                let base = state.sink.as_ref().map(|(base, _)| *base)?;
                state.gone.get(&place.checked_sub(base)?).copied().flatten()
            })
        };
        self.until(limit, enough, &|| found().is_some());
        found().map(ExitStatus::from_raw)
    }

    /// Waits until the workers of all agents are gone; false when they are not within `limit`.
    pub(crate) fn wait_for_all(&self, limit: Duration, enough: &dyn Fn() -> bool) -> bool {
        self.until(limit, enough, &|| self.agents.iter().all(|agent| agent.has_ended()))
    }

    fn until(&self, limit: Duration, enough: &dyn Fn() -> bool, done: &dyn Fn() -> bool) -> bool {
        let waiting = Awake::start();
        while !done() {
            if waiting.elapsed() >= limit || enough() {
                return false;
            }
            // Any of them may change next; the others are looked at soon enough.
            if let Some(agent) = self.agents.iter().find(|agent| !agent.has_ended()) {
                let state = agent.state();
                drop(agent.changed.wait_timeout(state, GLANCE));
            } else {
                std::thread::sleep(GLANCE);
            }
        }
        true
    }

    /// Tells all agents to end their workers.
    pub(crate) fn end(&self) {
        self.agents.iter().filter(|agent| !agent.has_ended()).for_each(|agent| agent.order(&Order::End));
    }

    /// Gives up those whose workers should be gone and are not known to be.
    pub(crate) fn give_up_unended(&self) {
        let unended = self.agents.iter().filter(|agent| !agent.has_ended());
        unended.for_each(|agent| agent.lose("its workers cannot be ended".to_owned()));
    }

    /// Takes what the workers of the visit left.
    pub(crate) fn take_remains(&self) -> Vec<Remains> {
        let of = |agent: &Arc<Agent>| {
            let (workers, output) = agent.state().ended.take()?;
            Some(Remains { name: agent.name.clone(), workers, output })
        };
        self.agents.iter().filter_map(of).collect()
    }

    /// A host that is gone, and was not asked to go.
    pub(crate) fn lost(&self) -> Option<Outcome> {
        self.agents.iter().find_map(|agent| {
            let state = agent.state();
            let what = state.lost.clone().filter(|_| !state.interrupted)?;
            Some(Outcome::HostLost { host: agent.name.clone(), what })
        })
    }

    /// The same, when it is gone before it has told how its workers ended and what they left.
    pub(crate) fn lost_before_its_end(&self) -> Option<Outcome> {
        self.lost().filter(|_| self.agents.iter().any(|agent| agent.state().is_lost_without_end()))
    }

    fn not_started(&self) -> Option<Outcome> {
        self.agents.iter().find_map(|agent| {
            let message = agent.state().not_started.clone()?;
            Some(Outcome::SpawnFailed { message: format!("on host {}: {message}", agent.name) })
        })
    }

    /// MiB that workers of a host wrote, when they had to be ended for it.
    pub(crate) fn flooded(&self) -> Option<u64> {
        self.agents.iter().find_map(|agent| agent.state().flooded)
    }

    /// Whether another agent was asked to end by its user.
    pub(crate) fn interrupted(&self) -> bool {
        self.agents.iter().any(|agent| agent.state().interrupted)
    }
}

impl Drop for Others {
    /// The run is over, or cannot be made.
    fn drop(&mut self) {
        self.agents.iter().for_each(|agent| agent.order(&Order::Quit));
        // They hang up when they go, before this one does: a launcher may end all when it sees the first end.
        self.until(WRITE, &|| false, &|| self.agents.iter().all(|agent| agent.state().lost.is_some()));
    }
}

/// Agents that have come, with what they have.
type Come = BTreeMap<u32, (TcpStream, BufReader<TcpStream>, Facts)>;

/// Waits until all of the `of` agents but the first have come.
fn meet(
    rendezvous: &Rendezvous,
    of: u32,
    limit: Duration,
    interrupted: &dyn Fn() -> bool,
    come: &mut Come,
) -> Result<()> {
    let waiting = Awake::start();
    while come.len() + 1 < of as usize {
        if interrupted() {
            return Err(Error::new(Kind::Interrupted, "interrupted while waiting for the other agents"));
        }
        if waiting.elapsed() >= limit {
            let missing: Vec<String> = (1..of).filter(|a| !come.contains_key(a)).map(|a| a.to_string()).collect();
            return Err(missed(&missing, of, limit, rendezvous.refused()));
        }
        let Some(Peer { purpose: Purpose::Orders { agent }, stream }) = rendezvous.next(GLANCE) else { continue };
        if !(1..of).contains(&agent) || come.contains_key(&agent) {
            refuse(&stream, agent, of);
            continue;
        }
        let heard = hello(&stream);
        waiting.count(HELLO);
        match heard {
            Ok(Some((reader, facts))) => _ = come.insert(agent, (stream, reader, facts)),
            // While this process stood still it may have given up, and called again.
            Ok(None) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                return Err(Error::new(
                    Kind::Interrupted,
                    format!("agent {agent} was interrupted before the run began"),
                ));
            }
            Err(error) => {
                let from = stream.peer_addr().map(|from| format!(" at {}", from.ip())).unwrap_or_default();
                let message = format!("agent {agent}{from} cannot take part");
                return Err(Error::new(Kind::Environment, message).because(error));
            }
        }
    }
    Ok(())
}

/// The place in the crew of an agent's first worker.
fn first_worker(plan: &Plan, arm: Arm, agent: usize) -> usize {
    let start = plan.ranks_of(agent).start;
    plan.workers(arm).iter().take_while(|ranks| ranks.start < start).count()
}

fn missed(missing: &[String], of: u32, limit: Duration, refused: Option<String>) -> Error {
    let message = format!(
        "{} {} of {of} did not come within {}",
        if missing.len() > 1 { "agents" } else { "agent" },
        missing.join(", "),
        units::limit(limit.as_secs_f64())
    );
    let error = Error::new(Kind::Environment, message).help(
        "do all processes of the launcher run ncclsweep, and do they reach this address? --rendezvous names another",
    );
    match refused {
        Some(refused) => error.because(std::io::Error::other(format!("a caller was refused: {refused}"))),
        None => error,
    }
}

fn ranks_of(ranks: &std::ops::Range<usize>) -> String {
    if ranks.len() == 1 { format!("rank {}", ranks.start) } else { format!("ranks {}-{}", ranks.start, ranks.end - 1) }
}

/// Tells a caller that holds the token why it takes no part; one that is gone need not know.
fn refuse(mut stream: &TcpStream, agent: u32, of: u32) {
    let why = if agent < of {
        format!("it has an agent {agent} already: two were started as that one")
    } else {
        format!("its run has {of} agents, and this is agent {agent}, counted from 0")
    };
    let _ = wire::send(&mut stream, &Order::Refused { why });
}
