//! The pager: fills pages of mapped files when programs touch them, and brings what a process had
//! written to its files when the process is gone.
//!
//! One for a run, started by the first process that needs it (`culvert_cache::pager`),
//! outside all of them. Two processes with one table of descriptors: the *worker* calls drivers;
//! the *guardian* only waits for it and makes another when it dies, of a driver's crash or of kill
//! -9. The userfaultfds stay open meanwhile, so that whoever waits for a page goes on waiting
//! instead of seeing zeroes, and the successor wakes all.

mod fault;
mod file;
mod kernel;
mod model;
mod room;
mod table;
mod worker;

use crate::{failure::Failure, fork::fork_with_descriptors};
use culvert_cache::pager::{LISTENING, LOCK};
use culvert_sys::OwnedFd;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, waitpid};
use std::{
    fmt::Display,
    os::{fd::AsRawFd, unix::ffi::OsStrExt},
    path::Path,
};
use table::Table;

/// How many workers may die of nothing that could be left alone before the pager gives up.
const DEATHS: usize = 1000;

/// Serves the run in `directory`; comes back when its last process is gone.
pub fn serve(directory: &Path) -> Result<u8, Failure> {
    settle();
    // Keeps the run directory while there are pages in it that must still be brought to files.
    let held = std::fs::File::open(directory.join("lock"));
    let lock = held.as_ref().map_or(-1, |lock| {
        // Not waited for: a process that has become another user may hold it alone. That it is open
        // is enough.
        let _ = rustix::fs::flock(lock, rustix::fs::FlockOperation::NonBlockingLockShared);
        lock.as_raw_fd()
    });
    kernel::set_nonblocking(LISTENING);
    let failed = |what: &str, error: &dyn Display| Failure::new(format!("{what}: {error}"));
    let table = Table::new().map_err(|error| failed("no memory for the pager", &error))?;
    let epoll = culvert_sys::fd::epoll_create()
        .map(OwnedFd::into_raw)
        .map_err(|error| failed("no epoll for the pager", &error))?;
    let guardian = std::process::id();
    let (mut deaths, mut followed) = (0, false);
    while deaths < DEATHS {
        // SAFETY: the guardian has one thread.
        match unsafe { fork_with_descriptors() } {
            Ok(None) => {
                if let Err(why) = culvert_run::outside(directory.as_os_str().as_bytes()) {
                    culvert_sys::log!("the pager cannot join its run: {why}");
                    kernel::end(1);
                }
                worker::work(table, epoll, guardian, followed);
            }
            Ok(Some(worker)) => match wait_for(worker) {
                Ok(status) if status.as_raw() == 0 => return Ok(0),
                Ok(status) => deaths += usize::from(!was_killed(status, table)),
                Err(error) => return Err(failed("the pager has lost its worker", &error)),
            },
            Err(error) => return Err(failed("no worker for the pager", &error)),
        }
        followed = true;
        // What the dead one had open of its own; record locks of its slot go with it.
        let _ =
            kernel::close_all_but(|fd| fd <= LOCK || fd == epoll || fd == lock || table.has(fd));
    }
    give_up(table);
    Err(Failure::new("the pager's workers die"))
}

/// Waits for the end of a child.
fn wait_for(child: Pid) -> rustix::io::Result<WaitStatus> {
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Ok(Some((_, status))) => return Ok(status),
            Err(error) => return Err(error),
        }
    }
}

/// Nobody will fill a page: whatever a process has not mapped yet is SIGBUS, so that no thread
/// waits for ever.
fn give_up(table: &Table) {
    use culvert_cache::pager::userfault;
    culvert_sys::log!("the pager's workers die: missing pages of mapped files are SIGBUS now");
    let userfaults: std::collections::HashMap<usize, i32> = table
        .known_connections()
        .filter_map(|(index, _, userfault, _)| Some((index, userfault?)))
        .collect();
    for (_, connection, range) in table.known_ranges() {
        if let Some(&fd) = userfaults.get(&connection) {
            for page in (range.start..range.end()).step_by(culvert_sys::PAGE) {
                let _ = userfault::poison(fd, page);
            }
            let _ = userfault::wake(fd, range.start, range.length);
        }
    }
}

/// Whether somebody has killed the worker: then what it was at is not to blame.
fn was_killed(status: WaitStatus, table: &Table) -> bool {
    let killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
    if killed {
        for fault in &table.faults {
            fault
                .connection
                .store(0, std::sync::atomic::Ordering::Release);
        }
    }
    killed
}

/// Gives up what was inherited from the program that happened to start this one.
fn settle() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let _ = std::env::set_current_dir("/");
    for resource in [Resource::Nofile, Resource::Fsize, Resource::As] {
        let maximum = getrlimit(resource).maximum;
        let _ = setrlimit(
            resource,
            Rlimit {
                current: maximum,
                maximum,
            },
        );
    }
    signals();
    if let Ok(log) = std::env::var("CULVERT_LOG") {
        culvert_sys::log::open(Box::leak(log.into_boxed_str()).as_bytes());
    }
}

/// All signals have their default action and none is blocked, but those that end a group of
/// processes or report what does not concern the pager are ignored: it ends with its last
/// connection.
fn signals() {
    use culvert_sys::{process, raw::general::*};
    const IGNORED: [u32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXFSZ, SIGIO];
    for number in 1..=64 {
        // SIGKILL and SIGSTOP are refused.
        let _ = process::set_ignored(number, IGNORED.contains(&number));
    }
    let _ = process::sigprocmask(SIG_SETMASK, 0);
    // The name in lists of processes.
    let _ = process::set_name(c"culvert-pager");
}
