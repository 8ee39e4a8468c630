//! Where the numbers of drivers' descriptors stand: as many as there are, at addresses that stay.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicI32, Ordering::*};
use culvert_sys::sync::AtomicRef;

/// Places in one block.
const PLACES: usize = 64;

/// A list of blocks that only grows: a driver keeps the address of its place.
pub(super) struct Adopted {
    first: Block,
    /// Where the last free place was found, null for the first block.
    near: AtomicRef<Block>,
}

struct Block {
    places: [AtomicI32; PLACES],
    next: AtomicRef<Block>,
}

impl Block {
    const fn new() -> Self {
        Self {
            places: [const { AtomicI32::new(-1) }; PLACES],
            next: AtomicRef::new(),
        }
    }

    /// The next block, made when there is none.
    fn next_made(&self) -> &'static Self {
        if let Some(next) = self.next.get() {
            return next;
        }
        let made: &'static Self = Box::leak(Box::new(Self::new()));
        // One made in vain stays: two threads seldom fill a block at once.
        self.next.set_first(made).err().unwrap_or(made)
    }

    fn take(&self, fd: i32) -> Option<&AtomicI32> {
        let free = |place: &&AtomicI32| {
            place.load(Relaxed) < 0 && place.compare_exchange(-1, fd, AcqRel, Relaxed).is_ok()
        };
        self.places.iter().find(free)
    }
}

impl Adopted {
    pub(super) const fn new() -> Self {
        Self {
            first: Block::new(),
            near: AtomicRef::new(),
        }
    }

    /// A place for `fd`. A driver that is done with it stores -1 there.
    pub(super) fn add(&'static self, fd: i32) -> &'static AtomicI32 {
        let near = self.near.get();
        let mut block = near.unwrap_or(&self.first);
        // From there to the end; from the start, when drivers have freed places; then a new block.
        let mut again = near.is_some();
        loop {
            if let Some(place) = block.take(fd) {
                self.near.set(Some(block));
                return place;
            }
            block = match block.next.get() {
                Some(next) => next,
                None if again => {
                    again = false;
                    &self.first
                }
                None => block.next_made(),
            };
        }
    }

    /// All places, the free ones among them.
    pub(super) fn places(&self) -> impl Iterator<Item = &AtomicI32> {
        core::iter::successors(Some(&self.first), |block| block.next.get())
            .flat_map(|block| &block.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn places_are_many_stay_and_come_back() {
        let adopted: &'static Adopted = Box::leak(Box::new(Adopted::new()));
        let taken: Vec<_> = (0..1000).map(|fd| adopted.add(fd)).collect();
        for (fd, place) in (0..).zip(&taken) {
            assert_eq!(place.load(Relaxed), fd);
        }
        let count = adopted.places().count();
        assert!((1000..1000 + PLACES).contains(&count));
        for place in &taken {
            place.store(-1, Relaxed);
        }
        for fd in 0..1000 {
            adopted.add(fd);
        }
        assert_eq!(adopted.places().count(), count);
    }
}
