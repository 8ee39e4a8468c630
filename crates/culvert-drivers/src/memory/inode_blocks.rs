//! Where the blocks of inodes are mapped, as a process has found them (`places`).

use alloc::boxed::Box;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// Entries of a block of the table, and of the part kept for it here.
pub const ENTRIES: usize = 1024;

/// What one process has found: for each block of inodes the page that it is mapped at, and its
/// number; 0: not looked for yet.
pub struct InodeBlocks(Box<[AtomicPtr<Part>]>);

/// For a block of the table.
pub type Part = [AtomicU64; ENTRIES];

impl Default for InodeBlocks {
    fn default() -> Self {
        Self((0..ENTRIES).map(|_| AtomicPtr::default()).collect())
    }
}

impl InodeBlocks {
    /// What is kept for block `table` of the table, if anything is.
    #[inline(always)]
    pub fn part(&self, table: usize) -> Option<&Part> {
        // SAFETY: null, or a part that `part_made` has stored, which lives as long as `self`.
        unsafe { self.0.get(table)?.load(Acquire).as_ref() }
    }

    /// The same, made where there is none; none without such a block.
    pub fn part_made(&self, table: usize) -> Option<&Part> {
        let place = self.0.get(table)?;
        if place.load(Acquire).is_null() {
            let made = Box::into_raw(Box::new([const { AtomicU64::new(0) }; ENTRIES]));
            let first = place.compare_exchange(core::ptr::null_mut(), made, AcqRel, Acquire);
            if first.is_err() {
                // SAFETY: made above, and seen by nobody.
                drop(unsafe { Box::from_raw(made) });
            }
        }
        self.part(table)
    }
}

impl Drop for InodeBlocks {
    fn drop(&mut self) {
        for part in &mut self.0 {
            let part = *part.get_mut();
            if !part.is_null() {
                // SAFETY: made by `part_made`, and nobody else has it any more.
                drop(unsafe { Box::from_raw(part) });
            }
        }
    }
}
