//! Any agent but the first: starts the workers of its ranks when it is told to, relays what they say, and ends them when it is
//! told to, or when nobody is there to tell it any more.

use std::io::BufReader;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use super::message::{Facts, Left, Order, Report, What};
use super::rendezvous::{Purpose, connect, expect_reading, shown};
use super::token::Token;
use crate::error::{Error, Kind, Result};
use crate::plan::schedule::Plan;
use crate::record::visit::{Outcome, WorkerFacts};
use crate::supervisor::awake::Awake;
use crate::supervisor::crew::{Crew, Heard};
use crate::supervisor::private::Private;
use crate::supervisor::visit::{Planned, Setup, Worker, last_lines, size, start, workers, written};
use crate::wire::{self, Event, Received};

/// How long a worker that has said its last word may take to end before that is reported.
const LAST: Duration = Duration::from_secs(1);
/// Between two looks for orders.
const GLANCE: Duration = Duration::from_millis(50);
/// How long an agent whose user interrupts it waits for the first to end the run.
const LEAVE: Duration = Duration::from_secs(60);
/// How long an agent that was started wrongly looks for the first: that one was mostly started so too, and is gone.
const WRONG: Duration = Duration::from_secs(3);
/// Longer logs are not sent: of a timed visit they are far below.
const MOST_LOG: u64 = 6 << 20;

/// This agent, and how it reaches the first.
pub struct Agent<'a> {
    /// Which it is.
    pub index: u32,
    /// Host and port of the rendezvous.
    pub at: (&'a str, u16),
    /// The run's token.
    pub token: &'a Token,
    /// Folder for links and logs.
    pub private: &'a Private,
    /// How long the first agent may take to be there, and to let workers in.
    pub limit: Duration,
    /// Whether the user or the launcher has interrupted.
    pub interrupted: &'a dyn Fn() -> bool,
}

impl Agent<'_> {
    /// Serves the first agent until the run is over, with what is `prepared`; or tells it why nothing is.
    pub fn serve(&self, prepared: Result<(Setup, Facts)>) -> Result<()> {
        let purpose = Purpose::Orders { agent: self.index };
        let limit = match &prepared {
            Err(error) if error.kind() == Kind::Usage => self.limit.min(WRONG),
            _ => self.limit,
        };
        let stream = connect(self.at, self.token, purpose, limit, self.interrupted);
        let (setup, facts) = match (prepared, &stream) {
            (Ok(prepared), _) => prepared,
            (Err(error), stream) => {
                let why = || match error.kind() {
                    Kind::Interrupted => What::Interrupted,
                    _ => What::NotStarted { message: error.to_string() },
                };
                stream.iter().for_each(|stream| self.report(stream, 0, why()));
                return Err(error);
            }
        };
        let stream = stream?;
        let orders = Orders::of(&stream).map_err(|error| self.gone().because(error))?;
        self.report(&stream, 0, What::Hello(Box::new(facts)));
        loop {
            match orders.come.recv_timeout(GLANCE) {
                Ok(Order::Visit { number, plan, planned }) => {
                    let _ = expect_reading(&stream, true);
                    if self.visit(&setup, &stream, &orders, number, &plan, planned) {
                        return Ok(());
                    }
                }
                Ok(Order::Quit) => return Ok(()),
                Ok(Order::Refused { why }) => return Err(self.refused(why)),
                Ok(Order::Ask(_) | Order::End) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if (self.interrupted)() {
                self.report(&stream, 0, What::Interrupted);
                return self.take_leave(&stream, &orders);
            }
        }
    }

    /// Waits until the first agent has ended the run, and ends well: a launcher that sees a process fail kills all others, also
    /// the first in the midst of writing what was measured.
    fn take_leave(&self, stream: &TcpStream, orders: &Orders) -> Result<()> {
        let waiting = Awake::start();
        while waiting.elapsed() < LEAVE {
            match orders.come.recv_timeout(GLANCE) {
                // It has not heard yet, and waits for workers.
                Ok(Order::Visit { number, .. }) => {
                    self.report(stream, number, What::Ended { workers: Vec::new(), output: Vec::new() });
                }
                Ok(Order::Quit | Order::Refused { .. }) => return Ok(()),
                Ok(Order::Ask(_) | Order::End) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            }
        }
        Err(Error::new(Kind::Interrupted, "interrupted, and the first agent does not end the run"))
    }

    fn refused(&self, why: String) -> Error {
        let at = shown(self.at.0, self.at.1);
        Error::new(Kind::Environment, format!("the first agent at {at} does not take this one"))
            .because(std::io::Error::other(why))
            .help("each process of a launcher is one agent: by hand, RANK counts from 0 and WORLD_SIZE is the same for all")
    }

    fn gone(&self) -> Error {
        let at = shown(self.at.0, self.at.1);
        Error::new(Kind::Incomplete, format!("the first agent at {at} is gone"))
            .help("what it had measured is in its folder of results")
    }

    /// A first agent that hears nothing is found out by its orders, which end.
    fn report(&self, mut stream: &TcpStream, visit: u64, what: What) {
        let _ = wire::send(&mut stream, &Report { visit, what });
    }

    /// Makes this agent's part of a visit; true when it was told meanwhile that the run is over.
    fn visit(
        &self,
        setup: &Setup,
        stream: &TcpStream,
        orders: &Orders,
        number: u64,
        plan: &Plan,
        planned: Planned,
    ) -> bool {
        let output = self.private.file("visit.out");
        let workers = workers(plan, setup, self.private, planned);
        let purpose = Purpose::Ranks { agent: self.index, visit: number };
        // A first agent that is gone is not looked for.
        let in_vain = || (self.interrupted)() || orders.are_over.load(Ordering::Relaxed);
        let started = connect(self.at, self.token, purpose, self.limit, &in_vain)
            .map_err(|error| Outcome::SpawnFailed { message: error.to_string() })
            .and_then(|link| start(plan, planned, &workers, &output, mpsc::channel(), vec![link]));
        let library = setup.library_folders.get(planned.arm.library).map(|folder| folder.join("libnccl.so"));
        let mut part = Part { agent: self, stream, number, library, pids: vec![None; workers.len()], over: false };
        let statuses = match started {
            Ok(mut crew) => part.follow(&mut crew, orders, &workers, &output),
            Err(outcome) => {
                let interrupted = (self.interrupted)();
                let why = What::NotStarted { message: outcome.to_string() };
                self.report(stream, number, if interrupted { What::Interrupted } else { why });
                vec![None; workers.len()]
            }
        };
        let left = |(worker, status): (&Worker, Option<i32>)| {
            let log = if size(&worker.log) > MOST_LOG {
                last_lines(&worker.log).join("\n")
            } else {
                let log = std::fs::read(&worker.log).unwrap_or_default();
                String::from_utf8_lossy(&log).into_owned()
            };
            Left { rank: worker.job.ranks.start, status, log }
        };
        let ended = workers.iter().zip(statuses).map(left).collect();
        // Logs may be more than fits between here and a first agent that is stopped. Its next order tells that it goes on.
        let _ = expect_reading(stream, false);
        self.report(stream, number, What::Ended { workers: ended, output: last_lines(&output) });
        for (worker, pid) in workers.iter().zip(&part.pids) {
            worker.grant(*pid);
            let _ = std::fs::remove_file(&worker.log);
        }
        let _ = std::fs::remove_file(output);
        part.over
    }
}

/// Orders, read on a thread of its own.
struct Orders {
    /// The end of the channel is the end of the connection.
    come: Receiver<Order>,
    /// Whether the connection has ended, for who does not take orders now.
    are_over: Arc<AtomicBool>,
}

impl Orders {
    fn of(stream: &TcpStream) -> std::io::Result<Self> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (sender, come) = mpsc::channel();
        let are_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&are_over);
        std::thread::spawn(move || {
            while let Ok(Received::Message(order)) = wire::receive::<Order>(&mut reader) {
                if sender.send(order).is_err() {
                    return;
                }
            }
            over.store(true, Ordering::Relaxed);
        });
        Ok(Self { come, are_over })
    }
}

/// This agent's part of a visit under way.
struct Part<'a> {
    agent: &'a Agent<'a>,
    stream: &'a TcpStream,
    number: u64,
    /// The way to the library that workers are to load.
    library: Option<PathBuf>,
    pids: Vec<Option<u32>>,
    /// Whether the run is over.
    over: bool,
}

impl Part<'_> {
    /// Relays until all workers are gone, or must be ended; gives how each process ended.
    fn follow(
        &mut self,
        crew: &mut Crew<Event>,
        orders: &Orders,
        workers: &[Worker],
        output: &Path,
    ) -> Vec<Option<i32>> {
        let mut speaking = crew.size();
        while speaking > 0 && self.obey(crew, orders) {
            if let Some(mib) = written(workers, output) {
                self.report(What::Flooded { mib });
                break;
            }
            let (worker, heard) = crew.hear(&Awake::start(), GLANCE, || false);
            match heard {
                Heard::Received(Received::Message(event)) => self.relay(worker, event),
                Heard::Received(Received::Garbage(said)) => self.report(What::Garbage { worker, said }),
                Heard::Received(Received::End) => {
                    speaking -= 1;
                    let status = crew.wait(worker, LAST, || false).ok().flatten();
                    self.report(What::Silent { worker, status: status.map(ExitStatusExt::into_raw) });
                }
                Heard::Silence | Heard::Interrupted => {}
            }
        }
        // How long they may take is the first agent's to say.
        while speaking == 0 && !crew.wait_for_all(GLANCE, || false).unwrap_or(true) && self.obey(crew, orders) {}
        let gone = crew.wait_for_all(Duration::ZERO, || false).unwrap_or(false);
        if !gone {
            // What cannot be ended is seen by what its wait tells.
            let _ = crew.end();
        }
        let status = |worker| crew.wait(worker, Duration::ZERO, || false).ok().flatten().map(ExitStatusExt::into_raw);
        (0..workers.len()).map(status).collect()
    }

    /// Follows the orders that have come; false when the workers are to be ended.
    fn obey(&mut self, crew: &Crew<Event>, orders: &Orders) -> bool {
        loop {
            match orders.come.try_recv() {
                Ok(Order::Ask(question)) => {
                    crew.ask(question);
                    self.report(What::Asked);
                }
                // The first agent begins no visit before it has heard of the end of the last.
                Ok(Order::End | Order::Visit { .. }) => return false,
                // Who was let in is refused no more.
                Ok(Order::Quit | Order::Refused { .. }) => {
                    self.over = true;
                    return false;
                }
                Err(TryRecvError::Empty) if (self.agent.interrupted)() => {
                    self.report(What::Interrupted);
                    return false;
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn relay(&mut self, worker: usize, event: Event) {
        let event = match &event {
            Event::Hello { facts, .. } => {
                self.pids[worker] = Some(facts.pid);
                self.other_library(facts).map_or(event, |message| Event::WorkerError { message })
            }
            _ => event,
        };
        self.report(What::Heard { worker, event: Box::new(event) });
    }

    /// What is wrong when a worker loaded another library than this agent's.
    fn other_library(&self, facts: &WorkerFacts) -> Option<String> {
        let (wanted, loaded) = (self.library.as_ref()?.canonicalize().ok()?, facts.nccl_path.as_ref()?);
        let same = Path::new(loaded).canonicalize().is_ok_and(|loaded| loaded == wanted);
        (!same).then(|| format!("it loaded NCCL from {loaded}, not from {}", wanted.display()))
    }

    fn report(&self, what: What) {
        self.agent.report(self.stream, self.number, what);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use super::super::rendezvous::admit;
    use super::*;
    use crate::record::fixture;

    #[test]
    fn a_first_agent_that_is_gone_is_not_looked_for_until_the_limit() {
        let run = fixture::two_sets();
        let token = Token::find(None, Some("the token of this run".to_owned())).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = ("127.0.0.1", listener.local_addr().unwrap().port());
        let private = Private::create().unwrap();
        let limit = Duration::from_secs(300);
        let agent = Agent { index: 1, at, token: &token, private: &private, limit, interrupted: &|| false };
        let facts = Facts { provenance: run.header.provenance.clone(), devices: vec![0], machine: "a".to_owned() };
        let setup = Setup { library_folders: vec!["/private/library-0".into()], ..Setup::default() };
        let begun = Instant::now();
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                admit(&stream, &token).unwrap();
                wire::receive::<Report>(&mut BufReader::new(&stream)).unwrap();
                // It orders a visit, and is gone before the agent calls for its workers.
                drop(listener);
                let planned = Planned { index: 0, round: 0, arm: run.header.plan.baseline(), untimed: false };
                wire::send(&mut stream, &Order::Visit { number: 1, plan: Box::new(run.header.plan.clone()), planned })
                    .unwrap();
            });
            agent.serve(Ok((setup, facts)))
        });
        assert!(ended.unwrap_err().message().ends_with("is gone"));
        assert!(begun.elapsed() < limit / 2, "{:?}", begun.elapsed());
    }
}
