//! Processes that are made: what is done before, in the parent and in the child.

use super::{credentials, exit};
use crate::descriptors::{handed, mount_tables};
use crate::vfs::proc_files;
use crate::{fuse_server, process};
use culvert::Errno;
use culvert_intercept::{CloneFlags, ForkHooks, descriptors as classes, images};
use culvert_run::{internal::with_more, task::tables};
use culvert_sys::sync::Mutex;

/// What happens around the making of processes.
pub const HOOKS: ForkHooks = ForkHooks {
    before,
    parent,
    child,
    thread: fuse_server::processors::restore,
};

/// What makes the heap smaller.
static TRIM: Mutex<Option<fn()>> = Mutex::new(None);

/// Before memory is copied for another process, `trim` gives back what the heap does not need.
pub fn trim_with(trim: fn()) {
    *TRIM.lock() = Some(trim);
}

fn before(flags: CloneFlags) {
    if mount_tables::are_due() {
        proc_files::write_all_due();
    }
    fuse_server::processors::restore();
    let vfork = flags.vm() && flags.vfork();
    let process = process::get();
    if flags.vm() && !flags.thread() {
        // In memory that the child shares its own number would be its parent's.
        culvert_run::task::process_number();
        if !flags.vfork() {
            exit::shares_memory();
        }
    }
    if !flags.vm() {
        images::before_fork();
        if let Some(trim) = *TRIM.lock() {
            trim();
        }
    }
    if flags.new_user() {
        credentials::before_entering(process);
    }
    if vfork {
        process.before_vfork();
    }
    if flags.fs() && !flags.vm() {
        process.share_working_directory();
        culvert_run::task::limits::umask_is_shared();
    }
    // The child shares open file descriptions, so the kernel must keep them from here on.
    let promoted = match process.table.promote_all(false) {
        // A full table is no reason to lose what a child inherits.
        Err(Errno::EMFILE) => {
            let promote = || process.table.promote_all(false);
            with_more(promote)
                .or_else(|| process.run.without_placeholder(promote))
                .unwrap_or(Err(Errno::EMFILE))
        }
        promoted => promoted,
    };
    if let Err(error) = promoted {
        culvert_sys::log!(
            "fork: some descriptors of mounts will not be shared with the child: {error}"
        );
    }
    process.table.before_fork(flags.files(), flags.vm(), vfork);
    if flags.files() && !flags.vm() {
        handed::note_paths();
        culvert_cache::nodes::lend();
        if let Err(error) = classes::share() {
            culvert_sys::log!("fork: a child may close descriptors that Culvert holds: {error}");
        }
    }
    if vfork {
        culvert_run::task::vfork::enter_vfork(flags.files());
    }
}

fn parent(flags: CloneFlags, _result: isize) {
    if flags.vm() && flags.vfork() {
        culvert_run::task::vfork::leave_vfork();
    }
}

fn child(flags: CloneFlags) {
    if flags.new_user() {
        culvert_run::task::credentials::enter_user_namespace();
    }
    if flags.vm() {
        if !flags.vfork() && !flags.files() {
            tables::thread_has_own();
        }
        return;
    }
    let process = process::get();
    process::forget_pid();
    exit::forked();
    if !flags.files() {
        credentials::forked(process);
    }
    if culvert_intercept::forked_beside_others() {
        culvert_run::node_locks::NodeLocks::forget_lent();
        process
            .table
            .each(|_, description| description.forget_turn());
    }
    process.run.posix_locks.forget_all(flags.files());
    let other_table = process.table.forked(flags.files());
    let mounts = &process.mounts;
    for driver in mounts
        .ids()
        .filter_map(|mount| mounts.driver_if_open(mount))
    {
        driver.forked(flags.files());
    }
    if other_table {
        process.table.forget_all();
    }
    culvert_cache::pager_forked::forked(flags.files());
    // With a connection of its own.
    culvert_cache::stores::forked();
    culvert_cache::stores::rewatch_absent();
    culvert_cache::pager_forked::settle();
}
