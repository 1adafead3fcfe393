//! Another agent, as the first has it: what it was told, what it reports, and whether it is still there.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::first::Sink;
use super::message::{Facts, Left, Order, Report, What};
use crate::error::{Error, Kind, Result};
use crate::locks::lock;
use crate::wire::{self, Event, Received};

/// How long an agent that was let in may take to say what it has.
pub(super) const HELLO: Duration = Duration::from_secs(30);
/// How long an order may take to be written: longer, and nobody reads it.
pub(super) const WRITE: Duration = Duration::from_secs(10);
/// What is said of an agent whose process has ended.
const GONE: &str = "its agent is gone";

/// One of the other agents.
pub(super) struct Agent {
    /// Which it is, counted from 1: the first agent is 0.
    pub index: usize,
    /// Its host and ranks, as messages name it.
    pub name: String,
    orders: Mutex<TcpStream>,
    state: Mutex<State>,
    pub changed: Condvar,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Agent({})", self.name)
    }
}

/// What is known of an agent. All but the last two are of the visit under way.
#[derive(Default)]
pub(super) struct State {
    pub number: u64,
    pub sink: Option<(usize, Sink)>,
    pub gone: BTreeMap<usize, Option<i32>>,
    pub ended: Option<(Vec<Left>, Vec<String>)>,
    pub not_started: Option<String>,
    pub flooded: Option<u64>,
    pub asked: bool,
    pub interrupted: bool,
    pub lost: Option<String>,
}

impl State {
    /// Whether it was lost before it told how its workers ended, and what they left.
    pub fn is_lost_without_end(&self) -> bool {
        self.lost.is_some() && self.ended.is_none()
    }
}

impl Agent {
    /// An agent that is listened to from a thread of its own.
    pub fn follow(index: usize, name: String, orders: TcpStream, reports: BufReader<TcpStream>) -> Result<Arc<Self>> {
        orders
            .set_write_timeout(Some(WRITE))
            .map_err(|error| Error::new(Kind::Environment, format!("cannot talk to agent {index}")).because(error))?;
        let (orders, state) = (Mutex::new(orders), Mutex::default());
        let agent = Arc::new(Self { index, name, orders, state, changed: Condvar::new() });
        let heard = Arc::clone(&agent);
        std::thread::spawn(move || heard.listen(reports));
        Ok(agent)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub fn lose(&self, why: String) {
        self.state().lost.get_or_insert(why);
        self.changed.notify_all();
    }

    fn lose_to(&self, error: &std::io::Error) {
        self.lose(if hung_up(error) {
            GONE.to_owned()
        } else {
            format!("the connection to its agent is gone: {error}")
        });
    }

    pub fn has_ended(&self) -> bool {
        let state = self.state();
        state.ended.is_some() || state.lost.is_some()
    }

    /// Forgets the visit before.
    pub fn expect(&self, number: u64, first_worker: usize, sink: &Sink) {
        let mut state = self.state();
        let (interrupted, lost) = (state.interrupted, state.lost.take());
        *state = State { number, sink: Some((first_worker, sink.clone())), interrupted, lost, ..State::default() };
    }

    pub fn order(&self, order: &Order) {
        let mut stream = lock(&self.orders);
        let sent = wire::send(&mut *stream, order);
        drop(stream);
        if let Err(error) = sent {
            self.lose_to(&error);
        }
    }

    fn listen(&self, mut reports: BufReader<TcpStream>) {
        loop {
            match wire::receive::<Report>(&mut reports) {
                Ok(Received::Message(report)) => self.note(report),
                Ok(Received::Garbage(what)) => return self.lose(format!("its agent broke the protocol: {what}")),
                Ok(Received::End) => return self.lose(GONE.to_owned()),
                Err(error) => return self.lose_to(&error),
            }
        }
    }

    fn note(&self, report: Report) {
        let mut state = self.state();
        if let What::Interrupted = report.what {
            state.interrupted = true;
        }
        // What is left of an earlier visit.
        if report.visit != state.number {
            return;
        }
        let say = |worker: usize, received: Received<Event>| {
            if let Some((first, sink)) = &state.sink {
                // A crew that is gone listens no more.
                let _ = sink.send((first.saturating_add(worker), received));
            }
        };
        match report.what {
            What::Heard { worker, event } => say(worker, Received::Message(*event)),
            What::Garbage { worker, said } => say(worker, Received::Garbage(said)),
            What::Silent { worker, status } => {
                say(worker, Received::End);
                state.gone.insert(worker, status);
            }
            What::NotStarted { message } => state.not_started = Some(message),
            What::Flooded { mib } => state.flooded = Some(mib),
            What::Asked => state.asked = true,
            What::Ended { workers, output } => {
                let gone = workers.iter().enumerate().map(|(worker, left)| (worker, left.status));
                state.gone.extend(gone.collect::<Vec<_>>());
                state.ended = Some((workers, output));
            }
            What::Hello(_) | What::Interrupted => {}
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// Whether the process at the other end has ended. When it leaves something unread, the system tells that by a reset, and
/// otherwise by the end of the stream.
fn hung_up(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// What an agent says first; nothing where it hung up.
pub(super) fn hello(stream: &TcpStream) -> std::io::Result<Option<(BufReader<TcpStream>, Facts)>> {
    stream.set_read_timeout(Some(HELLO))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let facts = match wire::receive(&mut reader) {
        Ok(Received::Message(Report { what: What::Hello(facts), .. })) => *facts,
        Ok(Received::Message(Report { what: What::NotStarted { message }, .. })) => {
            return Err(std::io::Error::other(message));
        }
        Ok(Received::Message(Report { what: What::Interrupted, .. })) => {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        Ok(Received::Message(_)) => return Err(std::io::Error::other("it says something else")),
        Ok(Received::Garbage(what)) => return Err(std::io::Error::other(what)),
        Ok(Received::End) => return Ok(None),
        Err(error) if hung_up(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    stream.set_read_timeout(None)?;
    Ok(Some((reader, facts)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// The first agent's end of a connection, and that of the other.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, other)
    }

    fn followed(first: TcpStream) -> Arc<Agent> {
        let reports = BufReader::new(first.try_clone().unwrap());
        Agent::follow(1, "b".to_owned(), first, reports).unwrap()
    }

    /// Why it was lost; waits for that.
    fn lost(agent: &Agent) -> String {
        let state = agent.changed.wait_timeout_while(agent.state(), HELLO, |state| state.lost.is_none()).unwrap().0;
        state.lost.clone().expect("a word on the lost agent")
    }

    #[test]
    fn an_agent_whose_process_has_ended_is_gone_whatever_it_left_unread_or_half_said() {
        let at_rest = |_: &Agent, _: &mut TcpStream| {};
        let with_an_order_unread = |agent: &Agent, other: &mut TcpStream| {
            agent.order(&Order::End);
            // The order has come, and is left where it is.
            assert_ne!(other.peek(&mut [0; 8]).unwrap(), 0);
        };
        let in_the_midst_of_a_report = |_: &Agent, other: &mut TcpStream| other.write_all(b"{\"visit\":3,").unwrap();
        let ways: [fn(&Agent, &mut TcpStream); 3] = [at_rest, with_an_order_unread, in_the_midst_of_a_report];
        for way in ways {
            let (first, mut other) = pair();
            let agent = followed(first);
            way(&agent, &mut other);
            drop(other);
            assert_eq!(lost(&agent), GONE);
        }
    }

    #[test]
    fn what_an_agent_told_of_the_end_of_its_workers_stays_when_it_is_gone() {
        for told in [true, false] {
            let (first, mut other) = pair();
            let agent = followed(first);
            if told {
                let what = What::Ended { workers: Vec::new(), output: Vec::new() };
                wire::send(&mut other, &Report { visit: 0, what }).unwrap();
            }
            drop(other);
            assert_eq!(lost(&agent), GONE);
            assert_eq!(agent.state().is_lost_without_end(), !told);
        }
    }

    #[test]
    fn an_agent_that_is_told_to_go_on_after_it_has_ended_is_gone() {
        let (first, other) = pair();
        drop(other);
        // Nobody listens, so that it is the order that finds out.
        let agent = Agent {
            index: 1,
            name: "b".to_owned(),
            orders: Mutex::new(first),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        while agent.state().lost.is_none() {
            agent.order(&Order::End);
        }
        assert_eq!(lost(&agent), GONE);
    }

    #[test]
    fn one_that_hangs_up_before_it_has_said_what_it_has_is_no_error() {
        let (mut first, other) = pair();
        first.write_all(b"unread").unwrap();
        assert_ne!(other.peek(&mut [0; 8]).unwrap(), 0);
        drop(other);
        assert!(hello(&first).unwrap().is_none());
    }
}
