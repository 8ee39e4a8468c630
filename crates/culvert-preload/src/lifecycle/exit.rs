//! What is open when a program ends, or becomes another: its drivers are told, as by close(2),
//! whose errors are lost then (`exit_files`, `do_close_on_exec`, fs/file.c).
//!
//! Nothing is done, and no system call made, by a program that has nothing driven open.

use crate::description::{Description, Object};
use crate::process::Process;
use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use culvert_cache::nodes;
use culvert_run::files::close_on_exec;

/// Another process has this memory, and may go on with what is open.
static MEMORY_IS_SHARED: AtomicBool = AtomicBool::new(false);

/// A child that has this memory beside its parent is about to be made (clone(2), `CLONE_VM`).
pub fn shares_memory() {
    MEMORY_IS_SHARED.store(true, Relaxed);
}

/// Whether there may be such a child, or this is one.
pub fn memory_is_shared() -> bool {
    MEMORY_IS_SHARED.load(Relaxed)
}

/// This is a process with memory of its own.
pub fn forked() {
    MEMORY_IS_SHARED.store(false, Relaxed);
}

/// This process ends: what is open is flushed and let go of, then its mounts are finished. True:
/// there was something, and nothing of the program may run any more.
///
/// Not where a filter may forbid the calls for it, nor where another process has the same memory or
/// the same table of descriptors.
pub fn exits(process: &Process) -> bool {
    if culvert_run::task::is_confined()
        || culvert_run::task::vfork_child().is_some()
        || MEMORY_IS_SHARED.load(Relaxed)
        // Another process may have this table of descriptors: to close one drops its record locks.
        || !process.table.is_own()
        || !process.uses_drivers()
    {
        return false;
    }
    let open = process.table.all(|_, _| true);
    if !open.is_empty() {
        // The kernel closes when no other thread runs any more.
        culvert_intercept::stop_others();
    }
    flush(&open);
    let numbers = open.into_iter().map(|(fd, _)| fd);
    // One after the other: the last descriptor of a description takes its file with it.
    numbers.for_each(|fd| process.table.remove(fd));
    if !culvert_intercept::multi_threaded() {
        nodes::let_go();
    }
    finish(process);
    true
}

/// The program is about to be replaced, by one that is not intercepted if that is a `stranger`.
/// What it would close is flushed; that may be for nothing, since an exec can fail, but a flush may
/// come several times. Files are not let go of: who has failed to exec goes on with them.
pub fn execs(process: &Process, stranger: bool) {
    if culvert_run::task::is_confined() || process.table.is_shared() || !process.uses_drivers() {
        return;
    }
    let locks = &process.run.posix_locks;
    // To close a descriptor drops the record locks on its file (fcntl(2)), as exec will, if it
    // succeeds.
    let closes = |fd| stranger || close_on_exec(fd).unwrap_or(true);
    let closed = process
        .table
        .all(|fd, description| closes(fd) && !locks.are_on(description.name()));
    flush(&closed);
    if culvert_run::task::vfork_child().is_none() && !MEMORY_IS_SHARED.load(Relaxed) {
        finish(process);
    }
}

fn flush(open: &[(i32, Arc<Description>)]) {
    for (fd, description) in open {
        if let Object::File(file) = &description.object
            && let Err(error) = file.flush()
        {
            culvert_sys::log!("descriptor {fd} is closed by the end of its program: {error}");
        }
    }
}

fn finish(process: &Process) {
    let mounts = &process.mounts;
    for driver in mounts
        .ids()
        .filter_map(|mount| mounts.driver_if_open(mount))
    {
        driver.finish();
    }
}
