//! What was done with signals when this process began, for the commands that it starts: they get their environment changed and
//! nothing else.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

/// Signals of which somebody may have meant something: services ignore a broken pipe, and some parents the end of children.
static PIPE: AtomicBool = AtomicBool::new(false);
static CHILD: AtomicBool = AtomicBool::new(false);

/// Called before `main`: the standard library ignores SIGPIPE there, and gives it back to no child as it was.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

extern "C" fn remember() {
    PIPE.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    CHILD.store(is_ignored(libc::SIGCHLD), Ordering::Relaxed);
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: only read, into a place for it, which is looked at when the call has filled it.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) == 0
            && now.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

fn set(signal: libc::c_int, ignore: bool) -> io::Result<()> {
    // SAFETY: no handler is installed.
    let before = unsafe { libc::signal(signal, if ignore { libc::SIG_IGN } else { libc::SIG_DFL }) };
    if before == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets the command have signals ignored that were ignored when this process began.
pub fn hand_on(command: &mut Command) -> &mut Command {
    let restore = || {
        if PIPE.load(Ordering::Relaxed) {
            set(libc::SIGPIPE, true)?;
        }
        if CHILD.load(Ordering::Relaxed) {
            set(libc::SIGCHLD, true)?;
        }
        Ok(())
    };
    // SAFETY: it reads two statics and calls signal(2), which is async-signal-safe.
    unsafe { command.pre_exec(restore) }
}

/// Makes children wait to be asked how they ended, also where the parent of this process had that ignored.
pub fn notice_children() -> io::Result<()> {
    set(libc::SIGCHLD, false)
}
