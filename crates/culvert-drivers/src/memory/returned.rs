//! Blocks of the image that were given back to the kernel: pages that nobody needs, because a large
//! file's content has moved elsewhere.
//!
//! They count as used in the bitmap and stand in a list of runs; who needs more blocks takes them
//! from there before the image grows, and asks the kernel for the pages first. Some reader without
//! a lock that still looks at a block of such a run meets zeroes.

use super::{
    blocks::Run,
    core::{Core, join, split},
    host,
    kernel_files::{KEEP_SIZE, PUNCH_HOLE},
    layout::{BLOCK, GROUP, header},
    transaction::Transaction,
};
use culvert::{Errno, Result};

/// Entries of the list: one block of words, start and (upper half) count.
pub(super) const ENTRIES: u32 = (BLOCK / 8) as u32;

impl Core {
    /// Gives runs of `least` and more free blocks back to the kernel; whether there were any.
    pub fn give_back(&self, least: u64) -> Result<bool> {
        let mut any = false;
        loop {
            let mut change = self.change()?;
            let (_, entries) = split(change.header(header::RETURNED_LIST)?);
            if entries >= ENTRIES {
                return Ok(any);
            }
            let Some(run) = change.find_run(GROUP, least, u64::MAX)? else {
                return Ok(any);
            };
            let run = change.put_back(run)?;
            change.checkpoint();
            if run.count > 0 {
                // Final, and nobody else can take them while the lock is held.
                let at = self.image.stretch(run.start, run.count);
                let length = at.blocks * BLOCK;
                match host::set_aside(at.fd, KEEP_SIZE | PUNCH_HOLE, at.offset, length) {
                    Ok(()) => any = true,
                    // Of a spill, where the file system has no holes: they stay the file's.
                    Err(Errno::EOPNOTSUPP) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
    }
}

impl Transaction<'_> {
    /// Lists a run of free blocks as given back: that which is returned.
    fn put_back(&mut self, mut run: Run) -> Result<Run> {
        let (mut list, entries) = split(self.header(header::RETURNED_LIST)?);
        if list == 0 {
            // One of the run itself: there may be no other.
            list = run.start as u32;
            self.mark(Run::one(run.start), true)?;
            run.start += 1;
            run.count -= 1;
        }
        if run.count > 0 {
            self.mark(run, true)?;
            let place = u64::from(list) * BLOCK + u64::from(entries) * 8;
            self.set(place, join(run.start as u32, run.count as u32))?;
        }
        let entries = entries + u32::from(run.count > 0);
        self.set_header(header::RETURNED_LIST, join(list, entries))?;
        self.add(header::RETURNED * 8, run.count as i64)?;
        Ok(run)
    }

    /// Takes up to `wanted` blocks back from the kernel, now free: whether there were any. `ENOSPC`
    /// when the kernel has no pages.
    pub fn take_returned(&mut self, wanted: u64) -> Result<bool> {
        let (list, entries) = split(self.header(header::RETURNED_LIST)?);
        let Some(last) = entries.checked_sub(1).filter(|&last| last < ENTRIES) else {
            return Ok(false);
        };
        let place = u64::from(list) * BLOCK + u64::from(last) * 8;
        let Run {
            start,
            count: there,
        } = Run::of(self.get(place)?);
        let mut count = wanted.clamp(1, there.max(1));
        loop {
            let first = start + there - count;
            let at = self.core.image.stretch(first, count);
            match host::set_aside(at.fd, 0, at.offset, at.blocks * BLOCK) {
                Ok(()) => break,
                Err(Errno::ENOSPC | Errno::EFBIG | Errno::EDQUOT) if count > 1 => count /= 4,
                Err(errno) => return Err(errno.into()),
            }
            count = count.max(1);
        }
        let left = there - count;
        self.set(place, join(start as u32, left as u32))?;
        if left == 0 {
            self.set_header(header::RETURNED_LIST, join(list, last))?;
        }
        self.add(header::RETURNED * 8, -(count as i64))?;
        let start = start + left;
        self.mark(Run { start, count }, false)?;
        Ok(true)
    }
}
