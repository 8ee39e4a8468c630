//! Writers of one file that go side by side: each says so in a word that all processes of the run
//! map, and who locks the file's node waits until no such word is left.
//!
//! Who writes looks at the lock when its word is there; who locks looks at the words when it has
//! the lock. So one of them sees the other: the writer then takes its word back, and the lock as
//! everybody does. A word names who has it as a lock does, so that nobody waits for the dead.

use core::sync::atomic::{AtomicU32, Ordering::*};
use culvert_sys::sync;

/// Groups with the same rest by this have their words side by side.
const SETS: usize = 64;
const PLACES: usize = 64;

/// Of a word: the locker sleeps on it.
const WAITER: u32 = 1 << 31;
const APPENDS: u32 = 1 << 28;
/// Which of a set's groups it is of.
const GROUP: u32 = 1 << 24;
const GROUP_MASK: u32 = APPENDS - GROUP;
const OWNER_MASK: u32 = GROUP - 1;

/// What writers do that may do it side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// They write where they say.
    Write,
    /// They write at the end.
    Append,
}

/// That a writer goes beside others, until it is dropped.
pub struct Share(&'static AtomicU32);

#[repr(C)]
pub(crate) struct Shares<const GROUPS: usize> {
    /// Of each group: places that may be taken; 0: none ever was.
    used: [AtomicU32; GROUPS],
    places: [[AtomicU32; PLACES]; SETS],
}

impl<const GROUPS: usize> Shares<GROUPS> {
    /// Those of a group that may be taken, and how they begin.
    fn of(&self, group: usize) -> (&[AtomicU32], u32) {
        let used = self.used[group].load(SeqCst) as usize;
        let places = &self.places[group % SETS];
        (places.get(..used).unwrap_or(places), Self::its(group))
    }

    /// How the words of a group begin.
    fn its(group: usize) -> u32 {
        const { assert!(GROUPS / SETS * GROUP as usize <= APPENDS as usize) };
        (group / SETS) as u32 * GROUP
    }

    /// Says that `owner` writes a file of `group`; None where others do what it does not go beside,
    /// where no place is left, or where it `is_locked`, which is asked when that is said.
    pub(crate) fn take(
        &'static self,
        group: usize,
        what: Together,
        owner: u32,
        is_locked: impl FnOnce() -> bool,
    ) -> Option<Share> {
        let appends = match what {
            Together::Write => 0,
            Together::Append => APPENDS,
        };
        let places = &self.places[group % SETS];
        let own = Self::its(group) | appends | owner;
        let is_taken = |place: &AtomicU32| {
            place.load(Relaxed) == 0 && place.compare_exchange(0, own, SeqCst, Relaxed).is_ok()
        };
        let at = places.iter().position(is_taken)?;
        let share = Share(&places[at]);
        let used = &self.used[group];
        if used.load(Relaxed) <= at as u32 {
            used.fetch_max(at as u32 + 1, SeqCst);
        }
        if is_locked() {
            return None;
        }
        let (places, its) = self.of(group);
        let is_another = |place: &AtomicU32| {
            let word = place.load(SeqCst);
            word != 0 && word & GROUP_MASK == its && word & APPENDS != appends
        };
        (!places.iter().any(is_another)).then_some(share)
    }

    /// Whether there are none of `group` but of those that are found dead, for who has its lock:
    /// `wait` sleeps on a word of a value that a living owner has, and says whether to go on.
    #[inline]
    pub(crate) fn are_none(
        &self,
        group: usize,
        wait: impl FnMut(&AtomicU32, u32, u32) -> bool,
    ) -> bool {
        self.used[group].load(SeqCst) == 0 || self.wait(group, wait)
    }

    #[cold]
    fn wait(&self, group: usize, mut wait: impl FnMut(&AtomicU32, u32, u32) -> bool) -> bool {
        let (places, its) = self.of(group);
        for place in places {
            loop {
                let now = place.load(SeqCst);
                if now == 0 || now & GROUP_MASK != its {
                    break;
                }
                let marked = now | WAITER;
                if now != marked
                    && place
                        .compare_exchange(now, marked, SeqCst, Relaxed)
                        .is_err()
                {
                    continue;
                }
                if !wait(place, marked, now & OWNER_MASK) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether one of `group` is `owner`'s.
    pub(crate) fn has(&self, group: usize, owner: u32) -> bool {
        let (places, its) = self.of(group);
        let its_own = |word: u32| word & GROUP_MASK == its && word & OWNER_MASK == owner;
        places.iter().any(|place| its_own(place.load(SeqCst)))
    }

    /// What `owner` had before it was somebody else's number.
    pub(crate) fn forget(&self, owner: u32) {
        for place in self.places.iter().flatten() {
            let now = place.load(Relaxed);
            if now & OWNER_MASK == owner && place.compare_exchange(now, 0, SeqCst, Relaxed).is_ok()
            {
                sync::shared_wake_one(place);
            }
        }
    }
}

impl Drop for Share {
    #[inline]
    fn drop(&mut self) {
        if self.0.swap(0, SeqCst) & WAITER != 0 {
            sync::shared_wake_one(self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    type Group = Shares<1024>;

    fn none() -> &'static Group {
        Box::leak(Box::new(Shares {
            used: [const { AtomicU32::new(0) }; 1024],
            places: [const { [const { AtomicU32::new(0) }; PLACES] }; SETS],
        }))
    }

    #[test]
    fn writers_go_beside_writers_and_appenders_beside_appenders() {
        for (what, other) in [
            (Together::Write, Together::Append),
            (Together::Append, Together::Write),
        ] {
            let shares = none();
            let take = |group, what, owner| shares.take(group, what, owner, || false);
            let first = take(70, what, 1).expect("nobody is there");
            let second = take(70, what, 2).expect("it does the same");
            assert!(take(70, other, 3).is_none());
            // Its words lie in the same set.
            assert!(take(70 + SETS, other, 3).is_some());
            drop((first, second));
            assert!(take(70, other, 3).is_some() && take(70, what, 4).is_some());
            assert!(shares.take(70, what, 5, || true).is_none());
            assert!(shares.are_none(70, |_, _, _| panic!("all were dropped")));
        }
    }

    #[test]
    fn who_locks_waits_for_the_living_and_a_number_is_forgotten() {
        let shares = none();
        let share = shares.take(3, Together::Write, 1, || false);
        core::mem::forget(shares.take(3, Together::Write, 2, || false));
        assert!(shares.has(3, 1) && shares.has(3, 2) && !shares.has(3 + SETS, 1));
        let mut share = share;
        let mut owners = Vec::new();
        let alone = shares.are_none(3, |place, value, owner| {
            assert_eq!(place.load(SeqCst), value);
            owners.push(owner);
            match owner {
                1 => drop(share.take()),
                _ => shares.forget(owner),
            }
            true
        });
        assert!(alone && owners == [1, 2]);
        let kept = shares.take(3, Together::Write, 1, || false);
        assert!(!shares.are_none(3, |_, _, _| false));
        drop(kept);
    }

    #[test]
    fn who_finds_no_place_takes_the_lock() {
        let shares = none();
        let all: Vec<_> = (0..PLACES as u32)
            .map(|owner| shares.take(5, Together::Write, owner + 1, || false))
            .collect();
        assert!(all.iter().all(Option::is_some));
        assert!(shares.take(5, Together::Write, 99, || false).is_none());
    }
}
