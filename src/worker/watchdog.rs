//! The watchdog: a thread that sleeps until the supervisor asks something over stdin, or is gone.
//!
//! It touches no GPU library, so it answers whatever the ranks hang in. It costs the measurement nothing: it is blocked in
//! one read from the first to the last, unless a deadline passes.

use std::io::{BufRead, Stdin};
use std::sync::Arc;

use super::team::Team;
use crate::wire::{self, Event, Question, Received};

/// Starts it; `stdin` has given the job already.
pub(super) fn start(stdin: std::io::BufReader<Stdin>, team: Arc<Team>) {
    let answer_all = move || {
        let asked_for = answer(stdin, &team);
        team.wire.end_with_group(&Event::WorkerError { message: asked_for });
    };
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(answer_all).expect("the system starts a thread");
}

/// Answers questions until there are no more; says why there are none.
fn answer(mut stdin: impl BufRead, team: &Team) -> String {
    loop {
        match wire::receive::<Question>(&mut stdin) {
            Ok(Received::Message(Question::Doing)) => team.wire.send(&Event::Stuck { ranks: team.doing() }),
            Ok(Received::Garbage(what)) => return format!("asked over stdin: {what}"),
            // A supervisor that was killed cannot end its workers; a command between them may not pass the end on sooner.
            Ok(Received::End) => {
                return "stdin ended: the supervisor is gone, or a command between closes it".to_owned();
            }
            Err(error) => return format!("cannot read stdin: {error}"),
        }
    }
}
