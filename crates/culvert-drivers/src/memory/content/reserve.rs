//! The reserve of a file: blocks that belong to it and are in no map yet, so that a growing file
//! waits for no other process.

use crate::memory::{
    core::{Core, Inode, join, split},
    layout::{BLOCK, UNWRITTEN, inode},
    map::{block_of, reach},
};
use core::sync::atomic::Ordering::*;
use culvert::{Errno, Result};

/// Most blocks that are set aside for a file that grows: as many as the shared file grows by at
/// once.
const MOST_AHEAD: u64 = 128;

impl Core {
    /// Makes sure that the reserve holds a block for `index`, and blocks of pointers as its map
    /// needs.
    pub fn fill_reserve(&self, of: &Inode<'_>, index: u64, end: u64, appends: bool) -> Result<()> {
        loop {
            if of.get(inode::RESERVE) >> 32 == 0 {
                let needed = end.div_ceil(BLOCK).saturating_sub(index).max(1);
                let there = of.get(inode::BLOCKS);
                let ahead = match appends && there > 0 {
                    true => there.min(MOST_AHEAD),
                    false => 0,
                };
                self.reserve(of, needed.min(MOST_AHEAD).max(ahead))?;
                continue;
            }
            if !self.needs_pointers(of, index)? {
                return Ok(());
            }
            self.add_pointers(of, index)?;
        }
    }

    /// Sets `count` blocks aside for a file that has none left.
    fn reserve(&self, of: &Inode<'_>, count: u64) -> Result<()> {
        let mut change = self.change()?;
        let run = match change.allocate(count) {
            Err(error) if error.errno() == Errno::ENOSPC => {
                drop(change);
                self.make_room(of.number)?;
                change = self.change()?;
                change.allocate(1)?
            }
            other => other?,
        };
        let word = join(run.start as u32, run.count as u32);
        change.set_word(of, inode::RESERVE, word)?;
        change.add(of.at(inode::BLOCKS), run.count as i64)?;
        change.commit();
        Ok(())
    }

    /// Whether blocks of pointers are missing on the way to `index`.
    fn needs_pointers(&self, of: &Inode<'_>, index: u64) -> Result<bool> {
        let root = of.get(inode::ROOT);
        let (_, depth) = split(root);
        if depth == 0 {
            return Ok(index > 0);
        }
        Ok(index >= reach(depth) || self.place(root, index)?.is_none())
    }

    /// Takes one block of the reserve as the next missing block of pointers on the way to `index`.
    fn add_pointers(&self, of: &Inode<'_>, index: u64) -> Result<()> {
        let block = of.get(inode::RESERVE) as u32;
        of.put(inode::INTENT, index + 1);
        let root = of.get(inode::ROOT);
        let (top, mut depth) = split(root);
        self.image.bytes(block.into())?.clear();
        if top == 0 && depth == 0 || index >= reach(depth) {
            if top != 0 {
                self.image.entry(block.into(), 0)?.store(top, Release);
            }
            of.put(inode::ROOT, join(block, depth + 1));
            self.took_from_reserve(of);
            return Ok(());
        }
        let mut at = top;
        while depth > 1 {
            depth -= 1;
            let entry = (index >> (10 * depth)) % 1024;
            let entry = self.image.entry(block_of(at), entry)?;
            at = entry.load(Acquire);
            if at == 0 {
                entry.store(block, Release);
                self.took_from_reserve(of);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes the first block of the reserve block `index` of the file.
    pub fn link_reserved(&self, of: &Inode<'_>, index: u64, mark: u32) -> Result<()> {
        let block = of.get(inode::RESERVE) as u32;
        of.put(inode::INTENT, index + 1);
        self.store_pointer(of, index, block | mark)?;
        self.took_from_reserve(of);
        Ok(())
    }

    pub(super) fn took_from_reserve(&self, of: &Inode<'_>) {
        let (start, count) = split(of.get(inode::RESERVE));
        of.put(
            inode::RESERVE,
            join(start.wrapping_add(1), count.saturating_sub(1)),
        );
    }

    /// Finishes what a writer that died had begun: a block that is in the map is not in the
    /// reserve, and beyond the end there is nothing. The caller alone has the content.
    pub fn finish_write(&self, of: &Inode<'_>) -> Result<()> {
        if of.mode() & 0o170000 != 0o100000 {
            return Ok(());
        }
        // It may have died within a transaction: the words are what they count for only once that
        // is undone, as the next to take this lock does.
        drop(self.lock()?);
        if of.is_external() {
            return self.finish_external(of);
        }
        self.forget_move(of);
        let (start, count) = split(of.get(inode::RESERVE));
        let intent = of.get(inode::INTENT);
        if intent != 0
            && intent != inode::WRITTEN
            && count > 0
            && self.is_on_the_way(of, intent - 1, start)?
        {
            self.took_from_reserve(of);
        }
        // The mark of content in the inode gives way to the intent when that is moved to a block.
        let size = of.get(inode::SIZE).min(inode::INLINE) as usize;
        let inline = of.inline().part(0, size).shared();
        let written = intent == inode::WRITTEN || !inline.is_zero();
        let mark = match of.is_inline() && size > 0 && written {
            true => inode::WRITTEN,
            false => 0,
        };
        of.put(inode::INTENT, mark);
        self.cut(of, of.get(inode::SIZE))
    }

    fn is_on_the_way(&self, of: &Inode<'_>, index: u64, wanted: u32) -> Result<bool> {
        let (mut pointer, mut depth) = split(of.get(inode::ROOT));
        loop {
            if pointer & !UNWRITTEN == wanted {
                return Ok(true);
            }
            if depth == 0 || pointer == 0 || index >= reach(depth) {
                return Ok(false);
            }
            depth -= 1;
            let entry = (index >> (10 * depth)) % 1024;
            pointer = self.image.entry(block_of(pointer), entry)?.load(Acquire);
        }
    }

    /// Gives the reserve of a file back that nobody here writes any more.
    pub fn give_reserve_back(&self, of: &Inode<'_>) -> Result<()> {
        let _held = self.lock_exclusive(of, &|| false)?;
        self.transact(|change| change.free_reserve(of))
    }

    /// Finds room when there seems to be none: orphans that nobody uses, reserves that nobody needs
    /// now. The content of inode `mine` (0: of none) is locked by the caller.
    pub(in crate::memory) fn make_room(&self, mine: u32) -> Result<()> {
        self.reclaim()?;
        for number in 1..self.inode_end()? {
            let Ok(other) = self.inode(number) else {
                continue;
            };
            let regular = other.mode() & 0o170000 == 0o100000;
            if number == mine || !regular || other.get(inode::RESERVE) >> 32 == 0 {
                continue;
            }
            if let Some(_held) = self.try_lock_exclusive(&other)? {
                self.transact(|change| change.free_reserve(&other))?;
            }
        }
        Ok(())
    }
}
