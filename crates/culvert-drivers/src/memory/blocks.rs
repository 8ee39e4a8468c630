//! Which blocks are free: a bit for each, set when it is used.

use super::{
    core::{Core, split},
    host,
    layout::{self, BLOCK, GROUP, header},
    transaction::Transaction,
};
use crate::archive::host::status;
use core::sync::atomic::Ordering::*;
use culvert::{Errno, Result};

/// Blocks asked from the kernel at once: it clears them, and what is written next should find them
/// in the processor's cache still.
const GROWTH: u64 = 128;
/// Blocks by which `size=` may be passed where that is needed ([`Transaction::beyond`]).
const BEYOND: u64 = 8;
/// Words of the bitmap that are searched for a long run before the file grows.
const LONG_SEARCH: u64 = 512;

fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSPC | Errno::EFBIG | Errno::EDQUOT)
}

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub start: u64,
    /// How many.
    pub count: u64,
}

impl Run {
    /// A block by itself.
    pub const fn one(block: u64) -> Self {
        Self {
            start: block,
            count: 1,
        }
    }

    /// The run that `word` says: its start, and in the upper half how many.
    pub fn of(word: u64) -> Self {
        let (start, count) = split(word);
        Self {
            start: start.into(),
            count: count.into(),
        }
    }
}

/// Where the word of the bitmap lies that `block` has its bit in.
pub(super) const fn bitmap_word(block: u64) -> u64 {
    let group = block / GROUP;
    let bitmap = match group {
        0 => layout::FIRST_BITMAP,
        _ => group * GROUP,
    };
    bitmap * BLOCK + block % GROUP / 64 * 8
}

impl Core {
    /// Free blocks: what the limit leaves, but not more than there is.
    pub fn free_blocks(&self) -> Result<u64> {
        let free = self.header(header::FREE)?;
        let mut there = host::free_space(self.image.fd())? / BLOCK;
        if let Some(spill) = self.image.spill() {
            let split = self.header(header::SPLIT)?;
            let left = split.saturating_sub(self.header(header::GROWN)?);
            there = there.min(left) + host::free_space(spill)? / BLOCK;
        }
        Ok(self.room_outside()?.min(free + there))
    }

    /// Blocks in use, in the image and in files of their own.
    pub fn used_blocks(&self) -> Result<u64> {
        let unused = self.header(header::FREE)? + self.header(header::RETURNED)?;
        let image = self.header(header::GROWN)?.saturating_sub(unused);
        Ok(image.saturating_add(self.header(header::EXTERNAL)?))
    }
}

impl Transaction<'_> {
    /// Asks the kernel for more blocks, `wanted` if possible, and for fewer where it has not so
    /// many. `ENOSPC` when there are none. Undone, the file stays longer than the header says, and
    /// the blocks are asked for again.
    fn grow(&mut self, wanted: u64) -> Result<()> {
        let grown = self.header(header::GROWN)?;
        let returned = self.header(header::RETURNED)?;
        let taken = grown.saturating_sub(returned) + self.header(header::EXTERNAL)?;
        let mut room = self.header(header::LIMIT)?.saturating_sub(taken);
        if self.beyond {
            room = room.max(BEYOND);
        }
        let mut count = wanted.max(GROWTH);
        if returned > 0 && room > 0 {
            match self.take_returned(count.min(room)) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // What is behind may lie in the other file.
                Err(error) if self.core.image.spill().is_some() && is_full(error.errno()) => {}
                Err(error) => return Err(error),
            }
        }
        // A group begins with its bitmap, so growth ends there.
        let room = room
            .min(layout::MOST_BLOCKS.saturating_sub(grown))
            .min(GROUP - grown % GROUP);
        let image = &self.core.image;
        let mut splits = image.refresh_split()?.is_some_and(|split| grown < split);
        loop {
            let to = image.stretch(grown, count.min(room));
            count = to.blocks;
            if count == 0 {
                return Err(Errno::ENOSPC.into());
            }
            match host::set_aside(to.fd, 0, to.offset, count * BLOCK) {
                Ok(()) => break,
                // That this process may have no larger files is no matter of others.
                Err(errno)
                    if is_full(errno)
                        && count < 4
                        && splits
                        && !host::is_beyond_limit(to.offset + count * BLOCK) =>
                {
                    // The place has no more, although `size=` allows it: the rest is spilled,
                    // behind what the file is longer by a growth that was undone, which others have
                    // seen.
                    splits = false;
                    count = (status(image.fd())?.size / BLOCK).saturating_sub(grown);
                    if count == 0 {
                        image.split_at(grown)?;
                        count = wanted.max(GROWTH);
                    }
                }
                Err(errno) if is_full(errno) => count /= 4,
                Err(errno) => return Err(errno.into()),
            }
        }
        image.has_grown(grown + count);
        self.set_header(header::GROWN, grown + count)?;
        self.add(header::FREE * 8, count as i64)?;
        if grown.is_multiple_of(GROUP) {
            // The kernel's blocks are zeroes; those of a growth that was undone are not.
            self.core.image.bytes(grown)?.clear();
            self.mark(Run::one(grown), true)?;
        }
        Ok(())
    }

    /// A run of free blocks, now used: up to `most`, at least one. `ENOSPC` when there are none.
    pub fn allocate(&mut self, mut most: u64) -> Result<Run> {
        let free = self.header(header::FREE)?;
        if self.header(header::EXTERNAL)? != 0 && !self.beyond {
            // Files of their own may take what blocks of the image that are free would.
            most = most.min(self.core.room_outside()?);
            if most == 0 {
                return Err(Errno::ENOSPC.into());
            }
        }
        let long = most.min(64);
        let mut found = None;
        if free >= long {
            found = self.find_run(most, long, LONG_SEARCH)?;
        }
        if found.is_none() {
            if let Err(error) = self.grow(most.min(GROWTH))
                && (error.errno() != Errno::ENOSPC || free == 0)
            {
                return Err(error);
            }
            found = self.find_run(most, long, LONG_SEARCH)?;
        }
        if found.is_none() {
            found = self.find_run(most, 1, u64::MAX)?;
        }
        let run = found.ok_or(Errno::ENOSPC)?;
        self.mark(run, true)?;
        self.core
            .image
            .header(header::HINT)?
            .store(run.start + run.count, Relaxed);
        Ok(run)
    }

    /// One block, its bytes zero.
    pub fn allocate_zeroed(&mut self) -> Result<u64> {
        let block = self.allocate(1)?.start;
        self.core.image.bytes(block)?.clear();
        Ok(block)
    }

    /// Frees blocks. Adjacent ones are best given together: each call changes at least two words.
    pub fn free(&mut self, run: Run) -> Result<()> {
        self.mark(run, false)
    }

    /// Frees blocks whose number [`Transaction::freed`] is told later.
    pub fn free_uncounted(&mut self, run: Run) -> Result<()> {
        self.mark_bits(run, false)
    }

    /// Counts blocks of [`Transaction::free_uncounted`].
    pub fn freed(&mut self, count: u64) -> Result<()> {
        self.add(header::FREE * 8, count as i64)
    }

    pub(super) fn mark(&mut self, run: Run, used: bool) -> Result<()> {
        self.mark_bits(run, used)?;
        let change = run.count as i64;
        self.add(header::FREE * 8, if used { -change } else { change })
    }

    fn mark_bits(&mut self, run: Run, used: bool) -> Result<()> {
        let (mut block, end) = (run.start, run.start + run.count);
        while block < end {
            let until = (block / 64 * 64 + 64).min(end);
            let mask = (u64::MAX >> (64 - (until - block))) << (block % 64);
            let at = bitmap_word(block);
            let old = self.get(at)?;
            self.set(at, if used { old | mask } else { old & !mask })?;
            block = until;
        }
        if !used && self.core.image.spill().is_some() {
            // The next search begins there: memory first.
            let hint = self.core.image.header(header::HINT)?;
            if run.start < hint.load(Relaxed) {
                hint.store(run.start, Relaxed);
            }
        }
        Ok(())
    }

    /// The first run of `least` to `most` free blocks from the hint on, in at most `words` words of
    /// bitmap. One in two files is cut to what lies in the first.
    pub(super) fn find_run(&self, most: u64, least: u64, words: u64) -> Result<Option<Run>> {
        let found = self.search_run(most, least, words)?;
        let Some(split) = self.core.image.refresh_split()? else {
            return Ok(found);
        };
        Ok(found.map(|run| match run.start < split {
            true => Run {
                count: run.count.min(split - run.start),
                ..run
            },
            false => run,
        }))
    }

    fn search_run(&self, most: u64, least: u64, words: u64) -> Result<Option<Run>> {
        let grown = self.header(header::GROWN)?.min(layout::MOST_BLOCKS);
        let hint = self.header(header::HINT)?;
        let first = if hint < grown { hint / 64 } else { 0 };
        let total = grown.div_ceil(64);
        let mut run = Run { start: 0, count: 0 };
        for step in 0..=total.min(words) {
            let index = (first + step) % total;
            let base = index * 64;
            let used = self.get(bitmap_word(base))?;
            let mut bit = 0;
            if index == 0 || used == u64::MAX {
                if run.count >= least {
                    return Ok(Some(run));
                }
                run.count = 0;
                bit = if used == u64::MAX { 64 } else { 0 };
            }
            while bit < 64 && base + bit < grown {
                let ahead = used >> bit;
                if ahead & 1 != 0 {
                    if run.count >= least {
                        return Ok(Some(run));
                    }
                    run.count = 0;
                    bit += u64::from(ahead.trailing_ones());
                    continue;
                }
                let zeroes = u64::from(ahead.trailing_zeros()).min(64 - bit);
                let zeroes = zeroes.min(grown - base - bit);
                if run.count == 0 {
                    run.start = base + bit;
                }
                run.count += zeroes;
                if run.count >= most {
                    run.count = most;
                    return Ok(Some(run));
                }
                bit += zeroes;
            }
        }
        Ok((run.count >= least).then_some(run))
    }
}
