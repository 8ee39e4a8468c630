//! Calls that change on whose behalf a thread acts.

use super::arguments::native;
use super::done;
use crate::answer::Answer;
use crate::process;
use crate::strangers::{self, keep_shadows};
use culvert_intercept::{Call, Outcome};
use culvert_sys::{nr, syscall};

/// `CLONE_NEWUSER`, `include/uapi/linux/sched.h`.
const NEW_USER: usize = 0x1000_0000;

/// setuid(2), capset(2) and all the others that change credentials.
pub fn changes(call: &mut Call) -> Outcome {
    let asks = matches!(call.number, nr::SETFSUID | nr::SETFSGID);
    if asks && call.args[0] as u32 == u32::MAX {
        return Outcome::Forward;
    }
    prepare(call.number);
    let answer = native(call);
    process::forget_credentials();
    done(answer)
}

/// What the user who comes may not do any more is done now: mounts are opened, and what is open can
/// be read without the run directory.
fn prepare(number: usize) {
    let process = process::get();
    if crate::task::is_confined() {
        return;
    }
    for mount in process.mounts.ids() {
        let _ = process::file_system(mount);
    }
    if !matches!(
        number,
        nr::SETUID | nr::SETREUID | nr::SETRESUID | nr::SETFSUID
    ) {
        return;
    }
    crate::vfs::fifos::prepare();
    // What the new user executes is in a run of its own.
    strangers::are_there();
    let ready = process
        .table
        .promote_all(true)
        .and_then(|()| strangers::give_all(process, true))
        .and_then(|()| keep_shadows(process));
    if let Err(error) = ready {
        crate::log!(
            "what others store into open files of mounts may not be seen as another user, nor these be readable after exec: {error}"
        );
    }
}

/// Runs `enter`, after which this thread may be in another user namespace if `flags` say so.
pub fn entering(flags: usize, enter: impl FnOnce() -> Answer) -> Answer {
    if flags & NEW_USER == 0 {
        return enter();
    }
    before_entering();
    let answer = enter()?;
    process::enter_user_namespace();
    Ok(answer)
}

/// A user namespace is about to be entered: who this thread is cannot be asked inside.
pub fn before_entering() {
    prepare(nr::UNSHARE);
    process::caller();
}

/// setns(2)
pub fn setns(call: &mut Call) -> Outcome {
    let kinds = match call.args[1] {
        0 => kind_of_namespace(call.args[0]),
        kinds => kinds,
    };
    match kinds & NEW_USER {
        0 => Outcome::Forward,
        _ => done(entering(kinds, || native(call))),
    }
}

/// Which namespace a descriptor is of, as a flag of clone(2) (ioctl_nsfs(2)); 0: none.
fn kind_of_namespace(fd: usize) -> usize {
    const NS_GET_NSTYPE: usize = 0xb703;
    // SAFETY: no pointers.
    unsafe { syscall::call(nr::IOCTL, [fd, NS_GET_NSTYPE, 0]) }.unwrap_or(0)
}
