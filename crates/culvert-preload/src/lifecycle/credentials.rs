//! Changes of the user on whose behalf a thread acts.

use super::exit;
use crate::answer::Answer;
use crate::process::Process;
use crate::strangers::{self, keep_shadows};
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use culvert_run::files;
use culvert_sys::raw::general::O_DIRECTORY;
use culvert_sys::{Errno, nr};

/// `CLONE_NEWUSER`, `include/uapi/linux/sched.h`.
pub const NEW_USER: usize = 0x1000_0000;

/// Runs `change`, system call `number` that changes credentials.
pub fn changing(process: &Process, number: usize, change: impl FnOnce() -> Answer) -> Answer {
    prepare(process, number);
    let answer = change();
    culvert_run::task::credentials::forget_credentials();
    if answer.is_ok() {
        leave(process);
    }
    answer
}

/// A thread has become another user for good while others had not.
static SOME_STAY: AtomicBool = AtomicBool::new(false);

/// This is the child of a fork: of the threads before it has the one that made it.
pub fn forked(process: &Process) {
    if SOME_STAY.swap(false, Relaxed) {
        leave(process);
    }
}

/// When no thread of the process is the owner of a mount's memory any more, or of a service's, or
/// can become him again, nothing is left of that. Nobody is asked under a filter; numbers of users
/// mean something else in another user namespace.
fn leave(process: &Process) {
    // The memory is its parent's, or the descriptors are others' too.
    let borrows = || culvert_intercept::current().is_vfork_child() || exit::memory_is_shared();
    if !culvert_slots::has_area_of(|_| true)
        || culvert_run::task::is_confined()
        || culvert_run::task::credentials::is_elsewhere()
        || borrows()
        || process.table.is_shared()
    {
        return;
    }
    let users = culvert_sys::process::users();
    let is_left = |uid| !users.contains(&uid);
    let permitted = culvert_sys::process::capget().map_or(0, |[[_, permitted, _], _]| permitted);
    if may_be_anybody(permitted.into()) || !culvert_slots::has_area_of(is_left) {
        return;
    }
    match culvert_intercept::multi_threaded() && others_stay(is_left) {
        true => SOME_STAY.store(true, Relaxed),
        false => culvert_slots::cut(is_left),
    }
}

/// Whether a thread with these permitted capabilities may become any user.
const fn may_be_anybody(permitted: u64) -> bool {
    const CAP_SETUID: u64 = 1 << 7;
    permitted & CAP_SETUID != 0
}

/// Whether another thread is, or can become, a user of whom `is_left` is true and who owns a
/// mount's memory; also where /proc does not say.
fn others_stay(is_left: impl Fn(u32) -> bool) -> bool {
    let Ok(tasks) = files::open(c"/proc/self/task", O_DIRECTORY, 0) else {
        return true;
    };
    let mut names = files::list(&tasks);
    names.retain(|name| name.first().is_some_and(u8::is_ascii_digit));
    let is_owner = |uid| is_left(uid) && culvert_slots::has_area_of(|owner| owner == uid);
    let stays = |name: Vec<u8>| {
        let path = [b"/proc/self/task/", &*name, b"/status\0"].concat();
        let path = CStr::from_bytes_with_nul(&path).map_err(|_| Errno::EINVAL);
        match path.and_then(files::read_file) {
            Ok(status) => Task::read(&status).is_none_or(|task| task.may_be(is_owner)),
            // It has ended.
            Err(errno) => !matches!(errno, Errno::ENOENT | Errno::ESRCH),
        }
    };
    names.is_empty() || names.into_iter().any(stays)
}

/// What /proc says of a thread (proc_pid_status(5)).
struct Task {
    /// Only its name is left: the first one's, whose process goes on.
    has_ended: bool,
    users: [u32; 4],
    permitted: u64,
}

impl Task {
    fn read(status: &[u8]) -> Option<Self> {
        let value = |name: &[u8]| {
            let mut lines = status.split(|&byte| byte == b'\n');
            let value = lines.find_map(|line| line.strip_prefix(name))?;
            str::from_utf8(value).ok()
        };
        let mut users = value(b"Uid:")?.split_ascii_whitespace();
        let mut user = || users.next()?.parse().ok();
        Some(Self {
            has_ended: value(b"State:")?.trim_start().starts_with(['Z', 'X']),
            users: [user()?, user()?, user()?, user()?],
            permitted: u64::from_str_radix(value(b"CapPrm:")?.trim(), 16).ok()?,
        })
    }

    /// Whether it is, or can become, a user of whom `is` is true.
    fn may_be(&self, is: impl Fn(u32) -> bool) -> bool {
        !self.has_ended && (may_be_anybody(self.permitted) || self.users.into_iter().any(is))
    }
}

/// What the user who comes may not do any more is done now: mounts are opened, and what is open can
/// be read without the run directory.
fn prepare(process: &Process, number: usize) {
    if culvert_run::task::is_confined() {
        return;
    }
    culvert_run::restarts::look();
    for mount in process.mounts.ids() {
        let _ = culvert_cache::file_system(mount);
    }
    if !matches!(
        number,
        nr::SETUID | nr::SETREUID | nr::SETRESUID | nr::SETFSUID
    ) {
        return;
    }
    crate::vfs::fifos::prepare(process);
    // What the new user executes is in a run of its own.
    strangers::are_there();
    let ready = process
        .table
        .promote_all(true)
        .and_then(|()| strangers::give_all(process, true))
        .and_then(|()| keep_shadows(process));
    if let Err(error) = ready {
        culvert_sys::log!(
            "what others store into open files of mounts may not be seen as another user, nor \
            these be readable after exec: {error}"
        );
    }
}

/// Runs `enter`, after which this thread may be in another user namespace if `flags` say so.
pub fn entering(process: &Process, flags: usize, enter: impl FnOnce() -> Answer) -> Answer {
    if flags & NEW_USER == 0 {
        return enter();
    }
    before_entering(process);
    let answer = enter()?;
    culvert_run::task::credentials::enter_user_namespace();
    Ok(answer)
}

/// A user namespace is about to be entered: who this thread is cannot be asked inside.
pub fn before_entering(process: &Process) {
    prepare(process, nr::UNSHARE);
    culvert_run::task::caller();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_who_is_the_owner_or_may_become_him() {
        let of = |state: &str, users: &str, permitted: &str| {
            let text = alloc::format!(
                "Name:\tUid: 0\nState:\t{state}\nPid:\t7\nUid:\t{users}\nGid:\t0\t0\t0\t0\n\
                 Groups:\t \nCapInh:\t0000000000000080\nCapPrm:\t{permitted}\n"
            );
            Task::read(text.as_bytes()).map(|task| task.may_be(|uid| uid == 0))
        };
        let (none, all) = ("0000000000000000", "000001ffffffffff");
        for (state, users, permitted, stays) in [
            ("S (sleeping)", "0\t0\t0\t0", all, Some(true)),
            ("R (running)", "9\t9\t9\t9", none, Some(false)),
            ("R (running)", "9\t9\t9\t9", all, Some(true)),
            ("R (running)", "9\t9\t0\t9", none, Some(true)),
            ("R (running)", "9\t9\t9\t0", none, Some(true)),
            ("R (running)", "9\t9\t9", none, None),
            ("R (running)", "9\t9\t9\t9", "", None),
            // It has ended, and the other threads go on.
            ("Z (zombie)", "0\t0\t0\t0", all, Some(false)),
        ] {
            let found = of(state, users, permitted);
            assert_eq!(found, stays, "{state} {users} {permitted}");
        }
    }
}
