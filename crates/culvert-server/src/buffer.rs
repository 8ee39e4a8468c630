//! Memory that was used and may not be needed again for long.

use culvert_sys::{
    Errno, PAGE,
    flags::Protection,
    memory::{Mapping, Of},
};
use std::{hint::black_box, io, ops};

/// Bytes of its own, zero at first, that can be given back to the system and used on.
#[derive(Debug)]
pub struct Buffer {
    mapping: Mapping,
    /// How many bytes are always there: whole pages, or all.
    kept: usize,
}

/// How many bytes of the room for a request are always there: most requests whole, writes of 128
/// KiB among them.
///
/// A server that is killed may still take a request, just before its threads end. Where that has to
/// be put into a page that is not there the kernel gives up and fails the request (EIO,
/// `fuse_dev_do_read`, fs/fuse/dev.c), although the next server would have been told of it
/// (`FUSE_NOTIFY_RESEND`).
pub const REQUEST: usize = 34 * PAGE;

impl Buffer {
    /// `length` bytes, zero, of which memory is used for the first `kept`, a multiple of a page,
    /// and as far as they are written.
    ///
    /// # Errors
    /// No memory.
    pub fn new(length: usize, kept: usize) -> io::Result<Self> {
        let mut room = Self {
            mapping: zeroes(length)?,
            kept: kept.min(length),
        };
        for page in room.iter_mut().take(kept).step_by(PAGE) {
            // The store is what counts.
            *black_box(page) = 0;
        }
        Ok(room)
    }

    /// Gives the memory back, but for what is always there; those bytes are as they were, the
    /// others zero.
    pub fn give_back(&mut self) {
        // A refusal leaves everything as it was.
        let _ = self.mapping.discard(self.kept..self.mapping.len());
    }
}

impl ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped as long as this value lives, and initialised: zero or what was written.
        unsafe { std::slice::from_raw_parts(self.mapping.start(), self.mapping.len()) }
    }
}

impl ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start(), self.mapping.len()) }
    }
}

/// `length` bytes, zero, of this process alone; memory is used where something is written.
///
/// # Errors
/// No memory.
pub fn zeroes(length: usize) -> io::Result<Mapping> {
    let both = Protection::READ | Protection::WRITE;
    Mapping::near(0, Of::Nothing, length, both).map_err(io_error)
}

/// `errno`, as the standard library has it.
pub fn io_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw())
}

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    /// malloc_trim(3), of all threads.
    safe fn malloc_trim(pad: usize) -> i32;
    /// mallopt(3).
    safe fn mallopt(parameter: i32, value: i32) -> i32;
}

/// Has the allocator keep everything in one place, before there are threads: of the others that it
/// would make for them [`trim`] does not give back what lies at the end (`mtrim`, malloc/malloc.c).
/// What most requests need is in each thread's own cache all the same.
pub fn keep_together() {
    #[cfg(target_env = "gnu")]
    {
        const M_ARENA_MAX: i32 = -8;
        mallopt(M_ARENA_MAX, 1);
    }
}

/// Gives what the allocator holds and nobody uses back to the system: it keeps what many nodes took
/// for ever else (malloc_trim(3)).
pub fn trim() {
    #[cfg(target_env = "gnu")]
    malloc_trim(0);
}

/// Makes a table smaller that has become nearly empty.
pub fn shrink<K: Eq + std::hash::Hash, V>(table: &mut std::collections::HashMap<K, V>) {
    const SPARSE: usize = 1024;
    if table.capacity() >= SPARSE && table.len() < table.capacity() / 8 {
        table.shrink_to(table.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_zero_but_for_what_stays() {
        let mut room = Buffer::new(10_000, 2 * PAGE).expect("memory");
        room.fill(7);
        room.give_back();
        assert_eq!(room.len(), 10_000);
        assert!(room[..2 * PAGE].iter().all(|&byte| byte == 7));
        assert!(room[2 * PAGE..].iter().all(|&byte| byte == 0));
        room[9_999] = 1;
        assert_eq!(room[9_999], 1);
    }

    #[test]
    fn a_table_is_small_when_few_are_left() {
        let mut table: std::collections::HashMap<u32, u32> =
            (0..100_000).map(|key| (key, key)).collect();
        for key in 10..100_000 {
            table.remove(&key);
            shrink(&mut table);
        }
        assert!(table.len() == 10 && table.capacity() < 2048);
    }
}
