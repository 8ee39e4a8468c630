//! On whose behalf this thread acts.
//!
//! Credentials belong to the thread (credentials(7)); C libraries only make it look as if the
//! process had them, by a call in each thread. What most threads have stands in `OTHERS`; a
//! thread that changed its own while there were others has its own in its block, and gives them to
//! the threads that it makes.

use super::{PID, is_confined, limits, vfork_child};
use alloc::{boxed::Box, vec, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering::*};
use culvert::{Caller, Errno, Rights};
use culvert_sys::process;
use culvert_sys::sync::{AtomicRef, Mutex};

/// Not 0 while the thread is in [`as_real_user`].
const REAL_SLOT: usize = 3;

/// What `NUMBER` is at first.
const FIRST: u32 = 1;

/// In [`culvert_intercept::ThreadBlock::credentials`]: what the process's other threads have.
const AS_OTHERS: usize = 0;
/// Likewise: the kernel is to be asked. Anything else is where the thread's own stand.
const UNKNOWN: usize = 1;

/// The capabilities over files, which setfsuid(2) takes and gives back (`CAP_FS_MASK`,
/// include/linux/capability.h): those with the numbers 0 to 4, 9, 27 and 32.
const OVER_FILES: u64 = 0x1f | 1 << 9 | 1 << 27 | 1 << 32;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Credentials {
    /// The user and group that count for files (setfsuid(2)).
    ids: (u32, u32),
    /// The real user and group, for access(2).
    real: (u32, u32),
    groups: Vec<u32>,
    /// The capabilities that count, and those that may.
    effective: Rights,
    permitted: Rights,
    /// The capabilities that count for access(2) (`access_override_creds`, fs/open.c).
    for_access: Rights,
    /// In another user namespace than the run: numbers and capabilities mean something else there.
    /// Who the thread was when it entered that namespace counts on, without capabilities.
    elsewhere: bool,
}

/// Those of the threads that have not changed their own.
static OTHERS: AtomicRef<Credentials> = AtomicRef::new();
/// The number of this process's credentials: the kernel makes new ones for each process and each
/// change (credentials(7)).
static NUMBER: AtomicU32 = AtomicU32::new(FIRST);

/// This is a new process, or its credentials may have changed.
pub fn are_others() {
    NUMBER.fetch_add(1, Relaxed);
}

/// A number that no other credentials of this process have had. Never 0.
pub fn number() -> u32 {
    NUMBER.load(Relaxed)
}

/// All that any thread has had. They are compared, so a program that goes back and forth between
/// users needs no more memory each time.
static ALL: Mutex<Vec<&'static Credentials>> = Mutex::new(Vec::new());

impl Credentials {
    /// Whether access(2) goes by others (`access_need_override_creds`, fs/open.c).
    fn differ(&self) -> bool {
        self.real != self.ids || self.for_access != self.effective
    }

    fn kept(self) -> &'static Self {
        let mut all = ALL.lock();
        if let Some(same) = all.iter().find(|known| ***known == self) {
            return same;
        }
        let made: &'static Self = Box::leak(Box::new(self));
        all.push(made);
        made
    }

    /// Asks the kernel.
    fn ask(confined: bool) -> Self {
        let mut groups = vec![0u32; 64];
        let mut count = process::getgroups(&mut groups);
        if count == Err(Errno::EINVAL) {
            groups.resize(65536, 0);
            count = process::getgroups(&mut groups);
        }
        groups.truncate(count.unwrap_or(0));
        // Nobody has the number -1: nothing changes, and the answer is what is (setfsuid(2)). Under
        // a filter only calls that programs make.
        const NOBODY: u32 = u32::MAX;
        let ids = match confined {
            true => (process::geteuid(), process::getegid()),
            false => (process::setfsuid(NOBODY), process::setfsgid(NOBODY)),
        };
        let real = (process::getuid(), process::getgid());
        let (effective, permitted) = match confined {
            true => [Rights::of_user(ids.0); 2].into(),
            false => capabilities().unwrap_or([Rights::of_user(ids.0); 2].into()),
        };
        let by_uid = match real.0 {
            0 => permitted,
            _ => Rights::NONE,
        };
        // SECBIT_NO_SETUID_FIXUP (capabilities(7)): user numbers do not decide.
        let no_fixup = || process::securebits().unwrap_or(0) & 4 != 0;
        let for_access = match !confined && by_uid != effective && no_fixup() {
            true => effective,
            false => by_uid,
        };
        Self {
            ids,
            real,
            groups,
            effective,
            permitted,
            for_access,
            elsewhere: false,
        }
    }
}

/// The thread's capabilities, effective and permitted.
fn capabilities() -> Option<(Rights, Rights)> {
    let [low, high] = process::capget().ok()?;
    let join = |at: usize| Rights(u64::from(low[at]) | u64::from(high[at]) << 32);
    Some((join(0), join(1)))
}

/// Makes `effective` count for this thread.
fn set_effective(effective: Rights) {
    let Ok(mut sets) = process::capget() else {
        return;
    };
    sets[0][0] = effective.0 as u32;
    sets[1][0] = (effective.0 >> 32) as u32;
    let _ = process::capset(&sets);
}

/// The credentials of this thread may have changed: they are asked for again when needed.
pub fn forget_credentials() {
    if let Some(child) = vfork_child() {
        child.changed_credentials.store(true, Relaxed);
    }
    are_others();
    if credentials().elsewhere {
        return;
    }
    let own = &culvert_intercept::current().credentials;
    if culvert_intercept::multi_threaded() {
        own.store(UNKNOWN, Relaxed);
    } else {
        own.store(AS_OTHERS, Relaxed);
        forget_others();
    }
}

/// What the threads have that have not changed theirs is asked for again.
pub(super) fn forget_others() {
    OTHERS.set(None);
}

/// This thread has entered another user namespace; it was asked who it is ([`caller`]) before.
pub fn enter_user_namespace() {
    let before = credentials();
    let here = Credentials {
        real: before.ids,
        effective: Rights::NONE,
        permitted: Rights::NONE,
        for_access: Rights::NONE,
        elsewhere: true,
        ..before.clone()
    };
    are_others();
    let here = core::ptr::from_ref(here.kept());
    let own = &culvert_intercept::current().credentials;
    own.store(here as usize, Relaxed);
}

/// Whether this thread is in another user namespace than the run, where numbers of users mean
/// something else.
pub fn is_elsewhere() -> bool {
    credentials().elsewhere
}

/// Whether access(2) may go by another user than other calls, as far as that is known: nobody is
/// asked, and a program that has not changed its user begins with one.
pub fn may_differ() -> bool {
    let own = culvert_intercept::current().credentials.load(Relaxed);
    known(own).map_or(number() != FIRST, Credentials::differ)
}

#[inline]
fn credentials() -> &'static Credentials {
    let own = culvert_intercept::current().credentials.load(Relaxed);
    known(own).unwrap_or_else(|| asked(own))
}

/// The credentials of a thread whose block has `own`, if nobody needs to be asked.
#[inline]
fn known(own: usize) -> Option<&'static Credentials> {
    match own {
        AS_OTHERS => OTHERS.get(),
        UNKNOWN => None,
        // SAFETY: of one that is kept, which is never freed.
        own => unsafe { (own as *const Credentials).as_ref() },
    }
}

#[cold]
fn asked(own: usize) -> &'static Credentials {
    let made = Credentials::ask(is_confined()).kept();
    match own {
        AS_OTHERS => OTHERS.set(Some(made)),
        _ => culvert_intercept::current()
            .credentials
            .store(core::ptr::from_ref(made) as usize, Relaxed),
    }
    made
}

/// On whose behalf drivers act now.
pub fn caller() -> Caller<'static> {
    let credentials = credentials();
    let ((uid, gid), rights) = match credentials.differ() && judged_by_real_user() {
        true => (credentials.real, credentials.for_access),
        false => (credentials.ids, credentials.effective),
    };
    Caller {
        uid,
        gid,
        groups: &credentials.groups,
        pid: process_number(),
        umask: limits::umask(),
        rights: Some(rights),
    }
}

/// The number of this process, by which drivers know it. It is asked for before a child has this
/// memory, too: what drivers know there is its parent's.
pub fn process_number() -> u32 {
    let known = PID.load(Relaxed);
    if known != 0 || is_confined() {
        return known;
    }
    let number = process::getpid();
    if vfork_child().is_none() {
        PID.store(number, Relaxed);
    }
    number
}

/// Runs `run` with this thread's real user and group in place of the effective ones, for access(2)
/// (`access_override_creds`, fs/open.c): drivers are told so, and the kernel judges what they do by
/// them.
pub fn as_real_user<R>(run: impl FnOnce() -> R) -> R {
    let credentials = credentials();
    if !credentials.differ() || credentials.elsewhere {
        return run();
    }
    let own = &culvert_intercept::current().slot[REAL_SLOT];
    own.store(1, Relaxed);
    credentials.become_real();
    let result = run();
    credentials.become_itself();
    own.store(0, Relaxed);
    result
}

/// Runs `run`, which is the run's business and not the program's, with the effective user and
/// group, also within [`as_real_user`].
pub fn as_itself<R>(run: impl FnOnce() -> R) -> R {
    if !judged_by_real_user() {
        return run();
    }
    let credentials = credentials();
    let own = &culvert_intercept::current().slot[REAL_SLOT];
    credentials.become_itself();
    own.store(0, Relaxed);
    let result = run();
    own.store(1, Relaxed);
    credentials.become_real();
    result
}

impl Credentials {
    /// Which capabilities count after this thread went from user `from` to `to` by setfsuid(2)
    /// (`cap_task_fix_setuid`, security/commoncap.c).
    fn after(&self, (from, to): (u32, u32), before: Rights) -> Rights {
        match (from, to) {
            (0, 1..) => Rights(before.0 & !OVER_FILES),
            (1.., 0) => Rights(before.0 | self.permitted.0 & OVER_FILES),
            _ => before,
        }
    }

    fn become_real(&self) {
        act_as(self.real);
        let now = self.after((self.ids.0, self.real.0), self.effective);
        if now != self.for_access {
            set_effective(self.for_access);
        }
    }

    fn become_itself(&self) {
        let now = self.after((self.ids.0, self.real.0), self.effective);
        if now != self.for_access {
            // First: it may take them to become itself again.
            set_effective(now);
        }
        act_as(self.ids);
        if self.after((self.real.0, self.ids.0), now) != self.effective {
            set_effective(self.effective);
        }
    }
}

/// Makes these the user and group of this thread for what concerns files.
fn act_as((uid, gid): (u32, u32)) {
    process::setfsgid(gid);
    process::setfsuid(uid);
}

fn judged_by_real_user() -> bool {
    culvert_intercept::current().slot[REAL_SLOT].load(Relaxed) != 0
}
