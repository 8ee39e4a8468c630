//! The byte table that the filters in the stubs look at: whose descriptor is this?
//!
//! It is indexed by the low 16 bits of the descriptor number, as the stubs read only those; a
//! number above 65535 therefore shares its byte with a smaller one. The owner of the classes may
//! only enter a descriptor as [`FOREIGN`] when that holds for all numbers that share its byte.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::{Errno, nr, syscall};

/// Nobody has looked yet: the call is offered to the handler.
pub const UNKNOWN: u8 = 0;
/// Nothing of the handler's: the call is executed at once.
pub const FOREIGN: u8 = 1;

/// A number of whole pages.
const SIZE: usize = 1 << 16;

/// Bytes that have their pages for themselves.
#[repr(align(4096))]
pub(crate) struct Classes(pub(crate) [AtomicU8; SIZE]);

/// The table. Stubs address it directly.
pub(crate) static TABLE: Classes = Classes([const { AtomicU8::new(UNKNOWN) }; SIZE]);

/// The handler's, but the bytes of its file are the kernel's: calls that concern those alone are
/// executed at once ([`crate::Interest::Bytes0`]).
pub const BYTES: u8 = 4;

/// The class of descriptor `fd`: [`UNKNOWN`], [`FOREIGN`], or a number from 2 on that the handler
/// gave it.
#[inline]
pub fn get(fd: i32) -> u8 {
    TABLE.0[fd as usize % SIZE].load(Relaxed)
}

/// Gives descriptor `fd` a class.
#[inline]
pub fn set(fd: i32, class: u8) {
    TABLE.0[fd as usize % SIZE].store(class, Relaxed);
}

/// Makes every descriptor [`UNKNOWN`] again, as after the table of descriptors was changed in ways
/// nobody watched.
///
/// Only bytes that are set are written, so pages that were never used stay shared and empty.
pub fn forget_all() {
    for class in &TABLE.0 {
        if class.load(Relaxed) != UNKNOWN {
            class.store(UNKNOWN, Relaxed);
        }
    }
}

/// All descriptors up to 65535 of class `class`.
pub fn of_class(class: u8) -> impl Iterator<Item = i32> {
    (0i32..)
        .zip(&TABLE.0)
        .filter(move |(_, at)| at.load(Relaxed) == class)
        .map(|(fd, _)| fd)
}

/// The table is one with that of the children that are made from here on, as their descriptors are.
///
/// - `ENOMEM`: there is no room for it.
pub fn share() -> Result<(), Errno> {
    move_to(Of::SharedNothing)
}

/// The opposite, for the child: what it is told is this process's alone.
///
/// - `ENOMEM`: as [`share`].
pub fn separate() -> Result<(), Errno> {
    move_to(Of::Nothing)
}

/// Puts fresh pages in the table's place, with what it says. Not while other threads change it.
fn move_to(kind: Of<'_>) -> Result<(), Errno> {
    const MREMAP_MAYMOVE_FIXED: usize = 3;
    let place = TABLE.0.as_ptr();
    let fresh = Mapping::new(kind, SIZE, Protection::READ | Protection::WRITE)?;
    let (from, to) = (fresh.address(), place as usize);
    // SAFETY: new pages, which nobody knows, and then the table's own, which are replaced at one
    // stroke by equal ones.
    unsafe {
        core::ptr::copy_nonoverlapping(place.cast(), fresh.start(), SIZE);
        syscall::call(nr::MREMAP, [from, SIZE, SIZE, MREMAP_MAYMOVE_FIXED, to])?;
    }
    fresh.leak();
    Ok(())
}
