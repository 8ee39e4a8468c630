//! Changes of the user on whose behalf a thread acts.

use super::exit;
use crate::answer::Answer;
use crate::process::Process;
use crate::strangers::{self, keep_shadows};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use culvert_sys::nr;

/// `CLONE_NEWUSER`, `include/uapi/linux/sched.h`.
pub const NEW_USER: usize = 0x1000_0000;

/// Runs `change`, system call `number` that changes credentials.
pub fn changing(process: &Process, number: usize, change: impl FnOnce() -> Answer) -> Answer {
    prepare(process, number);
    let before = culvert_slots::has_area_of(|_| true).then(culvert_sys::process::users);
    let answer = change();
    culvert_run::task::credentials::forget_credentials();
    if let (Ok(_), Some(before)) = (&answer, before) {
        leave(before);
    }
    answer
}

/// How many threads have become another user for good.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// The calling thread was `before`. When the last one of the process has become another user, and
/// cannot go back, nothing is left of what only the user before may write to.
fn leave(before: [u32; 4]) {
    const CAP_SETUID: u32 = 1 << 7;
    let now = culvert_sys::process::users();
    let is_left = |uid| before.contains(&uid) && !now.contains(&uid);
    if !culvert_slots::has_area_of(is_left) {
        return;
    }
    let may_return = culvert_sys::process::capget()
        .is_ok_and(|[[_, permitted, _], _]| permitted & CAP_SETUID != 0);
    // The memory is its parent's.
    let borrows = culvert_intercept::current().is_vfork_child() || exit::memory_is_shared();
    if may_return || borrows {
        return;
    }
    let threads = culvert_sys::fs::stat(c"/proc/self/task");
    let threads = threads.map_or(usize::MAX, |found| {
        (found.st_nlink as usize).saturating_sub(2)
    });
    if LEFT.fetch_add(1, Relaxed) + 1 >= threads {
        culvert_slots::cut(|uid| !now.contains(&uid));
    }
}

/// What the user who comes may not do any more is done now: mounts are opened, and what is open can
/// be read without the run directory.
fn prepare(process: &Process, number: usize) {
    if culvert_run::task::is_confined() {
        return;
    }
    for mount in process.mounts.ids() {
        let _ = culvert_cache::looked_at::file_system(mount);
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
            "what others store into open files of mounts may not be seen as another user, nor these be readable after exec: {error}"
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
