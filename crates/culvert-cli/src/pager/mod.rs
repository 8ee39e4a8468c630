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

use crate::failure::Failure;
use culvert_cache::pager::{LISTENING, LOCK};
use std::{
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
    let failed = |what: &str, error: culvert_sys::Errno| Failure::new(format!("{what}: {error}"));
    let table = Table::new().map_err(|error| failed("no memory for the pager", error))?;
    let epoll = kernel::epoll().map_err(|error| failed("no epoll for the pager", error))?;
    let guardian = std::process::id();
    let (mut deaths, mut followed) = (0, false);
    while deaths < DEATHS {
        // SAFETY: the guardian has one thread.
        match unsafe { kernel::fork_with_descriptors() } {
            Ok(0) => {
                if let Err(why) = culvert_run::outside(directory.as_os_str().as_bytes()) {
                    culvert_sys::log!("the pager cannot join its run: {why}");
                    kernel::end(1);
                }
                worker::work(table, epoll, guardian, followed);
            }
            Ok(worker) => match kernel::wait_for(worker) {
                Ok(0) => return Ok(0),
                Ok(status) => deaths += usize::from(!was_killed(status, table)),
                Err(error) => return Err(failed("the pager has lost its worker", error)),
            },
            Err(error) => return Err(failed("no worker for the pager", error)),
        }
        followed = true;
        // What the dead one had open of its own; record locks of its slot go with it.
        let _ =
            kernel::close_all_but(|fd| fd <= LOCK || fd == epoll || fd == lock || table.has(fd));
    }
    give_up(table);
    Err(Failure::new("the pager's workers die"))
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
fn was_killed(status: i32, table: &Table) -> bool {
    const SIGKILL: i32 = 9;
    let killed = status & 0x7f == SIGKILL;
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
    use culvert_sys::{nr, syscall};
    const IGNORED: [usize; 7] = [1, 2, 3, 13, 15, 17 + 8, 29];
    const SIG_SETMASK: usize = 2;
    for number in 1..=64 {
        // `struct kernel_sigaction`: handler (0 default, 1 ignore), flags, restorer, mask.
        let action = [usize::from(IGNORED.contains(&number)), 0, 0, 0];
        // SAFETY: no handler of ours; SIGKILL and SIGSTOP are refused.
        let _ =
            unsafe { syscall::call(nr::RT_SIGACTION, [number, action.as_ptr() as usize, 0, 8]) };
    }
    let none = 0u64;
    // SAFETY: the set is eight bytes long.
    let _ = unsafe {
        let place = core::ptr::from_ref(&none) as usize;
        syscall::call(nr::RT_SIGPROCMASK, [SIG_SETMASK, place, 0, 8])
    };
    // The name in lists of processes.
    const PR_SET_NAME: usize = 15;
    // SAFETY: the name ends in NUL.
    let _ = unsafe { syscall::call(nr::PRCTL, [PR_SET_NAME, c"culvert-pager".as_ptr() as usize]) };
}
