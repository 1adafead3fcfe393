//! What a command answers on stdout, and how it ends when that cannot be written.

use std::io::{StdoutLock, Write};

use super::exit::Exit;
use crate::error::{Error, Kind, Result};

/// Writes the answer of a command to stdout, to its last byte, and gives its exit code. A reader (a pager, `head`) that wants
/// no more changes nothing of how the command ends; a full disk does.
pub fn answer(exit: Exit, write: impl FnOnce(&mut StdoutLock) -> Result<()>) -> Result<Exit> {
    let mut out = std::io::stdout().lock();
    // What stands behind the last line break is still in the buffer, whose own flush at the end tells nobody of a failure.
    let written = write(&mut out).and_then(|()| out.flush().map_err(unwritten));
    match written {
        Err(error) if !reader_has_left(&error) => Err(error),
        _ => Ok(exit),
    }
}

/// The same of a command whose answer is a text, and that fails in no other way.
pub fn answer_text(text: impl AsRef<[u8]>) -> Result<Exit> {
    answer(Exit::Held, |out| out.write_all(text.as_ref()).map_err(unwritten))
}

/// The error of an answer that could not be written.
pub fn unwritten(error: std::io::Error) -> Error {
    let help = "it goes to stdout: a file or disk behind it may be full";
    Error::new(Kind::Incomplete, "cannot write to stdout").because(error).help(help)
}

/// Whether all that failed is that the reader of stdout wants no more.
fn reader_has_left(error: &Error) -> bool {
    let mut causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
