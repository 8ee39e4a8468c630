//! Holes and space set aside: fallocate, SEEK_DATA and SEEK_HOLE, where content lies in the shared
//! file.

use super::{
    content::LARGEST,
    core::{Core, Inode, endless},
    kernel_files::{KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE},
    layout::{BLOCK, UNWRITTEN, inode},
    map::block_of,
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use culvert::{Errno, Result, Whence};

impl Core {
    /// fallocate(2). The content is locked for writing.
    pub fn allocate_range(
        &self,
        of: &Inode<'_>,
        mode: u32,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let end = offset.checked_add(length).filter(|&end| end <= LARGEST);
        let end = end.ok_or(Errno::EFBIG)?;
        let keep = mode & KEEP_SIZE != 0;
        self.spill(of)?;
        match mode & !KEEP_SIZE {
            0 => self.set_aside(of, offset, end, keep),
            PUNCH_HOLE if keep => self.punch(of, offset, end),
            ZERO_RANGE => {
                let size = of.get(inode::SIZE);
                self.zero(of, offset, if keep { end.min(size) } else { end })?;
                self.set_aside(of, offset, end, keep)
            }
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Gives the file blocks for its holes from `offset` to `end`; all of them or none.
    fn set_aside(&self, of: &Inode<'_>, offset: u64, end: u64, keep: bool) -> Result<()> {
        let size = of.get(inode::SIZE);
        let (first, last) = (offset / BLOCK, end.div_ceil(BLOCK));
        let result = self.fill_holes(of, first, last);
        if let Err((error, filled)) = result {
            // What was set aside goes back, but for blocks that were there before: those hold
            // content or were set aside before.
            for index in filled {
                self.transact(|change| change.unmap_content(of, index, index + 1))?;
            }
            return Err(error);
        }
        let grows = end > size && !keep;
        if grows {
            self.zero_tail(of, size)?;
        }
        self.transact(|change| change.resized(of, if grows { end } else { size }))
    }

    fn fill_holes(
        &self,
        of: &Inode<'_>,
        first: u64,
        last: u64,
    ) -> core::result::Result<(), (culvert::Error, Vec<u64>)> {
        let mut filled = Vec::new();
        // What can never fit is refused before anything is touched.
        let free = self.free_blocks().map_err(|error| (error, Vec::new()))?;
        if last - first > free + of.get(inode::BLOCKS) {
            return Err((Errno::ENOSPC.into(), filled));
        }
        let mut index = first;
        while index < last {
            let step = (|| {
                if self.pointer(of.get(inode::ROOT), index)? != 0 {
                    return Ok(false);
                }
                self.fill_reserve(of, index, last.saturating_mul(BLOCK), false)?;
                self.link_reserved(of, index, UNWRITTEN)?;
                Ok(true)
            })();
            match step {
                Ok(true) => filled.push(index),
                Ok(false) => {}
                Err(error) => return Err((error, filled)),
            }
            index += 1;
        }
        Ok(())
    }

    fn punch(&self, of: &Inode<'_>, offset: u64, end: u64) -> Result<()> {
        let (first, last) = self.zero_ends(of, offset, end)?;
        self.transact(|change| {
            change.touch(of, true)?;
            change.unmap_content(of, first, last)
        })
    }

    /// Makes the bytes from `offset` to `end` zeroes; whole blocks become unwritten.
    fn zero(&self, of: &Inode<'_>, offset: u64, end: u64) -> Result<()> {
        let (first, last) = self.zero_ends(of, offset, end)?;
        let root = of.get(inode::ROOT);
        let mut index = self.next_mapped(root, first, last)?;
        let mut steps = of.get(inode::BLOCKS);
        while index < last {
            steps = steps.checked_sub(1).ok_or_else(endless)?;
            let pointer = self.pointer(root, index)?;
            match self.place(root, index)? {
                Some(place) => self.image.half(place)?.store(pointer | UNWRITTEN, Release),
                None => {
                    let word = of.word(inode::ROOT);
                    word.fetch_or(u64::from(UNWRITTEN), AcqRel);
                }
            }
            index = self.next_mapped(root, index + 1, last)?;
        }
        Ok(())
    }

    /// Zeroes from `offset` to `end` what is less than a block; the whole blocks between: the first
    /// and the end.
    fn zero_ends(&self, of: &Inode<'_>, offset: u64, end: u64) -> Result<(u64, u64)> {
        let (first, last) = (offset.div_ceil(BLOCK), end / BLOCK);
        self.zero_bytes(of, offset, end.min(first * BLOCK))?;
        if last >= first {
            self.zero_bytes(of, (last * BLOCK).max(offset), end)?;
        }
        Ok((first, last))
    }

    /// Zeroes bytes of one block, where it is written at all.
    fn zero_bytes(&self, of: &Inode<'_>, from: u64, to: u64) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        let pointer = self.pointer(of.get(inode::ROOT), from / BLOCK)?;
        if pointer != 0 && pointer & UNWRITTEN == 0 {
            let block = self.image.bytes(block_of(pointer))?;
            block
                .part((from % BLOCK) as usize, (to - from) as usize)
                .clear();
        }
        Ok(())
    }

    /// lseek with SEEK_DATA and SEEK_HOLE.
    pub fn seek(&self, of: &Inode<'_>, offset: u64, whence: Whence) -> Result<u64> {
        let size = of.get(inode::SIZE);
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        if of.is_inline() {
            let data = match of.get(inode::INTENT) {
                inode::WRITTEN => size.min(BLOCK),
                _ => 0,
            };
            return match whence {
                Whence::Data if offset < data => Ok(offset),
                Whence::Data => Err(Errno::ENXIO.into()),
                Whence::Hole => Ok(offset.max(data)),
            };
        }
        let (root, end) = (of.get(inode::ROOT), size.div_ceil(BLOCK));
        let mut index = offset / BLOCK;
        let mut steps = of.get(inode::BLOCKS).saturating_add(1);
        while index < end {
            let pointer = self.pointer(root, index)?;
            if pointer != 0 {
                steps = steps.checked_sub(1).ok_or_else(endless)?;
            }
            let written = pointer != 0 && pointer & UNWRITTEN == 0;
            match whence {
                Whence::Data if written => return Ok((index * BLOCK).max(offset)),
                Whence::Hole if !written => return Ok((index * BLOCK).max(offset)),
                Whence::Data => index = self.next_mapped(root, index + 1, end)?,
                Whence::Hole => index += 1,
            }
        }
        match whence {
            Whence::Data => Err(Errno::ENXIO.into()),
            Whence::Hole => Ok(size),
        }
    }
}
