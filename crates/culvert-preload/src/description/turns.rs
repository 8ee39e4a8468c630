//! Turns at the offset of a private description: a lock that may be held where other threads fork,
//! and whose holder can be told something.

use core::sync::atomic::{AtomicU32, Ordering::*};
use culvert_sys::sync::futex_wake;

/// It is somebody's turn.
const TAKEN: u32 = 1;
/// Others wait for theirs.
const WAITERS: u32 = 2;
/// Whose turn it is has been told.
const TOLD: u32 = 4;

#[derive(Default)]
pub(crate) struct Turns(AtomicU32);

impl Turns {
    /// Waits for a turn; others may fork meanwhile, if nothing is held.
    #[inline]
    pub(crate) fn take(&self) {
        if self.0.compare_exchange(0, TAKEN, Acquire, Relaxed).is_err() {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let mut now = self.0.load(Relaxed);
        loop {
            // Others may sleep still: each wakes the next.
            let next = match now & TAKEN {
                0 => TAKEN | WAITERS,
                _ => now | WAITERS,
            };
            if let Err(other) = self.0.compare_exchange(now, next, Acquire, Relaxed) {
                now = other;
                continue;
            }
            if now & TAKEN == 0 {
                return;
            }
            culvert_sys::sync::futex_wait_outside(&self.0, next);
            now = self.0.load(Relaxed);
        }
    }

    /// Ends the turn; false, and nothing is done, where whose turn it is was told something since
    /// the last [`Turns::heed`].
    #[inline]
    #[must_use]
    pub(crate) fn end(&self) -> bool {
        self.0.compare_exchange(TAKEN, 0, Release, Relaxed).is_ok() || self.end_and_wake()
    }

    #[cold]
    fn end_and_wake(&self) -> bool {
        let end = |now: u32| (now & TOLD == 0).then_some(0);
        match self.0.fetch_update(AcqRel, Acquire, end) {
            Ok(before) => {
                if before & WAITERS != 0 {
                    futex_wake(&self.0, 1);
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Whose turn it is knows what it was told.
    pub(crate) fn heed(&self) {
        self.0.fetch_and(!TOLD, AcqRel);
    }

    /// Takes a turn where it is nobody's (true); tells whose it is otherwise.
    pub(crate) fn take_or_tell(&self) -> bool {
        let mut now = self.0.load(Relaxed);
        loop {
            let next = match now & TAKEN {
                0 => now | TAKEN,
                _ => now | TOLD,
            };
            match self.0.compare_exchange(now, next, AcqRel, Relaxed) {
                Ok(_) => return now & TAKEN == 0,
                Err(other) => now = other,
            }
        }
    }

    /// In a forked child: it is nobody's turn. Whether it was somebody's.
    pub(crate) fn forget(&self) -> bool {
        self.0.swap(0, Relaxed) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;
    use std::thread;

    #[test]
    fn whose_turn_it_is_hears_before_the_end() {
        let turns = Turns::default();
        turns.take();
        assert!(!turns.take_or_tell());
        assert!(!turns.end());
        turns.heed();
        assert!(turns.end());
        assert!(turns.take_or_tell());
        assert!(turns.end());
        turns.take();
        assert!(turns.forget() && !turns.forget());
    }

    #[test]
    fn one_at_a_time() {
        let (turns, sum) = (Turns::default(), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..5000 {
                        turns.take();
                        let before = sum.load(Relaxed);
                        if round % 50 == 0 {
                            thread::yield_now();
                        }
                        sum.store(before + 1, Relaxed);
                        while !turns.end() {
                            turns.heed();
                        }
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..5000 {
                    if turns.take_or_tell() {
                        assert!(turns.end());
                    }
                    thread::yield_now();
                }
            });
        });
        assert_eq!(sum.load(Relaxed), 20_000);
    }
}
