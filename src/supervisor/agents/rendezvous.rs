//! Where the agents meet: the first listens at one address, the others connect to it, and each side proves that it holds the
//! token before anything else is read. The connections between workers are made in the same way, and handed to them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::token::{Nonce, Proof, Token, nonce};
use crate::error::{Error, Kind, Result};
use crate::locks::lock;
use crate::supervisor::awake::Awake;
use crate::wire;

/// How long one side of an introduction may take for a word.
const WORD: Duration = Duration::from_secs(5);
/// Longest word of an introduction.
const LONGEST: u64 = 2048;
/// Introductions at a time; beyond them callers are hung up on.
const MOST: usize = 64;
/// Between two attempts to reach a first agent that does not listen yet.
const PAUSE: Duration = Duration::from_millis(100);
/// A connection whose other end is silent for `IDLE`, and for `PROBES` questions `EVERY` so often, is gone.
const IDLE: u32 = 10;
const EVERY: u32 = 5;
const PROBES: u32 = 3;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Orders to this agent, and its reports.
    Orders {
        /// Which agent.
        agent: u32,
    },
    /// What the ranks of its workers share with those of the first host.
    Ranks {
        /// Which agent.
        agent: u32,
        /// Of which visit.
        visit: u64,
    },
}

/// The first word, of the first agent.
#[derive(Serialize, Deserialize)]
struct Challenge {
    program: String,
    nonce: Nonce,
}

/// What a caller answers.
#[derive(Serialize, Deserialize)]
struct Answer {
    purpose: Purpose,
    nonce: Nonce,
    proof: Proof,
}

/// What it gets for it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Welcome { proof: Proof },
    Refused { why: String },
}

/// The last word, of the caller: it has not given up meanwhile, and called again, as it does while the first agent is stopped.
#[derive(Serialize, Deserialize)]
struct Come;

/// Agents and workers of one run speak the same protocols.
fn program() -> String {
    format!("ncclsweep {} wire {}", env!("CARGO_PKG_VERSION"), wire::VERSION)
}

/// A connection from one who holds the token.
#[derive(Debug)]
pub struct Peer {
    /// What for.
    pub purpose: Purpose,
    /// The connection.
    pub stream: TcpStream,
}

/// The first agent's end.
#[derive(Debug)]
pub struct Rendezvous {
    /// Where it listens.
    pub address: SocketAddr,
    peers: Mutex<Receiver<Peer>>,
    refused: Arc<Mutex<Option<String>>>,
}

impl Rendezvous {
    /// Listens at this address alone.
    pub fn listen(host: &str, port: u16, token: Token) -> Result<Self> {
        let failed = |error: std::io::Error| {
            let help = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another program listens there, or another first agent: --rendezvous HOST:PORT names another port"
                }
                _ => "it must be an address of this host: --rendezvous HOST:PORT names one, the same for all agents",
            };
            let at = shown(host, port);
            Error::new(Kind::Environment, format!("cannot listen for the other agents at {at}"))
                .because(error)
                .help(help)
        };
        let listener = TcpListener::bind((host, port)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (sender, peers) = mpsc::channel();
        let refused = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&refused);
        std::thread::spawn(move || answer_all(&listener, &token, &sender, &noted));
        Ok(Self { address, peers: Mutex::new(peers), refused })
    }

    /// The next peer, if one comes within `limit`.
    pub fn next(&self, limit: Duration) -> Option<Peer> {
        lock(&self.peers).recv_timeout(limit).ok()
    }

    /// Why the last caller was refused, when one was.
    pub fn refused(&self) -> Option<String> {
        lock(&self.refused).clone()
    }
}

/// Hears every caller on a thread of its own, so that one who says nothing keeps nobody waiting.
fn answer_all(listener: &TcpListener, token: &Token, peers: &Sender<Peer>, refused: &Arc<Mutex<Option<String>>>) {
    let callers = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming().flatten() {
        if callers.fetch_add(1, Ordering::Relaxed) >= MOST {
            callers.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (token, peers, refused, callers) = (token.clone(), peers.clone(), refused.clone(), callers.clone());
        std::thread::spawn(move || {
            let from = stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |address| address.to_string());
            match admit(&stream, &token) {
                // A first agent that has ended wants no peers.
                Ok(purpose) => _ = peers.send(Peer { purpose, stream }),
                Err(error) => *lock(&refused) = Some(format!("{from}: {error}")),
            }
            callers.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// The first agent's side of an introduction.
pub(super) fn admit(stream: &TcpStream, token: &Token) -> std::io::Result<Purpose> {
    limit(stream, Some(WORD))?;
    let ours = nonce()?;
    say(stream, &Challenge { program: program(), nonce: ours })?;
    let Answer { purpose, nonce: theirs, proof } = hear(stream)?;
    let says = serde_json::to_vec(&purpose)?;
    if !token.holds(&proof, "agent", [&ours, &theirs], &says) {
        say(stream, &Verdict::Refused { why: "its token is not that of the first agent".to_owned() })?;
        return Err(std::io::Error::other("it does not hold the token"));
    }
    say(stream, &Verdict::Welcome { proof: token.prove("first", [&ours, &theirs], &says) })?;
    let Come = hear(stream)?;
    settle(stream)?;
    Ok(purpose)
}

/// An address as `--rendezvous` takes it.
pub(super) fn shown(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Connects to the first agent, which may not listen yet.
pub fn connect(
    (host, port): (&str, u16),
    token: &Token,
    purpose: Purpose,
    limit: Duration,
    interrupted: &dyn Fn() -> bool,
) -> Result<TcpStream> {
    let waiting = Awake::start();
    loop {
        // Looked at before an attempt, so that one follows a time in which this process was stopped.
        let last = waiting.elapsed() >= limit;
        let reached = reach(host, port);
        waiting.count(WORD);
        let failed = match reached {
            Err(error) => {
                Error::new(Kind::Environment, format!("cannot reach the first agent at {}", shown(host, port)))
                    .because(error)
                    .help(
                        "does it run, and may hosts connect to this port? --rendezvous HOST:PORT names another address",
                    )
            }
            Ok(stream) => {
                let introduced = introduce(&stream, token, purpose);
                waiting.count(WORD);
                let Err(error) = introduced else { return Ok(stream) };
                let for_good = !is_passing(&error);
                let error = refused(host, port, error);
                if for_good {
                    return Err(error);
                }
                error
            }
        };
        if interrupted() {
            return Err(Error::new(Kind::Interrupted, "interrupted while looking for the first agent"));
        }
        if last {
            return Err(failed);
        }
        std::thread::sleep(PAUSE);
    }
}

fn refused(host: &str, port: u16, error: std::io::Error) -> Error {
    if is_passing(&error) {
        return Error::new(
            Kind::Environment,
            format!("what listens at {} does not speak as a first agent does", shown(host, port)),
        )
        .because(error)
        .help("it is another program, or a first agent that is stopped; --rendezvous HOST:PORT names another address");
    }
    Error::new(Kind::Environment, format!("the first agent at {} does not take this one", shown(host, port)))
        .because(error)
        .help(format!("every agent needs the same {} or --rendezvous-token-file", super::token::VARIABLE))
}

/// Whether another attempt may end otherwise: the system takes calls for a first agent that is stopped, and one that has many
/// callers hangs up.
fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
    matches!(error.kind(), BrokenPipe | ConnectionReset | TimedOut | UnexpectedEof | WouldBlock)
}

fn reach(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, WORD) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The caller's side of an introduction.
fn introduce(stream: &TcpStream, token: &Token, purpose: Purpose) -> std::io::Result<()> {
    limit(stream, Some(WORD))?;
    let Challenge { program: theirs, nonce: first } = hear(stream)?;
    if theirs != program() {
        let theirs: String = theirs.chars().take(80).flat_map(char::escape_debug).collect();
        return Err(std::io::Error::other(format!("it is {theirs}, this is {}", program())));
    }
    let (ours, says) = (nonce()?, serde_json::to_vec(&purpose)?);
    let proof = token.prove("agent", [&first, &ours], &says);
    say(stream, &Answer { purpose, nonce: ours, proof })?;
    match hear(stream)? {
        Verdict::Welcome { proof } if token.holds(&proof, "first", [&first, &ours], &says) => {
            say(stream, &Come)?;
            settle(stream)
        }
        Verdict::Welcome { .. } => Err(std::io::Error::other("it does not hold the token either")),
        Verdict::Refused { why } => Err(std::io::Error::other(why.chars().take(200).collect::<String>())),
    }
}

fn limit(stream: &TcpStream, limit: Option<Duration>) -> std::io::Result<()> {
    stream.set_read_timeout(limit)?;
    stream.set_write_timeout(limit)
}

/// What an admitted connection is like: no word waits for the next, and an end that fell silent is found out.
fn settle(stream: &TcpStream) -> std::io::Result<()> {
    limit(stream, None)?;
    stream.set_nodelay(true)?;
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &IDLE)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &EVERY)?;
    setsockopt(stream, sockopt::TcpKeepCount, &PROBES)?;
    expect_reading(stream, true)
}

/// Whether the other end is taken for gone when it takes no data for a while. Its system takes some for a process that is stopped,
/// and then no more, though it answers; without the expectation it alone counts whether that answers.
pub(super) fn expect_reading(stream: &TcpStream, expected: bool) -> std::io::Result<()> {
    let limit = if expected { (IDLE + EVERY * PROBES) * 1000 } else { 0 };
    Ok(setsockopt(stream, sockopt::TcpUserTimeout, &limit)?)
}

fn say<T: Serialize>(mut to: &TcpStream, word: &T) -> std::io::Result<()> {
    let mut line = Vec::new();
    wire::send(&mut line, word)?;
    to.write_all(&line)
}

/// Reads one word and not a byte more: what follows is for others. A process that is stopped and goes on has its read of a
/// connection with a time limit interrupted, which says nothing of the other side: the read is made again.
fn hear<T: DeserializeOwned>(from: impl Read) -> std::io::Result<T> {
    let (mut from, mut line, mut byte) = (from.take(LONGEST), Vec::new(), [0]);
    loop {
        match from.read_exact(&mut byte) {
            Ok(()) if byte == *b"\n" => {
                return serde_json::from_slice(&line).map_err(|_| std::io::Error::other("it is no agent"));
            }
            Ok(()) => line.extend(byte),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Err(match line.is_empty() {
        true => std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it hung up"),
        false => std::io::Error::other("it is no agent"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Every other read is interrupted, as by a stop of the process.
    struct Stopped<'a>(&'a [u8], bool);

    impl Read for Stopped<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(std::io::ErrorKind::Interrupted.into()) } else { self.0.read(to) }
        }
    }

    #[test]
    fn a_word_is_heard_by_a_process_that_was_stopped_in_it() {
        let mut from = Stopped(b"\"one\"\n\"two\"\n", false);
        assert_eq!(hear::<String>(&mut from).unwrap(), "one");
        assert_eq!(hear::<String>(&mut from).unwrap(), "two");
        assert_eq!(hear::<String>(&mut from).unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
    }

    fn token(text: &str) -> Token {
        Token::find(None, Some(text.to_owned())).unwrap()
    }

    fn listening() -> (Rendezvous, u16) {
        let rendezvous = Rendezvous::listen("127.0.0.1", 0, token("the token of this run")).unwrap();
        let port = rendezvous.address.port();
        (rendezvous, port)
    }

    fn call(port: u16, text: &str) -> Result<TcpStream> {
        connect(("127.0.0.1", port), &token(text), Purpose::Ranks { agent: 3, visit: 9 }, SOON, &|| false)
    }

    #[test]
    fn who_holds_the_token_is_let_in_with_what_it_came_for() {
        let (rendezvous, port) = listening();
        let mut stream = call(port, "the token of this run").unwrap();
        let mut peer = rendezvous.next(SOON).unwrap();
        assert_eq!(peer.purpose, Purpose::Ranks { agent: 3, visit: 9 });
        peer.stream.write_all(b"first").unwrap();
        stream.write_all(b"other").unwrap();
        let mut heard = [[0; 5]; 2];
        stream.read_exact(&mut heard[0]).unwrap();
        peer.stream.read_exact(&mut heard[1]).unwrap();
        assert_eq!(heard, [*b"first", *b"other"]);
    }

    #[test]
    fn one_that_is_stopped_and_reads_nothing_is_not_taken_for_gone_where_that_is_said() {
        let (rendezvous, port) = listening();
        let stream = call(port, "the token of this run").unwrap();
        let _peer = rendezvous.next(SOON).unwrap();
        // The figure is half a minute; one that a test can wait for.
        setsockopt(&stream, sockopt::TcpUserTimeout, &500).unwrap();
        expect_reading(&stream, false).unwrap();
        stream.set_nonblocking(true).unwrap();
        let full = |_: &i32| (&stream).write(&[0; 1 << 16]).is_ok();
        assert!((0..1000).take_while(full).count() < 1000, "it takes some data and then no more");
        std::thread::sleep(Duration::from_millis(2500));
        let written = (&stream).write(&[0; 1 << 16]).map_err(|error| error.kind());
        assert!(matches!(written, Ok(_) | Err(std::io::ErrorKind::WouldBlock)), "{written:?}");
    }

    #[test]
    fn another_token_is_refused_on_both_sides() {
        let (rendezvous, port) = listening();
        let error = call(port, "the token of that run").unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("token") && error.next_step().unwrap().contains("NCCLSWEEP_TOKEN"), "{cause}");
        assert!(rendezvous.next(Duration::from_millis(100)).is_none());
        assert!(rendezvous.refused().unwrap().contains("does not hold the token"));
    }

    #[test]
    fn a_stranger_that_says_nothing_or_too_much_keeps_nobody_out() {
        let (rendezvous, port) = listening();
        let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut loud = TcpStream::connect(("127.0.0.1", port)).unwrap();
        loud.write_all(&vec![b'x'; 1 << 20]).ok();
        call(port, "the token of this run").unwrap();
        assert!(rendezvous.next(SOON).is_some());
        assert!(rendezvous.refused().is_none_or(|why| why.contains("no agent") || why.contains("reset")));
    }

    #[test]
    fn a_first_agent_that_hangs_up_or_is_not_there_yet_is_called_again_until_the_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hung_up = std::thread::spawn(move || (0..3).for_each(|_| drop(listener.accept().unwrap())));
        let waiting = std::thread::scope(|scope| {
            let caller = scope.spawn(|| call(port, "the token of this run"));
            hung_up.join().unwrap();
            let _rendezvous = Rendezvous::listen("127.0.0.1", port, token("the token of this run")).unwrap();
            caller.join().unwrap()
        });
        waiting.unwrap();
    }

    #[test]
    fn a_first_agent_that_only_pretends_is_found_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            say(&stream, &Challenge { program: program(), nonce: [0; 32] }).unwrap();
            let _: Answer = hear(&stream).unwrap();
            say(&stream, &Verdict::Welcome { proof: [0; 32] }).unwrap();
        });
        let error = call(port, "the token of this run").unwrap_err();
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("does not hold the token"));
    }

    #[test]
    fn a_first_agent_that_never_comes_is_looked_for_until_the_limit() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (at, purpose) = (("127.0.0.1", closed), Purpose::Orders { agent: 1 });
        let limit = Duration::from_millis(300);
        let begun = std::time::Instant::now();
        let error = connect(at, &token("the token of this run"), purpose, limit, &|| false).unwrap_err();
        assert!(error.message().contains("cannot reach") && begun.elapsed() >= limit, "{error}");
    }

    #[test]
    fn an_address_of_another_host_cannot_be_listened_at() {
        let error = Rendezvous::listen("192.0.2.1", 0, token("the token of this run")).unwrap_err();
        assert!(error.message().contains("192.0.2.1") && error.next_step().unwrap().contains("--rendezvous"));
        assert!(error.next_step().unwrap().contains("an address of this host"), "nothing listens there: {error:?}");
        assert_eq!(shown("fe80::1", 7), "[fe80::1]:7");
    }
}
