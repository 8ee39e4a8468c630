//! Changes of the user on whose behalf a thread acts.

use crate::answer::Answer;
use crate::process::Process;
use crate::strangers::{self, keep_shadows};
use culvert_sys::nr;

/// `CLONE_NEWUSER`, `include/uapi/linux/sched.h`.
pub const NEW_USER: usize = 0x1000_0000;

/// Runs `change`, system call `number` that changes credentials.
pub fn changing(process: &Process, number: usize, change: impl FnOnce() -> Answer) -> Answer {
    prepare(process, number);
    let answer = change();
    culvert_run::task::credentials::forget_credentials();
    answer
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
