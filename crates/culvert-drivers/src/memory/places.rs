//! Where inodes lie: the table in the shared file says it, in two steps. What a process has found
//! stays true, for an inode's block is never given back.

use super::{
    core::{Core, Inode},
    image::damaged,
    inode_blocks::ENTRIES,
    layout::{self, BLOCK, header},
};
use core::sync::atomic::{Ordering::*, fence};
use culvert::{Errno, Result};

/// Bits of a block's number ([`layout::MOST_BLOCKS`]).
const BLOCK_BITS: u32 = 28;
const PAGE_BITS: u32 = 12;

impl Core {
    /// Inode `number`; `ESTALE` when there never was one.
    #[inline(always)]
    pub fn inode(&self, number: u32) -> Result<Inode<'_>> {
        let chunk = number as usize / layout::INODES_PER_BLOCK as usize;
        let part = self.places.part(chunk / ENTRIES);
        let place = part.map_or(0, |part| part[chunk % ENTRIES].load(Relaxed));
        if place == 0 || number == 0 {
            return self.look_for(number);
        }
        Ok(self.inode_at(number, place))
    }

    #[inline(always)]
    fn inode_at(&self, number: u32, place: u64) -> Inode<'_> {
        let within = u64::from(number) % layout::INODES_PER_BLOCK * layout::INODE;
        let address = (place >> BLOCK_BITS << PAGE_BITS) + within;
        let offset = (place & ((1 << BLOCK_BITS) - 1)) * BLOCK + within;
        // SAFETY: the words of `look_for`, mapped for as long as `self` lives.
        let words = unsafe { &*(address as *const [_; layout::INODE as usize / 8]) };
        Inode::new(number, offset, words)
    }

    /// Asks the table. What is found is kept if no transaction was on its way, which might not be
    /// final.
    #[cold]
    fn look_for(&self, number: u32) -> Result<Inode<'_>> {
        let sequence = self.image.header(header::SEQUENCE)?;
        let before = sequence.load(Acquire);
        let chunk = u64::from(number) / layout::INODES_PER_BLOCK;
        let (table, entry) = (chunk / ENTRIES as u64, chunk % ENTRIES as u64);
        if table >= ENTRIES as u64 || number == 0 {
            return Err(Errno::ESTALE.into());
        }
        let block = self.image.half(layout::INODE_TABLE * BLOCK + table * 4)?;
        let block = u64::from(block.load(Acquire));
        if block == 0 {
            return Err(Errno::ESTALE.into());
        }
        let block = self.image.half(block * BLOCK + entry * 4)?.load(Acquire);
        if block == 0 {
            return Err(Errno::ESTALE.into());
        }
        if block >> BLOCK_BITS != 0 {
            return Err(damaged("a block of inodes beyond the end"));
        }
        let address = self.image.block(block.into())? as u64;
        let place = address >> PAGE_BITS << BLOCK_BITS | u64::from(block);
        fence(Acquire);
        if before & 1 == 0
            && sequence.load(Relaxed) == before
            && let Some(part) = self.places.part_made(table as usize)
        {
            part[entry as usize % ENTRIES].store(place, Relaxed);
        }
        Ok(self.inode_at(number, place))
    }
}
