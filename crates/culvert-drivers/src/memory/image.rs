//! The shared file in memory: windows that are mapped on demand and stay, offsets in place of
//! addresses.

use super::{
    host,
    layout::{self, BLOCK, Slot, header},
};
use crate::{KeptFd, archive::host::status};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use culvert::{Errno, Error, Result, SharedMut};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::memory::{self, Mapping};

/// Windows by size: small ones first, so that a small file system costs little, then larger ones,
/// so that a large one needs few.
const SMALL: u64 = 9;
const MIDDLE: u64 = 14;
const LARGE: u64 = 18;
const SMALL_WINDOWS: u64 = 1 << (MIDDLE - SMALL);
const MIDDLE_START: u64 = 1 << MIDDLE;
const LARGE_START: u64 = 1 << 20;
const MIDDLE_WINDOWS: u64 = (LARGE_START >> MIDDLE) - 1;
const LARGE_WINDOWS: u64 = (layout::MOST_BLOCKS >> LARGE) - (LARGE_START >> LARGE);
const WINDOWS: usize = (SMALL_WINDOWS + MIDDLE_WINDOWS + LARGE_WINDOWS) as usize;
/// Blocks that are made present at once.
const PORTION: u64 = 16;
/// Portions that are remembered as present; later ones are left to faults.
const PORTIONS: u64 = 1 << 17;

/// A file and its windows.
struct Windows {
    fd: KeptFd,
    at: Box<[AtomicUsize; WINDOWS]>,
}

/// The shared file, and behind its last block the file that it spills to.
pub struct Image {
    file: Windows,
    spill: Option<Windows>,
    present: Box<[AtomicU64]>,
    /// How many blocks may be touched: what the header says, checked against the files.
    grown: AtomicU64,
    /// Of these, those in the shared file.
    near: AtomicU64,
    /// The first block of the spill, as far as this process knows: of a block below `grown` it
    /// tells in which file that lies.
    split: AtomicU64,
}

/// What is looked at in place in the shared file: atomics alone, each of them touched in its own
/// size by all processes.
///
/// # Safety
/// It is nothing but atomics, and of a size that is a power of two, a block's at most.
pub unsafe trait InPlace {}

// SAFETY: an atomic.
unsafe impl InPlace for AtomicU64 {}
// SAFETY: an atomic.
unsafe impl InPlace for AtomicU32 {}
// SAFETY: atomics, 256 bytes of them.
unsafe impl InPlace for Slot {}

/// What is wrong with a shared file.
pub fn damaged(what: &'static str) -> Error {
    Error::because(Errno::EIO, what)
}

const fn window_of(block: u64) -> (u64, u64, u64) {
    if block < MIDDLE_START {
        (block >> SMALL, block >> SMALL << SMALL, 1 << SMALL)
    } else if block < LARGE_START {
        let window = block >> MIDDLE;
        (SMALL_WINDOWS + window - 1, window << MIDDLE, 1 << MIDDLE)
    } else {
        let window = block >> LARGE;
        let index = SMALL_WINDOWS + MIDDLE_WINDOWS + window - (LARGE_START >> LARGE);
        (index, window << LARGE, 1 << LARGE)
    }
}

impl Windows {
    fn new(fd: KeptFd) -> Self {
        Self {
            fd,
            at: Box::new([const { AtomicUsize::new(0) }; WINDOWS]),
        }
    }

    /// Address of `block` of the file, which has it.
    #[inline(always)]
    fn block(&self, block: u64) -> Result<*mut u8> {
        let (window, start, _) = window_of(block);
        let mut at = self.at[window as usize].load(Acquire);
        if at == 0 {
            at = self.map(block)?;
        }
        Ok((at + ((block - start) * BLOCK) as usize) as *mut u8)
    }

    #[cold]
    fn map(&self, block: u64) -> Result<usize> {
        let (window, start, blocks) = window_of(block);
        let mapped = host::map(self.fd.fd(), start * BLOCK, blocks * BLOCK)?;
        let place = &self.at[window as usize];
        match place.compare_exchange(0, mapped.address(), AcqRel, Acquire) {
            Ok(_) => Ok(mapped.leak() as usize),
            // Another thread was faster.
            Err(first) => Ok(first),
        }
    }
}

/// A file and consecutive blocks in it.
pub struct Stretch<'a> {
    /// The file.
    pub fd: BorrowedFd<'a>,
    /// Where they begin, in bytes.
    pub offset: u64,
    /// How many blocks.
    pub blocks: u64,
    /// Whether it is the file that the shared file spills to.
    pub spilled: bool,
}

impl Image {
    /// The image in `fd`, nothing mapped yet.
    pub fn new(fd: KeptFd) -> Self {
        Self {
            file: Windows::new(fd),
            spill: None,
            present: (0..PORTIONS / 64).map(|_| AtomicU64::new(0)).collect(),
            grown: AtomicU64::new(0),
            near: AtomicU64::new(0),
            split: AtomicU64::new(u64::MAX),
        }
    }

    /// What does not fit into the shared file lies in `fd`.
    pub fn spills_to(&mut self, fd: KeptFd) -> Result<()> {
        self.spill = Some(Windows::new(fd));
        self.look_again().map(drop)
    }

    /// The shared file's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.fd.fd()
    }

    /// That of the file that it spills to.
    pub fn spill(&self) -> Option<BorrowedFd<'_>> {
        self.spill.as_ref().map(|spill| spill.fd.fd())
    }

    /// The first block of the spill. For blocks below what may be touched, and for the first
    /// behind that with the metadata lock held.
    pub fn split(&self) -> u64 {
        self.split.load(Acquire)
    }

    /// The split as it is now, with the metadata lock held; none where nothing is spilled.
    pub fn refresh_split(&self) -> Result<Option<u64>> {
        if self.spill.is_none() {
            return Ok(None);
        }
        let split = self.header(header::SPLIT)?.load(Acquire);
        // It only goes down: who has read an older one does not bring it back.
        Ok(Some(self.split.fetch_min(split, AcqRel).min(split)))
    }

    /// The file has no more than `blocks` from now on. With the metadata lock held.
    pub fn split_at(&self, blocks: u64) -> Result<()> {
        self.header(header::SPLIT)?.store(blocks, Release);
        self.split.fetch_min(blocks, AcqRel);
        Ok(())
    }

    /// Where the blocks from `block` on lie, at most `count`, for system calls.
    pub fn stretch(&self, block: u64, count: u64) -> Stretch<'_> {
        let split = self.split();
        match &self.spill {
            Some(spill) if block >= split => Stretch {
                fd: spill.fd.fd(),
                offset: (block - split) * BLOCK,
                blocks: count,
                spilled: true,
            },
            _ => Stretch {
                fd: self.fd(),
                offset: block * BLOCK,
                blocks: count.min(split - block.min(split)),
                spilled: false,
            },
        }
    }

    /// Looks again how far the files may be touched.
    #[cold]
    fn look_again(&self) -> Result<u64> {
        let mut there = status(self.fd())?.size / BLOCK;
        if there == 0 {
            return Err(damaged("the file is empty"));
        }
        self.has_grown(1);
        let said = self.header(header::GROWN)?.load(Acquire);
        // Read behind it, as it is stored before it: it is right for all below.
        if let (Some(split), Some(spill)) = (self.refresh_split()?, &self.spill)
            && there >= split
        {
            there = split.saturating_add(status(spill.fd.fd())?.size / BLOCK);
        }
        self.has_grown(said.min(there));
        Ok(self.grown.load(Acquire))
    }

    /// Address of `block`; `EIO` for one that the files do not have, `ENOMEM` when there is no
    /// room to map it.
    #[inline(always)]
    pub fn block(&self, block: u64) -> Result<*mut u8> {
        if block < self.near.load(Relaxed) || block == 0 {
            return self.file.block(block);
        }
        self.far(block)
    }

    #[cold]
    fn far(&self, block: u64) -> Result<*mut u8> {
        if block >= self.grown.load(Acquire) && block >= self.look_again()? {
            return Err(damaged("a block beyond the end"));
        }
        match &self.spill {
            Some(spill) if block >= self.split() => spill.block(block - self.split()),
            _ => self.file.block(block),
        }
    }

    /// The bytes of the blocks from `block` on, at most `count`, that lie behind one another in
    /// memory.
    pub fn span(&self, block: u64, count: u64) -> Result<SharedMut<'_>> {
        let at = self.block(block)?;
        let split = self.split();
        let (first, last) = match block < split {
            true => (block, split),
            false => (block - split, u64::MAX),
        };
        let (_, start, blocks) = window_of(first);
        let count = count.min((start + blocks).min(last) - first).max(1);
        if block + count > self.grown.load(Relaxed) && block + count > self.look_again()? {
            return Err(damaged("blocks beyond the end"));
        }
        // SAFETY: mapped for as long as `self` lives; references are made to atomics alone.
        Ok(unsafe { SharedMut::new(at, (count * BLOCK) as usize) })
    }

    /// What lies at `offset`, a multiple of its size.
    #[inline(always)]
    pub fn at<T: InPlace>(&self, offset: u64) -> Result<&T> {
        let at = self.block(offset / BLOCK)?;
        let within = (offset % BLOCK) as usize & !(size_of::<T>() - 1);
        // SAFETY: mapped for as long as `self` lives, aligned as its size is, and atomics.
        Ok(unsafe { &*at.add(within).cast::<T>() })
    }

    /// The word at `offset`, a multiple of 8.
    #[inline(always)]
    pub fn word(&self, offset: u64) -> Result<&AtomicU64> {
        self.at(offset)
    }

    /// The half word at `offset`, a multiple of 4.
    #[inline(always)]
    pub fn half(&self, offset: u64) -> Result<&AtomicU32> {
        self.at(offset)
    }

    /// Entry `index` of `block`, a block of half words.
    #[inline(always)]
    pub fn entry(&self, block: u64, index: u64) -> Result<&AtomicU32> {
        self.half(block * BLOCK + index * 4)
    }

    /// Word `index` of the header.
    #[inline(always)]
    pub fn header(&self, index: u64) -> Result<&AtomicU64> {
        self.word(index * 8)
    }

    /// The lock in word `index` of the header.
    #[inline]
    pub fn lock(&self, index: u64) -> Result<&AtomicU32> {
        self.half(index * 8)
    }

    /// `count` of them from `offset` on, as far as they lie in one block.
    #[inline(always)]
    fn many<T: InPlace>(&self, offset: u64, count: u64) -> Result<&[T]> {
        let first = self.at::<T>(offset)?;
        let rest = (BLOCK - offset % BLOCK) as usize / size_of::<T>();
        let count = rest.min(count as usize);
        // SAFETY: as in `at`; `count` of them end within the block.
        Ok(unsafe { core::slice::from_raw_parts(first, count) })
    }

    /// `count` words from `offset` on, as far as they lie in one block.
    #[inline(always)]
    pub fn words(&self, offset: u64, count: u64) -> Result<&[AtomicU64]> {
        self.many(offset, count)
    }

    /// `count` half words from `offset` on, as far as they lie in one block.
    pub fn halves(&self, offset: u64, count: u64) -> Result<&[AtomicU32]> {
        self.many(offset, count)
    }

    /// The words of the undo log, as far as they lie behind one another in memory: all of them.
    pub fn log(&self) -> Result<&[AtomicU64]> {
        let span = self.span(layout::LOG, layout::LOG_ENTRIES * 16 / BLOCK)?;
        // SAFETY: as in `at`.
        Ok(unsafe { core::slice::from_raw_parts(span.start().cast(), span.len() / 8) })
    }

    /// The bytes of `block`.
    #[inline]
    pub fn bytes(&self, block: u64) -> Result<SharedMut<'_>> {
        let at = self.block(block)?;
        // SAFETY: as in `span`.
        Ok(unsafe { SharedMut::new(at, BLOCK as usize) })
    }

    /// Says that the files have grown to `blocks`.
    pub fn has_grown(&self, blocks: u64) {
        self.near.fetch_max(blocks.min(self.split()), AcqRel);
        self.grown.fetch_max(blocks, AcqRel);
    }

    /// Makes the blocks present in this process, those not seen before.
    pub fn populate(&self, block: u64, count: u64) {
        let mut portion = block / PORTION;
        let end = (block + count).div_ceil(PORTION).min(PORTIONS);
        while portion < end {
            let first = portion;
            while portion < end && !self.is_present(portion) && portion - first < 128 {
                portion += 1;
            }
            if portion == first {
                portion += 1;
                continue;
            }
            let (mut at, until) = (first * PORTION, portion * PORTION);
            let until = until.min(self.grown.load(Relaxed));
            while at < until {
                let Ok(span) = self.span(at, until - at) else {
                    return;
                };
                let _ = memory::populate_write(span.start(), span.len());
                at += span.len() as u64 / BLOCK;
            }
        }
    }

    /// Whether this process has made `block` present.
    pub fn has_seen(&self, block: u64) -> bool {
        let portion = block / PORTION;
        let word = self.present.get((portion / 64) as usize);
        word.is_some_and(|word| word.load(Relaxed) & 1 << (portion % 64) != 0)
    }

    /// Whether the portion was seen before; it is from now on.
    fn is_present(&self, portion: u64) -> bool {
        let bit = 1 << (portion % 64);
        let word = &self.present[(portion / 64) as usize];
        if word.load(Relaxed) & bit != 0 {
            return true;
        }
        // A portion that the file does not have completely yet will be looked at again.
        if (portion + 1) * PORTION <= self.grown.load(Relaxed) {
            word.fetch_or(bit, Relaxed);
        }
        false
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        for (window, at) in self.at.iter_mut().enumerate() {
            let (at, window) = (*at.get_mut(), window as u64);
            let blocks = match window {
                0..SMALL_WINDOWS => 1 << SMALL,
                w if w < SMALL_WINDOWS + MIDDLE_WINDOWS => 1 << MIDDLE,
                _ => 1 << LARGE,
            };
            if at != 0 {
                // SAFETY: `map` has left it there, and nothing borrows from `self` any more.
                drop(unsafe { Mapping::from_leaked(at as *mut u8, (blocks * BLOCK) as usize) });
            }
        }
    }
}
