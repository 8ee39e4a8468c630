//! On whose behalf this process acts.

use super::{PID, Process, get, limits, vfork_child};
use alloc::{boxed::Box, vec, vec::Vec};
use core::sync::atomic::Ordering::*;
use culvert::{Caller, Errno};
use culvert_sys::{nr, syscall};

/// Not 0 while the thread is in [`as_real_user`].
const REAL_SLOT: usize = 3;

pub(super) struct Credentials {
    uid: u32,
    gid: u32,
    /// The real user and group, for access(2).
    real: (u32, u32),
    groups: Vec<u32>,
}

impl Credentials {
    /// Whether the real user or group is not the effective one.
    fn differ(&self) -> bool {
        self.real != (self.uid, self.gid)
    }
}

impl Process {
    /// Credentials may have changed: they are asked for again when needed.
    pub fn forget_credentials(&self) {
        if let Some(child) = vfork_child() {
            child.changed_credentials.store(true, Relaxed);
        }
        crate::description::other_credentials();
        // Leaked on purpose: another thread may be using them, and programs change credentials a handful of times.
        self.credentials.store(core::ptr::null_mut(), Release);
    }

    fn credentials(&self) -> &'static Credentials {
        let known = self.credentials.load(Acquire);
        if !known.is_null() {
            // SAFETY: stored once made, never freed.
            return unsafe { &*known };
        }
        let mut groups = vec![0u32; 64];
        // SAFETY: calls without arguments, and getgroups with a buffer of the length given.
        let (uid, gid, real, count) = unsafe {
            let mut count =
                syscall::call(nr::GETGROUPS, [groups.len(), groups.as_mut_ptr() as usize]);
            if count == Err(Errno::EINVAL) {
                groups.resize(65536, 0);
                count = syscall::call(nr::GETGROUPS, [groups.len(), groups.as_mut_ptr() as usize]);
            }
            (
                syscall::raw(nr::GETEUID, [0; 6]) as u32,
                syscall::raw(nr::GETEGID, [0; 6]) as u32,
                (
                    syscall::raw(nr::GETUID, [0; 6]) as u32,
                    syscall::raw(nr::GETGID, [0; 6]) as u32,
                ),
                count.unwrap_or(0),
            )
        };
        groups.truncate(count);
        let made = Box::leak(Box::new(Credentials {
            uid,
            gid,
            real,
            groups,
        }));
        self.credentials.store(made, Release);
        made
    }
}

/// On whose behalf drivers act now.
pub fn caller() -> Caller<'static> {
    let credentials = get().credentials();
    let (uid, gid) = match credentials.differ() && judged_by_real_user() {
        true => credentials.real,
        false => (credentials.uid, credentials.gid),
    };
    let mut pid = PID.load(Relaxed);
    if pid == 0 && !get().is_confined() {
        // SAFETY: getpid has no arguments.
        pid = unsafe { syscall::raw(nr::GETPID, [0; 6]) as u32 };
        PID.store(pid, Relaxed);
    }
    Caller {
        uid,
        gid,
        groups: &credentials.groups,
        pid,
        umask: limits::umask(),
    }
}

/// Runs `run` with this thread's real user and group in place of the effective ones, for access(2) (`access_override_creds`, fs/open.c): drivers are told so, and the
/// kernel judges what they do by them.
pub fn as_real_user<R>(run: impl FnOnce() -> R) -> R {
    let credentials = get().credentials();
    if !credentials.differ() {
        return run();
    }
    let own = &culvert_intercept::current().slot[REAL_SLOT];
    own.store(1, Relaxed);
    let before = act_as(credentials.real);
    let result = run();
    act_as(before);
    own.store(0, Relaxed);
    result
}

/// Runs `run`, which is the run's business and not the program's, with the effective user and group, also within [`as_real_user`].
pub fn as_itself<R>(run: impl FnOnce() -> R) -> R {
    if !judged_by_real_user() {
        return run();
    }
    let credentials = get().credentials();
    let own = &culvert_intercept::current().slot[REAL_SLOT];
    let real = act_as((credentials.uid, credentials.gid));
    own.store(0, Relaxed);
    let result = run();
    own.store(1, Relaxed);
    act_as(real);
    result
}

/// Changes user and group of this thread for what concerns files; who they were.
fn act_as((uid, gid): (u32, u32)) -> (u32, u32) {
    // SAFETY: without pointers. They concern this thread alone, and say what was before.
    unsafe {
        let gid = syscall::raw(nr::SETFSGID, [gid as usize, 0, 0, 0, 0, 0]);
        let uid = syscall::raw(nr::SETFSUID, [uid as usize, 0, 0, 0, 0, 0]);
        (uid as u32, gid as u32)
    }
}

fn judged_by_real_user() -> bool {
    culvert_intercept::current().slot[REAL_SLOT].load(Relaxed) != 0
}
