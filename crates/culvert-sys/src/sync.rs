//! Futex locks for code inside hooks: no poisoning, no thread-local state, no libc (futex(2)).
//!
//! They are process-private. Fork is made safe by the interception engine, which lets no other
//! thread be inside a hook while the process forks, but those that wait there with no lock held
//! ([`waits`]): so no lock is ever copied held.

pub use crate::atomic_ref::AtomicRef;
use crate::table::calls;
use crate::{Errno, waits};
use core::ptr::null;
use core::sync::atomic::{AtomicU32, Ordering::*};
use linux_raw_sys::general as linux;

/// A three-state futex lock: 0 free, 1 held, 2 held with waiters (Drepper, "Futexes are tricky",
/// mutex 2).
pub struct RawFutex(AtomicU32);

calls! { waiting:
    fn wait_elsewhere(word: *mut u32, operation: u32, expected: u32, limit: *const linux::timespec)
        -> () = FUTEX[word, operation, expected, limit];
}

calls! {
    fn wait(word: *mut u32, operation: u32, expected: u32, limit: *const linux::timespec) -> ()
        = FUTEX[word, operation, expected, limit];
    fn wake(word: *mut u32, operation: u32, count: usize) -> usize = FUTEX[word, operation, count];
}

/// Sleeps while `*word == expected`; returns at once when it differs, and possibly for no reason.
pub fn futex_wait(word: &AtomicU32, expected: u32) {
    let _ = wait(
        word.as_ptr(),
        linux::FUTEX_WAIT | linux::FUTEX_PRIVATE_FLAG,
        expected,
        null(),
    );
}

/// The same, while other threads may fork ([`waits`]).
pub fn futex_wait_outside(word: &AtomicU32, expected: u32) {
    let operation = linux::FUTEX_WAIT | linux::FUTEX_PRIVATE_FLAG;
    let _ = wait_elsewhere(word.as_ptr(), operation, expected, null());
}

/// Wakes up to `count` threads that sleep on `word`.
pub fn futex_wake(word: &AtomicU32, count: usize) {
    let _ = wake(
        word.as_ptr(),
        linux::FUTEX_WAKE | linux::FUTEX_PRIVATE_FLAG,
        count,
    );
}

/// Sleeps while `*word == expected`, at most so many nanoseconds (less than a second); also between
/// processes.
pub fn shared_wait(word: &AtomicU32, expected: u32, nanoseconds: u32) {
    let limit = within_a_second(nanoseconds);
    let _ = wait(word.as_ptr(), linux::FUTEX_WAIT, expected, &raw const limit);
}

/// The same, while other threads may fork ([`waits`]). ETIMEDOUT: the time has passed.
pub fn shared_wait_outside(word: &AtomicU32, expected: u32, nanoseconds: u32) -> Result<(), Errno> {
    let limit = within_a_second(nanoseconds);
    wait_elsewhere(word.as_ptr(), linux::FUTEX_WAIT, expected, &raw const limit)
}

fn within_a_second(nanoseconds: u32) -> linux::timespec {
    linux::timespec {
        tv_sec: 0,
        tv_nsec: nanoseconds.into(),
    }
}

/// Wakes one who sleeps on `word`, in any process.
pub fn shared_wake_one(word: &AtomicU32) {
    let _ = wake(word.as_ptr(), linux::FUTEX_WAKE, 1);
}

/// Wakes all who sleep on `word`, in any process.
pub fn shared_wake(word: &AtomicU32) {
    let _ = wake(word.as_ptr(), linux::FUTEX_WAKE, i32::MAX as usize);
}

// SAFETY: exclusive: only the 0 -> 1 or 0 -> 2 transition enters, with acquire; unlock releases.
unsafe impl lock_api::RawMutex for RawFutex {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to name the initial value
    const INIT: Self = Self(AtomicU32::new(0));
    // A thread counts what it holds, so that it must be the one that releases it.
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        waits::add(1);
        if self.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            while self.0.swap(2, Acquire) != 0 {
                futex_wait(&self.0, 2);
            }
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let taken = self.0.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
        if taken {
            waits::add(1);
        }
        taken
    }

    /// lock_api's own takes the lock to know: in a child of fork that copies a page.
    #[inline]
    fn is_locked(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(0, Release) == 2 {
            futex_wake(&self.0, 1);
        }
        waits::add(-1);
    }
}

/// Releases a lock that a thread has taken which is not there any more: the process is a forked
/// child.
///
/// # Safety
/// The lock is held, and nobody will use or release what its holder had.
pub unsafe fn release_of_another<T>(lock: &Mutex<T>) {
    // It was another thread that has counted it.
    waits::add(1);
    // SAFETY: the caller's promise.
    unsafe { lock.force_unlock() };
}

/// A mutual-exclusion lock for use inside hooks.
pub type Mutex<T> = lock_api::Mutex<RawFutex, T>;
/// The guard of a [`Mutex`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFutex, T>;

/// A value made on first use, once.
pub struct OnceCell<T> {
    lock: Mutex<()>,
    ready: core::sync::atomic::AtomicBool,
    value: core::cell::UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once under the lock and only read, shared, after `ready`.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}
// SAFETY: owns its value.
unsafe impl<T: Send> Send for OnceCell<T> {}

impl<T> OnceCell<T> {
    /// An empty cell.
    pub const fn new() -> Self {
        Self {
            lock: Mutex::new(()),
            ready: core::sync::atomic::AtomicBool::new(false),
            value: core::cell::UnsafeCell::new(None),
        }
    }

    /// The value, if made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        if !self.ready.load(Acquire) {
            return None;
        }
        // SAFETY: after `ready` the value is never written again.
        unsafe { (*self.value.get()).as_ref() }
    }

    /// The value; `make` runs once, under a lock, when there is none. After an error the next call
    /// tries again.
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if self.get().is_none() {
            let _guard = self.lock.lock();
            if !self.ready.load(Acquire) {
                let value = make()?;
                // SAFETY: under the lock, and nobody reads before `ready`.
                unsafe { *self.value.get() = Some(value) };
                self.ready.store(true, Release);
            }
        }
        match self.get() {
            Some(value) => Ok(value),
            None => unreachable!("made above"),
        }
    }
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}
