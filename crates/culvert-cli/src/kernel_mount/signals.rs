//! Signals of the server: those that ask it to end, end the mount first.

use culvert_server::mounting::{self, MountIdentity, mount_point_of};
use culvert_sys::raw::general::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use culvert_sys::{nr, syscall};
use rustix::fs::OFlags;
use std::{process, thread};

const SIGPIPE: usize = 13;
const SIGXFSZ: usize = 25;
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
    block(KEEPERS);
}

/// Waits for news.
pub fn news() -> News {
    loop {
        match wait(KEEPERS) {
            Some(SIGUSR1 | SIGCHLD) => return News::Server,
            Some(signal) => return News::End(signal),
            None => {}
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

fn block(set: u64) {
    const SIG_BLOCK: usize = 0;
    // SAFETY: the set is eight bytes and outlives the call.
    let _ = unsafe {
        syscall::call(
            nr::RT_SIGPROCMASK,
            [SIG_BLOCK, (&raw const set) as usize, 0, size_of::<u64>()],
        )
    };
}

/// The next signal of `set`, for which it waits; none when another one came between.
fn wait(set: u64) -> Option<u32> {
    // SAFETY: the set is eight bytes and outlives the call; nothing is told of the signal.
    let taken = unsafe {
        syscall::call(
            nr::RT_SIGTIMEDWAIT,
            [(&raw const set) as usize, 0, 0, size_of::<u64>()],
        )
    };
    taken.ok().map(|signal| signal as u32)
}

/// Before any thread is made: [`ENDING`] wait until somebody takes them; a log that is a closed
/// pipe and files that reach a limit are errors, not the end.
pub fn prepare() {
    block(ENDING);
    for signal in [SIGPIPE, SIGXFSZ] {
        // `struct sigaction` of the kernel: SIG_IGN, no flags, no restorer, no mask.
        let action: [u64; 4] = [1, 0, 0, 0];
        // SAFETY: the structure outlives the call; ignoring installs no handler.
        let _ = unsafe {
            syscall::call(
                nr::RT_SIGACTION,
                [signal, action.as_ptr() as usize, 0, size_of::<u64>()],
            )
        };
    }
}

/// Waits, in a thread of its own, for a signal that ends the server, and ends `mount`.
pub fn unmount_at_signals(mount: MountIdentity) {
    thread::spawn(move || {
        while wait(ENDING).is_none() {}
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
