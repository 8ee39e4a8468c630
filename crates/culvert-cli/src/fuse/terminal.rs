//! The terminal of the run that starts a server, which may ask for a password there.
//!
//! A server and its children are a process group of their own, so that nobody who means a run by
//! its group ends the server of other runs. The guardian belongs to that group until the server is
//! ready. A program in the background that reads the terminal has SIGTTIN sent to its whole group:
//! so the guardian hears of a question, makes the group the terminal's foreground, and hands what
//! the terminal's keys send on to the run. Afterwards it begins a session of its own. Then no
//! parent in the terminal's session is left, and who still reads the terminal gets EIO (termios(3),
//! orphaned process groups).

use culvert_sys::process::{kill, setsid, sigprocmask, sigwait};
use culvert_sys::raw::general::{
    SIG_BLOCK, SIG_UNBLOCK, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU,
};
use rustix::{
    process::{Pid, getpgid, getpgrp, setpgid},
    termios::{tcgetpgrp, tcsetpgrp},
};
use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// What the terminal's keys and its end send, and what readers in the background get, as a set.
const OF_TERMINALS: u64 = set(&[SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU]);

/// When a group that has become the foreground is continued, in milliseconds: who has handlers for
/// these signals stops himself after them (readpassphrase(3)), some time.
const CONTINUED: [u64; 4] = [0, 10, 100, 500];

const fn set(signals: &[u32]) -> u64 {
    let (mut all, mut at) = (0, 0);
    while at < signals.len() {
        all |= 1 << (signals[at] - 1);
        at += 1;
    }
    all
}

/// In the guardian, before it has threads: the group of the run that starts the server. What the
/// terminal sends waits until [`Question::watch`].
pub fn prepare() -> Pid {
    let _ = sigprocmask(SIG_BLOCK, OF_TERMINALS);
    getpgrp()
}

/// In a child of the guardian, before it becomes the server: it has the signals again.
pub fn release() {
    let _ = sigprocmask(SIG_UNBLOCK, OF_TERMINALS);
}

/// The right of a server's group to ask, until this is gone.
pub struct Question {
    run: Pid,
    server: Pid,
    over: Arc<AtomicBool>,
}

impl Question {
    /// The calling process, a guardian, joins the group of its server, which `run`, another group,
    /// has started.
    pub fn watch(run: Pid, server: Pid) -> Self {
        let _ = setpgid(None, Some(server));
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        thread::spawn(move || {
            loop {
                match sigwait(OF_TERMINALS) {
                    _ if ends.load(SeqCst) => return,
                    Ok(SIGTTIN | SIGTTOU) => to_foreground(run, server),
                    Ok(signal) => signal_group(run, signal),
                    Err(_) => {}
                }
            }
        });
        // Whoever has asked before is stopped, and asks again.
        signal_group(server, SIGCONT);
        Self { run, server, over }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        if let Ok(terminal) = terminal()
            && tcgetpgrp(&terminal) == Ok(self.server)
        {
            let _ = tcsetpgrp(&terminal, self.run);
            // Who has wanted it meanwhile.
            signal_group(self.run, SIGCONT);
        }
        let _ = setsid();
        // Who has asked just before is stopped, and gets EIO now.
        signal_group(self.server, SIGCONT);
    }
}

/// In the process that waits for a guardian: when the shell continues this group, it continues the
/// group of `guardian`.
pub fn hand_on_continue(guardian: i32) {
    const CONTINUE: u64 = set(&[SIGCONT]);
    let _ = sigprocmask(SIG_BLOCK, CONTINUE);
    thread::spawn(move || {
        loop {
            if sigwait(CONTINUE).is_ok()
                && let Ok(group) = getpgid(Pid::from_raw(guardian))
                && group != getpgrp()
            {
                signal_group(group, SIGCONT);
            }
        }
    });
}

fn terminal() -> std::io::Result<File> {
    File::options().read(true).write(true).open("/dev/tty")
}

fn signal_group(group: Pid, signal: u32) {
    let _ = kill(-group.as_raw_nonzero().get(), signal);
}

/// One of `server` would use the terminal, and may if `run` has it. Else `run` is stopped like
/// anybody who asks in the background, until the shell has made it the foreground.
fn to_foreground(run: Pid, server: Pid) {
    let Ok(terminal) = terminal() else {
        return;
    };
    match tcgetpgrp(&terminal) {
        Ok(front) if front == server => {}
        Ok(front) if front == run && tcsetpgrp(&terminal, server).is_ok() => {}
        _ => {
            signal_group(run, SIGTTIN);
            return;
        }
    }
    for pause in CONTINUED {
        thread::sleep(Duration::from_millis(pause));
        signal_group(server, SIGCONT);
    }
}
