//! Content of files: read, written, cut.
//!
//! The lock of the content is held. Growing a file takes blocks from its *reserve*, which belongs
//! to it already, so that no other process is waited for: a block is filled, then its pointer
//! stored, then taken from the reserve, and at the end the size says that it counts. Where a writer
//! is killed, the next one to lock finishes what it began ([`Core::finish_write`]).

mod reserve;

use super::{
    core::{Core, Inode, join, split},
    host,
    layout::{BLOCK, UNWRITTEN, inode},
    map::block_of,
};
use core::sync::atomic::Ordering::*;
use culvert::{Errno, Result, Sink, Source};

/// Largest size of a file.
pub const LARGEST: u64 = i64::MAX as u64;

/// From so many bytes on the kernel writes them where there were no blocks before.
const FRESH: u64 = 64 << 10;

/// Most blocks of the reserve that are made present at once.
const AHEAD: u64 = 128;

/// Bytes from `offset` to the end of its block, at most `length`.
const fn to_block_end(offset: u64, length: u64) -> u64 {
    let rest = BLOCK - offset % BLOCK;
    if rest < length { rest } else { length }
}

impl Core {
    /// Reads from `offset` into `out`.
    #[inline]
    pub fn read(&self, of: &Inode<'_>, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let size = of.get(inode::SIZE);
        let wanted = out.remaining() as u64;
        let end = offset.saturating_add(wanted).min(size);
        let root = of.get(inode::ROOT);
        let (mut at, mut done) = (offset, 0);
        let inline_end = end.min(inode::INLINE);
        if root == 0 && at < inline_end {
            let content = of.inline().part(at as usize, (inline_end - at) as usize);
            done = out.put_shared(content.shared())?;
            at += done as u64;
            if at < inline_end {
                return Ok(done);
            }
        }
        while at < end {
            let (index, within) = (at / BLOCK, at % BLOCK);
            let pointer = self.pointer(root, index)?;
            let (count, put);
            if pointer == 0 || pointer & UNWRITTEN != 0 {
                count = match pointer {
                    0 => {
                        let until = end.div_ceil(BLOCK);
                        let next = self.next_mapped(root, index, until)?;
                        (next.saturating_mul(BLOCK))
                            .min(end)
                            .saturating_sub(at)
                            .max(1)
                    }
                    _ => to_block_end(at, end - at),
                };
                put = out.put_zeroes(count as usize);
            } else {
                // Blocks that follow each other here and in memory are one piece.
                let first = block_of(pointer);
                let most = (end - at + within).div_ceil(BLOCK);
                let mut blocks = 1;
                while blocks < most
                    && self.pointer(root, index + blocks)? == pointer + blocks as u32
                {
                    blocks += 1;
                }
                let span = self.image.span(first, blocks)?;
                let bytes = span.part(within as usize, (end - at) as usize);
                count = bytes.len() as u64;
                put = out.put_shared(bytes.shared());
            }
            match put {
                Ok(put) => {
                    done += put;
                    at += put as u64;
                    if (put as u64) < count {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes at `offset`; returns the bytes written, an error only when there are none.
    pub fn write(&self, of: &Inode<'_>, offset: u64, from: &mut dyn Source) -> Result<usize> {
        let wanted = from.remaining() as u64;
        if offset >= LARGEST && wanted > 0 {
            return Err(Errno::EFBIG.into());
        }
        let size = of.get(inode::SIZE);
        let end = offset.saturating_add(wanted).min(LARGEST);
        if offset > size {
            self.zero_tail(of, size)?;
        }
        let (mut at, mut failure) = (offset, None);
        if of.is_inline() {
            if end <= inode::INLINE && of.get(inode::RESERVE) >> 32 == 0 {
                let content = of.inline().part(at as usize, (end - at) as usize);
                at += from.take_shared(content)? as u64;
                of.put(inode::INTENT, inode::WRITTEN);
                return Ok(self.wrote(of, offset, at, size));
            }
            self.spill(of)?;
        }
        while at < end {
            let fresh = match end - at >= FRESH {
                true => self.write_fresh(of, at, end, size, from),
                false => Ok(0),
            };
            let piece = match fresh {
                Ok(0) => self.write_piece(of, at, end, size, from),
                fresh => fresh,
            };
            match piece {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if at > offset {
            return Ok(self.wrote(of, offset, at, size));
        }
        failure.map_or(Ok(0), Err)
    }

    /// What a write from `offset` to `at` owes: times, and the size, which says that it counts.
    pub(super) fn wrote(&self, of: &Inode<'_>, offset: u64, at: u64, size: u64) -> usize {
        if at > offset {
            let now = self.now();
            of.put(inode::MTIME, now);
            of.put(inode::CTIME, now);
            if at > size {
                of.put(inode::SIZE, at);
            }
        }
        (at - offset) as usize
    }

    /// Moves content that lies in the inode to a block, where it is more than a hole.
    pub fn spill(&self, of: &Inode<'_>) -> Result<()> {
        let size = of.get(inode::SIZE).min(inode::INLINE) as usize;
        let hole = of.get(inode::INTENT) != inode::WRITTEN;
        let inline = of.inline().part(0, size).shared();
        if !of.is_inline() || size == 0 || hole && inline.is_zero() {
            return Ok(());
        }
        self.fill_reserve(of, 0, 1, false)?;
        let block = self.image.bytes(u64::from(of.get(inode::RESERVE) as u32))?;
        let mut content = [0; inode::INLINE as usize];
        inline.copy_to(&mut content);
        block.clear();
        block.copy_from(&content);
        self.link_reserved(of, 0, 0)
    }

    /// Lets the kernel write whole blocks where there are none yet, and this process has touched
    /// none of those set aside: what it writes it need not zero before, nor map. Returns how many
    /// bytes; 0 where another way must be taken.
    fn write_fresh(
        &self,
        of: &Inode<'_>,
        at: u64,
        end: u64,
        size: u64,
        from: &mut dyn Source,
    ) -> Result<u64> {
        let index = at / BLOCK;
        if !at.is_multiple_of(BLOCK) || self.pointer(of.get(inode::ROOT), index)? != 0 {
            return Ok(0);
        }
        self.fill_reserve(of, index, end, at <= size && end > size)?;
        let (start, count) = split(of.get(inode::RESERVE));
        let (root, start) = (of.get(inode::ROOT), u64::from(start));
        if split(root).1 == 0 || self.image.has_seen(start) {
            return Ok(0);
        }
        // All of them have their pointers in one block, which is there.
        let most = ((end - at) / BLOCK)
            .min(u64::from(count))
            .min(1024 - index % 1024);
        let mut blocks = 1;
        while blocks < most && self.pointer(root, index + blocks)? == 0 {
            blocks += 1;
        }
        // This looks how far the blocks go by now, and so where each lies.
        self.image.block(start + blocks - 1)?;
        let to = self.image.stretch(start, blocks);
        let (length, offset) = (to.blocks * BLOCK, to.offset);
        if length < FRESH / 2 || !host::may_write_up_to(offset + length) {
            return Ok(0);
        }
        // What a damaged file says is beyond its end is not written.
        self.image.block(start + to.blocks - 1)?;
        let written = from.write_to(to.fd.raw(), offset, length as usize) as u64;
        let written = written.min(length);
        if !written.is_multiple_of(BLOCK) {
            let last = self.image.bytes(start + written / BLOCK)?;
            last.tail((written % BLOCK) as usize).clear();
        }
        for block in 0..written.div_ceil(BLOCK) {
            self.link_reserved(of, index + block, 0)?;
        }
        Ok(written)
    }

    /// Writes in one block, or in as many as follow each other in memory and are there already.
    fn write_piece(
        &self,
        of: &Inode<'_>,
        at: u64,
        end: u64,
        size: u64,
        from: &mut dyn Source,
    ) -> Result<u64> {
        let (index, within) = (at / BLOCK, at % BLOCK);
        let root = of.get(inode::ROOT);
        let pointer = self.pointer(root, index)?;
        if pointer != 0 && pointer & UNWRITTEN == 0 {
            let most = (end - at + within).div_ceil(BLOCK);
            let mut blocks = 1;
            while blocks < most && self.pointer(root, index + blocks)? == pointer + blocks as u32 {
                blocks += 1;
            }
            let span = self.image.span(block_of(pointer), blocks)?;
            let bytes = span.part(within as usize, (end - at) as usize);
            return Ok(from.take_shared(bytes)? as u64);
        }
        let appends = at <= size && end > size;
        let block = match pointer {
            0 => {
                self.fill_reserve(of, index, end, appends)?;
                let (start, count) = split(of.get(inode::RESERVE));
                if end - at < FRESH {
                    self.image
                        .populate(start.into(), u64::from(count).min(AHEAD));
                }
                start.into()
            }
            _ => block_of(pointer),
        };
        let bytes = self.image.bytes(block)?;
        let start = within as usize;
        // What was there before, or will count later, is zeroes; what lies beyond the end becomes
        // zeroes when the file grows.
        bytes.part(0, start).clear();
        let taken = from.take_shared(bytes.part(start, (end - at) as usize))?;
        if taken == 0 {
            return Ok(0);
        }
        let block_end = (index + 1) * BLOCK;
        if start + taken < BLOCK as usize && size.min(block_end) > at {
            bytes.tail(start + taken).clear();
        }
        match pointer {
            0 => self.link_reserved(of, index, 0)?,
            _ => self.store_pointer(of, index, block as u32)?,
        }
        Ok(taken as u64)
    }

    /// Stores the pointer for a block that the map reaches.
    fn store_pointer(&self, of: &Inode<'_>, index: u64, pointer: u32) -> Result<()> {
        let root = of.get(inode::ROOT);
        match self.place(root, index)? {
            Some(place) => self.image.half(place)?.store(pointer, Release),
            None => of.put(inode::ROOT, join(pointer, split(root).1)),
        }
        Ok(())
    }

    /// Frees the blocks wholly beyond `size`, with their pointers.
    fn cut(&self, of: &Inode<'_>, size: u64) -> Result<()> {
        self.transact(|change| change.unmap_content(of, size.div_ceil(BLOCK), u64::MAX))
    }

    /// Zeroes from `size` to the end of its block.
    pub fn zero_tail(&self, of: &Inode<'_>, size: u64) -> Result<()> {
        let within = (size % BLOCK) as usize;
        if of.is_inline() {
            if size < inode::INLINE {
                of.inline().tail(size as usize).clear();
            }
            return Ok(());
        }
        if within == 0 {
            return Ok(());
        }
        let pointer = self.pointer(of.get(inode::ROOT), size / BLOCK)?;
        if pointer != 0 && pointer & UNWRITTEN == 0 {
            self.image.bytes(block_of(pointer))?.tail(within).clear();
        }
        Ok(())
    }

    /// Changes the size.
    pub fn resize(&self, of: &Inode<'_>, size: u64) -> Result<()> {
        if size > LARGEST {
            return Err(Errno::EFBIG.into());
        }
        let old = of.get(inode::SIZE);
        if size > old {
            self.zero_tail(of, old)?;
        }
        self.transact(|change| {
            change.resized(of, size)?;
            if size < old {
                change.free_reserve(of)?;
            }
            if size == 0 && of.is_inline() && of.get(inode::INTENT) != 0 {
                change.set_word(of, inode::INTENT, 0)?;
            }
            Ok(())
        })?;
        if size < old {
            self.zero_tail(of, size)?;
            if split(of.get(inode::ROOT)).0 != 0 {
                self.cut(of, size)?;
            }
        }
        Ok(())
    }
}
