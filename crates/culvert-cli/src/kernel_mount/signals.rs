//! Signals of the server: those that ask it to end, end the mount first.

use culvert_server::mounting::{self, MountIdentity, mount_point_of};
use culvert_sys::process::{set_ignored, sigprocmask, sigwait};
use culvert_sys::raw::general::{
    SIG_BLOCK, SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1, SIGXFSZ,
};
use rustix::fs::OFlags;
use std::{process, thread};

/// The signals that end the server, as a set.
const ENDING: u64 = 1 << (SIGHUP - 1) | 1 << (SIGINT - 1) | 1 << (SIGTERM - 1);
/// With those by which a keeper hears of its server.
const KEEPERS: u64 = ENDING | 1 << (SIGUSR1 - 1) | 1 << (SIGCHLD - 1);

/// What a keeper is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// To end.
    End(u32),
    /// Something of its server.
    Server,
}

/// Before there is a server: what a keeper is told waits until it is asked for.
pub fn prepare_keeper() {
    let _ = sigprocmask(SIG_BLOCK, KEEPERS);
}

/// Waits for news.
pub fn news() -> News {
    loop {
        match sigwait(KEEPERS) {
            Ok(SIGUSR1 | SIGCHLD) => return News::Server,
            Ok(signal) => return News::End(signal),
            // Another one came between.
            Err(_) => {}
        }
    }
}

/// Tells the parent, a keeper, that it should look.
pub fn tell_keeper() {
    if let (Some(keeper), Some(signal)) = (
        rustix::process::getppid(),
        rustix::process::Signal::from_named_raw(SIGUSR1 as i32),
    ) {
        let _ = rustix::process::kill_process(keeper, signal);
    }
}

/// Before any thread is made: [`ENDING`] wait until somebody takes them; a log that is a closed
/// pipe and files that reach a limit are errors, not the end.
pub fn prepare() {
    let _ = sigprocmask(SIG_BLOCK, ENDING);
    for signal in [SIGPIPE, SIGXFSZ] {
        let _ = set_ignored(signal, true);
    }
}

/// Waits for a signal that ends the server.
pub fn until_told_to_end() {
    while sigwait(ENDING).is_err() {}
}

/// The same in a host, which stays in the terminal's foreground: what its keys send is for the
/// programs. Blocked signals come to sigwait(3) though they are ignored.
pub fn until_terminated() {
    while sigwait(1 << (SIGTERM - 1)).is_err() {}
}

/// Waits, in a thread of its own, for a signal that ends the server, and ends `mount`.
pub fn unmount_at_signals(mount: MountIdentity) {
    thread::spawn(move || {
        until_told_to_end();
        // With the mount gone the threads that serve it end, and the process with them.
        if mounting::unmount(&mount, false).is_ok() {
            return;
        }
        // In use: what was written reaches the driver, then the users lose it (ENOTCONN).
        if let Some(place) = mount_point_of(&mount)
            && let Ok(root) = place.directory_there(OFlags::RDONLY)
        {
            let _ = rustix::fs::syncfs(&root);
        }
        if mounting::unmount(&mount, true).is_err() {
            // Somebody else has ended it.
        }
        process::exit(0);
    });
}
