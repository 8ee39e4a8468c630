//! Block maps: from the index of a block in a file to the block in the image, a tree of blocks of
//! 1024 pointers.
//!
//! The root word holds the top block and the depth; at depth 0 the top block is the file's only
//! one. A pointer may be marked *unwritten*: the block is the file's, but reads as zeroes. Blocks
//! wholly beyond the end of a file are absent or unwritten.

use super::{
    blocks::Run,
    core::{Core, Inode, endless, join, split},
    image::damaged,
    layout::{BLOCK, RESERVED, UNWRITTEN, header, inode},
    transaction::Transaction,
};
use core::sync::atomic::Ordering::*;
use culvert::Result;

/// Levels of pointers that reach every offset up to 2^63.
pub const DEEPEST: u32 = 6;
const FANOUT: u64 = 1024;

/// How many blocks a tree of `depth` reaches.
pub const fn reach(depth: u32) -> u64 {
    1 << (10 * if depth > DEEPEST { DEEPEST } else { depth })
}

/// The block of a pointer.
pub const fn block_of(pointer: u32) -> u64 {
    (pointer & !UNWRITTEN) as u64
}

impl Core {
    /// The pointer for block `index` of the map `root`; 0 in a hole.
    #[inline]
    pub fn pointer(&self, root: u64, index: u64) -> Result<u32> {
        let (top, depth) = split(root);
        if depth == 0 {
            return Ok(if index == 0 { top } else { 0 });
        }
        let pointer = match self.place(root, index)? {
            Some(place) => self.image.half(place)?.load(Acquire),
            None => 0,
        };
        if pointer == 0 {
            return Ok(0);
        }
        if block_of(pointer) < RESERVED {
            return Err(damaged("a pointer to what is no content"));
        }
        Ok(pointer)
    }

    /// Where the pointer for `index` lies, when the map reaches it with blocks of pointers: never
    /// at depth 0.
    #[inline]
    pub fn place(&self, root: u64, index: u64) -> Result<Option<u64>> {
        let (top, mut depth) = split(root);
        if depth == 0 || top == 0 || depth > DEEPEST || index >= reach(depth) {
            return Ok(None);
        }
        let mut block = top;
        loop {
            depth -= 1;
            let place = block_of(block) * BLOCK + (index >> (10 * depth)) % FANOUT * 4;
            if depth == 0 {
                return Ok(Some(place));
            }
            block = self.image.half(place)?.load(Acquire);
            if block == 0 {
                return Ok(None);
            }
        }
    }

    /// The first index from `from` on, before `end`, that has a pointer; `end` when none has. Skips
    /// what is not there in large steps.
    pub fn next_mapped(&self, root: u64, from: u64, end: u64) -> Result<u64> {
        let mut index = from;
        // Every step but the last meets an entry that is missing in a block of pointers that is
        // there.
        let mut steps = self.header(header::GROWN)?.saturating_mul(FANOUT);
        while index < end {
            let (top, depth) = split(root);
            steps = steps.checked_sub(1).ok_or_else(endless)?;
            if top == 0 || depth > DEEPEST || index >= reach(depth) {
                return Ok(end);
            }
            let (mut block, mut level, mut missing) = (top, depth, 0);
            while level > 0 {
                level -= 1;
                let entry = (index >> (10 * level)) % FANOUT;
                block = self.image.entry(block_of(block), entry)?.load(Acquire);
                if block == 0 {
                    missing = reach(level);
                    break;
                }
            }
            if missing == 0 {
                return Ok(index);
            }
            index = (index / missing + 1) * missing;
        }
        Ok(end)
    }
}

/// Blocks being freed, adjacent ones collected.
struct Freed {
    run: Run,
    count: u64,
}

impl Freed {
    fn add(&mut self, change: &mut Transaction<'_>, block: u64) -> Result<()> {
        self.count += 1;
        if self.run.count > 0 && block == self.run.start + self.run.count {
            self.run.count += 1;
            return Ok(());
        }
        self.end(change)?;
        self.run = Run::one(block);
        Ok(())
    }

    fn end(&mut self, change: &mut Transaction<'_>) -> Result<()> {
        if self.run.count > 0 {
            change.free_uncounted(self.run)?;
            self.run.count = 0;
        }
        Ok(())
    }
}

impl Transaction<'_> {
    /// Stores `pointer` for `index` in the map whose root word lies at `root`, making blocks of
    /// pointers as needed; returns how many.
    pub fn map(&mut self, root: u64, index: u64, pointer: u32) -> Result<u64> {
        let mut made = 0;
        let (mut top, mut depth) = split(self.get(root)?);
        if depth == 0 && index == 0 {
            self.set(root, join(pointer, 0))?;
            return Ok(0);
        }
        while depth == 0 || index >= reach(depth) {
            let block = self.allocate_zeroed()?;
            made += 1;
            self.core.image.half(block * BLOCK)?.store(top, Release);
            (top, depth) = (block as u32, depth + 1);
            self.set(root, join(top, depth))?;
        }
        let mut block = top;
        loop {
            depth -= 1;
            let place = block_of(block) * BLOCK + (index >> (10 * depth)) % FANOUT * 4;
            if depth == 0 {
                self.set_half(place, pointer)?;
                return Ok(made);
            }
            block = self.get_half(place)?;
            if block == 0 {
                block = self.allocate_zeroed()? as u32;
                made += 1;
                self.set_half(place, block)?;
            }
        }
    }

    /// Frees the blocks `from` to `to` of the map whose root word lies at `root`, and blocks of
    /// pointers that are not needed any more; `count` is the word that counts them. May make what
    /// was done so far final, between two blocks of pointers.
    pub fn unmap(&mut self, root: u64, from: u64, to: u64, count: Option<u64>) -> Result<()> {
        let (top, depth) = split(self.get(root)?);
        if top == 0 || from >= to || depth > DEEPEST {
            return Ok(());
        }
        self.visits = self.header(header::GROWN)?;
        if count.is_some() {
            // A file without a map has its content in the inode: what lies there from before is not
            // that.
            let inline = root + (inode::INLINE_AT - inode::ROOT) * 8;
            for word in self.core.image.words(inline, inode::INLINE / 8)? {
                word.store(0, Release);
            }
        }
        if depth == 0 {
            if from == 0 {
                self.set(root, 0)?;
                self.drop_blocks(&[top], count)?;
            }
            return Ok(());
        }
        if self.unmap_below(block_of(top), depth, 0, (from, to), count)? {
            self.set(root, 0)?;
            self.drop_blocks(&[top], count)?;
        }
        Ok(())
    }

    /// [`Transaction::unmap`] of the content of a file.
    pub fn unmap_content(&mut self, of: &Inode<'_>, from: u64, to: u64) -> Result<()> {
        self.unmap(of.at(inode::ROOT), from, to, Some(of.at(inode::BLOCKS)))
    }

    fn drop_blocks(&mut self, pointers: &[u32], count: Option<u64>) -> Result<()> {
        let mut freed = Freed {
            run: Run { start: 0, count: 0 },
            count: 0,
        };
        for &pointer in pointers {
            if pointer != 0 {
                freed.add(self, block_of(pointer))?;
            }
        }
        freed.end(self)?;
        if freed.count > 0 {
            self.freed(freed.count)?;
            if let Some(count) = count {
                self.add(count, -(freed.count as i64))?;
            }
        }
        Ok(())
    }

    /// Whether nothing is left below `block` that is needed; then its pointers may be as they were,
    /// for it is freed with the same transaction.
    fn unmap_below(
        &mut self,
        block: u64,
        depth: u32,
        base: u64,
        (from, to): (u64, u64),
        count: Option<u64>,
    ) -> Result<bool> {
        let step = reach(depth - 1);
        let whole = from <= base && to >= base.saturating_add(step.saturating_mul(FANOUT));
        let first = from.saturating_sub(base) / step;
        let end = (to - base).div_ceil(step).min(FANOUT);
        if first >= end {
            return Ok(false);
        }
        if depth == 1 {
            if self.room() < 4096 {
                self.checkpoint();
            }
            let mut pointers = [0u32; FANOUT as usize];
            for (entry, pointer) in pointers.iter_mut().enumerate() {
                *pointer = self.core.image.entry(block, entry as u64)?.load(Relaxed);
            }
            let range = first as usize..end as usize;
            self.drop_blocks(&pointers[range.clone()], count)?;
            let rest = || pointers[..range.start].iter().chain(&pointers[range.end..]);
            if whole || rest().all(|&pointer| pointer == 0) {
                return Ok(true);
            }
            for entry in range {
                if pointers[entry] != 0 {
                    self.set_half(block * BLOCK + entry as u64 * 4, 0)?;
                }
            }
            return Ok(false);
        }
        for entry in first..end {
            let place = block * BLOCK + entry * 4;
            let below = self.get_half(place)?;
            if below == 0 {
                continue;
            }
            self.visits = self.visits.checked_sub(1).ok_or_else(endless)?;
            let below_base = base + entry * step;
            if self.unmap_below(block_of(below), depth - 1, below_base, (from, to), count)? {
                self.set_half(place, 0)?;
                self.drop_blocks(&[below], count)?;
            }
        }
        for entry in 0..FANOUT {
            if self.core.image.entry(block, entry)?.load(Relaxed) != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
