//! A lock held by many readers or one writer: operations by path read the tree, changes of names write it.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use culvert_sys::sync::{futex_wait, futex_wake};

const WRITER: u32 = u32::MAX;

/// How many readers are inside, or [`WRITER`]; and how many threads wait for a change of that.
#[derive(Default)]
pub(super) struct TreeLock {
    inside: AtomicU32,
    waiting: AtomicU32,
}

/// Inside the lock until dropped.
pub(super) struct Inside<'a>(&'a TreeLock);

impl TreeLock {
    pub(super) fn read(&self) -> Inside<'_> {
        self.enter(|inside| (inside < WRITER - 1).then(|| inside + 1))
    }

    pub(super) fn write(&self) -> Inside<'_> {
        self.enter(|inside| (inside == 0).then_some(WRITER))
    }

    fn enter(&self, step: impl Fn(u32) -> Option<u32>) -> Inside<'_> {
        loop {
            let inside = self.inside.load(SeqCst);
            match step(inside) {
                Some(next) => {
                    if self
                        .inside
                        .compare_exchange(inside, next, SeqCst, SeqCst)
                        .is_ok()
                    {
                        return Inside(self);
                    }
                }
                // One who leaves after this load sees the waiter, or has changed the word, on which the wait returns at once.
                None => {
                    self.waiting.fetch_add(1, SeqCst);
                    futex_wait(&self.inside, inside);
                    self.waiting.fetch_sub(1, SeqCst);
                }
            }
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let lock = self.0;
        let free = match lock.inside.load(SeqCst) {
            WRITER => {
                lock.inside.store(0, SeqCst);
                true
            }
            _ => lock.inside.fetch_sub(1, SeqCst) == 1,
        };
        if free && lock.waiting.load(SeqCst) > 0 {
            futex_wake(&lock.inside, i32::MAX as usize);
        }
    }
}
