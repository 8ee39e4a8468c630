//! inotify(7), as far as it is used here.

use super::kernel::Link;
use crate::descriptor::OwnedFd;
use culvert::{Errno, Result};
use culvert_sys::fd::{AsFd, BorrowedFd};
use culvert_sys::flags::OFlags;
use culvert_sys::fs;

/// A file was written or truncated.
pub const MODIFY: u32 = 0x2;
/// Attributes have changed.
pub const ATTRIB: u32 = 0x4;
/// A name was moved away.
pub const MOVED_FROM: u32 = 0x40;
/// A name was moved here, perhaps over another.
pub const MOVED_TO: u32 = 0x80;
/// A name has come to be.
pub const CREATE: u32 = 0x100;
/// A name was removed.
pub const DELETE: u32 = 0x200;
/// The last link is gone.
pub const DELETE_SELF: u32 = 0x400;
/// The file itself was moved.
pub const MOVE_SELF: u32 = 0x800;
/// The file system below was unmounted.
pub const UNMOUNT: u32 = 0x2000;
/// Events were lost.
pub const OVERFLOW: u32 = 0x4000;
/// The watch has ended.
pub const IGNORED: u32 = 0x8000;

/// An event.
pub struct Event<'a> {
    /// Of which watch; -1: of none.
    pub watch: i32,
    /// What happened, of the bits above.
    pub mask: u32,
    /// The name in the watched directory; empty: to the watched file itself.
    pub name: &'a [u8],
}

/// A list of watches whose events are read without waiting.
pub fn open() -> Result<OwnedFd> {
    Ok(fs::inotify_init(OFlags::NONBLOCK | OFlags::CLOEXEC)?)
}

/// Watches what `fd` is for the events of `mask`; the watch, which is the same for the same file.
///
/// - `EACCES`: the caller may not read it.
/// - `ENOSPC`: the user has as many watches as may be (`fs.inotify.max_user_watches`).
pub fn add(list: impl AsFd, fd: impl AsFd, mask: u32) -> Result<i32> {
    Ok(fs::inotify_add_watch(list, Link::new(fd).path(), mask)?)
}

/// Ends a watch.
pub fn remove(list: &OwnedFd, watch: i32) {
    // EINVAL: it has ended by itself.
    let _ = fs::inotify_rm_watch(list, watch);
}

/// Events that are there, into `buffer`; how many bytes, 0: none.
pub fn read(list: i32, buffer: &mut [u8]) -> Result<usize> {
    match fs::read(BorrowedFd::number(list), buffer) {
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
        answer => Ok(answer?),
    }
}

/// The events in what [`read`] gave (`struct inotify_event`).
pub fn events(mut bytes: &[u8]) -> impl Iterator<Item = Event<'_>> {
    core::iter::from_fn(move || {
        let word = |at: usize| {
            bytes
                .get(at..)?
                .first_chunk()
                .map(|word| u32::from_ne_bytes(*word))
        };
        let (watch, mask, length) = (word(0)?, word(4)?, word(12)? as usize);
        let name = bytes.get(16..16 + length)?;
        bytes = bytes.get(16 + length..)?;
        // Padded with NULs.
        let end = name.iter().position(|byte| *byte == 0);
        Some(Event {
            watch: watch as i32,
            mask,
            name: name.get(..end.unwrap_or(length))?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn events_are_taken_apart() {
        let mut bytes = Vec::new();
        for (watch, mask, name) in [
            (1, CREATE, &b"a\0\0\0"[..]),
            (-1, OVERFLOW, b""),
            (2, DELETE, b"name\0\0\0\0"),
        ] {
            let words = [watch as u32, mask, 0, name.len() as u32];
            words
                .iter()
                .for_each(|word| bytes.extend(word.to_ne_bytes()));
            bytes.extend(name);
        }
        let found: Vec<_> = events(&bytes)
            .map(|one| (one.watch, one.mask, one.name.to_vec()))
            .collect();
        let expected = [
            (1, CREATE, b"a".to_vec()),
            (-1, OVERFLOW, Vec::new()),
            (2, DELETE, b"name".to_vec()),
        ];
        assert_eq!(found, expected);
        // Half an event is none.
        assert_eq!(events(&bytes[..18]).count(), 0);
    }
}
