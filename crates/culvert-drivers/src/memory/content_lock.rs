//! The lock of a file's content: many readers or one writer, in all processes, recovered from the
//! dead.
//!
//! Who holds or tries it says so in a *cell* of its slot first. A word that stays locked while no
//! living cell names the inode was left by the dead.

use super::{
    core::{Core, Inode},
    host,
};
use core::sync::atomic::{AtomicU32, Ordering::*};
use culvert::{Errno, Result};

const WRITER: u32 = 1 << 31;
/// Somebody sleeps.
const WAITED: u32 = 1 << 30;
/// Somebody finds out whether the holders live: nobody else comes in.
const REPAIRED: u32 = 1 << 29;
/// A writer waits: readers stand back.
const WANTED: u32 = 1 << 28;
const READERS: u32 = WANTED - 1;
/// Looks at a held lock before sleeping.
const SPINS: u32 = 100;

/// A held lock.
pub struct ContentGuard<'a> {
    word: &'a AtomicU32,
    cell: &'a AtomicU32,
    writer: bool,
}

impl Drop for ContentGuard<'_> {
    fn drop(&mut self) {
        let old = match self.writer {
            true => self.word.fetch_and(!(WRITER | WAITED), Release),
            false => self.word.fetch_sub(1, Release),
        };
        if old & WAITED != 0 {
            if !self.writer {
                self.word.fetch_and(!WAITED, Relaxed);
            }
            host::wake(self.word);
        }
        self.cell.store(0, Release);
    }
}

impl Core {
    /// A cell of this process, now naming inode `number`.
    #[inline]
    fn cell(&self, number: u32) -> Result<&AtomicU32> {
        loop {
            if let Some(cell) = self.free_cell(number)? {
                return Ok(cell);
            }
            // More threads in this process than cells: each is held only for one read or write.
            let first = &self.my_slot()?.cells[0];
            host::wait(first, first.load(Relaxed));
        }
    }

    /// The same, if one is free.
    #[inline]
    fn free_cell(&self, number: u32) -> Result<Option<&AtomicU32>> {
        let mut cells = self.my_slot()?.cells.iter();
        Ok(cells.find(|cell| {
            cell.load(Relaxed) == 0 && cell.compare_exchange(0, number, AcqRel, Relaxed).is_ok()
        }))
    }

    /// Locks the content for reading. `interrupted` is asked while waiting, and ends that with
    /// `EINTR`.
    #[inline]
    pub fn lock_shared<'a>(
        &'a self,
        of: &Inode<'a>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<ContentGuard<'a>> {
        self.lock_content(of, interrupted, false)
    }

    /// Locks the content for writing.
    #[inline]
    pub fn lock_exclusive<'a>(
        &'a self,
        of: &Inode<'a>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<ContentGuard<'a>> {
        self.lock_content(of, interrupted, true)
    }

    #[inline(always)]
    fn lock_content<'a>(
        &'a self,
        of: &Inode<'a>,
        interrupted: &dyn Fn() -> bool,
        writer: bool,
    ) -> Result<ContentGuard<'a>> {
        let word = of.lock();
        let others = if writer { READERS } else { WANTED };
        let mut waited = 0;
        loop {
            let cell = self.cell(of.number)?;
            let mut seen = word.load(Relaxed);
            let free = seen & (WRITER | REPAIRED | others) == 0;
            let taken = match writer {
                true => WRITER | seen & WAITED,
                false => seen.wrapping_add(1),
            };
            if free && word.compare_exchange(seen, taken, AcqRel, Relaxed).is_ok() {
                return Ok(ContentGuard { word, cell, writer });
            }
            cell.store(0, Release);
            if !free {
                if writer {
                    seen = word.fetch_or(WANTED, Relaxed) | WANTED;
                }
                self.wait_for_content(of, word, seen, &mut waited, interrupted)?;
            }
        }
    }

    /// Locks the content for writing if that needs no waiting, not even for a cell: who asks may
    /// hold one, as all others may who ask.
    pub fn try_lock_exclusive<'a>(&'a self, of: &Inode<'a>) -> Result<Option<ContentGuard<'a>>> {
        let word = of.lock();
        let Some(cell) = self.free_cell(of.number)? else {
            return Ok(None);
        };
        if word.compare_exchange(0, WRITER, AcqRel, Relaxed).is_ok() {
            return Ok(Some(ContentGuard {
                word,
                cell,
                writer: true,
            }));
        }
        cell.store(0, Release);
        Ok(None)
    }

    #[cold]
    fn wait_for_content(
        &self,
        of: &Inode<'_>,
        word: &AtomicU32,
        seen: u32,
        waited: &mut u32,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<()> {
        *waited += 1;
        if *waited < SPINS {
            core::hint::spin_loop();
            return Ok(());
        }
        if interrupted() {
            return Err(Errno::EINTR.into());
        }
        let marked = seen | WAITED;
        if seen == marked
            || word
                .compare_exchange(seen, marked, Relaxed, Relaxed)
                .is_ok()
        {
            host::wait(word, marked);
            if word.load(Relaxed) == marked {
                self.repair(of.number, None)?;
            }
        }
        Ok(())
    }

    /// Frees the lock of inode `number` when none of its holders lives. `buried` is a slot known to
    /// be dead.
    pub fn repair(&self, number: u32, buried: Option<u32>) -> Result<()> {
        let Ok(of) = self.inode(number) else {
            return Ok(());
        };
        let word = of.lock();
        let _repairing = self.lock_repair()?;
        let seen = word.fetch_or(REPAIRED, AcqRel);
        if self.is_held_by_the_living(number, buried)? {
            word.fetch_and(!REPAIRED, Release);
            host::wake(word);
            return Ok(());
        }
        let repaired = match seen & (WRITER | REPAIRED) {
            0 => Ok(()),
            _ => self.finish_write(&of),
        };
        word.store(0, Release);
        host::wake(word);
        repaired
    }

    fn is_held_by_the_living(&self, number: u32, buried: Option<u32>) -> Result<bool> {
        for slot in 0..self.slots()? {
            let Some(said) = self.slot(slot)? else {
                continue;
            };
            let named = said.cells.iter().any(|cell| cell.load(Acquire) == number);
            if named && buried != Some(slot) && self.is_alive(slot + 1) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
