//! poll(2) and locks, and the beginning of changes by others: what a library waits by.

use super::answers::{checked, unless_missing};
use super::library::{Inner, Open};
use super::observer::Observer;
use alloc::{boxed::Box, sync::Arc};
use core::ffi::{c_int, c_void};
use core::task::Waker;
use culvert::library::abi::{self, Flock};
use culvert::path::PathObserver;
use culvert::{Caller, Errno, Error, Lock, LockKind, LockOwner, Readiness, Result, Wait};
use culvert_sys::waits::Holding;

/// A waker as the library has it, and what it wakes.
#[repr(C)]
struct Waits {
    head: abi::Waker,
    waker: Waker,
}

/// # Safety
/// One of `Waits`, which is there still.
unsafe extern "C" fn wake(waker: *mut abi::Waker) {
    // SAFETY: the caller's promise; the head is its first member.
    unsafe { &(*waker.cast::<Waits>()).waker }.wake_by_ref();
}

/// # Safety
/// The same; nobody uses it any more.
unsafe extern "C" fn give_up(waker: *mut abi::Waker) {
    // SAFETY: the caller's promise; `poll` has made it.
    drop(unsafe { Box::from_raw(waker.cast::<Waits>()) });
}

/// How long a lock is waited for, as the library asks.
#[repr(C)]
struct Until<'a> {
    head: abi::Wait,
    is_over: &'a (dyn Fn() -> bool + Sync),
}

/// # Safety
/// One of `Until`.
unsafe extern "C" fn interrupted(wait: *const abi::Wait) -> c_int {
    // SAFETY: the caller's promise; the head is its first member.
    let until = unsafe { &*wait.cast::<Until<'_>>() };
    c_int::from((until.is_over)())
}

impl Open {
    pub(super) fn ready(&self, waker: Option<&Waker>) -> Result<Readiness> {
        let Some(poll) = self.of.driver.poll else {
            return Ok(Readiness::ALWAYS);
        };
        let head = abi::Waker {
            wake,
            drop: give_up,
        };
        let kept = waker.cloned().map_or(core::ptr::null_mut(), |waker| {
            Box::into_raw(Box::new(Waits { head, waker })).cast()
        });
        let mut events = 0;
        self.called("poll", Wait::Never, |first| {
            // SAFETY: driver.h: an open file, a waker that is the library's from here on, a number.
            unsafe { poll(first, self.file, kept, &raw mut events) }
        })?;
        // No other bits are poll's.
        Ok(Readiness(events as u16))
    }

    pub(super) fn lock_found(&self, owner: LockOwner, lock: &Lock) -> Result<Option<Lock>> {
        let getlk = self.of.driver.getlk.ok_or(Errno::ENOSYS)?;
        let mut found = Flock::from(lock);
        self.called("getlk", Wait::Never, |first| {
            // SAFETY: driver.h: an open file and a lock.
            unsafe { getlk(first, self.file, owner.0, &raw mut found) }
        })?;
        let found = found.lock().ok_or_else(|| {
            Error::because(Errno::EIO, "getlk of the library gives a lock that is none")
        })?;
        Ok(Some(found).filter(|found| found.kind != LockKind::Unlock))
    }

    pub(super) fn lock(&self, owner: LockOwner, lock: &Lock, wait: Wait<'_>) -> Result<()> {
        let setlk = self.of.driver.setlk.ok_or(Errno::ENOSYS)?;
        let lock = Flock::from(lock);
        self.waited("setlk", wait, |first, wait| {
            // SAFETY: driver.h: an open file, a lock, and how long to wait, which live as long as
            // the call.
            unsafe { setlk(first, self.file, owner.0, &raw const lock, wait) }
        })
    }

    pub(super) fn lock_whole(
        &self,
        owner: LockOwner,
        kind: LockKind,
        wait: Wait<'_>,
    ) -> Result<()> {
        let flock = self.of.driver.flock.ok_or(Errno::ENOSYS)?;
        // LOCK_SH, LOCK_EX, LOCK_UN (flock(2)).
        let operation = match kind {
            LockKind::Shared => 1,
            LockKind::Exclusive => 2,
            LockKind::Unlock => 8,
        };
        self.waited("flock", wait, |first, wait| {
            // SAFETY: driver.h: an open file, and how long to wait, which lives as long as the
            // call.
            unsafe { flock(first, self.file, owner.0, operation, wait) }
        })
    }

    /// Calls function `name` with how long it waits.
    fn waited(
        &self,
        name: &str,
        wait: Wait<'_>,
        call: impl FnOnce(*mut c_void, *const abi::Wait) -> c_int,
    ) -> Result<()> {
        let until = match wait {
            Wait::Never => None,
            Wait::UntilInterrupted(is_over) => Some(Until {
                head: abi::Wait { interrupted },
                is_over,
            }),
        };
        let place = until
            .as_ref()
            .map_or(core::ptr::null(), |until| core::ptr::from_ref(until).cast());
        self.called(name, wait, |first| call(first, place))
    }

    /// Calls function `name` by `call`, with its first argument. One that waits keeps no other out.
    fn called(
        &self,
        name: &str,
        wait: Wait<'_>,
        call: impl FnOnce(*mut c_void) -> c_int,
    ) -> Result<()> {
        let inner = &*self.of;
        let _held = Holding::new();
        let _turn = match wait {
            Wait::Never => inner.turn(),
            Wait::UntilInterrupted(_) => None,
        };
        let who = inner.who(&Caller::SYSTEM);
        checked(name, call(inner.first(&who)))
    }
}

impl Inner {
    /// Whether the library tells `observer` of changes from now on.
    pub(super) fn told(&self, observer: Arc<dyn PathObserver>) -> bool {
        let Some(observe) = self.driver.observe else {
            return false;
        };
        let observer = Observer::new(observer);
        let head = observer.head();
        // It stays where it is until the library is at its end.
        self.observers.lock().push(observer);
        let (_held, _turn) = (Holding::new(), self.turn());
        let who = self.who(&Caller::SYSTEM);
        // SAFETY: driver.h: an observer that is there until `finalize` has returned.
        let asked = checked("observe", unsafe { observe(self.first(&who), head) });
        unless_missing(asked).is_some_and(|told| told.is_ok())
    }
}
