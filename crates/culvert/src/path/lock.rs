//! A lock held by many readers or one writer: operations by path read the tree, changes of names
//! write it.
//!
//! A writer that waits keeps new readers out, so a stream of them cannot starve it; hence nobody
//! may read twice at a time.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use culvert_sys::sync::{futex_wait, futex_wake};
use culvert_sys::waits::Holding;

/// Set while a writer is inside.
const WRITER: u32 = 1 << 30;
/// Set while a writer waits. Whoever waits is woken by the last one to leave, so a waiter never
/// waits for nobody: while this is set a writer is about to enter, and to leave.
const WANTED: u32 = 1 << 31;
/// How many readers are inside.
const READERS: u32 = WRITER - 1;

/// Who is inside, and how many threads wait for that to change.
#[derive(Default)]
pub(super) struct TreeLock {
    inside: AtomicU32,
    waiting: AtomicU32,
}

/// Inside the lock until dropped.
pub(super) struct Inside<'a>(&'a TreeLock, #[allow(dead_code)] Holding);

impl TreeLock {
    pub(super) fn read(&self) -> Inside<'_> {
        let holding = Holding::new();
        loop {
            let inside = self.inside.load(SeqCst);
            if inside & (WRITER | WANTED) != 0 {
                self.sleep(inside);
            } else if self.step(inside, inside + 1) {
                return Inside(self, holding);
            }
        }
    }

    pub(super) fn write(&self) -> Inside<'_> {
        let holding = Holding::new();
        loop {
            let inside = self.inside.load(SeqCst);
            if inside & (WRITER | READERS) == 0 {
                if self.step(inside, WRITER) {
                    return Inside(self, holding);
                }
            } else if inside & WANTED != 0 || self.step(inside, inside | WANTED) {
                self.sleep(inside | WANTED);
            }
        }
    }

    fn step(&self, from: u32, to: u32) -> bool {
        self.inside
            .compare_exchange(from, to, SeqCst, SeqCst)
            .is_ok()
    }

    /// Sleeps until `inside` has changed. One who leaves later sees the waiter; one who left before
    /// has changed the word.
    fn sleep(&self, inside: u32) {
        self.waiting.fetch_add(1, SeqCst);
        futex_wait(&self.inside, inside);
        self.waiting.fetch_sub(1, SeqCst);
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let lock = self.0;
        let last = match lock.inside.load(SeqCst) & WRITER {
            0 => lock.inside.fetch_sub(1, SeqCst) & READERS == 1,
            _ => {
                // Writers that wait say so again when they wake.
                lock.inside.store(0, SeqCst);
                true
            }
        };
        if last && lock.waiting.load(SeqCst) > 0 {
            futex_wake(&lock.inside, i32::MAX as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;
    use std::thread;

    /// Readers meet no writer, writers nobody, and both come through.
    #[test]
    fn one_writer_or_many_readers() {
        let (lock, writing, met) = (
            TreeLock::default(),
            AtomicBool::new(false),
            AtomicBool::new(false),
        );
        let (lock, writing, met) = (&lock, &writing, &met);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    for _ in 0..3000 {
                        let _inside = lock.read();
                        met.fetch_or(writing.load(SeqCst), SeqCst);
                        thread::yield_now();
                    }
                });
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let _inside = lock.write();
                        met.fetch_or(writing.swap(true, SeqCst), SeqCst);
                        thread::yield_now();
                        writing.store(false, SeqCst);
                    }
                });
            }
        });
        assert!(!met.load(SeqCst));
        assert_eq!(lock.inside.load(SeqCst), 0);
    }

    /// A reader that arrives while a writer waits does not get in before it.
    #[test]
    fn a_waiting_writer_is_next() {
        let lock = &TreeLock::default();
        let written = &AtomicBool::new(false);
        thread::scope(|scope| {
            let first = lock.read();
            scope.spawn(move || {
                let _inside = lock.write();
                written.store(true, SeqCst);
            });
            while lock.inside.load(SeqCst) & WANTED == 0 {
                thread::yield_now();
            }
            let late = scope.spawn(move || {
                let _inside = lock.read();
                written.load(SeqCst)
            });
            // The late one sleeps, or has not come yet; either way the writer goes before it.
            thread::yield_now();
            drop(first);
            assert!(late.join().unwrap());
        });
    }
}
