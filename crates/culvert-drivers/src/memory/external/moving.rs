//! The move of a file's content out of the image.
//!
//! The content is copied to the new file, whole, and then one transaction says that it lies there.
//! Until then a killed process leaves a file that nobody knows, which the next move or recovery
//! removes; after it, blocks of the image that the file does not need any more, which the next
//! owner of the lock gives back.

use super::super::{
    core::{Core, Inode, endless, split, unpack_time},
    host as files,
    layout::{BLOCK, UNWRITTEN, flag, inode},
    map::{block_of, reach},
};
use crate::archive::host::status;
use crate::memory::kernel_files::{self as host, KEEP_SIZE};
use culvert::{Errno, Error, Result};
use culvert_sys::{fd::BorrowedFd, fs};

/// Holes of this many blocks are filled when a mapping is made through which somebody may store: 64
/// MiB. The kernel answers a store that it has no page for with SIGBUS; larger holes are rather
/// those of a sparse file, of which only little will ever be touched.
const RESERVED: u64 = (64 << 20) / BLOCK;
/// Runs of so many free blocks are given back to the kernel after a move.
const LONG: u64 = 64;

fn no_room(error: Error) -> Error {
    match error.errno() {
        Errno::ENOSPC | Errno::EDQUOT => Error::because(
            Errno::ENOMEM,
            "no room for the file that is to be mapped (size=, or the place that the file system \
            lies in)",
        ),
        _ => error,
    }
}

impl Core {
    /// Moves the content of `of` to a file of its own. The content is locked for writing.
    pub fn move_out(&self, of: &Inode<'_>) -> Result<()> {
        if of.is_external() {
            return Ok(());
        }
        // What nobody has mapped any more makes room.
        if self.header(super::super::layout::header::ORPHANS)? != 0 {
            self.reclaim()?;
        }
        let directory = self.directory_of_files()?;
        let made = directory.create(of)?;
        let moved = self.copy_out(of, made.borrow()).or_else(|error| {
            match error.errno() == Errno::ENOSPC && self.give_back(1)? {
                true => self.copy_out(of, made.borrow()),
                false => Err(error),
            }
        });
        if let Err(error) = moved.and_then(|()| self.switch(of, made.borrow())) {
            if !of.is_external() {
                let _ = host::remove_at(directory.fd(), super::name_of(of).as_bytes());
            }
            return Err(no_room(error));
        }
        // Done: what fails now is done by whoever needs the room.
        let _ = self.leave_image(of);
        Ok(())
    }

    /// Writes all of the content to `to`: data where there are data, holes where there are holes,
    /// and what was set aside is set aside.
    fn copy_out(&self, of: &Inode<'_>, to: BorrowedFd<'_>) -> Result<()> {
        let size = of.get(inode::SIZE);
        files::within_limit(size, || fs::ftruncate(to, size))?;
        if of.is_inline() {
            let content = of.inline().part(0, size as usize).shared();
            if of.get(inode::INTENT) == inode::WRITTEN || !content.is_zero() {
                let bytes = content.to_vec();
                files::within_limit(size, || files::write(to, &bytes, 0).1)?;
            }
        } else {
            self.copy_blocks(of, to, size)?;
        }
        Ok(host::set_mtime(to, unpack_time(of.get(inode::MTIME)))?)
    }

    fn copy_blocks(&self, of: &Inode<'_>, to: BorrowedFd<'_>, size: u64) -> Result<()> {
        let root = of.get(inode::ROOT);
        let end = reach(split(root).1);
        let mut steps = of.get(inode::BLOCKS).saturating_add(1);
        let mut index = self.next_mapped(root, 0, end)?;
        while index < end {
            let first = self.pointer(root, index)?;
            let mut blocks = 1;
            while index + blocks < end
                && self.pointer(root, index + blocks)? == first + blocks as u32
            {
                blocks += 1;
            }
            steps = steps.checked_sub(blocks).ok_or_else(endless)?;
            if first & UNWRITTEN != 0 {
                match files::set_aside(to, KEEP_SIZE, index * BLOCK, blocks * BLOCK) {
                    // Of a spill, where the file system has no fallocate: holes.
                    Ok(()) | Err(Errno::EOPNOTSUPP) => {}
                    Err(errno) => return Err(errno.into()),
                }
            } else {
                self.copy_run(block_of(first), blocks, to, index * BLOCK, size)?;
            }
            index = self.next_mapped(root, index + blocks, end)?;
        }
        Ok(())
    }

    fn copy_run(
        &self,
        first: u64,
        blocks: u64,
        to: BorrowedFd<'_>,
        at: u64,
        size: u64,
    ) -> Result<()> {
        // What a damaged image says is beyond its end is not copied.
        self.image.block(first + blocks - 1)?;
        let (mut first, mut blocks, mut at) = (first, blocks, at);
        while blocks > 0 {
            let from = self.image.stretch(first, blocks);
            let length = (from.blocks * BLOCK).min(size.saturating_sub(at));
            let copy = || host::copy((from.fd, from.offset), (to, at), length);
            files::within_limit(at + length, copy)?;
            first += from.blocks;
            blocks -= from.blocks;
            at += from.blocks * BLOCK;
        }
        Ok(())
    }

    /// Says that the content lies in `file`.
    fn switch(&self, of: &Inode<'_>, file: BorrowedFd<'_>) -> Result<()> {
        let blocks = status(file)?.blocks;
        self.transact(|change| {
            change.free_reserve(of)?;
            change.charge(of, blocks)?;
            change.set_state(of, flag::EXTERNAL, 0)
        })
    }

    /// Gives the blocks of the image back that a file has no more use for.
    pub(super) fn leave_image(&self, of: &Inode<'_>) -> Result<()> {
        let blocks = of.get(inode::BLOCKS);
        if of.get(inode::ROOT) == 0 {
            return Ok(());
        }
        self.transact(|change| change.unmap_content(of, 0, u64::MAX))?;
        if blocks >= LONG {
            self.give_back(LONG)?;
        }
        Ok(())
    }

    /// Sets space aside for stores to `range` through a mapping: `ENOMEM` where there is none, for
    /// holes that are not large.
    pub fn reserve_external(
        &self,
        of: &Inode<'_>,
        fd: BorrowedFd<'_>,
        range: (u64, u64),
    ) -> Result<()> {
        let size = of.get(inode::SIZE);
        let start = range.0.min(size) / BLOCK * BLOCK;
        let end = range.0.saturating_add(range.1).min(size);
        if start >= end || of.get(inode::INTENT) >= size.div_ceil(BLOCK) {
            return Ok(());
        }
        let holes = self.holes(fd, start, end)?;
        if holes == 0 || holes > RESERVED {
            return Ok(());
        }
        if holes > self.room_outside()? {
            self.reclaim()?;
            if holes > self.room_outside()? {
                return Err(no_room(Errno::ENOSPC.into()));
            }
        }
        match self.set_aside_outside(fd, start, end - start) {
            // Holes stay where there is no fallocate, as in that place.
            Err(error) if error.errno() == Errno::EOPNOTSUPP => {}
            other => other.map_err(no_room)?,
        }
        self.recount(of, fd)
    }
}
