//! Positions in memory that the service and the writers of its host share: who is given one asks
//! nobody.
//!
//! ```text
//!      0  whether the service lives: a futex word that the kernel marks when it dies
//!   4096  for each file: its word, and the number of its turn
//!         word = tag (16 bits) | how far the file reaches (48 bits); tag 0: it is not held
//! ```
//!
//! A file's place is never another file's. A tag is that of one turn: who has found it in the word
//! that he exchanges has done it in that turn. Tags come again after 65,535 turns; so who appends
//! compares the number of the turn, too, while he has the lock without which none begins.
//!
//! All who have the memory are processes of one user, and may write anything into it: what is read
//! there is a position that may be wrong, and nothing else depends on it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Files that have a place.
pub const FILES: u32 = 4096;
/// Bytes.
pub const LENGTH: usize = FIRST + FILES as usize * EACH;
/// Where the first place is.
const FIRST: usize = 4096;
/// Bytes of a place: its own line of the cache.
const EACH: usize = 64;
/// How often an exchange is tried that others keep from being made: who has the memory may change a
/// word all the time.
const TRIES: u32 = 1 << 20;

/// The bits of a futex word that name the thread that has it (futex(2)).
const OWNER: u32 = 0x3fff_ffff;
/// Bits of an end.
const END_BITS: u32 = 48;
const MOST: u64 = (1 << END_BITS) - 1;

/// What a position was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The taker's.
    Position(u64),
    /// The turn is over.
    Over,
    /// The word has no room for it: the service has to say it.
    Beyond,
}

/// The place of a file, and the tag of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the place.
    pub number: u32,
    /// The tag.
    pub tag: u16,
}

/// The memory.
#[derive(Clone, Copy, Debug)]
pub struct Table(*const u8);

// SAFETY: atomic words alone are reached by it.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// What is mapped at `start`.
    ///
    /// # Safety
    /// [`LENGTH`] bytes are mapped there, to be read and written, for as long as this is used, and
    /// are reached as atomic words alone.
    pub const unsafe fn new(start: *const u8) -> Self {
        Self(start)
    }

    /// The word by which the service lives.
    pub fn life(&self) -> &AtomicU32 {
        // SAFETY: the first bytes of the mapping.
        unsafe { &*self.0.cast() }
    }

    /// Whether the service lived a moment ago. The kernel marks its word before it gives back the
    /// locks of a process that dies (`exit_mm` before `exit_files`, `do_exit` in kernel/exit.c).
    pub fn lives(&self) -> bool {
        self.life().load(SeqCst) & OWNER != 0
    }

    /// The words of place `number`: its own, and that of its turn.
    fn words(&self, number: u32) -> Option<(&AtomicU64, &AtomicU64)> {
        let at = (number < FILES).then(|| FIRST + number as usize * EACH)?;
        // SAFETY: below `LENGTH`, at a multiple of eight.
        Some(unsafe { (&*self.0.add(at).cast(), &*self.0.add(at + 8).cast()) })
    }

    /// A turn with this number begins. The service alone calls this.
    pub fn open(&self, place: Place, turn: u64) {
        if let Some((word, number)) = self.words(place.number) {
            number.store(turn, SeqCst);
            word.store(u64::from(place.tag) << END_BITS, SeqCst);
        }
    }

    /// The turn at `place` ends; how far the file reached.
    pub fn close(&self, place: Place) -> u64 {
        let closed = |(word, _): (&AtomicU64, _)| word.swap(0, SeqCst) & MOST;
        self.words(place.number).map_or(0, closed)
    }

    /// How far the file at `place` reaches.
    pub fn end(&self, place: Place) -> u64 {
        let end = |(word, _): (&AtomicU64, _)| word.load(SeqCst) & MOST;
        self.words(place.number).map_or(0, end)
    }

    /// A position for `count` bytes in `turn`, of a file that reaches to `size` at least. The taker
    /// has the lock without which no turn begins.
    pub fn take(&self, place: Place, turn: u64, count: u64, size: u64) -> Taken {
        match self.words(place.number) {
            Some((word, number)) if number.load(SeqCst) == turn => {
                exchange(word, place.tag, |end| {
                    let at = end.max(size);
                    Some((at, at.checked_add(count)?))
                })
            }
            _ => Taken::Over,
        }
    }

    /// The file at `place` reaches to `size` at least.
    pub fn reach(&self, place: Place, size: u64) -> Taken {
        match self.words(place.number) {
            Some((word, _)) => exchange(word, place.tag, |end| Some((end, end.max(size)))),
            None => Taken::Over,
        }
    }
}

/// Exchanges the end in `word` for what `next` makes of it, behind what is to be answered.
fn exchange(word: &AtomicU64, tag: u16, mut next: impl FnMut(u64) -> Option<(u64, u64)>) -> Taken {
    let mut found = word.load(SeqCst);
    for _ in 0..TRIES {
        if tag == 0 || found >> END_BITS != u64::from(tag) {
            return Taken::Over;
        }
        let (at, end) = match next(found & MOST) {
            Some((at, end)) if end <= MOST => (at, end),
            _ => return Taken::Beyond,
        };
        let new = u64::from(tag) << END_BITS | end;
        if new == found {
            return Taken::Position(at);
        }
        match word.compare_exchange_weak(found, new, SeqCst, SeqCst) {
            Ok(_) => return Taken::Position(at),
            Err(other) => found = other,
        }
    }
    Taken::Over
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use alloc::vec;

    /// Memory of this process's own, as long as the test runs.
    fn table() -> Table {
        let memory = vec![0u64; LENGTH / 8].leak();
        // SAFETY: it is never freed, and nobody else has it.
        unsafe { Table::new(memory.as_ptr().cast()) }
    }

    #[test]
    fn positions_follow_each_other_in_a_turn() {
        let (table, place) = (table(), Place { number: 7, tag: 1 });
        assert_eq!(table.take(place, 9, 1, 0), Taken::Over);
        table.open(place, 9);
        assert_eq!(table.take(place, 9, 10, 100), Taken::Position(100));
        assert_eq!(table.take(place, 9, 5, 0), Taken::Position(110));
        assert_eq!(table.reach(place, 200), Taken::Position(115));
        assert_eq!(table.reach(place, 20), Taken::Position(200));
        assert_eq!(table.take(place, 9, 1, 7), Taken::Position(200));
        assert_eq!(table.take(place, 8, 1, 7), Taken::Over);
        assert_eq!(table.take(place, 9, MOST, 0), Taken::Beyond);
        assert_eq!(table.take(place, 9, u64::MAX, 0), Taken::Beyond);
        assert_eq!(table.reach(place, MOST + 1), Taken::Beyond);
        assert_eq!(table.close(place), 201);
        assert_eq!(table.reach(place, 1), Taken::Over);
        let next = Place { number: 7, tag: 2 };
        table.open(next, 10);
        assert_eq!(table.take(place, 9, 1, 0), Taken::Over);
        assert_eq!(table.reach(place, 5), Taken::Over);
        assert_eq!(table.take(next, 10, 1, 3), Taken::Position(3));
        let nowhere = Place {
            number: FILES,
            tag: 1,
        };
        assert_eq!(table.take(nowhere, 0, 1, 0), Taken::Over);
    }

    #[test]
    fn threads_never_get_the_same_position() {
        let (table, place) = (table(), Place { number: 0, tag: 1 });
        table.open(place, 1);
        let mut all: vec::Vec<u64> = std::thread::scope(|scope| {
            let each = (0..4).map(|_| {
                scope.spawn(|| {
                    let take = |_| match table.take(place, 1, 3, 0) {
                        Taken::Position(at) => at,
                        other => panic!("{other:?}"),
                    };
                    (0..1000).map(take).collect::<vec::Vec<_>>()
                })
            });
            let threads: vec::Vec<_> = each.collect();
            let joined = threads.into_iter();
            joined.flat_map(|one| one.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(
            all.iter()
                .enumerate()
                .all(|(at, one)| at as u64 * 3 == *one)
        );
    }

    #[test]
    fn a_service_lives_by_the_thread_that_has_its_word() {
        let table = table();
        assert!(!table.lives());
        table.life().store(4711, SeqCst);
        assert!(table.lives());
        // FUTEX_OWNER_DIED, as the kernel leaves it.
        table.life().store(0x4000_0000, SeqCst);
        assert!(!table.lives());
    }
}
