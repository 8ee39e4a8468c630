//! Where the numbers of drivers' descriptors stand: as many as there are, at addresses that stay.

use alloc::boxed::Box;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering::*};

/// Places in one block.
const PLACES: usize = 64;

/// A list of blocks that only grows: a driver keeps the address of its place.
pub(super) struct Adopted {
    first: Block,
    /// Where the last free place was found, null for the first block.
    near: AtomicPtr<Block>,
}

struct Block {
    places: [AtomicI32; PLACES],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn new() -> Self {
        Self {
            places: [const { AtomicI32::new(-1) }; PLACES],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&Self> {
        // SAFETY: null, or leaked when it was linked.
        unsafe { self.next.load(Acquire).as_ref() }
    }

    /// The next block, made when there is none.
    fn next_made(&self) -> &Self {
        if let Some(next) = self.next() {
            return next;
        }
        let made = Box::into_raw(Box::new(Self::new()));
        match self
            .next
            .compare_exchange(ptr::null_mut(), made, AcqRel, Acquire)
        {
            // SAFETY: made above, and linked for ever.
            Ok(_) => unsafe { &*made },
            // SAFETY: made above and seen by nobody; the one that was faster is linked for ever.
            Err(first) => unsafe {
                drop(Box::from_raw(made));
                &*first
            },
        }
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
            near: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A place for `fd`. A driver that is done with it stores -1 there.
    pub(super) fn add(&'static self, fd: i32) -> &'static AtomicI32 {
        // SAFETY: null, or a block that is linked for ever.
        let near = unsafe { self.near.load(Acquire).as_ref() };
        let mut block = near.unwrap_or(&self.first);
        // From there to the end; from the start, when drivers have freed places; then a new block.
        let mut again = near.is_some();
        loop {
            if let Some(place) = block.take(fd) {
                self.near.store(ptr::from_ref(block).cast_mut(), Release);
                return place;
            }
            block = match block.next() {
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
        core::iter::successors(Some(&self.first), |block| block.next())
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
