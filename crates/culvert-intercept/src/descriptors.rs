//! The byte table that the filters in the stubs look at: whose descriptor is this?
//!
//! It is indexed by the low 16 bits of the descriptor number, as the stubs read only those; a number above 65535 therefore shares its byte with a
//! smaller one. The owner of the classes may only enter a descriptor as [`FOREIGN`] when that holds for all numbers that share its byte.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Nobody has looked yet: the call is offered to the handler.
pub const UNKNOWN: u8 = 0;
/// Nothing of the handler's: the call is executed at once.
pub const FOREIGN: u8 = 1;

const SIZE: usize = 1 << 16;

/// The table. Stubs address it directly.
pub(crate) static TABLE: [AtomicU8; SIZE] = [const { AtomicU8::new(UNKNOWN) }; SIZE];

/// The class of descriptor `fd`: [`UNKNOWN`], [`FOREIGN`], or a number from 2 on that the handler gave it.
#[inline]
pub fn get(fd: i32) -> u8 {
    TABLE[fd as usize % SIZE].load(Relaxed)
}

/// Gives descriptor `fd` a class.
#[inline]
pub fn set(fd: i32, class: u8) {
    TABLE[fd as usize % SIZE].store(class, Relaxed);
}

/// Makes every descriptor [`UNKNOWN`] again, as after the table of descriptors was changed in ways nobody watched.
///
/// Only bytes that are set are written, so pages that were never used stay shared and empty.
pub fn forget_all() {
    for class in &TABLE {
        if class.load(Relaxed) != UNKNOWN {
            class.store(UNKNOWN, Relaxed);
        }
    }
}
